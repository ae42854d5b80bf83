//! Artifacts written by the crate: their bytes, and what a failure leaves.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;

use common::Features::{self, Linear, Plain, Speculative, Windowed};
use common::{describe, read_json, small, tensor, weights};
use serde_json::{Value, json};
use tlaloc_artifact::manifest::{MANIFEST_FILE, Manifest};
use tlaloc_artifact::signature::Signature;
use tlaloc_artifact::write::{ArtifactWriter, Description, EntryDescription};
use tlaloc_artifact::{Artifact, DType, EntryKind, Error, Input, InputRole, Output, entry_id};

/// Every file below `root` with its bytes, by relative path.
fn tree(root: &Path) -> BTreeMap<String, Vec<u8>> {
    common::files(root, "")
        .into_iter()
        .map(|path| {
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            (name, fs::read(&path).unwrap())
        })
        .collect()
}

/// The names in `folder`, so that leftovers show.
fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|item| item.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn entry_ids() {
    // The examples of artifact format §6.
    for (kind, batch, context, tokens, id) in [
        (EntryKind::Decode, 4, 64, 1, "decode_b4_c64"),
        (EntryKind::Prefill, 1, 2048, 2048, "prefill_b1_c2048"),
        (EntryKind::Prefill, 1, 32768, 2048, "prefill_b1_c32768_t2048"),
        (EntryKind::Decode, 2, 4, 3, "decode_b2_c4"),
    ] {
        assert_eq!(entry_id(kind, batch, context, tokens, 1), id);
    }
    assert_eq!(entry_id(EntryKind::Prefill, 1, 64, 9, 9), "prefill_b1_c64_t9_verify");
}

#[test]
fn what_is_written_can_be_opened_in_every_version() {
    for (features, version) in
        [(Plain, "v2"), (Windowed, "v3"), (Linear, "v4"), (Speculative, "v5")]
    {
        let (_dir, path) = small(features);
        let artifact = Artifact::open(&path).unwrap();
        assert_eq!(artifact.version().manifest_name(), format!("tlaloc-serving-{version}"));
        for entry in artifact.entries() {
            artifact.read_body(entry).unwrap();
        }
        for slot in artifact.weights() {
            slot.open().unwrap();
        }
    }
}

/// Files by the layout of artifact format §1; ids of program files carry `_t` (§14 note).
#[test]
fn the_layout_is_that_of_the_format() {
    let (_dir, path) = small(Plain);
    let root = path.parent().unwrap();
    let files: Vec<_> =
        tree(root).into_keys().filter(|name| !name.starts_with("bodies/")).collect();
    assert_eq!(
        files,
        [
            "programs/decode_b1_c4.json",
            "programs/decode_b2_c4.json",
            "programs/prefill_b1_c4.json",
            "programs/prefill_b1_c4_t2.json",
            "tlaloc-serving.json",
            "weights/0000_embedTokens.bin",
            "weights/0001_norm.bin",
        ]
    );
    let manifest = read_json(&path);
    assert_eq!(
        manifest["weights"]["table"][1],
        json!({
            "name": "norm", "path": "weights/0001_norm.bin", "dtype": "bf16", "dims": [4],
            "byteLength": 8,
            // printf '\0\1\2\3\4\5\6\7' | sha256sum
            "sha256": "8a851ff82ee7048ad09ec3847f1ddf44944104d2cbd17ef4e3db22c6785a0d45",
        })
    );
    let entry = &manifest["entries"][3];
    assert_eq!(entry["programPath"], "programs/prefill_b1_c4_t2.json");
    let hash = manifest["modelHash"].as_str().unwrap();
    assert_eq!(
        entry["cacheKey"].as_str().unwrap(),
        format!("tlaloc-decode-v1/{hash}/prefill/b1/c4/t2/dtf32/kvf32")
    );
    // Compact, on one line.
    assert!(!fs::read_to_string(&path).unwrap().contains(['\n', ' ']));
}

/// Segments of artifact format §15 for the features of each version.
#[test]
fn cache_keys_name_the_features() {
    for (features, suffix) in
        [(Windowed, "/w3r2n5"), (Linear, "/ls1n4"), (Speculative, "/ls1n4/mtp2")]
    {
        let (_dir, path) = small(features);
        let manifest = read_json(&path);
        let key = manifest["entries"][0]["cacheKey"].as_str().unwrap();
        assert!(key.ends_with(&format!("/dtf32/kvf32{suffix}")), "{key}");
    }
}

#[test]
fn equal_calls_write_equal_bytes() {
    let (_a, a) = small(Windowed);
    let (_b, b) = small(Windowed);
    assert_eq!(tree(a.parent().unwrap()), tree(b.parent().unwrap()));
    let (_c, c) = small(Plain);
    assert_ne!(tree(a.parent().unwrap()), tree(c.parent().unwrap()), "the control");
}

/// Entries of equal text share a body file.
#[test]
fn equal_bodies_are_stored_once() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = ArtifactWriter::create(&dir.path().join("a")).unwrap();
    let first = writer.body("module {}").unwrap();
    assert_eq!(writer.body("module {}").unwrap(), first);
    assert_ne!(writer.body("module { }").unwrap(), first);
    // printf 'module {}' | sha256sum
    assert_eq!(first, "fd224b3138074712f643d5a52cd7ba0603dbb7a4f8a462a2f1cd8690e8b9286a");
}

/// Runs `build` on a writer for `out`, expecting a refusal, and checks that `out` stayed as it was.
fn refused(build: impl Fn(ArtifactWriter) -> Result<(), Error>) -> String {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("small");
    common::write(&out, Plain, true).unwrap();
    let before = tree(&out);
    let error = build(ArtifactWriter::create(&out).unwrap()).unwrap_err();
    assert_eq!(tree(&out), before);
    assert_eq!(names(dir.path()), ["small"]);
    error.to_string()
}

fn with_weights(writer: &mut ArtifactWriter) {
    for (name, tensor) in weights() {
        let mut sink = writer.weight(&name, &tensor).unwrap();
        sink.write_all(&vec![0; tensor.bytes()]).unwrap();
        sink.finish().unwrap();
    }
}

/// As [`refused`], with `edit` of an otherwise good description.
fn refused_description(edit: impl Fn(&mut Description)) -> String {
    refused(|mut writer| {
        with_weights(&mut writer);
        let mut description = describe(&mut writer, Plain, true)?;
        edit(&mut description);
        writer.finish(description)
    })
}

#[test]
fn what_makes_no_artifact_is_refused_and_leaves_the_old_one() {
    let contains = |text: String, part: &str| assert!(text.contains(part), "{part}\n{text}");
    contains(
        refused(|mut writer| {
            let mut sink = writer.weight("norm", &tensor(DType::F32, &[4])).unwrap();
            sink.write_all(&[0; 15]).unwrap();
            sink.finish()
        }),
        "weight 'norm' is tensor<4xf32>, which takes 16 bytes, but 15 were written",
    );
    contains(
        refused(|mut writer| writer.weight("a/b", &tensor(DType::F32, &[4])).map(drop)),
        "weight name 'a/b' must be letters",
    );
    contains(
        refused(|mut writer| {
            with_weights(&mut writer);
            writer.weight("norm", &tensor(DType::F32, &[4])).map(drop)
        }),
        "two weights are named 'norm'",
    );
    contains(
        refused(|mut writer| {
            let description = describe(&mut writer, Plain, true)?;
            writer.finish(description)
        }),
        "entry decode_b1_c4 has weight slots [\"embedTokens\", \"norm\"], but the weights written \
         are []",
    );
    contains(refused_description(|d| d.entries[0].body = "00".into()), "decode_b1_c4 has no body");
    contains(refused_description(|d| d.model_name = " ".into()), "must not be blank");
    contains(
        refused_description(|d| d.entries.retain(|e| e.kind == EntryKind::Prefill)),
        "no entry is a decode entry",
    );
    contains(
        refused_description(|d| d.entries.push(d.entries[0].clone())),
        "two entries have the id decode_b1_c4",
    );
    contains(
        refused_description(|d| d.entries[0].body = d.entries[1].body.clone()),
        "argument 0 ('tokenIds') of @main is tensor<2x1xi32>",
    );
    contains(refused_description(|d| d.model.num_blocks = 1), "model.numBlocks is 1");
    // The control: unedited, it is written.
    let dir = tempfile::tempdir().unwrap();
    let mut writer = ArtifactWriter::create(&dir.path().join("a")).unwrap();
    with_weights(&mut writer);
    let description = describe(&mut writer, Plain, true).unwrap();
    writer.finish(description).unwrap();
}

#[test]
fn an_artifact_is_replaced_whole() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("nested/small");
    common::write(&out, Windowed, true).unwrap();
    fs::write(out.join("left-over"), "x").unwrap();
    common::write(&out, Plain, true).unwrap();
    let (_fresh, fresh) = small(Plain);
    assert_eq!(tree(&out), tree(fresh.parent().unwrap()));
    assert_eq!(names(out.parent().unwrap()), ["small"]);
}

#[test]
fn anything_else_is_not_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let occupied = dir.path().join("folder");
    fs::create_dir(&occupied).unwrap();
    // Empty: fine, and dropping the writer leaves it.
    drop(ArtifactWriter::create(&occupied).unwrap());
    assert!(tree(&occupied).is_empty());
    fs::write(occupied.join("thesis.txt"), "x").unwrap();
    let error = ArtifactWriter::create(&occupied).unwrap_err();
    assert!(error.to_string().contains("holds something else"), "{error}");
    let file = dir.path().join("file");
    fs::write(&file, "x").unwrap();
    let error = ArtifactWriter::create(&file).unwrap_err();
    assert!(error.to_string().contains("is not a directory"), "{error}");
    let error = ArtifactWriter::create(Path::new("/")).unwrap_err();
    assert!(error.to_string().contains("is no directory that can be replaced"), "{error}");
    assert_eq!(names(dir.path()), ["file", "folder"]);
}

/// Directories are as readable as any other (a server may run as another user).
#[cfg(unix)]
#[test]
fn directories_have_usual_permissions() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    common::write(&dir.path().join("artifact"), Plain, true).unwrap();
    fs::create_dir(dir.path().join("usual")).unwrap();
    let mode = |name: &str| fs::metadata(dir.path().join(name)).unwrap().permissions().mode();
    assert_eq!(mode("artifact"), mode("usual"));
}

/// The manifests of the original exporter come out byte for byte.
#[test]
fn upstream_manifests_reserialise_to_their_bytes() {
    let Some(upstream) = common::upstream("upstream_manifests_reserialise_to_their_bytes") else {
        return;
    };
    let mut found = 0;
    for path in common::files(&upstream, ".json") {
        let name = path.file_name().unwrap().to_str().unwrap();
        if name.starts_with("tlaloc-serving") {
            found += 1;
            let bytes = fs::read(&path).unwrap();
            let manifest: Manifest = serde_json::from_slice(&bytes).unwrap();
            assert!(serde_json::to_vec(&manifest).unwrap() == bytes, "{}", path.display());
            let opened = Artifact::open(&path);
            if name.contains("short-ring") {
                let error = opened.unwrap_err().to_string();
                let needle = "so a decode step would read a position already written over";
                assert!(error.contains(needle), "{error}");
            } else {
                opened.unwrap();
            }
        }
    }
    assert_eq!(found, 5);
}

/// The original exporter's artifacts, taken apart and written again: manifest and programs come out
/// byte for byte. Their weights are absent; their hashes stand in the table.
#[test]
fn upstream_artifacts_are_written_the_same() {
    let Some(upstream) = common::upstream("upstream_artifacts_are_written_the_same") else {
        return;
    };
    for model in ["reference_sequence", "reference_decode"] {
        let source = upstream.join("model_repository").join(model).join("1");
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("again");
        let artifact = Artifact::open(&source.join(MANIFEST_FILE)).unwrap();
        let mut writer = ArtifactWriter::create(&out).unwrap();
        let mut entries = Vec::new();
        for entry in artifact.entries() {
            let text = fs::read_to_string(&entry.body).unwrap();
            let signature = Signature {
                inputs: entry.inputs.clone(),
                outputs: entry.outputs.clone(),
                donations: entry.donations.clone(),
            };
            entries.push(EntryDescription {
                kind: entry.kind,
                batch: entry.batch,
                context: entry.context,
                tokens: entry.tokens,
                columns: entry.columns,
                body: writer.body(&text).unwrap(),
                signature,
            });
        }
        let manifest = artifact.manifest();
        let description = Description {
            model_name: manifest.model_name.clone(),
            model_hash: manifest.model_hash.clone(),
            model: manifest.model.clone(),
            ladder: manifest.bucket_ladder.clone(),
            entries,
        };
        writer.finish(description).unwrap();
        assert_eq!(tree(&out), tree(&source), "{model}");
    }
}

/// Signature slots in the order of artifact format §7, against the window model's own.
#[test]
fn upstream_signatures_are_built_the_same() {
    use tlaloc_artifact::signature::Geometry;
    let Some(upstream) = common::upstream("upstream_signatures_are_built_the_same") else { return };
    for model in ["reference_sequence", "window_sequence"] {
        let path = upstream.join("model_repository").join(model).join("1").join(MANIFEST_FILE);
        let artifact = Artifact::open(&path).unwrap();
        for entry in artifact.entries() {
            let geometry = Geometry {
                batch: entry.batch,
                tokens: entry.tokens,
                columns: entry.columns,
                logits_columns: entry.logits_columns,
                vocab_size: artifact.vocab_size(),
                draft_tokens: 0,
                windowed: artifact.windowed().is_some(),
                linear_state: false,
            };
            let weights: Vec<_> =
                artifact.weights().iter().map(|w| (w.name.clone(), w.tensor.clone())).collect();
            let built = Signature::new(&geometry, artifact.pools(), &weights).unwrap();
            assert_eq!(built.inputs, entry.inputs, "{}", entry.id);
            assert_eq!(built.outputs, entry.outputs, "{}", entry.id);
            assert_eq!(built.donations, entry.donations, "{}", entry.id);
        }
    }
}

/// Artifact format §7.1 and §7.2 for a model with every input and output.
#[test]
fn signature_order_of_a_speculative_model() {
    let (_dir, path) = small(Features::Speculative);
    let artifact = Artifact::open(&path).unwrap();
    let entry = &artifact.entries()[1];
    let named = |slots: Vec<(&str, String)>| {
        slots.into_iter().map(|(name, ty)| format!("{name}: {ty}")).collect::<Vec<_>>()
    };
    let inputs = |input: &Input| (input.role != InputRole::Weight).then(|| input.clone());
    let inputs: Vec<Input> = entry.inputs.iter().filter_map(inputs).collect();
    assert_eq!(
        named(inputs.iter().map(|i| (i.name.as_str(), i.tensor.to_string())).collect()),
        [
            "tokenIds: tensor<2x3xi32>",
            "positions: tensor<2x3xi32>",
            "blockTables: tensor<2x2xi32>",
            "seqLens: tensor<2xi32>",
            "slotMapping: tensor<6xi32>",
            "stateSlots: tensor<2xi32>",
            "stateWriteSlots: tensor<2x3xi32>",
            "convState0: tensor<4x3x8xf32>",
            "recurrentState0: tensor<4x2x2x2xf32>",
            "keyCache1: tensor<6x2x2x2xf32>",
            "valueCache1: tensor<6x2x2x2xf32>",
            "mtpKeyCache: tensor<6x2x2x2xf32>",
            "mtpValueCache: tensor<6x2x2x2xf32>",
            "mtpHidden: tensor<4x1x1x4xf32>",
        ]
    );
    let outputs: &[Output] = &entry.outputs;
    assert_eq!(
        named(outputs.iter().map(|o| (o.name.as_str(), o.tensor.to_string())).collect())[..10],
        [
            "nextTokens: tensor<2x3xi32>",
            "accepted: tensor<2xi32>",
            "drafts: tensor<2x2xi32>",
            "nextTokenIds: tensor<2x3xi32>",
            "nextPositions: tensor<2x3xi32>",
            "nextSeqLens: tensor<2xi32>",
            "nextSlotMapping: tensor<6xi32>",
            "nextStateSlots: tensor<2xi32>",
            "nextStateWriteSlots: tensor<2x3xi32>",
            "convState0Out: tensor<4x3x8xf32>",
        ]
    );
    assert_eq!(entry.donations[0], (7, 9));
}

/// A value of the wrong kind anywhere in a manifest is refused or harmless, and never a panic.
mod hostile {
    use proptest::prelude::*;

    use super::*;

    fn values() -> impl Strategy<Value = Value> {
        prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            ".{0,8}".prop_map(Value::from),
            prop::collection::vec(any::<i32>(), 0..4).prop_map(Value::from),
            Just(json!({})),
        ]
    }

    /// Every place in `json`, as pointers.
    fn pointers(json: &Value, at: &str, found: &mut Vec<String>) {
        found.push(at.to_owned());
        match json {
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    pointers(item, &format!("{at}/{index}"), found);
                }
            }
            Value::Object(items) => {
                for (key, item) in items {
                    pointers(item, &format!("{at}/{key}"), found);
                }
            }
            _ => {}
        }
    }

    proptest! {
        #[test]
        fn no_manifest_panics(
            features in prop::sample::select(vec![Plain, Windowed, Linear, Speculative]),
            edits in prop::collection::vec((any::<prop::sample::Index>(), values()), 1..4),
        ) {
            thread_local! {
                static SMALL: [(tempfile::TempDir, std::path::PathBuf); 4] =
                    [Plain, Windowed, Linear, Speculative].map(small);
            }
            SMALL.with(|all| {
                let (_, path) = &all[features as usize];
                let mut manifest = read_json(path);
                for (place, value) in &edits {
                    let mut places = Vec::new();
                    pointers(&manifest, "", &mut places);
                    *manifest.pointer_mut(place.get::<String>(&places)).unwrap() = value.clone();
                }
                if let Ok(artifact) = Artifact::open(&common::beside(path, &manifest)) {
                    for entry in artifact.entries() {
                        let _ = artifact.read_body(entry);
                    }
                    for slot in artifact.weights() {
                        let _ = slot.open();
                    }
                }
            });
        }

        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join(MANIFEST_FILE);
            fs::write(&path, bytes).unwrap();
            prop_assert!(Artifact::open(&path).is_err());
        }
    }
}
