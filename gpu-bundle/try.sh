#!/bin/sh
# try.sh [BUNDLE [PART...]]: tests and measures gpuzip on this machine's NVIDIA GPU, in about ten minutes,
# and leaves one file to send: gpuzip-gpu-summary.md. It needs a driver, python3, tar, and curl or wget; no
# compiler, no CUDA toolkit, no other rights than a user's. Nothing is installed, and no setting of the GPU is
# changed. BUNDLE: the address (https://, http://, file://) or the path of gpuzip-gpu-bundle.tar.gz, which
# `make gpu-bundle` packs; PART: as for the bundle's own script `run`, which --help explains.
set -eu

# The address of the bundle of the release that this file belongs to: packaging/release.sh writes it.
ADDRESS=

fail() {
    echo "try.sh: $1" >&2
    exit 1
}

bundle=${1:-$ADDRESS}
[ $# -eq 0 ] || shift
[ -n "$bundle" ] || fail "there is no release yet: give the path or the address of gpuzip-gpu-bundle.tar.gz, which make gpu-bundle packs"
[ "$(uname -sm)" = "Linux x86_64" ] || fail "the bundle is for Linux on x86_64, and this is $(uname -sm)"
command -v nvidia-smi >/dev/null || fail "there is no nvidia-smi: this machine has no NVIDIA driver (in a notebook, choose a runtime with a GPU)"

work=$(mktemp -d "${TMPDIR:-/tmp}/gpuzip-try.XXXXXX")
trap 'rm -rf "$work"' EXIT
case $bundle in
https://* | http://* | file://*)
    if command -v curl >/dev/null; then curl -fsSL -o "$work/bundle" "$bundle"; else wget -qO "$work/bundle" "$bundle"; fi ||
        fail "$bundle cannot be fetched"
    ;;
*) cp "$bundle" "$work/bundle" || fail "$bundle cannot be read" ;;
esac
mkdir "$work/gpu-bundle"
tar -C "$work/gpu-bundle" --strip-components=1 -xzf "$work/bundle" || fail "$bundle is no bundle of gpuzip"
[ -f "$work/gpu-bundle/run" ] || fail "$bundle is no bundle of gpuzip: it has no script run"

code=0
OUT=$work/results bash "$work/gpu-bundle/run" "$@" || code=$?
[ -e "$work/results/summary.md" ] || fail "the bundle left no summary"
cp "$work/results/summary.md" gpuzip-gpu-summary.md
echo "try.sh: send $PWD/gpuzip-gpu-summary.md; parts that failed are in it"
exit $code
