//! Manifests of bounded artifacts: the conformance cases of bounded mode §5.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failure here is a failed test")]

use std::path::Path;

use serde_json::{Value, json};
use tlaloc_artifact::DType;
use tlaloc_artifact::bounded::manifest::{Axis, Bound, PaddingCheck, Tensor};
use tlaloc_artifact::bounded::write::{self, Description};
use tlaloc_artifact::bounded::{BoundedArtifact, InputValue};

fn base() -> Value {
    let entry = |seq, batch| {
        let id = format!("Seq{seq}_Batch{batch}");
        json!({
            "id": id, "sizes": {"Seq": seq, "Batch": batch}, "entryPoint": "main",
            "bodyPath": format!("bodies/{id}.mlir"), "bodyHash": "0",
            "programPath": format!("programs/{id}.json")
        })
    };
    json!({
        "schemaVersion": "tlaloc-bounded-v1",
        "name": "conformance",
        "bounds": [
            {"name": "Seq", "max": 8, "buckets": [4, 8]},
            {"name": "Batch", "max": 2, "buckets": [1, 2]}
        ],
        "padding": {"value": 0},
        "inputs": [
            {"name": "x0", "role": "DATA", "dtype": "f32",
             "axes": [{"bound": "Batch"}, {"bound": "Seq"}, {"size": 3}]},
            {"name": "ids", "role": "DATA", "dtype": "i32", "axes": [{"bound": "Seq"}]},
            {"name": "validMask_Seq", "role": "VALID_MASK", "dtype": "f32",
             "axes": [{"bound": "Seq"}], "bound": "Seq"},
            {"name": "validLength_Batch", "role": "VALID_LENGTH", "dtype": "f32", "axes": [],
             "bound": "Batch"}
        ],
        "outputs": [
            {"name": "y0", "role": "DATA", "dtype": "f32", "axes": [{"bound": "Batch"}, {"size": 3}]}
        ],
        "entries": [entry(4, 1), entry(4, 2), entry(8, 1), entry(8, 2)],
        "paddingCheck": {
            "sizes": [{"Seq": 1, "Batch": 1}, {"Seq": 8, "Batch": 2}],
            "maxDifference": 0, "tolerance": 1e-6
        }
    })
}

fn read(manifest: &Value) -> Result<BoundedArtifact, String> {
    let path = Path::new("/models/m/1/tlaloc-bounded.json");
    BoundedArtifact::parse(path, manifest.to_string().as_bytes()).map_err(|error| error.to_string())
}

#[test]
fn the_base_is_read() {
    let artifact = read(&base()).unwrap();
    assert_eq!(artifact.name, "conformance");
    let bounds: Vec<_> = artifact.bounds.iter().map(ToString::to_string).collect();
    assert_eq!(bounds, ["Seq <= 8 (buckets 4 8)", "Batch <= 2 (buckets 1 2)"]);
    let values: Vec<_> = artifact.inputs.iter().map(|input| input.value).collect();
    let [data, ids] = [InputValue::Data; 2];
    assert_eq!(values, [data, ids, InputValue::ValidMask(0), InputValue::ValidLength(1)]);
    assert_eq!(artifact.inputs[1].tensor.dtype, DType::I32);
    let entry = &artifact.entries[artifact.entry(&[8, 2]).unwrap()];
    assert_eq!(entry.id, "Seq8_Batch2");
    assert_eq!(entry.body, Path::new("/models/m/1/bodies/Seq8_Batch2.mlir"));
    let types: Vec<_> = entry.inputs.iter().map(ToString::to_string).collect();
    assert_eq!(types, ["tensor<2x8x3xf32>", "tensor<8xi32>", "tensor<8xf32>", "tensor<f32>"]);
    assert_eq!(entry.outputs[0].to_string(), "tensor<2x3xf32>");
    assert_eq!(artifact.entry(&[5, 2]), None);
    assert_eq!(artifact.bounds[0].bucket(5), Some(8));
    assert_eq!(artifact.bounds[0].bucket(9), None);
}

#[test]
fn a_scalar_output_and_a_negative_padding_are_read() {
    let artifact = read(&json!({
        "schemaVersion": "tlaloc-bounded-v1",
        "name": "one",
        "bounds": [{"name": "N", "max": 5, "buckets": [5]}],
        "padding": {"value": -1.5},
        "inputs": [{"name": "x0", "role": "DATA", "dtype": "f32", "axes": [{"bound": "N"}]}],
        "outputs": [{"name": "y0", "role": "DATA", "dtype": "f32", "axes": []}],
        "entries": [{
            "id": "N5", "sizes": {"N": 5}, "entryPoint": "main", "bodyPath": "bodies/a.mlir",
            "bodyHash": "0", "programPath": "programs/N5.json"
        }],
        "paddingCheck": {"sizes": [{"N": 1}], "maxDifference": 0, "tolerance": 0}
    }))
    .unwrap();
    assert_eq!(artifact.padding, -1.5);
    assert_eq!(artifact.entries[0].outputs[0].to_string(), "tensor<f32>");
}

#[test]
fn what_nobody_reads_may_be_absent() {
    let mut manifest = base();
    manifest["entries"][0].as_object_mut().unwrap().remove("bodyHash");
    manifest["paddingCheck"].as_object_mut().unwrap().remove("sizes");
    read(&manifest).unwrap();
}

fn remove(value: &mut Value, key: &str) {
    value.as_object_mut().unwrap().remove(key).unwrap();
}

fn list(value: &mut Value) -> &mut Vec<Value> {
    value.as_array_mut().unwrap()
}

type Mutation = (&'static str, fn(&mut Value), &'static str);

/// The mutations of §5, and what each refusal names.
const MUTATIONS: [Mutation; 39] = [
    (
        "unknown schema version",
        |m| m["schemaVersion"] = json!("tlaloc-bounded-v2"),
        "schemaVersion is 'tlaloc-bounded-v2', but this reader knows tlaloc-bounded-v1",
    ),
    ("unknown top key", |m| m["extra"] = json!(1), "unknown field `extra`"),
    ("missing name", |m| remove(m, "name"), "missing field `name`"),
    ("missing paddingCheck", |m| remove(m, "paddingCheck"), "missing field `paddingCheck`"),
    ("blank name", |m| m["name"] = json!(" "), "name is blank"),
    ("no bounds", |m| (m["bounds"], m["entries"]) = (json!([]), json!([])), "bounds is empty"),
    (
        "repeated bound name",
        |m| m["bounds"][1]["name"] = json!("Seq"),
        "bounds has the name 'Seq' twice",
    ),
    (
        "unknown bound key",
        |m| m["bounds"][0]["min"] = json!(1),
        "bounds[0].min: unknown field `min`",
    ),
    (
        "buckets not ascending",
        |m| m["bounds"][0]["buckets"] = json!([8, 4, 8]),
        "bounds[0].buckets is [8, 4, 8], which is not ascending",
    ),
    (
        "bucket 0",
        |m| m["bounds"][0]["buckets"] = json!([0, 8]),
        "bounds[0].buckets is [0, 8], expected sizes from 1 on",
    ),
    (
        "last bucket is not max",
        |m| m["bounds"][0]["max"] = json!(9),
        "bounds[0].max is 9, but the last of its buckets [4, 8] is not",
    ),
    (
        "unknown padding key",
        |m| m["padding"]["mode"] = json!("x"),
        "padding.mode: unknown field `mode`",
    ),
    (
        "padding value a string",
        |m| m["padding"]["value"] = json!("0"),
        "padding.value: invalid type: string \"0\", expected f64",
    ),
    (
        "unknown role",
        |m| m["inputs"][0]["role"] = json!("WEIGHT"),
        "inputs[0].role is 'WEIGHT', expected DATA, VALID_MASK or VALID_LENGTH",
    ),
    (
        "dtype f16",
        |m| m["inputs"][0]["dtype"] = json!("f16"),
        "inputs[0].dtype is 'f16', expected f32 or i32",
    ),
    (
        "unknown tensor key",
        |m| m["inputs"][0]["layout"] = json!("x"),
        "inputs[0].layout: unknown field `layout`",
    ),
    (
        "axis with both",
        |m| m["inputs"][1]["axes"][0]["size"] = json!(4),
        "inputs[1].axes[0] has both a size and a bound",
    ),
    (
        "axis with neither",
        |m| m["inputs"][1]["axes"][0] = json!({}),
        "inputs[1].axes[0] has neither a size nor a bound",
    ),
    (
        "axis size 0",
        |m| m["inputs"][0]["axes"][2]["size"] = json!(0),
        "inputs[0].axes[2].size is 0, expected 1 at least",
    ),
    (
        "undeclared bound on an axis",
        |m| m["inputs"][1]["axes"][0]["bound"] = json!("Rows"),
        "inputs[1].axes[0].bound is 'Rows', which bounds does not declare",
    ),
    (
        "DATA input naming a bound",
        |m| m["inputs"][1]["bound"] = json!("Seq"),
        "inputs[1].bound is 'Seq', but a DATA tensor has none of its own",
    ),
    ("no DATA input", |m| _ = list(&mut m["inputs"]).drain(..2), "inputs has no DATA tensor"),
    ("mask without bound", |m| remove(&mut m["inputs"][2], "bound"), "inputs[2].bound is missing"),
    (
        "mask i32",
        |m| m["inputs"][2]["dtype"] = json!("i32"),
        "inputs[2].dtype of a VALID_MASK must be f32, not i32",
    ),
    (
        "mask over another bound's axis",
        |m| m["inputs"][2]["axes"][0]["bound"] = json!("Batch"),
        "inputs[2].axes of a VALID_MASK must be its bound 'Seq' alone",
    ),
    (
        "length not scalar",
        |m| m["inputs"][3]["axes"] = json!([{"size": 1}]),
        "inputs[3].axes of a VALID_LENGTH must be empty",
    ),
    (
        "output not DATA",
        |m| m["outputs"][0]["role"] = json!("VALID_MASK"),
        "outputs[0].role is 'VALID_MASK', but outputs are DATA",
    ),
    ("no outputs", |m| m["outputs"] = json!([]), "outputs is empty"),
    (
        "an entry missing",
        |m| _ = list(&mut m["entries"]).remove(2),
        "entries has none for Seq 8, Batch 1",
    ),
    (
        "an entry repeated",
        |m| {
            let first = m["entries"][0].clone();
            list(&mut m["entries"]).push(first);
        },
        "entries has two entries for Seq 4, Batch 1",
    ),
    (
        "size not a bucket",
        |m| m["entries"][0]["sizes"]["Seq"] = json!(5),
        "entries[0].sizes.Seq is 5, which is none of its buckets [4, 8]",
    ),
    (
        "extra bound in sizes",
        |m| m["entries"][0]["sizes"]["Rows"] = json!(1),
        "entries[0].sizes has 'Rows', which bounds does not declare",
    ),
    (
        "unknown entry key",
        |m| m["entries"][0]["kind"] = json!("x"),
        "entries[0].kind: unknown field `kind`",
    ),
    (
        "missing entryPoint",
        |m| remove(&mut m["entries"][0], "entryPoint"),
        "entries[0]: missing field `entryPoint`",
    ),
    (
        "bodyPath with ..",
        |m| m["entries"][0]["bodyPath"] = json!("bodies/../../b.mlir"),
        "entry Seq4_Batch1: bodyPath: path 'bodies/../../b.mlir' has a '..' component",
    ),
    (
        "bodyPath absolute",
        |m| m["entries"][0]["bodyPath"] = json!("/b.mlir"),
        "entry Seq4_Batch1: bodyPath: path '/b.mlir' is absolute",
    ),
    (
        "programPath with ..",
        |m| m["entries"][0]["programPath"] = json!("../p.json"),
        "entry Seq4_Batch1: programPath: path '../p.json' has a '..' component",
    ),
    (
        "maxDifference above the tolerance",
        |m| m["paddingCheck"]["maxDifference"] = json!(1e-5),
        "paddingCheck.maxDifference is 0.00001, more than the tolerance 0.000001",
    ),
    (
        "unknown paddingCheck key",
        |m| m["paddingCheck"]["seed"] = json!(1),
        "paddingCheck.seed: unknown field `seed`",
    ),
];

/// U10. The base is the control of every mutation.
#[test]
fn every_mutation_is_refused_by_name() {
    for (name, mutation, needle) in MUTATIONS {
        let mut manifest = base();
        mutation(&mut manifest);
        assert_ne!(manifest, base(), "{name}");
        let error = read(&manifest).expect_err(name);
        assert!(error.starts_with("/models/m/1/tlaloc-bounded.json: "), "{name}: {error}");
        assert!(error.contains(needle), "{name}: expected {needle:?} in {error:?}");
    }
}

/// Flaws beside those of §5.
#[test]
fn other_flaws_are_refused_by_name() {
    let flaws: [Mutation; 12] = [
        ("no version", |m| remove(m, "schemaVersion"), "schemaVersion: is missing"),
        ("no buckets", |m| m["bounds"][0]["buckets"] = json!([]), "buckets is []"),
        (
            "null bound",
            |m| m["inputs"][0]["bound"] = Value::Null,
            "inputs[0].bound: invalid type: null",
        ),
        (
            "a size with a point",
            |m| m["bounds"][0]["max"] = json!(8.0),
            "bounds[0].max: invalid type",
        ),
        (
            "a missing size",
            |m| remove(&mut m["entries"][0]["sizes"], "Batch"),
            "sizes has no 'Batch'",
        ),
        ("empty path", |m| m["entries"][0]["bodyPath"] = json!(""), "bodyPath: the path is empty"),
        ("blank bound", |m| m["bounds"][0]["name"] = json!(""), "bounds[0].name is blank"),
        (
            "repeated input",
            |m| m["inputs"][1]["name"] = json!("x0"),
            "inputs has the name 'x0' twice",
        ),
        ("blank output", |m| m["outputs"][0]["name"] = json!(" "), "outputs[0].name is blank"),
        ("empty id", |m| m["entries"][1]["id"] = json!(""), "entries[1].id is blank"),
        (
            "repeated id",
            |m| m["entries"][3]["id"] = json!("Seq4_Batch2"),
            "entries has the id 'Seq4_Batch2' twice",
        ),
        (
            "more than any memory",
            |m| m["inputs"][0]["axes"][2]["size"] = json!(i64::MAX),
            "'x0' is too large for any memory",
        ),
    ];
    for (name, mutation, needle) in flaws {
        let mut manifest = base();
        mutation(&mut manifest);
        let error = read(&manifest).expect_err(name);
        assert!(error.contains(needle), "{name}: expected {needle:?} in {error:?}");
    }
}

/// JSON allows a key twice, and readers differ in which of the two they take.
#[test]
fn keys_written_twice_are_refused_by_name() {
    let text = serde_json::to_string(&base()).unwrap();
    for (once, twice, name) in [
        (r#""name":"conformance""#, r#""name":"other","name":"conformance""#, "name"),
        (r#""max":8"#, r#""max":4,"max":8"#, "max"),
        (r#""Seq":4"#, r#""Seq":8,"Seq":4"#, "Seq"),
        (r#""value":0"#, r#""value":1,"value":0"#, "value"),
        (r#""id":"Seq4_Batch1""#, r#""id":"x","id":"Seq4_Batch1""#, "id"),
        (r#""schemaVersion":"#, r#""schemaVersion":"x","schemaVersion":"#, "schemaVersion"),
    ] {
        assert!(text.contains(once), "{once} in {text}");
        let path = Path::new("/models/m/1/tlaloc-bounded.json");
        let read = BoundedArtifact::parse(path, text.replacen(once, twice, 1).as_bytes());
        let error = read.map(|artifact| artifact.name).expect_err(twice).to_string();
        assert!(error.contains(&format!("duplicate field `{name}`")), "{twice}: {error}");
    }
    assert!(read(&base()).is_ok());
}

/// However many combinations the bounds have, the check looks at no more than there are entries.
#[test]
fn combinations_without_number_take_no_time() {
    let mut manifest = base();
    let buckets: Vec<i64> = (1..=100).collect();
    for bound in 0..40 {
        let bound = json!({"name": format!("N{bound}"), "max": 100, "buckets": buckets});
        list(&mut manifest["bounds"]).push(bound);
    }
    manifest["entries"] = json!([]);
    assert!(read(&manifest).unwrap_err().contains("entries has none for Seq 4, Batch 1, N0 1"));
}

/// What the writer writes, the reader reads.
#[test]
fn an_artifact_is_written_and_read() {
    let dir = tempfile::tempdir().unwrap();
    let tensor = |name: &str, role: &str, bound: Option<&str>, axes: &[Axis]| Tensor {
        name: name.to_owned(),
        role: role.to_owned(),
        dtype: "f32".to_owned(),
        axes: axes.to_vec(),
        bound: bound.map(str::to_owned),
    };
    let bounded = [Axis { size: None, bound: Some("N".to_owned()) }];
    let description = Description {
        name: "double".to_owned(),
        bounds: vec![Bound { name: "N".to_owned(), max: 4, buckets: vec![2, 4] }],
        padding: 0.5,
        inputs: vec![
            tensor("x0", "DATA", None, &bounded),
            tensor("validLength_N", "VALID_LENGTH", Some("N"), &[]),
        ],
        outputs: vec![tensor("y0", "DATA", None, &bounded)],
        padding_check: PaddingCheck { sizes: None, max_difference: 0.0, tolerance: 0.0 },
    };
    let text = |n: i64| {
        format!(
            "func.func @main(%x: tensor<{n}xf32>, %n: tensor<f32>) -> tensor<{n}xf32> {{\n  return %x : tensor<{n}xf32>\n}}\n"
        )
    };
    let out = dir.path().join("double");
    write::write(&out, description.clone(), |sizes| text(sizes["N"])).unwrap();
    let artifact = BoundedArtifact::open(&out.join("tlaloc-bounded.json")).unwrap();
    assert_eq!((artifact.padding, artifact.entries.len()), (0.5, 2));
    assert_eq!(artifact.entries[1].id, "N4");
    assert_eq!(artifact.read_body(&artifact.entries[1]).unwrap(), text(4));
    let program = std::fs::read(&artifact.entries[1].program).unwrap();
    let program: Value = serde_json::from_slice(&program).unwrap();
    assert_eq!(program["inputs"][0], json!({"dtype": "f32", "dims": [4], "axisNames": []}));
    // A body that is another program is not written.
    let error = write::write(&out, description, |_| text(2)).unwrap_err().to_string();
    assert!(
        error.contains("argument 0 ('x0') of @main is tensor<2xf32>, but the manifest's entry N4 says tensor<4xf32>"),
        "{error}"
    );
    assert!(BoundedArtifact::open(&out.join("tlaloc-bounded.json")).is_ok());
}
