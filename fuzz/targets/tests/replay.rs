//! Every target on what once failed, on its seeds, and on seeds that were changed.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, TestRunner};
use tlaloc_fuzz_targets::{TARGETS, Target};

/// Changed seeds of each target; requests run programs.
fn cases(name: &str) -> u32 {
    if name == "requests" { 300 } else { 2000 }
}

/// One change to some bytes.
#[derive(Clone, Debug)]
enum Edit {
    Flip(Index, u8),
    Cut(Index),
    Drop(Index, usize),
    Repeat(Index, usize),
    /// Text that readers know, or numbers that they do not expect.
    Insert(Index, &'static str),
    /// The digits that come next become another number.
    Number(Index, &'static str),
}

const WORDS: [&str; 12] =
    ["{", "}", "\"", "[]", "null", ",", "-", "@main", "tensor<", "..", "\u{fffd}", "\\"];
const NUMBERS: [&str; 10] = [
    "0",
    "-1",
    "1",
    "1e9",
    "2147483647",
    "2147483648",
    "4294967295",
    "9223372036854775807",
    "18446744073709551615",
    "0.5",
];

fn edit() -> impl Strategy<Value = Edit> {
    let place = any::<Index>;
    let words = prop::sample::select(&WORDS[..]);
    prop_oneof![
        (place(), 1..=255_u8).prop_map(|(at, with)| Edit::Flip(at, with)),
        place().prop_map(Edit::Cut),
        (place(), 1..40_usize).prop_map(|(at, count)| Edit::Drop(at, count)),
        (place(), 1..40_usize).prop_map(|(at, count)| Edit::Repeat(at, count)),
        (place(), words).prop_map(|(at, text)| Edit::Insert(at, text)),
        (place(), prop::sample::select(&NUMBERS[..])).prop_map(|(at, text)| Edit::Number(at, text)),
    ]
}

fn edited(mut bytes: Vec<u8>, edits: &[Edit]) -> Vec<u8> {
    for edit in edits {
        let Some(length) = Some(bytes.len()).filter(|length| *length > 0) else { break };
        let run = |at: &Index, count: usize| {
            let start = at.index(length);
            start..(start + count).min(length)
        };
        match edit {
            Edit::Flip(at, with) => bytes[at.index(length)] ^= with,
            Edit::Cut(at) => bytes.truncate(at.index(length)),
            Edit::Drop(at, count) => drop(bytes.drain(run(at, *count))),
            Edit::Repeat(at, count) => {
                let range = run(at, *count);
                let copy = bytes[range.clone()].to_vec();
                bytes.splice(range.start..range.start, copy);
            }
            Edit::Insert(at, text) => {
                let start = at.index(length);
                bytes.splice(start..start, text.bytes());
            }
            Edit::Number(at, text) => {
                let from = at.index(length);
                let digit = |at: &usize| bytes[*at].is_ascii_digit();
                let Some(start) = (from..length).find(digit) else { continue };
                let end = (start..length).find(|at| !digit(at)).unwrap_or(length);
                bytes.splice(start..end, text.bytes());
            }
        }
    }
    bytes
}

fn replay(name: &str) {
    let target = TARGETS.iter().find(|target| target.name == name).unwrap();
    let Target { run, seeds, .. } = target;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../regressions").join(name);
    for file in fs::read_dir(folder).into_iter().flatten() {
        let path = file.unwrap().path();
        eprintln!("{}", path.display());
        run(&fs::read(path).unwrap());
    }
    let seeds = seeds();
    seeds.iter().for_each(|seed| run(seed));
    let changed = (prop::sample::select(seeds), vec(edit(), 1..6));
    let config = Config { cases: cases(name), failure_persistence: None, ..Config::default() };
    let outcome = TestRunner::new(config).run(&changed, |(seed, edits)| {
        run(&edited(seed, &edits));
        Ok(())
    });
    outcome.unwrap();
}

macro_rules! replays {
    ($($name:ident)*) => {
        $(#[test] fn $name() { replay(stringify!($name)); })*

        #[test]
        fn every_target_is_replayed() {
            let replayed = [$(stringify!($name)),*];
            assert!(TARGETS.iter().map(|target| target.name).eq(replayed));
        }
    };
}

replays! {
    serving_manifest
    bounded_manifest
    entry_signature
    configuration
    requests
    checkpoint_config
    safetensors
    compile_cache
    tokenizer
    replies
    chat_template
    generation_request
    sampler
}
