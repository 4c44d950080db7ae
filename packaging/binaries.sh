#!/bin/sh
# binaries.sh [--if-possible] [FOLDER [ARCH...]]: makes for each ARCH (x86_64, the default, or aarch64) in
# FOLDER (build/dist)
#   gpuzip-VERSION-linux-ARCH.tar.gz   what `make install` installs, without the compiled Fortran
#                                      module, which only the compiler that made it can read
#   gpuzip-VERSION-py3-none-...whl     the Python package with the same library and command
# for systems with glibc 2.17 or newer. Needs cargo-zigbuild and zig, the Rust target, and pip. Where one of
# these is missing, --if-possible leaves out the ARCH and says so in a line; without it that is an error.
set -eu
LC_ALL=C
export LC_ALL
cd "$(dirname "$0")/.."
glibc=2.17
missing=fail
if [ "${1:-}" = --if-possible ]; then
    missing=skip
    shift
fi
out=${1:-build/dist}
[ $# -eq 0 ] || shift
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
target=${CARGO_TARGET_DIR:-target}
case $target in /*) ;; *) target=$PWD/$target ;; esac

fail() {
    echo "binaries.sh: $1" >&2
    exit 1
}

skip() {
    echo "binaries.sh: skipped: $1" >&2
}

# Prints what is missing to make binaries for an ARCH, and how to install it.
lacks() {
    if ! command -v cargo-zigbuild >/dev/null; then
        echo "cargo-zigbuild is not installed: pip install ziglang cargo-zigbuild"
    elif [ ! -d "$(rustc --print target-libdir --target "$1-unknown-linux-gnu")" ]; then
        echo "the Rust target is not installed: rustup target add $1-unknown-linux-gnu"
    elif ! python3 -m pip --version >/dev/null 2>&1; then
        echo "python3 has no pip, which makes the wheel"
    fi
}

# Fails if a file needs a symbol of a glibc newer than $glibc.
check_symbols() {
    for file in "$@"; do
        needed=$(readelf -VW "$file" | sed -n 's/.*Name: GLIBC_\([0-9.]*\).*/\1/p' | sort -Vu | tail -n 1)
        [ -n "$needed" ] || fail "$file names no version of glibc's symbols"
        newest=$(printf '%s\n' "$needed" $glibc | sort -V | tail -n 1)
        [ "$newest" = $glibc ] || fail "$file needs symbols of glibc $needed, and glibc $glibc is promised"
        echo "$file needs glibc $needed or newer"
    done
}

[ $# -gt 0 ] || set -- x86_64
for arch in "$@"; do
    case $arch in x86_64 | aarch64) ;; *) fail "there are no binaries for $arch, only for x86_64 and aarch64" ;; esac
done
mkdir -p "$out"
out=$(cd "$out" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
time=$(git log -1 --format=%ct 2>/dev/null || echo 0)

for arch in "$@"; do
    lack=$(lacks "$arch")
    if [ -n "$lack" ]; then
        $missing "no binaries and no wheel for $arch: $lack"
        continue
    fi
    name=gpuzip-$version-linux-$arch
    built=$target/$arch-unknown-linux-gnu/release
    ${CARGO:-cargo} zigbuild --locked --release -p gpuzip -p gpuzip-cli \
        --target "$arch-unknown-linux-gnu.$glibc" --target-dir "$target"
    check_symbols "$built/libgpuzip.so" "$built/gpuzip"
    DESTDIR="$work" PREFIX="/$name" LIBDIR='' INCLUDEDIR='' BINDIR='' FC='' sh install/install.sh install "$built"
    tar --sort=name --format=gnu --owner=0 --group=0 --numeric-owner --mode=u+rw,go+r,go-w,a+X \
        --mtime="@$time" -C "$work" -cf "$work/tar" "$name"
    gzip -9nc "$work/tar" >"$out/$name.tar.gz"
    # The wheel's tag follows from the files: python/hatch_build.py.
    SOURCE_DATE_EPOCH=$time GPUZIP_LIBRARY=$built \
        python3 -m pip wheel --quiet --no-deps --wheel-dir "$out" ./python
done
