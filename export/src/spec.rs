//! A model, free of any checkpoint's vocabulary: what the lowering computes.
//!
//! A [family](crate::family) reads a checkpoint's config into a [`ModelSpec`]; nothing after that
//! knows the family. What differs between layers is a field of [`LayerSpec`].

/// A decoder-only language model.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelSpec {
    /// Family name in model hashes, as `llama`.
    pub family: &'static str,
    /// Rows of the embedding table, and the last logits axis.
    pub vocab_size: usize,
    /// Width of the residual stream.
    pub hidden_size: usize,
    /// Added to the mean square under every norm's root.
    pub norm_eps: f32,
    /// The largest number of positions that the model was made for.
    pub max_positions: usize,
    /// Whether logits use the embedding table instead of a matrix of their own.
    pub tied_head: bool,
    /// The layers, first to last. Never empty.
    pub layers: Vec<LayerSpec>,
}

/// One decoder layer: `x += attention(norm(x)); x += mlp(norm(x))`.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerSpec {
    /// The token mixer.
    pub attention: AttentionSpec,
    /// The channel mixer.
    pub mlp: MlpSpec,
}

/// Causal attention with grouped queries: query head `h` reads KV head `h / (heads / kv_heads)`.
#[derive(Clone, Debug, PartialEq)]
pub struct AttentionSpec {
    /// Query heads.
    pub heads: usize,
    /// Key/value heads; divides `heads`.
    pub kv_heads: usize,
    /// Features of a head; even.
    pub head_dim: usize,
    /// Factor on the scores.
    pub scale: f32,
    /// Radians per position of each rotated pair `(i, i + head_dim / 2)`; `head_dim / 2` values.
    pub rope_frequencies: Vec<f32>,
}

impl AttentionSpec {
    /// Query heads per KV head.
    pub fn group(&self) -> usize {
        self.heads / self.kv_heads
    }

    /// Features of all query heads.
    pub fn query_width(&self) -> usize {
        self.heads * self.head_dim
    }

    /// Features of all KV heads.
    pub fn kv_width(&self) -> usize {
        self.kv_heads * self.head_dim
    }
}

/// `down(silu(gate(x)) * up(x))`.
#[derive(Clone, Debug, PartialEq)]
pub struct MlpSpec {
    /// Features between the projections.
    pub intermediate_size: usize,
}

/// What a weight is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// Token embedding, `[vocab, hidden]`.
    Embedding,
    /// Gain of the norm before attention, `[hidden]`.
    InputNorm(usize),
    /// Query projection, `[heads * head_dim, hidden]`.
    Query(usize),
    /// Key projection, `[kv_heads * head_dim, hidden]`.
    Key(usize),
    /// Value projection, `[kv_heads * head_dim, hidden]`.
    Value(usize),
    /// Attention output projection, `[hidden, heads * head_dim]`.
    AttentionOutput(usize),
    /// Gain of the norm before the MLP, `[hidden]`.
    MlpNorm(usize),
    /// MLP gate projection, `[intermediate, hidden]`.
    Gate(usize),
    /// MLP up projection, `[intermediate, hidden]`.
    Up(usize),
    /// MLP down projection, `[hidden, intermediate]`.
    Down(usize),
    /// Gain of the last norm, `[hidden]`.
    FinalNorm,
    /// Output matrix of an untied model, `[vocab, hidden]`.
    Head,
}

impl ModelSpec {
    /// The attention that every layer's pools are shaped by.
    pub fn attention(&self) -> &AttentionSpec {
        &self.layers[0].attention
    }

    /// Every weight of the model and its shape, in the order of the computation.
    pub fn tensors(&self) -> Vec<(Role, Vec<usize>)> {
        let hidden = self.hidden_size;
        let mut tensors = vec![(Role::Embedding, vec![self.vocab_size, hidden])];
        for (l, LayerSpec { attention, mlp }) in self.layers.iter().enumerate() {
            tensors.extend([
                (Role::InputNorm(l), vec![hidden]),
                (Role::Query(l), vec![attention.query_width(), hidden]),
                (Role::Key(l), vec![attention.kv_width(), hidden]),
                (Role::Value(l), vec![attention.kv_width(), hidden]),
                (Role::AttentionOutput(l), vec![hidden, attention.query_width()]),
                (Role::MlpNorm(l), vec![hidden]),
                (Role::Gate(l), vec![mlp.intermediate_size, hidden]),
                (Role::Up(l), vec![mlp.intermediate_size, hidden]),
                (Role::Down(l), vec![hidden, mlp.intermediate_size]),
            ]);
        }
        tensors.push((Role::FinalNorm, vec![hidden]));
        if !self.tied_head {
            tensors.push((Role::Head, vec![self.vocab_size, hidden]));
        }
        tensors
    }
}
