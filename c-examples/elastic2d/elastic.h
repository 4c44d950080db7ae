/*
 * The physics that before.c, after.c, zero_copy.c and mpi.c share: 2-D elastic waves, and the gradient
 * of a misfit of seismograms with respect to the Lame parameters. It knows nothing of checkpointing.
 *
 * Particle velocity v and stress t on a staggered grid with rigid walls (Virieux, Geophysics 51, 1986):
 *
 *     rho v_t = div t,   t_t = lambda tr(e) I + 2 mu e + source,   e = (grad v + grad v') / 2
 *
 * A time step computes v(ts+1) from v(ts) and t(ts), then t(ts+1) from t(ts) and v(ts+1). The adjoint
 * step is its exact transpose. With USE_MPI each rank has some columns of the grid.
 */
#ifndef ELASTIC_H
#define ELASTIC_H

#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef USE_MPI
#include <mpi.h>
#endif
#ifndef REAL
#define REAL float
#endif
typedef REAL real;

enum { VX, VZ, TXX, TZZ, TXZ, FIELDS };
enum { NX = 160, NZ = 120, STEPS = 600, SOURCE_X = 80, SOURCE_Z = 4, RECEIVER_Z = 6 };

/* A state: each field has nx + 2 columns of NZ values. Columns 0 and nx + 1 belong to neighbouring
 * ranks or to the walls; rows 0 and NZ - 1 belong to the walls, where everything stays 0. */
typedef struct { real *f[FIELDS]; } state_t;

static int nx = NX, first = 1;                 /* columns of this rank, and the first of them */
static real *buoyancy, *lambda, *mu;           /* times dt / dx; 0 at the walls */
static real *gradient[2];                      /* by lambda and by mu, in units of dt / dx */
static real *observed, *computed;              /* seismograms: nx + 2 receivers at each time step */
static int recorded;                           /* time steps of `computed` so far */
static double misfit;

static size_t values(void) { return (size_t)(nx + 2) * NZ; }

static real *zeros(size_t count)
{
    real *array = calloc(count, sizeof(real));
    if (!array) exit((fprintf(stderr, "no memory for %zu values\n", count), 1));
    return array;
}

static state_t new_state(void)
{
    state_t u;
    for (int k = 0; k < FIELDS; k++) u.f[k] = zeros(values());
    return u;
}

/* Sets lambda and mu, 1.25 times as stiff inside a disc if `with_disc`, for cells of 10 m and steps of 1 ms. */
static void set_medium(int with_disc)
{
    const double scale = 1e-3 / 10.0, rho = 2200.0, vp = 3000.0, vs = 1700.0;
    for (int i = 0; i < nx + 2; i++)
        for (int j = 1; j < NZ - 1; j++) {
            int x = first + i - 1, is_wall = x < 1 || x > NX, is_disc = hypot(x - 70.0, j - 70.0) < 15.0;
            double stiff = is_wall ? 0.0 : (with_disc && is_disc ? 1.25 : 1.0) * rho * scale;
            buoyancy[i * NZ + j] = (real)(is_wall ? 0.0 : scale / rho);
            lambda[i * NZ + j] = (real)(stiff * (vp * vp - 2.0 * vs * vs));
            mu[i * NZ + j] = (real)(stiff * vs * vs);
        }
}

/* Makes the outermost columns those of the neighbouring ranks. */
static void exchange(real *field)
{
#ifdef USE_MPI
    MPI_Datatype type = sizeof(real) == sizeof(float) ? MPI_FLOAT : MPI_DOUBLE;
    int left = first > 1, right = first + nx <= NX, rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Sendrecv(field + NZ, NZ, type, left ? rank - 1 : MPI_PROC_NULL, 0, field + (nx + 1) * NZ, NZ, type,
                 right ? rank + 1 : MPI_PROC_NULL, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Sendrecv(field + nx * NZ, NZ, type, right ? rank + 1 : MPI_PROC_NULL, 1, field, NZ, type,
                 left ? rank - 1 : MPI_PROC_NULL, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
#else
    (void)field;
#endif
}

/* Sets the walls of a state to 0. */
static void clear_walls(const state_t *u)
{
    for (int k = 0; k < FIELDS; k++)
        for (int i = 0; i < nx + 2; i++) {
            int x = first + i - 1, is_wall = x < 1 || x > NX;
            for (int j = 0; j < NZ; j += is_wall ? 1 : NZ - 1) u->f[k][i * NZ + j] = 0;
        }
}

/* Computes the velocities of the next time step. */
static void next_velocity(const state_t *u, real *vx, real *vz)
{
    const real *txx = u->f[TXX], *tzz = u->f[TZZ], *txz = u->f[TXZ];
    exchange(u->f[TXX]);
    exchange(u->f[TXZ]);
    for (int i = 1; i <= nx; i++)
        for (int j = 1, c = i * NZ + 1; j < NZ - 1; j++, c++) {
            vx[c] = u->f[VX][c] + buoyancy[c] * (txx[c] - txx[c - NZ] + txz[c] - txz[c - 1]);
            vz[c] = u->f[VZ][c] + buoyancy[c] * (txz[c + NZ] - txz[c] + tzz[c + 1] - tzz[c]);
        }
    exchange(vx);
    exchange(vz);
}

/* A Ricker wavelet of 15 Hz and 1 MPa. */
static real wavelet(int ts)
{
    double t = 3.14159265358979 * 15.0 * (1e-3 * ts - 0.08);
    return (real)(1e6 * (1.0 - 2.0 * t * t) * exp(-t * t));
}

/* Records the seismograms of u(ts+1) when the step is computed for the first time. */
static void record(const real *vz, int ts)
{
    if (ts < recorded) return;
    for (int i = 1; i <= nx; i++) computed[ts * (nx + 2) + i] = vz[i * NZ + RECEIVER_Z];
    recorded = ts + 1;
}

/* Computes `next`, u(ts+1), from u(ts); `next` may be `u`. */
static void step(const state_t *u, const state_t *next, int ts)
{
    const real *vx = next->f[VX], *vz = next->f[VZ];
    if (next->f[VX] != u->f[VX]) clear_walls(next);
    next_velocity(u, next->f[VX], next->f[VZ]);
    for (int i = 1; i <= nx; i++)
        for (int j = 1, c = i * NZ + 1; j < NZ - 1; j++, c++) {
            real exx = vx[c + NZ] - vx[c], ezz = vz[c] - vz[c - 1];
            next->f[TXX][c] = u->f[TXX][c] + lambda[c] * (exx + ezz) + 2 * mu[c] * exx;
            next->f[TZZ][c] = u->f[TZZ][c] + lambda[c] * (exx + ezz) + 2 * mu[c] * ezz;
            next->f[TXZ][c] = u->f[TXZ][c] + mu[c] * (vx[c + 1] - vx[c] + vz[c] - vz[c - NZ]);
        }
    if (SOURCE_X >= first && SOURCE_X < first + nx) {
        size_t at = (size_t)(SOURCE_X - first + 1) * NZ + SOURCE_Z;
        next->f[TXX][at] += wavelet(ts);
        next->f[TZZ][at] += wavelet(ts);
    }
    record(vz, ts);
}

/* Takes the adjoint state from ts+1 to ts and adds to the gradient; u(ts) is only read. */
static void adjoint_step(const state_t *u, const state_t *adjoint, int ts)
{
    static real *vx, *vz;
    real *avx = adjoint->f[VX], *avz = adjoint->f[VZ], *axx = adjoint->f[TXX], *azz = adjoint->f[TZZ], *axz = adjoint->f[TXZ];
    if (!vx) vx = zeros(values()), vz = zeros(values());
    next_velocity(u, vx, vz);
    record(vz, ts); /* u(n) is nowhere else */
    for (int i = 1; i <= nx; i++) {
        real residual = computed[ts * (nx + 2) + i] - observed[ts * (nx + 2) + i];
        misfit += 0.5 * residual * residual;
        avz[i * NZ + RECEIVER_Z] += residual;
    }
    exchange(axx);
    exchange(azz);
    exchange(axz);
#define ALONG_X(c) (lambda[c] * (axx[c] + azz[c]) + 2 * mu[c] * axx[c])
#define ALONG_Z(c) (lambda[c] * (axx[c] + azz[c]) + 2 * mu[c] * azz[c])
#define SHEAR(c) (mu[c] * axz[c])
    for (int i = 1; i <= nx; i++)
        for (int j = 1, c = i * NZ + 1; j < NZ - 1; j++, c++) {
            real exx = vx[c + NZ] - vx[c], ezz = vz[c] - vz[c - 1];
            gradient[0][c] += (axx[c] + azz[c]) * (exx + ezz);
            gradient[1][c] += 2 * (axx[c] * exx + azz[c] * ezz) + axz[c] * (vx[c + 1] - vx[c] + vz[c] - vz[c - NZ]);
            avx[c] += ALONG_X(c - NZ) - ALONG_X(c) + SHEAR(c - 1) - SHEAR(c);
            avz[c] += ALONG_Z(c) - ALONG_Z(c + 1) + SHEAR(c) - SHEAR(c + NZ);
        }
    exchange(avx);
    exchange(avz);
    for (int i = 1; i <= nx; i++)
        for (int j = 1, c = i * NZ + 1; j < NZ - 1; j++, c++) {
            axx[c] += buoyancy[c] * avx[c] - buoyancy[c + NZ] * avx[c + NZ];
            azz[c] += buoyancy[c - 1] * avz[c - 1] - buoyancy[c] * avz[c];
            axz[c] += buoyancy[c] * avx[c] - buoyancy[c + 1] * avx[c + 1] + buoyancy[c - NZ] * avz[c - NZ] - buoyancy[c] * avz[c];
        }
}

/* Divides the grid among the ranks, and computes the seismograms of the medium with the disc. */
static void begin(void)
{
#ifdef USE_MPI
    int rank, ranks;
    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    first = 1 + NX * rank / ranks;
    nx = 1 + NX * (rank + 1) / ranks - first;
#endif
    real **arrays[] = {&buoyancy, &lambda, &mu, &gradient[0], &gradient[1]};
    for (int k = 0; k < 5; k++) *arrays[k] = zeros(values());
    computed = zeros((size_t)STEPS * (nx + 2));
    state_t u = new_state();
    set_medium(1);
    for (int ts = 0; ts < STEPS; ts++) step(&u, &u, ts);
    for (int k = 0; k < FIELDS; k++) free(u.f[k]);
    observed = computed;
    computed = zeros((size_t)STEPS * (nx + 2));
    recorded = 0;
    set_medium(0);
}

/* Prints the misfit and writes the gradient, by lambda and then by mu, column by column. */
static int finish(const char *path)
{
    int rank = 0, ranks = 1;
#ifdef USE_MPI
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Allreduce(MPI_IN_PLACE, &misfit, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
#endif
    for (int turn = 0; turn < 2 * ranks; turn++) {
        if (turn % ranks == rank) { /* the ranks append to the file in turn */
            /* Never through a link, which somebody else can have made in a shared folder. */
            int flags = O_WRONLY | O_CREAT | O_NOFOLLOW | (turn == 0 ? O_TRUNC : O_APPEND);
            int descriptor = open(path, flags, 0666);
            FILE *file = descriptor < 0 ? NULL : fdopen(descriptor, turn == 0 ? "wb" : "ab");
            size_t count = (size_t)nx * NZ;
            int is_written = file && fwrite(gradient[turn / ranks] + NZ, sizeof(real), count, file) == count;
            if (!file || fclose(file) || !is_written) return perror(path), 1;
        }
#ifdef USE_MPI
        MPI_Barrier(MPI_COMM_WORLD);
#endif
    }
    if (rank == 0) printf("misfit %.4g\n", misfit);
#ifdef USE_MPI
    MPI_Finalize();
#endif
    return 0;
}

#endif
