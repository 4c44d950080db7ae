# Stands before each block of shell commands of the documentation. Commands that take long are looked at instead of run.

# `make install` installs what is built already; other targets say what they would do.
make() {
    case "$1" in
    install | uninstall) command make CARGO=no-cargo "$@" >/dev/null ;;
    *) command make -n "$@" >/dev/null ;;
    esac
}

# The test programs that `cargo test --test NAME` names exist.
cargo() {
    while [ $# -gt 0 ]; do
        if [ "$1" = --test ]; then
            [ -f "$REPOSITORY/tests/$2.rs" ] || [ -f "$REPOSITORY/cli/tests/$2.rs" ] || { echo "there is no test program $2" >&2; return 1; }
        fi
        shift
    done
}

# Scripts exist and are well-formed.
sh() {
    command sh -n "$@"
}

