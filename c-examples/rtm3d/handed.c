#include "handed.h"

#include <string.h>

void handed_begin(handed_t *h, gpuzip_t *session, const wavefield_t *u, void *stream)
{
    memset(h, 0, sizeof *h);
    h->session = session;
    h->stream = stream;
    h->own = *u;
}

gpuzip_status_t handed_slot(handed_t *h, int32_t ts)
{
    void *memory[2] = {NULL, NULL};
    const gpuzip_status_t status = gpuzip_save_begin(h->session, ts, memory, 2, h->stream);

    if (status >= 0) {
        h->slot.curr = (real *)memory[0];
        h->slot.prev = (real *)memory[1];
    }
    return status;
}

int handed_is_due(const gpuzip_action_t *action, int32_t ts)
{
    const int32_t last_but_one = action->ts_end - 1;

    return (action->flags & GPUZIP_FLAG_NEXT_IS_SAVE) && ts == (action->ts < last_but_one ? last_but_one : action->ts);
}

int handed_is_half(const gpuzip_action_t *action, int32_t ts)
{
    return handed_is_due(action, ts) && ts == action->ts_end;
}

real *handed_target(const handed_t *h, const gpuzip_action_t *action, int32_t ts, const wavefield_t *u)
{
    if ((action->flags & GPUZIP_FLAG_NEXT_IS_SAVE) && ts >= action->ts_end - 1)
        return ts == action->ts_end ? h->slot.curr : h->slot.prev;
    return u->curr == h->own.curr ? h->own.prev : h->own.curr;
}

gpuzip_status_t handed_commit(handed_t *h, int32_t ts)
{
    const gpuzip_status_t status = gpuzip_save_commit(h->session, ts, h->stream);

    memset(&h->slot, 0, sizeof h->slot);
    memset(&h->held, 0, sizeof h->held);  /* a save takes it back */
    return status;
}

gpuzip_status_t handed_acquire(handed_t *h, int32_t ts, wavefield_t *u)
{
    void *memory[2] = {NULL, NULL};
    const gpuzip_status_t status = gpuzip_retrieve_acquire(h->session, ts, memory, 2, h->stream);

    if (status >= 0) {
        h->held.curr = (real *)memory[0];
        h->held.prev = (real *)memory[1];
        h->held_ts = ts;
        *u = h->held;
    }
    return status;
}

gpuzip_status_t handed_give_back(handed_t *h, const wavefield_t *u)
{
    const wavefield_t held = h->held;

    if (held.curr == NULL || (u != NULL && (u->curr == held.curr || u->prev == held.curr || u->prev == held.prev)))
        return GPUZIP_OK;
    memset(&h->held, 0, sizeof h->held);
    return gpuzip_retrieve_release(h->session, h->held_ts, h->stream);
}
