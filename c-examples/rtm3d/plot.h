/* Draws a slice with a title, axes in metres or kilometres, and a grey scale beside it. */
#ifndef RTM_PLOT_H
#define RTM_PLOT_H

#include <stddef.h>

/* A range of values along an axis, with their name and unit. */
typedef struct axis_t {
    const char *name;  /* "distance" */
    const char *unit;  /* "m", or "" for none; of long axes in metres, both are labelled in kilometres */
    double from, to;
} axis_t;

typedef struct plot_t {
    const char *title;
    size_t width, height;  /* cells of the slice */
    const float *cells;    /* row by row from the top left */
    axis_t x, y;           /* y downwards */
    axis_t grey;           /* value of black, value of white */
    const char *note;      /* what was done to the values, below the picture; NULL: nothing */
} plot_t;

/* Writes a PNG of at most about 1000 x 1000 pixels, whatever the number of cells. Returns 0 or
 * -1. */
int plot_write(const plot_t *plot, const char *path);

#endif
