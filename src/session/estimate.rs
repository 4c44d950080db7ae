//! What a session would decide, found without making a session.

use super::open::{budget, job_of};
use crate::choice::{choose_among, storage_options, Choice, StorageOption};
use crate::config::Config;
use crate::device::AppField;
use crate::error::Result;
use crate::layout::Layout;

/// The schedule, the plan and the storage of snapshots that a session on its own schedule would
/// have.
pub struct Estimate {
    /// The schedule and its plan.
    pub choice: Choice,
    /// How snapshots are stored.
    pub option: StorageOption,
    /// `device_budget` and `host_budget` of the plan, in bytes; 0: no budget.
    pub budgets: (u64, u64),
}

/// Returns what a session of this configuration would decide for `steps` time steps and states of
/// these fields. Allocates no snapshot memory.
pub fn estimate(config: Config, steps: i64, fields: &[AppField]) -> Result<Estimate> {
    let (layout, steps) =
        (Layout::new(fields.iter().map(|f| f.field).collect())?, config.check_steps(steps)?);
    let (mut job, target) = job_of(config.into(), &layout, fields)?;
    budget(&mut job, &layout, steps, target);
    let mut options = storage_options(&job)?;
    let tiers = options.iter().map(|option| option.tiers.clone()).collect();
    let choice = choose_among(&job.config, steps, &[tiers])?;
    let option = options.swap_remove(choice.alternative);
    Ok(Estimate { choice, option, budgets: (job.device_budget, job.host_budget) })
}
