//! The pools of each layer (artifact format §7.3).

use tlaloc_artifact::DType;
use tlaloc_artifact::signature::PoolRole;

use crate::plan::PoolShape;
use crate::spec::{LayerSpec, Mixer};

/// A pool of a layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerPool {
    /// Slot name.
    pub name: String,
    /// Its class.
    pub role: PoolRole,
    /// Element type.
    pub dtype: DType,
    /// Shape.
    pub dims: Vec<usize>,
}

/// The two pools of layer number `l`: keys and values of attention.
pub fn layer_pools(l: usize, layer: &LayerSpec, shape: PoolShape) -> [LayerPool; 2] {
    match &layer.mixer {
        Mixer::Attention(attention) => ["keyCache", "valueCache"].map(|name| LayerPool {
            name: format!("{name}{l}"),
            role: PoolRole::Kv,
            dtype: DType::F32,
            dims: vec![shape.num_blocks, shape.block_size, attention.kv_heads, attention.head_dim],
        }),
    }
}
