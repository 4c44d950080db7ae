//! What a session would decide, without one.

use super::open::{budget, target_of};
use crate::choice::{choose_among, storage_options, Choice, StorageOption};
use crate::config::Config;
use crate::device::AppField;
use crate::error::Result;
use crate::layout::Layout;
use crate::schedule::check_steps;

/// What a session by itself would decide, without making one.
pub struct Estimate {
    /// The schedule with its plan.
    pub choice: Choice,
    /// How snapshots are stored.
    pub option: StorageOption,
    /// `device_budget` and `host_budget` that it plans within; 0: none.
    pub budgets: (u64, u64),
}

/// What a session of this configuration would decide for `steps` steps and states of these fields.
pub fn estimate(mut config: Config, steps: i64, fields: &[AppField]) -> Result<Estimate> {
    let (layout, steps) =
        (Layout::new(fields.iter().map(|f| f.field).collect())?, check_steps(steps)?);
    let target = target_of(&mut config, fields)?;
    budget(&mut config, &layout, steps, target);
    let mut options = storage_options(&config, &layout)?;
    let sizes = options.iter().map(|option| option.sizes.clone()).collect();
    let choice = choose_among(&config, steps, &[sizes])?;
    let option = options.swap_remove(choice.alternative);
    Ok(Estimate { choice, option, budgets: (config.device_budget, config.host_budget) })
}
