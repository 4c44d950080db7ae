/* TSSolve computes u(0), ..., u(n) and calls set() for each. TSAdjointSolve calls get() for step k = n, ..., 1 and then
 * does the adjoint of the step k-1 -> k, for which it needs u(k), the stages of this step, its time and its size.
 *
 * A gpuzip session counts n states from 0 and asks for the adjoint of the step j -> j+1, BACKWARD j, at state j. Saved
 * as state j is
 *   with stages (PETSc's default)  u(j+1) and the stages of the step j -> j+1: BACKWARD j needs nothing else;
 *   -ts_trajectory_solution_only   u(j): before the adjoint, the step j -> j+1 is computed once more for its stages.
 * At step n, u(n) and the stages are those that TSSolve has left. */
#define _DEFAULT_SOURCE /* setenv */
#include "gpuzip_petsc.h"

#include <petsc/private/tsimpl.h>
#include <petscdevice.h>
#include <stdlib.h>
#if PETSC_VERSION_GE(3, 23, 0)
#define OPTIONS PetscOptionItems
#else
#define OPTIONS PetscOptionItems *
#endif

/* The type of a field of PetscScalar, and the values of this type in one PetscScalar. */
#define TYPE (sizeof(PetscReal) == 8 ? GPUZIP_TYPE_F64 : sizeof(PetscReal) == 4 ? GPUZIP_TYPE_F32 : GPUZIP_TYPE_BYTE)
#define VALUES (sizeof(PetscScalar) / (TYPE == GPUZIP_TYPE_BYTE ? 1 : sizeof(PetscReal)))

#define TRY(call) PetscCheck((call) >= 0, PETSC_COMM_SELF, PETSC_ERR_LIB, "%s", gpuzip_last_error())
#define CHECK(condition, ...) PetscCheck(condition, PetscObjectComm((PetscObject)tj), PETSC_ERR_SUP, __VA_ARGS__)

typedef struct {
    gpuzip_config_t config;
    gpuzip_t *session;
    PetscInt steps;         /* option: the number of time steps; 0: known when TSSolve ends; -1: find_steps() */
    PetscInt n, last;       /* time steps of this sweep, 0 while their number is not known; the step of the last set() */
    PetscInt shift;         /* state j has u(j + shift): 1 with stages, 0 without */
    PetscInt count;         /* vectors of a state: u and the stages that are saved */
    Vec *vecs;
    gpuzip_field_t *fields; /* their memory */
    PetscScalar empty;      /* what a rank without values saves */
    PetscReal *times;       /* times[k] is the time of u(k) */
    PetscInt *first;        /* the step k -> k+1 was tried with sizes[first[k]], ..., sizes[first[k+1] - 1] */
    PetscReal *sizes;
    PetscInt room, tries, tried; /* length of `times` and `first`; length of `sizes`; sizes that are known */
    PetscInt replay, end;   /* the sizes for a step that is computed again; equal: TSSolve computes */
    PetscBool over;         /* TSSolve is over */
    PetscErrorCode (*chosen)(TSAdapt, TS, PetscReal, PetscInt *, PetscReal *, PetscBool *, PetscReal *, PetscReal *,
                             PetscReal *); /* the step size control, while choose() stands in for it */
} gz_t;

/* Stands in for the step size control. In TSSolve it keeps the sizes that a step is tried with. A step that is computed
 * again is rejected and accepted with the same sizes: taking back a rejected step leaves rounding errors in u. */
static PetscErrorCode choose(TSAdapt adapt, TS ts, PetscReal h, PetscInt *scheme, PetscReal *next, PetscBool *accept,
                             PetscReal *e, PetscReal *ea, PetscReal *er)
{
    gz_t *gz = (gz_t *)ts->trajectory->data;

    if (gz->replay < gz->end) {
        *accept = (PetscBool)(++gz->replay == gz->end);
        *next = *accept ? h : gz->sizes[gz->replay];
        *e = *ea = *er = -1; /* errors are not estimated */
        return 0;
    }
    if (gz->tried == gz->tries)
        PetscCall(PetscRealloc((gz->tries = 2 * gz->tries + 1024) * sizeof(PetscReal), &gz->sizes));
    gz->sizes[gz->tried++] = h;
    return gz->chosen(adapt, ts, h, scheme, next, accept, e, ea, er);
}

static void listen(gz_t *gz, TSAdapt adapt, PetscBool on)
{
    if (on && adapt->ops->choose != choose) {
        gz->chosen = adapt->ops->choose;
        adapt->ops->choose = choose;
    } else if (!on && adapt->ops->choose == choose)
        adapt->ops->choose = gz->chosen;
}

/* The number of steps of TSSolve, by the arithmetic of TSStep and TSAdaptChoose; 0 if the step size is not constant. */
static PetscErrorCode find_steps(TS ts, PetscInt *steps)
{
    PetscReal t = ts->ptime, h = ts->time_step, left;
    PetscBool constant;

    *steps = 0;
    PetscCall(PetscObjectTypeCompare((PetscObject)ts->adapt, TSADAPTNONE, &constant));
    if (!constant || h <= 0 || (ts->max_time >= PETSC_MAX_REAL && ts->max_steps >= INT32_MAX))
        return 0;
    while (*steps < ts->max_steps && t < ts->max_time && *steps < INT32_MAX) {
        ++*steps;
        t += h;
        left = ts->max_time - t;
        if (ts->exact_final_time != TS_EXACTFINALTIME_MATCHSTEP || left <= 0 || t + h == ts->max_time)
            continue;
        if (t + h > ts->max_time || h * (1 + ts->adapt->matchstepfac[0]) > left)
            h = left;
        else if (h * ts->adapt->matchstepfac[1] > left)
            h = left / 2;
    }
    return 0;
}

/* Lists u and the stages of a state. Where the last stage is u itself, it is left out. */
static PetscErrorCode list(gz_t *gz, TS ts)
{
    PetscInt stages, size;
    Vec *Y;

    PetscCall(TSGetStages(ts, &stages, &Y));
    gz->count = gz->shift ? stages + (ts->stifflyaccurate ? 0 : 1) : 1;
    for (PetscInt i = 0; i < gz->count; i++) {
        gz->vecs[i] = i == 0 ? ts->vec_sol : Y[i - 1];
        PetscCall(VecGetLocalSize(gz->vecs[i], &size));
        gz->fields[i] = (gpuzip_field_t){NULL, (uint64_t)(size ? size : 1) * VALUES, 1, 1, TYPE, 0, 0, 0, {0, 0}};
    }
    return 0;
}

/* Saves or restores a state, in host memory or in the memory of a CUDA device. */
static PetscErrorCode transfer(TSTrajectory tj, TS ts, int32_t state, PetscBool save)
{
    gz_t *gz = (gz_t *)tj->data;
    PetscMemType type;
    PetscDeviceContext stream;
    PetscScalar *data;

    PetscCall(list(gz, ts));
    for (PetscInt i = 0; i < gz->count; i++) {
        if (save)
            PetscCall(VecGetArrayReadAndMemType(gz->vecs[i], (const PetscScalar **)&data, &type));
        else
            PetscCall(VecGetArrayWriteAndMemType(gz->vecs[i], &data, &type));
        gz->fields[i].data = data ? data : &gz->empty;
        CHECK(PetscMemTypeHost(type) || PetscMemTypeCUDA(type), "gpuzip supports host vectors and CUDA vectors");
        if (!PetscMemTypeHost(type)) { /* gpuzip works on the default stream, PETSc perhaps on another one */
            PetscCall(PetscDeviceContextGetCurrentContext(&stream));
            PetscCall(PetscDeviceContextSynchronize(stream));
        }
    }
    TRY((save ? gpuzip_save(gz->session, state, gz->fields, (uint32_t)gz->count, NULL)
              : gpuzip_retrieve(gz->session, state, gz->fields, (uint32_t)gz->count, NULL)));
    TRY(gpuzip_synchronize(gz->session));
    for (PetscInt i = 0; i < gz->count; i++) {
        data = (PetscScalar *)gz->fields[i].data;
        if (save)
            PetscCall(VecRestoreArrayReadAndMemType(gz->vecs[i], (const PetscScalar **)&data));
        else
            PetscCall(VecRestoreArrayWriteAndMemType(gz->vecs[i], &data));
    }
    return 0;
}

/* The session's next action. */
static PetscErrorCode next(TSTrajectory tj, gpuzip_action_t *action)
{
    static const char *const names[] = {"FORWARD", "SAVE", "RESTORE", "BACKWARD", "TERMINATE", "ERROR"};

    TRY(gpuzip_get_action(((gz_t *)tj->data)->session, action));
    if (tj->monitor)
        PetscCall(PetscViewerASCIIPrintf(tj->monitor, "gpuzip: %s %d\n", names[action->type], action->ts));
    return 0;
}

static int32_t least(void *comm, int64_t *value)
{
    return MPI_Allreduce(MPI_IN_PLACE, value, 1, MPI_INT64_T, MPI_MIN, *(MPI_Comm *)comm) != MPI_SUCCESS;
}

static PetscErrorCode end_session(TSTrajectory tj)
{
    gz_t *gz = (gz_t *)tj->data;
    gpuzip_t *session = gz->session;

    gz->session = NULL;
    if (session)
        TRY(gpuzip_finalize(session));
    return 0;
}

/* Makes or prepares the session of a forward sweep, on all ranks with one schedule. */
static PetscErrorCode begin(TSTrajectory tj, TS ts)
{
    gz_t *gz = (gz_t *)tj->data;
    MPI_Comm comm = PetscObjectComm((PetscObject)ts);
    PetscInt n = gz->steps, stages;
    PetscMPIInt ranks;
    gpuzip_status_t status;
    gpuzip_config_t config = gz->config;

    CHECK(tj->adjoint_solve_mode, "The trajectory type gpuzip serves TSAdjointSolve only");
    CHECK(!ts->event, "The trajectory type gpuzip does not support events (TSSetEventHandler)");
    CHECK(config.adjoint_every < 2 && !config.zero_copy, "The trajectory type gpuzip has no adjoint_every or zero_copy");
    if (n < 0)
        PetscCall(find_steps(ts, &n));
    if (n == 0 && config.checkpointing_algorithm == GPUZIP_ALGORITHM_AUTO)
        config.checkpointing_algorithm = GPUZIP_ALGORITHM_ONLINE;
    config.range_actions = 0;
    PetscCall(TSGetStages(ts, &stages, NULL));
    gz->shift = tj->solution_only || stages == 0 ? 0 : 1;
    PetscCall(PetscFree2(gz->vecs, gz->fields));
    PetscCall(PetscMalloc2(stages + 1, &gz->vecs, stages + 1, &gz->fields));
    PetscCall(list(gz, ts));
    if ((n == 0) != (gz->n == 0))
        PetscCall(end_session(tj));
    if (gz->session)
        status = n == 0 ? gpuzip_setup(gz->session) : gpuzip_setup_steps(gz->session, (int32_t)n);
    else
        status = gpuzip_init(&config, (int32_t)n, gz->fields, (uint32_t)gz->count, &gz->session);
    PetscCallMPI(MPI_Comm_size(comm, &ranks));
    if (ranks > 1)
        status = gpuzip_agree(status < 0 ? NULL : gz->session, least, &comm);
    TRY(status);
    gz->n = n;
    gz->tried = gz->replay = gz->end = 0;
    return 0;
}

/* Does what the schedule wants at a state that TSSolve has computed. */
static PetscErrorCode follow(TSTrajectory tj, TS ts, int32_t state)
{
    gz_t *gz = (gz_t *)tj->data;
    gpuzip_action_t action;
    PetscBool end = (PetscBool)(gz->over && gz->n == 0);

    if (gz->shift == 1 || !gz->over) { /* otherwise the state is u(n), which no schedule has */
        if (state > 0)
            PetscCall(next(tj, &action));
        if (end && state > 0)
            TRY(gpuzip_end_forward(gz->session));
        TRY(gpuzip_peek_action(gz->session, &action));
        if (action.type == GPUZIP_ACTION_SAVE) {
            PetscCall(next(tj, &action));
            PetscCall(transfer(tj, ts, state, PETSC_TRUE));
        }
        if (state > 0)
            return 0;
    }
    if (end)
        TRY(gpuzip_end_forward(gz->session));
    return 0;
}

static PetscErrorCode set(TSTrajectory tj, TS ts, PetscInt step, PetscReal time, Vec u)
{
    gz_t *gz = (gz_t *)tj->data;

    (void)u; /* ts->vec_sol */
    if (ts->reason < 0) /* TSSolve has failed, and calls set() for the last step once more */
        return 0;
    if (step == 0)
        PetscCall(begin(tj, ts));
    CHECK(step == 0 || (gz->session && step == gz->last + 1 && !gz->over), "The trajectory type gpuzip needs one TSSolve "
          "from step 0 on; step %" PetscInt_FMT " came after step %" PetscInt_FMT, step, gz->last);
    gz->over = (PetscBool)(ts->reason > 0);
    CHECK(gz->n == 0 || gz->over == (PetscBool)(step == gz->n), "TSSolve %s step %" PetscInt_FMT ", and %" PetscInt_FMT
          " steps were expected: set -ts_trajectory_gpuzip_steps to the number of steps, or to 0 if it is not known before "
          "TSSolve ends", gz->over ? "ends at" : "goes on after", step, gz->n);
    if (step >= gz->room) {
        gz->room = 2 * step + 1024;
        PetscCall(PetscRealloc(gz->room * sizeof(PetscReal), &gz->times));
        PetscCall(PetscRealloc(gz->room * sizeof(PetscInt), &gz->first));
    }
    gz->times[step] = time;
    gz->first[step] = gz->tried;
    gz->last = step;
    listen(gz, ts->adapt, (PetscBool)!gz->over);
    return step < gz->shift ? 0 : follow(tj, ts, (int32_t)(step - gz->shift));
}

/* Computes the step `step` -> `step` + 1 as TSSolve has computed it. */
static PetscErrorCode compute(TSTrajectory tj, TS ts, PetscInt step)
{
    gz_t *gz = (gz_t *)tj->data;

    ts->steps = step;
    ts->ptime = gz->times[step];
    ts->ptime_prev = gz->times[step ? step - 1 : 0];
    ts->time_step = gz->sizes[gz->first[step]];
    gz->replay = gz->first[step];
    gz->end = gz->first[step + 1];
    listen(gz, ts->adapt, PETSC_TRUE);
    PetscCall(TSPreStep(ts));
    PetscCall(TSStep(ts));
    PetscCall(TSPostEvaluate(ts));
    PetscCall(TSPostStep(ts));
    listen(gz, ts->adapt, PETSC_FALSE);
    ts->reason = TS_CONVERGED_ITERATING; /* step n ends TSSolve, not TSAdjointSolve */
    tj->recomps++;
    return 0;
}

static PetscErrorCode get(TSTrajectory tj, TS ts, PetscInt step, PetscReal *time)
{
    gz_t *gz = (gz_t *)tj->data;
    gpuzip_action_t action;

    CHECK(gz->session && gz->over, "TSAdjointSolve needs a TSSolve that has come to its end");
    PetscCall(next(tj, &action));
    while (action.type <= GPUZIP_ACTION_RESTORE) {
        if (action.type == GPUZIP_ACTION_FORWARD)
            PetscCall(compute(tj, ts, action.ts + gz->shift - 1));
        else
            PetscCall(transfer(tj, ts, action.ts, (PetscBool)(action.type == GPUZIP_ACTION_SAVE)));
        if (action.type == GPUZIP_ACTION_RESTORE)
            ts->steprestart = PETSC_TRUE; /* what a method keeps of the step before is of another step */
        PetscCall(next(tj, &action));
    }
    CHECK(step == (action.type == GPUZIP_ACTION_BACKWARD ? action.ts + 1 : 0), "The trajectory type gpuzip gives each step "
          "once, from the last to the first: step %" PetscInt_FMT " was wanted before step %d", step, action.ts + 1);
    if (gz->shift == 0 && step > 0 && step < gz->last)
        PetscCall(compute(tj, ts, step - 1));
    ts->steps = step;
    ts->ptime = *time = gz->times[step];
    if (step > 0) {
        ts->ptime_prev = gz->times[step - 1];
        ts->time_step = ts->ptime_prev - ts->ptime; /* negative, as TSAdjointStep expects it */
    }
    return 0;
}

/* Options become environment variables of gpuzip while it reads its configuration. */
static PetscErrorCode options(TSTrajectory tj, OPTIONS PetscOptionsObject)
{
    static const char *const keys[][3] = {
        {"-ts_trajectory_gpuzip_algorithm", "GPUZIP_CHECKPOINTING_ALGORITHM", "schedule, e.g. auto, revolve"},
        {"-ts_trajectory_gpuzip_snapshots", "GPUZIP_CHECKPOINTING_SNAPS", "most snapshots at a time"},
        {"-ts_trajectory_gpuzip_cache", "GPUZIP_CACHE_CAPACITY", "snapshots in device memory"},
        {"-ts_trajectory_gpuzip_device_budget", "GPUZIP_DEVICE_BUDGET", "bytes of device memory of a rank, e.g. 4G"},
        {"-ts_trajectory_gpuzip_host_budget", "GPUZIP_HOST_BUDGET", "bytes of host memory of a rank"},
        {"-ts_trajectory_gpuzip_disk_budget", "GPUZIP_DISK_BUDGET", "bytes of disk of a rank"},
        {"-ts_trajectory_gpuzip_compressor", "GPUZIP_COMPRESSOR", "codec, e.g. none, lorenzo"},
        {"-ts_trajectory_gpuzip_error_bound", "GPUZIP_ERROR_BOUND", "error bound of the codec"}};
    gz_t *gz = (gz_t *)tj->data;
    char file[PETSC_MAX_PATH_LEN], value[256], *before[8];
    gpuzip_status_t status;
    PetscBool given[9];

    PetscCall(end_session(tj));
    PetscOptionsHeadBegin(PetscOptionsObject, "Checkpoints of gpuzip");
    PetscCall(PetscOptionsInt("-ts_trajectory_gpuzip_steps",
                              "time steps; 0: known when TSSolve ends", NULL, gz->steps, &gz->steps, NULL));
    PetscCall(PetscOptionsString("-ts_trajectory_gpuzip_config",
                                 "configuration file", NULL, "", file, sizeof(file), &given[8]));
    for (int k = 0; k < 8; k++) {
        PetscCall(PetscStrallocpy(getenv(keys[k][1]), &before[k]));
        PetscCall(PetscOptionsString(keys[k][0], keys[k][2], NULL, "", value, sizeof(value), &given[k]));
        if (given[k])
            setenv(keys[k][1], value, 1);
    }
    PetscOptionsHeadEnd();
    status = gpuzip_config_load(given[8] ? file : NULL, &gz->config);
    for (int k = 0; k < 8; k++) {
        if (given[k] && (before[k] ? setenv(keys[k][1], before[k], 1) : unsetenv(keys[k][1])))
            return PETSC_ERR_SYS;
        PetscCall(PetscFree(before[k]));
    }
    TRY(status);
    return 0;
}

static PetscErrorCode destroy(TSTrajectory tj)
{
    gz_t *gz = (gz_t *)tj->data;

    PetscCall(end_session(tj));
    PetscCall(PetscFree2(gz->vecs, gz->fields));
    PetscCall(PetscFree(gz->times));
    PetscCall(PetscFree(gz->first));
    PetscCall(PetscFree(gz->sizes));
    return PetscFree(tj->data);
}

static PetscErrorCode create(TSTrajectory tj, TS ts)
{
    gz_t *gz;

    (void)ts;
    PetscCall(PetscNew(&gz));
    gz->steps = -1;
    tj->data = gz;
    tj->ops->set = set;
    tj->ops->get = get;
    tj->ops->setfromoptions = options;
    tj->ops->reset = end_session;
    tj->ops->destroy = destroy;
    tj->usehistory = PETSC_FALSE;
    TRY(gpuzip_config_load(NULL, &gz->config));
    return 0;
}

PetscErrorCode TSTrajectoryRegisterGpuzip(void)
{
    return TSTrajectoryRegister(TSTRAJECTORYGPUZIP, create);
}

/* PETSc calls this function when -dll_append opens libgpuzip_petsc.so. */
PETSC_EXTERN PetscErrorCode PetscDLLibraryRegister_gpuzip_petsc(void);
PetscErrorCode PetscDLLibraryRegister_gpuzip_petsc(void)
{
    return TSTrajectoryRegisterGpuzip();
}
