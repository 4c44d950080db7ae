#define _POSIX_C_SOURCE 200809L
#include "shots.h"

#include <pthread.h>
#include <stdint.h>
#include <time.h>

#include "message.h"
#include "node.h"
#include "stack.h"
#include "transfer.h"

#define NONE (-1)  /* no shot: none is done yet, or none is left */
enum { ROOT = 0, TAG_DONE = 1, TAG_IMAGE, TAG_NEXT };

/* The work list of rank 0, from which its own worker and the other ranks take shots. */
typedef struct desk_t {
    pthread_mutex_t lock;
    stack_t stack;
    size_t next, shots;  /* next shot to be given out, and number of shots */
    int working;         /* whether rank 0's own worker still works */
    int failed;
} desk_t;

typedef struct work_t {
    desk_t *desk;
    shot_worker_t worker;
    void *run;
    image_t *one;
} work_t;

/* Takes the image of shot `done`, unless that is NONE, and returns the next shot, or NONE. */
static int64_t desk_turn(desk_t *desk, int64_t done, const image_t *image)
{
    int64_t next = NONE;

    pthread_mutex_lock(&desk->lock);
    if (done != NONE && stack_put(&desk->stack, (size_t)done, image) != 0) {
        complain("no memory to keep the image of shot %zu until those before it are done; run fewer ranks", (size_t)done + 1);
        desk->failed = 1;
    }
    if (desk->next < desk->shots && !desk->failed)
        next = (int64_t)desk->next++;
    pthread_mutex_unlock(&desk->lock);
    return next;
}

/* The worker of rank 0; calls no MPI. */
static void *work_here(void *data)
{
    work_t *w = data;
    int64_t shot = NONE;
    int failed = 0;

    while (!failed && (shot = desk_turn(w->desk, shot, w->one)) != NONE) {
        image_clear(w->one);
        failed = w->worker(w->run, (size_t)shot, w->one) != 0;
    }
    pthread_mutex_lock(&w->desk->lock);
    w->desk->failed |= failed;
    w->desk->working = 0;
    pthread_mutex_unlock(&w->desk->lock);
    return NULL;
}

static void work_there(MPI_Comm comm, const work_t *w)
{
    int64_t shot = NONE;

    for (;;) {
        MPI_Send(&shot, 1, MPI_INT64_T, ROOT, TAG_DONE, comm);
        if (shot != NONE)
            transfer_send(w->one, ROOT, TAG_IMAGE, comm);
        MPI_Recv(&shot, 1, MPI_INT64_T, ROOT, TAG_NEXT, comm, MPI_STATUS_IGNORE);
        if (shot == NONE)
            return;
        image_clear(w->one);
        if (w->worker(w->run, (size_t)shot, w->one) != 0)
            node_end_all(comm);
    }
}

/* Serves one rank that asks, if there is one, and returns whether there was; `left` counts the
 * ranks that still work. */
static int serve_one(MPI_Comm comm, desk_t *desk, image_t *inbox, int *left)
{
    MPI_Status from;
    int64_t shot;
    int asked;

    MPI_Iprobe(MPI_ANY_SOURCE, TAG_DONE, comm, &asked, &from);
    if (!asked)
        return 0;
    MPI_Recv(&shot, 1, MPI_INT64_T, from.MPI_SOURCE, TAG_DONE, comm, MPI_STATUS_IGNORE);
    if (shot != NONE)
        transfer_receive(inbox, from.MPI_SOURCE, TAG_IMAGE, comm);
    shot = desk_turn(desk, shot, inbox);
    *left -= shot == NONE;
    MPI_Send(&shot, 1, MPI_INT64_T, from.MPI_SOURCE, TAG_NEXT, comm);
    return 1;
}

/* Sleeps between two checks, since a blocking MPI_Recv would take a core from the worker. */
static void serve(MPI_Comm comm, desk_t *desk, image_t *inbox, int ranks)
{
    const struct timespec nap = {.tv_nsec = 200 * 1000};
    int left = ranks - 1, working = 1, failed = 0;

    while ((left > 0 || working) && !failed) {
        const int served = serve_one(comm, desk, inbox, &left);
        pthread_mutex_lock(&desk->lock);
        working = desk->working;
        failed = desk->failed;
        pthread_mutex_unlock(&desk->lock);
        if (!served)
            nanosleep(&nap, NULL);
    }
}

static int image_like(image_t *image, const image_t *other)
{
    const grid_t cells = {.n1 = other->cells, .n2 = 1, .n3 = 1};
    return image_init(image, &cells);
}

static void lead(MPI_Comm comm, int ranks, desk_t *desk, work_t *work)
{
    image_t inbox = {.correlation = NULL};
    pthread_t thread;

    if (ranks == 1) {
        work_here(work);
    } else if (image_like(&inbox, work->one) != 0 || pthread_create(&thread, NULL, work_here, work) != 0) {
        complain("no memory, or no thread, for the images of other ranks");
        desk->failed = 1;
    } else {
        serve(comm, desk, &inbox, ranks);
        if (!desk->failed)
            pthread_join(thread, NULL);
    }
    if (desk->failed)
        node_end_all(comm);
    image_free(&inbox);
}

void shots_migrate(MPI_Comm comm, size_t shots, shot_worker_t worker, void *run, image_t *one, image_t *sum)
{
    desk_t desk = {.shots = shots, .working = 1};
    work_t work = {.desk = &desk, .worker = worker, .run = run, .one = one};
    int rank, ranks;

    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    if (rank != ROOT) {
        work_there(comm, &work);
        return;
    }
    if (stack_open(&desk.stack, shots, sum) != 0) {
        complain("no memory for a list of %zu shots", shots);
        node_end_all(comm);
    }
    pthread_mutex_init(&desk.lock, NULL);
    lead(comm, ranks, &desk, &work);
    pthread_mutex_destroy(&desk.lock);
    stack_close(&desk.stack);
}
