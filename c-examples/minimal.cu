/* Reverses 1000 steps of u' = lap(u) - u^3 on a GPU with 20 snapshots and computes the gradient of
 * sum(u(1000)) with respect to u(0). */
#include <cuda_runtime.h>
#include <gpuzip.h>
#include <cstdio>
#include <utility>
#define CUDA(call) do { cudaError_t e_ = (call); if (e_ != cudaSuccess) \
  return fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(e_)), 1; } while (0)
#define TRY(call) do { if ((call) < 0) return fprintf(stderr, "%s\n", gpuzip_last_error()), 1; } while (0)

const int N = 512, CELLS = N * N;

/* One explicit step x -> x + dt (lap(x) - w u^2 x), with x = u and w = 1; or its adjoint, with
 * x = lambda and w = 3. The values at the edges do not change. */
__global__ void step(const float *x, const float *u, float w, float *next)
{
  const int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y;
  const int at = j * N + i;
  if (i < 1 || i >= N - 1 || j < 1 || j >= N - 1) return;
  next[at] = x[at] + 0.2f * (x[at - 1] + x[at + 1] + x[at - N] + x[at + N] - 4.0f * x[at] - w * u[at] * u[at] * x[at]);
}

int main()
{
  float *u, *lambda, *spare; /* the state, its adjoint, and room for the next one */
  float *host = new float[CELLS];
  cudaStream_t stream;
  gpuzip_config_t config;
  gpuzip_action_t action;
  gpuzip_t *gpuzip;
  CUDA(cudaStreamCreate(&stream));
  for (float **field : {&u, &lambda, &spare}) CUDA(cudaMalloc(field, CELLS * sizeof(float)));
  CUDA(cudaMemset(spare, 0, CELLS * sizeof(float)));
  for (int at = 0; at < CELLS; at++) host[at] = at % N % (N - 1) && at / N % (N - 1) ? (float)(1 + at * 7919LL % 1000) / 1000 : 0;
  CUDA(cudaMemcpy(u, host, CELLS * sizeof(float), cudaMemcpyHostToDevice));
  for (int at = 0; at < CELLS; at++) host[at] = host[at] != 0;
  CUDA(cudaMemcpy(lambda, host, CELLS * sizeof(float), cudaMemcpyHostToDevice));

  /* The session will be on the GPU whose memory holds the field. */
  gpuzip_field_t state = {u, N, N, 1, GPUZIP_TYPE_F32, 0, 0, 0, {0}};
  TRY(gpuzip_config_init(&config));
  config.checkpointing_algorithm = GPUZIP_ALGORITHM_REVOLVE;
  config.checkpointing_snaps = 20;
  config.cache_capacity = 4; /* snapshots in the GPU's memory; the others are in host memory */
  TRY(gpuzip_init(&config, 1000, &state, 1, &gpuzip));
  do { /* enqueues kernels, saves and retrieves on the stream, and waits for none of them */
    TRY(gpuzip_get_action(gpuzip, &action));
    state.data = u;
    switch (action.type) {
      case GPUZIP_ACTION_FORWARD: step<<<dim3(N / 256, N), 256, 0, stream>>>(u, u, 1, spare); std::swap(u, spare); break;
      case GPUZIP_ACTION_SAVE: TRY(gpuzip_save(gpuzip, action.ts, &state, 1, stream)); break;
      case GPUZIP_ACTION_RESTORE: TRY(gpuzip_retrieve(gpuzip, action.ts, &state, 1, stream)); break;
      case GPUZIP_ACTION_BACKWARD: step<<<dim3(N / 256, N), 256, 0, stream>>>(lambda, u, 3, spare); std::swap(lambda, spare); break;
    }
    CUDA(cudaGetLastError());
  } while (action.type != GPUZIP_ACTION_TERMINATE);
  CUDA(cudaMemcpyAsync(host, lambda, CELLS * sizeof(float), cudaMemcpyDeviceToHost, stream));
  CUDA(cudaStreamSynchronize(stream));
  TRY(gpuzip_finalize(gpuzip));
  double sum = 0;
  for (int at = 0; at < CELLS; at++) sum += host[at];
  return printf("sum of the gradient = %.9g\n", sum) < 0;
}
