#!/bin/sh
# install.sh install BUILD | uninstall: gpuzip, as cargo left it in the folder BUILD, into $DESTDIR$PREFIX. `make install` calls it with
#   PREFIX   where gpuzip will be; it may be moved as a whole afterwards
#   DESTDIR  a folder to stage it in, for packagers; empty: none
#   LIBDIR, INCLUDEDIR, BINDIR  elsewhere than lib, include and bin; below PREFIX unless they begin with a slash
#   FC       the Fortran compiler that makes libgpuzip_fortran.a; empty: none
# What was installed is listed in share/gpuzip/manifest, below PREFIX as far as it lies there; a folder that was made ends with a slash.
set -eu
LC_ALL=C
export LC_ALL
cd "$(dirname "$0")/.."

# What Rust's standard library needs in a static link: `rustc --print native-static-libs`; tests/foreign/install.rs compares.
static_libs="-lgcc_s -lutil -lrt -lpthread -lm -ldl -lc"

# The Fortran modules.
modules="gpuzip gpuzip_gradient"

fail() {
    echo "make install: $1" >&2
    exit 1
}

# The folder $2, or $3 if it is empty, below $1 if it is relative.
place() {
    case "${2:-$3}" in
    /*) echo "${2:-$3}" ;;
    *) echo "$1/${2:-$3}" ;;
    esac
}

DESTDIR=${DESTDIR:-}
PREFIX=$(place "$PWD" "${PREFIX:-}" /usr/local)
PREFIX=${PREFIX%/}
LIBDIR=$(place "$PREFIX" "${LIBDIR:-}" lib)
INCLUDEDIR=$(place "$PREFIX" "${INCLUDEDIR:-}" include)
BINDIR=$(place "$PREFIX" "${BINDIR:-}" bin)
data=$PREFIX/share/gpuzip
manifest=$DESTDIR$data/manifest

# A path as the manifest has it, and back.
listed() { echo "${1#"$PREFIX"/}"; }
found() { case "$1" in /*) echo "$DESTDIR$1" ;; *) echo "$DESTDIR$PREFIX/$1" ;; esac; }

# Removes what is listed in standard input, children before parents, folders only if they are empty.
remove() {
    sort -r | while read -r path; do
        case $path in
        */) rmdir "$(found "$path")" 2>/dev/null || true ;;
        *) rm -f "$(found "$path")" ;;
        esac
    done
}

# Makes a folder and those above it; the ones below PREFIX are listed.
folder() {
    [ -d "$DESTDIR$1" ] && return
    folder "$(dirname "$1")"
    mkdir "$DESTDIR$1"
    case $1 in "$PREFIX"/*) listed "$1/" >>"$work/folders" ;; esac
}

# Installs file $2 as $3 with mode $1; links $3 to $2.
put() {
    folder "$(dirname "$3")"
    install -m "$1" "$2" "$DESTDIR$3"
    listed "$3" >>"$work/files"
}
put_link() {
    ln -sf "$1" "$DESTDIR$2"
    listed "$2" >>"$work/files"
}

# The way from folder $1 up to PREFIX, if it lies below, and what $2 is from there: how files find each other wherever PREFIX is moved.
up() { echo "${1#"$PREFIX"/}" | sed 's,[^/][^/]*,..,g'; }
below() { case $1 in "$PREFIX"/*) true ;; *) false ;; esac; }
from_prefix() { if below "$1"; then echo "$2/${1#"$PREFIX"/}"; else echo "$1"; fi; }

# Installs install/$1.in as $2/$1, or as $2/$5. $3 is how its language says the folder that it is in, $4 how it says PREFIX.
put_filled() {
    prefix=$PREFIX
    if below "$2"; then prefix="$3/$(up "$2")"; fi
    for value in "VERSION=$version" "MAJOR=$major" "PREFIX=$prefix" "LIBDIR=$(from_prefix "$LIBDIR" "$4")" \
        "INCLUDEDIR=$(from_prefix "$INCLUDEDIR" "$4")" "BINDIR=$(from_prefix "$BINDIR" "$4")" "LIBS=$static_libs"; do
        printf 's|@%s@|%s|g\n' "${value%%=*}" "$(printf %s "${value#*=}" | sed 's/[&|\\]/\\&/g')"
    done >"$work/sed"
    sed -f "$work/sed" "install/$1.in" >"$work/filled"
    put 644 "$work/filled" "$2/${5:-$1}"
}

# Compiles the modules, before anything is installed.
make_fortran() {
    if [ -z "${FC:-}" ] || ! command -v "$FC" >/dev/null; then
        echo "no Fortran compiler (FC = ${FC:-}): libgpuzip_fortran.a is left out"
        return
    fi
    for module in $modules; do
        cp "fortran/$module.f90" "$work"
        (cd "$work" && "$FC" -O2 -fPIC -c "$module.f90") || fail "FC = $FC cannot compile fortran/$module.f90; FC= leaves it out"
        ar rcs "$work/libgpuzip_fortran.a" "$work/$module.o"
    done
}

# The library and its modules, for compilers that can read them; CMake projects compile the source with their own.
put_fortran() {
    for module in $modules; do put 644 "fortran/$module.f90" "$data/fortran/$module.f90"; done
    put_filled fpm.toml "$data/fortran" "" ""
    [ -f "$work/libgpuzip_fortran.a" ] || return 0
    put 644 "$work/libgpuzip_fortran.a" "$LIBDIR/libgpuzip_fortran.a"
    for module in $modules; do put 644 "$work/$module.mod" "$LIBDIR/gpuzip/fortran/$module.mod"; done
    put_filled gpuzip-fortran.pc "$LIBDIR/pkgconfig" '${pcfiledir}' '${prefix}'
}

put_all() {
    folder "$data"
    put 755 "$1/gpuzip" "$BINDIR/gpuzip"
    put 755 "$1/libgpuzip.so" "$LIBDIR/libgpuzip.so.$version"
    put_link "libgpuzip.so.$version" "$LIBDIR/libgpuzip.so.$major"
    put_link "libgpuzip.so.$major" "$LIBDIR/libgpuzip.so"
    put 644 "$1/libgpuzip.a" "$LIBDIR/libgpuzip.a"
    for header in $(cd include && find . -type f | sort); do put 644 "include/$header" "$INCLUDEDIR/${header#./}"; done
    for name in gpuzip gpuzip-static; do put_filled $name.pc "$LIBDIR/pkgconfig" '${pcfiledir}' '${prefix}'; done
    # CMake looks in share on every system; in lib64 only on some.
    for name in gpuzipConfig gpuzipConfigVersion; do
        put_filled $name.cmake "$PREFIX/share/cmake/gpuzip" '${CMAKE_CURRENT_LIST_DIR}' '${_gpuzip_prefix}'
    done
    put_filled modulefile "$PREFIX/share/modulefiles/gpuzip" '[file dirname $ModulesCurrentModulefile]' '$prefix' "$version"
    if [ -f fortran/gpuzip.f90 ]; then put_fortran; fi
    for page in $(cd "$work/share" && find . -type f | sort); do put 644 "$work/share/$page" "$PREFIX/share/${page#./}"; done
    for name in LICENSE README.md CHANGELOG.md CITATION.cff CONTRIBUTING.md SECURITY.md docs/*.md docs/*.svg docs/*.png benches/results/*.md benches/results/*.txt; do put 644 $name "$PREFIX/share/doc/gpuzip/$name"; done
}

install_from() {
    for built in gpuzip libgpuzip.so libgpuzip.a; do
        [ -f "$1/$built" ] || fail "$1/$built is not there: run make build first"
    done
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
    major=${version%%.*}
    if [ -f fortran/gpuzip.f90 ]; then make_fortran; fi
    mkdir "$work/share"
    "$1/gpuzip" pages "$work/share" || echo "$1/gpuzip does not run on this machine: manual pages and completions are left out"
    python3 docs/site/reference.py man "$work/share/man/man3" || echo "python3 does not run on this machine: the manual pages of the functions are left out"
    mkdir -p "$DESTDIR/"
    touch "$work/old" "$work/folders"
    if [ -f "$manifest" ]; then sort "$manifest" >"$work/old"; fi
    put_all "$1"
    listed "$data/manifest" >>"$work/files"
    { grep '/$' "$work/old" || true; } >>"$work/folders"
    sort -u "$work/files" "$work/folders" >"$work/manifest"
    put 644 "$work/manifest" "$data/manifest"
    # What an earlier version had and this one has not.
    comm -23 "$work/old" "$work/manifest" | remove
    cat <<END
gpuzip $version is in $DESTDIR$PREFIX
  to build with it:  PKG_CONFIG_PATH=$LIBDIR/pkgconfig, or cmake -DCMAKE_PREFIX_PATH=$PREFIX
  to run with it:    LD_LIBRARY_PATH=$LIBDIR, or link with -Wl,-rpath,$LIBDIR
END
}

case "${1:-}" in
install) install_from "$2" ;;
uninstall)
    [ -f "$manifest" ] || { echo "gpuzip is not in $DESTDIR$PREFIX: there is no $manifest"; exit 0; }
    remove <"$manifest"
    ;;
*) fail "usage: install.sh install BUILD | uninstall" ;;
esac
