//! What the tests share: a device that keeps tokens instead of KV, a scripted owner of an engine
//! with a clock of its own, and sizes of models.

#![allow(dead_code, unused_imports, unused_macros)] // Each test binary uses a part.

mod device;
mod drafts;
mod generator;
mod lockstep;
mod owner;
mod random;
mod schedules;

use std::collections::HashSet;
use std::ops::Range;

use tlaloc_engine::{
    Amounts, Batching, CallFailure, Engine, EntryKind, EntryShape, Geometry, LiveSequence, Nanos,
    SequenceId, Settings, WindowedPools,
};

pub use device::{Device, Packed};
pub use drafts::{Given, NO_TOKEN};
pub use generator::{Generator, check_holdings, toy};
pub use lockstep::step_all;
pub use owner::{Owner, Ran};
pub use random::Random;
pub(crate) use schedules::mutations;
pub use schedules::{
    Failure, Seen, caught, notice_faults, notice_rules, replay_schedule, run_schedules,
};

pub const US: Nanos = 1_000;
pub const MS: Nanos = 1_000_000;

/// Entries as an exporter writes them: decode for every batch and context, then prefill for every
/// batch, context and chunk (0 for the whole context).
pub fn entries(
    block_size: usize,
    contexts: &[usize],
    decode: &[usize],
    prefill: &[usize],
    chunks: &[usize],
) -> Vec<EntryShape> {
    let shape = |kind, batch, context: usize, tokens| {
        let id = match kind {
            EntryKind::Decode => format!("decode_b{batch}_c{context}"),
            EntryKind::Prefill if tokens < context => {
                format!("prefill_b{batch}_c{context}_t{tokens}")
            }
            EntryKind::Prefill => format!("prefill_b{batch}_c{context}"),
        };
        EntryShape {
            id,
            kind,
            batch,
            context,
            tokens,
            columns: context / block_size,
            logits_columns: 1,
        }
    };
    let mut entries = Vec::new();
    for &batch in decode {
        entries.extend(contexts.iter().map(|&c| shape(EntryKind::Decode, batch, c, 1)));
    }
    for &chunk in chunks {
        for &batch in prefill {
            for &context in contexts {
                let tokens = if chunk == 0 { context } else { chunk.min(context) };
                entries.push(shape(EntryKind::Prefill, batch, context, tokens));
            }
        }
    }
    entries
}

/// Entries of a model with a draft head: the same, with decode entries that verify drafts.
pub fn verifying(entries: Vec<EntryShape>, drafts: usize) -> Vec<EntryShape> {
    let verify = |shape: EntryShape| match shape.kind {
        EntryKind::Decode => EntryShape { tokens: 1 + drafts, ..shape },
        EntryKind::Prefill => shape,
    };
    entries.into_iter().map(verify).collect()
}

/// The reference decode artifact: 11 token ids, 5 pages of 2 tokens, no prefill.
pub fn reference() -> Geometry {
    Geometry::new(11, 6, 2, vec![], entries(2, &[2, 4], &[1, 2, 4], &[], &[]))
}

/// A model of the size of verification §9: 63 pages of 16 tokens, one context of 64.
pub fn chat() -> Geometry {
    Geometry::new(100, 64, 16, vec![], entries(16, &[64], &[1, 2, 4], &[1, 2, 4], &[0]))
}

/// The window model of verification §6: window 8, pages of 4 tokens, a ring of 3 pages out of 12.
pub fn window() -> Geometry {
    let shapes = entries(4, &[16, 32, 64], &[1, 2], &[1, 2], &[0]);
    let pools = WindowedPools { window: 8, ring_pages: 3, num_blocks: 13 };
    Geometry::new(64, 65, 4, vec![], shapes).with_windowed_pools(pools)
}

pub fn number(id: u64) -> SequenceId {
    SequenceId::Number(id)
}

pub fn text(id: &str) -> SequenceId {
    SequenceId::Text(id.into())
}

pub const BATCHING: Batching = Batching::Engine { cohort_wait: 20 * MS, prompt_wait: 2 * MS };

pub fn settings(batching: Batching) -> Settings {
    Settings {
        batching,
        max_sequence_idle: 1_000 * MS,
        max_batch_size: 4,
        instance: "model_0_0".to_owned(),
        chain: false,
    }
}

pub fn check(holds: bool, message: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(message()) }
}

/// Adds verify entries, as an exporter writes them: of `tokens` columns for each batch and context.
pub fn with_verify(
    mut shapes: Vec<EntryShape>,
    block_size: usize,
    contexts: &[usize],
    batches: &[usize],
    tokens: usize,
) -> Vec<EntryShape> {
    for &batch in batches {
        shapes.extend(contexts.iter().filter(|&&context| context >= tokens).map(|&context| {
            EntryShape {
                id: format!("verify_b{batch}_c{context}_t{tokens}"),
                kind: EntryKind::Prefill,
                batch,
                context,
                tokens,
                columns: context / block_size,
                logits_columns: tokens,
            }
        }));
    }
    shapes
}

/// Resource invariants: free and held are all there is, page 0 is not held, nothing is held twice.
pub fn check_resources(engine: &Engine) -> Result<(), String> {
    let geometry = engine.geometry();
    let ring_end = geometry.windowed().map_or(1, |pools| pools.num_blocks);
    let slots_end = geometry.num_state_slots().unwrap_or(0);
    let (free, total) = (engine.free(), engine.total());
    let held = |of: fn(LiveSequence<'_>) -> &[usize]| engine.sequences().map(of);
    check_resource(1..geometry.num_blocks(), held(|live| live.pages), free.pages)?;
    check_resource(1..ring_end, held(|live| live.ring), free.ring_pages)?;
    check_resource(0..slots_end, held(|live| live.state_slots), free.state_slots)?;
    let all = everything(geometry);
    check(total == all, || format!("{total:?} of {all:?}"))
}

/// What sequences of a model can hold.
pub fn everything(geometry: &Geometry) -> Amounts {
    Amounts {
        pages: geometry.num_blocks() - 1,
        ring_pages: geometry.windowed().map_or(0, |pools| pools.num_blocks - 1),
        state_slots: geometry.num_state_slots().unwrap_or(0),
    }
}

/// Each number of `all` is free or held by exactly one.
pub fn check_resource<'a>(
    all: Range<usize>,
    holders: impl Iterator<Item = &'a [usize]>,
    free: usize,
) -> Result<(), String> {
    let mut seen = HashSet::new();
    for &number in holders.flatten() {
        check(all.contains(&number), || format!("{number} of {all:?} is held"))?;
        check(seen.insert(number), || format!("{number} of {all:?} is held twice"))?;
    }
    let held = seen.len();
    check(free + held == all.len(), || format!("{free} free + {held} held of {all:?}"))
}

pub fn failed(message: &str) -> Result<(), CallFailure> {
    Err(CallFailure::Execution { message: message.to_owned(), pools_lost: false })
}

pub fn took_the_pools(message: &str) -> Result<(), CallFailure> {
    Err(CallFailure::Execution { message: message.to_owned(), pools_lost: true })
}

pub fn copy_failed(message: &str) -> Result<(), CallFailure> {
    Err(CallFailure::Copy { message: message.to_owned() })
}
