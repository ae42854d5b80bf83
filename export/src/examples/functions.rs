//! Functions for tensor mode.

use std::path::Path;

use config_gen::pbtxt::{Pbtxt, tensor};
use config_gen::{InstanceGroup, ModelName};
use tlaloc_artifact::DType;

use super::write_file;
use crate::Error;
use crate::stablehlo::{Binary, Compare, Function, Module, Reduce, Unary, Value};

/// A model of one or more bodies.
struct Model {
    name: &'static str,
    /// Comments of its configuration.
    comments: &'static [&'static str],
    max_batch_size: usize,
    inputs: Vec<String>,
    outputs: Vec<String>,
    /// Microseconds that Triton waits for a batch, if it forms batches.
    queue_delay: Option<u32>,
    parameters: &'static [(&'static str, &'static str)],
    /// Name and text of each body.
    bodies: Vec<(String, String)>,
}

const BATCHES: [usize; 4] = [1, 2, 4, 8];
const WIDTHS: [usize; 2] = [4, 8];
/// Elements of a large tensor, of 16 MiB.
const LARGE: usize = 4 << 20;

/// Writes the models into `repository`.
pub(super) fn write(repository: &Path) -> Result<(), Error> {
    let models = [
        matmul_sumsq(),
        dtypes(
            "dtypes",
            &["x x + x of three element types; without an 'entry' parameter @main is served."],
            &[
                ("F64", "TYPE_FP64", DType::F64),
                ("BF16", "TYPE_BF16", DType::Bf16),
                ("I32", "TYPE_INT32", DType::I32),
            ],
        ),
        dtypes(
            "dtypes_small",
            &["x x + x of element types of one and two bytes."],
            &[
                ("F16", "TYPE_FP16", DType::F16),
                ("I8", "TYPE_INT8", DType::I8),
                ("U8", "TYPE_UINT8", DType::U8),
            ],
        ),
        dtypes(
            "integers",
            &["x x + x of the other integers."],
            &[
                ("I16", "TYPE_INT16", DType::I16),
                ("U16", "TYPE_UINT16", DType::U16),
                ("U32", "TYPE_UINT32", DType::U32),
                ("U64", "TYPE_UINT64", DType::U64),
            ],
        ),
        int64_bool(),
        buckets(),
        gradient(
            "grad_batched",
            &[
                "The gradient of the sum of all elements of A A, for each row A.",
                "Concurrent requests share executions of 1, 2, 4 or 8 rows.",
            ],
            Some(200),
        ),
        gradient(
            "grad_unbatched",
            &[
                "The gradient of the sum of all elements of A A, for each row A.",
                "Every request runs alone.",
            ],
            None,
        ),
        ragged(
            "ragged_batched",
            &[
                "x x + x of rows of 4 or of 8.",
                "Requests of one width share an execution wherever they stand in a batch.",
            ],
            &[],
        ),
        ragged(
            "ragged_consecutive",
            &[
                "x x + x of rows of 4 or of 8.",
                "Only requests that stand next to each other in a batch share an execution.",
            ],
            &[("group_by_shape", "false")],
        ),
        large(
            "large_io",
            &[
                "x x + x of 4 Mi values (16 MiB in, 16 MiB out).",
                "Read in place where the client shares memory.",
            ],
            &[],
        ),
        large(
            "large_io_host",
            &[
                "x x + x of 4 Mi values (16 MiB in, 16 MiB out).",
                "Copied, to compare with large_io.",
            ],
            &[("zero_copy", "false")],
        ),
    ];
    models.into_iter().try_for_each(|model| model.write(repository))
}

impl Model {
    fn write(self, repository: &Path) -> Result<(), Error> {
        let name: ModelName = self.name.parse()?;
        let folder = repository.join(self.name);
        let mut config = Pbtxt::start(self.comments, &name, self.max_batch_size);
        config.list("input", &self.inputs);
        config.list("output", &self.outputs);
        if let Some(delay) = self.queue_delay {
            config
                .line(format_args!("dynamic_batching {{ max_queue_delay_microseconds: {delay} }}"));
        }
        config.instance_group(&InstanceGroup::Model);
        let files: Vec<_> = self.bodies.iter().map(|(file, _)| file.as_str()).collect();
        config.parameter("artifact", files.join(", "));
        for (key, value) in self.parameters {
            config.parameter(key, value);
        }
        write_file(&folder.join("config.pbtxt"), config.finish().as_bytes())?;
        for (file, text) in &self.bodies {
            write_file(&folder.join("1").join(file), text.as_bytes())?;
        }
        Ok(())
    }
}

/// The module of one function, made by `build`, which returns its results.
fn module(build: impl FnOnce(&mut Function) -> Vec<Value>) -> String {
    let mut main = Function::new("main");
    let results = build(&mut main);
    main.returns(results);
    Module { main, private: Vec::new() }.text()
}

fn one_body(text: String) -> Vec<(String, String)> {
    vec![("model.mlir".to_owned(), text)]
}

fn square_plus(f: &mut Function, x: &Value) -> Value {
    let square = f.multiply(x, x);
    f.add(&square, x)
}

/// A body that computes `x x + x` for an f32 `x` of these dims.
fn square_plus_of(dims: &[usize]) -> String {
    module(|f| {
        let x = f.parameter("x", DType::F32, dims);
        vec![square_plus(f, &x)]
    })
}

/// The gradient of the sum of all elements of `a a`: `J aᵀ + aᵀ J`, where `J` is all ones. The first
/// `batch` dimensions of `a` are rows.
fn sum_of_square_gradient(f: &mut Function, a: &Value, batch: usize) -> Value {
    let ones = f.float(1.0, DType::F32, a.dims());
    let left = f.batched_dot(&ones, a, batch, (batch + 1, batch + 1));
    let right = f.batched_dot(a, &ones, batch, (batch, batch));
    f.add(&left, &right)
}

fn matmul_sumsq() -> Model {
    let mut f = Function::new("matmul_sumsq_grad");
    let a = f.parameter("a", DType::F32, &[2, 2]);
    let square = f.dot(&a, &a, (1, 0));
    let sums = f.reduce(Reduce::Add, &square, 1);
    let value = f.reduce(Reduce::Add, &sums, 0);
    let gradient = sum_of_square_gradient(&mut f, &a, 0);
    f.returns(vec![value, gradient]);
    Model {
        name: "matmul_sumsq",
        comments: &[
            "The sum of all elements of A A, and its gradient J A^T + A^T J (J is all ones).",
            "The sum is a scalar, which Triton shows as [ 1 ]. The body is a function without a module.",
        ],
        max_batch_size: 0,
        inputs: vec![tensor("A", "TYPE_FP32", &[2, 2])],
        outputs: vec![tensor("VALUE", "TYPE_FP32", &[1]), tensor("GRAD", "TYPE_FP32", &[2, 2])],
        queue_delay: None,
        parameters: &[("entry", "matmul_sumsq_grad")],
        bodies: one_body(f.text()),
    }
}

/// `x x + x` of several element types, each given by the end of its name, in Triton's and our words.
fn dtypes(
    name: &'static str,
    comments: &'static [&'static str],
    dtypes: &[(&str, &str, DType)],
) -> Model {
    let side = |letter: &str| {
        let each = dtypes.iter();
        each.map(|(end, data_type, _)| tensor(&format!("{letter}_{end}"), data_type, &[4]))
            .collect()
    };
    let body = module(|f| {
        let xs: Vec<_> = dtypes
            .iter()
            .map(|(end, _, dtype)| f.parameter(&format!("x{end}"), *dtype, &[4]))
            .collect();
        xs.iter().map(|x| square_plus(f, x)).collect()
    });
    Model {
        name,
        comments,
        max_batch_size: 0,
        inputs: side("X"),
        outputs: side("Y"),
        queue_delay: None,
        parameters: &[],
        bodies: one_body(body),
    }
}

fn int64_bool() -> Model {
    let body = module(|f| {
        let x = f.parameter("x", DType::I64, &[4]);
        let b = f.parameter("b", DType::Bool, &[4]);
        let square = f.multiply(&x, &x);
        let above = f.compare(Compare::Gt, &square, &x);
        vec![f.add(&square, &x), f.binary(Binary::And, &above, &b), f.unary(Unary::Not, &b)]
    });
    Model {
        name: "int64_bool",
        comments: &["Y = x x + x, ABOVE_AND_B = x x > x and b, NOT_B = not b."],
        max_batch_size: 0,
        inputs: vec![tensor("X", "TYPE_INT64", &[4]), tensor("B", "TYPE_BOOL", &[4])],
        outputs: vec![
            tensor("Y", "TYPE_INT64", &[4]),
            tensor("ABOVE_AND_B", "TYPE_BOOL", &[4]),
            tensor("NOT_B", "TYPE_BOOL", &[4]),
        ],
        queue_delay: None,
        parameters: &[],
        bodies: one_body(body),
    }
}

fn buckets() -> Model {
    Model {
        name: "buckets",
        comments: &["x x + x for two lengths; any other is refused."],
        max_batch_size: 0,
        inputs: vec![tensor("X", "TYPE_FP32", &[-1])],
        outputs: vec![tensor("Y", "TYPE_FP32", &[-1])],
        queue_delay: None,
        parameters: &[],
        bodies: WIDTHS.map(|n| (format!("len{n}.mlir"), square_plus_of(&[n]))).to_vec(),
    }
}

fn gradient(
    name: &'static str,
    comments: &'static [&'static str],
    queue_delay: Option<u32>,
) -> Model {
    let body = |batch| {
        module(|f| {
            let a = f.parameter("a", DType::F32, &[batch, 2, 2]);
            vec![sum_of_square_gradient(f, &a, 1)]
        })
    };
    Model {
        name,
        comments,
        max_batch_size: 8,
        inputs: vec![tensor("A", "TYPE_FP32", &[2, 2])],
        outputs: vec![tensor("GRAD", "TYPE_FP32", &[2, 2])],
        queue_delay,
        parameters: &[],
        bodies: BATCHES.map(|batch| (format!("grad_b{batch}.mlir"), body(batch))).to_vec(),
    }
}

fn ragged(
    name: &'static str,
    comments: &'static [&'static str],
    parameters: &'static [(&'static str, &'static str)],
) -> Model {
    let body = |n, batch| (format!("square_plus_b{batch}_n{n}.mlir"), square_plus_of(&[batch, n]));
    Model {
        name,
        comments,
        max_batch_size: 8,
        inputs: vec![
            "{ name: \"X\" data_type: TYPE_FP32 dims: [ -1 ] allow_ragged_batch: true }".to_owned(),
        ],
        outputs: vec![tensor("Y", "TYPE_FP32", &[-1])],
        queue_delay: Some(2000),
        parameters,
        bodies: WIDTHS.iter().flat_map(|n| BATCHES.map(|batch| body(*n, batch))).collect(),
    }
}

fn large(
    name: &'static str,
    comments: &'static [&'static str],
    parameters: &'static [(&'static str, &'static str)],
) -> Model {
    Model {
        name,
        comments,
        max_batch_size: 0,
        inputs: vec![tensor("X", "TYPE_FP32", &[LARGE as i64])],
        outputs: vec![tensor("Y", "TYPE_FP32", &[LARGE as i64])],
        queue_delay: None,
        parameters,
        bodies: one_body(square_plus_of(&[LARGE])),
    }
}
