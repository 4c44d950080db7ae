//! What a handle `gpuzip_quality_t` stands for: the choice of a bound, and the configurations of its runs.

use super::types::*;
use crate::quality::{Quality, Run};
use std::ptr;

/// The choice of a bound, and the configuration of its runs.
pub struct QualityRuns {
    pub quality: Quality,
    /// The caller's configuration; its strings are the caller's.
    pub config: gpuzip_config_t,
    /// Whether the run with raw snapshots may take another schedule.
    pub is_planned: bool,
}

// SAFETY: the strings of the configuration are never read here, only handed back to the caller.
unsafe impl Send for QualityRuns {}

impl QualityRuns {
    /// Returns the configuration of a run.
    pub fn config_of(&self, run: Run) -> gpuzip_config_t {
        let mut config = gpuzip_config_t { quality: ptr::null(), ..self.config };
        if !matches!(run, Run::Settled(_)) {
            // A restart cannot tell in which run a generation was written: it measures anew. A check makes
            // all snapshots raw.
            (config.persist_dir, config.check) = (ptr::null(), 0);
        }
        match run {
            Run::Coded(bound) | Run::Settled(bound) => config.error_bound = bound,
            Run::Raw => {
                config.compressor = GPUZIP_COMPRESSOR_NONE;
                (config.error_bound, config.nonfinite) = (0.0, 0);
                (config.mixed_storage, config.sequences) = (0, 0);
                if self.is_planned {
                    config.checkpointing_algorithm = GPUZIP_ALGORITHM_AUTO;
                    config.checkpointing_snaps = 0;
                }
            }
        }
        config
    }
}
