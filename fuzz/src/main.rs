//! Runs libFuzzer over one target. The variable FUZZ_TARGET names the target; `fuzz/run.sh` builds
//! and starts this program.
#![no_main]

use std::sync::OnceLock;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    static TARGET: OnceLock<gpuzip_fuzz::Target> = OnceLock::new();
    let target = TARGET.get_or_init(|| {
        let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
        let known = gpuzip_fuzz::TARGETS.iter().find(|(known, _)| *known == name);
        known
            .unwrap_or_else(|| {
                panic!(
                    "FUZZ_TARGET={name}: no target; they are {:?}",
                    gpuzip_fuzz::TARGETS.map(|(name, _)| name)
                )
            })
            .1
    });
    target(data);
});
