//! The types of a function, and whether they are those that the configuration declares (tensor mode
//! §7).

use std::fmt;

use tlaloc_artifact::Tensor;
use tlaloc_artifact::stablehlo::{Function, Value};

use super::binding::{Argument, Plan, Target};
use super::config::{ConfigTensor, TensorConfig};
use super::error::{Error, Side};
use crate::dtype::data_type;

/// Arguments and results of the function that an artifact is served by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// The artifact's file, as configured.
    pub file: String,
    /// The function's name.
    pub function: String,
    /// Types of its arguments.
    pub arguments: Vec<Tensor>,
    /// Types of its results.
    pub results: Vec<Tensor>,
}

impl Signature {
    /// The signature of a function in a text.
    ///
    /// # Errors
    /// [`Error::Value`] for a type that has no fixed size or no supported element type.
    pub fn of(file: &str, function: &Function) -> Result<Self, Error> {
        let tensors = |side: Side, values: &[Value]| {
            let tensor = |(index, value): (usize, &Value)| {
                value.ty.tensor().ok_or_else(|| Error::Value {
                    file: file.to_owned(),
                    value: format!("{} {index}", side.value()),
                    function: function.name.clone(),
                    found: value.ty.text.clone(),
                    reason: unserved(value).to_owned(),
                })
            };
            values.iter().enumerate().map(tensor).collect::<Result<Vec<_>, _>>()
        };
        Ok(Signature {
            file: file.to_owned(),
            function: function.name.clone(),
            arguments: tensors(Side::Input, &function.arguments)?,
            results: tensors(Side::Output, &function.results)?,
        })
    }

    /// The rows of a batch: dim 0 of the inputs and outputs.
    pub fn batch(&self, plan: &Plan) -> usize {
        let input = plan.argument_of_input(0).and_then(|argument| self.arguments.get(argument));
        input.and_then(|tensor| tensor.dims().first()).copied().unwrap_or(0)
    }

    fn error(&self, value: impl fmt::Display, found: &Tensor, reason: String) -> Error {
        Error::Value {
            file: self.file.clone(),
            value: value.to_string(),
            function: self.function.clone(),
            found: found.to_string(),
            reason,
        }
    }

    /// What is on one side, with what it is bound to.
    fn bound<'a>(&'a self, plan: &'a Plan, config: &'a TensorConfig) -> Vec<Bound<'a>> {
        let arguments = plan.arguments.iter().zip(&self.arguments).enumerate();
        let arguments = arguments.map(|(index, (argument, tensor))| {
            let declared = match argument {
                Argument::Input(input) => config.inputs.get(*input),
                Argument::Weight(_) | Argument::State(_) => None,
            };
            Bound { side: Side::Input, index, tensor, declared }
        });
        let results = plan.results.iter().zip(&self.results).enumerate();
        let results = results.map(|(index, (target, tensor))| {
            let declared = match target {
                Target::Output(output) => config.outputs.get(*output),
                Target::State(_) => None,
            };
            Bound { side: Side::Output, index, tensor, declared }
        });
        arguments.chain(results).collect()
    }
}

/// An argument or result; the tensor of the configuration if it is one's.
struct Bound<'a> {
    side: Side,
    index: usize,
    tensor: &'a Tensor,
    declared: Option<&'a ConfigTensor>,
}

impl fmt::Display for Bound<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (side, index) = (self.side, self.index);
        match self.declared {
            Some(declared) => {
                write!(f, "{} '{}' ({} {index})", side.tensor(), declared.name, side.value())
            }
            None => write!(f, "{} {index}", side.value()),
        }
    }
}

fn unserved(value: &Value) -> &'static str {
    if value.ty.dims.contains(&None) {
        "with a dynamic dimension; export one artifact for each shape"
    } else if value.ty.dtype.is_none() {
        "which is no ranked tensor of a supported element type"
    } else {
        "which no memory holds"
    }
}

/// Checks the signatures of all artifacts of a model, in order, against its configuration and
/// against each other.
///
/// # Errors
/// The first rule of §7 that is broken.
pub fn check(signatures: &[Signature], plan: &Plan, config: &TensorConfig) -> Result<(), Error> {
    for signature in signatures {
        check_counts(signature, plan)?;
        for bound in signature.bound(plan, config) {
            check_declared(signature, &bound, config.max_batch_size > 0)?;
        }
        check_states(signature, plan)?;
        if let Some(first) = signatures.first() {
            check_shared(signature, first, plan)?;
        }
    }
    for (index, signature) in signatures.iter().enumerate() {
        let dims = |signature: &Signature| -> Vec<Vec<usize>> {
            signature.arguments.iter().map(|tensor| tensor.dims().to_vec()).collect()
        };
        let twin = signatures[..index].iter().find(|other| dims(other) == dims(signature));
        if let Some(twin) = twin {
            return Err(Error::SameShapes {
                first: twin.file.clone(),
                second: signature.file.clone(),
            });
        }
    }
    if config.max_batch_size > 0 {
        for signature in signatures {
            check_batch(signature, plan, config)?;
        }
        let largest = signatures.iter().map(|signature| signature.batch(plan)).max().unwrap_or(0);
        if largest < config.max_batch_size {
            return Err(Error::SmallBatches { max_batch_size: config.max_batch_size, largest });
        }
    }
    Ok(())
}

fn check_counts(signature: &Signature, plan: &Plan) -> Result<(), Error> {
    for (side, found, bound) in [
        (Side::Input, signature.arguments.len(), plan.arguments.len()),
        (Side::Output, signature.results.len(), plan.results.len()),
    ] {
        if found != bound {
            return Err(Error::Count {
                file: signature.file.clone(),
                function: signature.function.clone(),
                side,
                found,
                bound,
            });
        }
    }
    Ok(())
}

/// Element type and shape of an input or output.
fn check_declared(signature: &Signature, bound: &Bound<'_>, batching: bool) -> Result<(), Error> {
    let Some(declared) = bound.declared else { return Ok(()) };
    let refuse = |reason| Err(signature.error(bound, bound.tensor, reason));
    if bound.tensor.dtype() != declared.dtype {
        let says = data_type(declared.dtype).map(|data_type| data_type.to_string());
        return refuse(format!("but config.pbtxt says {}", says.unwrap_or_default()));
    }
    if batching && bound.tensor.dims().is_empty() {
        return refuse("but needs a batch dimension, as max_batch_size > 0".to_owned());
    }
    if !declared.allows(bound.tensor.dims()) {
        return refuse(format!("but config.pbtxt allows shape {}", shape(&declared.shape)));
    }
    Ok(())
}

/// A state's result becomes its argument.
fn check_states(signature: &Signature, plan: &Plan) -> Result<(), Error> {
    for state in &plan.states {
        let argument = signature.arguments.get(state.argument);
        let result = signature.results.get(state.result);
        if let (Some(argument), Some(result)) = (argument, result)
            && argument != result
        {
            let value = format!("result {} (state '{}')", state.result, state.name);
            let reason = format!("but argument {}, which reads it, is {argument}", state.argument);
            return Err(signature.error(value, result, reason));
        }
    }
    Ok(())
}

/// Weights and states serve all artifacts.
fn check_shared(signature: &Signature, first: &Signature, plan: &Plan) -> Result<(), Error> {
    let arguments = plan.arguments.iter().zip(&signature.arguments).zip(&first.arguments);
    for (index, ((argument, tensor), of_first)) in arguments.enumerate() {
        let what = match argument {
            Argument::Input(_) => continue,
            Argument::Weight(weight) => {
                plan.weights.get(*weight).map(|file| format!("weight '{file}'"))
            }
            Argument::State(state) => {
                plan.states.get(*state).map(|state| format!("state '{}'", state.name))
            }
        };
        if tensor != of_first {
            let value = format!("argument {index} ({})", what.unwrap_or_default());
            let reason = format!("but {of_first} in {}", first.file);
            return Err(signature.error(value, tensor, reason));
        }
    }
    Ok(())
}

/// One batch for all inputs and outputs.
fn check_batch(signature: &Signature, plan: &Plan, config: &TensorConfig) -> Result<(), Error> {
    let batch = signature.batch(plan);
    for bound in signature.bound(plan, config) {
        let found = bound.tensor.dims().first().copied();
        if bound.declared.is_some() && found != Some(batch) {
            let first = config.inputs.first().map_or("", |input| &input.name);
            let reason =
                format!("but input '{first}' has {batch} rows, and all must have the same");
            return Err(signature.error(&bound, bound.tensor, reason));
        }
    }
    Ok(())
}

/// A shape as the messages of tensor mode write it: `[2,-1]`.
pub fn shape(dims: &[impl fmt::Display]) -> String {
    let dims: Vec<String> = dims.iter().map(ToString::to_string).collect();
    format!("[{}]", dims.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::TensorSettings;
    use serde_json::{Value as Json, json};
    use tlaloc_artifact::stablehlo::Module;

    fn tensor(name: &str, data_type: &str, dims: Json) -> Json {
        json!({"name": name, "data_type": data_type, "dims": dims})
    }

    /// Checks functions written `(arguments) -> results` against one input A and one output Y.
    fn checked(
        functions: &[&str],
        input: Json,
        output: Json,
        max_batch_size: usize,
        lists: Option<(&str, &str)>,
    ) -> Result<(), String> {
        let config =
            json!({"max_batch_size": max_batch_size, "input": [input], "output": [output]});
        let config = TensorConfig::read(&config).unwrap();
        let settings = TensorSettings {
            artifacts: Vec::new(),
            entry: None,
            arguments: lists.map(|(arguments, _)| arguments.to_owned()),
            results: lists.map(|(_, results)| results.to_owned()),
        };
        let plan = Plan::read(&settings, &config).unwrap();
        let signatures: Result<Vec<_>, _> = functions
            .iter()
            .enumerate()
            .map(|(index, function)| {
                let module = Module::parse(&format!("func.func @f{function} {{}}")).unwrap();
                Signature::of(&format!("{index}.mlir"), &module.functions[0])
            })
            .collect();
        check(&signatures.map_err(|e| e.to_string())?, &plan, &config).map_err(|e| e.to_string())
    }

    fn pair(dims: Json) -> (Json, Json) {
        (tensor("A", "TYPE_FP32", dims.clone()), tensor("Y", "TYPE_FP32", dims))
    }

    #[test]
    fn programs_that_fit() {
        let (a, y) = pair(json!([2, 2]));
        let f = "(%a: tensor<2x2xf32>) -> tensor<2x2xf32>";
        checked(&[f], a, y, 0, None).unwrap();
        let scalar = tensor("Y", "TYPE_FP32", json!([1]));
        let a = tensor("A", "TYPE_FP32", json!([-1]));
        let buckets = ["(%a: tensor<4xf32>) -> tensor<f32>", "(%a: tensor<8xf32>) -> tensor<f32>"];
        checked(&buckets, a, scalar, 0, None).unwrap();
        let (a, y) = pair(json!([-1]));
        let rows = [
            "(%a: tensor<1x4xf32>) -> tensor<1x4xf32>",
            "(%a: tensor<8x4xf32>) -> tensor<8x4xf32>",
            "(%a: tensor<8x8xf32>) -> tensor<8x8xf32>",
        ];
        checked(&rows, a.clone(), y.clone(), 8, None).unwrap();
        let state = "(%a: tensor<4xf32>, %w: tensor<3xf8E4M3FN>, %s: tensor<2xi32>) -> (tensor<4xf32>, tensor<2xi32>)";
        let lists = Some(("input:A, weight:w, state:s", "output:Y, state:s"));
        checked(&[state], a, y, 0, lists).unwrap();
    }

    #[test]
    fn every_flaw_is_refused_by_name() {
        let lists = Some(("input:A, weight:w, state:s", "output:Y, state:s"));
        let square = "(%a: tensor<2x2xf32>) -> tensor<2x2xf32>";
        type Case<'a> = (&'a [&'a str], &'a str, Json, usize, Option<(&'a str, &'a str)>, &'a str);
        let cases: [Case<'_>; 15] = [
            (
                &[square],
                "TYPE_FP64",
                json!([2, 2]),
                0,
                None,
                "0.mlir: input 'A' (argument 0) of @f is tensor<2x2xf32> but config.pbtxt says FP64",
            ),
            (
                &[square],
                "TYPE_FP32",
                json!([4]),
                0,
                None,
                "is tensor<2x2xf32> but config.pbtxt allows shape [4]",
            ),
            (
                &[square],
                "TYPE_FP32",
                json!([2, 3]),
                0,
                None,
                "is tensor<2x2xf32> but config.pbtxt allows shape [2,3]",
            ),
            (
                &["(%a: tensor<f32>) -> tensor<f32>"],
                "TYPE_FP32",
                json!([-1]),
                0,
                None,
                "is tensor<f32> but config.pbtxt allows shape [-1]",
            ),
            (
                &["(%a: tensor<f32>) -> tensor<f32>"],
                "TYPE_FP32",
                json!([1]),
                4,
                None,
                "is tensor<f32> but needs a batch dimension",
            ),
            (
                &["() -> tensor<2x2xf32>"],
                "TYPE_FP32",
                json!([2, 2]),
                0,
                None,
                "@f has 0 arguments, but config.pbtxt binds 1",
            ),
            (
                &["(%a: tensor<2x2xf32>)"],
                "TYPE_FP32",
                json!([2, 2]),
                0,
                None,
                "@f has 0 results, but config.pbtxt binds 1",
            ),
            (
                &["(%a: tensor<?x2xf32>) -> tensor<2x2xf32>"],
                "TYPE_FP32",
                json!([-1, 2]),
                0,
                None,
                "argument 0 of @f is tensor<?x2xf32> with a dynamic dimension; export one artifact for each shape",
            ),
            (
                &["(%a: tensor<8xcomplex<f32>>) -> tensor<8xf32>"],
                "TYPE_FP32",
                json!([8]),
                0,
                None,
                "tensor<8xcomplex<f32>> which is no ranked tensor",
            ),
            (
                &["(%a: tensor<*xf32>) -> tensor<8xf32>"],
                "TYPE_FP32",
                json!([8]),
                0,
                None,
                "tensor<*xf32> which is no ranked tensor",
            ),
            (
                &[square, square],
                "TYPE_FP32",
                json!([2, 2]),
                0,
                None,
                "artifacts '0.mlir' and '1.mlir' take arguments of the same shapes",
            ),
            (
                &[square],
                "TYPE_FP32",
                json!([2]),
                4,
                None,
                "max_batch_size is 4 but the largest artifact takes batch 2",
            ),
            (
                &["(%a: tensor<2x2xf32>) -> tensor<4x2xf32>"],
                "TYPE_FP32",
                json!([2]),
                2,
                None,
                "output 'Y' (result 0) of @f is tensor<4x2xf32> but input 'A' has 2 rows",
            ),
            (
                &[
                    "(%a: tensor<4xf32>, %w: tensor<3xf32>, %s: tensor<2xi32>) -> (tensor<4xf32>, tensor<3xi32>)",
                ],
                "TYPE_FP32",
                json!([4]),
                0,
                lists,
                "result 1 (state 's') of @f is tensor<3xi32> but argument 2, which reads it, is tensor<2xi32>",
            ),
            (
                &[
                    "(%a: tensor<4xf32>, %w: tensor<3xf32>, %s: tensor<2xi32>) -> (tensor<4xf32>, tensor<2xi32>)",
                    "(%a: tensor<8xf32>, %w: tensor<3xbf16>, %s: tensor<2xi32>) -> (tensor<8xf32>, tensor<2xi32>)",
                ],
                "TYPE_FP32",
                json!([-1]),
                0,
                lists,
                "1.mlir: argument 1 (weight 'w') of @f is tensor<3xbf16> but tensor<3xf32> in 0.mlir",
            ),
        ];
        for (functions, data_type, dims, max_batch_size, lists, needle) in cases {
            let (input, output) =
                (tensor("A", data_type, dims.clone()), tensor("Y", "TYPE_FP32", dims));
            let error = checked(functions, input, output, max_batch_size, lists).unwrap_err();
            assert!(error.contains(needle), "expected {needle:?} in {error:?}");
        }
    }
}
