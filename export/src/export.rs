//! One checkpoint to one artifact.

use std::path::Path;

use tlaloc_artifact::manifest::{BucketLadder, LinearState, Model, RefusedToken, WindowedKv};
use tlaloc_artifact::signature::{Geometry, Signature};
use tlaloc_artifact::write::{ArtifactWriter, Description, EntryDescription};
use tlaloc_artifact::{DType, Pool, PoolRole, Tensor};

use crate::checkpoint::{Config, Tensors};
use crate::family::Family;
use crate::plan::{Bucket, Plan, PlanOptions, PoolShape};
use crate::pools::{self, LayerPool};
use crate::quantise::WeightQuant;
use crate::slots::{WeightDType, WeightLayout, weight_slots};
use crate::spec::{DraftSpec, LayerSpec, ModelSpec};
use crate::{Error, family, lower, weights};

/// What to export, apart from the checkpoint.
#[derive(Clone, Debug, Default)]
pub struct ExportOptions {
    /// Model name in the manifest; `None` for the checkpoint's repository id where its path shows
    /// it (the Hugging Face cache), else the folder's name.
    pub name: Option<String>,
    /// Entries and pools.
    pub plan: PlanOptions,
    /// Element type of staged weights.
    pub weight_dtype: WeightDType,
    /// Layout of staged projections.
    pub weight_layout: WeightLayout,
    /// What the layers' projections are quantised to; `None` for not at all.
    pub weight_quant: Option<WeightQuant>,
}

/// Is told how far an export is.
pub trait Progress {
    /// Weights of `total` bytes follow.
    fn start(&mut self, total: u64);
    /// The weight `slot` follows.
    fn weight(&mut self, slot: &str);
    /// `bytes` more were written.
    fn advance(&mut self, bytes: u64);
}

/// Reads the checkpoint folder `checkpoint` and writes the artifact `out`, which is replaced if it
/// is an artifact already. Equal inputs give byte-identical artifacts.
///
/// # Errors
/// When the checkpoint is not a model that this exporter computes in full, an option does not fit
/// it, or something cannot be read or written. `out` is then as it was.
pub fn export(
    checkpoint: &Path,
    out: &Path,
    options: &ExportOptions,
    progress: &mut dyn Progress,
) -> Result<(), Error> {
    let (family, spec) = family::read(Config::open(checkpoint)?)?;
    export_spec(family, spec, checkpoint, out, options, progress)
}

/// [`export()`] of the model `spec`, whose weights `checkpoint` holds where `family` has them.
pub(crate) fn export_spec(
    family: &Family,
    spec: ModelSpec,
    checkpoint: &Path,
    out: &Path,
    options: &ExportOptions,
    progress: &mut dyn Progress,
) -> Result<(), Error> {
    let spec = with_drafts(spec, options.plan.draft_tokens)?;
    let plan = Plan::new(&options.plan, &spec)?;
    let ExportOptions { weight_dtype, weight_layout, weight_quant, .. } = *options;
    let slots = weight_slots(&spec, weight_dtype, weight_layout, weight_quant);
    let tensors = family.weights(&spec, &slots, Tensors::open(checkpoint)?)?;
    let types = slots
        .iter()
        .map(|slot| Ok((slot.name.clone(), sized(&slot.name, slot.content.dtype(), &slot.dims)?)))
        .collect::<Result<Vec<_>, Error>>()?;

    let mut writer = ArtifactWriter::create(out)?;
    let mut entries = Vec::new();
    for &bucket in &plan.buckets {
        let text = lower::program(&spec, &slots, weight_layout, plan.pools, bucket);
        entries.push(EntryDescription {
            kind: bucket.kind,
            batch: bucket.batch,
            context: bucket.context,
            tokens: bucket.tokens,
            columns: bucket.context / plan.pools.block_size,
            body: writer.body(&text)?,
            signature: signature(&spec, plan.pools, bucket, &types)?,
        });
    }
    progress.start(types.iter().map(|(_, tensor)| tensor.bytes() as u64).sum());
    for (slot, (name, tensor)) in slots.iter().zip(&types) {
        progress.weight(name);
        let mut sink = writer.weight(name, tensor)?;
        weights::write_slot(slot, &tensors, &mut sink, &mut |bytes| progress.advance(bytes))?;
        sink.finish()?;
    }
    let model_name = options.name.clone().unwrap_or_else(|| repository_id(checkpoint));
    writer.finish(Description {
        model_hash: model_hash(&model_name, &spec, options),
        model_name,
        model: model(&spec, plan.pools),
        ladder: BucketLadder {
            block_size: signed(plan.pools.block_size),
            batch: plan.batches.iter().copied().map(signed).collect(),
            context: plan.contexts.iter().copied().map(signed).collect(),
        },
        entries,
    })?;
    Ok(())
}

/// `spec` with a draft head that proposes so many tokens a step, or without one.
fn with_drafts(spec: ModelSpec, tokens: usize) -> Result<ModelSpec, Error> {
    match (tokens, spec.draft) {
        (0, _) => Ok(ModelSpec { draft: None, ..spec }),
        (_, Some(draft)) => Ok(ModelSpec { draft: Some(DraftSpec { tokens, ..draft }), ..spec }),
        (_, None) => Err(Error::Option {
            option: "draft-tokens",
            reason: format!(
                "is {tokens}, but the checkpoint has no draft head that could make them: that is one \
                 of Qwen 3.5 with mtp_num_hidden_layers 1, sharing the model's embedding"
            ),
        }),
    }
}

fn signature(
    spec: &ModelSpec,
    pools: PoolShape,
    bucket: Bucket,
    weights: &[(String, Tensor)],
) -> Result<Signature, Error> {
    let geometry = Geometry {
        batch: bucket.batch,
        tokens: bucket.tokens,
        columns: bucket.context / pools.block_size,
        logits_columns: bucket.logits_columns(),
        vocab_size: spec.vocab_size,
        draft_tokens: spec.draft_tokens(),
        windowed: pools.windowed.is_some(),
        linear_state: spec.gated_delta().is_some(),
    };
    let pools = pools::model_pools(spec, pools)
        .into_iter()
        .map(|LayerPool { name, role, dtype, dims }| {
            let tensor = sized(&name, dtype, &dims)?;
            Ok(Pool { name, role, tensor })
        })
        .collect::<Result<Vec<_>, Error>>()?;
    Ok(Signature::new(&geometry, &pools, weights)?)
}

fn sized(slot: &str, dtype: DType, dims: &[usize]) -> Result<Tensor, Error> {
    let oversize = || tlaloc_artifact::Error::Oversize { slot: slot.to_owned() };
    Ok(Tensor::new(dtype, dims).ok_or_else(oversize)?)
}

fn model(spec: &ModelSpec, pools: PoolShape) -> Model {
    let (heads, kv_heads, head_dim) =
        spec.attention().map_or((1, 1, 1), |a| (a.heads, a.kv_heads, a.head_dim));
    let pool_dims = |blocks| [blocks, pools.block_size, kv_heads, head_dim].map(signed).to_vec();
    Model {
        vocab_size: signed(spec.vocab_size),
        hidden_size: signed(spec.hidden_size),
        num_heads: signed(heads),
        num_kv_heads: signed(kv_heads),
        head_dim: signed(head_dim),
        num_layers: signed(spec.layers.len()),
        num_blocks: signed(pools.num_blocks),
        block_size: signed(pools.block_size),
        dtype: DType::F32.manifest_name().to_owned(),
        kv_dtype: pools.kv_dtype.manifest_name().to_owned(),
        kv_quant: None,
        kv_pool_axis_order: ["numBlocks", "blockSize", "numKvHeads", "headDim"]
            .map(str::to_owned)
            .to_vec(),
        kv_pool_dims: pool_dims(pools.num_blocks),
        windowed_kv: pools.windowed.map(|windowed| WindowedKv {
            window: signed(windowed.window),
            layers: windowed_layers(spec, pools),
            num_blocks: signed(windowed.num_blocks),
            ring_pages: signed(windowed.ring_pages),
            kv_pool_dims: pool_dims(windowed.num_blocks),
        }),
        refused_tokens: spec
            .refused_tokens
            .iter()
            .map(|token| RefusedToken {
                id: signed(token.id),
                config_key: token.config_key.to_owned(),
            })
            .collect(),
        linear_state: linear_state(spec, pools),
        mtp_draft_tokens: signed(spec.draft_tokens()),
        cuda_kernels: false,
    }
}

/// The layers whose pools are windowed.
fn windowed_layers(spec: &ModelSpec, shape: PoolShape) -> Vec<i64> {
    let windowed = |layer: &LayerSpec| {
        layer.attention().is_some_and(|a| pools::class(a, shape) == PoolRole::WindowKv)
    };
    let layers = spec.layers.iter().enumerate().filter(|(_, layer)| windowed(layer));
    layers.map(|(l, _)| signed(l)).collect()
}

fn linear_state(spec: &ModelSpec, shape: PoolShape) -> Option<LinearState> {
    let delta = spec.gated_delta()?;
    let layers = spec.layers.iter().enumerate();
    Some(LinearState {
        layers: layers
            .filter(|(_, layer)| layer.gated_delta().is_some())
            .map(|(l, _)| signed(l))
            .collect(),
        num_slots: signed(shape.state_slots),
        conv_state_dims: pools::conv_state(delta, shape).map(signed).to_vec(),
        recurrent_state_dims: pools::recurrent_state(delta, shape).map(signed).to_vec(),
    })
}

/// The repository id of a checkpoint in the Hugging Face cache
/// (`models--Org--Name/snapshots/<revision>`), else the name of its folder.
fn repository_id(checkpoint: &Path) -> String {
    let path = checkpoint.canonicalize().unwrap_or_else(|_| checkpoint.to_owned());
    let parts: Vec<_> = path.iter().map(|part| part.to_string_lossy()).collect();
    let cached = match &parts[..] {
        [.., repository, snapshots, _] if snapshots == "snapshots" => {
            repository.strip_prefix("models--")
        }
        _ => None,
    };
    match (cached, parts.last()) {
        (Some(id), _) => id.replacen("--", "/", 1),
        (None, Some(folder)) => folder.to_string(),
        (None, None) => String::new(),
    }
}

/// Identity of the model without its weights' hash, which the writer adds (artifact format §15).
fn model_hash(name: &str, spec: &ModelSpec, options: &ExportOptions) -> String {
    let (layers, hidden, vocab) = (spec.layers.len(), spec.hidden_size, spec.vocab_size);
    let mut hash = format!("hf-{}:{name}:L{layers}:h{hidden}:v{vocab}", spec.family);
    if options.weight_dtype != WeightDType::F32 {
        hash += &format!(":w{}", options.weight_dtype.dtype());
    }
    if let Some(quant) = options.weight_quant {
        hash += &format!(":q{}", quant.name());
    }
    if spec.draft_tokens() > 0 {
        hash += &format!(":mtp{}", spec.draft_tokens());
    }
    if spec.head.tied {
        hash += ":tiedHead";
    }
    hash
}

/// Counts of a model fit; what does not is refused where tensors are sized.
fn signed(value: usize) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
