//! Writes serving artifacts from Hugging Face checkpoints.
//!
//! Data flows one way: a [`checkpoint`] is read by its [`family`] into a neutral
//! [`ModelSpec`](spec::ModelSpec) and a table of tensors; [`plan`] decides the entries, [`pools`]
//! and [`slots`] what they take; [`lower`] writes each entry's program with the builder in [`stablehlo`];
//! [`weights`] streams the tensors into their files; [`export()`] joins them into an artifact.
//! [`inspect`] describes an artifact that exists; [`examples`] writes a repository of small models.

pub mod checkpoint;
mod error;
pub mod examples;
mod export;
pub mod family;
pub mod inspect;
pub mod lower;
pub mod plan;
pub mod pools;
pub mod quantise;
pub mod slots;
pub mod spec;
pub mod stablehlo;
pub mod weights;

pub use error::Error;
pub use export::{ExportOptions, Progress, export};

#[cfg(test)]
#[path = "../tests/support/mod.rs"]
mod support;
