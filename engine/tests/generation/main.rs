//! The scheduler's rules, one by one.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod admission;
mod batching;
mod drafts;
mod failures;
mod own_drafts;
mod preemption;
#[path = "../support/mod.rs"]
mod support;

use tlaloc_engine::generation::{Policy, Settings};
use tlaloc_engine::{Amounts, Geometry};

use support::{entries, toy};

const VOCABULARY: usize = 1_000;

fn settings() -> Settings {
    Settings {
        instance: "model_0_0".to_owned(),
        max_queue_size: 100,
        max_running: 8,
        max_prefill_tokens_per_step: 8,
        policy: Policy::GuaranteedNoEvict,
        swap_pages: Amounts::default(),
        lookup: None,
    }
}

/// Growing page by page, with room for `rows` rows of each class in host memory.
fn growing(rows: usize) -> Settings {
    let swap_pages = Amounts { pages: rows, ring_pages: rows, state_slots: rows };
    Settings { policy: Policy::MaxUtilization, swap_pages, ..settings() }
}

/// Pages of 4 tokens, contexts of 16 and 64, decode batches of 1, 2 and 4, prefill of 8 tokens.
fn model(pages: usize) -> Geometry {
    let shapes = entries(4, &[16, 64], &[1, 2, 4], &[1], &[8]);
    Geometry::new(VOCABULARY, 1 + pages, 4, vec![], shapes)
}

/// What a request of this prompt generates when it is alone.
fn alone(prompt: &[i32], max_tokens: usize) -> Vec<i32> {
    let mut history = prompt.to_vec();
    for _ in 0..max_tokens {
        history.push(toy(&history, VOCABULARY));
    }
    history.split_off(prompt.len())
}

/// Tokens that differ from one request to the next.
fn prompt(request: usize, length: usize) -> Vec<i32> {
    (0..length).map(|index| (100 * request + index) as i32).collect()
}
