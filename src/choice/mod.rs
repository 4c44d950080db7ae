//! The choices that a configuration leaves open: the device, how snapshots are stored, the schedule
//! and its plan.
//!
//! A job, which is a configuration and what is known of a state and of the machine, has storage options
//! ([`storage_options`]), each with its tiers and costs ([`TierSpec::of`]). [`choose_among`] takes the schedule and the plan: by the
//! configured numbers, or by a [`search`] over a portfolio of schedules whose run times are
//! predicted. Sessions that step together share one decision ([`SharedSchedule`]).

mod agree;
mod bound;
mod budgets;
mod certificate;
mod choose;
mod job;
#[cfg(test)]
mod optima_tests;
mod portfolio;
mod refine;
mod search;
mod shared_schedule;
mod storage;
mod storage_options;
mod target;
mod tier_spec;

pub(crate) use agree::agree;
pub(crate) use budgets::{are_left, take, Free, Promise};
pub use certificate::{certify, lower_bound, Certificate};
pub use choose::{choose_among, choose_schedule, Choice};
pub use job::{Job, State};
pub use refine::search_and_refine;
pub use search::{search, Candidate, Keep};
pub use shared_schedule::{Here, SharedSchedule, Tick, Why};
pub use storage::{Coded, Cut, Storage};
pub use storage_options::storage_options;
pub use target::Target;
pub use tier_spec::TierSpec;
