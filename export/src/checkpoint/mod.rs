//! Hugging Face checkpoints on disk: `config.json` and `.safetensors` files, unnamed and unchecked.

mod config;
mod tensors;

pub use config::{Config, Keys};
pub use tensors::{Stored, StoredTensor, Tensors};
