#include "reference.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "message.h"

size_t reference_bytes(const grid_t *g, size_t steps)
{
    const size_t field = g->points * sizeof(real);
    return steps > SIZE_MAX / field ? 0 : steps * field;
}

/* Bytes of memory that are still available, on Linux; elsewhere SIZE_MAX, so that malloc
 * decides. */
static size_t available_memory(void)
{
    char line[128];
    unsigned long long kib = 0;
    FILE *file = fopen("/proc/meminfo", "r");

    if (file == NULL)
        return SIZE_MAX;
    while (fgets(line, sizeof line, file) != NULL && sscanf(line, "MemAvailable: %llu", &kib) != 1)
        continue;
    fclose(file);
    return kib == 0 ? SIZE_MAX : (size_t)kib * 1024;
}

/* Allocates every field and touches its pages, so that the timed sweeps do not. */
static int allocate(reference_t *r, const grid_t *g, size_t steps)
{
    r->steps = steps;
    r->states = calloc(steps, sizeof *r->states);
    for (size_t ts = 0; r->states != NULL && ts < steps; ts++) {
        r->states[ts] = field_alloc(g);
        if (r->states[ts] == NULL)
            reference_close(r);
    }
    return r->states != NULL ? 0 : -1;
}

int reference_open(reference_t *r, const grid_t *g, size_t steps)
{
    const size_t bytes = reference_bytes(g, steps), available = available_memory();

    /* Checked first: with overcommitment malloc succeeds, and the process is killed later. */
    if (bytes != 0 && bytes <= available && allocate(r, g, steps) == 0)
        return 0;
    return complain("--verify keeps all %zu states of %.1f MB: %.2f GB, and %.2f GB of memory are "
                    "available; use fewer --steps or a smaller model, or leave --verify out",
                    steps, (double)(g->points * sizeof(real)) / 1e6,
                    (double)steps * (double)(g->points * sizeof(real)) / 1e9,
                    (double)available / 1e9);
}

void reference_migrate(reference_t *r, shot_t *shot, image_t *image)
{
    const grid_t *g = &shot->medium->grid;
    const size_t every = shot->survey->every;

    shot_begin(shot);
    field_copy(g, r->states[0], shot->u.curr);
    for (size_t ts = 1; ts < r->steps; ts++) {
        shot_forward(shot, ts, 1);
        field_copy(g, r->states[ts], shot->u.curr);
    }
    for (size_t end = r->steps; end > 0;) {  /* the steps of one BACKWARD are ts to end - 1 */
        const size_t ts = (end - 1) / every * every;
        shot_backward(shot, ts, end - 1, r->states[ts], image);
        end = ts;
    }
}

void reference_close(reference_t *r)
{
    for (size_t ts = 0; r->states != NULL && ts < r->steps; ts++)
        free(r->states[ts]);
    free(r->states);
    r->states = NULL;
}
