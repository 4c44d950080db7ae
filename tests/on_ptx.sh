#!/bin/sh
# Runs the tests of the GPU path on NVIDIA's PTX: the software driver interprets what NVIDIA's NVRTC
# makes of the kernels. The arguments go to `cargo test`; without any, all these tests run. Skips,
# and says so, where NVRTC cannot be had.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
folder=$(sh "$root/tests/nvrtc.sh") || { echo "skipped: the tests of the GPU path on PTX"; exit 0; }
[ $# -gt 0 ] || set -- --test gpu_codecs --test cuda_kernels --test cuda_levels --test cuda_compressed --test cuda_ahead --test cuda_order --test cuda_autotune --test cuda_budgets --test cuda_capture --test cuda_disk --test cuda_timeline
cd "$root"
CUDA_EMU_KERNELS=ptx CUDA_EMU_NVRTC=$folder CUDA_EMU_PTX_CACHE=$root/build/ptx exec "${CARGO:-cargo}" test "$@"
