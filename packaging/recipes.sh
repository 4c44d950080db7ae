#!/bin/sh
# recipes.sh TARBALL FOLDER [URL]: fills FOLDER with the recipes of this folder for the source
# tarball TARBALL of dist.sh: its version, its checksum, and the URL of the folder that it can be
# downloaded from (by default the local folder that it is in).
#   spack/package.py       conda/recipe.yaml
#   easybuild/gpuzip-VERSION-GCCcore-14.3.0.eb
#   debian/                to be copied into the unpacked tarball; MAINTAINER: its name and address
set -eu
LC_ALL=C
export LC_ALL
[ $# -ge 2 ] || { echo "usage: recipes.sh TARBALL FOLDER [URL]" >&2; exit 1; }
[ -f "$1" ] || { echo "recipes.sh: there is no $1: make dist makes it" >&2; exit 1; }
here=$(cd "$(dirname "$0")" && pwd)
folder=$(cd "$(dirname "$1")" && pwd)
url=${3:-file://$folder}
maintainer=${MAINTAINER:-The gpuzip authors <gpuzip@example.org>}
key() { sed -n "s/^$1 = \"\(.*\)\"\$/\1/p" "$here/../Cargo.toml" | head -n 1; }
version=$(key version)
[ "$(basename "$1")" = "gpuzip-$version.tar.gz" ] || { echo "recipes.sh: $1 is not gpuzip-$version.tar.gz" >&2; exit 1; }
sha256=$(sha256sum "$1" | cut -d ' ' -f 1)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tar -xzf "$1" -C "$work" "gpuzip-$version/Cargo.toml"
date=$(date -u -R -r "$work/gpuzip-$version/Cargo.toml")

mkdir -p "$2"
for recipe in spack/package.py easybuild/gpuzip.eb conda/recipe.yaml $(cd "$here" && find debian -type f | sort); do
    filled=$2/$recipe
    [ "$recipe" != easybuild/gpuzip.eb ] || filled=$2/easybuild/gpuzip-$version-GCCcore-14.3.0.eb
    mkdir -p "$(dirname "$filled")"
    sed -e "s|@VERSION@|$version|g" -e "s|@SHA256@|$sha256|g" -e "s|@URL@|$url|g" -e "s|@DATE@|$date|g" \
        -e "s|@RUST@|$(key rust-version)|g" -e "s|@LICENSE@|$(key license)|g" \
        -e "s|@MAINTAINER@|$maintainer|g" -e "s|@DESCRIPTION@|$(key description)|g" "$here/$recipe" >"$filled"
    [ ! -x "$here/$recipe" ] || chmod +x "$filled"
done
