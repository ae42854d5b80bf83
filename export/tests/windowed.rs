//! Artifacts of models with sliding windows.

#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

mod common;

use std::path::Path;

use common::{export_to, tiny};
use tlaloc_artifact::signature::PoolRole;
use tlaloc_artifact::{Artifact, InputRole};
use tlaloc_export::checkpoint::Config;
use tlaloc_export::inspect::Summary;
use tlaloc_export::plan::{Plan, PlanOptions};
use tlaloc_export::spec::{GatedDeltaSpec, Mixer, ModelSpec};
use tlaloc_export::{Error, ExportOptions, family};

/// Gemma 3 with layers 0, 1 and 3 sliding over 8 positions; two rows of 64 positions in pages of 4.
fn export_gemma(out: &Path, plan: PlanOptions) -> Result<Artifact, Error> {
    let plan = PlanOptions { block_size: 4, ..plan };
    export_to(&tiny("gemma3"), out, ExportOptions { plan, ..ExportOptions::default() })?;
    Ok(Artifact::open(&out.join("tlaloc-serving.json"))?)
}

#[test]
fn sliding_layers_have_pools_of_rings() {
    let dir = tempfile::tempdir().unwrap();
    let artifact = export_gemma(&dir.path().join("a"), PlanOptions::default()).unwrap();
    let manifest = artifact.manifest();
    assert_eq!(manifest.schema_version, "tlaloc-serving-v3");
    let windowed = manifest.model.windowed_kv.as_ref().unwrap();
    assert_eq!((windowed.window, windowed.layers.as_slice()), (8, &[0, 1, 3][..]));
    // ceil(8 / 4) + 1 pages for each of two sequences, and page 0.
    assert_eq!((windowed.ring_pages, windowed.num_blocks), (3, 7));
    assert_eq!(windowed.kv_pool_dims, [7, 4, 2, 16]);
    assert_eq!(manifest.model.kv_pool_dims, [33, 4, 2, 16]);
    let pools: Vec<_> = artifact.pools().iter().map(|p| (p.name.as_str(), p.role)).collect();
    let (ring, whole) = (PoolRole::WindowKv, PoolRole::Kv);
    assert_eq!(
        pools,
        [
            ("keyCache0", ring),
            ("valueCache0", ring),
            ("keyCache1", ring),
            ("valueCache1", ring),
            ("keyCache2", whole),
            ("valueCache2", whole),
            ("keyCache3", ring),
            ("valueCache3", ring),
        ]
    );
    for (entry, written) in artifact.entries().iter().zip(&manifest.entries) {
        assert!(written.cache_key.ends_with("/kvf32/w8r3n7"), "{}", written.cache_key);
        let roles: Vec<_> = entry.inputs.iter().map(|input| input.role).collect();
        assert_eq!(roles[4], InputRole::SlotMapping);
        assert_eq!(roles[5..7], [InputRole::WindowBlockTables, InputRole::WindowSlotMapping]);
    }
    // What a ring of 12 has beside the 7 that come before a token.
    let summary = Summary(&artifact).to_string();
    let line =
        "8 tokens: 6 pages to use, 3 a sequence; calls of up to 5 tokens after the first window";
    assert!(summary.contains(line), "{summary}");
    // A longer ring, where calls are known to be of so many tokens: ceil((7 + 16) / 4) pages.
    let chunks = PlanOptions { prefill_chunks: vec![16], ..PlanOptions::default() };
    let artifact = export_gemma(&dir.path().join("b"), chunks).unwrap();
    let windowed = artifact.windowed().unwrap();
    assert_eq!((windowed.ring_pages, windowed.num_blocks), (6, 13));
    // A verify call may be the longest: ceil((7 + 18) / 4) pages.
    for (prefill_chunks, drafts, ring) in [(vec![16], 17, 7), (vec![], 17, 7), (vec![16], 15, 6)] {
        let verify_chunk = Some(drafts);
        let plan = PlanOptions { prefill_chunks, verify_chunk, ..PlanOptions::default() };
        let artifact = export_gemma(&dir.path().join("c"), plan).unwrap();
        assert_eq!(artifact.windowed().unwrap().ring_pages, ring, "{drafts}");
    }
}

#[test]
fn windowed_pools_can_be_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let whole = PlanOptions { windowed_kv: false, ..PlanOptions::default() };
    let artifact = export_gemma(&dir.path().join("a"), whole).unwrap();
    assert_eq!(artifact.manifest().schema_version, "tlaloc-serving-v2");
    assert!(artifact.windowed().is_none());
    assert!(artifact.pools().iter().all(|pool| pool.role == PoolRole::Kv));
    assert!(!artifact.manifest().entries[0].cache_key.contains("/w8"));

    let out = dir.path().join("b");
    export_to(&tiny("llama"), &out, ExportOptions::default()).unwrap();
    let llama = Artifact::open(&out.join("tlaloc-serving.json")).unwrap();
    assert!(llama.windowed().is_none(), "no layer slides");
}

/// The format has no artifact with both windowed pools and state.
#[test]
fn beside_linear_attention_windows_are_over_whole_histories() {
    let (_, mut spec) = family::read(Config::open(&tiny("gemma3")).unwrap()).unwrap();
    let windowed =
        |spec: &ModelSpec| Plan::new(&PlanOptions::default(), spec).unwrap().pools.windowed;
    assert!(windowed(&spec).is_some());
    spec.layers[2].mixer = Mixer::GatedDelta(GatedDeltaSpec {
        key_heads: 2,
        value_heads: 4,
        key_dim: 8,
        value_dim: 8,
        kernel: 4,
    });
    assert!(windowed(&spec).is_none());
}

#[test]
fn pages_for_less_than_one_ring_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let few = |blocks| PlanOptions { num_blocks: Some(blocks), ..PlanOptions::default() };
    let error = export_gemma(&dir.path().join("a"), few(3)).unwrap_err().to_string();
    for part in ["--num-blocks: is 3;", "window of 8", "ring of 3 pages", "--windowed-kv false"] {
        assert!(error.contains(part), "{error}");
    }
    assert_eq!(
        export_gemma(&dir.path().join("a"), few(4)).unwrap().windowed().unwrap().num_blocks,
        4
    );
    let whole = PlanOptions { windowed_kv: false, ..few(3) };
    export_gemma(&dir.path().join("b"), whole).unwrap();
}
