//! The text of `config.pbtxt`.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../../artifact/tests/common/mod.rs"]
mod common;

use common::Features::{Linear, Plain, Speculative, Verifying, Windowed};
use common::{VOCAB, beside, read_json, small};
use config_gen::{
    Checkpoint, Dialect, Error, GenerateOptions, InstanceGroup, Mode, ModelName, Options, Policy,
    SchedulerOptions, SequenceOptions, Speculation, config,
};
use insta::assert_snapshot;
use serde_json::json;
use tlaloc_artifact::Artifact;
use tlaloc_artifact::manifest::MANIFEST_FILE;
use tlaloc_generation::options::{REPLIES, TABLE, TensorSpec, tensors};

fn text(features: common::Features, options: &Options) -> Result<String, Error> {
    let (_dir, path) = small(features);
    let artifact = Artifact::open(&path).unwrap();
    let name = ModelName::derived(artifact.model_name()).unwrap();
    config(&artifact, &name, options)
}

fn sequence(options: SequenceOptions) -> Options {
    Options { mode: Mode::Sequence(options), ..Options::default() }
}

fn client() -> Options {
    Options { mode: Mode::Client, ..Options::default() }
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

fn generate(options: GenerateOptions) -> Options {
    Options { mode: Mode::Generate(options), ..Options::default() }
}

/// A checkpoint whose tokenizer has `tokens` tokens, with its `generation_config.json`.
fn checkpoint(tokens: usize, config: &str) -> Checkpoint {
    let folder = tempfile::tempdir().unwrap();
    common::checkpoint(folder.path(), tokens, config);
    Checkpoint::open(folder.path()).unwrap()
}

fn with_text() -> GenerateOptions {
    let checkpoint = Some(checkpoint(VOCAB, "{\"eos_token_id\": [2, 3]}"));
    GenerateOptions { checkpoint, ..GenerateOptions::default() }
}

#[test]
fn generate_mode() {
    assert_snapshot!(text(Plain, &generate(with_text())).unwrap());
}

#[test]
fn generate_mode_of_ids_with_every_scheduler_option() {
    let scheduler = SchedulerOptions {
        max_queue_size: Some(4),
        max_running: Some(3),
        max_prefill_tokens_per_step: Some(64),
        policy: Some(Policy::MaxUtilization),
        swap_space_mib: Some(0),
        speculation: Some(Speculation::None),
    };
    let options = GenerateOptions { scheduler, ..GenerateOptions::default() };
    assert_snapshot!(text(Windowed, &generate(options)).unwrap());
}

/// The dialects have the same names, and ranks that differ by the batch dimension.
#[test]
fn dialects_differ_in_their_batch_dimension_alone() {
    let trtllm = text(Plain, &generate(with_text())).unwrap();
    let vllm = GenerateOptions { dialect: Dialect::Vllm, ..with_text() };
    let vllm = text(Plain, &generate(vllm)).unwrap();
    assert!(trtllm.contains("\nmax_batch_size: 1\n"));
    assert_eq!(vllm, trtllm.replace("\nmax_batch_size: 1\n", "\nmax_batch_size: 0\n"));
}

/// The declared tensors `list` of a configuration, by name.
fn declared(text: &str, list: &str) -> Vec<(String, String, Vec<String>, bool)> {
    let scalar = |item: &Item| match item {
        Item::Scalar(text) => text.trim_matches('"').to_owned(),
        Item::Message(_) => panic!("{item:?}"),
    };
    let mut tensors = Vec::new();
    for (_, item) in parse(text).into_iter().filter(|(name, _)| name == list) {
        let Item::Message(fields) = item else { panic!("{item:?}") };
        let all = |key: &str| -> Vec<_> {
            fields.iter().filter(|(name, _)| name == key).map(|(_, item)| scalar(item)).collect()
        };
        let optional = all("optional") == ["true"];
        tensors.push((all("name").remove(0), all("data_type").remove(0), all("dims"), optional));
    }
    tensors
}

fn spec(spec: &TensorSpec, optional: bool) -> (String, String, Vec<String>, bool) {
    let dims = spec.dims.iter().map(i64::to_string).collect();
    (spec.name.to_owned(), spec.data_type.config_name().to_owned(), dims, optional)
}

/// Every declared tensor is of the tables, and every name of the tables is declared.
#[test]
fn the_tensors_are_those_of_the_tables() {
    let text_model = text(Plain, &generate(with_text())).unwrap();
    let inputs: Vec<_> = tensors().map(|tensor| spec(&tensor, true)).collect();
    assert_eq!(declared(&text_model, "input"), inputs);
    let outputs: Vec<_> = REPLIES.iter().map(|reply| spec(&reply.tensor, false)).collect();
    assert_eq!(declared(&text_model, "output"), outputs);
    let names: usize = TABLE.iter().map(|key| key.names().count()).sum();
    assert_eq!(inputs.len(), names);
    // Without a tokenizer the ids are the prompt, and there is no text.
    let ids = text(Plain, &generate(GenerateOptions::default())).unwrap();
    let expected =
        inputs.into_iter().filter(|(name, ..)| name != "text_input" && name != "messages");
    let expected = expected.map(|(name, data_type, dims, _)| {
        let optional = name != "input_ids";
        (name, data_type, dims, optional)
    });
    assert_eq!(declared(&ids, "input"), expected.collect::<Vec<_>>());
    assert_eq!(declared(&ids, "output"), outputs[1..]);
    assert_eq!(outputs[0].0, "text_output");
}

#[test]
fn every_version_can_generate() {
    for features in [Plain, Windowed, Linear, Speculative] {
        let text = text(features, &generate(with_text())).unwrap();
        assert!(text.contains("decoupled: true") && !text.contains("sequence_batching"), "{text}");
        // A draft head's programs choose the tokens themselves.
        assert_eq!(text.contains("temperature = 0.0"), features == Speculative, "{text}");
        assert_eq!(text.contains("temperature = 1.0"), features != Speculative, "{text}");
    }
}

#[test]
fn generation_needs_the_models_own_checkpoint() {
    let refused = |checkpoint, message: &str| {
        let options =
            GenerateOptions { checkpoint: Some(checkpoint), ..GenerateOptions::default() };
        let error = text(Plain, &generate(options)).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    };
    refused(checkpoint(VOCAB + 1, "{}"), "the tokenizer has 12 tokens, but 'Org/Small' knows 11");
    refused(
        checkpoint(VOCAB, "{\"eos_token_id\": 11}"),
        "the end token 11 is not below the 11 tokens that 'Org/Small' knows",
    );
    let open = |edit: fn(&std::path::Path)| {
        let folder = tempfile::tempdir().unwrap();
        common::checkpoint(folder.path(), VOCAB, "{}");
        edit(folder.path());
        Checkpoint::open(folder.path()).unwrap_err().to_string()
    };
    assert!(
        open(|f| std::fs::remove_file(f.join("tokenizer.json")).unwrap())
            .contains("has no tokenizer.json; give the checkpoint's directory")
    );
    assert!(
        open(|f| std::fs::write(f.join("tokenizer.json"), "{").unwrap()).contains("tokenizer.json")
    );
    assert!(
        open(|f| std::fs::write(f.join("generation_config.json"), "{").unwrap())
            .contains("generation_config.json: is not JSON")
    );
}

#[test]
fn drafts_need_an_artifact_that_verifies_them() {
    let scheduler =
        SchedulerOptions { speculation: Some(Speculation::PromptLookup), ..Default::default() };
    let options = generate(GenerateOptions { scheduler, ..with_text() });
    for (features, reason) in [
        (Plain, "it has no verify entries; export it with --verify-chunk"),
        (Linear, "its linear-attention state cannot go back"),
        (Speculative, "it has a draft head, whose own drafts"),
    ] {
        let error = text(features, &options).unwrap_err();
        assert!(matches!(error, Error::Speculation { .. }));
        assert!(error.to_string().contains(reason), "{error}");
    }
    let text = text(Verifying, &options).unwrap();
    assert!(text.contains("key: \"speculation\" value: { string_value: \"prompt_lookup\" }"));
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
    for (model, mode) in [
        ("reference_sequence", Mode::default()),
        ("window_sequence", Mode::default()),
        ("reference_decode", Mode::Client),
    ] {
        let folder = upstream.join("model_repository").join(model);
        let artifact = Artifact::open(&folder.join("1").join(MANIFEST_FILE)).unwrap();
        let gpu = InstanceGroup::Gpu(vec![0]);
        let expected = parse(&std::fs::read_to_string(folder.join("config.pbtxt")).unwrap());
        let name = model.parse().unwrap();
        let options = Options { mode: mode.clone(), instance_group: gpu };
        assert_eq!(parse(&config(&artifact, &name, &options).unwrap()), expected, "{model}");
        // With our default group, that field alone differs.
        let options = Options { mode, ..Options::default() };
        let ours = parse(&config(&artifact, &name, &options).unwrap());
        assert_eq!(ours.len(), expected.len());
        let different: Vec<_> = ours.iter().zip(&expected).filter(|(a, b)| a != b).collect();
        assert_eq!(different.len(), 1, "{model}");
        assert_eq!(different[0].0.0, "instance_group");
    }
}
