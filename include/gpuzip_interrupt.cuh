/*
 * CUDA kernels that run for seconds and leave off when a stop of the process is requested (gpuzip_request_stop).
 * Header only, C++11, for nvcc; NVRTC takes the part for the device. docs/restart.md is the page.
 *
 * gpuzip itself stops between actions only. This header is for the application's own kernels, after Baird, Fensch,
 * Scholz and Šinkarovs, "Lightweight soft interrupts for CUDA kernels": each block asks at its start, and where the
 * kernel says so, whether it shall leave off. A word of device memory for each block notes whether the block is done,
 * or how many iterations of it are. The same launch with the same arguments later runs what is missing, also in
 * another process that has read the words and the other arrays from a generation.
 *
 *     GPUZIP_KERNEL(step, (float *u, unsigned times), (u, times))       defines the kernel; its body follows
 *     GPUZIP_KERNEL_CHECK(i);                                           in the body
 *     GPUZIP_KERNEL_LAUNCH(&kernel, step, grid, block, 0, stream, u, times);
 *
 * The blocks of a kernel do not depend on each other, and a block may leave off only where all that it needs to go
 * on is in global memory: its registers and shared memory are lost.
 *
 * The flag that the blocks read is in device memory, and the host sets it with a copy of 4 bytes in a stream of its
 * own. A flag in the host's memory would need no copy, but each block would read it over the link to the host, which
 * gpuzip's transfers fill; the flag on the device is read from the L2 cache. A copy from page-locked memory needs no
 * multiprocessor, and so runs beside a kernel that has them all; it waits for transfers that go in its direction.
 */
#ifndef GPUZIP_INTERRUPT_CUH
#define GPUZIP_INTERRUPT_CUH

#ifndef __CUDACC_RTC__
#include <cuda_runtime.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <algorithm>
#include <type_traits>
#include "gpuzip.h"
#endif

/* What a kernel of GPUZIP_KERNEL gets before its own arguments: two arrays of a gpuzip_kernel_t. */
typedef struct gpuzip_interrupt_t {
  const volatile unsigned *flag; /* one word: not 0 when the blocks shall leave off */
  unsigned *progress; /* blocks of the launch that is under way, or 0; its name; 1 if a block left off; 0; a word for each block */
} gpuzip_interrupt_t;

/* Internal: words of the progress before those of the blocks. */
#define GPUZIP_KERNEL_HEAD 4
/* Internal: the word of a block that is done. */
#define GPUZIP_KERNEL_DONE 0xffffffffu
/* Internal: a list in parentheses without them. */
#define GPUZIP_KERNEL_LIST(...) __VA_ARGS__

/* Defines a kernel: its name, its parameters in parentheses, and the names of these in parentheses; the body
 * follows. A word such as `static` before the macro is of the kernel. The kernel has one parameter at least. Blocks
 * that are done return at once, and all others when a stop was requested. */
#define GPUZIP_KERNEL(name, parameters, arguments) \
  __global__ void name(gpuzip_interrupt_t gpuzip_interrupt, GPUZIP_KERNEL_LIST parameters); \
  __device__ __forceinline__ void name##_block(gpuzip_block_t &gpuzip_block, GPUZIP_KERNEL_LIST parameters); \
  __global__ void name(gpuzip_interrupt_t gpuzip_interrupt, GPUZIP_KERNEL_LIST parameters) \
  { \
    gpuzip_block_t gpuzip_block = gpuzip_block_begin(gpuzip_interrupt); \
    if (gpuzip_block.has_left) return; \
    name##_block(gpuzip_block, GPUZIP_KERNEL_LIST arguments); \
    gpuzip_block_end(gpuzip_block); \
  } \
  __device__ __forceinline__ void name##_block(__attribute__((unused)) gpuzip_block_t &gpuzip_block, GPUZIP_KERNEL_LIST parameters)

/* In the body of a kernel: the block leaves off here if a stop was requested. `iterations`, below 0xffffffff, is
 * what GPUZIP_KERNEL_FIRST will be when the block goes on. A barrier, as __syncthreads: all threads of the block
 * come here, or none. */
#define GPUZIP_KERNEL_CHECK(iterations) \
  do if (gpuzip_block_leaves(gpuzip_block, (iterations))) return; while (0)

/* In the body of a kernel: the iterations that were done when the block left off; 0 at its first start. */
#define GPUZIP_KERNEL_FIRST (gpuzip_block.first)

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
/* Internal: the block of the calling thread. */
typedef struct gpuzip_block_t {
  gpuzip_interrupt_t launch;
  unsigned *word; /* of the block in the progress */
  unsigned first;
  bool has_left;
} gpuzip_block_t;

/* Internal: whether the calling thread is the first one of its block, which writes the block's word. */
__device__ __forceinline__ bool gpuzip_block_is_first() { return threadIdx.x + threadIdx.y + threadIdx.z == 0; }

/* Internal: as GPUZIP_KERNEL_CHECK; returns whether the block leaves off, the same to all of its threads. One
 * thread reads the flag, as two might see different values. */
__device__ __forceinline__ bool gpuzip_block_leaves(gpuzip_block_t &block, unsigned iterations)
{
  const bool is_first = gpuzip_block_is_first();
  block.has_left = __syncthreads_or(is_first && *block.launch.flag != 0) != 0;
  if (block.has_left && is_first) {
    *block.word = iterations;
    block.launch.progress[2] = 1;
  }
  return block.has_left;
}

/* Internal: begins a block, which has left if it is done, or shall not run now. */
__device__ __forceinline__ gpuzip_block_t gpuzip_block_begin(gpuzip_interrupt_t launch)
{
  const size_t index = blockIdx.x + gridDim.x * (blockIdx.y + (size_t)gridDim.y * blockIdx.z);
  gpuzip_block_t block = {launch, launch.progress + GPUZIP_KERNEL_HEAD + index, 0, true};
  block.first = *block.word;
  if (block.first != GPUZIP_KERNEL_DONE) gpuzip_block_leaves(block, block.first);
  return block;
}

/* Internal: notes that the block is done, unless it has left off. Without a barrier: the word counts only after the
 * kernel, when the other threads have ended, too. */
__device__ __forceinline__ void gpuzip_block_end(const gpuzip_block_t &block)
{
  if (!block.has_left && gpuzip_block_is_first()) *block.word = GPUZIP_KERNEL_DONE;
}
#endif

#ifndef __CUDACC_RTC__
/* GPUZIP_KERNEL_LAUNCH: blocks are missing, since a stop was requested. The same launch runs them later. */
#define GPUZIP_KERNEL_INTERRUPTED 1

/* Most arrays of a gpuzip_noted_t. */
#define GPUZIP_NOTED_MOST 64

/* The arrays of an application that its generations hold. Begin with all zero: `gpuzip_noted_t noted = {}`. */
typedef struct gpuzip_noted_t {
  uint32_t count;
  gpuzip_array_t arrays[GPUZIP_NOTED_MOST]; /* `field.data` counts during gpuzip_noted_write and gpuzip_noted_read only */
  void *variables[GPUZIP_NOTED_MOST];       /* the address of the application's pointer to each array */
  void *memory[GPUZIP_NOTED_MOST];          /* what these pointers point to, in any order */
  char text[256];                           /* why the last call that has failed here did */
} gpuzip_noted_t;

/* Kernels that can be interrupted, one after the other. Stays where it is from gpuzip_kernel_open on. */
typedef struct gpuzip_kernel_t {
  gpuzip_noted_t *noted;
  uint32_t blocks;    /* most blocks of a launch */
  unsigned *progress; /* on the device, an array of `noted` */
  unsigned *flag;     /* on the device */
  unsigned *words;    /* on the host, page-locked: the head of the progress, and the flag's new value */
  cudaStream_t second;
} gpuzip_kernel_t;

/* Internal: notes the error of a call of CUDA; returns the status. */
inline gpuzip_status_t gpuzip_noted_cuda(gpuzip_noted_t *noted, const char *call, cudaError_t error)
{
  if (error == cudaSuccess) return GPUZIP_OK;
  snprintf(noted->text, sizeof noted->text, "%s: %s", call, cudaGetErrorString(error));
  return error == cudaErrorMemoryAllocation ? GPUZIP_ERR_MEMORY : GPUZIP_ERR_DEVICE;
}

/* Internal: returns the place of `pointer` in the first `count` elements of a list, or `count`. */
inline uint32_t gpuzip_noted_find(void *const *list, uint32_t count, const void *pointer) { return (uint32_t)(std::find(list, list + count, pointer) - list); }

/* Internal: reads the application's pointers. Each piece of memory must be that of one pointer. */
inline gpuzip_status_t gpuzip_noted_look(gpuzip_noted_t *noted)
{
  bool found[GPUZIP_NOTED_MOST] = {};
  for (uint32_t k = 0; k < noted->count; k++) {
    void *&data = noted->arrays[k].field.data;
    memcpy(&data, noted->variables[k], sizeof data);
    const uint32_t at = gpuzip_noted_find(noted->memory, noted->count, data);
    if (at == noted->count || found[at]) {
      snprintf(noted->text, sizeof noted->text, "the pointer to array %s was noted with other memory, or is that to another array", noted->arrays[k].name);
      return GPUZIP_ERR_ARGUMENT;
    }
    found[at] = true;
  }
  return GPUZIP_OK;
}

/* Internal: the type of a field of values of type T: bytes, unless it is one of the two that gpuzip computes with. */
template <typename T>
inline int32_t gpuzip_noted_type()
{
  return std::is_same<T, float>::value ? GPUZIP_TYPE_F32 : std::is_same<T, double>::value ? GPUZIP_TYPE_F64 : GPUZIP_TYPE_BYTE;
}

/* Notes memory of the application, of the host or the device: n1 x n2 x n3 values at `*pointer`. Generations hold it
 * as the array `name`, with `scope` as in gpuzip_array_t. `pointer` and `name` live as long as the note: the array is
 * what the variable points to at a write, so that two pointers may be swapped. */
template <typename T>
inline gpuzip_status_t gpuzip_noted_add(gpuzip_noted_t *noted, const char *name, int32_t scope, T **pointer, uint64_t n1, uint64_t n2 = 1, uint64_t n3 = 1)
{
  const int32_t type = gpuzip_noted_type<T>();
  const gpuzip_array_t array = {name, {*pointer, type == GPUZIP_TYPE_BYTE ? n1 * sizeof(T) : n1, n2, n3, type, 0, 0, 0, {0}}, scope, 0, {0, 0}};
  if (noted->count == GPUZIP_NOTED_MOST) {
    snprintf(noted->text, sizeof noted->text, "array %s is one more than %d", name, GPUZIP_NOTED_MOST);
    return GPUZIP_ERR_ARGUMENT;
  }
  noted->arrays[noted->count] = array;
  noted->variables[noted->count] = pointer;
  noted->memory[noted->count++] = *pointer;
  return GPUZIP_OK;
}

/* Allocates device memory, as cudaMalloc, and notes it as gpuzip_noted_add does. */
template <typename T>
inline gpuzip_status_t gpuzip_noted_alloc(gpuzip_noted_t *noted, const char *name, int32_t scope, T **pointer, uint64_t n1, uint64_t n2 = 1, uint64_t n3 = 1)
{
  gpuzip_status_t status = gpuzip_noted_cuda(noted, "cudaMalloc", cudaMalloc(pointer, n1 * n2 * n3 * sizeof(T)));
  if (status < 0) return status;
  status = gpuzip_noted_add(noted, name, scope, pointer, n1, n2, n3);
  if (status < 0) cudaFree(*pointer);
  return status;
}

/* Frees memory of gpuzip_noted_alloc, as cudaFree, and forgets the array of this pointer, which becomes NULL. */
template <typename T>
inline gpuzip_status_t gpuzip_noted_free(gpuzip_noted_t *noted, T **pointer)
{
  const uint32_t at = gpuzip_noted_find(noted->variables, noted->count, pointer);
  const uint32_t memory = gpuzip_noted_find(noted->memory, noted->count, *pointer), last = noted->count - 1;
  if (at == noted->count || memory == noted->count) {
    snprintf(noted->text, sizeof noted->text, "the pointer, or its memory, is not noted");
    return GPUZIP_ERR_ARGUMENT;
  }
  noted->arrays[at] = noted->arrays[last];
  noted->variables[at] = noted->variables[last];
  noted->memory[memory] = noted->memory[last];
  noted->count = last;
  const cudaError_t error = cudaFree(*pointer);
  *pointer = NULL;
  return gpuzip_noted_cuda(noted, "cudaFree", error);
}

/* Writes a generation with the noted arrays: gpuzip_persist_write. */
inline gpuzip_status_t gpuzip_noted_write(gpuzip_noted_t *noted, gpuzip_t *session, int64_t shot, cudaStream_t stream)
{
  const gpuzip_status_t status = gpuzip_noted_look(noted);
  return status < 0 ? status : gpuzip_persist_write(session, shot, noted->arrays, noted->count, stream);
}

/* Fills the noted arrays from the generation that was found: gpuzip_persist_read. */
inline gpuzip_status_t gpuzip_noted_read(gpuzip_noted_t *noted, gpuzip_t *session, cudaStream_t stream)
{
  const gpuzip_status_t status = gpuzip_noted_look(noted);
  return status < 0 ? status : gpuzip_persist_read(session, noted->arrays, noted->count, stream);
}

/* Frees what gpuzip_kernel_open has allocated. */
inline gpuzip_status_t gpuzip_kernel_close(gpuzip_kernel_t *kernel)
{
  gpuzip_status_t status = GPUZIP_OK;
  if (kernel->progress != NULL) status = gpuzip_noted_free(kernel->noted, &kernel->progress);
  if (kernel->flag != NULL) cudaFree(kernel->flag);
  if (kernel->words != NULL) cudaFreeHost(kernel->words);
  if (kernel->second != NULL) cudaStreamDestroy(kernel->second);
  memset(kernel, 0, sizeof *kernel);
  return status;
}

/* Prepares kernels of at most `blocks` blocks on the current device. Their progress is the array `name` of `noted`,
 * with scope 0 if the kernels run between shots, and else 1. */
inline gpuzip_status_t gpuzip_kernel_open(gpuzip_kernel_t *kernel, gpuzip_noted_t *noted, const char *name, int32_t scope, uint32_t blocks)
{
  const uint64_t words = GPUZIP_KERNEL_HEAD + (uint64_t)blocks;
  memset(kernel, 0, sizeof *kernel);
  kernel->noted = noted;
  kernel->blocks = blocks;
  gpuzip_status_t status = gpuzip_noted_alloc(noted, name, scope, &kernel->progress, words);
  if (status < 0) return kernel->progress = NULL, status;
  cudaError_t error = cudaMalloc(&kernel->flag, sizeof *kernel->flag);
  if (error == cudaSuccess) error = cudaMallocHost(&kernel->words, (GPUZIP_KERNEL_HEAD + 1) * sizeof *kernel->words);
  if (error == cudaSuccess) error = cudaStreamCreateWithFlags(&kernel->second, cudaStreamNonBlocking);
  if (error == cudaSuccess) error = cudaMemsetAsync(kernel->flag, 0, sizeof *kernel->flag, kernel->second);
  if (error == cudaSuccess) error = cudaMemsetAsync(kernel->progress, 0, words * sizeof *kernel->progress, kernel->second);
  if (error == cudaSuccess) error = cudaStreamSynchronize(kernel->second);
  status = gpuzip_noted_cuda(noted, "gpuzip_kernel_open", error);
  if (status < 0) gpuzip_kernel_close(kernel);
  return status;
}

/* Internal: copies the head of the progress from the device, in the order of a stream, and waits for it. */
inline cudaError_t gpuzip_kernel_head(gpuzip_kernel_t *kernel, cudaStream_t stream)
{
  const cudaError_t error = cudaMemcpyAsync(kernel->words, kernel->progress, GPUZIP_KERNEL_HEAD * sizeof(unsigned), cudaMemcpyDeviceToHost, stream);
  return error != cudaSuccess ? error : cudaStreamSynchronize(stream);
}

/* Returns 1 if a kernel was interrupted and is to be launched again before anything else, such as after
 * gpuzip_noted_read, and 0 if not. */
inline gpuzip_status_t gpuzip_kernel_pending(gpuzip_kernel_t *kernel, cudaStream_t stream)
{
  const gpuzip_status_t status = gpuzip_noted_cuda(kernel->noted, "gpuzip_kernel_pending", gpuzip_kernel_head(kernel, stream));
  return status < 0 ? status : kernel->words[0] != 0;
}

/* Internal: begins a launch. Returns GPUZIP_OK if the kernel may run. */
inline gpuzip_status_t gpuzip_kernel_begin(gpuzip_kernel_t *kernel, const char *name, dim3 grid, cudaStream_t stream)
{
  const uint64_t blocks = (uint64_t)grid.x * grid.y * grid.z;
  unsigned *words = kernel->words, hash = gpuzip_persist_checksum(0, name, strlen(name));
  if (blocks > kernel->blocks) {
    snprintf(kernel->noted->text, sizeof kernel->noted->text, "%s: more blocks than the %u of gpuzip_kernel_open", name, kernel->blocks);
    return GPUZIP_ERR_ARGUMENT;
  }
  cudaError_t error = gpuzip_kernel_head(kernel, stream);
  if (error == cudaSuccess && words[0] != 0 && (words[0] != blocks || words[1] != hash)) {
    snprintf(kernel->noted->text, sizeof kernel->noted->text, "%s: another kernel, or one with %u blocks, was interrupted and is to be launched first", name, words[0]);
    return GPUZIP_ERR_STATE;
  }
  words[0] = (unsigned)blocks, words[1] = hash, words[2] = 0;
  if (error == cudaSuccess) error = cudaMemcpyAsync(kernel->progress, words, GPUZIP_KERNEL_HEAD * sizeof(unsigned), cudaMemcpyHostToDevice, stream);
  if (error == cudaSuccess && gpuzip_stop_requested(NULL)) {
    error = cudaStreamSynchronize(stream);
    if (error == cudaSuccess) return GPUZIP_KERNEL_INTERRUPTED;
  }
  return gpuzip_noted_cuda(kernel->noted, name, error);
}

/* Internal: waits for a kernel whose launch returned `error`, and sets the flag when a stop is requested. */
inline gpuzip_status_t gpuzip_kernel_end(gpuzip_kernel_t *kernel, const char *name, cudaError_t error, cudaStream_t stream)
{
  const struct timespec pause = {0, 100000}; /* 0.1 ms */
  unsigned *words = kernel->words, *told = words + GPUZIP_KERNEL_HEAD;
  *told = 0;
  while (error == cudaSuccess && (error = cudaStreamQuery(stream)) == cudaErrorNotReady) {
    error = cudaSuccess;
    cudaGetLastError(); /* a kernel that has not ended is no error of the application */
    if (*told == 0 && gpuzip_stop_requested(NULL)) {
      *told = 1;
      error = cudaMemcpyAsync(kernel->flag, told, sizeof *told, cudaMemcpyHostToDevice, kernel->second);
      if (error == cudaSuccess) error = cudaStreamSynchronize(kernel->second);
    }
    nanosleep(&pause, NULL);
  }
  if (error == cudaSuccess) error = gpuzip_kernel_head(kernel, stream);
  if (error == cudaSuccess && words[2] != 0) return GPUZIP_KERNEL_INTERRUPTED;
  const size_t bytes = (GPUZIP_KERNEL_HEAD + (size_t)words[0]) * sizeof(unsigned);
  if (error == cudaSuccess) error = cudaMemsetAsync(kernel->progress, 0, bytes, stream);
  return gpuzip_noted_cuda(kernel->noted, name, error);
}

/* Internal: GPUZIP_KERNEL_LAUNCH. The types P are those of the kernel: the values are converted to them. */
template <typename... P>
inline gpuzip_status_t gpuzip_kernel_launch(gpuzip_kernel_t *kernel, const char *name, void (*code)(gpuzip_interrupt_t, P...), dim3 grid, dim3 block,
                                            size_t shared, cudaStream_t stream, typename std::common_type<P>::type... values)
{
  gpuzip_interrupt_t interrupt = {kernel->flag, kernel->progress};
  void *arguments[] = {&interrupt, (void *)&values...};
  const gpuzip_status_t status = gpuzip_kernel_begin(kernel, name, grid, stream);
  return status != GPUZIP_OK ? status : gpuzip_kernel_end(kernel, name, cudaLaunchKernel((const void *)code, grid, block, arguments, shared, stream), stream);
}

/* Runs a kernel of GPUZIP_KERNEL, or what is missing of it, and waits for it: its name, the arguments of a launch, and
 * its own. Returns GPUZIP_OK, GPUZIP_KERNEL_INTERRUPTED, or an error, whose text is in `noted`. */
#define GPUZIP_KERNEL_LAUNCH(kernel, name, grid, block, shared, stream, ...) \
  gpuzip_kernel_launch(kernel, #name, name, grid, block, shared, stream, __VA_ARGS__)
#endif
#endif
