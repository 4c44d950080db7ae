/*
 * Shared time levels: whether the previous level of a state is what the snapshot before it has, told from checksums, so that neither has to
 * be where the other is.
 */

/* What a field's checksum is for. Addresses are device memory; 0: not that. */
struct LevelSum {
    u64 to;       /* where it is kept */
    u64 with;     /* what it has to be */
    u64 verdict;  /* where the first wrong one is told, by its name; 0 as long as there is none */
    u64 name;
};

/*
 * Adds up the words of a field, an even or odd number of them; a block has CHECKSUM_RUN threads or a multiple; `work`: a sum and a count of blocks, zeros before and after. The last block
 * has the whole sum.
 */
extern "C" __global__ void level_sum(const u32 *x, u64 words, u64 *work, LevelSum use)
{
    u64 sum = 0;
    const u64 begin = (u64)blockIdx.x * blockDim.x + threadIdx.x, stride = (u64)gridDim.x * blockDim.x, key = checksum_key(begin);
    for (u64 i = begin; 2 * i < words; i += stride)
        sum += checksum_term(x[2 * i] | (2 * i + 1 < words ? (u64)x[2 * i + 1] << 32 : 0), i, key);
    add_to(&work[0], sum);
    __threadfence();
    __syncthreads();
    if (threadIdx.x != 0 || atomicAdd(&work[1], 1ull) != gridDim.x - 1)
        return;
    sum = atomicExch(&work[0], 0ull);
    work[1] = 0;
    if (use.to != 0)
        *(u64 *)use.to = sum;
    if (use.with != 0 && *(const u64 *)use.with != sum && *(u64 *)use.verdict == 0)
        *(u64 *)use.verdict = use.name;
}
