/*
 * sweeps FOLDER FILE LAUNCH QUERY BLOCKS: two shots whose kernels are those of gpuzip_interrupt.cuh. A stop is
 * requested before the launch number LAUNCH of this process, at the call number QUERY of cudaStreamQuery, or at a
 * call when BLOCKS blocks of a kernel that has not ended are done or begun; 0: never. The restart files are in
 * FOLDER. Ends with 3 after a stop, and with 0 when all is done; FILE then has the bits of the result. Says for each
 * kernel that is interrupted how many of its blocks are done, begun and missing.
 */
#include <cuda_runtime.h>
#ifndef __CUDACC_RTC__
#include <gpuzip.h>
#include <stdio.h>
static int queries, launches, stop_at_query, stop_at_launch, stop_at_blocks;
static const volatile unsigned *progress; /* device memory, which the software driver keeps in host memory */
static cudaError_t counted_query(cudaStream_t stream)
{
  const cudaError_t status = cudaStreamQuery(stream);
  int blocks = 0;
  for (int k = 4; k < 24; k++) blocks += progress[k] != 0;
  if (++queries == stop_at_query || (stop_at_blocks != 0 && blocks >= stop_at_blocks && status == cudaErrorNotReady)) gpuzip_request_stop();
  return status;
}
static cudaError_t watched_launch(const void *kernel, dim3 grid, dim3 block, void **arguments, size_t shared, cudaStream_t stream)
{
  if (gpuzip_stop_requested(NULL)) puts("a launch after the stop");
  return cudaLaunchKernel(kernel, grid, block, arguments, shared, stream);
}
#define cudaStreamQuery counted_query
#define cudaLaunchKernel watched_launch
#endif
#include <gpuzip_interrupt.cuh>

/* A block has 32 cells. COARSE: additions of each thread in an iteration, so many that interpreted kernels run in pieces. */
enum { COARSE = 100 };

/* u(t+1) from u(t) of the block and its neighbours, in `times` iterations. `runs` counts them. */
extern "C" GPUZIP_KERNEL(forward, (const double *u, double *next, unsigned *runs, unsigned times, unsigned cells), (u, next, runs, times, cells))
{
  __shared__ double around[34];
  const unsigned index = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z), at = index * 32 + threadIdx.x;
  for (unsigned i = GPUZIP_KERNEL_FIRST; i < times; i++) {
    GPUZIP_KERNEL_CHECK(i);
    around[1 + threadIdx.x] = at < cells ? (i == 0 ? u[at] : next[at]) : 0.0;
    __syncthreads();
    double value = around[1 + threadIdx.x];
    for (unsigned k = 0; k < COARSE; k++) value += 0.01 / (k + 1 + i) * (around[1 + (threadIdx.x + k) % 32] - value);
    if (at < cells) next[at] = value + 0.001 * u[(at + 1) % cells];
    if (threadIdx.x == 0) runs[index * times + i]++;
    __syncthreads();
  }
}

/* Adds u to the sum; blocks are interrupted at their start only, and threads beyond the cells return early. */
extern "C" GPUZIP_KERNEL(backward, (const double *u, double *sum, unsigned *runs, unsigned cells), (u, sum, runs, cells))
{
  const unsigned index = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z), at = index * 32 + threadIdx.x;
  if (threadIdx.x == 0) runs[index]++;
  if (at >= cells) return;
  sum[at] += u[at];
}

#ifndef __CUDACC_RTC__
#include <algorithm>
#include <vector>

#define TRY(call) do { if ((call) < 0) return fprintf(stderr, "line %d: %s; %s\n", __LINE__, gpuzip_last_error(), noted.text), 1; } while (0)
#define CUDA(call) TRY(-(int)(call))
enum { CELLS = 20 * 32 - 7, TIMES = 6, STEPS = 5, SHOTS = 2 };
static const dim3 GRID(2, 5, 2);

static gpuzip_noted_t noted;
static gpuzip_kernel_t kernel;
static double *u, *next, *sum, *stack;
static unsigned *forward_runs, *backward_runs;
/* The action whose kernel runs; how often each kernel was completed in this shot. */
static int32_t now[3], *at_now = now;
static cudaStream_t stream;

/* Fails unless the calls refuse what cannot be right, and say so. */
static int refuse(gpuzip_t *session)
{
  double *huge, *kept = u;
  const int grid = GPUZIP_KERNEL_LAUNCH(&kernel, backward, 21, 32, 0, stream, u, sum, backward_runs, CELLS);
  if (grid != GPUZIP_ERR_ARGUMENT || !strstr(noted.text, "backward: more blocks than the 20")) return 1;
  u = next; /* instead of a swap */
  if (gpuzip_noted_write(&noted, session, 0, stream) != GPUZIP_ERR_ARGUMENT || !strstr(noted.text, "array next")) return 1;
  u = kept;
  if (gpuzip_noted_alloc(&noted, "huge", 0, &huge, (uint64_t)1 << 45) != GPUZIP_ERR_MEMORY || !strstr(noted.text, "cudaMalloc")) return 1;
  return noted.count == 8 ? 0 : 1;
}

/* Runs the kernel of the action in `now`, or what is missing of it. */
static int run()
{
  const bool is_forward = now[0] == GPUZIP_ACTION_FORWARD;
  if (++launches == stop_at_launch) gpuzip_request_stop();
  const int status = is_forward ? GPUZIP_KERNEL_LAUNCH(&kernel, forward, GRID, 32, 0, stream, u, next, forward_runs, TIMES, CELLS)
                                : GPUZIP_KERNEL_LAUNCH(&kernel, backward, GRID, 32, 0, stream, u, sum, backward_runs, CELLS);
  if (status == GPUZIP_OK) now[is_forward ? 1 : 2]++;
  if (status == GPUZIP_OK && is_forward) std::swap(u, next);
  if (status == GPUZIP_KERNEL_INTERRUPTED) {
    int done = 0, begun = 0;
    unsigned words[24];
    CUDA(cudaMemcpy(words, kernel.progress, sizeof words, cudaMemcpyDeviceToHost));
    for (unsigned *word = words + 4; word < words + 24; word++) {
      done += *word == 0xffffffff;
      begun += *word != 0 && *word != 0xffffffff;
    }
    printf("interrupted %s %d %d %d\n", is_forward ? "forward" : "backward", done, begun, 20 - done - begun);
    /* No other launch may take its place. */
    if (GPUZIP_KERNEL_LAUNCH(&kernel, backward, 3, 32, 0, stream, u, sum, backward_runs, 1) != GPUZIP_ERR_STATE) return puts("another launch began"), 1;
  }
  return status;
}

/* Fails if a block has run an iteration too often or too rarely in this shot. */
static int check()
{
  std::vector<unsigned> runs(20 * TIMES), others(20);
  CUDA(cudaMemcpy(runs.data(), forward_runs, runs.size() * 4, cudaMemcpyDeviceToHost));
  CUDA(cudaMemcpy(others.data(), backward_runs, others.size() * 4, cudaMemcpyDeviceToHost));
  for (unsigned count : runs) if ((int)count != now[1]) return printf("%u of %d forward runs\n", count, now[1]), 1;
  for (unsigned count : others) if ((int)count != now[2]) return printf("%u of %d backward runs\n", count, now[2]), 1;
  return now[2] == STEPS && now[1] >= STEPS ? 0 : 1;
}

static int write_result(const char *name)
{
  std::vector<double> result(CELLS);
  CUDA(cudaMemcpy(result.data(), stack, CELLS * 8, cudaMemcpyDeviceToHost));
  FILE *file = fopen(name, "wb");
  if (file == NULL || fwrite(result.data(), 8, CELLS, file) != CELLS || fclose(file) != 0) return 1;
  return 0;
}

int main(int, char **argv)
{
  std::vector<double> initial(CELLS);
  gpuzip_generation_t found = {};
  gpuzip_config_t config;
  gpuzip_action_t action;
  gpuzip_t *session;
  int32_t due;

  stop_at_launch = atoi(argv[3]);
  stop_at_query = atoi(argv[4]);
  stop_at_blocks = atoi(argv[5]);
  CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  TRY(gpuzip_noted_alloc(&noted, "u", 1, &u, CELLS));
  TRY(gpuzip_noted_alloc(&noted, "next", 1, &next, CELLS));
  TRY(gpuzip_noted_alloc(&noted, "sum", 1, &sum, CELLS));
  TRY(gpuzip_noted_alloc(&noted, "stack", 0, &stack, CELLS));
  TRY(gpuzip_noted_alloc(&noted, "forward runs", 1, &forward_runs, 20, TIMES));
  TRY(gpuzip_noted_alloc(&noted, "backward runs", 1, &backward_runs, 20));
  TRY(gpuzip_noted_add(&noted, "now", 1, &at_now, 3));
  TRY(gpuzip_kernel_open(&kernel, &noted, "progress", 1, 20));
  progress = kernel.progress;
  gpuzip_field_t field = noted.arrays[0].field;
  CUDA(cudaMemsetAsync(next, 0, CELLS * 8, stream));
  CUDA(cudaMemsetAsync(stack, 0, CELLS * 8, stream));
  TRY(gpuzip_config_init(&config));
  config.persist_dir = argv[1];
  config.checkpointing_snaps = 2;
  config.stop_budget_s = 1000;
  field.data = u;
  TRY(gpuzip_init(&config, STEPS, &field, 1, &session));
  TRY(gpuzip_persist_open(session, NULL));
  TRY(-refuse(session));
  found.struct_size = sizeof found;
  TRY(gpuzip_persist_find(session, &found));
  if (found.generation != 0) TRY(gpuzip_noted_read(&noted, session, stream));
  for (int64_t shot = found.shot; shot < SHOTS; shot++) {
    if (shot > found.shot || found.it < 0) {
      for (int at = 0; at < CELLS; at++) initial[at] = 1.0 / (1 + at % (17 + shot));
      TRY(gpuzip_setup(session));
      CUDA(cudaMemcpyAsync(u, initial.data(), CELLS * 8, cudaMemcpyHostToDevice, stream));
      CUDA(cudaMemsetAsync(sum, 0, CELLS * 8, stream));
      CUDA(cudaMemsetAsync(forward_runs, 0, 20 * TIMES * 4, stream));
      CUDA(cudaMemsetAsync(backward_runs, 0, 20 * 4, stream));
      memset(now, 0, sizeof now);
      CUDA(cudaStreamSynchronize(stream));
    } else if (gpuzip_kernel_pending(&kernel, stream) == 1) {
      printf("goes on\n");
      TRY(run());
    }
    do {
      TRY(gpuzip_persist_due(session, &due));
      if (due == GPUZIP_DUE_STOP) {
        TRY(gpuzip_noted_write(&noted, session, shot, stream));
        TRY(gpuzip_persist_wait(session));
        return 3;
      }
      TRY(gpuzip_get_action(session, &action));
      now[0] = action.type;
      field.data = u;
      if (action.type == GPUZIP_ACTION_FORWARD || action.type == GPUZIP_ACTION_BACKWARD) TRY(run());
      if (action.type == GPUZIP_ACTION_SAVE) TRY(gpuzip_save(session, action.ts, &field, 1, stream));
      if (action.type == GPUZIP_ACTION_RESTORE) TRY(gpuzip_retrieve(session, action.ts, &field, 1, stream));
    } while (action.type != GPUZIP_ACTION_TERMINATE);
    CUDA(cudaStreamSynchronize(stream));
    TRY(-check());
    CUDA(cudaMemcpyAsync(stack, sum, CELLS * 8, cudaMemcpyDefault, stream));
    CUDA(cudaStreamSynchronize(stream));
  }
  TRY(-write_result(argv[2]));
  TRY(gpuzip_finalize(session));
  TRY(gpuzip_kernel_close(&kernel));
  std::swap(u, next);
  TRY(gpuzip_noted_free(&noted, &next));
  TRY(gpuzip_noted_look(&noted)); /* the other pointers are as they were noted */
  return noted.count != 6;
}
#endif
