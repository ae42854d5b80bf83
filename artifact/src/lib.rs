//! The serving artifact on disk: what it looks like, how it is read and checked, how it is written.
//!
//! * [`manifest`]: the JSON of `tlaloc-serving.json`, field by field.
//! * [`dtype`]: element types and their spellings.

pub mod dtype;
pub mod manifest;

pub use dtype::DType;
