//! From a [`ModelSpec`] to the StableHLO program of one entry.
//!
//! One builder for every model: `@main` embeds the tokens, calls one private function per layer
//! (shared by all layers with the same [`LayerSpec`]) and applies the head. Which of several equal
//! forms an operation takes is chosen in `forms` and at the top of the attention modules; the
//! forms and rules there are those measured fastest, in place, on the default CPU plugin.

mod attention;
mod decode_attention;
mod draft;
mod forms;
mod gated_delta;
mod head;
mod history;
pub(crate) mod kv;
mod layer;
mod mlp;
mod moe;
mod norm;
mod prefill_attention;
mod prefill_blocks;
mod projection;
mod rope;
mod rows;
mod self_attention;
mod speculation;
#[cfg(test)]
mod testing;

use tlaloc_artifact::{DType, EntryKind, PoolRole};

use crate::plan::{Bucket, PoolShape};
use crate::pools::{LayerPool, draft_pools, layer_pools};
use crate::slots::{ModelWeights, WeightLayout, WeightSlot};
use crate::spec::{EmbeddingTransform, LayerSpec, ModelSpec};
use crate::stablehlo::{Binary, Function, Module, Value};
use forms::{Orientation, Product};
use layer::{LayerInputs, Shared};

/// What every part of one entry's program needs to know.
struct Context {
    bucket: Bucket,
    pools: PoolShape,
    weight_dtype: DType,
    layout: WeightLayout,
    orientation: Orientation,
    product: Product,
    norm_eps: f32,
    /// The widest history that a prefill call attends over at once.
    widest_at_once: usize,
}

impl Context {
    fn new(
        bucket: Bucket,
        pools: PoolShape,
        weight_dtype: DType,
        layout: WeightLayout,
        norm_eps: f32,
    ) -> Context {
        let tokens = bucket.batch * bucket.tokens;
        Context {
            bucket,
            pools,
            weight_dtype,
            layout,
            orientation: Orientation::choose(weight_dtype, layout, tokens),
            product: Product::choose(weight_dtype, layout, tokens),
            norm_eps,
            widest_at_once: prefill_attention::WIDEST_AT_ONCE,
        }
    }

    /// Token columns of all rows, `B * T`.
    fn tokens(&self) -> usize {
        self.bucket.batch * self.bucket.tokens
    }

    fn is_decode(&self) -> bool {
        self.bucket.kind == EntryKind::Decode
    }

    /// Each row has one token: a decode step, and no verify step.
    fn is_one_token(&self) -> bool {
        self.is_decode() && self.bucket.tokens == 1
    }

    /// Each row has a token and drafts of those after it, of which some may turn out wrong: a decode
    /// step of a model with a draft head.
    fn decodes_drafts(&self) -> bool {
        self.is_decode() && self.bucket.tokens > 1
    }

    /// The same for one token a row.
    fn one_token(&self) -> Context {
        let bucket = Bucket { kind: EntryKind::Decode, tokens: 1, ..self.bucket };
        Context::new(bucket, self.pools, self.weight_dtype, self.layout, self.norm_eps)
    }
}

/// The i32 arguments of a request.
struct Request {
    token_ids: Value,
    positions: Value,
    seq_lens: Value,
    /// Where tokens lie in the pools with whole histories.
    full: Paging,
    /// Where they lie in the windowed pools, if the model has any.
    windowed: Option<Paging>,
    /// State slot of each row, i32 `[B]`, in models with linear attention.
    state_slots: Option<Value>,
    /// State slots that the tokens of a verify step write, i32 `[B, T]`, in models with a draft head.
    state_write_slots: Option<Value>,
}

/// Where the rows' tokens lie in the pools of one class.
struct Paging {
    /// Pages of each row, i32 `[B, M]`; those of a ring over and over.
    block_tables: Value,
    /// Pool slot of each token, i32 `[B * T]`.
    slot_mapping: Value,
}

impl Request {
    /// The paging of the pools of `class`.
    fn paging(&self, class: PoolRole) -> &Paging {
        match (class, &self.windowed) {
            (PoolRole::WindowKv, Some(windowed)) => windowed,
            _ => &self.full,
        }
    }
}

/// The StableHLO text of the entry `bucket`: arguments and results as in artifact format §7, pools
/// aliased to their outputs (§11).
pub fn program(
    spec: &ModelSpec,
    slots: &ModelWeights<WeightSlot>,
    layout: WeightLayout,
    pools: PoolShape,
    bucket: Bucket,
) -> String {
    let weight_dtype = slots.embedding.content.dtype();
    let cx = Context::new(bucket, pools, weight_dtype, layout, spec.norm_eps);

    let mut main = Function::new("main");
    let request = request_parameters(&mut main, &cx, spec);
    // Pools follow the results that are read, in the order of their arguments.
    let mut outputs = if spec.draft.is_some() { speculation::RESULTS } else { 1 }..;
    let mut pool = |pool: LayerPool| {
        let output = outputs.next().unwrap_or_default();
        main.aliased_parameter(&pool.name, pool.dtype, &pool.dims, output)
    };
    let layers = spec.layers.iter().enumerate();
    let all_pools: Vec<_> =
        layers.map(|(l, layer)| layer_pools(l, layer, pools).map(&mut pool)).collect();
    let draft_pools: Vec<_> = draft_pools(spec, pools).into_iter().map(pool).collect();
    let weights = slots.map(|slot| main.parameter(&slot.name, slot.content.dtype(), &slot.dims));

    let mut x = embed(&mut main, &cx, spec.embedding, &weights.embedding, &request.token_ids);
    let mut kinds: Vec<LayerKind> = Vec::new();
    let mut new_pools = Vec::new();
    for ((layer, pools), weights) in spec.layers.iter().zip(all_pools).zip(&weights.layers) {
        let known = kinds.iter().position(|kind| kind.spec == layer);
        let shared = match known {
            Some(kind) => kinds[kind].shared.clone(),
            None => Shared::build(&mut main, &cx, layer, &request),
        };
        let inputs = LayerInputs { x, pools, shared, weights: weights.clone() };
        let kind = known.unwrap_or_else(|| {
            let name = format!("layer{}", kinds.len());
            let function = layer::function(&cx, layer, &name, &inputs);
            kinds.push(LayerKind { spec: layer, shared: inputs.shared.clone(), function });
            kinds.len() - 1
        });
        let arguments = inputs.list();
        let arguments: Vec<_> = arguments.iter().collect();
        let mut outputs = main.call(&kinds[kind].function, &arguments);
        x = outputs.remove(0);
        new_pools.extend(outputs);
    }
    let mut private: Vec<_> = kinds.into_iter().map(|kind| kind.function).collect();
    let mut results = match &spec.draft {
        None => vec![head::logits(&mut main, &cx, &spec.head, &x, &weights)],
        Some(draft) => {
            let model = speculation::Model { cx: &cx, spec, draft, weights: &weights };
            let (results, pools, layer) =
                speculation::results(&mut main, model, &request, &x, draft_pools);
            new_pools.extend(pools);
            private.push(layer);
            results
        }
    };
    results.extend(new_pools);
    main.returns(results);

    Module { main, private }.text()
}

/// Layers that share one function.
struct LayerKind<'a> {
    spec: &'a LayerSpec,
    shared: Shared,
    function: Function,
}

fn request_parameters(main: &mut Function, cx: &Context, spec: &ModelSpec) -> Request {
    let Bucket { batch, tokens, .. } = cx.bucket;
    let columns = cx.bucket.context / cx.pools.block_size;
    let mut i32s = |name, dims: &[usize]| main.parameter(name, DType::I32, dims);
    let token_ids = i32s("tokenIds", &[batch, tokens]);
    let positions = i32s("positions", &[batch, tokens]);
    let block_tables = i32s("blockTables", &[batch, columns]);
    let seq_lens = i32s("seqLens", &[batch]);
    let slot_mapping = i32s("slotMapping", &[batch * tokens]);
    let windowed = cx.pools.windowed.map(|_| Paging {
        block_tables: i32s("windowBlockTables", &[batch, columns]),
        slot_mapping: i32s("windowSlotMapping", &[batch * tokens]),
    });
    let state_slots = spec.gated_delta().map(|_| i32s("stateSlots", &[batch]));
    let state_write_slots = spec.draft.as_ref().map(|_| i32s("stateWriteSlots", &[batch, tokens]));
    let full = Paging { block_tables, slot_mapping };
    Request { token_ids, positions, seq_lens, full, windowed, state_slots, state_write_slots }
}

/// The tokens' rows of the embedding table, as activations.
fn embed(
    f: &mut Function,
    cx: &Context,
    transform: EmbeddingTransform,
    table: &Value,
    token_ids: &Value,
) -> Value {
    let ids = f.reshape(token_ids, &[token_ids.dims().iter().product()]);
    let rows = f.gather_rows(table, &ids);
    let rows = f.convert(&rows, DType::F32);
    let x = match cx.orientation {
        Orientation::FeatureMajor => f.transpose(&rows, &[1, 0]),
        Orientation::RowMajor => rows,
    };
    match transform {
        EmbeddingTransform::None => x,
        EmbeddingTransform::Scale(factor) => f.with_float(Binary::Multiply, &x, factor),
        EmbeddingTransform::Norm => norm::rms(f, cx, &x, None, cx.norm_eps),
    }
}
