#!/bin/sh
# nvrtc.sh [VERSION]: prints the folder that holds NVIDIA's NVRTC library, which this script installs
# once from PyPI under build/. Exits with 1, and the reason on stderr, where the installation fails.
set -u

# 12.9.86 is the last version of NVRTC that compiles for sm_70. PyPI's packages of CUDA 12 have the
# release in their names, and a folder of their own; all later packages have neither.
version=${1:-12.9.86}
case $version in
12.*) package=nvidia-cuda-nvrtc-cu12 library=nvidia/cuda_nvrtc/lib ;;
*) package=nvidia-cuda-nvrtc library=nvidia/cu${version%%.*}/lib ;;
esac
root=$(cd "$(dirname "$0")/.." && pwd) || exit 1
folder=$root/build/nvrtc-$version

if [ ! -e "$folder/complete" ]; then
    [ "$(uname -sm)" = "Linux x86_64" ] || { echo "NVRTC: no wheel for $(uname -sm)" >&2; exit 1; }
    command -v python3 >/dev/null 2>&1 || { echo "NVRTC: no python3 to install it with" >&2; exit 1; }
    # pip installs into a folder of this process, which is renamed when it is complete: several
    # tests may run this script at the same time.
    new=$folder.$$
    trap 'rm -rf "$new"' EXIT
    if ! log=$(python3 -m pip --disable-pip-version-check install --quiet --no-deps --no-compile --only-binary :all: \
        --target "$new" "$package==$version" 2>&1); then
        echo "NVRTC: PyPI's cannot be had: $(echo "$log" | tail -n 1)" >&2
        exit 1
    fi
    touch "$new/complete"
    mv -T "$new" "$folder" 2>/dev/null || [ -e "$folder/complete" ] || { echo "NVRTC: $folder cannot be made" >&2; exit 1; }
fi
echo "$folder/$library"
