//! Prediction: a run without its bytes. How long a plan would take, and when each part of the
//! machine would be busy.
//!
//! A [`Profile`] has the speeds of steps, copies, transfers and codecs of one application on one
//! machine. [`Costs`] are these speeds applied to the snapshots of one job. [`simulate()`] plays a
//! plan with these costs.

mod budgets;
mod clocks;
mod costs;
mod delays;
mod lanes;
mod least;
mod profile;
mod profile_file;
mod simulate;
mod simulation;
mod timeline;

pub use budgets::Budgets;
pub use costs::{Costs, Times};
pub use profile::{CodecProfile, Profile, MOST_PARTS};
pub use simulate::{simulate, simulate_timeline};
pub(crate) use simulate::{simulate_within, Limit};
pub use simulation::Simulation;
pub use timeline::{Row, Timeline};
