//! The tensors of a model's configuration (tensor mode §4).

use serde_json::Value;
use tlaloc_artifact::DType;

use super::error::{Error, Side};
use crate::config::{data_type, integer, list, name, ordinals, shape};
use crate::dtype;

/// What tensor mode needs of `config.pbtxt`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorConfig {
    /// Most rows of a batch; 0 for a model without a batch dimension.
    pub max_batch_size: usize,
    /// Inputs in order.
    pub inputs: Vec<ConfigTensor>,
    /// Outputs in order.
    pub outputs: Vec<ConfigTensor>,
    /// Whether Triton batches requests.
    pub dynamic_batching: bool,
    /// Device ordinals of the instances.
    pub ordinals: Vec<i32>,
}

/// An input or output as declared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigTensor {
    /// Its name.
    pub name: String,
    /// Its element type.
    pub dtype: DType,
    /// Its shape as the program sees it, the batch dimension included; -1 is any size.
    pub shape: Vec<i64>,
}

impl TensorConfig {
    /// Reads and checks the configuration.
    ///
    /// # Errors
    /// [`Error::DataType`], [`Error::Optional`].
    pub fn read(config: &Value) -> Result<Self, Error> {
        let batch = integer(config.get("max_batch_size")).unwrap_or(0);
        let max_batch_size = usize::try_from(batch).unwrap_or(0);
        let tensors = |side, key| -> Result<Vec<ConfigTensor>, Error> {
            let tensors = list(config.get(key)).iter();
            tensors.map(|tensor| ConfigTensor::read(tensor, side, max_batch_size > 0)).collect()
        };
        Ok(TensorConfig {
            max_batch_size,
            inputs: tensors(Side::Input, "input")?,
            outputs: tensors(Side::Output, "output")?,
            dynamic_batching: config.get("dynamic_batching").is_some_and(|value| !value.is_null()),
            ordinals: Self::ordinals(config),
        })
    }

    /// Device ordinals of the instances.
    pub fn ordinals(config: &Value) -> Vec<i32> {
        ordinals(list(config.get("instance_group")))
    }
}

impl ConfigTensor {
    fn read(tensor: &Value, side: Side, batching: bool) -> Result<Self, Error> {
        let (name, found) = (name(tensor), data_type(tensor));
        let Some(dtype) = dtype::from_config(&found) else {
            return Err(Error::DataType { side, name, found });
        };
        if tensor.get("optional").and_then(Value::as_bool) == Some(true) {
            return Err(Error::Optional(name));
        }
        let mut shape = shape(tensor);
        if batching {
            shape.insert(0, -1);
        }
        Ok(ConfigTensor { name, dtype, shape })
    }

    /// Whether a value of these dims is allowed. A shape of exactly `[1]` allows a scalar, too, for
    /// Triton has none.
    pub fn allows(&self, dims: &[usize]) -> bool {
        let sizes = self.shape.iter().zip(dims);
        let fits = |(&size, &dim): (&i64, &usize)| size == -1 || usize::try_from(size) == Ok(dim);
        (self.shape.len() == dims.len() && sizes.into_iter().all(fits))
            || (self.shape == [1] && dims.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(input: Value) -> Result<ConfigTensor, Error> {
        let config = json!({"max_batch_size": 0, "input": [input]});
        Ok(TensorConfig::read(&config)?.inputs.remove(0))
    }

    #[test]
    fn shapes_are_those_the_program_sees() {
        let plain = json!({"name": "X", "data_type": "TYPE_FP32", "dims": ["2", "-1"]});
        assert_eq!(read(plain.clone()).unwrap().shape, [2, -1]);
        let mut reshaped = plain.clone();
        reshaped["reshape"] = json!({"shape": []});
        assert_eq!(read(reshaped).unwrap().shape, [0_i64; 0]);
        let config = json!({"max_batch_size": 8, "output": [plain]});
        let config = TensorConfig::read(&config).unwrap();
        assert_eq!(
            (config.max_batch_size, config.outputs[0].shape.as_slice()),
            (8, &[-1, 2, -1][..])
        );
        assert_eq!(config.ordinals, [0]);
    }

    #[test]
    fn patterns() {
        let tensor = |shape: &[i64]| ConfigTensor {
            name: "X".into(),
            dtype: DType::F32,
            shape: shape.to_vec(),
        };
        assert!(tensor(&[-1, 2]).allows(&[7, 2]));
        assert!(!tensor(&[-1, 2]).allows(&[7, 3]));
        assert!(!tensor(&[-1]).allows(&[]));
        assert!(tensor(&[1]).allows(&[]) && tensor(&[1]).allows(&[1]));
        assert!(!tensor(&[2]).allows(&[]));
        assert!(tensor(&[]).allows(&[]));
    }

    #[test]
    fn tensors_that_cannot_be_served() {
        let error = read(json!({"name": "X", "data_type": "TYPE_STRING", "dims": [1]}));
        assert!(error.unwrap_err().to_string().contains("'X' has data_type TYPE_STRING"));
        let optional =
            json!({"name": "X", "data_type": "TYPE_FP32", "dims": [1], "optional": true});
        assert!(read(optional).unwrap_err().to_string().contains("'X' is optional"));
    }
}
