#!/bin/sh
# Installs the programs that the tests call, if run as root where apt-get exists, and names the
# programs that stay missing: the tests that need them are skipped. SKIP_DEPS=1 installs nothing.
# `deps.sh long` also installs what only `make test-long` uses.
set -u

packages="cc:gcc c++:g++ make:make gfortran:gfortran valgrind:valgrind libzfp.so:libzfp-dev cmake:cmake mandoc:mandoc pkg-config:pkg-config abidiff:abigail-tools \
mpicc.openmpi:libopenmpi-dev mpirun.openmpi:openmpi-bin mpicc.mpich:libmpich-dev mpirun.mpich:mpich PETSc.pc:petsc-dev"

if [ "${1:-}" = long ] && apt-cache show python3-torch >/dev/null 2>&1; then
    packages="$packages torch.py:python3-torch"
fi

# have NAME: succeeds if the program, the shared library (a name that ends in .so), the module of
# pkg-config (.pc) or the module of the system's Python (.py) is installed.
have() {
    case "$1" in
    *.so) PATH="$PATH:/sbin:/usr/sbin" ldconfig -p 2>/dev/null | grep -q "/$1" ;;
    *.pc) pkg-config --exists "${1%.pc}" 2>/dev/null ;;
    *.py) /usr/bin/python3 -c "import ${1%.py}" 2>/dev/null ;;
    *) command -v "$1" >/dev/null 2>&1 ;;
    esac
}

missing=""
for entry in $packages; do
    have "${entry%%:*}" || missing="$missing ${entry##*:}"
done
[ -z "$missing" ] && exit 0

if [ "${SKIP_DEPS:-0}" != 0 ]; then
    echo "SKIP_DEPS is set, so nothing is installed; missing:$missing"
elif [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "make test installs with apt-get, as root:$missing (SKIP_DEPS=1 prevents it; their tests are skipped then)"
    # shellcheck disable=SC2086 # one word per package
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null && exit 0
    echo "apt-get could not install all of:$missing"
else
    echo "not installed, and not ours to install here:$missing"
fi
case "$missing " in
*" gcc "* | *" make "*) echo "a C compiler and make are needed: sudo apt-get install$missing"; exit 1 ;;
esac
echo "tests that need them are skipped; to run them: sudo apt-get install$missing"
