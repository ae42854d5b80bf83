//! The rules of sequence mode, one by one.

#[path = "../support/mod.rs"]
mod support;

mod batching;
mod calls;
mod failures;
mod reclaim;
mod refusals;
