#!/bin/sh
# notes.sh VERSION: prints the section of CHANGELOG.md on VERSION, without its heading.
set -eu
cd "$(dirname "$0")/.."
[ $# -eq 1 ] || { echo "usage: notes.sh VERSION" >&2; exit 1; }
awk -v heading="## [$1]" '
    /^## / { inside = index($0, heading) == 1; found = found || inside; next }
    inside && (started || NF) { started = 1; lines[++n] = $0; if (NF) last = n }
    END { for (i = 1; i <= last; i++) print lines[i]; exit !(found && last) }
' CHANGELOG.md || { echo "CHANGELOG.md has nothing under the heading \"## [$1]\"" >&2; exit 1; }
