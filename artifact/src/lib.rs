//! Artifacts on disk: what they look like, how they are read and checked, how they are written.
//!
//! * [`manifest`]: the JSON of `tlaloc-serving.json`, field by field, unchecked.
//! * [`Artifact`]: a checked artifact. What [`Artifact::open`] returns is known good: every rule of
//!   artifact format §17 holds, so readers need no second look at ranges, roles or shapes.
//! * [`bounded`]: artifacts of programs with axes of bounded size.
//! * [`signature`]: the arguments and results that an entry must have (artifact format §7).
//! * [`stablehlo`]: reads function signatures out of StableHLO text.
//! * [`mod@write`]: builds a new artifact directory.
//! * [`staging`]: replaces a directory whole, or leaves it as it was.

mod artifact;
mod body;
pub mod bounded;
mod check;
pub mod dtype;
mod error;
mod json;
pub mod manifest;
pub mod signature;
pub mod stablehlo;
pub mod staging;
mod tensor;
pub mod write;

pub use artifact::{
    Artifact, Entry, EntryKind, LinearState, Pool, RefusedToken, SchemaVersion, WeightSlot,
    Windowed, entry_id,
};
pub use dtype::DType;
pub use error::Error;
pub use signature::{Input, InputRole, Output, OutputRole, PoolRole};
pub use tensor::Tensor;
