/* Tests that two ranks whose slabs differ by one plane take the same actions after gpuzip_agree.
 * With the argument `fail`, rank 1 has too small a budget for a session, and the call fails on both
 * ranks. */
#include <gpuzip.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>

enum { PLANE = 9984, STEPS = 200 };

/* Number of reductions that gpuzip_agree has made on this rank. */
static int calls;

static int32_t least(void *world, int64_t *value)
{
    calls++;
    return MPI_Allreduce(MPI_IN_PLACE, value, 1, MPI_INT64_T, MPI_MIN, *(MPI_Comm *)world) != MPI_SUCCESS;
}

static int failed(gpuzip_status_t status)
{
    if (status < 0)
        fprintf(stderr, "%s\n", gpuzip_last_error());
    return status < 0;
}

/* Takes all actions of the session's schedule and compares each with the other rank's, as an
 * exchange of halos would need. Returns 0 if both ranks have the same actions. */
static int in_step(gpuzip_t *session, MPI_Comm world)
{
    gpuzip_schedule_t *schedule;
    gpuzip_action_t action;
    int64_t mine[2], both[2];

    if (failed(gpuzip_get_schedule(session, &schedule)))
        return -1;
    do {
        if (failed(gpuzip_schedule_get_action(schedule, &action)))
            return -1;
        mine[0] = (int64_t)action.type << 32 | action.ts;
        mine[1] = -mine[0];
        MPI_Allreduce(mine, both, 2, MPI_INT64_T, MPI_MIN, world);
        if (both[0] != -both[1])
            return -1;
    } while (action.type != GPUZIP_ACTION_TERMINATE);
    return gpuzip_schedule_release(schedule);
}

int main(int argc, char **argv)
{
    MPI_Comm world = MPI_COMM_WORLD;
    gpuzip_summary_t before, after;
    gpuzip_config_t config;
    gpuzip_field_t field;
    gpuzip_t *session = NULL;
    int rank, others, status;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(world, &rank);
    memset(&field, 0, sizeof field);
    memset(&before, 0, sizeof before);
    before.struct_size = sizeof before;
    after = before;
    field.n1 = PLANE;
    field.n2 = rank == 0 ? 100 : 101;
    field.n3 = 1;
    gpuzip_config_init(&config);
    config.checkpointing_algorithm = GPUZIP_ALGORITHM_REVOLVE;
    config.backend = 1;
    config.host_budget = argc > 1 && strcmp(argv[1], "fail") == 0 && rank == 1 ? 1 : 80000000;
    if (!failed(gpuzip_init(&config, STEPS, &field, 1, &session)))
        failed(gpuzip_summary(session, &before));
    status = failed(gpuzip_agree(session, least, &world)) ? 3 : 0;
    if (calls != 5)
        status = 4;
    if (status == 0 && (failed(gpuzip_summary(session, &after)) || in_step(session, world) != 0))
        status = 5;
    others = before.snapshots;
    MPI_Bcast(&others, 1, MPI_INT, 1, world);
    if (rank == 0 && status == 0)
        printf("%d and %d snapshots, then %d; in step\n", before.snapshots, others, after.snapshots);
    if (session != NULL && failed(gpuzip_finalize(session)))
        status = 6;
    /* mpirun exits with the status of one rank; both ranks have the same status. */
    MPI_Finalize();
    return status;
}
