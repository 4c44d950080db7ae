# tests/foreign/blocks.rs reads this file before each command that tests/common/commands.rs lists as not run.
# These functions replace the commands by checks of their arguments. Variables of a batch system are not set.
set +u

# Finds the targets, and prints what `make` would do.
make() {
    command make -n "$@" >/dev/null
}

# Checks that the program of `cargo test --test NAME` or `cargo bench --bench NAME` exists.
cargo() {
    while [ $# -gt 0 ]; do
        case "$1" in
        --test)
            found=
            for file in "tests/$2/main.rs" "cli/tests/$2/main.rs" "cli/tests/$2.rs" "c-$2/tests.rs"; do
                [ ! -f "$REPOSITORY/$file" ] || found=$file
            done
            [ -n "$found" ] || { echo "there is no test program $2" >&2; return 1; }
            ;;
        --bench) ls "$REPOSITORY/benches/$2.rs" >/dev/null ;;
        -p) grep -q "^name = \"$2\"" "$REPOSITORY/Cargo.lock" ;;
        esac
        shift
    done
}

# Check that a script exists and has no syntax error.
sh() {
    command sh -n "$1"
}
sbatch() {
    bash -n "$1"
}
srun() {
    [ "$1" = build/rtm3d ]
}

# Checks that a package of this repository is in its folder.
pip() {
    [ "$1" = install ] || return 1
    case "$2" in
    */*) [ -f "$2/pyproject.toml" ] || { echo "pip $*: no such package" >&2; return 1; } ;;
    esac
}

# Checks that a script exists and has no syntax error, or that the package has a main program.
python() {
    [ "$1" != -m ] || set -- "python/src/$2/__main__.py"
    python3 -c 'import ast, sys; ast.parse(open(sys.argv[1]).read())' "$1"
}
python3() {
    case "$1" in
    -c) command python3 "$@" ;;
    *) python "$@" ;;
    esac
}

sudo() {
    "$@"
}

# The repository takes the place of what the archive has.
tar() {
    ln -sfn "$REPOSITORY" "$(basename "$2" .tar.gz)"
}

# Checks that the command has the subcommand.
gpuzip() {
    command gpuzip "$1" --help >/dev/null
}

# tests/foreign/install.rs finds the manual pages.
man() {
    :
}
