/*
 * A point of a step needs 16 bytes: u and K are read, u(t-1) is read and usually overwritten by u(t+1).
 * To come close to this, a block of step3 owns a tile of the n1-n2 plane and walks along n3.
 * The nine values of a column stay in registers. The plane that is being computed lies in
 * shared memory (two planes in turn, so one barrier for each plane is enough), and the values
 * for the next plane are loaded meanwhile. n1 is the fastest index: neighbours in a warp are
 * neighbours in memory, and tiles begin at multiples of their width, not at the first inner
 * cell.
 */
#include "kernels.h"

/* Second derivative, 8th order, times dx^2: the weights of propagator.c. */
#define W0 ((float)(-205.0 / 72.0))
#define W1 ((float)(8.0 / 5.0))
#define W2 ((float)(-1.0 / 5.0))
#define W3 ((float)(8.0 / 315.0))
#define W4 ((float)(-1.0 / 560.0))

/* Threads of a tile of step3 along n1 and n2; along n2 at least 2 HALO, see `side2`. */
#define TILE1 32
#define TILE2 16
/* Threads along a line in the other kernels. */
#define LINE 128

/* The members of a medium that the kernels need. */
typedef struct view_t {
    int e1, e2, e3;
    const float *scale, *damp1, *damp2, *damp3;
} view_t;

static view_t view(const medium_t *m)
{
    const grid_t *g = &m->grid;
    return view_t{(int)g->e1, (int)g->e2, (int)g->e3, m->scale, m->damp1, m->damp2, m->damp3};
}

/* The array position nearest to i: a thread outside the array loads a value that is not used. */
static __device__ int inside(int i, int extent)
{
    return i < 0 ? 0 : (i < extent ? i : extent - 1);
}

/* The sums of neighbours in the order of the CPU code, for a point in shared memory and its
 * column in registers. */
#define PAIR2(k) ((t[0][x1 - (k)] + t[0][x1 + (k)]) + (t[-(k)][x1] + t[k][x1]))
#define PAIR3(k) (PAIR2(k) + (column[HALO - (k)] + column[HALO + (k)]))

/* p holds u(t-1) and q receives u(t+1); both may be one array. A block computes `planes` planes of
 * its tile. */
static __global__ void __launch_bounds__(TILE1 *TILE2)
step3(view_t m, const float *__restrict__ u, const float *p, float *q, int planes)
{
    typedef float row_t[TILE1 + 2 * HALO];
    __shared__ row_t tile[2][TILE2 + 2 * HALO];

    const int t1 = threadIdx.x, t2 = threadIdx.y, x1 = HALO + t1;
    const int i1 = blockIdx.x * TILE1 + t1, i2 = HALO + blockIdx.y * TILE2 + t2;
    const int first = HALO + blockIdx.z * planes, last = min(first + planes, m.e3 - HALO);
    const bool computes = i1 >= HALO && i1 < m.e1 - HALO && i2 < m.e2 - HALO;
    const ptrdiff_t s2 = m.e1, s3 = s2 * m.e2;

    /* The halo of the tile: the threads along its edges load one more value for each direction. */
    const bool side1 = t1 < HALO || t1 >= TILE1 - HALO, side2 = t2 < HALO || t2 >= TILE2 - HALO;
    const int away1 = t1 < HALO ? -HALO : HALO, away2 = t2 < HALO ? -HALO : HALO;
    const int x = inside(i1, m.e1), y = inside(i2, m.e2);
    ptrdiff_t at = x + s2 * y + s3 * first;
    ptrdiff_t at1 = inside(i1 + away1, m.e1) + s2 * y + s3 * first;
    ptrdiff_t at2 = x + s2 * inside(i2 + away2, m.e2) + s3 * first;

    const float damp1 = m.damp1[x], damp2 = m.damp2[y];
    float column[2 * HALO + 1];
    for (int k = 1; k <= 2 * HALO; k++)
        column[k] = u[at + (k - 1 - HALO) * s3];

    /* Loads for plane `first`: the end of its column, both sides, and the values read point by
     * point. */
    float end = u[at + HALO * s3], edge1 = side1 ? u[at1] : 0, edge2 = side2 ? u[at2] : 0;
    float before = p[at], scale = m.scale[at];

    for (int i3 = first; i3 < last; i3++) {
        const ptrdiff_t here = at;
        const float prev = before, k = scale, damp23 = damp2 * m.damp3[i3];
        row_t *t = &tile[i3 & 1][HALO + t2];

        for (int j = 0; j < 2 * HALO; j++)
            column[j] = column[j + 1];
        column[2 * HALO] = end;
        t[0][x1] = column[HALO];
        if (side1)
            t[0][x1 + away1] = edge1;
        if (side2)
            t[away2][x1] = edge2;
        __syncthreads();

        if (i3 + 1 < last) {
            at += s3, at1 += s3, at2 += s3;
            end = u[at + HALO * s3];
            edge1 = side1 ? u[at1] : 0;
            edge2 = side2 ? u[at2] : 0;
            before = p[at];
            scale = m.scale[at];
        }
        if (computes) {
            const float c = column[HALO];
            const float lap = 3 * W0 * c + W1 * PAIR3(1) + W2 * PAIR3(2) + W3 * PAIR3(3) + W4 * PAIR3(4);
            q[here] = c + damp23 * damp1 * (c - prev) + k * lap;
        }
    }
}
#undef PAIR2
#undef PAIR3

/* The step in 2-D, one line for each block; neighbouring lines come from the cache. */
#define PAIR2(k) ((u[i - (k)] + u[i + (k)]) + (u[i - (k) * s2] + u[i + (k) * s2]))

static __global__ void step2(view_t m, const float *__restrict__ u, const float *p, float *q)
{
    const int i2 = HALO + blockIdx.x;
    const ptrdiff_t s2 = m.e1;
    const float damp23 = m.damp2[i2];

    for (int i1 = HALO + threadIdx.x; i1 < m.e1 - HALO; i1 += blockDim.x) {
        const ptrdiff_t i = i1 + s2 * i2;
        const float lap = 2 * W0 * u[i] + W1 * PAIR2(1) + W2 * PAIR2(2) + W3 * PAIR2(3) + W4 * PAIR2(4);
        q[i] = u[i] + damp23 * m.damp1[i1] * (u[i] - p[i]) + m.scale[i] * lap;
    }
}

/* Each line of the array has 2 HALO threads, for the halo at its two ends; if the whole line
 * lies in the halo, these threads clear all of it. */
static __global__ void clear_halo(int e1, int e2, int e3, int halo3, float *curr, float *prev)
{
    const size_t thread = blockIdx.x * (size_t)blockDim.x + threadIdx.x, line = thread / (2 * HALO);
    const int k = (int)(thread % (2 * HALO)), i2 = (int)(line % e2), i3 = (int)(line / e2);
    const bool whole = i2 < HALO || i2 >= e2 - HALO || i3 < halo3 || i3 >= e3 - halo3;

    if (i3 >= e3)
        return;
    for (int i1 = whole || k < HALO ? k : e1 - 2 * HALO + k; i1 < e1; i1 += whole ? 2 * HALO : e1)
        curr[line * e1 + i1] = prev[line * e1 + i1] = 0;
}

static __global__ void inject(float *field, const float *scale, size_t index, float s)
{
    field[index] += scale[index] * s;
}

static __global__ void record(const float *field, const size_t *receiver, size_t count, float *data)
{
    const size_t r = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (r < count)
        data[r] = field[receiver[r]];
}

static __global__ void inject_residual(float *field, const float *scale, const size_t *receiver,
                                       size_t count, const float *observed, const float *synthetic)
{
    const size_t r = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (r < count)
        field[receiver[r]] += scale[receiver[r]] * (observed[r] - synthetic[r]);
}

/* One block for each line of the model. `origin` is the position of model cell (0, 0, 0). */
static __global__ void correlate(int n1, int n2, size_t e1, size_t e2, size_t origin, const float *u,
                                 const float *lambda, float *correlation, float *illumination)
{
    const size_t line = blockIdx.x;
    const size_t from = origin + e1 * (line % n2 + e2 * (line / n2)), to = line * n1;

    for (int i = threadIdx.x; i < n1; i += blockDim.x) {
        const float value = u[from + i];
        correlation[to + i] += value * lambda[from + i];
        illumination[to + i] += value * value;
    }
}

static int multiprocessors()
{
    static int count = 0;
    if (count == 0) {
        int device;
        CUDA(cudaGetDevice(&device));
        CUDA(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device));
    }
    return count;
}

static size_t parts(size_t whole, size_t part)
{
    return (whole + part - 1) / part;
}

/* Several waves of blocks, so that a last, incomplete wave costs little; at least 32 planes for
 * each block, of which 8 are read twice. */
static dim3 blocks3(const grid_t *g, int *planes)
{
    const size_t tiles1 = parts(g->e1 - HALO, TILE1), tiles2 = parts(g->e2 - 2 * HALO, TILE2);
    const size_t inner = g->e3 - 2 * HALO, wanted = parts(16 * (size_t)multiprocessors(), tiles1 * tiles2);
    const size_t chunks = std::min(wanted, parts(inner, 32));

    *planes = (int)parts(inner, chunks);
    return dim3((unsigned)tiles1, (unsigned)tiles2, (unsigned)parts(inner, (size_t)*planes));
}

void gpu_propagate_to(const medium_t *m, wavefield_t *w, float *next, cudaStream_t stream)
{
    const grid_t *g = &m->grid;
    int planes;

    if (grid_dims(g) == 3) {
        const dim3 blocks = blocks3(g, &planes);
        step3<<<blocks, dim3(TILE1, TILE2), 0, stream>>>(view(m), w->curr, w->prev, next, planes);
    } else {
        step2<<<dim3((unsigned)(g->e2 - 2 * HALO)), dim3(LINE), 0, stream>>>(view(m), w->curr, w->prev, next);
    }
    CUDA(cudaGetLastError());
    w->prev = w->curr;
    w->curr = next;
}

void gpu_propagate(const medium_t *m, wavefield_t *w, cudaStream_t stream)
{
    gpu_propagate_to(m, w, w->prev, stream);
}

void gpu_clear_halo(const grid_t *g, const wavefield_t *w, cudaStream_t stream)
{
    const dim3 blocks((unsigned)parts(g->e2 * g->e3 * 2 * HALO, LINE));
    clear_halo<<<blocks, dim3(LINE), 0, stream>>>((int)g->e1, (int)g->e2, (int)g->e3, grid_dims(g) == 3 ? HALO : 0, w->curr, w->prev);
    CUDA(cudaGetLastError());
}

void gpu_inject(const medium_t *m, float *field, size_t index, float s, cudaStream_t stream)
{
    inject<<<dim3(1), dim3(1), 0, stream>>>(field, m->scale, index, s);
    CUDA(cudaGetLastError());
}

void gpu_record(const float *field, const size_t *receiver, size_t count, float *data, cudaStream_t stream)
{
    record<<<dim3((unsigned)parts(count, LINE)), dim3(LINE), 0, stream>>>(field, receiver, count, data);
    CUDA(cudaGetLastError());
}

void gpu_inject_residual(const medium_t *m, float *field, const size_t *receiver, size_t count,
                         const float *observed, const float *synthetic, cudaStream_t stream)
{
    const dim3 blocks((unsigned)parts(count, LINE));
    inject_residual<<<blocks, dim3(LINE), 0, stream>>>(field, m->scale, receiver, count, observed, synthetic);
    CUDA(cudaGetLastError());
}

void gpu_correlate(const grid_t *g, const float *u, const float *lambda, const image_t *image,
                   cudaStream_t stream)
{
    const dim3 blocks((unsigned)(g->n2 * g->n3));
    correlate<<<blocks, dim3(LINE), 0, stream>>>((int)g->n1, (int)g->n2, g->e1, g->e2, grid_index(g, 0, 0, 0), u,
                                                 lambda, image->correlation, image->illumination);
    CUDA(cudaGetLastError());
}
