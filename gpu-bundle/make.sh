#!/bin/sh
# make.sh FOLDER TARGET CARGO: fills FOLDER with the bundle, and fails if the bundle is too large to
# be sent. The library and the command line tool are built already, in TARGET/release.
set -eu

bundle=$1 target=$(cd "$2" && pwd) cargo=$3
here=$(dirname "$0")
nvcc=$(sh "$here/../tests/nvcc.sh")
work=$bundle.work
# Most that a bundle may have, in KiB: 45 MiB.
limit=46080
# Machine code for each of these, and PTX of the last one for later GPUs. A GPU also runs the
# machine code of a lower minor compute capability: sm_80 serves sm_86 and sm_89, sm_100 serves
# sm_103.
archs="75 80 90 100 120"
# The newest NVRTC makes the better machine code, which drivers before CUDA 13 refuse. Such drivers
# take the machine code of the older NVRTC; for sm_100 and sm_120 they compile its PTX, so that the
# bundle is no larger than it may be.
nvrtcs="12.9.86 13.5.37"
archs_of() { case $1 in 12.*) echo 75 80 90 ;; *) echo "$archs" ;; esac; }
# nvcc's architectures: an older one does not know all, and the last that it knows gives the PTX.
known=$("$nvcc" --list-gpu-code)
for arch in $archs; do
    case $known in *sm_"$arch"*) for_nvcc="${for_nvcc-} $arch" ;; esac
done

rm -rf "$bundle" "$work"
mkdir -p "$bundle" "$work"
make -s -C "$here/../c-examples/rtm3d_cuda" all minimal BUILD="$(cd "$work" && pwd)" \
    GPUZIP_LIB="$target/release" NVCC="$nvcc" ARCHS="$for_nvcc"
tests=$("$cargo" test --release --no-run --test cuda --message-format=json 2>/dev/null |
    sed -n 's/.*"executable":"\([^"]*\)".*/\1/p')
cp "$(echo "$tests" | grep '/cuda-[0-9a-f]*$' | tail -n 1)" "$bundle/cuda-tests"
cp -P "$target"/release/libgpuzip.so* "$target/release/gpuzip" "$bundle/"
cp "$work/rtm3d_cuda" "$work/stall" "$work/minimal_cuda" "$bundle/"
cp "$here/run" "$here/try.sh" "$here/summary.py" "$here/ncu.py" "$bundle/"
${CC:-cc} -shared -fPIC -O1 -o "$bundle/lose_wait.so" "$here/../tests/c/lose_wait.c" -ldl
(cd "$here" && git describe --always --dirty --abbrev=12 2>/dev/null || echo unknown) \
    >"$bundle/commit"
# What machines for computing may lack.
gomp=$(ldd "$bundle/rtm3d_cuda" | sed -n 's/.*libgomp.* => \([^ ]*\).*/\1/p')
[ -z "$gomp" ] || cp -L "$gomp" "$bundle/"
for program in libgpuzip.so gpuzip rtm3d_cuda stall minimal_cuda cuda-tests; do
    strip --strip-unneeded "$bundle/$program"
done

# The kernels of the library and of the tests, for machines without NVRTC; others compile them for
# themselves. Each NVRTC has a folder of its own: one that finds an image makes no second one.
mkdir "$work/kernels"
for version in $nvrtcs; do
    nvrtc=$(sh "$here/../tests/nvrtc.sh" "$version") || continue
    # shellcheck disable=SC2046 # one word per option
    LD_LIBRARY_PATH=$nvrtc "$bundle/gpuzip" kernels --prebuild --ptx --dir "$work/$version" \
        $(printf -- '--arch %s ' $(archs_of "$version"))
    LD_LIBRARY_PATH=$nvrtc GPUZIP_TEST_PREBUILD=$work/$version \
        GPUZIP_TEST_ARCHS=$(archs_of "$version") \
        "$bundle/cuda-tests" machine::prebuild --exact
    cp "$work/$version"/*.cubin "$work/$version"/*.ptx "$work/kernels/"
done
tar -C "$work" -czf "$bundle/kernels.tar.gz" kernels
rm -rf "$work"

size=$(du -sk "$bundle" | cut -f 1)
echo "$bundle: $size KiB"
[ "$size" -le $limit ] || {
    echo "make.sh: $bundle has $size KiB and must have at most $limit KiB to be sent" >&2
    exit 1
}
# The file of a release that try.sh and the notebook take.
tar -C "$(dirname "$bundle")" --transform "s,^$(basename "$bundle"),gpu-bundle," -czf "$(dirname "$bundle")/gpuzip-gpu-bundle.tar.gz" \
    "$(basename "$bundle")"
