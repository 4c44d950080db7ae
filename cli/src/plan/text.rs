//! Names and numbers of plans.

use gpuzip::choice::Candidate;
use gpuzip::plan::Policy;

/// Returns the name of a candidate's algorithm; GPUZIP 2.x's recipes have names of their own.
pub fn name(candidate: &Candidate) -> String {
    let name = candidate.schedule.algorithm.name();
    if policy(candidate) == Policy::Lru {
        format!("{name}, lru")
    } else {
        name.into()
    }
}

/// Returns the policy of a candidate's plans.
pub fn policy(candidate: &Candidate) -> Policy {
    candidate.plans.first().map_or(Policy::Clairvoyant, |plan| plan.policy)
}

/// Returns the number of time steps that a shot computes forward, repeated ones included. Only the last
/// macro-step, which is never computed forward, may have fewer time steps than the others.
pub(super) fn forward_steps(candidate: &Candidate) -> u64 {
    candidate.schedule.forward_steps() * u64::from(candidate.schedule.macro_steps().every())
}
