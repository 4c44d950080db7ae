/*
 * Fields whose rows are apart: copies between their rows in the application's memory and contiguous
 * values, which the codecs take.
 */

/* Lengths and distances are in values. */
struct Rows {
    u64 row;        /* values of a row */
    u64 count;      /* rows of a plane */
    u64 pitch;      /* from a row to the next one of its plane */
    u64 pitch_plane; /* from a plane to the next one */
};

/* Calls `copy` with the places of each value, in the array with rows and among contiguous values. */
template <typename Copy>
static __device__ __forceinline__ void each_value(const Rows &rows, u64 n, Copy copy)
{
    const u64 warps = (u64)gridDim.x * blockDim.x / 32, all = n / rows.row;
    for (u64 k = ((u64)blockIdx.x * blockDim.x + threadIdx.x) / 32; k < all; k += warps) {
        const u64 plane = k / rows.count, begin = plane * rows.pitch_plane + (k - plane * rows.count) * rows.pitch;
        for (u64 i = threadIdx.x % 32; i < rows.row; i += 32)
            copy(begin + i, k * rows.row + i);
    }
}

/* Copies the `n` values of the rows at `from` to contiguous values at `to`. */
extern "C" __global__ void rows_gather(const real *from, real *to, u64 n, Rows rows)
{
    each_value(rows, n, [&](u64 apart, u64 together) { to[together] = from[apart]; });
}

/* Copies `n` contiguous values at `from` to the rows at `to`, and writes nothing between the rows. */
extern "C" __global__ void rows_scatter(const real *from, real *to, u64 n, Rows rows)
{
    each_value(rows, n, [&](u64 apart, u64 together) { to[apart] = from[together]; });
}
