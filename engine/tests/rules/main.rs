//! The rules of sequence mode, one by one.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../support/mod.rs"]
mod support;

mod batching;
mod calls;
mod failures;
mod linear;
mod reclaim;
mod refusals;
mod window;
