//! Hugging Face checkpoints on disk: `config.json` and `.safetensors` files, unnamed and unchecked.

mod config;
mod tensors;
mod weight;

pub use config::{Config, Keys};
pub use tensors::{Stored, StoredTensor, Tensors};
pub use weight::{Rows, StoredWeight};
