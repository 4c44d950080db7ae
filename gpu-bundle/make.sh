#!/bin/sh
# make.sh FOLDER TARGET CARGO: fills FOLDER with the bundle. The library and the command line tool are built already, in TARGET/release.
set -eu

bundle=$1 target=$2 cargo=$3
here=$(dirname "$0")
nvcc=$(sh "$here/../tests/nvcc.sh")
work=$bundle.work
archs="75 80 90"
case $("$nvcc" --version) in *"release 12."*) archs="70 80 90" ;; esac

rm -rf "$bundle"
mkdir -p "$bundle" "$work"
make -s -C "$here/../c-examples/rtm3d_cuda" all minimal BUILD="$(cd "$work" && pwd)" GPUZIP_LIB="$target/release" \
    NVCC="$nvcc" ARCHS="$archs"
tests=$("$cargo" test --release --no-run --test cuda --test gpu_codecs --test gpu_machine --message-format=json 2>/dev/null |
    sed -n 's/.*"executable":"\([^"]*\)".*/\1/p')
for test in cuda gpu_codecs gpu_machine; do
    cp "$(echo "$tests" | grep "/$test-[0-9a-f]*\$" | tail -n 1)" "$bundle/$(echo $test | tr _ -)-tests"
done
cp -P "$target"/release/libgpuzip.so* "$target/release/gpuzip" "$bundle/"
cp "$work/rtm3d_cuda" "$work/stall" "$work/minimal_cuda" "$bundle/"
cp "$here/run" "$here/summary.py" "$bundle/"
${CC:-cc} -shared -fPIC -O1 -o "$bundle/lose_wait.so" "$here/../tests/c/lose_wait.c" -ldl
rm -rf "$work"
(cd "$here" && git describe --always --dirty --abbrev=12 2>/dev/null || echo unknown) >"$bundle/commit"
# What machines for computing may lack.
gomp=$(ldd "$bundle/rtm3d_cuda" | sed -n 's/.*libgomp.* => \([^ ]*\).*/\1/p')
[ -z "$gomp" ] || cp -L "$gomp" "$bundle/"
for program in "$bundle"/libgpuzip.so "$bundle/gpuzip" "$bundle/rtm3d_cuda" "$bundle/stall" "$bundle/minimal_cuda" "$bundle"/*-tests; do
    strip --strip-unneeded "$program"
done
# The kernels of the library and of the tests, for machines without NVRTC; others compile them for themselves.
if nvrtc=$(sh "$here/../tests/nvrtc.sh"); then
    # shellcheck disable=SC2046,SC2086 # one word per option
    LD_LIBRARY_PATH=$nvrtc "$bundle/gpuzip" kernels --prebuild --dir "$bundle/kernels" $(printf -- '--arch %s ' $archs)
    LD_LIBRARY_PATH=$nvrtc GPUZIP_TEST_PREBUILD=$bundle/kernels GPUZIP_TEST_ARCHS=$archs "$bundle/gpu-machine-tests" prebuild --exact
fi
du -sh "$bundle"
