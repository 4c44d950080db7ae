//! The interface in C: its header, layouts, promises and refusals, programs of other versions, and the
//! order of the modules behind it.

#[path = "../common/mod.rs"]
mod common;

mod contract;
mod floors;
mod header;
mod layout;
mod minimal;
mod skew;
