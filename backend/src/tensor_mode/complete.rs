//! Fills in what a configuration leaves out: inputs and outputs as the artifacts have them.

use serde_json::{Value, json};

use super::error::{Error, Side};
use super::signature::Signature;
use crate::config::{data_type, dims, integer, list};
use crate::dtype;
use crate::settings::TensorSettings;

/// Whether a configuration leaves an input or output out, or its type or shape.
pub fn is_incomplete(config: &Value) -> bool {
    ["input", "output"].into_iter().any(|key| {
        let tensors = list(config.get(key));
        tensors.is_empty() || tensors.iter().any(lacks)
    })
}

/// The configuration with every input and output that the signatures tell of. What is written stays,
/// and a list that is written gets no further members.
///
/// # Errors
/// [`Error::Malformed`] for a binding list that cannot be read.
pub fn completed(
    config: &Value,
    settings: &TensorSettings,
    signatures: &[Signature],
) -> Result<Value, Error> {
    let mut config = config.clone();
    let batching = integer(config.get("max_batch_size")).unwrap_or(0) > 0;
    for (side, key, binding) in
        [(Side::Input, "input", &settings.arguments), (Side::Output, "output", &settings.results)]
    {
        let values = bound(side, binding.as_deref(), signatures)?;
        let mut tensors = list(config.get(key)).to_vec();
        if tensors.is_empty() {
            tensors = values.iter().map(|value| json!({ "name": value.name })).collect();
        }
        for (index, tensor) in tensors.iter_mut().enumerate() {
            let value = match binding {
                Some(_) => values.iter().find(|value| tensor["name"] == *value.name),
                None => values.get(index),
            };
            if let Some(value) = value.filter(|_| lacks(tensor)) {
                value.fill(tensor, signatures, batching);
            }
        }
        config[key] = Value::Array(tensors);
    }
    Ok(config)
}

/// Whether a tensor has no type or no shape.
fn lacks(tensor: &Value) -> bool {
    data_type(tensor) == "TYPE_INVALID" || dims(tensor).is_empty()
}

/// An argument or result that is a tensor of the configuration.
struct Bound {
    name: String,
    side: Side,
    index: usize,
}

/// The arguments that are inputs, or the results that are outputs: those that the binding names, and
/// without one all of them, under the names that Triton's other backends give to tensors without.
fn bound(side: Side, binding: Option<&str>, signatures: &[Signature]) -> Result<Vec<Bound>, Error> {
    let Some(binding) = binding else {
        let of_first = |signature: &Signature| match side {
            Side::Input => signature.arguments.len(),
            Side::Output => signature.results.len(),
        };
        let prefix = side.tensor().to_uppercase();
        let count = signatures.first().map_or(0, of_first);
        let bound = |index| Bound { name: format!("{prefix}__{index}"), side, index };
        return Ok((0..count).map(bound).collect());
    };
    let mut values = Vec::new();
    for (index, item) in binding.split(',').map(str::trim).enumerate() {
        let malformed = || Error::Malformed { side, item: item.to_owned() };
        let (kind, name) = item.split_once(':').ok_or_else(malformed)?;
        if kind.trim() == side.tensor() {
            values.push(Bound { name: name.trim().to_owned(), side, index });
        }
    }
    Ok(values)
}

impl Bound {
    /// Writes type and shape; a dimension in which artifacts differ is -1.
    fn fill(&self, tensor: &mut Value, signatures: &[Signature], batching: bool) {
        let of = |signature: &Signature| {
            let values = match self.side {
                Side::Input => &signature.arguments,
                Side::Output => &signature.results,
            };
            values.get(self.index).cloned()
        };
        let mut shape: Option<Vec<i64>> = None;
        let mut dtype = None;
        for value in signatures.iter().filter_map(of) {
            let skipped = usize::from(batching);
            let dims = value.dims().iter().skip(skipped);
            let dims: Vec<i64> = dims.map(|dim| i64::try_from(*dim).unwrap_or(-1)).collect();
            dtype.get_or_insert(value.dtype());
            match &mut shape {
                None => shape = Some(dims),
                Some(shape) => {
                    for (size, dim) in shape.iter_mut().zip(dims) {
                        if *size != dim {
                            *size = -1;
                        }
                    }
                }
            }
        }
        if data_type(tensor) == "TYPE_INVALID"
            && let Some(data_type) = dtype.and_then(dtype::data_type)
        {
            tensor["data_type"] = json!(format!("TYPE_{data_type}"));
        }
        if dims(tensor).is_empty()
            && let Some(mut shape) = shape
        {
            // Triton has no scalars.
            if shape.is_empty() {
                shape.push(1);
            }
            tensor["dims"] = json!(shape);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tlaloc_artifact::{DType, Tensor};

    fn signature(arguments: &[(DType, &[usize])], results: &[(DType, &[usize])]) -> Signature {
        let tensors = |values: &[(DType, &[usize])]| {
            values.iter().map(|(dtype, dims)| Tensor::new(*dtype, *dims).unwrap()).collect()
        };
        Signature {
            file: "m.mlir".into(),
            function: "main".into(),
            arguments: tensors(arguments),
            results: tensors(results),
        }
    }

    fn settings(arguments: Option<&str>, results: Option<&str>) -> TensorSettings {
        TensorSettings {
            artifacts: Vec::new(),
            entry: None,
            arguments: arguments.map(str::to_owned),
            results: results.map(str::to_owned),
        }
    }

    #[test]
    fn an_empty_configuration_is_filled() {
        let signatures = [
            signature(&[(DType::F32, &[4, 2]), (DType::I16, &[])], &[(DType::Bool, &[4])]),
            signature(&[(DType::F32, &[8, 2]), (DType::I16, &[])], &[(DType::Bool, &[8])]),
        ];
        let config = json!({"max_batch_size": 0, "input": [], "output": []});
        assert!(is_incomplete(&config));
        let filled = completed(&config, &settings(None, None), &signatures).unwrap();
        let inputs = json!([
            {"name": "INPUT__0", "data_type": "TYPE_FP32", "dims": [-1, 2]},
            {"name": "INPUT__1", "data_type": "TYPE_INT16", "dims": [1]},
        ]);
        assert_eq!(filled["input"], inputs);
        let outputs = json!([{"name": "OUTPUT__0", "data_type": "TYPE_BOOL", "dims": [-1]}]);
        assert_eq!(filled["output"], outputs);
        assert!(!is_incomplete(&filled));
    }

    #[test]
    fn bindings_name_the_tensors() {
        let signatures = [signature(
            &[(DType::F32, &[3]), (DType::F32, &[8, 4]), (DType::F32, &[9])],
            &[(DType::F32, &[9]), (DType::F32, &[8, 1])],
        )];
        let bindings = settings(Some("weight:w, input: X, state:s"), Some("state:s, output:Y"));
        let filled = completed(&json!({"max_batch_size": 8}), &bindings, &signatures).unwrap();
        let tensor = |name, dim| json!([{"name": name, "data_type": "TYPE_FP32", "dims": [dim]}]);
        assert_eq!((&filled["input"], &filled["output"]), (&tensor("X", 4), &tensor("Y", 1)));
        let error = completed(&json!({}), &settings(Some("X"), None), &signatures).unwrap_err();
        assert!(error.to_string().contains("argument 'X'"));
    }

    #[test]
    fn what_is_written_stays() {
        let signatures = [signature(&[(DType::F32, &[3][..]); 2], &[(DType::F32, &[3])])];
        let config = json!({
            "input": [{"name": "A", "data_type": "TYPE_INT8", "dims": []}],
            "output": [{"name": "Y", "data_type": "TYPE_INVALID", "dims": ["-1"]}],
        });
        let filled = completed(&config, &settings(None, None), &signatures).unwrap();
        let input = json!([{"name": "A", "data_type": "TYPE_INT8", "dims": [3]}]);
        assert_eq!(filled["input"], input);
        let output = json!([{"name": "Y", "data_type": "TYPE_FP32", "dims": ["-1"]}]);
        assert_eq!(filled["output"], output);
    }
}
