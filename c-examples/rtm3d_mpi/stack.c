#include "stack.h"

#include <stdlib.h>
#include <string.h>

int stack_open(stack_t *stack, size_t shots, image_t *sum)
{
    *stack = (stack_t){.sum = sum, .shots = shots, .waiting = calloc(shots, sizeof *stack->waiting)};
    return stack->waiting != NULL ? 0 : -1;
}

void stack_close(stack_t *stack)
{
    for (size_t i = stack->next; stack->waiting != NULL && i < stack->shots; i++)
        image_free(&stack->waiting[i]);
    free(stack->waiting);
    stack->waiting = NULL;
}

/* Copies the bits of an image; adding it to zeros would lose the sign of a zero. */
static int keep(image_t *copy, const image_t *image)
{
    const size_t bytes = image->cells * sizeof(real);

    *copy = (image_t){.cells = image->cells, .correlation = malloc(bytes), .illumination = malloc(bytes)};
    if (copy->correlation == NULL || copy->illumination == NULL) {
        image_free(copy);
        return -1;
    }
    memcpy(copy->correlation, image->correlation, bytes);
    memcpy(copy->illumination, image->illumination, bytes);
    return 0;
}

int stack_put(stack_t *stack, size_t shot, const image_t *image)
{
    if (shot != stack->next)
        return keep(&stack->waiting[shot], image);
    image_stack(stack->sum, image);
    while (++stack->next < stack->shots && stack->waiting[stack->next].correlation != NULL) {
        image_stack(stack->sum, &stack->waiting[stack->next]);
        image_free(&stack->waiting[stack->next]);
    }
    return 0;
}
