//! The model repository of examples.

#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

mod common;
mod support;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use common::tree;
use support::{Array, client, run};
use tlaloc_artifact::bounded::{BoundedArtifact, BoundedEntry, InputValue};
use tlaloc_export::examples;

/// The repository in this tree.
fn committed() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../model-repository")
}

/// Names of files that differ.
fn changed(a: &Path, b: &Path) -> Vec<PathBuf> {
    let (a, b) = (tree(a), tree(b));
    let names: BTreeSet<_> = a.keys().chain(b.keys()).collect();
    names.into_iter().filter(|name| a.get(*name) != b.get(*name)).cloned().collect()
}

#[test]
fn the_repository_in_this_tree_is_what_the_command_writes() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("models");
    examples::write(&out).unwrap();
    let changed = changed(&out, &committed());
    assert!(
        changed.is_empty(),
        "write it anew with: tlaloc-export examples --out model-repository; {changed:?}"
    );
    // Nothing but the repository is left, and one that stands there is replaced.
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    fs::write(out.join("buckets/1/len4.mlir"), "").unwrap();
    examples::write(&out).unwrap();
    assert!(tree(&out) == tree(&committed()));
}

#[test]
fn every_model_has_its_line() {
    let readme = fs::read_to_string(committed().join("README.md")).unwrap();
    let mut models = 0;
    for entry in fs::read_dir(committed()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name != "README.md" {
            assert!(readme.contains(&format!("\n| `{name}` | ")), "{name}");
            models += 1;
        }
    }
    assert_eq!(readme.matches("\n| `").count(), models);
}

#[test]
fn a_folder_with_other_models_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("mine")).unwrap();
    let error = examples::write(dir.path()).unwrap_err().to_string();
    assert!(error.contains("holds something else"), "{error}");
    assert!(dir.path().join("mine").is_dir());
}

/// What an entry computes of `rows` real rows of x.
fn computed(artifact: &BoundedArtifact, entry: &BoundedEntry, x: &[f32], rows: usize) -> Vec<f32> {
    let client = client().unwrap();
    let program = client.compile(&artifact.read_body(entry).unwrap()).unwrap();
    let bucket = entry.sizes[0];
    let arguments: Vec<_> = artifact
        .inputs
        .iter()
        .zip(&entry.inputs)
        .map(|(input, tensor)| {
            let mut values = vec![artifact.padding as f32; tensor.elements()];
            match input.value {
                InputValue::Data => {
                    let real = rows * tensor.elements() / bucket;
                    values[..real].copy_from_slice(&x[..real]);
                }
                InputValue::ValidMask(_) => {
                    values = (0..bucket).map(|i| f32::from(u8::from(i < rows))).collect();
                }
                InputValue::ValidLength(_) => values = vec![rows as f32],
            }
            Array::f32(tensor.dims(), &values)
        })
        .collect();
    run(&program, &arguments)[0].f32s()
}

/// The difference that the manifests of bounded examples record.
#[test]
fn padding_changes_no_more_than_the_manifests_say() {
    if client().is_none() {
        return;
    }
    for name in ["bounded_mean", "bounded_softmax"] {
        let path = committed().join(name).join("1/tlaloc-bounded.json");
        let written: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        let recorded = written["paddingCheck"]["maxDifference"].as_f64().unwrap();
        let artifact = BoundedArtifact::open(&path).unwrap();
        let x: Vec<f32> = (0..64).map(|i| ((i * 37) % 23) as f32 * 0.37 - 4.0).collect();
        // Each real size in its own bucket against the same size in every larger one, where a
        // bucket's size alone needs no padding.
        for pair in artifact.entries.windows(2) {
            let rows = pair[0].sizes[0];
            let exact = computed(&artifact, &pair[0], &x, rows);
            let padded = computed(&artifact, &pair[1], &x, rows);
            let largest = exact.iter().fold(1.0_f32, |most, y| most.max(y.abs()));
            let difference = exact
                .iter()
                .zip(&padded)
                .map(|(a, b)| f64::from((a - b).abs() / largest))
                .fold(0.0, f64::max);
            assert!(difference <= recorded, "{name}: {difference} of {rows} rows");
            // Control: one row fewer is seen.
            let fewer = computed(&artifact, &pair[1], &x, rows - 1);
            let changes =
                exact.iter().zip(&fewer).any(|(a, b)| f64::from((a - b).abs()) > recorded);
            assert!(changes, "{name}");
        }
    }
}
