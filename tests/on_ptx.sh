#!/bin/sh
# Runs the tests of the GPU path on NVIDIA's PTX: the software driver interprets what NVIDIA's NVRTC
# makes of the kernels. The arguments go to `cargo test`; without any, all these tests run. Skips,
# and says so, where NVRTC cannot be had.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
folder=$(sh "$root/tests/nvrtc.sh") || { echo "skipped: the tests of the GPU path on PTX"; exit 0; }
cd "$root"
export CUDA_EMU_KERNELS=ptx CUDA_EMU_NVRTC="$folder" CUDA_EMU_PTX_CACHE="$root/build/ptx"
[ $# -eq 0 ] || exec "${CARGO:-cargo}" test "$@"

# Of the program `host` the tests that have kernels: other tests' names have none of these words.
"${CARGO:-cargo}" test --test cuda
"${CARGO:-cargo}" test --test kernels order::
"${CARGO:-cargo}" test --test examples rtm3d_cuda::
"${CARGO:-cargo}" test --test process --test host -- on_cuda on_a_gpu
