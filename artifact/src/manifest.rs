//! `tlaloc-serving.json` as it stands on disk. Field order here is the order written.
//!
//! These types hold any well-typed manifest; what makes one servable is checked when an artifact is
//! opened.

use serde::{Deserialize, Serialize};

/// File name of the manifest inside an artifact.
pub const MANIFEST_FILE: &str = "tlaloc-serving.json";

/// The whole manifest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    /// The spelling of a [`crate::SchemaVersion`].
    pub schema_version: String,
    /// Repository id or directory name of the checkpoint.
    pub model_name: String,
    /// Identity of the model.
    pub model_hash: String,
    /// Shape and pools of the model.
    pub model: Model,
    /// Buckets of the entries; for other runtimes.
    pub bucket_ladder: BucketLadder,
    /// Where the weights are.
    pub weights: Weights,
    /// One per compiled program.
    pub entries: Vec<Entry>,
}

/// Shape of the model and of its pools.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Model {
    /// Size of the last logits axis.
    pub vocab_size: i64,
    /// Width of the residual stream.
    pub hidden_size: i64,
    /// Query heads.
    pub num_heads: i64,
    /// Key/value heads.
    pub num_kv_heads: i64,
    /// Features of one head.
    pub head_dim: i64,
    /// Decoder layers.
    pub num_layers: i64,
    /// Pages of a full-history pool, page 0 included.
    pub num_blocks: i64,
    /// Tokens of a page.
    pub block_size: i64,
    /// Dtype of activations and logits.
    pub dtype: String,
    /// Dtype of KV pools.
    pub kv_dtype: String,
    /// Quantised KV; always null in what this project serves.
    pub kv_quant: Option<serde_json::Value>,
    /// Constant axis names of a pool.
    pub kv_pool_axis_order: Vec<String>,
    /// `[num_blocks, block_size, num_kv_heads, head_dim]`.
    pub kv_pool_dims: Vec<i64>,
    /// Sliding-window pool (v3).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub windowed_kv: Option<WindowedKv>,
    /// Token ids that a server must refuse.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused_tokens: Vec<RefusedToken>,
    /// Linear-attention state (v4, v5).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub linear_state: Option<LinearState>,
    /// Draft tokens of a speculative step (v5); 0 when absent.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub mtp_draft_tokens: i64,
    /// Whether bodies call the project's CUDA kernels.
    #[serde(default, skip_serializing_if = "is_false")]
    pub cuda_kernels: bool,
}

/// The pool of sliding-window layers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WindowedKv {
    /// Largest window among the layers, in tokens.
    pub window: i64,
    /// The layers of this class.
    pub layers: Vec<i64>,
    /// Pages of a pool, page 0 included.
    pub num_blocks: i64,
    /// Pages of one sequence's ring.
    pub ring_pages: i64,
    /// `[num_blocks, block_size, num_kv_heads, head_dim]`.
    pub kv_pool_dims: Vec<i64>,
}

/// A token id that only stands for other media.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RefusedToken {
    /// The id.
    pub id: i64,
    /// The checkpoint's config key that names it.
    pub config_key: String,
}

/// State pools of linear-attention layers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LinearState {
    /// The layers of this class.
    pub layers: Vec<i64>,
    /// State slots of a pool.
    pub num_slots: i64,
    /// Dims of a convolution state pool.
    pub conv_state_dims: Vec<i64>,
    /// Dims of a recurrent state pool.
    pub recurrent_state_dims: Vec<i64>,
}

/// The buckets that entries stand for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BucketLadder {
    /// Tokens of a page.
    pub block_size: i64,
    /// Batch sizes, ascending.
    pub batch: Vec<i64>,
    /// Contexts in tokens, ascending.
    pub context: Vec<i64>,
}

/// Where the weights are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Weights {
    /// `staged` or `embedded`.
    pub format: String,
    /// Folder of staged weights.
    pub path: Option<String>,
    /// Whether the bodies hold the weights.
    pub embedded: bool,
    /// One row per weight slot, in slot order.
    #[serde(default)]
    pub table: Vec<WeightRow>,
}

/// One staged weight.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WeightRow {
    /// Slot name.
    pub name: String,
    /// File, relative to the manifest.
    pub path: String,
    /// Element type.
    pub dtype: String,
    /// Shape.
    pub dims: Vec<i64>,
    /// Size of the file.
    pub byte_length: i64,
    /// Lowercase hex SHA-256 of the file.
    pub sha256: String,
}

/// One compiled program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// `decode` or `prefill`.
    pub kind: String,
    /// Rows.
    pub batch: i64,
    /// Positions that a row may attend over, this call's tokens included.
    pub context: i64,
    /// Token columns of a row.
    pub tokens_per_seq: i64,
    /// Columns of a row's block table.
    pub max_blocks_per_seq: i64,
    /// Identity of the program.
    pub cache_key: String,
    /// Function to run.
    pub entry_point: String,
    /// Body file, relative to the manifest.
    pub body_path: String,
    /// Lowercase hex SHA-256 of the body.
    pub body_hash: String,
    /// Program description, relative to the manifest.
    pub program_path: String,
    /// Arguments in order.
    pub inputs: Vec<Slot>,
    /// Results in order.
    pub outputs: Vec<Slot>,
    /// `[input, output]` of each pool.
    pub donation_pairs: Vec<[i64; 2]>,
}

/// One argument or result of a program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Slot {
    /// Name, equal across entries for pools and weights.
    pub name: String,
    /// What the runtime does with it.
    pub role: String,
    /// Shape and element type.
    #[serde(rename = "type")]
    pub tensor: TensorType,
}

/// Shape and element type of a slot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TensorType {
    /// Element type.
    pub dtype: String,
    /// Shape.
    pub dims: Vec<i64>,
    /// Axis names; ignored.
    #[serde(default)]
    pub axis_names: Vec<Option<String>>,
}

fn is_zero(value: &i64) -> bool {
    *value == 0
}

fn is_false(value: &bool) -> bool {
    !*value
}
