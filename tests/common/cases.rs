//! How much a test tries. The unit tests of the library, the tests of the command and the replay of
//! the fuzz corpora include this file, too.
#![allow(dead_code)] // Not every program has both kinds of tests.

/// Whether `make test-long` runs: the variable `GPUZIP_TEST_LONG` is set.
pub fn long() -> bool {
    std::env::var_os("GPUZIP_TEST_LONG").is_some()
}

/// Returns the number of cases of a test: `full` in `make test-long`, else `quick`.
pub fn cases<T>(quick: T, full: T) -> T {
    if long() {
        full
    } else {
        quick
    }
}
