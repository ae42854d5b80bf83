//! Artifacts with drafts, run as a server runs them: the model's own tokens whatever the drafts are,
//! and the drafts of a second draft head, written from the published architecture in f64.

#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

#[path = "../common/mod.rs"]
mod common;
mod head;
mod server;
#[path = "../support/mod.rs"]
mod support;

use std::fs;

use common::{Checkpoint, export_to, tiny};
use head::{Head, Mistake};
use safetensors::Dtype;
use serde_json::{Value, json};
use server::{Sequence, Server};
use tlaloc_artifact::{EntryKind, OutputRole};
use tlaloc_export::ExportOptions;
use tlaloc_export::plan::PlanOptions;

/// Drafts of a step.
const K: usize = 3;

/// Numbers in `-size..size`, the same for the same seed.
fn random(seed: u64, count: usize, size: f32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        ((state >> 40) as f32 / (1 << 23) as f32 - 1.0) * size
    };
    std::iter::repeat_with(next).skip(8).take(count).collect()
}

/// The tiny checkpoint with a draft head of random weights.
fn with_head() -> Checkpoint {
    let mut checkpoint = Checkpoint::tiny("qwen3_5");
    checkpoint.config["mtp_num_hidden_layers"] = json!(1);
    let (hidden, heads, kv, size, wide) = (48, 4, 2, 16, 80);
    let layer = "mtp.layers.0";
    let tensors: [(String, Vec<usize>, f32); 15] = [
        ("mtp.pre_fc_norm_embedding.weight".into(), vec![hidden], 0.3),
        ("mtp.pre_fc_norm_hidden.weight".into(), vec![hidden], 0.3),
        ("mtp.fc.weight".into(), vec![hidden, 2 * hidden], 0.3),
        ("mtp.norm.weight".into(), vec![hidden], 0.3),
        (format!("{layer}.input_layernorm.weight"), vec![hidden], 0.3),
        (format!("{layer}.post_attention_layernorm.weight"), vec![hidden], 0.3),
        (format!("{layer}.self_attn.q_proj.weight"), vec![2 * heads * size, hidden], 0.4),
        (format!("{layer}.self_attn.k_proj.weight"), vec![kv * size, hidden], 0.4),
        (format!("{layer}.self_attn.v_proj.weight"), vec![kv * size, hidden], 0.6),
        (format!("{layer}.self_attn.o_proj.weight"), vec![hidden, heads * size], 0.6),
        (format!("{layer}.self_attn.q_norm.weight"), vec![size], 0.3),
        (format!("{layer}.self_attn.k_norm.weight"), vec![size], 0.3),
        (format!("{layer}.mlp.gate_proj.weight"), vec![wide, hidden], 0.3),
        (format!("{layer}.mlp.up_proj.weight"), vec![wide, hidden], 0.3),
        (format!("{layer}.mlp.down_proj.weight"), vec![hidden, wide], 0.3),
    ];
    for ((name, dims, size), seed) in tensors.into_iter().zip(1..) {
        let values = random(seed, dims.iter().product(), size);
        let bytes = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        checkpoint.tensors.insert(name, (Dtype::F32, dims, bytes));
    }
    checkpoint
}

fn options() -> ExportOptions {
    let plan = PlanOptions {
        // 40 tokens and 17 more in pages of 4, prompts in calls of 8.
        block_size: 4,
        prefill_chunks: vec![8],
        state_slots: 2 * (K + 2) + 1,
        draft_tokens: K,
        ..PlanOptions::default()
    };
    ExportOptions { plan, ..ExportOptions::default() }
}

/// What another implementation computes of the checkpoint without its draft head.
struct Oracle {
    prompt: Vec<i32>,
    /// The greedy tokens after it.
    greedy: Vec<i32>,
    /// Logits after every token of the prompt (where the oracle has them) and the greedy ones.
    logits: Vec<Vec<f64>>,
}

fn oracle(name: &str) -> Oracle {
    let text = fs::read_to_string(tiny("qwen3_5/oracle.json")).unwrap();
    let oracle: Value = serde_json::from_str(&text).unwrap();
    let prompts = oracle["prompts"].as_array().unwrap();
    let prompt = prompts.iter().find(|prompt| prompt["name"] == name).unwrap();
    let ids = |key: &str| -> Vec<i32> {
        prompt[key].as_array().unwrap().iter().map(|id| id.as_i64().unwrap() as i32).collect()
    };
    let rows = |key: &str| -> Vec<Vec<f64>> {
        let rows = prompt[key].as_array().map_or(&[][..], Vec::as_slice);
        let row =
            |row: &Value| row.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect();
        rows.iter().map(row).collect()
    };
    let mut logits = rows("prompt_logits");
    // The prompt's last row is the first of the others.
    logits.pop();
    logits.extend(rows("logits"));
    Oracle { prompt: ids("prompt_ids"), greedy: ids("greedy_ids"), logits }
}

fn server(checkpoint: &Checkpoint) -> Option<Server> {
    let client = support::client()?;
    let dir = tempfile::tempdir().unwrap();
    checkpoint.write(&dir.path().join("checkpoint"));
    export_to(&dir.path().join("checkpoint"), &dir.path().join("out"), options()).unwrap();
    Some(Server::load(&dir.path().join("out/tlaloc-serving.json"), client))
}

#[test]
fn the_manifest_is_that_of_a_model_with_drafts() {
    let dir = tempfile::tempdir().unwrap();
    with_head().write(&dir.path().join("checkpoint"));
    export_to(&dir.path().join("checkpoint"), &dir.path().join("out"), options()).unwrap();
    let artifact =
        tlaloc_artifact::Artifact::open(&dir.path().join("out/tlaloc-serving.json")).unwrap();
    let manifest = artifact.manifest();
    assert_eq!(manifest.schema_version, "tlaloc-serving-v5");
    assert_eq!(manifest.model.mtp_draft_tokens, 3);
    assert!(artifact.model_hash().contains(":mtp3:"), "{}", artifact.model_hash());
    let pools: Vec<_> = artifact.pools().iter().map(|pool| pool.name.as_str()).collect();
    assert_eq!(pools[pools.len() - 3..], ["mtpKeyCache", "mtpValueCache", "mtpHidden"]);
    for entry in artifact.entries() {
        let tokens = if entry.kind == EntryKind::Decode { K + 1 } else { 8 };
        assert_eq!(entry.tokens, tokens, "{}", entry.id);
        let named = |role| entry.outputs.iter().any(|output| output.role == role);
        assert!(named(OutputRole::Drafts) && named(OutputRole::NextStateWriteSlots));
        assert!(!named(OutputRole::Logits));
    }
}

#[test]
fn without_drafts_the_head_is_left_out() {
    let exported = |checkpoint: &Checkpoint| {
        let dir = tempfile::tempdir().unwrap();
        checkpoint.write(&dir.path().join("checkpoint"));
        let options = ExportOptions::default();
        export_to(&dir.path().join("checkpoint"), &dir.path().join("out"), options).unwrap();
        common::tree(&dir.path().join("out"))
    };
    assert!(exported(&with_head()) == exported(&Checkpoint::tiny("qwen3_5")));
}

#[test]
fn drafts_that_cannot_be_made_are_refused() {
    let refusal = |checkpoint: &Checkpoint, plan: PlanOptions| {
        let dir = tempfile::tempdir().unwrap();
        checkpoint.write(&dir.path().join("checkpoint"));
        let options = ExportOptions { plan, ..ExportOptions::default() };
        let refused = export_to(&dir.path().join("checkpoint"), &dir.path().join("out"), options);
        refused.unwrap_err().to_string()
    };
    let plan = |draft_tokens, state_slots| PlanOptions {
        draft_tokens,
        state_slots,
        ..PlanOptions::default()
    };
    let without = Checkpoint::tiny("qwen3_5");
    let has_no_head = "--draft-tokens: is 3, but the checkpoint has no draft head";
    assert!(refusal(&without, plan(3, 8)).starts_with(has_no_head));
    let two = with_head().set("mtp_num_hidden_layers", json!(2));
    assert!(refusal(&two, plan(3, 8)).starts_with(has_no_head));
    let mut own_embedding = with_head();
    own_embedding.config["mtp_use_dedicated_embeddings"] = json!(true);
    assert!(refusal(&own_embedding, plan(3, 8)).starts_with(has_no_head));
    assert!(refusal(&Checkpoint::tiny("qwen3"), plan(3, 8)).starts_with(has_no_head));
    assert_eq!(
        refusal(&with_head(), plan(3, 4)),
        "--state-slots: is 4; a sequence of 3 draft tokens takes 5"
    );
    assert_eq!(
        refusal(&with_head(), plan(17, 32)),
        "--draft-tokens: is 17, for which a step takes 34 positions; the context 32 has not as many"
    );
    let mut missing = with_head();
    missing.tensors.remove("mtp.fc.weight");
    assert!(refusal(&missing, plan(3, 8)).contains("mtp.fc.weight"));
}

/// Drafts with a wrong one after `right` right ones, `left` being the tokens that follow.
fn drafts(left: &[i32], right: usize) -> Vec<i32> {
    (0..K).map(|i| if i < right { left[i] } else { (left[i] + 1) % 96 }).collect()
}

/// Whatever the drafts are, the tokens are those of the oracle, also when sequences share a call, and
/// every number of right drafts is accepted as such.
#[test]
fn tokens_are_those_of_the_model_alone() {
    let Some(mut server) = server(&with_head()) else { return };
    let oracles = [oracle("len40"), oracle("len5")];
    let mut sequences = [Sequence::new(0), Sequence::new(1)];
    for (sequence, oracle) in sequences.iter_mut().zip(&oracles) {
        for call in oracle.prompt.chunks(8) {
            server.prefill(&mut [&mut *sequence], &[call]);
        }
        assert_eq!(sequence.emitted, oracle.greedy[..1]);
    }
    // In every order of numbers, so that states are taken up from every slot.
    for rights in [[0, 3], [3, 0], [1, 2], [2, 1], [3, 3], [0, 0]] {
        let mut expected = Vec::new();
        for ((sequence, oracle), right) in sequences.iter_mut().zip(&oracles).zip(rights) {
            let left = &oracle.greedy[sequence.emitted.len()..];
            let right = right.min(left.len().saturating_sub(K));
            let mut left = left.to_vec();
            left.resize(K.max(left.len()), 0);
            sequence.drafts = drafts(&left, right);
            expected.push(right);
        }
        let [a, b] = &mut sequences;
        assert_eq!(server.verify(&mut [a, b]), expected);
    }
    for (sequence, oracle) in sequences.iter().zip(&oracles) {
        let count = sequence.emitted.len().min(oracle.greedy.len());
        assert!(count >= 14, "{count} tokens");
        assert_eq!(sequence.emitted[..count], oracle.greedy[..count]);
    }
}

/// A wrong slot for the state of an accepted token is seen.
#[test]
fn a_state_taken_up_from_a_wrong_slot_is_seen() {
    let Some(mut server) = server(&with_head()) else { return };
    let oracle = oracle("len13");
    let mut sequence = Sequence::new(0);
    for call in oracle.prompt.chunks(8) {
        server.prefill(&mut [&mut sequence], &[call]);
    }
    sequence.drafts = drafts(&oracle.greedy[1..], 2);
    server.verify(&mut [&mut sequence]);
    sequence.slots.swap(0, 1);
    for _ in 0..3 {
        server.verify(&mut [&mut sequence]);
    }
    let count = sequence.emitted.len();
    assert_ne!(sequence.emitted[..], oracle.greedy[..count]);
}

/// Drafts after prompts and verify steps are those of the second head, which a mistake changes.
#[test]
fn drafts_are_those_of_another_draft_head() {
    let checkpoint = with_head();
    let Some(mut server) = server(&checkpoint) else { return };
    let oracle = oracle("len13");
    let head = Head::new(&checkpoint);
    let hidden: Vec<_> = oracle.logits.iter().map(|row| head.hidden(row)).collect();
    let tokens = [&oracle.prompt[..], &oracle.greedy].concat();
    let mut differing = vec![0; Mistake::ALL.len()];

    // Whole, cut in the middle of a page, and token by token.
    for sizes in [vec![8, 5], vec![6, 7], vec![1; 13]] {
        let mut sequence = Sequence::new(0);
        let mut rest = &oracle.prompt[..];
        for size in sizes {
            let call;
            (call, rest) = rest.split_at(size);
            server.prefill(&mut [&mut sequence], &[call]);
        }
        let mut found = Vec::new();
        for right in [0, 1, 2, 3, 0, 2] {
            let length = sequence.length;
            let expected = head.propose(&hidden[..length], &tokens[1..=length], K, None);
            assert_eq!(sequence.drafts, expected, "at {length}");
            found.push((length, expected));
            let left = &oracle.greedy[sequence.emitted.len()..];
            sequence.drafts = drafts(left, right);
            assert_eq!(server.verify(&mut [&mut sequence]), [right]);
        }
        for (mistake, differing) in Mistake::ALL.into_iter().zip(&mut differing) {
            for (length, drafts) in &found {
                let (hidden, tokens) = (&hidden[..*length], &tokens[1..=*length]);
                let wrong = head.propose(hidden, tokens, K, Some(mistake));
                *differing += usize::from(wrong != *drafts);
            }
        }
    }
    for (mistake, differing) in Mistake::ALL.iter().zip(differing) {
        assert!(differing > 0, "{mistake:?} changes no draft");
    }
}

/// The results that are the next step's inputs are what a host makes of the others.
#[test]
fn the_next_steps_inputs_are_those_that_a_host_would_write() {
    let Some(mut server) = server(&with_head()) else { return };
    let oracle = oracle("len5");
    let mut sequence = Sequence::new(1);
    server.prefill(&mut [&mut sequence], &[&oracle.prompt]);
    assert_eq!(server.chained(), server.padding(K));
    for right in [0, 2, 3, 1] {
        sequence.drafts = drafts(&oracle.greedy[sequence.emitted.len()..], right);
        assert_eq!(server.verify(&mut [&mut sequence]), [right]);
        assert_eq!(server.chained(), server.inputs(&mut [&mut sequence]));
    }
    // A row without tokens stays as it is.
    let mut other = Sequence::new(0);
    server.prefill(&mut [&mut other], &[&oracle.prompt]);
    server.verify_in(&mut [&mut sequence], 2);
    assert_eq!(server.chained(), server.chained_inputs(&mut [&mut sequence], 2));
}
