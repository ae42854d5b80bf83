//! Test only: everything that reads what a stranger wrote (manifests, programs, configurations,
//! requests, checkpoints, tokenizers, templates) as a function of bytes that must not panic, whatever they are.
//!
//! Two runners share these targets: `cargo fuzz`, which searches (`scripts/fuzz.sh`), and this crate's
//! own test, which any toolchain runs: the inputs that once failed (`fuzz/regressions/TARGET/`), the
//! [`Target::seeds`], and changed seeds.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a target tells what it found by panicking")]

mod artifact;
mod cache;
mod checkpoint;
mod configuration;
mod generation;
mod requests;

use std::path::{Path, PathBuf};

pub use artifact::{bounded_manifest, entry_signature, serving_manifest};
pub use cache::compile_cache;
pub use checkpoint::{checkpoint_config, safetensors};
pub use configuration::configuration;
pub use generation::{chat_template, generation_request, replies, sampler, tokenizer};
pub use requests::requests;

/// Something that reads bytes of a stranger.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, that of the program for cargo-fuzz too.
    pub name: &'static str,
    /// Reads `data`. Panics where the reader does, or breaks a promise.
    pub run: fn(&[u8]),
    /// Inputs to start from, made from this repository's examples.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// Every target.
pub const TARGETS: &[Target] = &[
    Target {
        name: "serving_manifest",
        run: serving_manifest,
        seeds: artifact::serving_manifest_seeds,
    },
    Target {
        name: "bounded_manifest",
        run: bounded_manifest,
        seeds: artifact::bounded_manifest_seeds,
    },
    Target {
        name: "entry_signature",
        run: entry_signature,
        seeds: artifact::entry_signature_seeds,
    },
    Target { name: "configuration", run: configuration, seeds: configuration::seeds },
    Target { name: "requests", run: requests, seeds: requests::seeds },
    Target { name: "checkpoint_config", run: checkpoint_config, seeds: checkpoint::config_seeds },
    Target { name: "safetensors", run: safetensors, seeds: checkpoint::safetensors_seeds },
    Target { name: "compile_cache", run: compile_cache, seeds: cache::seeds },
    Target { name: "tokenizer", run: tokenizer, seeds: generation::tokenizer_seeds },
    Target { name: "replies", run: replies, seeds: generation::reply_seeds },
    Target { name: "chat_template", run: chat_template, seeds: generation::chat_template_seeds },
    Target {
        name: "generation_request",
        run: generation_request,
        seeds: generation::generation_request_seeds,
    },
    Target { name: "sampler", run: sampler, seeds: generation::sampler_seeds },
];

/// A fixture of the end-to-end tests.
fn fixture(path: &str) -> Vec<u8> {
    std::fs::read(repository("tests/fixtures").join(path)).unwrap()
}

/// A path in this repository.
fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

fn example(path: &str) -> Vec<u8> {
    std::fs::read(repository("model-repository").join(path)).unwrap()
}
