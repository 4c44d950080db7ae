# tests/docs/pages.rs puts this file before each block of shell commands of the documentation. These
# functions replace commands that take long by checks of their arguments.

# `make install` and `make uninstall` run without building; other targets run with `make -n`.
make() {
    case "$1" in
    install | uninstall) command make CARGO=no-cargo "$@" >/dev/null ;;
    *) command make -n "$@" >/dev/null ;;
    esac
}

# Checks that the test program of `cargo test --test NAME` exists.
cargo() {
    while [ $# -gt 0 ]; do
        if [ "$1" = --test ]; then
            [ -f "$REPOSITORY/tests/$2/main.rs" ] || [ -f "$REPOSITORY/cli/tests/$2/main.rs" ] || [ -f "$REPOSITORY/cli/tests/$2.rs" ] || { echo "there is no test program $2" >&2; return 1; }
        fi
        shift
    done
}

# Checks that a script exists and has no syntax error.
sh() {
    command sh -n "$@"
}

# Checks that the folder holds a package; tests/foreign/python.rs installs it.
pip() {
    [ "$1" = install ] && [ -f "$2/pyproject.toml" ] || { echo "pip $*: no such package" >&2; return 1; }
}

# Checks that a script exists and has no syntax error; tests/foreign/python.rs runs it.
python() {
    command python3 -c 'import ast, sys; ast.parse(open(sys.argv[1]).read())' "$1"
}
