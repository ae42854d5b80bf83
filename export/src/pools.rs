//! The pools of each layer (artifact format §7.3), and the size of those that hold a window (§8).

use tlaloc_artifact::DType;
use tlaloc_artifact::signature::PoolRole;

use crate::plan::PoolShape;
use crate::spec::{AttentionSpec, GatedDeltaSpec, LayerSpec, Mixer, ModelSpec};

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

/// The pools of a model, in signature order.
pub fn model_pools(spec: &ModelSpec, shape: PoolShape) -> Vec<LayerPool> {
    let layers = spec.layers.iter().enumerate();
    layers
        .flat_map(|(l, layer)| layer_pools(l, layer, shape))
        .chain(draft_pools(spec, shape))
        .collect()
}

/// The pools of the draft head, if there is one: keys and values of its layer, and the hidden state
/// of each sequence's last token.
pub fn draft_pools(spec: &ModelSpec, shape: PoolShape) -> Vec<LayerPool> {
    let Some(draft) = &spec.draft else { return Vec::new() };
    let [keys, values] = layer_pools(0, &draft.layer, shape);
    let name = |name: &str| name.to_owned();
    let hidden = vec![shape.state_slots, 1, 1, spec.hidden_size];
    vec![
        LayerPool { name: name("mtpKeyCache"), ..keys },
        LayerPool { name: name("mtpValueCache"), ..values },
        LayerPool {
            name: name("mtpHidden"),
            role: PoolRole::State,
            dtype: DType::F32,
            dims: hidden,
        },
    ]
}

/// The two pools of layer number `l`: keys and values of attention, or the states of a DeltaNet's
/// convolution and recurrence.
pub fn layer_pools(l: usize, layer: &LayerSpec, shape: PoolShape) -> [LayerPool; 2] {
    let pool = |name, role, dims| {
        let dtype = if role == PoolRole::State { DType::F32 } else { shape.kv_dtype };
        LayerPool { name: format!("{name}{l}"), role, dtype, dims }
    };
    match &layer.mixer {
        Mixer::Attention(attention) => {
            let AttentionSpec { kv_heads, head_dim, .. } = *attention;
            let role = class(attention, shape);
            let blocks = match (role, shape.windowed) {
                (PoolRole::WindowKv, Some(windowed)) => windowed.num_blocks,
                _ => shape.num_blocks,
            };
            let dims = vec![blocks, shape.block_size, kv_heads, head_dim];
            ["keyCache", "valueCache"].map(|name| pool(name, role, dims.clone()))
        }
        Mixer::GatedDelta(delta) => [
            pool("convState", PoolRole::State, conv_state(delta, shape).to_vec()),
            pool("recurrentState", PoolRole::State, recurrent_state(delta, shape).to_vec()),
        ],
    }
}

/// Shape of the pool of a DeltaNet's convolution: the last inputs of each channel, but for the
/// current token's.
pub fn conv_state(delta: &GatedDeltaSpec, shape: PoolShape) -> [usize; 3] {
    [shape.state_slots, delta.kernel - 1, delta.channels()]
}

/// Shape of the pool of a DeltaNet's recurrence.
pub fn recurrent_state(delta: &GatedDeltaSpec, shape: PoolShape) -> [usize; 4] {
    [shape.state_slots, delta.value_heads, delta.key_dim, delta.value_dim]
}

/// The class of the pools of `attention`: windowed where it has a window and there are such pools.
pub fn class(attention: &AttentionSpec, shape: PoolShape) -> PoolRole {
    match (attention.window, shape.windowed) {
        (Some(_), Some(_)) => PoolRole::WindowKv,
        _ => PoolRole::Kv,
    }
}

/// Size of the pools in which a sequence has a ring of pages instead of its whole history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowedPools {
    /// Largest window among the layers, in tokens.
    pub window: usize,
    /// Pages of a sequence's ring.
    pub ring_pages: usize,
    /// Pages of a pool, page 0 included.
    pub num_blocks: usize,
}

impl WindowedPools {
    /// Rings beside full-history pools of `full_blocks` pages, for as many sequences as these hold
    /// at `max_context`. A ring has room for one window and one call of `chunk` tokens; without a
    /// chunk, for a page more than the window.
    pub fn sized(
        window: usize,
        chunk: Option<usize>,
        block_size: usize,
        max_context: usize,
        full_blocks: usize,
    ) -> WindowedPools {
        let context_pages = max_context.div_ceil(block_size);
        let for_window = window.div_ceil(block_size).saturating_add(1);
        let for_chunk =
            chunk.map_or(0, |chunk| (window - 1).saturating_add(chunk).div_ceil(block_size));
        let ring_pages = for_window.max(for_chunk).min(context_pages);
        let sequences = (full_blocks - 1).div_ceil(context_pages).max(1);
        let num_blocks = sequences.saturating_mul(ring_pages).saturating_add(1).min(full_blocks);
        WindowedPools { window, ring_pages, num_blocks }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `(window, chunk, block size, largest context, pages)` and the `(ring pages, pages)` that the
    /// artifact format's formula gives.
    #[test]
    fn rings_are_sized_as_the_format_says() {
        for ((window, chunk, block_size, context, full), expected) in [
            // The format's own examples.
            ((8, None, 4, 64, 65), (3, 13)),
            ((8, Some(6), 4, 64, 65), (4, 17)),
            // A ring is never longer than the context; then the class saves nothing.
            ((4096, None, 16, 512, 33), (32, 33)),
            ((8, Some(1000), 4, 64, 65), (16, 65)),
            // 33 pages for 512 tokens of window, 64 with chunks of 512; two sequences of 8,192.
            ((512, None, 16, 8192, 1025), (33, 67)),
            ((512, Some(512), 16, 8192, 1025), (64, 129)),
            // Less than one whole context: one ring, in no more pages than the other pools have.
            ((8, None, 4, 64, 10), (3, 4)),
            ((8, None, 4, 64, 3), (3, 3)),
            // A window of one token.
            ((1, Some(1), 16, 64, 5), (2, 3)),
        ] {
            let sized = WindowedPools::sized(window, chunk, block_size, context, full);
            assert_eq!((sized.ring_pages, sized.num_blocks), expected, "{window}, {chunk:?}");
        }
    }
}
