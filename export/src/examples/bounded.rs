//! Programs with an axis of bounded size.

use std::path::Path;

use config_gen::{InstanceGroup, ModelName, repository};
use tlaloc_artifact::DType;
use tlaloc_artifact::bounded::BoundedArtifact;
use tlaloc_artifact::bounded::manifest::{Axis, Bound, MANIFEST_FILE, PaddingCheck, Sizes, Tensor};
use tlaloc_artifact::bounded::write::{self, Description};

use super::scratch;
use crate::Error;
use crate::stablehlo::{Binary, Function, Module, Reduce, Unary, Value};

/// The bound of the examples.
const BOUND: &str = "ExampleMaxSeq";
/// Its sizes that programs are compiled for.
const BUCKETS: [i64; 3] = [4, 8, 16];
/// Columns of the mean's rows.
const COLUMNS: usize = 4;
/// What padded results may differ from exact ones by, relative to `max(1, max |exact|)`: what a test
/// finds at the sizes on both sides of every bucket's edge is below the first, far below the second.
const DIFFERENCE: f64 = 1e-6;
const TOLERANCE: f64 = 1e-5;

/// Writes the models into `repository`.
pub(super) fn write(repository: &Path) -> Result<(), Error> {
    let mask = told("validMask", "VALID_MASK", vec![bounded()]);
    let length = told("validLength", "VALID_LENGTH", vec![]);
    let rows = data("x0", vec![bounded(), fixed(COLUMNS)]);
    let inputs = vec![rows, mask.clone(), length];
    let outputs = vec![data("y0", vec![fixed(COLUMNS)])];
    add(repository, "bounded_mean", "masked_mean", inputs, outputs, mean)?;
    let (inputs, outputs) =
        (vec![data("x0", vec![bounded()]), mask], vec![data("y0", vec![bounded()])]);
    add(repository, "bounded_softmax", "masked_softmax", inputs, outputs, softmax)
}

fn fixed(size: usize) -> Axis {
    Axis { size: i64::try_from(size).ok(), bound: None }
}

fn bounded() -> Axis {
    Axis { size: None, bound: Some(BOUND.to_owned()) }
}

fn data(name: &str, axes: Vec<Axis>) -> Tensor {
    Tensor {
        name: name.to_owned(),
        role: "DATA".to_owned(),
        dtype: "f32".to_owned(),
        axes,
        bound: None,
    }
}

/// A tensor that tells the real size of the bound.
fn told(kind: &str, role: &str, axes: Vec<Axis>) -> Tensor {
    let bound = Some(BOUND.to_owned());
    Tensor { role: role.to_owned(), bound, ..data(&format!("{kind}_{BOUND}"), axes) }
}

fn add(
    repository: &Path,
    model: &str,
    program: &str,
    inputs: Vec<Tensor>,
    outputs: Vec<Tensor>,
    build: fn(&mut Function, usize) -> Value,
) -> Result<(), Error> {
    let edges = [1, BUCKETS[0], BUCKETS[0] + 1, BUCKETS[1], BUCKETS[1] + 1, BUCKETS[2]];
    let description = Description {
        name: program.to_owned(),
        bounds: vec![Bound { name: BOUND.to_owned(), max: BUCKETS[2], buckets: BUCKETS.to_vec() }],
        padding: 0.0,
        inputs,
        outputs,
        padding_check: PaddingCheck {
            sizes: Some(edges.map(|size| Sizes::from([(BOUND.to_owned(), size)])).to_vec()),
            max_difference: DIFFERENCE,
            tolerance: TOLERANCE,
        },
    };
    let folder = scratch(repository)?;
    write::write(folder.path(), description, |sizes| {
        let size = sizes.get(BOUND).and_then(|size| usize::try_from(*size).ok()).unwrap_or(1);
        let mut main = Function::new("main");
        let result = build(&mut main, size);
        main.returns(vec![result]);
        Module { main, private: Vec::new() }.text()
    })?;
    let artifact = BoundedArtifact::open(&folder.path().join(MANIFEST_FILE))?;
    let name: ModelName = model.parse()?;
    let config = config_gen::bounded_config(&artifact, &name, &InstanceGroup::Model)?;
    repository::write_bounded(&artifact, &name, &config, repository)?;
    Ok(())
}

/// The mean over the real rows.
fn mean(f: &mut Function, rows: usize) -> Value {
    let x = f.parameter("x0", DType::F32, &[rows, COLUMNS]);
    let mask = f.parameter("validMask", DType::F32, &[rows]);
    let length = f.parameter("validLength", DType::F32, &[]);
    let mask = f.broadcast(&mask, &[rows, COLUMNS], &[0]);
    let real = f.multiply(&x, &mask);
    let sum = f.reduce(Reduce::Add, &real, 0);
    let length = f.broadcast(&length, &[COLUMNS], &[]);
    f.binary(Binary::Divide, &sum, &length)
}

/// The softmax of the real elements; what is padding gets a score that leaves nothing of it.
fn softmax(f: &mut Function, elements: usize) -> Value {
    let x = f.parameter("x0", DType::F32, &[elements]);
    let mask = f.parameter("validMask", DType::F32, &[elements]);
    let hidden = f.with_float(Binary::Subtract, &mask, 1.0);
    let hidden = f.with_float(Binary::Multiply, &hidden, 1e9);
    let scores = f.add(&x, &hidden);
    let most = f.reduce(Reduce::Maximum, &scores, 0);
    let most = f.broadcast(&most, &[elements], &[]);
    let below = f.subtract(&scores, &most);
    let weights = f.unary(Unary::Exponential, &below);
    let total = f.reduce(Reduce::Add, &weights, 0);
    let total = f.broadcast(&total, &[elements], &[]);
    f.binary(Binary::Divide, &weights, &total)
}
