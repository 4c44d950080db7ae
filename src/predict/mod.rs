//! A run without its bytes: how long a plan would take, and when each part of the machine would be
//! busy.
//!
//! A [`Profile`] says what steps, copies, transfers and codecs cost on one machine; [`Costs`] is
//! what that means for the snapshots of one job; [`simulate()`] plays a plan against these costs.

mod budgets;
mod costs;
mod lanes;
mod player;
mod profile;
mod profile_file;
mod simulate;
mod simulation;
mod survey;
mod timeline;

pub use budgets::Budgets;
pub use costs::{Costs, Times};
pub use profile::{CodecProfile, Profile};
pub(crate) use simulate::simulate_within;
pub use simulate::{simulate, simulate_timeline};
pub use simulation::Simulation;
pub use survey::Survey;
pub use timeline::{Row, Timeline};
