#define _DEFAULT_SOURCE  /* madvise */
#define _POSIX_C_SOURCE 200809L
#include "grid.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* a * b, or 0 if the product does not fit (no extent here is 0). */
static size_t product(size_t a, size_t b)
{
    return b != 0 && a > SIZE_MAX / b ? 0 : a * b;
}

int grid_init(grid_t *g, size_t n1, size_t n2, size_t n3, size_t border, double dx)
{
    const size_t pad = border + HALO;
    const size_t pad3 = n3 > 1 ? pad : 0;

    *g = (grid_t){.n1 = n1, .n2 = n2, .n3 = n3, .border = border, .dx = dx,
                  .e1 = n1 + 2 * pad, .e2 = n2 + 2 * pad, .e3 = n3 + 2 * pad3,
                  .o1 = pad, .o2 = pad, .o3 = pad3};
    g->points = product(product(g->e1, g->e2), g->e3);
    return product(g->points, sizeof(double)) == 0 || g->points > PTRDIFF_MAX / sizeof(double) ? -1 : 0;
}

int grid_dims(const grid_t *g)
{
    return g->n3 > 1 ? 3 : 2;
}

size_t grid_index(const grid_t *g, size_t i1, size_t i2, size_t i3)
{
    return (i1 + g->o1) + g->e1 * ((i2 + g->o2) + g->e2 * (i3 + g->o3));
}

size_t grid_nearest(size_t i, size_t origin, size_t n)
{
    return i < origin ? 0 : (i - origin < n ? i - origin : n - 1);
}

size_t grid_strip(const grid_t *g, unsigned face, size_t extent[3])
{
    const size_t n[3] = {g->n1, g->n2, g->n3};
    size_t at[3] = {g->o1, g->o2, g->o3};

    for (unsigned axis = 0; axis < 3; axis++)
        extent[axis] = axis == face / 2 ? HALO : n[axis];
    if (face % 2 == 0)
        at[face / 2] -= HALO;
    else
        at[face / 2] += n[face / 2];
    return at[0] + g->e1 * (at[1] + g->e2 * at[2]);
}

/* Huge pages make 3-D steps about 20 % faster where the system has them; prefetching is faster
 * only with huge pages. */
real *field_alloc(const grid_t *g)
{
    const size_t page = (size_t)2 << 20, bytes = g->points * sizeof(real);
    void *memory;
    real *field;

    if (posix_memalign(&memory, page, bytes) != 0)
        return NULL;
#ifdef MADV_HUGEPAGE
    madvise(memory, bytes, MADV_HUGEPAGE);  /* a hint: its failure changes nothing */
#endif
    field = memory;
    /* Each thread first touches the lines that it will compute, so that these lines lie in memory
     * near the thread. */
#pragma omp parallel for schedule(static)
    for (size_t line = 0; line < g->e2 * g->e3; line++)
        memset(field + line * g->e1, 0, g->e1 * sizeof *field);
    return field;
}

void field_copy(const grid_t *g, real *to, const real *from)
{
#pragma omp parallel for schedule(static)
    for (size_t line = 0; line < g->e2 * g->e3; line++)
        memcpy(to + line * g->e1, from + line * g->e1, g->e1 * sizeof *to);
}
