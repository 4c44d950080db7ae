#!/bin/sh
# release.sh [--dry-run] VERSION: makes all that a release of VERSION has, in build/release-VERSION:
# the source tarball, the binaries and the wheel, recipes for package managers, the notes, and
# SHA256SUMS; then the annotated tag vVERSION. Nothing is pushed or uploaded. --dry-run leaves out
# the tag. ARCHS: for which processors binaries are made (x86_64 aarch64). URL: the folder on the web that
# the tarball will lie in, for the recipes.
set -eu
LC_ALL=C
export LC_ALL
cd "$(dirname "$0")/.."

fail() {
    echo "release.sh: $1" >&2
    exit 1
}

dry=no
if [ "${1:-}" = --dry-run ]; then
    dry=yes
    shift
fi
[ $# -eq 1 ] || fail "usage: release.sh [--dry-run] VERSION"
version=$1
tag=v$version
out=build/release-$version

cargo=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
[ "$version" = "$cargo" ] || fail "version $version is asked for, and Cargo.toml has $cargo"
cff=$(sed -n 's/^version: *//p' CITATION.cff)
[ "$version" = "$cff" ] || fail "version $version is asked for, and CITATION.cff has $cff"
notes=$(sh packaging/notes.sh "$version") || fail "write the section of version $version first"
[ -z "$(git status --porcelain)" ] || fail "the tree has changes that are not committed: $(git status --porcelain | head -n 1)"
! git rev-parse -q --verify "refs/tags/$tag" >/dev/null || fail "there is a tag $tag already"

rm -rf "$out"
mkdir -p "$out"
printf '%s\n' "$notes" >"$out/NOTES.md"
sh packaging/dist.sh "$out"
# shellcheck disable=SC2086 # one word per processor
sh packaging/binaries.sh "$out" ${ARCHS:-x86_64 aarch64}
sh packaging/recipes.sh "$out/gpuzip-$version.tar.gz" "$out/recipes" "${URL:-}"
(cd "$out" && tar --sort=name --owner=0 --group=0 --mtime="@$(git log -1 --format=%ct)" -cf - recipes | gzip -9n >"gpuzip-$version-recipes.tar.gz" && rm -rf recipes)
# `make gpu-bundle` packs it where nvcc is installed. The script and the notebook get its address.
if [ -e build/gpuzip-gpu-bundle.tar.gz ]; then
    cp build/gpuzip-gpu-bundle.tar.gz "$out/"
    address=${URL:+$URL/gpuzip-gpu-bundle.tar.gz}
    sed "s,^ADDRESS=\$,ADDRESS=$address," gpu-bundle/try.sh >"$out/try.sh"
    sed "s,ADDRESS = \\\\\"\\\\\",ADDRESS = \\\\\"$address\\\\\"," gpu-bundle/gpuzip-gpu.ipynb >"$out/gpuzip-gpu.ipynb"
fi
(cd "$out" && sha256sum -- *.gz *.whl NOTES.md >SHA256SUMS)
if [ $dry = no ]; then
    git tag -a "$tag" -m "gpuzip $version"
    echo "tag $tag is made; to publish it: git push origin $tag"
fi
echo "release $version is in $out:"
cat "$out/SHA256SUMS"
