/*
 * Shared time levels: checksums tell whether the previous time level of a state equals the state of
 * the snapshot before it, so that the two need not be in the same memory.
 */

/*
 * What the checksum of a field is used for. `to`, `with` and `verdict` are addresses of words in
 * device memory, `to` and `with` also in page-locked host memory; an address of 0 means that this use
 * does not apply.
 */
struct LevelSum {
    u64 to;       /* where the checksum is stored */
    /* the checksum that is expected */
    u64 with;
    /* gets the `name` of the first field with an unexpected checksum; 0 as long as there is none */
    u64 verdict;
    u64 name;
};

/*
 * Sums up the checksum of a field of `words` words of 4 bytes. A block has CHECKSUM_RUN threads or
 * a multiple. `work`: a sum and a count of blocks, both zero before and after the kernel. The last
 * block to finish has the whole sum and uses it.
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
    __threadfence();
    sum = atomicExch(&work[0], 0ull);
    work[1] = 0;
    if (use.to != 0)
        *(u64 *)use.to = sum;
    if (use.with != 0 && *(const u64 *)use.with != sum && *(u64 *)use.verdict == 0)
        *(u64 *)use.verdict = use.name;
}
