//! Names of plans.

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
