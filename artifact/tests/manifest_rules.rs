//! One mutation for each rule of artifact format §17, each refused with its message.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use common::Features::{self, Linear, Plain, Speculative, Verifying, Windowed};
use common::{beside, read_json, small};
use serde_json::{Value, json};
use tlaloc_artifact::{Artifact, EntryKind, SchemaVersion};

type Mutation = (Features, fn(&mut Value), &'static str);

/// The slot with `role` on `side` of entry `index`.
fn slot<'a>(m: &'a mut Value, index: usize, side: &str, role: &str) -> &'a mut Value {
    let slots = m["entries"][index][side].as_array_mut().unwrap();
    slots.iter_mut().find(|slot| slot["role"] == role).unwrap()
}

fn remove(m: &mut Value, index: usize, side: &str, role: &str) {
    m["entries"][index][side].as_array_mut().unwrap().retain(|slot| slot["role"] != role);
}

fn each_entry(m: &mut Value, edit: impl Fn(&mut Value)) {
    m["entries"].as_array_mut().unwrap().iter_mut().for_each(edit);
}

fn each_pool(m: &mut Value, name: &str, edit: impl Fn(&mut Value)) {
    each_entry(m, |entry| {
        for side in ["inputs", "outputs"] {
            for slot in entry[side].as_array_mut().unwrap() {
                if slot["name"] == name || slot["name"] == format!("{name}Out") {
                    edit(slot);
                }
            }
        }
    });
}

const MUTATIONS: &[Mutation] = &[
    // 2
    (
        Plain,
        |m| m["schemaVersion"] = json!("tlaloc-serving-v6"),
        "schemaVersion is 'tlaloc-serving-v6', but this reader knows tlaloc-serving-v1",
    ),
    (Plain, |m| m["schemaVersion"] = json!(2), "schemaVersion: is 2, expected a string"),
    // 3, and JSON types with the path of the field
    (
        Plain,
        |m| {
            m.as_object_mut().unwrap().remove("model");
        },
        "the manifest: missing field `model`",
    ),
    (Plain, |m| m["model"] = json!([]), "model: "),
    (
        Plain,
        |m| {
            m["model"].as_object_mut().unwrap().remove("vocabSize");
        },
        "model: missing field `vocabSize`",
    ),
    (
        Plain,
        |m| m["model"]["vocabSize"] = json!("11"),
        "model.vocabSize: invalid type: string \"11\", expected i64",
    ),
    (
        Plain,
        |m| m["model"]["numBlocks"] = json!(6.5),
        "model.numBlocks: invalid type: floating point",
    ),
    (Plain, |m| m["model"]["blockSize"] = json!(null), "model.blockSize: invalid type: null"),
    (
        Plain,
        |m| m["model"]["blockSize"] = json!(0),
        "model.blockSize is 0, expected 1 to 2147483647",
    ),
    (Plain, |m| m["model"]["vocabSize"] = json!(0), "model.vocabSize is 0"),
    (Plain, |m| m["entries"][1]["batch"] = json!(true), "entries[1].batch: invalid type: boolean"),
    // 4, 5
    (Plain, |m| m["model"]["kvQuant"] = json!({"dtype": "int8"}), "model.kvQuant is set"),
    (Plain, |m| m["model"]["numBlocks"] = json!(1), "model.numBlocks is 1, expected 2"),
    (Plain, |m| m["model"]["numBlocks"] = json!(2_000_000_000), "more slots than an i32 numbers"),
    // 6
    (
        Plain,
        |m| m["model"]["refusedTokens"][0]["id"] = json!(11),
        "model.refusedTokens[0].id is 11, outside the vocabulary [0, 11)",
    ),
    (
        Plain,
        |m| m["model"]["refusedTokens"][1]["id"] = json!(-1),
        "model.refusedTokens[1].id is -1",
    ),
    (
        Plain,
        |m| m["model"]["refusedTokens"][1]["id"] = json!(9),
        "model.refusedTokens lists token id 9 twice",
    ),
    (Plain, |m| m["model"]["refusedTokens"][0] = json!(9), "model.refusedTokens[0]: invalid type"),
    // 7
    (
        Linear,
        |m| {
            m["model"].as_object_mut().unwrap().remove("linearState");
        },
        "model.linearState is missing; tlaloc-serving-v4 needs it",
    ),
    (
        Linear,
        |m| m["schemaVersion"] = json!("tlaloc-serving-v2"),
        "model.linearState is set, but tlaloc-serving-v2 has none",
    ),
    // 8
    (
        Speculative,
        |m| {
            m["model"].as_object_mut().unwrap().remove("mtpDraftTokens");
        },
        "model.mtpDraftTokens is missing; tlaloc-serving-v5 needs it",
    ),
    (
        Linear,
        |m| m["model"]["mtpDraftTokens"] = json!(2),
        "model.mtpDraftTokens is set, but tlaloc-serving-v4 has none",
    ),
    (Plain, |m| m["model"]["mtpDraftTokens"] = json!(-1), "model.mtpDraftTokens is -1"),
    // 9
    (
        Plain,
        |m| m["model"]["cudaKernels"] = json!("true"),
        "model.cudaKernels: invalid type: string \"true\", expected a boolean",
    ),
    // 11
    (
        Linear,
        |m| m["model"]["linearState"]["numSlots"] = json!(0),
        "model.linearState.numSlots is 0",
    ),
    (
        Linear,
        |m| m["model"]["linearState"]["layers"] = json!([]),
        "model.linearState.layers is empty",
    ),
    (
        Linear,
        |m| m["model"]["linearState"]["layers"][0] = json!(2),
        "model.linearState.layers has 2, but model.numLayers is 2",
    ),
    (
        Speculative,
        |m| m["model"]["linearState"]["numSlots"] = json!(3),
        "model.linearState.numSlots is 3, but one sequence of 2 draft tokens takes 4",
    ),
    // 12
    (
        Windowed,
        |m| {
            m["model"].as_object_mut().unwrap().remove("windowedKv");
        },
        "model.windowedKv is missing; tlaloc-serving-v3 needs it",
    ),
    (
        Windowed,
        |m| m["schemaVersion"] = json!("tlaloc-serving-v2"),
        "model.windowedKv is set, but tlaloc-serving-v2 has none",
    ),
    (
        Linear,
        |m| m["model"]["windowedKv"] = json!({"window": 3, "layers": [0], "numBlocks": 5, "ringPages": 2, "kvPoolDims": [5, 2, 2, 2]}),
        "model.windowedKv is set, but tlaloc-serving-v4 has none",
    ),
    (Windowed, |m| m["model"]["windowedKv"]["window"] = json!(0), "model.windowedKv.window is 0"),
    (
        Windowed,
        |m| m["model"]["windowedKv"]["ringPages"] = json!(0),
        "model.windowedKv.ringPages is 0",
    ),
    (
        Windowed,
        |m| m["model"]["windowedKv"]["numBlocks"] = json!(2),
        "model.windowedKv.numBlocks is 2, but page 0 and a ring of 2 pages need 3",
    ),
    (
        Windowed,
        |m| m["model"]["windowedKv"]["layers"] = json!([]),
        "model.windowedKv.layers is empty",
    ),
    (
        Windowed,
        |m| m["model"]["windowedKv"]["layers"] = json!([0, 0]),
        "model.windowedKv.layers has 0 twice",
    ),
    (
        Windowed,
        |m| m["model"]["windowedKv"]["layers"] = json!(["0"]),
        "model.windowedKv.layers[0]: invalid type",
    ),
    // 13
    (Plain, |m| m["entries"] = json!([]), "entries is empty"),
    (
        Plain,
        |m| m["entries"][0]["kind"] = json!("verify"),
        "entry 0 (verify_b1_c4): kind is 'verify', expected decode or prefill",
    ),
    (Plain, |m| m["entries"][0]["batch"] = json!(0), "entry 0 (decode_b0_c4): batch is 0"),
    (Plain, |m| m["entries"][0]["context"] = json!(-4), "context is -4"),
    (
        Plain,
        |m| m["schemaVersion"] = json!("tlaloc-serving-v1"),
        "entry 2 (prefill_b1_c4): tlaloc-serving-v1 has no prefill entries",
    ),
    (Plain, |m| m["entries"][0]["bodyPath"] = json!(""), "bodyPath: the path is empty"),
    (
        Plain,
        |m| m["entries"][0]["bodyPath"] = json!("/etc/passwd"),
        "bodyPath: path '/etc/passwd' is absolute",
    ),
    (
        Plain,
        |m| m["entries"][0]["bodyPath"] = json!("bodies/../../x.mlir"),
        "bodyPath: path 'bodies/../../x.mlir' has a '..' component",
    ),
    (
        Plain,
        |m| m["entries"][0]["programPath"] = json!("../x.json"),
        "programPath: path '../x.json' has a '..' component",
    ),
    (
        Plain,
        |m| {
            m["entries"][0].as_object_mut().unwrap().remove("donationPairs");
        },
        "entries[0]: missing field `donationPairs`",
    ),
    (
        Plain,
        |m| {
            m["entries"][0].as_object_mut().unwrap().remove("inputs");
        },
        "entries[0]: missing field `inputs`",
    ),
    (Plain, |m| m["entries"][0]["inputs"][0]["name"] = json!(""), "inputs[0] has no name"),
    (
        Plain,
        |m| slot(m, 0, "inputs", "WEIGHT")["type"]["dtype"] = json!("f4"),
        "inputs[9] 'embedTokens': dtype 'f4' is not supported",
    ),
    (
        Plain,
        |m| slot(m, 0, "inputs", "WEIGHT")["type"]["dims"] = json!([11, -4]),
        "inputs[9] 'embedTokens': a dim is -4",
    ),
    (
        Plain,
        |m| {
            slot(m, 0, "inputs", "WEIGHT")["type"]["dims"] =
                json!([2147483647, 2147483647, 2147483647])
        },
        "are too large",
    ),
    (
        Plain,
        |m| m["entries"][0]["donationPairs"][0] = json!([5]),
        "entries[0].donationPairs[0]: invalid length 1",
    ),
    (
        Plain,
        |m| m["entries"][0]["donationPairs"][0] = json!([5, 9]),
        "donationPairs[0] is [5,9], but the entry has 11 inputs and 5 outputs",
    ),
    (Plain, |m| m["entries"][0]["donationPairs"][0] = json!([-5, 1]), "donationPairs[0] is [-5,1]"),
    (
        Plain,
        |m| m["entries"][0]["outputs"][1]["type"]["dims"] = json!([6, 2, 2, 3]),
        "donationPairs[0] is [5,1], but input 'keyCache0' is tensor<6x2x2x2xf32> and output 'keyCache0Out' is tensor<6x2x2x3xf32>",
    ),
    // 14
    (
        Plain,
        |m| slot(m, 0, "inputs", "SEQ_LENS")["role"] = json!("LENGTHS"),
        "inputs[3] 'seqLens': role 'LENGTHS' is unknown",
    ),
    (
        Plain,
        |m| slot(m, 0, "inputs", "SEQ_LENS")["role"] = json!("STATE_SLOTS"),
        "input 'seqLens' has role STATE_SLOTS, which belongs to a feature that the model lacks",
    ),
    (
        Plain,
        |m| slot(m, 0, "inputs", "SEQ_LENS")["role"] = json!("WINDOW_SLOT_MAPPING"),
        "has role WINDOW_SLOT_MAPPING",
    ),
    (
        Linear,
        |m| slot(m, 0, "inputs", "STATE_SLOTS")["role"] = json!("STATE_WRITE_SLOTS"),
        "has role STATE_WRITE_SLOTS",
    ),
    (
        Plain,
        |m| slot(m, 0, "inputs", "KV_POOL_IN")["role"] = json!("STATE_POOL_IN"),
        "input 'keyCache0' has role STATE_POOL_IN, but the model has no linearState",
    ),
    (
        Plain,
        |m| slot(m, 0, "inputs", "KV_POOL_IN")["role"] = json!("WINDOW_KV_POOL_IN"),
        "input 'keyCache0' has role WINDOW_KV_POOL_IN, but the model has no windowedKv",
    ),
    (
        Plain,
        |m| slot(m, 0, "inputs", "POSITIONS")["role"] = json!("TOKEN_IDS"),
        "two inputs have role TOKEN_IDS",
    ),
    (
        Plain,
        |m| slot(m, 0, "inputs", "POSITIONS")["type"]["dtype"] = json!("i64"),
        "input 'positions' of role POSITIONS is tensor<1x1xi64>, but the entry's sizes make it tensor<1x1xi32>",
    ),
    (
        Plain,
        |m| slot(m, 1, "inputs", "BLOCK_TABLES")["type"]["dims"] = json!([2, 3]),
        "entry 1 (decode_b2_c4): input 'blockTables' of role BLOCK_TABLES is tensor<2x3xi32>, but the entry's sizes make it tensor<2x2xi32>",
    ),
    (
        Plain,
        |m| slot(m, 0, "inputs", "SLOT_MAPPING")["role"] = json!("WEIGHT"),
        "no input has role SLOT_MAPPING",
    ),
    (
        Windowed,
        |m| slot(m, 0, "inputs", "WINDOW_BLOCK_TABLES")["role"] = json!("WEIGHT"),
        "no input has role WINDOW_BLOCK_TABLES",
    ),
    (
        Plain,
        |m| m["entries"][0]["inputs"][6]["name"] = json!("keyCache0"),
        "two pools or weights are named 'keyCache0'",
    ),
    // 15
    (
        Plain,
        |m| slot(m, 0, "outputs", "LOGITS")["type"]["dims"] = json!([1, 11]),
        "output 'logits' of role LOGITS is tensor<1x11xf32>, but the entry's sizes make it tensor<1x1x11xf32>",
    ),
    (
        Plain,
        |m| slot(m, 0, "outputs", "LOGITS")["type"]["dtype"] = json!("bf16"),
        "output 'logits' of role LOGITS is tensor<1x1x11xbf16>",
    ),
    (
        Plain,
        |m| slot(m, 0, "outputs", "LOGITS")["role"] = json!("NEXT_TOKENS"),
        "output 'logits' has role NEXT_TOKENS, which a model of 0 draft tokens does not have",
    ),
    (
        Plain,
        |m| slot(m, 0, "outputs", "LOGITS")["role"] = json!("SCORES"),
        "outputs[0] 'logits': role 'SCORES' is unknown",
    ),
    (
        Plain,
        |m| slot(m, 0, "outputs", "KV_POOL_OUT")["role"] = json!("LOGITS"),
        "two outputs have role LOGITS",
    ),
    (
        Plain,
        |m| {
            m["entries"][0]["donationPairs"].as_array_mut().unwrap().remove(0);
        },
        "output 'keyCache0Out' has role KV_POOL_OUT, but donationPairs does not pair it with exactly one input",
    ),
    (
        Plain,
        |m| m["entries"][0]["donationPairs"][1] = json!([5, 2]),
        "donationPairs names input 'keyCache0' of role KV_POOL_IN 2 times, expected 1",
    ),
    (
        Windowed,
        |m| slot(m, 0, "outputs", "WINDOW_KV_POOL_OUT")["role"] = json!("KV_POOL_OUT"),
        "output 'keyCache0Out' has role KV_POOL_OUT, but donationPairs pairs it with input 'keyCache0' of role WINDOW_KV_POOL_IN",
    ),
    (
        Speculative,
        |m| slot(m, 0, "outputs", "DRAFTS")["type"]["dims"] = json!([1, 3]),
        "output 'drafts' of role DRAFTS is tensor<1x3xi32>, but the entry's sizes make it tensor<1x2xi32>",
    ),
    (
        Speculative,
        |m| slot(m, 0, "outputs", "NEXT_TOKENS")["role"] = json!("LOGITS"),
        "output 'nextTokens' has role LOGITS, which a model of 2 draft tokens does not have",
    ),
    (
        Speculative,
        |m| slot(m, 0, "outputs", "NEXT_SEQ_LENS")["role"] = json!("NEXT_STATE_SLOTS"),
        "two outputs have role NEXT_STATE_SLOTS",
    ),
    // 16
    (
        Plain,
        |m| {
            each_entry(m, |e| {
                if e["kind"] == "prefill" {
                    e["kind"] = json!("decode")
                }
            })
        },
        "entry 2 (decode_b1_c4): tokensPerSeq is 4, but a decode entry of 0 draft tokens has 1",
    ),
    (
        Plain,
        |m| m["entries"][2]["context"] = json!(3),
        "tokensPerSeq is 4, more than the context of 3",
    ),
    (
        Plain,
        |m| m["entries"][0]["context"] = json!(5),
        "maxBlocksPerSeq is 2: pages of 2 tokens cover 4 positions, less than the context of 5",
    ),
    // 17
    (
        Plain,
        |m| m["entries"][1]["inputs"][5]["name"] = json!("keyCache7"),
        "entry decode_b2_c4 has KV_POOL_IN 'keyCache7' of tensor<6x2x2x2xf32> where entry decode_b1_c4 has KV_POOL_IN 'keyCache0'",
    ),
    (
        Plain,
        |m| slot(m, 1, "inputs", "WEIGHT")["type"]["dims"] = json!([11, 5]),
        "WEIGHT 'embedTokens' of tensor<11x5xf32> where",
    ),
    (
        Plain,
        |m| remove(m, 3, "inputs", "WEIGHT"),
        "entry prefill_b1_c4_t2 has nothing where entry decode_b1_c4 has WEIGHT 'embedTokens'",
    ),
    // 18
    (
        Plain,
        |m| m["entries"].as_array_mut().unwrap().retain(|e| e["kind"] == "prefill"),
        "no entry is a decode entry",
    ),
    // 19
    (
        Windowed,
        |m| m["model"]["windowedKv"]["ringPages"] = json!(1),
        "so a decode step would read a position already written over",
    ),
    // 21
    (
        Plain,
        |m| m["model"]["numBlocks"] = json!(7),
        "pool 'keyCache0' is tensor<6x2x2x2xf32>, but the model's sizes make it [7,2,heads,head dim]",
    ),
    (
        Plain,
        |m| each_pool(m, "keyCache1", |s| s["type"]["dims"] = json!([6, 2, 4])),
        "pool 'keyCache1' is tensor<6x2x4xf32>",
    ),
    (
        Windowed,
        |m| m["model"]["windowedKv"]["numBlocks"] = json!(6),
        "pool 'keyCache0' is tensor<5x2x2x2xf32>, but the model's sizes make it [6,2,heads,head dim]",
    ),
    (
        Linear,
        |m| m["model"]["linearState"]["numSlots"] = json!(5),
        "pool 'convState0' is tensor<4x3x8xf32>, but the model's sizes make it f32 [5,…]",
    ),
    (
        Linear,
        |m| each_pool(m, "convState0", |s| s["type"]["dtype"] = json!("bf16")),
        "pool 'convState0' is tensor<4x3x8xbf16>",
    ),
    // 22
    (
        Linear,
        |m| m["model"]["linearState"]["layers"] = json!([0, 1]),
        "2 pools of role STATE_POOL_IN, but model.linearState.layers makes it 4",
    ),
    (
        Windowed,
        |m| m["model"]["windowedKv"]["layers"] = json!([0, 1]),
        "2 pools of role WINDOW_KV_POOL_IN, but model.windowedKv.layers makes it 4",
    ),
    // 23
    (
        Plain,
        |m| {
            m["weights"].as_object_mut().unwrap().remove("table");
        },
        "weights: the table has no row for slot 'embedTokens'",
    ),
    (
        Plain,
        |m| m["weights"]["table"][1]["name"] = json!("other"),
        "weights: the table has no row for slot 'norm'",
    ),
    (
        Plain,
        |m| m["weights"]["table"][1]["name"] = json!("embedTokens"),
        "weights: the table has two rows 'embedTokens'",
    ),
    (
        Plain,
        |m| m["weights"]["table"][0]["path"] = json!("../w.bin"),
        "weights: row 'embedTokens': path '../w.bin' has a '..' component",
    ),
    (
        Plain,
        |m| m["weights"]["table"][0]["path"] = json!("/w.bin"),
        "weights: row 'embedTokens': path '/w.bin' is absolute",
    ),
];

#[test]
fn every_rule_refuses_its_mutation() {
    for features in [Plain, Windowed, Linear, Speculative] {
        let (_dir, path) = small(features);
        let manifest = read_json(&path);
        // The control: unmutated, the same bytes through the same path are accepted.
        Artifact::open(&beside(&path, &manifest)).unwrap();
        for (_, mutate, message) in MUTATIONS.iter().filter(|(f, _, _)| *f == features) {
            let mut mutated = manifest.clone();
            mutate(&mut mutated);
            let mutated = beside(&path, &mutated);
            let error = match Artifact::open(&mutated) {
                Ok(_) => panic!("accepted, expected: {message}"),
                Err(error) => error,
            };
            let text = error.to_string();
            assert!(text.starts_with(&format!("{}: ", mutated.display())), "{text}");
            assert!(text.contains(message), "expected: {message}\n   found: {text}");
            assert!(!error.is_not_found());
        }
    }
}

/// §17 item 15: the chain outputs are all there or none.
#[test]
fn chain_outputs_are_all_or_none() {
    let (_dir, path) = small(Speculative);
    let without = |roles: &[&str]| {
        let mut m = read_json(&path);
        each_entry(&mut m, |entry| {
            let outputs = entry["outputs"].as_array_mut().unwrap();
            outputs.retain(|slot| !roles.contains(&slot["role"].as_str().unwrap()));
            // Pool outputs move up with those removed before them.
            for pair in entry["donationPairs"].as_array_mut().unwrap() {
                pair[1] = json!(pair[1].as_u64().unwrap() - roles.len() as u64);
            }
        });
        Artifact::open(&beside(&path, &m))
    };
    let chain = [
        "NEXT_TOKEN_IDS",
        "NEXT_POSITIONS",
        "NEXT_SEQ_LENS",
        "NEXT_SLOT_MAPPING",
        "NEXT_STATE_SLOTS",
        "NEXT_STATE_WRITE_SLOTS",
    ];
    without(&[]).unwrap();
    without(&chain).unwrap();
    let error = without(&chain[..1]).unwrap_err().to_string();
    assert!(error.contains("all there or none; missing: NEXT_TOKEN_IDS"), "{error}");
    let error = without(&["ACCEPTED"]).unwrap_err().to_string();
    assert!(error.contains("no output has role ACCEPTED"), "{error}");
}

/// Verify entries: prefill entries whose logits are those of every token.
#[test]
fn every_tokens_logits_are_for_prefill_entries_without_state() {
    let (_dir, path) = small(Verifying);
    let artifact = Artifact::open(&path).unwrap();
    let entries = artifact.entries().iter().map(|e| (e.id.as_str(), e.logits_columns));
    let expected = [
        ("decode_b1_c4", 1),
        ("decode_b2_c4", 1),
        ("prefill_b1_c4", 1),
        ("prefill_b1_c4_t2", 1),
        ("prefill_b1_c4_t2_verify", 2),
    ];
    assert_eq!(entries.collect::<Vec<_>>(), expected);
    assert_eq!(artifact.without_verify_entries().entries().len(), 4);
    let with = |features, entry: usize, columns: u64| {
        let (_dir, path) = small(features);
        let mut m = read_json(&path);
        slot(&mut m, entry, "outputs", "LOGITS")["type"]["dims"][1] = json!(columns);
        Artifact::open(&beside(&path, &m)).map(|a| a.entries()[entry].logits_columns)
    };
    assert_eq!(with(Plain, 2, 4).unwrap(), 4);
    assert_eq!(with(Windowed, 2, 4).unwrap(), 4);
    for (features, entry, columns) in [(Plain, 0, 2), (Plain, 2, 2), (Plain, 2, 5), (Linear, 2, 4)]
    {
        let error = with(features, entry, columns).unwrap_err().to_string();
        let found = format!("is tensor<1x{columns}x11xf32>, but the entry's sizes make it");
        assert!(error.contains(&found), "{error}");
    }
}

#[test]
fn verify_entries_are_no_prefill_entries() {
    let (_dir, path) = small(Verifying);
    let mut m = read_json(&path);
    let entries = m["entries"].as_array_mut().unwrap();
    entries.drain(2..4);
    let artifact = Artifact::open(&beside(&path, &m)).unwrap();
    assert_eq!(artifact.entries().len(), 3);
    assert_eq!((artifact.max_prefill_batch(), artifact.max_prefill_tokens()), (0, 0));
}

#[test]
fn an_artifact_without_pools_is_refused() {
    let (_dir, path) = small(Plain);
    let mut m = read_json(&path);
    each_entry(&mut m, |entry| {
        for side in ["inputs", "outputs"] {
            let slots = entry[side].as_array_mut().unwrap();
            slots.retain(|slot| !slot["role"].as_str().unwrap().starts_with("KV_POOL"));
        }
        entry["donationPairs"] = json!([]);
    });
    let error = Artifact::open(&beside(&path, &m)).unwrap_err().to_string();
    assert!(error.contains("the entries have no pool"), "{error}");
}

#[test]
fn a_missing_manifest_is_not_found_and_a_truncated_one_is_invalid() {
    let (_dir, path) = small(Plain);
    let missing = Artifact::open(&path.with_file_name("absent.json")).unwrap_err();
    assert!(missing.is_not_found(), "{missing}");
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    let truncated = Artifact::open(&path).unwrap_err();
    assert!(!truncated.is_not_found());
    assert!(truncated.to_string().contains("is not valid JSON: EOF"), "{truncated}");
}

/// The checked model, against the sizes that the small artifacts were described with.
#[test]
fn the_checked_model_is_what_was_described() {
    let (_dir, path) = small(Windowed);
    let artifact = Artifact::open(&path).unwrap();
    assert_eq!(artifact.version(), SchemaVersion::V3);
    assert_eq!(artifact.root(), path.parent().unwrap());
    assert_eq!(artifact.model_name(), "Org/Small");
    assert_eq!((artifact.vocab_size(), artifact.num_blocks(), artifact.block_size()), (11, 6, 2));
    assert_eq!((artifact.max_context(), artifact.max_decode_batch()), (4, 2));
    assert_eq!((artifact.max_prefill_batch(), artifact.max_prefill_tokens()), (1, 4));
    let refused: Vec<_> =
        artifact.refused_tokens().iter().map(|t| (t.id, t.config_key.as_str())).collect();
    assert_eq!(refused, [(9, "image_token_id"), (10, "video_token_id")]);
    let windowed = artifact.windowed().unwrap();
    assert_eq!((windowed.window, windowed.ring_pages, windowed.num_blocks), (3, 2, 5));
    let pools: Vec<_> = artifact.pools().iter().map(|p| p.name.as_str()).collect();
    assert_eq!(pools, ["keyCache0", "valueCache0", "keyCache1", "valueCache1"]);
    let weights: Vec<_> = artifact.weights().iter().map(|w| (&*w.name, w.tensor.bytes())).collect();
    assert_eq!(weights, [("embedTokens", 176), ("norm", 8)]);
    let ids: Vec<_> = artifact.entries().iter().map(|e| e.id.as_str()).collect();
    assert_eq!(ids, ["decode_b1_c4", "decode_b2_c4", "prefill_b1_c4", "prefill_b1_c4_t2"]);
    let entry = &artifact.entries()[3];
    assert_eq!((entry.kind, entry.tokens, entry.columns), (EntryKind::Prefill, 2, 2));
    assert_eq!(entry.donations, [(7, 1), (8, 2), (9, 3), (10, 4)]);
    assert!(entry.body.is_absolute() && entry.body.is_file());
    assert_eq!(artifact.root().join(&entry.body_name), entry.body);
}

/// Refused tokens are handed out ascending, whatever the order written.
#[test]
fn refused_tokens_ascend() {
    let (_dir, path) = small(Plain);
    let mut m = read_json(&path);
    m["model"]["refusedTokens"].as_array_mut().unwrap().reverse();
    let artifact = Artifact::open(&beside(&path, &m)).unwrap();
    let ids: Vec<_> = artifact.refused_tokens().iter().map(|t| t.id).collect();
    assert_eq!(ids, [9, 10]);
}

/// What the format leaves free: unknown keys, repeated keys, white space, both spellings of dtypes.
#[test]
fn liberties_of_the_format_are_accepted() {
    let (_dir, path) = small(Plain);
    let mut m = read_json(&path);
    m["unknown"] = json!({"a": 1});
    m["model"]["unknown"] = json!([1]);
    m["entries"][0]["inputs"][0]["type"]["dtype"] = json!("si32");
    m["entries"][0]["inputs"][0]["type"].as_object_mut().unwrap().remove("axisNames");
    Artifact::open(&beside(&path, &m)).unwrap();
    let text = serde_json::to_string_pretty(&m).unwrap();
    let repeated = text.replacen("\"model\": {", "\"model\": 7,\n\"model\": {", 1);
    assert_ne!(text, repeated);
    let spaced = path.with_file_name("spaced.json");
    std::fs::write(&spaced, repeated).unwrap();
    Artifact::open(&spaced).unwrap();
}

#[test]
fn weight_files_are_opened_at_their_size_only() {
    let (_dir, path) = small(Plain);
    let artifact = Artifact::open(&path).unwrap();
    let slot = &artifact.weights()[0];
    assert_eq!(slot.open().unwrap().metadata().unwrap().len(), 176);
    std::fs::write(&slot.file, [0; 175]).unwrap();
    let error = slot.open().unwrap_err();
    assert!(!error.is_not_found());
    assert!(
        error.to_string().contains(
            "weight 'embedTokens' is tensor<11x4xf32>, which takes 176 bytes, but the file has 175"
        ),
        "{error}"
    );
    std::fs::remove_file(&slot.file).unwrap();
    assert!(slot.open().unwrap_err().is_not_found());
}
