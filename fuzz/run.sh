#!/bin/sh
# Fuzzes the targets of fuzz/src/ with libFuzzer: `fuzz/run.sh [TARGET...]`. Each target runs in a
# process of its own; without arguments all targets run.
#
# FUZZ_SECONDS: seconds per target (default 60). FUZZ_JOBS: processes at a time (default: one per
# core). FUZZ_OUT: the folder for grown corpora and findings (default: build/fuzz). FUZZ_TOOLCHAIN:
# a toolchain for cargo (default: nightly where nightly is installed).
# `FUZZ_MINIMISE=1 fuzz/run.sh` fuzzes nothing: for each target it writes to
# FUZZ_OUT/TARGET/minimised a part of the grown and the committed corpus that takes as many edges of
# the code as 300 inputs for all targets together can (fuzz/minimise.py, with Python), to be committed
# in the place of fuzz/corpus/TARGET. Some inputs take 10 s; a few edges depend on chance.
#
# Coverage comes from LLVM's SanitizerCoverage, which every toolchain has. AddressSanitizer needs
# nightly, or RUSTC_BOOTSTRAP=1.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
out=${FUZZ_OUT:-$root/build/fuzz}
seconds=${FUZZ_SECONDS:-60}
jobs=${FUZZ_JOBS:-$(getconf _NPROCESSORS_ONLN)}
targets=${*:-config trace profile stream persist calls everything}
cargo=${CARGO:-cargo}

toolchain=${FUZZ_TOOLCHAIN:-}
if [ -z "$toolchain" ] && rustup toolchain list 2>/dev/null | grep -q '^nightly'; then toolchain=nightly; fi
[ -z "$toolchain" ] || export RUSTUP_TOOLCHAIN="$toolchain"
host=$(rustc -vV | sed -n 's/^host: //p')
version=$(rustc --version)

flags="--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares"
case "$version:${RUSTC_BOOTSTRAP:-}" in
*nightly*) flags="$flags -Zsanitizer=address"; checks="AddressSanitizer, overflow checks" ;;
*:1) flags="$flags -Zsanitizer=address"; checks="AddressSanitizer, overflow checks" ;;
*) checks="overflow checks, no AddressSanitizer (install nightly, or set RUSTC_BOOTSTRAP=1)" ;;
esac
echo "fuzzing with $version: $checks; $seconds s per target, $jobs at a time"

mkdir -p "$out"
# Fuzzing has a target folder of its own, because a change of RUSTFLAGS makes cargo build everything
# again. With --target, cargo does not pass RUSTFLAGS to build scripts.
RUSTFLAGS="$flags" $cargo build --manifest-path "$root/fuzz/Cargo.toml" --profile watched --features libfuzzer --target "$host" \
    --target-dir "$out/target" --quiet
program=$out/target/$host/watched/gpuzip-fuzz

for name in $(env | sed -n 's/^\(GPUZIP_[A-Z0-9_]*\)=.*/\1/p'); do unset "$name"; done

# fuzz TARGET: fuzzes one target and prints its result in one line; libFuzzer's output goes to the
# file `log` in the target's folder.
fuzz() {
    target=$1
    mkdir -p "$out/$target/corpus" "$out/$target/findings"
    cd "$out/$target"
    if [ -n "${FUZZ_MINIMISE:-}" ]; then
        rm -rf edges none && mkdir none
        FUZZ_TARGET=$target "$program" -set_cover_merge=1 -use_counters=0 -merge_control_file="$PWD/edges" -max_len=4096 \
            -rss_limit_mb=8192 none "$root/fuzz/corpus/$target" corpus >log 2>&1
        return 0
    fi
    if FUZZ_TARGET=$target "$program" corpus "$root/fuzz/corpus/$target" -artifact_prefix=findings/ -max_total_time="$seconds" -max_len=4096 \
        -timeout=60 -rss_limit_mb=4096 -print_final_stats=1 >log 2>&1; then result=clean; else result=FAILED; fi
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' log | tail -1)
    echo "$target: $result, ${runs:-?} inputs run, $(find corpus -type f | wc -l) in the grown corpus, $(find findings -type f | wc -l) findings" \
        "in $out/$target"
    [ "$result" = clean ]
}

# POSIX sh has no `wait -n`, so the targets are dealt out beforehand: process number `worker` takes
# the targets whose number modulo `jobs` is `worker`.
failed=0
pids=""
worker=0
while [ "$worker" -lt "$jobs" ]; do
    (
        status=0
        number=0
        for target in $targets; do
            [ $((number % jobs)) -ne "$worker" ] || (fuzz "$target") || status=1
            number=$((number + 1))
        done
        exit "$status"
    ) &
    pids="$pids $!"
    worker=$((worker + 1))
done
for pid in $pids; do wait "$pid" || failed=1; done
[ -z "${FUZZ_MINIMISE:-}" ] || python3 "$root/fuzz/minimise.py" "$out" $targets
exit "$failed"
