/* A picture of a slice with what is needed to read it: a title, axes in metres or kilometres, and a grey scale beside it. */
#ifndef RTM_PLOT_H
#define RTM_PLOT_H

#include <stddef.h>

/* A range of values along an axis, and what they are. */
typedef struct axis_t {
    const char *name;  /* "distance" */
    const char *unit;  /* "m": kilometres where that is easier to read; "" none */
    double from, to;
} axis_t;

typedef struct plot_t {
    const char *title;
    size_t width, height;  /* cells of the slice */
    const float *cells;    /* row by row from the top left */
    axis_t x, y;           /* y downwards */
    axis_t grey;           /* value of black, value of white */
} plot_t;

/* Writes a PNG of at most some 1000 x 1000 pixels, whatever the slice has; 0 or -1. */
int plot_write(const plot_t *plot, const char *path);

#endif
