//! The codecs by themselves: bounds, streams, damaged streams.

#[path = "../common/mod.rs"]
mod common;

mod damage;
mod masks;
mod parts;
mod snapshots;
mod zfp;
