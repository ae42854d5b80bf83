//! The scheduler's rules, one by one.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod batching;
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
