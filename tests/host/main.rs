//! Sessions on the host backend: every restored state is the one that was saved, whatever the
//! schedule, the codec, the tiers, the disk, the restarts.

#[path = "../common/mod.rs"]
mod common;

mod autotune;
mod compression;
mod cut_anywhere;
mod default_budgets;
mod disk;
mod export;
mod files;
mod levels;
mod memory;
mod reference;
mod restart_disk;
mod restart_stop;
mod restart_within;
mod sessions;
mod stop;
mod strides;
mod sweeps;
mod timeline;
mod zero_copy;
