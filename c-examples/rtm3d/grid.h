/*
 * The grid of a run, and the fields on it. The sources compile in FP32 (default) and in FP64
 * (-DRTM_REAL=double).
 */
#ifndef RTM_GRID_H
#define RTM_GRID_H

#include <stddef.h>

#ifndef RTM_REAL
#define RTM_REAL float
#endif
typedef RTM_REAL real;

/* Zero cells that the stencil reads beyond the sponge: a Dirichlet boundary. */
#define HALO 4

/*
 * Layout of every field: the cells of the model, surrounded by `border` sponge cells,
 * surrounded by HALO cells, on every side of every dimension in use. n1 is depth and the
 * fastest index; n3 == 1 means 2-D.
 */
typedef struct grid_t {
    size_t n1, n2, n3;  /* cells of the model */
    size_t border;      /* sponge cells per side */
    double dx;          /* grid spacing in metres, equal in all directions */
    size_t e1, e2, e3;  /* extents of the arrays */
    size_t o1, o2, o3;  /* position of model cell (0, 0, 0) in the arrays */
    size_t points;      /* e1 * e2 * e3 */
} grid_t;

/* Fills `g`. Returns 0, or -1 if the arrays could not be addressed. */
int grid_init(grid_t *g, size_t n1, size_t n2, size_t n3, size_t border, double dx);
/* Number of dimensions in use: 2 or 3. */
int grid_dims(const grid_t *g);
/* Index into a field of model cell (i1, i2, i3). */
size_t grid_index(const grid_t *g, size_t i1, size_t i2, size_t i3);
/* The cell of the model, along one axis, nearest to array position i: the model's edge values
 * continue into sponge and halo. */
size_t grid_nearest(size_t i, size_t origin, size_t n);
/* The strips of a grid: the HALO sponge cells next to each face of the model, which a step inside the model reads
 * beside the model. Returns the index of the first cell of strip number `face`, below 2 grid_dims(g), and sets its
 * extents. */
size_t grid_strip(const grid_t *g, unsigned face, size_t extent[3]);
/* Allocates a field of g->points zeros, to be freed with free(); NULL: no memory. */
real *field_alloc(const grid_t *g);
void field_copy(const grid_t *g, real *to, const real *from);

#endif
