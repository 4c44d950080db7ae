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

of_the_gpu=$(printf -- '--test %s ' gpu_codecs cuda_kernels cuda_levels cuda_compressed cuda_ahead cuda_order cuda_autotune \
    cuda_budgets cuda_capture cuda_disk cuda_timeline cuda_faults cuda_pointers rtm3d_cuda)
# shellcheck disable=SC2086 # one word per test program
"${CARGO:-cargo}" test $of_the_gpu
# Of these test programs the tests that have kernels: other tests' names have none of these words.
"${CARGO:-cargo}" test --test oom --test restart_within -- on_cuda on_a_gpu
