//! Whether a configuration declares the tensors of a bounded program (bounded mode §3).

use serde_json::Value;
use tlaloc_artifact::DType;
use tlaloc_artifact::bounded::{BoundedArtifact, BoundedTensor};

use super::error::Error;
use crate::config::{data_type, integer, list, name, shape};

/// Checks the configuration and returns the program's only output.
///
/// # Errors
/// [`Error::MaxBatchSize`], [`Error::Outputs`], [`Error::Config`].
pub fn check<'a>(
    config: &Value,
    artifact: &'a BoundedArtifact,
) -> Result<&'a BoundedTensor, Error> {
    match integer(config.get("max_batch_size")).unwrap_or(0) {
        0 => {}
        batch => return Err(Error::MaxBatchSize(batch)),
    }
    let outputs = |found: String| Error::Outputs { program: artifact.name.clone(), found };
    let output = match artifact.outputs.as_slice() {
        [output] if output.dtype == DType::F32 => output,
        [other] => return Err(outputs(format!("the output '{}' of {}", other.name, other.dtype))),
        many => return Err(outputs(format!("{} outputs", many.len()))),
    };
    let inputs: Vec<_> = artifact.data_inputs().collect();
    same("input", list(config.get("input")), &inputs)?;
    same("output", list(config.get("output")), &[output])?;
    Ok(output)
}

fn same(side: &str, declared: &[Value], tensors: &[&BoundedTensor]) -> Result<(), Error> {
    if declared.len() != tensors.len() {
        let names: Vec<_> = tensors.iter().map(|tensor| format!("'{}'", tensor.name)).collect();
        return Err(Error::Config {
            found: format!("{} {side}s", declared.len()),
            expected: format!("{} ({})", tensors.len(), names.join(", ")),
        });
    }
    for (declared, tensor) in declared.iter().zip(tensors) {
        let found = described(side, &name(declared), &data_type(declared), &shape(declared));
        let data_type = crate::dtype::data_type(tensor.dtype);
        let data_type = data_type.map(|data_type| format!("TYPE_{data_type}"));
        let expected =
            described(side, &tensor.name, &data_type.unwrap_or_default(), &tensor.config_dims());
        if found != expected {
            return Err(Error::Config { found, expected });
        }
    }
    Ok(())
}

fn described(side: &str, name: &str, data_type: &str, dims: &[i64]) -> String {
    format!("{side} '{name}' {data_type} {dims:?}")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::*;

    /// A program of two inputs; `change` makes it another.
    fn artifact(change: impl FnOnce(&mut Value)) -> BoundedArtifact {
        let body = |n| {
            json!({
                "id": format!("N{n}"), "sizes": {"N": n}, "entryPoint": "main",
                "bodyPath": "b.mlir", "programPath": "p.json"
            })
        };
        let tensor = |name, dtype, axes: Value| json!({"name": name, "role": "DATA", "dtype": dtype, "axes": axes});
        let mut manifest = json!({
            "schemaVersion": "tlaloc-bounded-v1",
            "name": "program",
            "bounds": [{"name": "N", "max": 8, "buckets": [4, 8]}],
            "padding": {"value": 0},
            "inputs": [
                tensor("x0", "f32", json!([{"bound": "N"}, {"size": 3}])),
                tensor("ids", "i32", json!([{"bound": "N"}])),
                {"name": "m", "role": "VALID_MASK", "dtype": "f32", "axes": [{"bound": "N"}], "bound": "N"}
            ],
            "outputs": [tensor("y0", "f32", json!([{"bound": "N"}]))],
            "entries": [body(4), body(8)],
            "paddingCheck": {"maxDifference": 0, "tolerance": 0}
        });
        change(&mut manifest);
        BoundedArtifact::parse(Path::new("m.json"), manifest.to_string().as_bytes()).unwrap()
    }

    fn good() -> Value {
        json!({
            "max_batch_size": 0,
            "input": [
                {"name": "x0", "data_type": "TYPE_FP32", "dims": ["-1", "3"]},
                {"name": "ids", "data_type": "TYPE_INT32", "dims": [-1]}
            ],
            "output": [{"name": "y0", "data_type": "TYPE_FP32", "dims": [-1]}]
        })
    }

    #[test]
    fn a_configuration_that_fits() {
        let artifact = artifact(|_| {});
        assert_eq!(check(&good(), &artifact).unwrap().name, "y0");
        let mut config = good();
        config.as_object_mut().unwrap().remove("max_batch_size");
        check(&config, &artifact).unwrap();
    }

    #[test]
    fn every_flaw_is_refused_by_name() {
        type Flaw = fn(&mut Value);
        let flaws: [(Flaw, &str); 9] = [
            (|c| c["max_batch_size"] = json!(4), "max_batch_size is 4, but bounded mode"),
            (
                |c| _ = c["input"].as_array_mut().unwrap().pop(),
                "declares 1 inputs, but the bounded program has 2 ('x0', 'ids')",
            ),
            (
                |c| c["input"].as_array_mut().unwrap().swap(0, 1),
                "declares input 'ids' TYPE_INT32 [-1], but the bounded program has input 'x0' TYPE_FP32 [-1, 3]",
            ),
            (|c| c["input"][0]["name"] = json!("x1"), "declares input 'x1'"),
            (
                |c| c["input"][1]["data_type"] = json!("TYPE_INT64"),
                "declares input 'ids' TYPE_INT64",
            ),
            // A fixed size is not taken for a bounded axis.
            (|c| c["input"][0]["dims"] = json!([8, 3]), "declares input 'x0' TYPE_FP32 [8, 3]"),
            (|c| c["input"][0]["dims"] = json!([-1, -1]), "declares input 'x0' TYPE_FP32 [-1, -1]"),
            (|c| c["input"][1]["dims"] = json!([-1, 1]), "declares input 'ids' TYPE_INT32 [-1, 1]"),
            (
                |c| c["output"][0]["dims"] = json!([8]),
                "declares output 'y0' TYPE_FP32 [8], but the bounded program has output 'y0' TYPE_FP32 [-1]",
            ),
        ];
        for (flaw, needle) in flaws {
            let mut config = good();
            flaw(&mut config);
            let error = check(&config, &artifact(|_| {})).unwrap_err().to_string();
            assert!(error.contains(needle), "expected {needle:?} in {error:?}");
        }
    }

    #[test]
    fn programs_with_other_outputs_are_refused() {
        let integers = artifact(|m| m["outputs"][0]["dtype"] = json!("i32"));
        let error = check(&good(), &integers).unwrap_err().to_string();
        assert!(error.contains("has the output 'y0' of i32"), "{error}");
        let two = artifact(|m| {
            let mut output = m["outputs"][0].clone();
            output["name"] = json!("y1");
            m["outputs"].as_array_mut().unwrap().push(output);
        });
        let error = check(&good(), &two).unwrap_err().to_string();
        assert!(error.contains("'program' has 2 outputs"), "{error}");
    }
}
