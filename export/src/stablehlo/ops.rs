//! The operations.

use std::fmt;

use tlaloc_artifact::DType;

use super::{Function, Value, literal, names, type_text, types};

/// Elementwise operations of two operands of one type.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "each variant is the operation it names")]
pub enum Binary {
    Add,
    And,
    Divide,
    Maximum,
    Minimum,
    Multiply,
    Remainder,
    ShiftLeft,
    ShiftRightArithmetic,
    Subtract,
}

impl fmt::Display for Binary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Binary::Add => "add",
            Binary::And => "and",
            Binary::Divide => "divide",
            Binary::Maximum => "maximum",
            Binary::Minimum => "minimum",
            Binary::Multiply => "multiply",
            Binary::Remainder => "remainder",
            Binary::ShiftLeft => "shift_left",
            Binary::ShiftRightArithmetic => "shift_right_arithmetic",
            Binary::Subtract => "subtract",
        })
    }
}

/// Elementwise operations of one operand.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "each variant is the operation it names")]
pub enum Unary {
    Abs,
    Cosine,
    Exponential,
    LogPlusOne,
    Logistic,
    Negate,
    Not,
    Rsqrt,
    Sine,
    Tanh,
}

impl fmt::Display for Unary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unary::Abs => "abs",
            Unary::Cosine => "cosine",
            Unary::Exponential => "exponential",
            Unary::LogPlusOne => "log_plus_one",
            Unary::Logistic => "logistic",
            Unary::Negate => "negate",
            Unary::Not => "not",
            Unary::Rsqrt => "rsqrt",
            Unary::Sine => "sine",
            Unary::Tanh => "tanh",
        })
    }
}

/// Reductions, each with its own starting value.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "each variant is the operation it names")]
pub enum Reduce {
    Add,
    Maximum,
    Minimum,
}

/// Comparisons.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "each variant is the operation it names")]
pub enum Compare {
    Eq,
    Gt,
    Le,
    Lt,
}

impl Function {
    fn constant(&mut self, dtype: DType, dims: &[usize], literal: &str) -> Value {
        let text = format!("stablehlo.constant dense<{literal}> : {}", type_text(dtype, dims));
        if let Some(known) = self.constants.get(&text) {
            return known.clone();
        }
        let value = self.push(dtype, dims.to_vec(), text.clone());
        self.constants.insert(text, value.clone());
        value
    }

    /// A float constant with one value everywhere.
    pub fn float(&mut self, value: f32, dtype: DType, dims: &[usize]) -> Value {
        let literal = literal::float(value, dtype);
        self.constant(dtype, dims, &literal)
    }

    /// An f32 vector constant.
    pub fn floats(&mut self, values: &[f32]) -> Value {
        let literals: Vec<_> = values.iter().map(|&v| literal::float(v, DType::F32)).collect();
        self.constant(DType::F32, &[values.len()], &format!("[{}]", literals.join(", ")))
    }

    /// An f32 matrix constant of `values`, row by row.
    pub fn matrix(&mut self, values: &[f32], columns: usize) -> Value {
        let row = |row: &[f32]| {
            let literals: Vec<_> = row.iter().map(|&v| literal::float(v, DType::F32)).collect();
            format!("[{}]", literals.join(", "))
        };
        let rows: Vec<_> = values.chunks(columns).map(row).collect();
        self.constant(DType::F32, &[rows.len(), columns], &format!("[{}]", rows.join(", ")))
    }

    /// An i32 constant with one value everywhere.
    pub fn int(&mut self, value: i32, dims: &[usize]) -> Value {
        self.constant(DType::I32, dims, &value.to_string())
    }

    /// i32 values that count up along dimension `dim`.
    pub fn iota(&mut self, dims: &[usize], dim: usize) -> Value {
        let text = format!("stablehlo.iota dim = {dim} : {}", type_text(DType::I32, dims));
        self.push(DType::I32, dims.to_vec(), text)
    }

    /// The f32 identity matrix of `size`.
    pub fn identity(&mut self, size: usize) -> Value {
        let dims = [size, size];
        let (row, column) = (self.iota(&dims, 0), self.iota(&dims, 1));
        let diagonal = self.compare(Compare::Eq, &row, &column);
        let one = self.float(1.0, DType::F32, &dims);
        let zero = self.float(0.0, DType::F32, &dims);
        self.select(&diagonal, &one, &zero)
    }

    /// `a op b`, elementwise.
    pub fn binary(&mut self, op: Binary, a: &Value, b: &Value) -> Value {
        assert_eq!(a.ty(), b.ty(), "operands of {op}");
        let text = format!("stablehlo.{op} {}, {} : {}", a.name, b.name, a.ty());
        self.push(a.dtype, a.dims.clone(), text)
    }

    /// `a + b`.
    pub fn add(&mut self, a: &Value, b: &Value) -> Value {
        self.binary(Binary::Add, a, b)
    }

    /// `a - b`.
    pub fn subtract(&mut self, a: &Value, b: &Value) -> Value {
        self.binary(Binary::Subtract, a, b)
    }

    /// `a * b`.
    pub fn multiply(&mut self, a: &Value, b: &Value) -> Value {
        self.binary(Binary::Multiply, a, b)
    }

    /// `a op value` with an f32 `value`.
    pub fn with_float(&mut self, op: Binary, a: &Value, value: f32) -> Value {
        let constant = self.float(value, a.dtype, &a.dims);
        self.binary(op, a, &constant)
    }

    /// `a op value` with an integer `value`.
    pub fn with_int(&mut self, op: Binary, a: &Value, value: i32) -> Value {
        let constant = self.constant(a.dtype, &a.dims, &value.to_string());
        self.binary(op, a, &constant)
    }

    /// `op(a)`, elementwise.
    pub fn unary(&mut self, op: Unary, a: &Value) -> Value {
        self.push(a.dtype, a.dims.clone(), format!("stablehlo.{op} {} : {}", a.name, a.ty()))
    }

    /// f32 values, those outside `least ..= most` replaced by the nearer of the two.
    pub fn clamp(&mut self, a: &Value, least: f32, most: f32) -> Value {
        let (least, most) = (self.float(least, a.dtype, &[]), self.float(most, a.dtype, &[]));
        let text = format!(
            "stablehlo.clamp {}, {}, {} : ({}, {}, {}) -> {}",
            least.name,
            a.name,
            most.name,
            least.ty(),
            a.ty(),
            most.ty(),
            a.ty()
        );
        self.push(a.dtype, a.dims.clone(), text)
    }

    /// `a` as another element type; floats round to nearest even.
    pub fn convert(&mut self, a: &Value, dtype: DType) -> Value {
        if a.dtype == dtype {
            return a.clone();
        }
        let to = type_text(dtype, &a.dims);
        let text = format!("stablehlo.convert {} : ({}) -> {to}", a.name, a.ty());
        self.push(dtype, a.dims.clone(), text)
    }

    /// The bits of `a` as another element type of the same size.
    pub fn bitcast(&mut self, a: &Value, dtype: DType) -> Value {
        assert_eq!(a.dtype.size(), dtype.size(), "bits of {} as {dtype}", a.dtype);
        let to = type_text(dtype, &a.dims);
        let text = format!("stablehlo.bitcast_convert {} : ({}) -> {to}", a.name, a.ty());
        self.push(dtype, a.dims.clone(), text)
    }

    /// f32 values rounded to those that bf16 holds. Unlike a conversion there and back, no compiler
    /// may leave this out.
    pub fn round_to_bf16(&mut self, a: &Value) -> Value {
        let text = format!("stablehlo.reduce_precision {}, format = e8m7 : {}", a.name, a.ty());
        self.push(a.dtype, a.dims.clone(), text)
    }

    /// `a` under another shape of equally many elements.
    pub fn reshape(&mut self, a: &Value, dims: &[usize]) -> Value {
        assert_eq!(
            a.dims.iter().product::<usize>(),
            dims.iter().product::<usize>(),
            "reshape {:?} to {dims:?}",
            a.dims
        );
        if a.dims == dims {
            return a.clone();
        }
        let to = type_text(a.dtype, dims);
        let text = format!("stablehlo.reshape {} : ({}) -> {to}", a.name, a.ty());
        self.push(a.dtype, dims.to_vec(), text)
    }

    /// `a` with its dimensions reordered: result dimension `i` is dimension `order[i]` of `a`.
    pub fn transpose(&mut self, a: &Value, order: &[usize]) -> Value {
        let dims: Vec<_> = order.iter().map(|&dim| a.dims[dim]).collect();
        let to = type_text(a.dtype, &dims);
        let text =
            format!("stablehlo.transpose {}, dims = {order:?} : ({}) -> {to}", a.name, a.ty());
        self.push(a.dtype, dims, text)
    }

    /// `a` repeated to shape `dims`; dimension `i` of `a` becomes dimension `places[i]`.
    pub fn broadcast(&mut self, a: &Value, dims: &[usize], places: &[usize]) -> Value {
        assert!(
            a.dims.len() == places.len()
                && a.dims.iter().zip(places).all(|(&d, &place)| d == dims[place]),
            "broadcast {:?} to {dims:?} at {places:?}",
            a.dims
        );
        let to = type_text(a.dtype, dims);
        let text = format!(
            "stablehlo.broadcast_in_dim {}, dims = {places:?} : ({}) -> {to}",
            a.name,
            a.ty()
        );
        self.push(a.dtype, dims.to_vec(), text)
    }

    /// Elements `start .. start + len` of dimension `dim`, all of the others.
    pub fn slice(&mut self, a: &Value, dim: usize, start: usize, len: usize) -> Value {
        assert!(start + len <= a.dims[dim], "slice of {:?} along {dim}", a.dims);
        if a.dims[dim] == len {
            return a.clone();
        }
        let mut dims = a.dims.clone();
        dims[dim] = len;
        let ranges: Vec<_> = (0..dims.len())
            .map(|i| {
                if i == dim { format!("{start}:{}", start + len) } else { format!("0:{}", dims[i]) }
            })
            .collect();
        let to = type_text(a.dtype, &dims);
        let text =
            format!("stablehlo.slice {} [{}] : ({}) -> {to}", a.name, ranges.join(", "), a.ty());
        self.push(a.dtype, dims, text)
    }

    /// `len` elements of dimension `dim` from `start` (i32 scalar) on, all of the others. A start
    /// beyond the last possible one is taken as that.
    pub fn dynamic_slice(&mut self, a: &Value, dim: usize, start: &Value, len: usize) -> Value {
        let zero = self.int(0, &[]);
        let mut dims = a.dims.clone();
        dims[dim] = len;
        let starts: Vec<_> =
            (0..dims.len()).map(|i| if i == dim { start.clone() } else { zero.clone() }).collect();
        let to = type_text(a.dtype, &dims);
        let text = format!(
            "stablehlo.dynamic_slice {}, {}, sizes = {dims:?} : ({}, {}) -> {to}",
            a.name,
            names(&starts),
            a.ty(),
            types(&starts)
        );
        self.push(a.dtype, dims, text)
    }

    /// `parts` one after the other along `dim`.
    pub fn concatenate(&mut self, parts: &[Value], dim: usize) -> Value {
        if let [only] = parts {
            return only.clone();
        }
        let mut dims = parts[0].dims.clone();
        dims[dim] = parts.iter().map(|part| part.dims[dim]).sum();
        let to = type_text(parts[0].dtype, &dims);
        let text = format!(
            "stablehlo.concatenate {}, dim = {dim} : ({}) -> {to}",
            names(parts),
            types(parts)
        );
        self.push(parts[0].dtype, dims, text)
    }

    /// Matrix product `a · b` in f32: sums over dimension `contract.0` of `a` and `contract.1` of
    /// `b`. The result has the remaining dimensions of `a`, then those of `b`.
    pub fn dot(&mut self, a: &Value, b: &Value, contract: (usize, usize)) -> Value {
        self.batched_dot(a, b, 0, contract)
    }

    /// [`Function::dot`] for each index of the first `batch` dimensions, which the result leads with.
    pub fn batched_dot(
        &mut self,
        a: &Value,
        b: &Value,
        batch: usize,
        contract: (usize, usize),
    ) -> Value {
        assert!(
            a.dims[..batch] == b.dims[..batch] && a.dims[contract.0] == b.dims[contract.1],
            "dot of {:?} and {:?} over {contract:?}",
            a.dims,
            b.dims
        );
        let free = |dims: &[usize], contracted: usize| -> Vec<usize> {
            (batch..dims.len()).filter(|&i| i != contracted).map(|i| dims[i]).collect()
        };
        let mut dims = a.dims[..batch].to_vec();
        dims.extend(free(&a.dims, contract.0));
        dims.extend(free(&b.dims, contract.1));
        let leading: Vec<_> = (0..batch).collect();
        let batching = match batch {
            0 => String::new(),
            _ => format!("batching_dims = {leading:?} x {leading:?}, "),
        };
        let to = type_text(DType::F32, &dims);
        let text = format!(
            "stablehlo.dot_general {}, {}, {batching}contracting_dims = [{}] x [{}] : ({}, {}) -> {to}",
            a.name,
            b.name,
            contract.0,
            contract.1,
            a.ty(),
            b.ty()
        );
        self.push(DType::F32, dims, text)
    }

    /// For each index of dimension `dim` of two matrices, the dot of what lies there.
    pub fn dot_per_index(&mut self, a: &Value, b: &Value, dim: usize) -> Value {
        assert!(a.dims == b.dims && a.dims.len() == 2, "dot of {:?} and {:?}", a.dims, b.dims);
        let (dims, contracted) = (vec![a.dims[dim]], 1 - dim);
        let to = type_text(DType::F32, &dims);
        let text = format!(
            "stablehlo.dot_general {}, {}, batching_dims = [{dim}] x [{dim}], contracting_dims = [{contracted}] x [{contracted}] : ({}, {}) -> {to}",
            a.name,
            b.name,
            a.ty(),
            b.ty()
        );
        self.push(DType::F32, dims, text)
    }

    /// `a`, of floats or i32, reduced over dimension `dim`.
    pub fn reduce(&mut self, op: Reduce, a: &Value, dim: usize) -> Value {
        let (name, start, int_start) = match op {
            Reduce::Add => ("add", 0.0, 0),
            Reduce::Maximum => ("maximum", f32::NEG_INFINITY, i32::MIN),
            Reduce::Minimum => ("minimum", f32::INFINITY, i32::MAX),
        };
        let start = match a.dtype {
            DType::I32 => self.int(int_start, &[]),
            dtype => self.float(start, dtype, &[]),
        };
        let mut dims = a.dims.clone();
        dims.remove(dim);
        let to = type_text(a.dtype, &dims);
        let text = format!(
            "stablehlo.reduce({} init: {}) applies stablehlo.{name} across dimensions = [{dim}] : ({}, {}) -> {to}",
            a.name,
            start.name,
            a.ty(),
            start.ty()
        );
        self.push(a.dtype, dims, text)
    }

    /// `a op b` for operands of i32, i64 or floats, as booleans.
    pub fn compare(&mut self, op: Compare, a: &Value, b: &Value) -> Value {
        assert_eq!(a.ty(), b.ty(), "operands of {op:?}");
        let direction = match op {
            Compare::Eq => "EQ",
            Compare::Gt => "GT",
            Compare::Le => "LE",
            Compare::Lt => "LT",
        };
        let kind = match a.dtype {
            DType::I32 | DType::I64 => "SIGNED",
            _ => "FLOAT",
        };
        let to = type_text(DType::Bool, &a.dims);
        let text = format!(
            "stablehlo.compare {direction}, {}, {}, {kind} : ({}, {}) -> {to}",
            a.name,
            b.name,
            a.ty(),
            b.ty()
        );
        self.push(DType::Bool, a.dims.clone(), text)
    }

    /// `a` where `condition` holds, else `b`.
    pub fn select(&mut self, condition: &Value, a: &Value, b: &Value) -> Value {
        assert_eq!(a.ty(), b.ty(), "operands of select");
        assert_eq!(condition.dims, a.dims, "condition of select");
        let text = format!(
            "stablehlo.select {}, {}, {} : {}, {}",
            condition.name,
            a.name,
            b.name,
            condition.ty(),
            a.ty()
        );
        self.push(a.dtype, a.dims.clone(), text)
    }

    /// Runs `body` for each index of `0..trips` (`trips` an i32 scalar). It is given the index, the
    /// `state` that the run before left, and the `fixed` values, and returns the new state; other
    /// values from outside it are out of its reach.
    pub fn repeat<const N: usize>(
        &mut self,
        trips: &Value,
        state: [&Value; N],
        fixed: &[&Value],
        body: impl FnOnce(&mut Function, &Value, [Value; N], &[Value]) -> [Value; N],
    ) -> [Value; N] {
        let first = self.int(0, &[]);
        let outer: Vec<&Value> =
            [&first, trips].into_iter().chain(state).chain(fixed.iter().copied()).collect();
        let inner: Vec<Value> = outer
            .iter()
            .map(|value| Value { name: self.fresh().into(), ..(*value).clone() })
            .collect();
        let (index, trips, rest) = (&inner[0], &inner[1], &inner[2..]);
        let bound: Vec<_> =
            inner.iter().zip(&outer).map(|(i, o)| format!("{} = {}", i.name, o.name)).collect();

        let (outer_body, outer_constants) =
            (std::mem::take(&mut self.body), std::mem::take(&mut self.constants));
        let more = self.compare(Compare::Lt, index, trips);
        let condition = std::mem::take(&mut self.body);
        self.constants.clear();
        let state = std::array::from_fn(|i| rest[i].clone());
        let next = body(self, index, state, &rest[N..]);
        let index = self.with_int(Binary::Add, index, 1);
        let lines = std::mem::replace(&mut self.body, outer_body);
        self.constants = outer_constants;

        let results: Vec<&Value> =
            [&index, trips].into_iter().chain(&next).chain(&rest[N..]).collect();
        assert!(
            results.iter().zip(&inner).all(|(result, value)| result.ty() == value.ty()),
            "the state of a loop changes its type"
        );
        let base = self.fresh();
        let indent = |lines: &[String]| -> String {
            lines.iter().map(|line| format!("      {line}\n")).collect()
        };
        self.body.push(format!(
            "{base}:{} = stablehlo.while({}) : {}\n    cond {{\n{}      stablehlo.return {} : {}\n    \
             }} do {{\n{}      stablehlo.return {} : {}\n    }}",
            inner.len(),
            bound.join(", "),
            types(&inner),
            indent(&condition),
            more.name,
            more.ty(),
            indent(&lines),
            names(results.iter().copied()),
            types(results.iter().copied()),
        ));
        std::array::from_fn(|i| Value {
            name: format!("{base}#{}", 2 + i).into(),
            ..next[i].clone()
        })
    }

    /// The same values, which the compiler may not look through.
    pub fn barrier<const N: usize>(&mut self, values: [&Value; N]) -> [Value; N] {
        let results = values.map(|v| Value { name: self.fresh().into(), ..v.clone() });
        self.body.push(format!(
            "{} = stablehlo.optimization_barrier {} : {}",
            names(&results),
            names(values),
            types(values)
        ));
        results
    }

    /// Rows `rows` (i32 `[n]`) of a matrix: `[n, columns]`.
    pub fn gather_rows(&mut self, matrix: &Value, rows: &Value) -> Value {
        let (n, columns) = (rows.dims[0], matrix.dims[1]);
        let indices = self.reshape(rows, &[n, 1]);
        let to = type_text(matrix.dtype, &[n, columns]);
        let text = format!(
            "\"stablehlo.gather\"({}, {}) <{{dimension_numbers = #stablehlo.gather<offset_dims = [1], \
             collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, \
             indices_are_sorted = false, slice_sizes = array<i64: 1, {columns}>}}> : ({}, {}) -> {to}",
            matrix.name,
            indices.name,
            matrix.ty(),
            indices.ty()
        );
        self.push(matrix.dtype, vec![n, columns], text)
    }

    /// The pool with update `i` written at `indices[i] = [block, offset]`, where that is inside the
    /// pool; updates outside it are dropped. `pool` is `[blocks, offsets, ..]`, `updates` `[n, ..]`.
    pub fn scatter_into_pool(&mut self, pool: &Value, indices: &Value, updates: &Value) -> Value {
        assert!(
            indices.dims == [updates.dims[0], 2] && updates.dims[1..] == pool.dims[2..],
            "scatter of {:?} at {:?} into {:?}",
            updates.dims,
            indices.dims,
            pool.dims
        );
        let windows: Vec<_> = (1..updates.dims.len()).collect();
        let element = type_text(pool.dtype, &[]);
        let id = self.next;
        let text = format!(
            "\"stablehlo.scatter\"({}, {}, {}) <{{scatter_dimension_numbers = #stablehlo.scatter<\
             update_window_dims = {windows:?}, inserted_window_dims = [0, 1], \
             scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 1>, \
             indices_are_sorted = false, unique_indices = false}}> ({{\n    \
             ^bb0(%old{id}: {element}, %new{id}: {element}):\n      \
             stablehlo.return %new{id} : {element}\n    }}) : ({}, {}, {}) -> {}",
            pool.name,
            indices.name,
            updates.name,
            pool.ty(),
            indices.ty(),
            updates.ty(),
            pool.ty()
        );
        self.push(pool.dtype, pool.dims.clone(), text)
    }
}
