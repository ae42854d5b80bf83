//! Bodies against their entries: types, aliasing attributes, refusals.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::path::Path;

use common::Features::Plain;
use common::{read_json, small};
use tlaloc_artifact::manifest::MANIFEST_FILE;
use tlaloc_artifact::stablehlo::Module;
use tlaloc_artifact::{Artifact, Error};

/// `read_body` of the first entry after `edit` of its text.
fn edited(edit: impl Fn(String) -> String) -> Result<String, Error> {
    let (_dir, path) = small(Plain);
    let artifact = Artifact::open(&path).unwrap();
    let entry = &artifact.entries()[0];
    let text = std::fs::read_to_string(&entry.body).unwrap();
    let changed = edit(text.clone());
    std::fs::write(&entry.body, changed).unwrap();
    artifact.read_body(entry)
}

/// As [`edited`], with `from` replaced by `to` once; the refusal's text.
fn refusal(from: &str, to: &str) -> String {
    let error = edited(|text| {
        assert!(text.contains(from), "{from} is not in {text}");
        text.replacen(from, to, 1)
    })
    .unwrap_err();
    assert!(!error.is_not_found());
    error.to_string()
}

#[test]
fn bodies_that_differ_from_their_entry_are_refused() {
    // The control: unedited, the body is accepted and returned as it is.
    let text = edited(|text| text).unwrap();
    assert!(text.starts_with("module {\n  func.func @main(%0: tensor<1x1xi32>"), "{text}");
    for (from, to, message) in [
        (
            "%2: tensor<1x2xi32>",
            "%2: tensor<1x3xi32>",
            "argument 2 ('blockTables') of @main is tensor<1x3xi32>, but the manifest's entry \
             decode_b1_c4 says tensor<1x2xi32>",
        ),
        (
            "%3: tensor<1xi32>",
            "%3: tensor<1xi64>",
            "argument 3 ('seqLens') of @main is tensor<1xi64>",
        ),
        (
            "%3: tensor<1xi32>",
            "%3: tensor<?xi32>",
            "argument 3 ('seqLens') of @main is tensor<?xi32>",
        ),
        (
            "%3: tensor<1xi32>",
            "%3: tensor<*xi32>",
            "argument 3 ('seqLens') of @main is tensor<*xi32>",
        ),
        (
            "%3: tensor<1xi32>",
            "%3: !stablehlo.token",
            "argument 3 ('seqLens') of @main is !stablehlo.token",
        ),
        (
            "-> (tensor<1x1x11xf32>",
            "-> (tensor<1x11xf32>",
            "result 0 ('logits') of @main is tensor<1x11xf32>, but the manifest's entry \
             decode_b1_c4 says tensor<1x1x11xf32>",
        ),
        (
            "%0: tensor<1x1xi32>, ",
            "",
            "@main has 10 arguments, but the manifest's entry decode_b1_c4 has 11",
        ),
        (
            "-> (tensor<1x1x11xf32>, ",
            "-> (",
            "@main has 4 results, but the manifest's entry decode_b1_c4 has 5",
        ),
        ("@main", "@other", "entry function @main is not in the body; it defines @other"),
        ("func.func", "func.fn", "entry function @main is not in the body; it defines none"),
        ("->", "-> (", "line 2: the signature of this func.func is malformed"),
        (
            "tf.aliasing_output = 2",
            "tf.aliasing_output = 3",
            "argument 6 of @main has tf.aliasing_output = 3, but the manifest's entry decode_b1_c4 \
             pairs it with output 2",
        ),
        (
            "{\n  }",
            "{\n    %9 = stablehlo.custom_call @tlaloc_paged_attention(%5)\n  }",
            "calls CUDA kernels (stablehlo.custom_call @tlaloc_…), but none are registered",
        ),
    ] {
        let found = refusal(from, to);
        assert!(found.contains(message), "expected: {message}\n   found: {found}");
        assert!(found.contains(".mlir: "), "names the file: {found}");
    }
}

#[test]
fn what_is_not_text_is_refused_by_kind() {
    let (_dir, path) = small(Plain);
    let artifact = Artifact::open(&path).unwrap();
    let entry = &artifact.entries()[0];
    std::fs::write(&entry.body, b"ML\xefR\x01StableHLO").unwrap();
    let error = artifact.read_body(entry).unwrap_err();
    assert!(error.to_string().contains("is MLIR bytecode; write the body as text"), "{error}");
    std::fs::write(&entry.body, b"\xff\xfe").unwrap();
    let error = artifact.read_body(entry).unwrap_err();
    assert!(error.to_string().contains("is not UTF-8 text"), "{error}");
    std::fs::remove_file(&entry.body).unwrap();
    let error = artifact.read_body(entry).unwrap_err();
    assert!(error.is_not_found());
    assert!(error.to_string().contains(entry.body.to_str().unwrap()));
}

/// A body without aliasing attributes reads as the same body with them.
#[test]
fn missing_aliases_are_added() {
    let aliased = edited(|text| text).unwrap();
    let strip = |text: String| {
        let mut stripped = text;
        for output in 1..5 {
            stripped = stripped.replace(&format!(" {{tf.aliasing_output = {output} : i32}}"), "");
        }
        stripped
    };
    assert!(!strip(aliased.clone()).contains("aliasing"));
    assert_eq!(edited(strip).unwrap(), aliased);
    // One of four missing: only that one is added.
    let one = edited(|text| text.replace(" {tf.aliasing_output = 3 : i32}", "")).unwrap();
    assert_eq!(one, aliased);
}

/// Other attributes of an argument stay.
#[test]
fn aliases_join_other_attributes() {
    let with = |attributes: &str| {
        let attributes = attributes.to_owned();
        edited(move |text| text.replace("{tf.aliasing_output = 1 : i32}", &attributes)).unwrap()
    };
    for (written, read) in [
        ("{}", "{tf.aliasing_output = 1 : i32}"),
        (
            "{jax.arg_info = \"a, {b}\"}",
            "{tf.aliasing_output = 1 : i32, jax.arg_info = \"a, {b}\"}",
        ),
        (
            "{mhlo.sharding = \"x\" // = }\n}",
            "{tf.aliasing_output = 1 : i32, mhlo.sharding = \"x\" // = }\n}",
        ),
        ("loc(\"x\")", "{tf.aliasing_output = 1 : i32} loc(\"x\")"),
        ("{tf.aliasing_output = 1 : i32} loc(\"x\")", "{tf.aliasing_output = 1 : i32} loc(\"x\")"),
    ] {
        let text = with(written);
        assert!(text.contains(&format!("%5: tensor<6x2x2x2xf32> {read}, %6:")), "{text}");
        let module = Module::parse(&text).unwrap();
        let argument = &module.function("main").unwrap().arguments[5];
        assert_eq!(argument.attribute("tf.aliasing_output"), Some("1 : i32"));
    }
}

/// The original exporter's reference artifact exists twice: with the attribute and, older, without.
/// Reading the older one adds what the newer one has, and all of its bodies fit their entries.
#[test]
fn upstream_bodies_fit_their_entries() {
    let Some(upstream) = common::upstream("upstream_bodies_fit_their_entries") else { return };
    let parts = |text: &str| {
        let module = Module::parse(text).unwrap();
        let values = module.function("main").unwrap().arguments.iter();
        values.map(|v| v.attribute("tf.aliasing_output").map(str::to_owned)).collect::<Vec<_>>()
    };
    let open = |model: &str| {
        let path = upstream.join("model_repository").join(model).join("1").join(MANIFEST_FILE);
        Artifact::open(&path).unwrap()
    };
    let (older, newer) = (open("reference_sequence"), open("reference_decode"));
    for (old, new) in older.entries().iter().zip(newer.entries()) {
        let original = std::fs::read_to_string(&old.body).unwrap();
        assert!(parts(&original).iter().all(Option::is_none));
        let read = older.read_body(old).unwrap();
        let expected = newer.read_body(new).unwrap();
        assert_eq!(parts(&read), parts(&expected));
        assert_eq!(parts(&read)[5..], [Some("1 : i32".to_owned()), Some("2 : i32".to_owned())]);
        // Nothing but the attributes differs from what was on disk.
        let stripped = read
            .replace(" {tf.aliasing_output = 1 : i32}", "")
            .replace(" {tf.aliasing_output = 2 : i32}", "");
        assert_eq!(stripped, original);
        let untouched = std::fs::read_to_string(&new.body).unwrap();
        assert_eq!(expected, untouched);
    }
    let windowed = open("window_sequence");
    assert_eq!(windowed.entries().len(), 12);
    for entry in windowed.entries() {
        let text = windowed.read_body(entry).unwrap();
        assert_eq!(text, std::fs::read_to_string(&entry.body).unwrap());
    }
}

/// Each body of another entry is refused: their shapes differ.
#[test]
fn upstream_bodies_fit_no_other_entry() {
    let Some(upstream) = common::upstream("upstream_bodies_fit_no_other_entry") else { return };
    let source = upstream.join("model_repository/reference_sequence/1");
    let mut manifest = read_json(&source.join(MANIFEST_FILE));
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("bodies")).unwrap();
    for body in common::files(&source.join("bodies"), ".mlir") {
        let copy = dir.path().join("bodies").join(body.file_name().unwrap());
        std::fs::copy(&body, copy).unwrap();
    }
    let entries = manifest["entries"].as_array_mut().unwrap();
    let last = entries.last().unwrap()["bodyPath"].clone();
    for entry in entries {
        entry["bodyPath"] = last.clone();
    }
    let path: &Path = &dir.path().join(MANIFEST_FILE);
    std::fs::write(path, serde_json::to_vec(&manifest).unwrap()).unwrap();
    let artifact = Artifact::open(path).unwrap();
    let (own, others) = artifact.entries().split_last().unwrap();
    artifact.read_body(own).unwrap();
    for entry in others {
        let error = artifact.read_body(entry).unwrap_err().to_string();
        assert!(error.contains(" of @main is tensor<4x"), "{error}");
    }
}
