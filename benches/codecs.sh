#!/bin/sh
# What every codec makes of real snapshots: sh benches/codecs.sh FOLDER, with the files that benches/fields.sh made, and others whose names
# have their extents, n1 first, as in snapshot_256x256x256_step0900_curr.f32. Prints one table per array and per pair of time levels.
# NVIDIA's Bitcomp is among them where GPUZIP_NVCOMP names its library. Then benches/peers.py, whose help says how it finds them, compares
# other compressors with gpuzip's codecs; it runs with PYTHON (default python3).
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
gpuzip=${CARGO_TARGET_DIR:-$here/target}/release/gpuzip
[ -x "$gpuzip" ] || (cd "$here" && cargo build --release --quiet -p gpuzip -p gpuzip-cli)
[ $# -eq 1 ] && [ -d "$1" ] || { echo "usage: sh benches/codecs.sh FOLDER" >&2; exit 2; }
folder=$1
set --
for curr in "$folder"/*_curr.f32; do
    dims=$(basename "$curr" | sed -n 's/[^0-9]*.*_\([0-9]*\)x\([0-9]*\)x\([0-9]*\)_.*/\1,\2,\3/p')
    [ -n "$dims" ] || continue
    set -- "$@" "$curr"
    "$gpuzip" codec --all --dims "$dims" "$curr"
    prev=${curr%_curr.f32}_prev.f32
    if [ -f "$prev" ]; then
        "$gpuzip" codec --codec dct --dims "$dims" --pair "$curr" "$prev"
        "$gpuzip" codec --codec lorenzo --dims "$dims" --pair "$curr" "$prev"
    fi
done
command -v "${PYTHON:-python3}" >/dev/null || { echo "skipped: benches/peers.py needs Python"; exit 0; }
[ $# -eq 0 ] || "${PYTHON:-python3}" "$here/benches/peers.py" "$@"
