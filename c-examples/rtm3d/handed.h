/*
 * Zero copy: the states of a migration lie in memory of the session, and nothing is copied to save
 * or retrieve them, with one exception. A step writes u(t+1) over u(t-1) where both belong to the
 * program. These functions say where a step writes instead if u(t-1) is part of a snapshot, or if
 * u(t+1) is to be part of the next snapshot:
 *
 * - The last two steps before a SAVE write u(ts-1) and u(ts) into the slot of the snapshot.
 * - A single step between two snapshots writes u(ts) into the slot, and u(ts-1), which is part of
 *   the snapshot before, is copied: half a copy of the state.
 * - All other steps write to the program's own two buffers, and so the live state leaves a snapshot
 *   after two steps.
 *
 * The session joins FORWARD actions (range_actions = 1), so that the end of a range is known.
 */
#ifndef RTM_HANDED_H
#define RTM_HANDED_H

#include <gpuzip.h>

#include "propagator.h"

typedef struct handed_t {
    gpuzip_t *session;
    void *stream;      /* CUDA stream of the program; NULL on the CPU */
    wavefield_t own;   /* the program's buffers */
    wavefield_t slot;  /* the slot of the next SAVE; NULL: none is handed out */
    wavefield_t held;  /* the snapshot of the last RESTORE; NULL: none, or given back */
    int32_t held_ts;   /* time step of that snapshot */
} handed_t;

/* Begins a shot: `u` is state 0 in the program's own buffers. */
void handed_begin(handed_t *h, gpuzip_t *session, const wavefield_t *u, void *stream);
/* Asks for the slot of u(ts). Its halo may have any values. */
gpuzip_status_t handed_slot(handed_t *h, int32_t ts);
/* Whether step `ts` of the FORWARD action is the one before which the slot has to be asked for. */
int handed_is_due(const gpuzip_action_t *action, int32_t ts);
/* Whether u(ts-1) has to be copied to h->slot.prev after step `ts` of the FORWARD action. */
int handed_is_half(const gpuzip_action_t *action, int32_t ts);
/* Returns the memory to which step `ts` of the FORWARD action writes u(ts); `u` is u(ts-1). */
real *handed_target(const handed_t *h, const gpuzip_action_t *action, int32_t ts, const wavefield_t *u);
/* Saves the live state, which is in h->slot. */
gpuzip_status_t handed_commit(handed_t *h, int32_t ts);
/* Sets `u` to the memory of the snapshot of u(ts). */
gpuzip_status_t handed_acquire(handed_t *h, int32_t ts, wavefield_t *u);
/* Gives the snapshot of the last RESTORE back if no time level of `u` is part of it; NULL: if there
 * is such a snapshot. */
gpuzip_status_t handed_give_back(handed_t *h, const wavefield_t *u);

#endif
