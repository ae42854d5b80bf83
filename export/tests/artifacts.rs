//! What an export writes.

#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

mod common;

use std::fs;
use std::path::Path;
use std::process::Command;

use common::{Checkpoint, export_to, tiny, tiny_names, tree};
use safetensors::Dtype;
use tlaloc_artifact::Artifact;
use tlaloc_export::ExportOptions;
use tlaloc_export::inspect::Summary;
use tlaloc_export::plan::{KvDType, PlanOptions};
use tlaloc_export::quantise::WeightQuant;
use tlaloc_export::slots::{WeightDType, WeightLayout};

fn open(dir: &Path) -> Artifact {
    Artifact::open(&dir.join("tlaloc-serving.json")).unwrap()
}

fn weight(dir: &Path, name: &str) -> (String, Vec<u8>) {
    let artifact = open(dir);
    let slot = artifact.weights().iter().find(|slot| slot.name == name).unwrap();
    (slot.tensor.to_string(), fs::read(&slot.file).unwrap())
}

fn bytes(values: impl IntoIterator<Item = f32>) -> Vec<u8> {
    values.into_iter().flat_map(f32::to_le_bytes).collect()
}

#[test]
fn two_exports_are_byte_identical() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b, other) = (dir.path().join("a"), dir.path().join("b"), dir.path().join("other"));
    export_to(&tiny("llama"), &a, ExportOptions::default()).unwrap();
    export_to(&tiny("llama"), &b, ExportOptions::default()).unwrap();
    assert!(tree(&a) == tree(&b));
    export_to(&tiny("llama"), &b, ExportOptions::default()).unwrap();
    assert!(tree(&a) == tree(&b), "written over an artifact");
    export_to(&tiny("llama3"), &other, ExportOptions::default()).unwrap();
    assert!(tree(&a) != tree(&other), "control");
}

#[test]
fn old_and_new_config_layouts_export_to_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let has_legacy = |name: &String| tiny(name).join("config.legacy.json").exists();
    let names: Vec<_> = tiny_names().into_iter().filter(has_legacy).collect();
    assert_eq!(names.len(), 12, "{names:?}");
    for name in &names {
        let legacy = dir.path().join(name).join("legacy");
        fs::create_dir_all(&legacy).unwrap();
        let copy = |from: &str, to: &str| fs::copy(tiny(name).join(from), legacy.join(to)).unwrap();
        copy("config.legacy.json", "config.json");
        copy("model.safetensors", "model.safetensors");
        let (new, old) = (dir.path().join(name).join("new"), dir.path().join(name).join("old"));
        export_to(&tiny(name), &new, ExportOptions::default()).unwrap();
        export_to(&legacy, &old, ExportOptions::default()).unwrap();
        assert!(tree(&new) == tree(&old), "{name}");
    }
}

#[test]
fn shards_export_to_the_same_as_one_file() {
    let dir = tempfile::tempdir().unwrap();
    let checkpoint = Checkpoint::tiny("llama");
    let sharded = dir.path().join("sharded");
    checkpoint.write_config(&sharded);
    let shard = |name: &str| format!("model-0000{}-of-00003.safetensors", 1 + name.len() % 3);
    for i in 0..3 {
        let file = format!("model-0000{}-of-00003.safetensors", 1 + i);
        checkpoint.write_tensors(&sharded.join(&file), |name| shard(name) == file);
    }
    let map: serde_json::Map<_, _> =
        checkpoint.tensors.keys().map(|name| (name.clone(), shard(name).into())).collect();
    let index = serde_json::json!({"weight_map": map}).to_string();
    fs::write(sharded.join("model.safetensors.index.json"), index).unwrap();
    let (a, b) = (dir.path().join("a"), dir.path().join("b"));
    export_to(&tiny("llama"), &a, ExportOptions::default()).unwrap();
    export_to(&sharded, &b, ExportOptions::default()).unwrap();
    assert!(tree(&a) == tree(&b));
}

#[test]
fn weights_are_the_checkpoints_stacked_or_transposed() {
    let dir = tempfile::tempdir().unwrap();
    let checkpoint = Checkpoint::tiny("llama");
    let (q, k, v) = ["q", "k", "v"]
        .map(|p| checkpoint.f32s(&format!("model.layers.2.self_attn.{p}_proj.weight")))
        .into();
    let stacked = [q, k, v].concat();

    let plain = dir.path().join("plain");
    export_to(&tiny("llama"), &plain, ExportOptions::default()).unwrap();
    let expected = ("tensor<80x48xf32>".to_owned(), bytes(stacked.clone()));
    assert!(weight(&plain, "qkvProj2") == expected);
    let head = checkpoint.f32s("lm_head.weight");
    assert!(weight(&plain, "lmHead") == ("tensor<96x48xf32>".to_owned(), bytes(head.clone())));

    let turned = dir.path().join("turned");
    let in_out = ExportOptions { weight_layout: WeightLayout::InOut, ..ExportOptions::default() };
    export_to(&tiny("llama"), &turned, in_out).unwrap();
    let transpose = |m: &[f32], rows: usize| -> Vec<f32> {
        let columns = m.len() / rows;
        (0..columns).flat_map(|c| (0..rows).map(move |r| m[r * columns + c])).collect()
    };
    let expected = ("tensor<48x80xf32>".to_owned(), bytes(transpose(&stacked, 80)));
    assert!(weight(&turned, "qkvProj2") == expected);
    let expected = ("tensor<48x96xf32>".to_owned(), bytes(transpose(&head, 96)));
    assert!(weight(&turned, "lmHead") == expected);
    let embedding = bytes(checkpoint.f32s("model.embed_tokens.weight"));
    assert!(weight(&turned, "embedTokens") == ("tensor<96x48xf32>".to_owned(), embedding));
}

#[test]
fn dtypes_convert_exactly_or_to_the_nearest_even() {
    let dir = tempfile::tempdir().unwrap();
    let mut checkpoint = Checkpoint::tiny("llama");
    let norm = "model.norm.weight";
    // IEEE half 0x3555 is 1365 / 4096, 0x8001 is -2^-24.
    let halves = [0x3555_u16, 0x8001].repeat(24).into_iter().flat_map(u16::to_le_bytes).collect();
    checkpoint.tensors.insert(norm.to_owned(), (Dtype::F16, vec![48], halves));
    // Halfway between two bf16 values, with an even and an odd one below; and just above halfway.
    let floats = [0x3f80_8000_u32, 0x3f81_8000, 0x3f80_8001].map(f32::from_bits);
    let down = "model.layers.0.mlp.down_proj.weight";
    let data = bytes(floats.repeat(48 * 80 / 3));
    checkpoint.tensors.insert(down.to_owned(), (Dtype::F32, vec![48, 80], data));
    checkpoint.write(&dir.path().join("in"));

    let out = dir.path().join("out");
    let bf16 = ExportOptions { weight_dtype: WeightDType::Bf16, ..ExportOptions::default() };
    export_to(&dir.path().join("in"), &out, bf16).unwrap();
    let (norm_type, norm) = weight(&out, "finalNorm");
    assert_eq!(norm_type, "tensor<48xf32>", "norms are never rounded");
    assert!(norm == bytes([1365.0 / 4096.0, -(2.0_f32.powi(-24))].repeat(24)));
    let (down_type, down) = weight(&out, "downProj0");
    assert_eq!(down_type, "tensor<48x80xbf16>");
    let expected = [0x3f80_u16, 0x3f82, 0x3f81].repeat(48 * 80 / 3);
    assert!(down == expected.into_iter().flat_map(u16::to_le_bytes).collect::<Vec<_>>());
}

/// Quantised by their definition, in the order of slots.
#[test]
fn projections_are_quantised_by_output_channel() {
    let dir = tempfile::tempdir().unwrap();
    let mut checkpoint = Checkpoint::tiny("llama");
    // Of 48 rows: one of zeros, one all negative, one with ties at even and odd codes.
    let down = "model.layers.0.mlp.down_proj.weight";
    let mut values = checkpoint.f32s(down);
    values[..80].fill(0.0);
    values[80..160].iter_mut().for_each(|value| *value = -value.abs() - 0.1);
    values[160..240].copy_from_slice(&[254.0, 1.0, 3.0, -5.0].repeat(20));
    checkpoint.tensors.insert(down.to_owned(), (Dtype::F32, vec![48, 80], bytes(values.clone())));
    checkpoint.write(&dir.path().join("in"));

    let export = |name: &str, layout| {
        let out = dir.path().join(name);
        let options = ExportOptions {
            weight_quant: Some(WeightQuant::Int8),
            weight_layout: layout,
            ..ExportOptions::default()
        };
        export_to(&dir.path().join("in"), &out, options).unwrap();
        out
    };
    let out = export("int8", WeightLayout::OutIn);
    let (codes_type, codes) = weight(&out, "downProj0");
    let (scales_type, scales) = weight(&out, "downProj0Scale");
    assert_eq!((&*codes_type, &*scales_type), ("tensor<48x80xi8>", "tensor<48xf32>"));
    let scales: Vec<_> = scales.as_chunks().0.iter().map(|x| f32::from_le_bytes(*x)).collect();
    for (row, values) in values.chunks(80).enumerate() {
        let largest = values.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
        let scale = if row == 0 { 1.0 } else { largest / 127.0 };
        assert_eq!(scales[row], scale, "row {row}");
        let codes: Vec<_> = codes[row * 80..][..80].iter().map(|c| c.cast_signed()).collect();
        for (code, value) in codes.iter().zip(values) {
            let error = f64::from(*code) - f64::from(*value) / f64::from(scale);
            assert!(error.abs() <= 0.500_001, "row {row}: {code} for {value}");
        }
        match row {
            0 => assert!(codes.iter().all(|code| *code == 0)),
            1 => assert!(codes.contains(&-127) && codes.iter().all(|code| *code < 0)),
            2 => assert_eq!(codes[..4], [127, 0, 2, -2]),
            _ => assert!(codes.contains(&127) || codes.contains(&-127), "row {row}"),
        }
    }

    let turned = export("turned", WeightLayout::InOut);
    let (turned_type, turned_codes) = weight(&turned, "downProj0");
    assert_eq!(turned_type, "tensor<80x48xi8>");
    assert!((0..codes.len()).all(|i| turned_codes[i % 80 * 48 + i / 80] == codes[i]));
    assert_eq!(weight(&turned, "downProj0Scale"), weight(&out, "downProj0Scale"));

    let again = export("again", WeightLayout::OutIn);
    assert!(tree(&out) == tree(&again), "two exports are byte-identical");
    let plain = dir.path().join("plain");
    export_to(&dir.path().join("in"), &plain, ExportOptions::default()).unwrap();
    for kept in ["embedTokens", "inputNorm1", "finalNorm", "lmHead"] {
        assert_eq!(weight(&out, kept), weight(&plain, kept));
    }
    let names: Vec<_> = open(&out).weights().iter().map(|slot| slot.name.clone()).collect();
    assert_eq!(names[1..5], ["inputNorm0", "qkvProj0", "qkvProj0Scale", "oProj0"]);
}

#[test]
fn quantised_models_say_so() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    for (quant, weight_dtype, expected, codes) in [
        (WeightQuant::Int8, WeightDType::F32, ":qint8:weights-", "tensor<48x80xi8>"),
        (WeightQuant::Fp8, WeightDType::Bf16, ":wbf16:qfp8:weights-", "tensor<48x80xf8E4M3FN>"),
    ] {
        let options =
            ExportOptions { weight_quant: Some(quant), weight_dtype, ..ExportOptions::default() };
        export_to(&tiny("llama"), &out, options).unwrap();
        let hash = open(&out).manifest().model_hash.clone();
        assert!(hash.starts_with(&format!("hf-llama:tiny:L3:h48:v96{expected}")), "{hash}");
        assert_eq!(weight(&out, "downProj0").0, codes);
        assert_eq!(weight(&out, "lmHead").0, format!("tensor<96x48x{}>", weight_dtype.dtype()));
    }
}

#[test]
fn values_without_a_code_are_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let mut checkpoint = Checkpoint::tiny("llama");
    let up = "model.layers.1.mlp.up_proj.weight";
    let mut values = checkpoint.f32s(up);
    values[7] = f32::INFINITY;
    checkpoint.tensors.insert(up.to_owned(), (Dtype::F32, vec![80, 48], bytes(values)));
    checkpoint.write(&dir.path().join("in"));
    let out = dir.path().join("out");
    let options =
        ExportOptions { weight_quant: Some(WeightQuant::Fp8), ..ExportOptions::default() };
    let error = export_to(&dir.path().join("in"), &out, options).unwrap_err().to_string();
    assert!(error.contains(&format!("tensor '{up}': holds a value that is not finite")), "{error}");
    assert!(!out.exists());
}

#[test]
fn pools_have_the_kv_dtype() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    for (kv_dtype, name, size) in
        [(KvDType::F32, "f32", 4), (KvDType::Bf16, "bf16", 2), (KvDType::Fp8, "f8e4m3fn", 1)]
    {
        let plan = PlanOptions { kv_dtype, ..PlanOptions::default() };
        export_to(&tiny("llama"), &out, ExportOptions { plan, ..ExportOptions::default() })
            .unwrap();
        let artifact = open(&out);
        assert_eq!(artifact.manifest().model.kv_dtype, name);
        for entry in &artifact.manifest().entries {
            assert!(entry.cache_key.ends_with(&format!("/dtf32/kv{name}")), "{}", entry.cache_key);
        }
        for pool in artifact.pools() {
            assert_eq!(pool.tensor.dtype().manifest_name(), name);
            assert_eq!(pool.tensor.bytes(), 9 * 16 * 2 * 8 * size);
        }
    }
}

#[test]
fn smaller_chunks_give_further_entries() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let plan = PlanOptions { prefill_chunks: vec![32, 48, 8, 48], ..PlanOptions::default() };
    export_to(&tiny("llama"), &out, ExportOptions { plan, ..ExportOptions::default() }).unwrap();
    let artifact = open(&out);
    let ids: Vec<_> = artifact.entries().iter().map(|entry| entry.id.as_str()).collect();
    assert_eq!(ids[4..6], ["prefill_b1_c32", "prefill_b1_c64_t48"]);
    assert_eq!(ids[6..8], ["prefill_b2_c32", "prefill_b2_c64_t48"]);
    // 32 tokens are the whole of a context of 32.
    assert_eq!(ids[8..10], ["prefill_b1_c64_t32", "prefill_b2_c64_t32"]);
    assert_eq!(ids[10..12], ["prefill_b1_c32_t8", "prefill_b1_c64_t8"]);
    assert_eq!(ids[12..], ["prefill_b2_c32_t8", "prefill_b2_c64_t8"]);
}

/// One row, and as many as decode at once, for every context.
#[test]
fn verify_chunks_give_further_entries() {
    let dir = tempfile::tempdir().unwrap();
    let export = |name: &str, verify_chunk| {
        let plan = PlanOptions { verify_chunk, ..PlanOptions::default() };
        let out = dir.path().join(name);
        export_to(&tiny("llama"), &out, ExportOptions { plan, ..ExportOptions::default() })
            .unwrap();
        open(&out)
    };
    let (plain, verifying) = (export("plain", None), export("verifying", Some(3)));
    let ids = |artifact: &Artifact| -> Vec<String> {
        artifact.entries().iter().map(|entry| entry.id.clone()).collect()
    };
    let verify = [
        "prefill_b1_c32_t4_verify",
        "prefill_b1_c64_t4_verify",
        "prefill_b2_c32_t4_verify",
        "prefill_b2_c64_t4_verify",
    ];
    assert_eq!(ids(&verifying), [ids(&plain), verify.map(str::to_owned).to_vec()].concat());
    for entry in &verifying.entries()[ids(&plain).len()..] {
        assert_eq!((entry.logits_columns, entry.outputs[0].tensor.dims()[1]), (4, 4));
    }
    let summary = Summary(&verifying).to_string();
    assert!(summary.contains("1 row of up to 32 positions, 4 tokens a call, to verify drafts"));
    // Everything else is the same, and so is the model.
    assert_eq!(verifying.model_hash(), plain.model_hash());
    assert_eq!(verifying.max_prefill_tokens(), plain.max_prefill_tokens());
}

#[test]
fn linear_attention_has_no_verify_entries() {
    let dir = tempfile::tempdir().unwrap();
    let plan = PlanOptions { verify_chunk: Some(3), ..PlanOptions::default() };
    let options = ExportOptions { plan, ..ExportOptions::default() };
    let error = export_to(&tiny("qwen3_5"), &dir.path().join("out"), options).unwrap_err();
    let expected = "--verify-chunk: does not fit linear attention";
    assert!(error.to_string().contains(expected), "{error}");
}

#[test]
fn entries_follow_the_plan() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let plan = PlanOptions {
        prefill_batches: Some(vec![1]),
        prefill_chunks: vec![48],
        ..PlanOptions::default()
    };
    export_to(&tiny("llama"), &out, ExportOptions { plan, ..ExportOptions::default() }).unwrap();
    let artifact = open(&out);
    let ids: Vec<_> = artifact.entries().iter().map(|entry| entry.id.as_str()).collect();
    assert_eq!(
        ids,
        [
            "decode_b1_c32",
            "decode_b1_c64",
            "decode_b2_c32",
            "decode_b2_c64",
            "prefill_b1_c32",
            "prefill_b1_c64_t48"
        ]
    );
    // Two rows of 64 positions, and page 0.
    assert_eq!((artifact.num_blocks(), artifact.block_size()), (9, 16));
    let manifest = artifact.manifest();
    assert_eq!(manifest.schema_version, "tlaloc-serving-v2");
    assert!(manifest.model_hash.starts_with("hf-llama:tiny:L3:h48:v96:weights-"));
    assert_eq!(manifest.model.kv_pool_dims, [9, 16, 2, 8]);
    for entry in artifact.entries() {
        let body = artifact.read_body(entry).unwrap();
        for output in 1..=6 {
            let aliases = body.matches(&format!("tf.aliasing_output = {output} : i32")).count();
            assert_eq!(aliases, 1, "{}: pool output {output}", entry.id);
        }
    }
}

/// A scatter of one row is compiled to an update that copies whole pools.
#[test]
fn no_entry_scatters_a_single_row() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let plan = PlanOptions { prefill_chunks: vec![1], ..PlanOptions::default() };
    export_to(&tiny("llama"), &out, ExportOptions { plan, ..ExportOptions::default() }).unwrap();
    let artifact = open(&out);
    for entry in artifact.entries() {
        let body = artifact.read_body(entry).unwrap();
        let updates = entry.batch * entry.tokens;
        let written = updates.max(2);
        let pools =
            body.matches(&format!("tensor<{written}x2xi32>, tensor<{written}x2x8xf32>")).count();
        assert_eq!(pools, 2, "{}: keys and values", entry.id);
    }
}

#[test]
fn options_that_do_not_fit_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    for (arguments, expected) in [
        (["--contexts", "100"], "--contexts: 100 is not a multiple of the block size 16"),
        (["--contexts", "1024"], "--contexts: 1024 is more than the model's 512 positions"),
        (["--contexts", "0"], "--contexts: must be at least 1"),
        (["--batches", "0,1"], "--batches: must be at least 1"),
        (["--prefill-chunk", "0"], "--prefill-chunk: must be at least 1"),
        (["--prefill-chunk", "32,0"], "--prefill-chunk: must be at least 1"),
        (["--block-size", "0"], "--block-size: must be at least 1"),
        (["--block-size", "700"], "--block-size: is 700; the model has 512 positions"),
        (["--batches", "100000000000"], "--batches: is 100000000000, more than programs can index"),
        (["--state-slots", "4294967296"], "--state-slots: is 4294967296, more than programs"),
        (["--verify-chunk", "0"], "--verify-chunk: must be at least 1"),
        (
            ["--verify-chunk", "999999"],
            "--verify-chunk: is 999999: a call of 1000000 tokens does not fit the context",
        ),
        (["--num-blocks", "1"], "--num-blocks: is 1; page 0 is never used"),
        (["--num-blocks", "99999999"], "--num-blocks: gives pools of 99999999 pages"),
    ] {
        let run = Command::new(env!("CARGO_BIN_EXE_tlaloc-export"))
            .arg(tiny("llama"))
            .arg("--out")
            .arg(dir.path().join("out"))
            .args(arguments)
            .output()
            .unwrap();
        let message = String::from_utf8(run.stderr).unwrap();
        assert_eq!(run.status.code(), Some(1), "{message}");
        assert!(message.contains(expected), "{arguments:?}: {message}");
        assert!(!dir.path().join("out").exists());
    }
}

#[test]
fn default_contexts_rounded_to_pages_stay_within_the_model() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let run = Command::new(env!("CARGO_BIN_EXE_tlaloc-export"))
        .arg(tiny("llama"))
        .args(["--block-size", "48", "--out"])
        .arg(&out)
        .output()
        .unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    // 128 rounds up to 144; 512 would to 528, past the model's 512 positions.
    assert_eq!(open(&out).max_context(), 144);
}

#[test]
fn inspect_names_what_is_served() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let export = Command::new(env!("CARGO_BIN_EXE_tlaloc-export"))
        .arg(tiny("llama"))
        .arg("--out")
        .arg(&out)
        .output()
        .unwrap();
    assert!(export.status.success(), "{}", String::from_utf8_lossy(&export.stderr));
    let inspect = Command::new(env!("CARGO_BIN_EXE_tlaloc-export"))
        .arg("inspect")
        .arg(&out)
        .output()
        .unwrap();
    assert!(inspect.status.success());
    assert_eq!(inspect.stdout, export.stdout, "an export ends with the summary");
    let summary = String::from_utf8(inspect.stdout).unwrap();
    for expected in [
        "model     llama\n",
        "shape     3 layers, hidden 48, 6 heads over 2 KV heads of 8, vocabulary 96\n",
        // (2 * 96 * 48 + 3 * (2 * 48 + 80 * 48 + 48 * 48 + 160 * 48 + 48 * 80) + 48) * 4 = 250176 bytes
        "weights   250.2 kB: 21 f32 (250.2 kB)\n",
        // 6 pools of [33, 16, 2, 8] f32: the contexts within the model's 512 positions
        "pools     202.8 kB\n",
        "  history 6 f32 (202.8 kB): 32 pages of 16 tokens to use (512 tokens)\n",
        "memory    452.9 kB",
        "  decode_b1_c128   1 row of up to 128 positions\n",
        "  prefill_b1_c512  1 row of up to 512 positions, 512 tokens a call\n",
    ] {
        assert!(summary.contains(expected), "{expected}in\n{summary}");
    }

    let missing = Command::new(env!("CARGO_BIN_EXE_tlaloc-export"))
        .args(["inspect", "/nowhere"])
        .output()
        .unwrap();
    assert_eq!(missing.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("/nowhere/tlaloc-serving.json"));
}
