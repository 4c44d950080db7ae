#!/bin/sh
# dist.sh [FOLDER]: makes FOLDER/gpuzip-VERSION.tar.gz (FOLDER: build/dist), the files of the commit
# that is checked out with the sources of all crates in vendor/, so that no build or test needs a
# network. The same commit gives the same bytes with the same versions of cargo, tar and gzip.
set -eu
LC_ALL=C
export LC_ALL
cd "$(dirname "$0")/.."
out=${1:-build/dist}
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
name=gpuzip-$version

[ -z "$(git status --porcelain --untracked-files=no)" ] ||
    echo "dist.sh: uncommitted changes are left out of $name.tar.gz" >&2

mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/$name"
git archive HEAD | tar -xf - -C "$work/$name"
(cd "$work/$name" && ${CARGO:-cargo} vendor --locked --quiet vendor >"$work/config")
mkdir -p "$work/$name/.cargo"
cat >"$work/$name/.cargo/config.toml" <<END
# The crates' sources are in the folder vendor: cargo asks no network for them.
[source.crates-io]
replace-with = "vendored-sources"

[source.vendored-sources]
directory = "vendor"
END
# The committed times, owners and modes of files are all that the bytes depend on.
tar --sort=name --format=gnu --owner=0 --group=0 --numeric-owner --mode=u+rw,go+r,go-w,a+X \
    --mtime="@$(git log -1 --format=%ct)" -C "$work" -cf "$work/tar" "$name"
gzip -9nc "$work/tar" >"$out/$name.tar.gz"
echo "$out/$name.tar.gz"
