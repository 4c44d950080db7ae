/* Adds images of shots in the order of the shots, whatever the order of their arrival, so that
 * the bits do not depend on which rank migrated a shot. */
#ifndef RTM_MPI_STACK_H
#define RTM_MPI_STACK_H

#include "shot.h"

typedef struct stack_t {
    image_t *sum;      /* sum of shots 0 .. next-1; the caller's memory */
    image_t *waiting;  /* [shots]: images that came before their turn */
    size_t shots, next;
} stack_t;

/* Allocates the stack. Returns 0, or -1: no memory. */
int stack_open(stack_t *stack, size_t shots, image_t *sum);
void stack_close(stack_t *stack);
/* Adds the image of a shot, or keeps a copy until the images of all shots before it have come.
 * Call it once for each shot. Returns 0, or -1: no memory. */
int stack_put(stack_t *stack, size_t shot, const image_t *image);

#endif
