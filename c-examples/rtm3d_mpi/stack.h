/* Images of shots that come in any order, added up in the order of shots: the same bits whoever migrated what. */
#ifndef RTM_MPI_STACK_H
#define RTM_MPI_STACK_H

#include "shot.h"

typedef struct stack_t {
    image_t *sum;      /* the caller's: of shots 0 .. next-1 */
    image_t *waiting;  /* [shots]: those that came before their turn */
    size_t shots, next;
} stack_t;

/* 0, or -1: no memory. */
int stack_open(stack_t *stack, size_t shots, image_t *sum);
void stack_close(stack_t *stack);
/* Adds the image of a shot, or keeps a copy until all before it have come. Each shot once. 0, or -1: no memory. */
int stack_put(stack_t *stack, size_t shot, const image_t *image);

#endif
