#!/usr/bin/env bash
# run.sh OUT [PART...]: tests and measures gpuzip on this machine's GPU. Parts, all by default:
#   device suite codecs kernels minimal sanitizer rtm bench stall-revolve stall-two-level stall-zcut stall-uniform stall-recipe
# Each leaves OUT/<part>.json (or .jsonl: an object per line) and OUT/<part>.log; OUT/summary.md has them all. A part that fails or
# runs too long does not stop the others; the exit code then is 1. It changes no setting of the GPU.
#   GPUZIP_EXTENT (400), GPUZIP_STEPS (3000), GPUZIP_SNAPSHOTS (20): the grid, steps and snapshots of the stall tables
#   GPUZIP_LIMIT (280): seconds for one stall table
#   GPUZIP_NVCOMP: the file of libnvcomp, for Bitcomp, if it is not on the library path
set -uo pipefail

here=$(cd "$(dirname "$0")" && pwd)
[ $# -ge 1 ] || { sed -n '2,9s/^# //p' "$0"; exit 2; }
mkdir -p "$1" || exit 2
out=$(cd "$1" && pwd)
shift
[ $# -gt 0 ] || set -- device suite codecs kernels minimal sanitizer rtm bench stall-revolve stall-two-level stall-zcut stall-uniform \
    stall-recipe

export LD_LIBRARY_PATH=$here${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} OMP_WAIT_POLICY=passive
# Compiled kernels for the architectures that the bundle was made for.
export GPUZIP_CACHE_DIR=${GPUZIP_CACHE_DIR:-$here/kernels}
extent=${GPUZIP_EXTENT:-400} steps=${GPUZIP_STEPS:-3000} snapshots=${GPUZIP_SNAPSHOTS:-20} limit=${GPUZIP_LIMIT:-280}

# The ending state of a part whose output is no JSON.
verdict() { # part, exit code, seconds
    printf '{"part": "%s", "exit_code": %d, "seconds": %d}\n' "$1" "$2" "$3"
}

# within SECONDS COMMAND...: killed when the time is up.
within() { timeout --kill-after=10 "$@"; }

part_device() {
    within 60 nvidia-smi --format=csv,nounits \
        --query-gpu=name,driver_version,memory.total,pcie.link.gen.current,pcie.link.width.current,clocks.sm,clocks.mem,ecc.mode.current
    within 60 "$here/gpuzip" info
}
part_suite() { GPUZIP_TEST_GPU=1 within 300 "$here/cuda-tests" on_the_real_driver --exact --nocapture --test-threads=1; }
# The bytes of the host codecs, and how fast they are made: needs NVRTC, or a GPU that the bundle has kernels for.
# Bitcomp, where libnvcomp is installed (or GPUZIP_NVCOMP names it): what host and device read of each other.
part_codecs() {
    GPUZIP_TEST_GPU=1 within 500 "$here/gpu-codecs-tests" on_the_real_driver --exact --nocapture --test-threads=1 &&
        GPUZIP_TEST_GPU=1 GPUZIP_TEST_BITCOMP=1 within 200 "$here/gpu-codecs-tests" bitcomp::on_the_real_driver --exact --nocapture \
            --test-threads=1
}
part_kernels() { GPUZIP_TEST_GPU=1 GPUZIP_TEST_BITCOMP=1 within 300 "$here/gpu-codecs-tests" throughput --exact --nocapture --test-threads=1; }
part_minimal() { within 60 "$here/minimal_cuda"; }
part_sanitizer() {
    if ! command -v compute-sanitizer >/dev/null; then
        echo "skipped: no compute-sanitizer"
        return 77
    fi
    within 120 compute-sanitizer --tool memcheck --error-exitcode 3 "$here/minimal_cuda" &&
        within 120 compute-sanitizer --tool memcheck --error-exitcode 3 "$here/rtm3d_cuda" --n1 40 --n2 40 --n3 40 --steps 40 \
            --shots 1 --out "$out/images" &&
        within 120 compute-sanitizer --tool racecheck --error-exitcode 3 "$here/rtm3d_cuda" --n1 40 --n2 40 --n3 40 --steps 10 \
            --shots 1 --out "$out/images"
}
# An object per run: a plane, a volume, and a volume larger than any cache, under several plans.
part_rtm() {
    local status=0 algorithm cache
    for algorithm in revolve two-level zcut; do
        for cache in 0 1 4; do
            for job in "--n1 120 --n2 400 --n3 1 --steps 900 --shots 2" "--n1 64 --n2 48 --n3 96 --shots 2" \
                "--n1 216 --n2 216 --n3 216 --steps 200 --shots 1"; do
                # shellcheck disable=SC2086 # one word per option
                GPUZIP_CHECKPOINTING_ALGORITHM=$algorithm GPUZIP_CHECKPOINTING_SNAPS=12 GPUZIP_CACHE_CAPACITY=$cache \
                    within 120 "$here/rtm3d_cuda" $job --verify --json --out "$out/images" || status=1
            done
        done
    done
    return $status
}
part_bench() { within 120 "$here/rtm3d_cuda" --bench --json; }
# Algorithms by number: GPUZIP_ALGORITHM_* of gpuzip.h. Cache 0 is what the others are compared with.
part_stall() {
    within $((limit + 120)) "$here/stall" "$extent" "$steps" "$snapshots" "$1" "$limit" \
        0:clairvoyant 20G:clairvoyant:dct:1e-3 20G:clairvoyant:lorenzo:1e-3 4:clairvoyant 4:clairvoyant:dct:1e-3 4:lru:zfp:8 \
        8:clairvoyant 2:clairvoyant 4:lru 8:lru 2:lru
}
# GPUZIP 2.x's: as many snapshots as its rule says for 3000 steps, LRU and PSA, zfp; beside ours within the same bytes.
part_recipe() {
    within $((limit + 120)) "$here/stall" "$extent" "$steps" 7 1 "$limit" 0:clairvoyant 4:lru:zfp:8 4:lru 20G:clairvoyant:dct:1e-3
}

run_part() { # part
    case $1 in
    device) part_device ;;
    suite) part_suite ;;
    minimal) part_minimal ;;
    sanitizer) part_sanitizer ;;
    rtm) part_rtm ;;
    bench) part_bench ;;
    stall-revolve) part_stall 1 ;;
    stall-uniform) part_stall 2 ;;
    stall-zcut) part_stall 3 ;;
    stall-two-level) part_stall 5 ;;
    stall-recipe) part_recipe ;;
    codecs) part_codecs ;;
    kernels) part_kernels ;;
    *) echo "no such part: $1" >&2; return 2 ;;
    esac
}

failed=0
for part; do
    begin=$SECONDS
    run_part "$part" >"$out/$part.out" 2>"$out/$part.err"
    code=$?
    [ $code -eq 0 ] || [ $code -eq 77 ] || failed=1
    verdict "$part" $code $((SECONDS - begin)) >"$out/$part.json"
    grep '^{' "$out/$part.out" >"$out/$part.jsonl" || rm -f "$out/$part.jsonl"
    cat "$out/$part.out" "$out/$part.err" >"$out/$part.log"
    rm -f "$out/$part.out" "$out/$part.err"
    echo "$part: exit code $code, $((SECONDS - begin)) s"
done
rm -rf "$out/images"
python3 "$here/summary.py" "$out" >"$out/summary.md" && cat "$out/summary.md"
exit $failed
