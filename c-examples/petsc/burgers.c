static const char help[] =
  "The gradient of half the squared norm of u(T) with respect to u(0), for Burgers' equation\n"
  "u_t + u u_x = v u_xx on the unit circle. Options: -points N, -sweeps N, -gradient FILE, and PETSc's for TS.\n";

#include "gpuzip_petsc.h"

#include <petscdmda.h>

#define VISCOSITY 0.01

typedef struct {
  DM       grid;
  PetscInt steps; /* calls of TSStep */
} App;

/* F(u) = - u u_x + v u_xx, with central differences. */
static PetscErrorCode rhs(TS ts, PetscReal t, Vec u, Vec f, void *user)
{
  App               *app = (App *)user;
  DMDALocalInfo      grid;
  Vec                halo;
  const PetscScalar *x;
  PetscScalar       *y;
  PetscInt           i;

  PetscFunctionBeginUser;
  (void)ts;
  (void)t;
  PetscCall(DMDAGetLocalInfo(app->grid, &grid));
  PetscCall(DMGetLocalVector(app->grid, &halo));
  PetscCall(DMGlobalToLocal(app->grid, u, INSERT_VALUES, halo));
  PetscCall(DMDAVecGetArrayRead(app->grid, halo, &x));
  PetscCall(DMDAVecGetArray(app->grid, f, &y));
  for (i = grid.xs; i < grid.xs + grid.xm; i++)
    y[i] = -x[i] * (x[i + 1] - x[i - 1]) * (grid.mx / 2.0) + VISCOSITY * (x[i + 1] - 2.0 * x[i] + x[i - 1]) * (PetscReal)grid.mx * grid.mx;
  PetscCall(DMDAVecRestoreArray(app->grid, f, &y));
  PetscCall(DMDAVecRestoreArrayRead(app->grid, halo, &x));
  PetscCall(DMRestoreLocalVector(app->grid, &halo));
  PetscFunctionReturn(0);
}

static PetscErrorCode jacobian(TS ts, PetscReal t, Vec u, Mat A, Mat B, void *user)
{
  App               *app = (App *)user;
  DMDALocalInfo      grid;
  Vec                halo;
  const PetscScalar *x;
  PetscInt           i;

  PetscFunctionBeginUser;
  (void)ts;
  (void)t;
  PetscCall(DMDAGetLocalInfo(app->grid, &grid));
  PetscCall(DMGetLocalVector(app->grid, &halo));
  PetscCall(DMGlobalToLocal(app->grid, u, INSERT_VALUES, halo));
  PetscCall(DMDAVecGetArrayRead(app->grid, halo, &x));
  for (i = grid.xs; i < grid.xs + grid.xm; i++) {
    PetscReal   d = VISCOSITY * (PetscReal)grid.mx * grid.mx, a = grid.mx / 2.0;
    MatStencil  row = {0}, columns[3] = {{0}, {0}, {0}};
    PetscScalar values[3];

    row.i        = i;
    columns[0].i = i - 1;
    columns[1].i = i;
    columns[2].i = i + 1;
    values[0]    = d + x[i] * a;
    values[1]    = -2.0 * d - (x[i + 1] - x[i - 1]) * a;
    values[2]    = d - x[i] * a;
    PetscCall(MatSetValuesStencil(B, 1, &row, 3, columns, values, INSERT_VALUES));
  }
  PetscCall(DMDAVecRestoreArrayRead(app->grid, halo, &x));
  PetscCall(DMRestoreLocalVector(app->grid, &halo));
  PetscCall(MatAssemblyBegin(B, MAT_FINAL_ASSEMBLY));
  PetscCall(MatAssemblyEnd(B, MAT_FINAL_ASSEMBLY));
  if (A != B) {
    PetscCall(MatAssemblyBegin(A, MAT_FINAL_ASSEMBLY));
    PetscCall(MatAssemblyEnd(A, MAT_FINAL_ASSEMBLY));
  }
  PetscFunctionReturn(0);
}

static PetscErrorCode count(TS ts)
{
  App *app;

  PetscFunctionBeginUser;
  PetscCall(TSGetApplicationContext(ts, &app));
  app->steps++;
  PetscFunctionReturn(0);
}

static PetscErrorCode begin(DM grid, Vec u)
{
  DMDALocalInfo info;
  PetscScalar  *x;
  PetscInt      i;

  PetscFunctionBeginUser;
  PetscCall(DMDAGetLocalInfo(grid, &info));
  PetscCall(DMDAVecGetArray(grid, u, &x));
  for (i = info.xs; i < info.xs + info.xm; i++) x[i] = 1.0 + 0.5 * PetscSinReal(2.0 * PETSC_PI * i / info.mx);
  PetscCall(DMDAVecRestoreArray(grid, u, &x));
  PetscFunctionReturn(0);
}

/* One forward and one reverse sweep; `lambda` becomes the gradient. */
static PetscErrorCode gradient(TS ts, App *app, PetscReal dt, Vec u, Vec lambda)
{
  PetscFunctionBeginUser;
  PetscCall(begin(app->grid, u));
  PetscCall(TSSetTime(ts, 0.0));
  PetscCall(TSSetStepNumber(ts, 0));
  PetscCall(TSSetTimeStep(ts, dt));
  PetscCall(TSSolve(ts, u));
  PetscCall(VecCopy(u, lambda));
  PetscCall(TSAdjointSolve(ts));
  PetscFunctionReturn(0);
}

int main(int argc, char **argv)
{
  App         app = {NULL, 0};
  TS          ts;
  Mat         J;
  Vec         u, lambda;
  PetscInt    points = 64, sweeps = 1, k;
  PetscReal   dt, norm;
  char        file[PETSC_MAX_PATH_LEN];
  PetscBool   set;
  PetscViewer viewer;

  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  PetscCall(TSTrajectoryRegisterGpuzip()); /* the only line for gpuzip */
  PetscCall(PetscOptionsGetInt(NULL, NULL, "-points", &points, NULL));
  PetscCall(PetscOptionsGetInt(NULL, NULL, "-sweeps", &sweeps, NULL));
  PetscCall(DMDACreate1d(PETSC_COMM_WORLD, DM_BOUNDARY_PERIODIC, points, 1, 1, NULL, &app.grid));
  PetscCall(DMSetUp(app.grid));
  PetscCall(DMCreateGlobalVector(app.grid, &u));
  PetscCall(VecDuplicate(u, &lambda));
  PetscCall(DMSetMatType(app.grid, MATAIJ));
  PetscCall(DMCreateMatrix(app.grid, &J));

  PetscCall(TSCreate(PETSC_COMM_WORLD, &ts));
  PetscCall(TSSetApplicationContext(ts, &app));
  PetscCall(TSSetType(ts, TSRK));
  PetscCall(TSSetRHSFunction(ts, NULL, rhs, &app));
  PetscCall(TSSetRHSJacobian(ts, J, J, jacobian, &app));
  PetscCall(TSSetPreStep(ts, count));
  PetscCall(TSSetMaxTime(ts, 0.5));
  PetscCall(TSSetTimeStep(ts, 2e-3));
  PetscCall(TSSetExactFinalTime(ts, TS_EXACTFINALTIME_MATCHSTEP));
  PetscCall(TSSetSaveTrajectory(ts));
  PetscCall(TSSetFromOptions(ts));
  PetscCall(TSSetCostGradients(ts, 1, &lambda, NULL));
  PetscCall(TSGetTimeStep(ts, &dt));
  for (k = 0; k < sweeps; k++) {
    app.steps = 0;
    PetscCall(gradient(ts, &app, dt, u, lambda));
  }
  PetscCall(VecNorm(lambda, NORM_2, &norm));
  PetscCall(PetscPrintf(PETSC_COMM_WORLD, "norm %.17g, time steps computed %" PetscInt_FMT "\n", (double)norm, app.steps));
  PetscCall(PetscOptionsGetString(NULL, NULL, "-gradient", file, sizeof(file), &set));
  if (set) {
    PetscCall(PetscViewerBinaryOpen(PETSC_COMM_WORLD, file, FILE_MODE_WRITE, &viewer));
    PetscCall(VecView(lambda, viewer));
    PetscCall(PetscViewerDestroy(&viewer));
  }
  PetscCall(TSDestroy(&ts));
  PetscCall(MatDestroy(&J));
  PetscCall(VecDestroy(&lambda));
  PetscCall(VecDestroy(&u));
  PetscCall(DMDestroy(&app.grid));
  PetscCall(PetscFinalize());
  return 0;
}
