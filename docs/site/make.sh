#!/bin/sh
# make.sh FOLDER: makes the site of the documentation in FOLDER, and fails if one of its links leads nowhere. Sphinx
# is installed beside FOLDER, in FOLDER-tools, unless the versions of requirements.txt are there.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=$1
tools=$out-tools
work=$out-pages

if ! cmp -s "$here/requirements.txt" "$tools/requirements.txt"; then
    rm -rf "$tools"
    "${PYTHON:-python3}" -m venv "$tools"
    "$tools/bin/python" -m pip --disable-pip-version-check install --quiet -r "$here/requirements.txt"
    cp "$here/requirements.txt" "$tools"
fi
export PYTHONDONTWRITEBYTECODE=1
rm -rf "$out" "$work"
mkdir -p "$work"
"$tools/bin/python" "$here/stage.py" "$work"
"$tools/bin/python" -m sphinx -q -W --keep-going -b html "$work" "$out" -d "$work/cache"
"$tools/bin/python" "$here/reference.py" man "$out/man/man3"
# Links to README.html and to the folder both lead to the first page.
cp "$out/README.html" "$out/index.html"
"$tools/bin/python" "$here/links.py" "$out"
echo "$out/index.html"
