//! Manifests and programs of artifacts.

use std::path::Path;

use tlaloc_artifact::bounded::BoundedArtifact;
use tlaloc_artifact::manifest::Manifest;
use tlaloc_artifact::stablehlo::{Module, prepare};
use tlaloc_artifact::{Artifact, EntryKind};
use tlaloc_engine::Geometry;

use crate::example;

/// `tlaloc-serving.json`. What passes keeps what readers rely on, and is the same when it is written
/// and read again.
pub fn serving_manifest(data: &[u8]) {
    let path = Path::new("/artifact/tlaloc-serving.json");
    let Ok(artifact) = Artifact::parse(path, data) else { return };
    assert!(artifact.entries().iter().any(|entry| entry.kind == EntryKind::Decode));
    assert!(!artifact.pools().is_empty() && artifact.num_blocks() >= 2);
    for entry in artifact.entries() {
        assert!(entry.batch > 0 && entry.tokens > 0 && entry.body.starts_with(artifact.root()));
        assert_eq!(entry.donations.len(), artifact.pools().len());
    }
    for weight in artifact.weights() {
        assert!(weight.file.starts_with(artifact.root()));
    }
    let geometry = Geometry::of(&artifact);
    assert!(geometry.max_context() > 0 && geometry.block_size() > 0);
    let written = serde_json::to_vec(artifact.manifest()).unwrap();
    let again = Artifact::parse(path, &written).unwrap();
    assert_eq!(again.manifest(), artifact.manifest());
    assert_eq!(again.entries(), artifact.entries());
}

/// `tlaloc-bounded.json`.
pub fn bounded_manifest(data: &[u8]) {
    let path = Path::new("/artifact/tlaloc-bounded.json");
    let Ok(artifact) = BoundedArtifact::parse(path, data) else { return };
    let largest: Vec<usize> = artifact.bounds.iter().map(|bound| bound.max()).collect();
    for bound in &artifact.bounds {
        assert!(bound.buckets().is_sorted() && bound.bucket(1).is_some());
        assert_eq!(bound.bucket(bound.max() + 1), None);
    }
    assert!(artifact.entry(&largest).is_some(), "no program holds the largest sizes");
    for (index, entry) in artifact.entries.iter().enumerate() {
        assert_eq!(artifact.entry(&entry.sizes), Some(index));
        assert!(entry.body.starts_with(artifact.root()));
        for (input, tensor) in artifact.inputs.iter().zip(&entry.inputs) {
            assert_eq!(input.tensor.dims(&entry.sizes), tensor.dims());
        }
    }
}

/// The text of a program: its functions are found, and found again where another one is made `@main`.
pub fn entry_signature(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(module) = Module::parse(text) else { return };
    for function in &module.functions {
        for value in function.arguments.iter().chain(&function.results) {
            let _ = value.ty.tensor().map(|tensor| (tensor.bytes(), tensor.to_string()));
        }
    }
    if let Some(function) = module.functions.first() {
        let prepared = prepare(text, &function.name);
        let found = Module::parse(&prepared).unwrap();
        let main = found.function("main").unwrap();
        assert_eq!(main.arguments.len(), function.arguments.len(), "{prepared}");
        assert_eq!(main.results.len(), function.results.len(), "{prepared}");
    }
}

pub(crate) fn serving_manifest_seeds() -> Vec<Vec<u8>> {
    let written = ["reference_sequence", "window_sequence_full", "window_sequence_chunked"]
        .map(|name| example(&format!("{name}/1/tlaloc-serving.json")));
    // One entry of each kind is enough to change; the others only take time.
    let mut seeds: Vec<_> = written.iter().map(|manifest| with_few_entries(manifest)).collect();
    seeds.extend(written.into_iter().next());
    seeds
}

fn with_few_entries(manifest: &[u8]) -> Vec<u8> {
    let mut manifest: Manifest = serde_json::from_slice(manifest).unwrap();
    let mut kinds = Vec::new();
    manifest.entries.retain(|entry| {
        let first = !kinds.contains(&entry.kind);
        kinds.push(entry.kind.clone());
        first
    });
    serde_json::to_vec(&manifest).unwrap()
}

pub(crate) fn bounded_manifest_seeds() -> Vec<Vec<u8>> {
    ["bounded_mean", "bounded_softmax"]
        .map(|name| example(&format!("{name}/1/tlaloc-bounded.json")))
        .to_vec()
}

pub(crate) fn entry_signature_seeds() -> Vec<Vec<u8>> {
    let spellings = [
        "module @m attributes {a = \"}\"} { func.func private @f(%a: tensor<2x?xf32> {x.y = 1 : i32, \
         tf.aliasing_output = 0 : i32} loc(\"a\")) -> (tensor<bf16> {z}, !t.token<i32>) { return } \
         func.func nested @\"g h\"() { func.call @f() : () -> () return } }",
        "// @main\nfunc.func public @main(%0: tensor<4xi8, #e<[1]>>, %1: (i32) -> (f32)) -> tensor<*xf8E4M3FN>",
    ];
    let files = ["int64_bool/1/model.mlir", "dtypes/1/model.mlir", "buckets/1/len4.mlir"];
    let spelled = spellings.into_iter().map(|text| text.as_bytes().to_vec());
    spelled.chain(files.into_iter().map(example)).collect()
}
