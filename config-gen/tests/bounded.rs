//! Models of bounded artifacts, made of the examples in this tree.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use config_gen::{Error, InstanceGroup, ModelName, bounded_config};
use serde_json::{Value, json};
use tlaloc_artifact::bounded::BoundedArtifact;

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../model-repository").join(name)
}

fn config_gen(arguments: &[&Path]) -> String {
    let done = Command::new(env!("CARGO_BIN_EXE_config-gen")).args(arguments).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

#[test]
fn a_folder_or_a_manifest_gives_the_configuration() {
    let written = fs::read_to_string(example("bounded_mean").join("config.pbtxt")).unwrap();
    let folder = example("bounded_mean").join("1");
    for artifact in [folder.join("tlaloc-bounded.json"), folder] {
        let printed = config_gen(&[Path::new("--name"), Path::new("bounded_mean"), &artifact]);
        assert_eq!(printed, written);
        // Without a name, the program's.
        assert!(config_gen(&[&artifact]).contains("name: \"masked_mean\"\n"));
    }
}

#[test]
fn a_model_is_written_whole() {
    let dir = tempfile::tempdir().unwrap();
    let artifact = example("bounded_softmax").join("1");
    config_gen(&[&artifact, Path::new("--repository"), dir.path()]);
    let model = dir.path().join("masked_softmax");
    let read = BoundedArtifact::open(&model.join("1/tlaloc-bounded.json")).unwrap();
    assert_eq!(read.entries.len(), 3);
    for entry in &read.entries {
        read.read_body(entry).unwrap();
        assert!(entry.program.is_file());
    }
    assert!(model.join("config.pbtxt").is_file());
}

/// The manifest of the mean, changed.
fn changed(change: impl FnOnce(&mut Value)) -> Result<String, Error> {
    let path = example("bounded_mean").join("1/tlaloc-bounded.json");
    let mut manifest: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    change(&mut manifest);
    let artifact = BoundedArtifact::parse(&path, manifest.to_string().as_bytes()).unwrap();
    let name: ModelName = "m".parse().unwrap();
    bounded_config(&artifact, &name, &InstanceGroup::Gpu(vec![0]))
}

#[test]
fn tensors_and_instances_are_those_asked_for() {
    let text = changed(|m| {
        let ids = json!({"name": "ids", "role": "DATA", "dtype": "i32", "axes": [{"bound": "ExampleMaxSeq"}]});
        m["inputs"].as_array_mut().unwrap().push(ids);
    });
    let text = text.unwrap();
    assert!(text.contains("  { name: \"ids\" data_type: TYPE_INT32 dims: [ -1 ] }\n"), "{text}");
    assert!(text.contains("kind: KIND_GPU count: 1 gpus: [ 0 ]"), "{text}");
    assert!(!text.contains("validMask"), "{text}");
}

#[test]
fn what_triton_or_the_backend_cannot_serve_is_refused() {
    for (change, needle) in [
        (
            (|m| m["outputs"][0]["axes"] = json!([])) as fn(&mut Value),
            "'masked_mean' cannot be served: 'y0' is a scalar",
        ),
        (|m| m["outputs"][0]["dtype"] = json!("i32"), "its output 'y0' is i32, not f32"),
        (
            |m| {
                let mut output = m["outputs"][0].clone();
                output["name"] = json!("y1");
                m["outputs"].as_array_mut().unwrap().push(output);
            },
            "it has 2 outputs, not one",
        ),
    ] {
        let error = changed(change).unwrap_err().to_string();
        assert!(error.contains(needle), "expected {needle:?} in {error:?}");
    }
}
