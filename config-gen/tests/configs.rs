//! The text of `config.pbtxt`.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../../artifact/tests/common/mod.rs"]
mod common;

use common::Features::{Linear, Plain, Speculative, Windowed};
use common::{beside, read_json, small};
use config_gen::{Error, InstanceGroup, KvMode, ModelName, Options, SequenceOptions, config};
use insta::assert_snapshot;
use serde_json::json;
use tlaloc_artifact::Artifact;
use tlaloc_artifact::manifest::MANIFEST_FILE;

fn text(features: common::Features, options: &Options) -> Result<String, Error> {
    let (_dir, path) = small(features);
    let artifact = Artifact::open(&path).unwrap();
    let name = ModelName::derived(artifact.model_name()).unwrap();
    config(&artifact, &name, options)
}

fn sequence(options: SequenceOptions) -> Options {
    Options { kv_mode: KvMode::Sequence(options), ..Options::default() }
}

fn client() -> Options {
    Options { kv_mode: KvMode::Client, ..Options::default() }
}

#[test]
fn sequence_mode() {
    assert_snapshot!(text(Plain, &Options::default()).unwrap());
}

#[test]
fn sequence_mode_windowed_on_gpus_with_waits() {
    let options = Options {
        instance_group: InstanceGroup::Gpu(vec![0, 1]),
        ..sequence(SequenceOptions {
            max_sequence_idle: 600_000_000,
            max_queue_delay: 1000,
            decoupled: false,
        })
    };
    assert_snapshot!(text(Windowed, &options).unwrap());
}

#[test]
fn sequence_mode_speculative_decoupled() {
    let options = sequence(SequenceOptions { decoupled: true, ..SequenceOptions::default() });
    assert_snapshot!(text(Speculative, &options).unwrap());
}

#[test]
fn client_mode_on_the_cpu() {
    let options = Options { instance_group: InstanceGroup::Cpu, ..client() };
    assert_snapshot!(text(Plain, &options).unwrap());
}

/// Sequence mode §2, `oldest.max_candidate_sequences`, with its terms worked out by hand.
#[test]
fn live_sequences_are_bounded_by_pages_and_slots() {
    for (features, bound) in [
        (Plain, 5),       // 6 pages, one of them padding
        (Windowed, 4),    // 5 windowed pages
        (Linear, 4),      // 4 state slots
        (Speculative, 1), // 4 state slots, 2 + 2 a sequence
    ] {
        let text = text(features, &Options::default()).unwrap();
        assert!(text.contains(&format!("max_candidate_sequences: {bound}\n")), "{text}");
    }
}

#[test]
fn only_speculative_artifacts_are_decoupled() {
    let options = sequence(SequenceOptions { decoupled: true, ..SequenceOptions::default() });
    for (features, version) in [(Plain, "v2"), (Windowed, "v3"), (Linear, "v4")] {
        let error = text(features, &options).unwrap_err();
        assert!(matches!(error, Error::Decoupled { .. }));
        let message = format!("but 'Org/Small' is tlaloc-serving-{version}; leave it out");
        assert!(error.to_string().contains(&message), "{error}");
    }
    text(Speculative, &options).unwrap();
}

/// The text of the small artifact in client mode after `edit` of its manifest.
fn edited(edit: impl Fn(&mut serde_json::Value)) -> Result<String, Error> {
    let (_dir, path) = small(Plain);
    let mut manifest = read_json(&path);
    edit(&mut manifest);
    let artifact = Artifact::open(&beside(&path, &manifest)).unwrap();
    config(&artifact, &"m".parse().unwrap(), &client())
}

#[test]
fn client_mode_needs_one_binding_and_different_shapes() {
    let refused = |edit: fn(&mut serde_json::Value), message: &str| {
        let error = edited(edit).unwrap_err();
        assert!(matches!(error, Error::Client { .. }));
        assert!(error.to_string().contains(message), "{message}\n{error}");
    };
    edited(|_| {}).unwrap();
    refused(
        |m| m["entries"][1]["inputs"].as_array_mut().unwrap().swap(0, 1),
        "entries decode_b1_c4 and decode_b2_c4 list their arguments or results in different orders",
    );
    refused(
        |m| m["entries"][1]["entryPoint"] = json!("step"),
        "entries decode_b1_c4 and decode_b2_c4 run different functions",
    );
    refused(
        |m| {
            let twin = m["entries"][0].clone();
            m["entries"].as_array_mut().unwrap().push(twin);
        },
        "entries decode_b1_c4 and decode_b1_c4 take the same shapes",
    );
    refused(
        |m| {
            for entry in m["entries"].as_array_mut().unwrap() {
                entry["inputs"][0]["name"] = json!("token,ids");
            }
        },
        "the input name 'token,ids' has a comma",
    );
}

/// A manifest of another name, and names that need escapes.
#[test]
fn hostile_names_stay_in_their_literals() {
    let (_dir, path) = small(Plain);
    let mut manifest = read_json(&path);
    manifest["modelName"] = json!("x\nbackend: \"python\"");
    let artifact = Artifact::open(&beside(&path, &manifest)).unwrap();
    let text = config(&artifact, &"m".parse().unwrap(), &Options::default()).unwrap();
    assert_eq!(text.lines().filter(|line| line.starts_with("backend:")).count(), 1, "{text}");
    assert!(text.contains("key: \"serving_manifest\" value: { string_value: \"mutated.json\" }"));
}

/// A value of protobuf text.
#[derive(Clone, Debug, PartialEq)]
enum Item {
    Scalar(String),
    Message(Vec<(String, Item)>),
}

/// Fields of protobuf text, in order; a list counts as repeated fields. Comments are left out.
fn parse(text: &str) -> Vec<(String, Item)> {
    let mut tokens = Vec::new();
    for line in text.lines() {
        let mut rest = line.trim();
        while !rest.is_empty() && !rest.starts_with('#') {
            let length = match rest.as_bytes()[0] {
                b'"' => rest[1..].find('"').unwrap() + 2,
                b'[' | b']' | b'{' | b'}' | b',' | b':' => 1,
                _ => rest.find([' ', ':', ',', '[', ']', '{', '}']).unwrap_or(rest.len()),
            };
            tokens.push(rest[..length].to_owned());
            rest = rest[length..].trim_start();
        }
    }
    let mut tokens = tokens.into_iter().filter(|t| t != ":" && t != ",").peekable();
    fields(&mut tokens)
}

fn fields(tokens: &mut std::iter::Peekable<impl Iterator<Item = String>>) -> Vec<(String, Item)> {
    let mut found = Vec::new();
    while let Some(name) = tokens.next_if(|token| token != "}") {
        if tokens.next_if_eq("[").is_some() {
            while tokens.next_if_eq("]").is_none() {
                found.push((name.clone(), item(tokens)));
            }
        } else {
            found.push((name, item(tokens)));
        }
    }
    found
}

fn item(tokens: &mut std::iter::Peekable<impl Iterator<Item = String>>) -> Item {
    if tokens.next_if_eq("{").is_none() {
        return Item::Scalar(tokens.next().unwrap());
    }
    let message = fields(tokens);
    assert_eq!(tokens.next().unwrap(), "}");
    Item::Message(message)
}

#[test]
fn the_reader_of_this_test_tells_configs_apart() {
    let one = parse("a: 1 # c\nb [ { x: \"y z\" }, { x: \"w\" } ]\nc { d: [ 1, 2 ] }");
    let x = |text: &str| Item::Message(vec![("x".into(), Item::Scalar(text.into()))]);
    assert_eq!(one[0], ("a".into(), Item::Scalar("1".into())));
    assert_eq!(one[1..3], [("b".into(), x("\"y z\"")), ("b".into(), x("\"w\""))]);
    let d = |n: &str| ("d".to_owned(), Item::Scalar(n.into()));
    assert_eq!(one[3], ("c".into(), Item::Message(vec![d("1"), d("2")])));
    assert_ne!(parse("a: 1"), parse("a: 2"));
}

/// The original exporter's models: every field equals theirs but the instance group.
#[test]
fn upstream_configs_have_the_same_fields() {
    let Some(upstream) = common::upstream("upstream_configs_have_the_same_fields") else { return };
    for (model, kv_mode) in [
        ("reference_sequence", KvMode::default()),
        ("window_sequence", KvMode::default()),
        ("reference_decode", KvMode::Client),
    ] {
        let folder = upstream.join("model_repository").join(model);
        let artifact = Artifact::open(&folder.join("1").join(MANIFEST_FILE)).unwrap();
        let gpu = InstanceGroup::Gpu(vec![0]);
        let expected = parse(&std::fs::read_to_string(folder.join("config.pbtxt")).unwrap());
        let name = model.parse().unwrap();
        let options = Options { kv_mode: kv_mode.clone(), instance_group: gpu };
        assert_eq!(parse(&config(&artifact, &name, &options).unwrap()), expected, "{model}");
        // With our default group, that field alone differs.
        let options = Options { kv_mode, ..Options::default() };
        let ours = parse(&config(&artifact, &name, &options).unwrap());
        assert_eq!(ours.len(), expected.len());
        let different: Vec<_> = ours.iter().zip(&expected).filter(|(a, b)| a != b).collect();
        assert_eq!(different.len(), 1, "{model}");
        assert_eq!(different[0].0.0, "instance_group");
    }
}
