#define _POSIX_C_SOURCE 200809L
#include "shots.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <gpuzip.h>

#include "message.h"
#include "node.h"
#include "restart.h"
#include "stack.h"
#include "transfer.h"

/* In the place of a shot: none is done yet, or none is left; the run stops on request. */
enum { NONE = -1, STOP = -2 };
enum { ROOT = 0, TAG_DONE = 1, TAG_IMAGE, TAG_NEXT, TAG_STOP };

/* The work list of rank 0, from which its own worker and the other ranks take shots. */
typedef struct desk_t {
    pthread_mutex_t lock;
    stack_t stack;
    size_t next, shots;  /* next shot to be given out, and number of shots */
    char *on_disk;       /* [shots]: 1 for a shot that is to be read when its turn to be added comes */
    size_t kept;         /* number of shots that --restart keeps */
    int working;         /* whether rank 0's own worker still works */
    int failed, stopping;
} desk_t;

typedef struct work_t {
    desk_t *desk;
    const kept_t *kept;
    shot_worker_t worker;
    void *run;
    image_t *one;
} work_t;

/* What a rank tells rank 0: the shot that it has done, or NONE or STOP, and whether the shot is kept. */
typedef struct done_t {
    int64_t shot, is_kept;
} done_t;

/* Where shots_is_stopped, which has no argument, asks: a rank other than 0 has no desk. */
static struct {
    MPI_Comm comm;
    desk_t *desk;
} asking;

int shots_is_stopped(void)
{
    int is_stopped = gpuzip_stop_requested(NULL);

    if (asking.desk != NULL) {
        pthread_mutex_lock(&asking.desk->lock);
        is_stopped |= asking.desk->stopping;
        pthread_mutex_unlock(&asking.desk->lock);
    } else if (!is_stopped) {
        MPI_Iprobe(ROOT, TAG_STOP, asking.comm, &is_stopped, MPI_STATUS_IGNORE);
    }
    return is_stopped;
}

/* Takes the image of shot `done`, unless that is NONE or STOP, and returns the next shot, NONE or STOP.
 * An image whose turn to be added has not come waits on the disk if it is kept, and else in memory. */
static int64_t desk_turn(desk_t *desk, done_t done, const image_t *image)
{
    int64_t next = NONE;

    pthread_mutex_lock(&desk->lock);
    desk->stopping |= done.shot == STOP;
    desk->kept += done.shot >= 0 && done.is_kept;
    if (done.shot >= 0 && done.is_kept && (size_t)done.shot != desk->stack.next) {
        desk->on_disk[done.shot] = 1;
    } else if (done.shot >= 0 && stack_put(&desk->stack, (size_t)done.shot, image) != 0) {
        complain("no memory to keep the image of shot %zu until those before it are done; run fewer ranks", (size_t)done.shot + 1);
        desk->failed = 1;
    }
    while (desk->next < desk->shots && desk->on_disk[desk->next])
        desk->next++;
    if (desk->stopping)
        next = STOP;
    else if (desk->next < desk->shots && !desk->failed)
        next = (int64_t)desk->next++;
    pthread_mutex_unlock(&desk->lock);
    return next;
}

/* Adds the next image if that is on the disk; returns whether it was. Only the thread that serves calls
 * this, so that nobody else adds this image meanwhile. */
static int desk_read(desk_t *desk, const kept_t *kept, image_t *inbox)
{
    size_t shot;
    int status;

    pthread_mutex_lock(&desk->lock);
    shot = desk->stack.next;
    status = shot < desk->shots && desk->on_disk[shot] ? 0 : -1;
    pthread_mutex_unlock(&desk->lock);
    if (status != 0)
        return 0;
    status = kept_read(kept, shot, inbox);
    pthread_mutex_lock(&desk->lock);
    if (status != 0 || stack_put(&desk->stack, shot, inbox) != 0)
        desk->failed = 1;
    pthread_mutex_unlock(&desk->lock);
    return 1;
}

/* Computes a shot, and keeps it with --restart. Returns what the worker returned. */
static int compute(const work_t *w, done_t *done)
{
    int status;

    image_clear(w->one);
    status = w->worker(w->run, (size_t)done->shot, w->one);
    done->is_kept = status == 0 && w->kept != NULL && kept_write(w->kept, (size_t)done->shot, w->one);
    if (status == RESTART_STOPPED)
        done->shot = STOP;
    return status;
}

/* The worker of rank 0; calls no MPI. */
static void *work_here(void *data)
{
    work_t *w = data;
    done_t done = {.shot = NONE};
    int failed = 0;

    while (!failed && (done.shot = desk_turn(w->desk, done, w->one)) >= 0)
        failed = compute(w, &done) == RESTART_FAILED;
    pthread_mutex_lock(&w->desk->lock);
    w->desk->failed |= failed;
    w->desk->working = 0;
    pthread_mutex_unlock(&w->desk->lock);
    return NULL;
}

static void work_there(MPI_Comm comm, const work_t *w)
{
    done_t done = {.shot = NONE};

    for (;;) {
        MPI_Send(&done, 2, MPI_INT64_T, ROOT, TAG_DONE, comm);
        if (done.shot >= 0)
            transfer_send(w->one, ROOT, TAG_IMAGE, comm);
        MPI_Recv(&done.shot, 1, MPI_INT64_T, ROOT, TAG_NEXT, comm, MPI_STATUS_IGNORE);
        if (done.shot == STOP)
            MPI_Recv(NULL, 0, MPI_BYTE, ROOT, TAG_STOP, comm, MPI_STATUS_IGNORE);
        if (done.shot < 0)
            return;
        if (compute(w, &done) == RESTART_FAILED)
            node_end_all(comm);
    }
}

/* The other ranks, as rank 0 sees them. */
typedef struct others_t {
    MPI_Comm comm;
    int ranks, left;  /* number of ranks with rank 0; of the other ranks that still work */
    char *at_work;    /* [ranks] */
    int are_told;     /* whether those at work have been sent TAG_STOP */
} others_t;

/* Tells all ranks at work to stop. */
static void tell(others_t *o)
{
    for (int rank = 1; rank < o->ranks; rank++)
        if (o->at_work[rank])
            MPI_Send(NULL, 0, MPI_BYTE, rank, TAG_STOP, o->comm);
    o->are_told = 1;
}

/* Serves one rank that asks, if there is one, and returns whether there was. */
static int serve_one(others_t *o, desk_t *desk, image_t *inbox)
{
    MPI_Status from;
    done_t done;
    int64_t next;
    int asked;

    MPI_Iprobe(MPI_ANY_SOURCE, TAG_DONE, o->comm, &asked, &from);
    if (!asked)
        return 0;
    MPI_Recv(&done, 2, MPI_INT64_T, from.MPI_SOURCE, TAG_DONE, o->comm, MPI_STATUS_IGNORE);
    if (done.shot >= 0)
        transfer_receive(inbox, from.MPI_SOURCE, TAG_IMAGE, o->comm);
    next = desk_turn(desk, done, inbox);
    if (next == STOP && !o->are_told)
        tell(o);
    if (next < 0) {
        o->at_work[from.MPI_SOURCE] = 0;
        o->left--;
    }
    MPI_Send(&next, 1, MPI_INT64_T, from.MPI_SOURCE, TAG_NEXT, o->comm);
    return 1;
}

/* Serves until no rank works and no image is left to be read. Sleeps between two checks, since a
 * blocking MPI_Recv would take a core from the worker. */
static void serve(others_t *o, desk_t *desk, const kept_t *kept, image_t *inbox)
{
    const struct timespec nap = {.tv_nsec = 200 * 1000};
    int working = 1, failed = 0, stopping = 0, is_busy = 1;

    while ((o->left > 0 || working || is_busy) && !failed) {
        is_busy = serve_one(o, desk, inbox) || (!stopping && desk_read(desk, kept, inbox));
        pthread_mutex_lock(&desk->lock);
        working = desk->working;
        failed = desk->failed;
        desk->stopping |= kept != NULL && gpuzip_stop_requested(NULL);
        stopping = desk->stopping;
        pthread_mutex_unlock(&desk->lock);
        if (stopping && !o->are_told)
            tell(o);
        if (!is_busy)
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
    others_t others = {.comm = comm, .ranks = ranks, .left = ranks - 1};
    image_t inbox = {.correlation = NULL};
    pthread_t thread;

    if (ranks == 1 && work->kept == NULL) {
        work_here(work);
    } else if ((others.at_work = malloc((size_t)ranks)) == NULL || image_like(&inbox, work->one) != 0 ||
               pthread_create(&thread, NULL, work_here, work) != 0) {
        complain("no memory, or no thread, for the images of other ranks");
        desk->failed = 1;
    } else {
        memset(others.at_work, 1, (size_t)ranks);
        serve(&others, desk, work->kept, &inbox);
        if (!desk->failed)
            pthread_join(thread, NULL);
    }
    if (desk->failed)
        node_end_all(comm);
    image_free(&inbox);
    free(others.at_work);
}

/* Lists the shots that are kept already. Returns 0, or -1: no memory. */
static int desk_open(desk_t *desk, const kept_t *kept, image_t *sum)
{
    desk->on_disk = calloc(desk->shots, 1);
    if (desk->on_disk == NULL || stack_open(&desk->stack, desk->shots, sum) != 0)
        return -1;
    for (size_t i = 0; kept != NULL && i < desk->shots; i++)
        desk->on_disk[i] = kept->has[i];
    desk->kept = kept != NULL ? kept->count : 0;
    return 0;
}

int shots_migrate(MPI_Comm comm, size_t shots, kept_t *kept, shot_worker_t worker, void *run, image_t *one, image_t *sum)
{
    desk_t desk = {.shots = shots, .working = 1};
    work_t work = {.desk = &desk, .kept = kept, .worker = worker, .run = run, .one = one};
    int rank, ranks, status;

    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    asking.comm = comm;
    if (rank != ROOT) {
        work_there(comm, &work);
        return 0;
    }
    if (desk_open(&desk, kept, sum) != 0) {
        complain("no memory for a list of %zu shots", shots);
        node_end_all(comm);
    }
    pthread_mutex_init(&desk.lock, NULL);
    asking.desk = &desk;
    lead(comm, ranks, &desk, &work);
    status = desk.stack.next < shots ? RESTART_STOPPED : 0;
    if (kept != NULL)
        kept->count = desk.kept;
    asking.desk = NULL;
    pthread_mutex_destroy(&desk.lock);
    stack_close(&desk.stack);
    free(desk.on_disk);
    return status;
}
