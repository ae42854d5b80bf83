//! Which entries an artifact has, and how large its pools are.

use std::collections::BTreeSet;

use tlaloc_artifact::{DType, EntryKind};

use crate::Error;
use crate::pools::WindowedPools;
use crate::spec::{LayerSpec, ModelSpec};

/// Contexts of the default ladder, as far as the model's positions reach.
const DEFAULT_CONTEXTS: [usize; 3] = [128, 512, 2048];

/// The program of one entry, by its sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Decode or prefill.
    pub kind: EntryKind,
    /// Rows, `B`.
    pub batch: usize,
    /// Positions that a row may attend over, `C`.
    pub context: usize,
    /// Token columns of a row, `T`.
    pub tokens: usize,
    /// Whether it gives the logits of every token of a row, not of the last one alone.
    pub verify: bool,
}

impl Bucket {
    /// Columns of a row's logits.
    pub fn logits_columns(self) -> usize {
        if self.verify { self.tokens } else { 1 }
    }
}

/// Size of the pools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolShape {
    /// Pages of a pool with whole histories, page 0 included.
    pub num_blocks: usize,
    /// Tokens of a page.
    pub block_size: usize,
    /// The pools of layers with a window; `None` when these have a whole history, too.
    pub windowed: Option<WindowedPools>,
    /// Element type of the KV pools.
    pub kv_dtype: DType,
    /// State slots of each linear-attention pool: one a sequence, or two more than its drafts.
    pub state_slots: usize,
}

/// Element type of the KV pools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum KvDType {
    /// 32-bit floats.
    #[default]
    F32,
    /// bfloat16: keys and values are rounded when they are written.
    Bf16,
    /// 8-bit floats (`e4m3fn`): they are rounded, and no further out than 448.
    Fp8,
}

impl KvDType {
    /// The element type.
    pub fn dtype(self) -> DType {
        match self {
            KvDType::F32 => DType::F32,
            KvDType::Bf16 => DType::Bf16,
            KvDType::Fp8 => DType::F8E4M3Fn,
        }
    }
}

/// What the user asked for.
#[derive(Clone, Debug)]
pub struct PlanOptions {
    /// Contexts of decode and prefill entries; empty for 128, 512 and 2048, as far as the model's
    /// positions reach.
    pub contexts: Vec<usize>,
    /// Batch sizes of decode entries; empty for 1.
    pub batches: Vec<usize>,
    /// Batch sizes of prefill entries; `None` for those of decode.
    pub prefill_batches: Option<Vec<usize>>,
    /// Most token columns of prefill entries: the largest for one entry of every bucket, each smaller
    /// one for another entry of the buckets with more columns. Empty for a bucket's whole context.
    pub prefill_chunks: Vec<usize>,
    /// Drafts that a verify entry takes beside the token before them, `K`; `None` for no such
    /// entries. Models with linear attention have none, as a state cannot go back behind a draft.
    pub verify_chunk: Option<usize>,
    /// Tokens of a page.
    pub block_size: usize,
    /// Pages of a pool; `None` for room for the largest batch at the largest context, and page 0.
    pub num_blocks: Option<usize>,
    /// Whether layers with a window keep a ring of pages a sequence instead of its whole history.
    /// Models with linear attention have no such pools.
    pub windowed_kv: bool,
    /// Element type of the KV pools.
    pub kv_dtype: KvDType,
    /// State slots of linear attention, one a sequence, or two more than its drafts; without effect
    /// on models that have none.
    pub state_slots: usize,
    /// Tokens that the checkpoint's draft head proposes in each step; 0 leaves the head out.
    pub draft_tokens: usize,
}

impl PlanOptions {
    /// Tokens of a page, unless asked otherwise.
    pub const DEFAULT_BLOCK_SIZE: usize = 16;
    /// State slots, unless asked otherwise.
    pub const DEFAULT_STATE_SLOTS: usize = 8;
}

impl Default for PlanOptions {
    fn default() -> PlanOptions {
        PlanOptions {
            contexts: Vec::new(),
            batches: Vec::new(),
            prefill_batches: None,
            prefill_chunks: Vec::new(),
            verify_chunk: None,
            block_size: PlanOptions::DEFAULT_BLOCK_SIZE,
            num_blocks: None,
            windowed_kv: true,
            kv_dtype: KvDType::default(),
            state_slots: PlanOptions::DEFAULT_STATE_SLOTS,
            draft_tokens: 0,
        }
    }
}

/// The entries and pools of an artifact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Batch sizes of all entries, ascending.
    pub batches: Vec<usize>,
    /// Contexts of all entries, ascending.
    pub contexts: Vec<usize>,
    /// Size of the pools.
    pub pools: PoolShape,
    /// The entries: decode, prefill, prefill with each smaller chunk, verify; by batch, then context.
    pub buckets: Vec<Bucket>,
}

impl Plan {
    /// The plan for `options`.
    ///
    /// # Errors
    /// When an option is zero, does not fit another, or exceeds what the model can hold.
    pub fn new(options: &PlanOptions, spec: &ModelSpec) -> Result<Plan, Error> {
        let block_size = positive("block-size", options.block_size)?;
        if block_size > spec.max_positions {
            return Err(refuse(
                "block-size",
                format!(
                    "is {block_size}; the model has {} positions (max_position_embeddings)",
                    spec.max_positions
                ),
            ));
        }
        let state_slots = positive("state-slots", options.state_slots)?;
        indexable("state-slots", state_slots)?;
        let contexts = contexts(options, spec, block_size)?;
        let drafts = drafts(spec, &contexts, state_slots)?;
        let batches = ladder("batches", &options.batches, &[1])?;
        let prefill_batches = match &options.prefill_batches {
            Some(sizes) => ladder("prefill-batches", sizes, &[])?,
            None => batches.clone(),
        };
        for (option, sizes) in [("batches", &batches), ("prefill-batches", &prefill_batches)] {
            sizes.iter().try_for_each(|&size| indexable(option, size))?;
        }
        let chunks = ladder("prefill-chunk", &options.prefill_chunks, &[usize::MAX])?;

        let decode = buckets(EntryKind::Decode, &batches, &contexts, 1 + drafts);
        let prefill = prefill_buckets(&chunks, &prefill_batches, &contexts);
        let verify = verify_buckets(options, spec, &batches, &contexts)?;
        let ladder: BTreeSet<_> = batches.iter().chain(&prefill_batches).copied().collect();

        let largest = |sizes: &[usize]| sizes.last().copied().unwrap_or(1);
        let full = largest(&batches)
            .checked_mul(largest(&contexts) / block_size)
            .and_then(|pages| pages.checked_add(1));
        let num_blocks = options.num_blocks.or(full).unwrap_or(usize::MAX);
        if num_blocks < 2 {
            return Err(refuse(
                "num-blocks",
                format!("is {num_blocks}; page 0 is never used, so at least 2 are needed"),
            ));
        }
        // Pool rows are counted in i32 by the programs.
        let rows = spec.attention().map_or(1, |attention| attention.kv_heads);
        let count = num_blocks.checked_mul(block_size).and_then(|n| n.checked_mul(rows));
        if count.is_none_or(|n| i32::try_from(n).is_err()) {
            return Err(refuse(
                "num-blocks",
                format!(
                    "gives pools of {num_blocks} pages of {block_size} tokens, more than programs can index; use fewer"
                ),
            ));
        }
        let windowed = match options.windowed_kv {
            true => windowed(options, spec, largest(&contexts), num_blocks)?,
            false => None,
        };
        Ok(Plan {
            batches: ladder.into_iter().collect(),
            contexts,
            pools: PoolShape {
                num_blocks,
                block_size,
                windowed,
                kv_dtype: options.kv_dtype.dtype(),
                state_slots,
            },
            buckets: [decode, prefill, verify].concat(),
        })
    }
}

/// The pools of layers with a window beside full-history pools of `full_blocks` pages.
fn windowed(
    options: &PlanOptions,
    spec: &ModelSpec,
    max_context: usize,
    full_blocks: usize,
) -> Result<Option<WindowedPools>, Error> {
    let attentions: Option<Vec<_>> = spec.layers.iter().map(LayerSpec::attention).collect();
    let Some(window) = attentions.iter().flatten().filter_map(|a| a.window).max() else {
        return Ok(None);
    };
    let block_size = options.block_size;
    // A ring has room for the longest call, be it a verify call.
    let verify = options.verify_chunk.map(|drafts| drafts.saturating_add(1));
    let chunk = options.prefill_chunks.iter().copied().chain(verify).max();
    let pools = WindowedPools::sized(window, chunk, block_size, max_context, full_blocks);
    if pools.num_blocks <= pools.ring_pages {
        return Err(refuse(
            "num-blocks",
            format!(
                "is {full_blocks}; layers with a window of {window} need page 0 and one sequence's \
                 ring of {} pages; use more, or --windowed-kv false",
                pools.ring_pages
            ),
        ));
    }
    Ok(Some(pools))
}

/// Draft tokens of a step, with room for them in every context and in the state slots.
fn drafts(spec: &ModelSpec, contexts: &[usize], state_slots: usize) -> Result<usize, Error> {
    let drafts = spec.draft_tokens();
    if drafts == 0 {
        return Ok(0);
    }
    // A verify step's tokens, and the positions at which its own drafts are made.
    let reach = drafts.saturating_mul(2);
    if let Some(context) = contexts.iter().find(|&&context| context < reach) {
        let reason = format!(
            "is {drafts}, for which a step takes {reach} positions; the context {context} has not as many"
        );
        return Err(refuse("draft-tokens", reason));
    }
    let needed = drafts + 2;
    if state_slots < needed {
        let reason =
            format!("is {state_slots}; a sequence of {drafts} draft tokens takes {needed}");
        return Err(refuse("state-slots", reason));
    }
    Ok(drafts)
}

fn buckets(kind: EntryKind, batches: &[usize], contexts: &[usize], chunk: usize) -> Vec<Bucket> {
    let entry = |batch, context| {
        let tokens = chunk.min(context);
        Bucket { kind, batch, context, tokens, verify: false }
    };
    batches.iter().flat_map(|&b| contexts.iter().map(move |&c| entry(b, c))).collect()
}

/// The prefill entries with the largest of `chunks` (ascending), then those with each smaller one
/// that it makes a difference to.
fn prefill_buckets(chunks: &[usize], batches: &[usize], contexts: &[usize]) -> Vec<Bucket> {
    let Some((&main, smaller)) = chunks.split_last() else { return Vec::new() };
    let mut entries = buckets(EntryKind::Prefill, batches, contexts, main);
    for &chunk in smaller.iter().rev() {
        let longer: Vec<_> = contexts.iter().copied().filter(|&c| chunk < c).collect();
        entries.extend(buckets(EntryKind::Prefill, batches, &longer, chunk));
    }
    entries
}

/// The entries that verify drafts: for one row, and for as many as decode at once.
fn verify_buckets(
    options: &PlanOptions,
    spec: &ModelSpec,
    batches: &[usize],
    contexts: &[usize],
) -> Result<Vec<Bucket>, Error> {
    const OPTION: &str = "verify-chunk";
    let Some(drafts) = options.verify_chunk else { return Ok(Vec::new()) };
    let tokens = positive(OPTION, drafts)?.saturating_add(1);
    if spec.gated_delta().is_some() {
        return Err(refuse(
            OPTION,
            "does not fit linear attention, whose state cannot go back behind a draft that was wrong"
                .to_owned(),
        ));
    }
    if let Some(short) = contexts.iter().find(|context| **context < tokens) {
        return Err(refuse(
            OPTION,
            format!("is {drafts}: a call of {tokens} tokens does not fit the context {short}"),
        ));
    }
    let ends: BTreeSet<_> = [1].into_iter().chain(batches.last().copied()).collect();
    let ends: Vec<_> = ends.into_iter().collect();
    let entries = buckets(EntryKind::Prefill, &ends, contexts, tokens);
    Ok(entries.into_iter().map(|entry| Bucket { verify: true, ..entry }).collect())
}

fn contexts(
    options: &PlanOptions,
    spec: &ModelSpec,
    block_size: usize,
) -> Result<Vec<usize>, Error> {
    let limit = spec.max_positions;
    let reachable: Vec<_> = DEFAULT_CONTEXTS
        .into_iter()
        .map(|c| c.next_multiple_of(block_size))
        .filter(|&c| c <= limit)
        .collect();
    let whole = [limit - limit % block_size];
    let default = if reachable.is_empty() { &whole[..] } else { &reachable[..] };
    let contexts = ladder("contexts", &options.contexts, default)?;
    for &context in &contexts {
        if !context.is_multiple_of(block_size) {
            return Err(refuse(
                "contexts",
                format!("{context} is not a multiple of the block size {block_size}"),
            ));
        }
        if context > limit {
            return Err(refuse(
                "contexts",
                format!(
                    "{context} is more than the model's {limit} positions (max_position_embeddings)"
                ),
            ));
        }
    }
    Ok(contexts)
}

/// `sizes`, or `default` when there are none: ascending, each once.
fn ladder(option: &'static str, sizes: &[usize], default: &[usize]) -> Result<Vec<usize>, Error> {
    let sizes = if sizes.is_empty() { default } else { sizes };
    let ascending: BTreeSet<_> = sizes.iter().copied().collect();
    match ascending.first() {
        Some(&first) => positive(option, first).map(|_| ascending.into_iter().collect()),
        None => Err(refuse(option, "is empty".to_owned())),
    }
}

fn positive(option: &'static str, value: usize) -> Result<usize, Error> {
    if value == 0 { Err(refuse(option, "must be at least 1".to_owned())) } else { Ok(value) }
}

/// Refuses a dimension that the programs, which count in i32, cannot have.
fn indexable(option: &'static str, value: usize) -> Result<(), Error> {
    match i32::try_from(value) {
        Ok(_) => Ok(()),
        Err(_) => Err(refuse(option, format!("is {value}, more than programs can index"))),
    }
}

fn refuse(option: &'static str, reason: String) -> Error {
    Error::Option { option, reason }
}
