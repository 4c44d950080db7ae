#!/bin/sh
# Prints the path of an nvcc: the one of CUDA_HOME, or the one on PATH, or else the one in NVIDIA's
# Python wheels, which this script installs once under build/. Exits with 1, and the reason on
# stderr, where no nvcc is found or installed.
set -u

# All four wheels are of one CUDA release. CUDA 13 has the compiler, its back end and its headers in
# four wheels; CUDA 12 has no nvcc on PyPI. sm_75 is the oldest architecture that CUDA 13 compiles
# for; an installed nvcc 12 compiles for sm_70 as well.
wheels="nvidia-cuda-nvcc==13.0.88 nvidia-cuda-crt==13.0.88 nvidia-nvvm==13.0.88 nvidia-cuda-runtime==13.0.96"

works() { "$1" --version >/dev/null 2>&1; }

if [ -n "${CUDA_HOME:-}" ] && works "$CUDA_HOME/bin/nvcc"; then
    echo "$CUDA_HOME/bin/nvcc"
    exit 0
fi
found=$(command -v nvcc) && works "$found" && { echo "$found"; exit 0; }

root=$(cd "$(dirname "$0")/.." && pwd) || exit 1
folder=$root/build/cuda-13.0.88
nvcc=$folder/nvidia/cu13/bin/nvcc

if [ ! -e "$folder/complete" ]; then
    [ "$(uname -sm)" = "Linux x86_64" ] || { echo "nvcc: none installed, and no wheels for $(uname -sm)" >&2; exit 1; }
    command -v python3 >/dev/null 2>&1 || { echo "nvcc: none installed, and no python3 to install one with" >&2; exit 1; }
    # pip installs into a folder of this process, which is renamed when it is complete: several
    # tests may run this script at the same time.
    new=$folder.$$
    trap 'rm -rf "$new"' EXIT
    # shellcheck disable=SC2086 # one word per wheel
    if ! log=$(python3 -m pip --disable-pip-version-check install --quiet --no-deps --no-compile --only-binary :all: \
        --target "$new" $wheels 2>&1); then
        echo "nvcc: none installed, and PyPI's cannot be had: $(echo "$log" | tail -n 1)" >&2
        exit 1
    fi
    # nvcc looks for libraries in the folder lib64; the wheels install them in lib.
    ln -s lib "$new/nvidia/cu13/lib64" 2>/dev/null
    touch "$new/complete"
    mv -T "$new" "$folder" 2>/dev/null || [ -e "$folder/complete" ] || { echo "nvcc: $folder cannot be made" >&2; exit 1; }
fi
works "$nvcc" || { echo "nvcc: $nvcc does not run here" >&2; exit 1; }
echo "$nvcc"
