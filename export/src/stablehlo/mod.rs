//! A small typed builder of StableHLO text.
//!
//! A [`Function`] is a straight line of operations. Each method appends one operation, infers the
//! result's type and returns a [`Value`]; operands that do not fit are a mistake in the lowering,
//! never in a checkpoint, and are caught by assertions. A [`Module`] prints `@main` and the private
//! functions it calls.
//!
//! Only operations that the lowering or an example uses exist. Gather and scatter exist in the one form each that
//! runs in place on paged pools: rows of a matrix, and `[block, offset]` windows of a pool.

mod literal;
mod ops;
mod reorder;

pub use ops::{Binary, Compare, Reduce, Unary};

use std::collections::HashMap;
use std::fmt::Write as _;
use std::rc::Rc;

use tlaloc_artifact::DType;

/// The result of an operation, or a parameter: a name with element type and shape.
#[derive(Clone, Debug)]
pub struct Value {
    name: Rc<str>,
    dtype: DType,
    dims: Vec<usize>,
}

impl Value {
    /// Element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Shape, outermost dimension first.
    pub fn dims(&self) -> &[usize] {
        &self.dims
    }

    fn ty(&self) -> String {
        type_text(self.dtype, &self.dims)
    }
}

fn type_text(dtype: DType, dims: &[usize]) -> String {
    let mut text = String::from("tensor<");
    for dim in dims {
        let _ = write!(text, "{dim}x");
    }
    text.push_str(dtype.mlir_name());
    text.push('>');
    text
}

struct Parameter {
    value: Value,
    aliased_output: Option<usize>,
}

/// A function under construction.
pub struct Function {
    name: String,
    parameters: Vec<Parameter>,
    results: Vec<Value>,
    body: Vec<String>,
    next: usize,
    constants: HashMap<String, Value>,
}

impl Function {
    /// An empty function, called `name`.
    pub fn new(name: impl Into<String>) -> Function {
        Function {
            name: name.into(),
            parameters: Vec::new(),
            results: Vec::new(),
            body: Vec::new(),
            next: 0,
            constants: HashMap::new(),
        }
    }

    /// Appends a parameter called `name` (letters and digits).
    pub fn parameter(&mut self, name: &str, dtype: DType, dims: &[usize]) -> Value {
        let value = Value { name: format!("%{name}").into(), dtype, dims: dims.to_vec() };
        self.parameters.push(Parameter { value: value.clone(), aliased_output: None });
        value
    }

    /// Appends a parameter whose buffer, once donated, becomes result `output` of the function.
    pub fn aliased_parameter(
        &mut self,
        name: &str,
        dtype: DType,
        dims: &[usize],
        output: usize,
    ) -> Value {
        let value = self.parameter(name, dtype, dims);
        if let Some(parameter) = self.parameters.last_mut() {
            parameter.aliased_output = Some(output);
        }
        value
    }

    /// Ends the function with its results.
    pub fn returns(&mut self, results: Vec<Value>) {
        self.results = results;
    }

    /// Calls `callee` with `arguments`.
    pub fn call(&mut self, callee: &Function, arguments: &[&Value]) -> Vec<Value> {
        assert_eq!(callee.parameters.len(), arguments.len(), "arguments of @{}", callee.name);
        for (parameter, argument) in callee.parameters.iter().zip(arguments) {
            assert_eq!(parameter.value.ty(), argument.ty(), "{}", parameter.value.name);
        }
        let base = self.fresh();
        let many = callee.results.len() > 1;
        let results: Vec<Value> = callee
            .results
            .iter()
            .enumerate()
            .map(|(i, result)| Value {
                name: if many { format!("{base}#{i}").into() } else { base.clone().into() },
                ..result.clone()
            })
            .collect();
        let count = if many { format!(":{}", results.len()) } else { String::new() };
        self.body.push(format!(
            "{base}{count} = func.call @{}({}) : ({}) -> ({})",
            callee.name,
            names(arguments.iter().copied()),
            types(arguments.iter().copied()),
            types(&results),
        ));
        results
    }

    /// The function alone as StableHLO text, without a module around it.
    pub fn text(&self) -> String {
        let mut out = String::new();
        self.print("public", &mut out);
        out
    }

    fn fresh(&mut self) -> String {
        let name = format!("%{}", self.next);
        self.next += 1;
        name
    }

    /// Appends `%n = <text>` and returns its result.
    fn push(&mut self, dtype: DType, dims: Vec<usize>, text: String) -> Value {
        let name = self.fresh();
        self.body.push(format!("{name} = {text}"));
        Value { name: name.into(), dtype, dims }
    }

    fn print(&self, visibility: &str, out: &mut String) {
        let parameters: Vec<String> = self
            .parameters
            .iter()
            .map(|Parameter { value, aliased_output }| {
                let alias = aliased_output
                    .map(|output| format!(" {{tf.aliasing_output = {output} : i32}}"))
                    .unwrap_or_default();
                format!("{}: {}{alias}", value.name, value.ty())
            })
            .collect();
        let _ = writeln!(
            out,
            "  func.func {visibility} @{}({}) -> ({}) {{",
            self.name,
            parameters.join(", "),
            types(&self.results),
        );
        for line in &self.body {
            let _ = writeln!(out, "    {line}");
        }
        let _ = writeln!(out, "    return {} : {}", names(&self.results), types(&self.results));
        out.push_str("  }\n");
    }
}

fn names<'a>(values: impl IntoIterator<Item = &'a Value>) -> String {
    values.into_iter().map(|v| &*v.name).collect::<Vec<_>>().join(", ")
}

fn types<'a>(values: impl IntoIterator<Item = &'a Value>) -> String {
    values.into_iter().map(Value::ty).collect::<Vec<_>>().join(", ")
}

/// A program: `@main` and the private functions it calls.
pub struct Module {
    /// The entry function; must be called `main`.
    pub main: Function,
    /// Functions that `main` calls.
    pub private: Vec<Function>,
}

impl Module {
    /// The module as StableHLO text.
    pub fn text(&self) -> String {
        let mut out = String::from("module @program {\n");
        self.main.print("public", &mut out);
        for function in &self.private {
            function.print("private", &mut out);
        }
        out.push_str("}\n");
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::{Array, client, run};

    /// The sum of `x` over `x[0..n]` and the number of runs, by slices taken in a loop.
    #[test]
    fn a_loop_runs_as_often_as_it_is_told() {
        let Some(client) = client() else { return };
        let mut f = Function::new("main");
        let x = f.parameter("x", DType::F32, &[5]);
        let n = f.parameter("n", DType::I32, &[]);
        let (sum, count) = (f.float(0.0, DType::F32, &[1]), f.int(0, &[]));
        let [sum, count] = f.repeat(&n, [&sum, &count], &[&x], |f, i, [sum, count], fixed| {
            let element = f.dynamic_slice(&fixed[0], 0, i, 1);
            [f.add(&sum, &element), f.with_int(Binary::Add, &count, 1)]
        });
        f.returns(vec![sum, count]);
        let text = Module { main: f, private: Vec::new() }.text();
        let program = client.compile(&text).unwrap();
        for (n, expected) in [(0, 0.0), (1, 1.0), (3, 7.0), (5, 31.0)] {
            let x = Array::f32(&[5], &[1.0, 2.0, 4.0, 8.0, 16.0]);
            let results = run(&program, &[x, Array::i32(&[], &[n])]);
            assert_eq!(results[0].f32s(), [expected]);
            assert_eq!(results[1], Array::i32(&[], &[n]));
        }
    }
}
