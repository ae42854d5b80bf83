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
    /// Added to the mean square under every norm's root, unless a norm has its own.
    pub norm_eps: f32,
    /// The largest number of positions that the model was made for.
    pub max_positions: usize,
    /// What happens to a token's row of the embedding table before the first layer.
    pub embedding: EmbeddingTransform,
    /// The layers, first to last. Never empty; one at least has attention.
    pub layers: Vec<LayerSpec>,
    /// From the last layer's norm to logits.
    pub head: HeadSpec,
    /// Placeholder tokens that a server must refuse.
    pub refused_tokens: Vec<RefusedToken>,
    /// What proposes tokens ahead, if the checkpoint has it.
    pub draft: Option<DraftSpec>,
}

/// A draft head (multi-token prediction): from the last norm's output at a token and the token after
/// it, the token after that. `norm(layer(projection · [norm(embedding), norm(hidden)]))` goes to the
/// model's own head, and is the hidden input of the next proposal.
#[derive(Clone, Debug, PartialEq)]
pub struct DraftSpec {
    /// Its one layer, which has attention over pools of its own.
    pub layer: LayerSpec,
    /// Proposals of a step, `K`; 0 until an export asks for some.
    pub tokens: usize,
}

/// What happens to a token's row of the embedding table before the first layer.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum EmbeddingTransform {
    /// Nothing.
    #[default]
    None,
    /// It is multiplied by this factor.
    Scale(f32),
    /// It is normed, without gain.
    Norm,
}

/// From the last layer's norm to logits: `cap(multiplier * (table · norm(x)))`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HeadSpec {
    /// Whether logits use the embedding table instead of a matrix of their own.
    pub tied: bool,
    /// Factor on the products, before the cap.
    pub multiplier: f32,
    /// `cap(z) = c * tanh(z / c)` for this `c`; `None` for no cap.
    pub softcap: Option<f32>,
}

/// A token id that stands for something which a text decoder cannot take.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RefusedToken {
    /// The token id, below the vocabulary's size.
    pub id: usize,
    /// The config key that names it.
    pub config_key: &'static str,
}

/// One decoder layer: `x += mixer(norm(x)); x += ffn(norm(x))`.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerSpec {
    /// What mixes tokens.
    pub mixer: Mixer,
    /// What mixes features.
    pub ffn: Ffn,
    /// Whether the outputs of mixer and ffn are normed before they are added, and the `eps` of those
    /// norms.
    pub output_norm_eps: Option<f32>,
}

/// The part of a layer that reads other tokens.
#[derive(Clone, Debug, PartialEq)]
pub enum Mixer {
    /// Softmax attention over keys and values in KV pools.
    Attention(AttentionSpec),
    /// Linear attention over a convolution's and a recurrence's state.
    GatedDelta(GatedDeltaSpec),
}

/// The part of a layer that works on each token alone.
#[derive(Clone, Debug, PartialEq)]
pub enum Ffn {
    /// One gated MLP.
    Dense(MlpSpec),
    /// A mixture of gated MLPs.
    Moe(MoeSpec),
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
    /// Radians per position of each rotated pair: with `n` values the pairs are `(i, i + n)`, and
    /// features from `2 * n` on are not rotated. At most `head_dim / 2` values; empty for a layer
    /// without rotary embedding.
    pub rope_frequencies: Vec<f32>,
    /// Norm of each query and key head, before the rotation.
    pub qk_norm: HeadNorm,
    /// Whether query, key and value projections have a bias.
    pub bias: bool,
    /// Whether the heads' outputs are multiplied by `sigmoid(gate · h)`, with `h` the input that
    /// queries are made of, before the output projection.
    pub gate: bool,
    /// Positions that a token sees, its own included; `None` for all.
    pub window: Option<usize>,
    /// Scores become `c * tanh(score / c)` for this `c`, before the mask; `None` for no cap.
    pub softcap: Option<f32>,
}

/// A root-mean-square norm over the features of each head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HeadNorm {
    /// None.
    #[default]
    Off,
    /// Without gain.
    Plain,
    /// With a gain that all heads share.
    Gain,
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

/// `down(activation(gate(x)) * up(x))`.
#[derive(Clone, Debug, PartialEq)]
pub struct MlpSpec {
    /// Features between the projections.
    pub intermediate_size: usize,
    /// The function on the gate.
    pub activation: Activation,
}

/// Gated DeltaNet: a short causal convolution over time, then the delta rule with decay. Value head
/// `h` reads key head `h / (value_heads / key_heads)`.
#[derive(Clone, Debug, PartialEq)]
pub struct GatedDeltaSpec {
    /// Query and key heads.
    pub key_heads: usize,
    /// Value heads; a multiple of `key_heads`.
    pub value_heads: usize,
    /// Features of a query or key head.
    pub key_dim: usize,
    /// Features of a value head.
    pub value_dim: usize,
    /// Taps of the convolution; the last is the current token's. At least 2.
    pub kernel: usize,
}

impl GatedDeltaSpec {
    /// Value heads per key head.
    pub fn group(&self) -> usize {
        self.value_heads / self.key_heads
    }

    /// Features of all query heads, and of all key heads.
    pub fn key_width(&self) -> usize {
        self.key_heads * self.key_dim
    }

    /// Features of all value heads.
    pub fn value_width(&self) -> usize {
        self.value_heads * self.value_dim
    }

    /// Channels of the convolution: queries, keys, values.
    pub fn channels(&self) -> usize {
        2 * self.key_width() + self.value_width()
    }
}

/// Each token's `experts_per_token` most probable experts, their outputs weighted by probability.
#[derive(Clone, Debug, PartialEq)]
pub struct MoeSpec {
    /// Experts that tokens are routed to.
    pub experts: usize,
    /// Experts of a token; at most `experts`.
    pub experts_per_token: usize,
    /// Whether the weights of a token's experts are divided by their sum.
    pub normalise: bool,
    /// Each expert.
    pub expert: MlpSpec,
    /// An expert of every token, its output multiplied by `sigmoid(gate · h)`.
    pub shared: Option<MlpSpec>,
}

/// An elementwise function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// `x * sigmoid(x)`.
    Silu,
    /// `x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x³)))`.
    GeluTanh,
}

impl ModelSpec {
    /// The first layer's attention that has one: all of a model agree in heads and head size.
    pub fn attention(&self) -> Option<&AttentionSpec> {
        self.layers.iter().find_map(LayerSpec::attention)
    }

    /// The first layer's DeltaNet that has one: all of a model are equal.
    pub fn gated_delta(&self) -> Option<&GatedDeltaSpec> {
        self.layers.iter().find_map(LayerSpec::gated_delta)
    }

    /// Draft tokens of a step, `K`; 0 without a draft head.
    pub fn draft_tokens(&self) -> usize {
        self.draft.as_ref().map_or(0, |draft| draft.tokens)
    }

    /// The layer that `role` is part of, if it is, and what it is there.
    pub fn layer_of(&self, role: Role) -> Option<(&LayerSpec, LayerRole)> {
        match role {
            Role::Layer(l, role) => Some((self.layers.get(l)?, role)),
            Role::Draft(DraftRole::Layer(role)) => Some((&self.draft.as_ref()?.layer, role)),
            _ => None,
        }
    }
}

impl LayerSpec {
    /// The layer's attention, if that is its mixer.
    pub fn attention(&self) -> Option<&AttentionSpec> {
        match &self.mixer {
            Mixer::Attention(attention) => Some(attention),
            Mixer::GatedDelta(_) => None,
        }
    }

    /// The layer's DeltaNet, if that is its mixer.
    pub fn gated_delta(&self) -> Option<&GatedDeltaSpec> {
        match &self.mixer {
            Mixer::Attention(_) => None,
            Mixer::GatedDelta(delta) => Some(delta),
        }
    }
}

/// What a tensor of a checkpoint is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// Token embedding, `[vocab, hidden]`.
    Embedding,
    /// Part of a layer.
    Layer(usize, LayerRole),
    /// Gain of the last norm, `[hidden]`.
    FinalNorm,
    /// Output matrix of an untied model, `[vocab, hidden]`.
    Head,
    /// Part of the draft head.
    Draft(DraftRole),
}

/// What a tensor of the draft head is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DraftRole {
    /// Gain of the norm of the next token's embedding, `[hidden]`.
    EmbeddingNorm,
    /// Gain of the norm of the hidden input, `[hidden]`.
    HiddenNorm,
    /// Projection of both, embedding first, `[hidden, 2 * hidden]`.
    Projection,
    /// Part of its layer.
    Layer(LayerRole),
    /// Gain of the last norm, `[hidden]`.
    FinalNorm,
}

impl Role {
    /// Whether it is the gain of a root-mean-square norm of the residual stream, of a branch's
    /// output, or of query or key heads.
    pub fn is_norm(self) -> bool {
        match self {
            Role::FinalNorm => true,
            Role::Embedding | Role::Head | Role::Draft(DraftRole::Projection) => false,
            Role::Draft(
                DraftRole::EmbeddingNorm | DraftRole::HiddenNorm | DraftRole::FinalNorm,
            ) => true,
            Role::Layer(_, role) | Role::Draft(DraftRole::Layer(role)) => matches!(
                role,
                LayerRole::MixerNorm
                    | LayerRole::MixerOutputNorm
                    | LayerRole::FfnNorm
                    | LayerRole::FfnOutputNorm
                    | LayerRole::QueryNorm
                    | LayerRole::KeyNorm
            ),
        }
    }
}

/// What a layer's tensor is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LayerRole {
    /// Gain of the norm before the mixer, `[hidden]`.
    MixerNorm,
    /// Gain of the norm of the mixer's output, `[hidden]`.
    MixerOutputNorm,
    /// Gain of the norm before the ffn, `[hidden]`.
    FfnNorm,
    /// Gain of the norm of the ffn's output, `[hidden]`.
    FfnOutputNorm,
    /// Query projection, `[heads * head_dim, hidden]`.
    Query,
    /// Key projection, `[kv_heads * head_dim, hidden]`.
    Key,
    /// Value projection, `[kv_heads * head_dim, hidden]`.
    Value,
    /// Attention gate projection, `[heads * head_dim, hidden]`.
    AttentionGate,
    /// Bias of the query projection, `[heads * head_dim]`.
    QueryBias,
    /// Bias of the key projection, `[kv_heads * head_dim]`.
    KeyBias,
    /// Bias of the value projection, `[kv_heads * head_dim]`.
    ValueBias,
    /// Gain of the query heads' norm, `[head_dim]`.
    QueryNorm,
    /// Gain of the key heads' norm, `[head_dim]`.
    KeyNorm,
    /// Attention output projection, `[hidden, heads * head_dim]`.
    AttentionOutput,
    /// DeltaNet query projection, `[key_heads * key_dim, hidden]`.
    DeltaQuery,
    /// DeltaNet key projection, `[key_heads * key_dim, hidden]`.
    DeltaKey,
    /// DeltaNet value projection, `[value_heads * value_dim, hidden]`.
    DeltaValue,
    /// DeltaNet output gate projection, `[value_heads * value_dim, hidden]`.
    DeltaGate,
    /// Projection of the delta rule's step size, `[value_heads, hidden]`.
    DeltaBeta,
    /// Projection of the decay, `[value_heads, hidden]`.
    DeltaDecay,
    /// The convolution's taps of queries, keys, values, `[channels, kernel]`.
    DeltaConv,
    /// Logarithm of the decay rate, `[value_heads]`.
    DeltaLogRate,
    /// Bias of the decay, `[value_heads]`.
    DeltaDecayBias,
    /// Gain of the norm of the heads' outputs, `[value_dim]`.
    DeltaNorm,
    /// DeltaNet output projection, `[hidden, value_heads * value_dim]`.
    DeltaOutput,
    /// Router of a mixture, `[experts, hidden]`.
    Router,
    /// Gate projection of an expert, `[intermediate, hidden]`.
    ExpertGate(usize),
    /// Up projection of an expert, `[intermediate, hidden]`.
    ExpertUp(usize),
    /// Down projection of an expert, `[hidden, intermediate]`.
    ExpertDown(usize),
    /// Gate projection of the shared expert, `[intermediate, hidden]`.
    SharedExpertGate,
    /// Up projection of the shared expert, `[intermediate, hidden]`.
    SharedExpertUp,
    /// Down projection of the shared expert, `[hidden, intermediate]`.
    SharedExpertDown,
    /// What the shared expert's output is multiplied by, before the sigmoid, `[1, hidden]`.
    SharedExpertScale,
    /// MLP gate projection, `[intermediate, hidden]`.
    Gate,
    /// MLP up projection, `[intermediate, hidden]`.
    Up,
    /// MLP down projection, `[hidden, intermediate]`.
    Down,
}
