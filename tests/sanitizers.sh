#!/bin/sh
# Runs the library with the programs of tests/ and of the examples under a tool that finds memory
# errors, data races or undefined behaviour: `tests/sanitizers.sh TOOL FOLDER`. Programs and logs
# are written to FOLDER. TOOL is one of
#
#   address   AddressSanitizer, LeakSanitizer and UndefinedBehaviorSanitizer in the programs,
#             AddressSanitizer and overflow checks in the library
#   threads   ThreadSanitizer in programs and library
#   memcheck  valgrind's memcheck, with the release library in the folder LIBRARY
#   miri      Miri on the parts of the library that are plain Rust
#
# One line per program says what ran and how it ended; the exit status is 0 if no error was found.
# Programs that need a compiler or a tool that is not installed are skipped, and a line names what
# is missing. RUST_SANITIZER_TOOLCHAIN names a toolchain for cargo (default: nightly where nightly
# is installed, else cargo's default toolchain with RUSTC_BOOTSTRAP=1).
set -u

tool=$1
mkdir -p "$2"
out=$(cd "$2" && pwd)
root=$(cd "$(dirname "$0")/.." && pwd)
failed=0
runs=0
watch=""
runtime=""
objects=""

for name in $(env | sed -n 's/^\(GPUZIP_[A-Z0-9_]*\)=.*/\1/p'); do unset "$name"; done
export OMP_NUM_THREADS=2 OMP_WAIT_POLICY=passive

# Some programs write files into the current folder.
cd "$out" || exit 2

have() {
    command -v "$1" >/dev/null 2>&1 && return 0
    echo "skipped: $1 is not installed"
    return 1
}

# check TITLE EXPECTED PROGRAM ARGUMENTS...: runs a program under the tool. The program must exit
# with 0 and, unless EXPECTED is empty, print a line that ends with EXPECTED. Lines of its output
# that begin with a count of jobs or calls are repeated on stdout, and counts of passed unit tests.
check() {
    title=$1 expected=$2
    shift 2
    runs=$((runs + 1))
    # shellcheck disable=SC2086 # $watch is a command with its arguments
    if $watch "$@" >"$out/log" 2>&1 && { [ -z "$expected" ] || grep -q "$expected\$" "$out/log"; }; then
        echo "$tool: $title: 0 errors"
        sed -En 's/^[0-9]+ (jobs|calls)/  &/p; s/^test result: ok\. ([0-9]+) passed.*/  \1 tests/p' "$out/log"
    else
        echo "$tool: $title: FAILED: $*"
        tail -n 60 "$out/log"
        failed=$((failed + 1))
    fi
}

choose_toolchain() {
    toolchain=${RUST_SANITIZER_TOOLCHAIN:-}
    if [ -z "$toolchain" ] && rustup toolchain list 2>/dev/null | grep -q '^nightly'; then toolchain=nightly; fi
    [ -z "$toolchain" ] || export RUSTUP_TOOLCHAIN="$toolchain"
    export RUSTC_BOOTSTRAP=1
    host=$(rustc -vV | sed -n 's/^host: //p')
    echo "$tool: $(rustc --version); $(cc --version | head -n 1)"
}

# build_library FLAGS SYMBOL OPTIONS...: builds the library with a sanitizer into the folder $lib;
# the library must refer to the sanitizer's SYMBOL. With --target, cargo does not pass the flags to
# build scripts. The program that loads the library brings the sanitizer's runtime.
build_library() {
    rustflags=$1 symbol=$2
    shift 2
    RUSTFLAGS="$rustflags" cargo build --manifest-path "$root/Cargo.toml" -p gpuzip --lib --profile watched --target "$host" --target-dir "$out/target" \
        --quiet "$@" || { echo "$tool: the library cannot be built"; exit 1; }
    lib=$out/target/$host/watched
    nm -D "$lib/libgpuzip.so" | grep -q "$symbol" || { echo "$tool: the library is not instrumented: it does not refer to $symbol"; exit 1; }
}

# compile PROGRAM COMPILER ARGUMENTS...: compiles a program with the sanitizers in $flags and links
# it with the library in $lib and the objects in $objects. $runtime, unless it is empty, is linked
# as the sanitizer's runtime instead of the compiler's own.
compile() {
    built=$1 compiler=$2
    shift 2
    link="-L$lib -lgpuzip -Wl,-rpath,$lib -lm -pthread"
    # shellcheck disable=SC2086 # flags are words
    if [ -z "$runtime" ]; then
        $compiler -g -O1 -fno-omit-frame-pointer $flags "$@" $objects -I "$root/include" -o "$out/$built" $link >"$out/log" 2>&1
    else
        $compiler -g -O1 -fno-omit-frame-pointer $flags "$@" -I "$root/include" -c -o "$out/$built.o" >"$out/log" 2>&1 &&
            $compiler "$out/$built.o" $objects -Wl,--whole-archive "$runtime" -Wl,--no-whole-archive -Wl,--export-dynamic -o "$out/$built" $link \
                -ldl -lrt -lstdc++ >>"$out/log" 2>&1
    fi && return 0
    echo "$tool: $built cannot be compiled"
    cat "$out/log"
    failed=$((failed + 1))
    return 1
}

# c_programs SESSIONS CALLS: compiles and runs the C programs of tests/c; everything runs
# SESSIONS random sessions without faults, stress_misuse makes CALLS random calls from eight threads.
c_programs() {
    for name in abi run online codec halo revolve gradient; do
        compile "$name" cc -std=c99 "$root/tests/c/$name.c" && check "tests/c/$name.c" ok "$out/$name"
    done
    for part in stress_state everything_draw everything_shot everything_restart everything_quality; do
        # shellcheck disable=SC2086 # flags are words
        cc -std=c11 -g -O1 -fno-omit-frame-pointer -frounding-math $flags -I "$root/include" -c -o "$out/$part.o" "$root/tests/c/$part.c" ||
            { echo "$tool: tests/c/$part.c cannot be compiled"; failed=$((failed + 1)); return; }
        objects="$objects $out/$part.o"
    done
    compile everything cc -std=c11 -frounding-math "$root/tests/c/everything.c" &&
        check tests/c/everything.c "misused calls" "$out/everything" 0 "$1"
    objects=""
    compile stress_misuse cc -std=c11 -frounding-math "$root/tests/c/stress_misuse.c" &&
        check tests/c/stress_misuse.c compared "$out/stress_misuse" 1 "$2"
}

# Checks that ThreadSanitizer finds a data race that a small program contains: otherwise the runs
# that follow would show nothing.
planted_race() {
    cat >"$out/race.c" <<'C'
#include <gpuzip.h>
#include <pthread.h>
static int n;
static void *count(void *p) { return n++, p; }
int main(void) {
  pthread_t t;
  if (pthread_create(&t, 0, count, 0) != 0) return 0;
  n++;
  return pthread_join(t, 0) + (gpuzip_abi_version() == 0);
}
C
    compile race cc "$out/race.c" || return 1
    if ! "$out/race" >"$out/log" 2>&1 && grep -q "data race" "$out/log"; then return 0; fi
    echo "$tool: a planted race was not found"
    cat "$out/log"
    failed=$((failed + 1))
    return 1
}

cxx_programs() {
    have c++ || return 0
    compile session c++ -std=c++14 "$root/tests/foreign/cxx/session.cpp" && check tests/foreign/cxx/session.cpp ok "$out/session" "$out"
    for name in errors compressor shots; do
        compile "dropin_$name" c++ -std=c++14 -I "$root/include/gpuzip-dropin" "$root/tests/foreign/cxx/$name.cpp" || continue
        case $name in
        errors) check tests/foreign/cxx/errors.cpp "all caught" "$out/dropin_errors" ;;
        compressor) for codec in 1 3 4 5 6 7; do check "tests/foreign/cxx/compressor.cpp, codec $codec" "" "$out/dropin_compressor" "$codec" float; done ;;
        shots) for algorithm in 1 2 3 4 5 6; do check "tests/foreign/cxx/shots.cpp, algorithm $algorithm" identical "$out/dropin_shots" 60 "$algorithm" 3 9 double; done ;;
        esac
    done
}

fortran_programs() {
    have gfortran || return 0
    make -s -C "$root/fortran" BUILD="$out/fortran" GPUZIP_LIB="$lib" FFLAGS="-fcheck=all -g -O1 $flags" examples >"$out/log" 2>&1 ||
        { echo "$tool: the Fortran examples cannot be built"; cat "$out/log"; failed=$((failed + 1)); return; }
    calls=$root/tests/foreign/fortran/calls
    compile calls gfortran -fcheck=all -I "$out/fortran" -J "$out/fortran" "${calls}_support.f90" "${calls}_fields.f90" "$calls.f90" "$out/fortran/libgpuzip_fortran.a" &&
        check tests/foreign/fortran/calls.f90 ok "$out/calls" "$out/calls.cfg" "$out/calls.trace"
    check fortran/smoke.f90 identical "$out/fortran/smoke" 20 1 3 2
    echo "&job n1 = 11, n2 = 9, n3 = 10, steps = 40 /" >"$out/visco.nml"
    check fortran/examples/viscoacoustic.f90 "" "$out/fortran/viscoacoustic" "$out/visco.nml"
    echo "&job n1 = 12, n2 = 10, n3 = 14, border = 4, steps = 40, shots = 1, out = '$out' /" >"$out/rtm.nml"
    check fortran/examples/rtm3d "" "$out/fortran/rtm3d" "$out/rtm.nml"
}

# Runs the C examples on tiny grids; --verify compares each with a run that keeps every state.
c_examples() {
    compile minimal cc -std=c99 "$root/c-examples/minimal.c" && check c-examples/minimal.c "" "$out/minimal"
    for example in rtm3d cpml3d; do
        make -s -C "$root/c-examples/$example" BUILD="$out/$example" GPUZIP_LIB="$lib" CFLAGS="-g -O1 $flags" >"$out/log" 2>&1 ||
            { echo "$tool: $example cannot be built"; cat "$out/log"; failed=$((failed + 1)); continue; }
        for more in "" "GPUZIP_CACHE_CAPACITY=3 GPUZIP_CHECKPOINTING_SNAPS=6" "GPUZIP_HOST_BUDGET=1M GPUZIP_DEVICE_BUDGET=400K"; do
            # shellcheck disable=SC2086 # $more is a list of assignments
            check "c-examples/$example $more" "" env $more "$out/$example/$example" --verify --n1 14 --n2 10 --n3 16 --border 4 --steps 40 --shots 1 \
                --out "$out/$example/out"
        done
    done
}

case $tool in
address)
    flags="-fsanitize=address,undefined -fno-sanitize-recover=all"
    export ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=1 UBSAN_OPTIONS=print_stacktrace=1
    choose_toolchain
    build_library "-Zsanitizer=address" __asan_report_load
    c_programs 2000 200000
    cxx_programs
    fortran_programs
    c_examples
    ;;
threads)
    flags="-fsanitize=thread"
    export TSAN_OPTIONS=halt_on_error=1:die_after_fork=0
    # -Zbuild-std compiles Rust's std from its source: in the compiled std that comes with rustc,
    # ThreadSanitizer does not see that Condvar::wait unlocks the mutex, and reports races where
    # there are none. The runtime is the one of rustc: the one of gcc lacks some functions.
    choose_toolchain
    sysroot=$(rustc --print sysroot)
    [ -f "$sysroot/lib/rustlib/src/rust/library/std/Cargo.toml" ] ||
        { echo "skipped: rust-src is not installed (rustup component add rust-src, on nightly)"; exit 0; }
    build_library -Zsanitizer=thread __tsan_ -Zbuild-std
    runtime=$(echo "$sysroot"/lib/rustlib/"$host"/lib/librustc-*_rt.tsan.a)
    planted_race && c_programs 100 50000
    ;;
memcheck)
    have valgrind || exit 0
    lib=${LIBRARY:?the absolute path of the folder with libgpuzip.so}
    flags=""
    echo "memcheck: $(valgrind --version)"
    # The codecs have basic blocks of vector code that are too long for valgrind's default of
    # --vex-guest-max-insns. "Still reachable" blocks, which live as long as the process, are no
    # leaks.
    watch="valgrind -q --trace-children=yes --vex-guest-max-insns=20 --error-exitcode=9 --leak-check=full --show-leak-kinds=definite,indirect,possible \
--errors-for-leak-kinds=definite,indirect,possible --gen-suppressions=all --suppressions=$root/tests/valgrind.supp"
    c_programs 50 10000
    cxx_programs
    fortran_programs
    c_examples
    ;;
miri)
    choose_toolchain
    if ! cargo miri --version >/dev/null 2>&1; then
        echo "skipped: miri is not installed (rustup component add miri rust-src, on nightly)"
        exit 0
    fi
    # These modules use no threads or foreign functions. proptest runs only 4 cases of each property.
    # Left out are tests that take more than some 3 ms without Miri, because Miri takes 10,000 to a
    # million times as long, and a test that opens files with flags that Miri does not know.
    export PROPTEST_CASES=4 MIRIFLAGS="-Zmiri-disable-isolation -Zmiri-strict-provenance"
    skip=""
    for name in revolve_takes_the_smallest_best_advance counts_equal_the_published_table \
        clairvoyant_fetches_as_little clairvoyant_moves_as_little structured_changes_are_told_apart \
        revolve_is_optimal uniform_is_correct large_schedules_are_optimal no_word_is_blind a_million_steps \
        closed_forms_equal ranges_are_the_schedule handing_over_costs_a_slot makespans_equal_those small_words_are_counted \
        traces_are_read_strictly memory_given_back_is_filled timelines_account; do
        skip="$skip --skip $name"
    done
    for part in config::tests layout:: schedule:: plan::tests predict:: tier:: codec::stream codec::checksum::; do
        # shellcheck disable=SC2086 # what is skipped is words
        check "unit tests of $part" "test result: ok. [1-9][0-9]* passed;.*" \
            cargo miri test --manifest-path "$root/Cargo.toml" --target-dir "$out/target" -p gpuzip --lib -- "$part" $skip
    done
    ;;
*)
    echo "$tool: no such tool"
    exit 2
    ;;
esac
echo "$tool: $runs runs, $failed failed"
[ "$failed" = 0 ]
