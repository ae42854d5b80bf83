//! What a compiled program takes, read from the HLO module that a plugin gives of it.
//!
//! The C API tells an executable's outputs but not its parameters. They stand in the serialised
//! `HloModuleProtoWithConfig`: its `hlo_module` (1) has a `host_program_shape` (4), whose `parameters`
//! (1) and `result` (2) are `ShapeProto`s of an `element_type` (2), `dimensions` (3) and, for a tuple,
//! `tuple_shapes` (4).

use crate::shape::{ElementType, Shape};

/// Parameters and results of a program.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ProgramShape {
    pub(crate) parameters: Vec<Shape>,
    pub(crate) results: Vec<Shape>,
}

impl ProgramShape {
    /// Reads a serialised module.
    ///
    /// # Errors
    /// What is not as it should be.
    pub(crate) fn parse(module: &[u8]) -> Result<Self, String> {
        let module = message(module, 1)?.ok_or("it has no module")?;
        let program = message(module, 4)?.ok_or("it has no program shape")?;
        let mut parameters = Vec::new();
        let mut results = Vec::new();
        for field in Fields(program) {
            match field? {
                (1, Value::Bytes(parameter)) => parameters.push(array(parameter)?),
                (2, Value::Bytes(result)) => results = leaves(result)?,
                _ => {}
            }
        }
        Ok(ProgramShape { parameters, results })
    }
}

/// The arrays of a result: one, or those of a tuple.
fn leaves(shape: &[u8]) -> Result<Vec<Shape>, String> {
    const TUPLE: u64 = 13;
    let mut tuple = false;
    let mut elements = Vec::new();
    for field in Fields(shape) {
        match field? {
            (2, Value::Number(TUPLE)) => tuple = true,
            (4, Value::Bytes(element)) => elements.push(element),
            _ => {}
        }
    }
    if tuple { elements.into_iter().map(array).collect() } else { Ok(vec![array(shape)?]) }
}

fn array(shape: &[u8]) -> Result<Shape, String> {
    let mut element_type = None;
    let mut dims = Vec::new();
    for field in Fields(shape) {
        match field? {
            (2, Value::Number(code)) => element_type = Some(primitive(code)?),
            (3, Value::Number(dim)) => dims.push(signed(dim)?),
            // Packed.
            (3, Value::Bytes(mut packed)) => {
                while !packed.is_empty() {
                    dims.push(signed(varint(&mut packed)?)?);
                }
            }
            _ => {}
        }
    }
    let element_type = element_type.ok_or("a shape has no element type")?;
    Shape::new(element_type, &dims).map_err(|error| error.to_string())
}

/// XLA's `PrimitiveType`.
fn primitive(code: u64) -> Result<ElementType, String> {
    Ok(match code {
        1 => ElementType::Bool,
        2 => ElementType::I8,
        3 => ElementType::I16,
        4 => ElementType::I32,
        5 => ElementType::I64,
        6 => ElementType::U8,
        7 => ElementType::U16,
        8 => ElementType::U32,
        9 => ElementType::U64,
        10 => ElementType::F16,
        11 => ElementType::F32,
        12 => ElementType::F64,
        16 => ElementType::Bf16,
        20 => ElementType::F8E4M3Fn,
        other => return Err(format!("XLA's element type {other} is not supported")),
    })
}

fn signed(dim: u64) -> Result<i64, String> {
    i64::try_from(dim).map_err(|_| "a dimension is negative".to_owned())
}

/// The last message in this field.
fn message(bytes: &[u8], wanted: u64) -> Result<Option<&[u8]>, String> {
    let mut found = None;
    for field in Fields(bytes) {
        if let (number, Value::Bytes(bytes)) = field?
            && number == wanted
        {
            found = Some(bytes);
        }
    }
    Ok(found)
}

/// The fields of a protocol-buffer message: their numbers and values, in order.
struct Fields<'a>(&'a [u8]);

enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    /// Of a fixed size, which nothing here has.
    Fixed,
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Value<'a>), String>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.0 = &[];
        }
        Some(field)
    }
}

impl<'a> Fields<'a> {
    fn field(&mut self) -> Result<(u64, Value<'a>), String> {
        let tag = varint(&mut self.0)?;
        let value = match tag & 7 {
            0 => Value::Number(varint(&mut self.0)?),
            1 => self.take(8).map(|_| Value::Fixed)?,
            2 => {
                let length = varint(&mut self.0)?;
                Value::Bytes(self.take(usize::try_from(length).unwrap_or(usize::MAX))?)
            }
            5 => self.take(4).map(|_| Value::Fixed)?,
            other => return Err(format!("it has a field of wire type {other}")),
        };
        Ok((tag >> 3, value))
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or("it is cut short")?;
        self.0 = rest;
        Ok(taken)
    }
}

fn varint(bytes: &mut &[u8]) -> Result<u64, String> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first().ok_or("it is cut short")?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err("it has a number of more than 64 bits".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        [&[number << 3 | 2, u8::try_from(bytes.len()).unwrap()], bytes].concat()
    }

    /// Two parameters, `f32[2,300]` with packed dimensions and `pred[]`, and a tuple of `s32[5]`.
    fn module() -> Vec<u8> {
        let matrix =
            [&[2 << 3, 11][..], &field(3, &[2, 0xac, 0x02]), &field(5, b"layout")].concat();
        let result = [2 << 3, 4, 3 << 3, 5];
        let tuple = [&[2 << 3, 13][..], &field(4, &result)].concat();
        let program =
            [field(1, &matrix), field(3, b"x"), field(1, &[2 << 3, 1]), field(2, &tuple)].concat();
        let fixed = [7 << 3 | 5, 1, 2, 3, 4, 8 << 3 | 1, 1, 2, 3, 4, 5, 6, 7, 8];
        let module = [&field(1, b"name")[..], &fixed, &field(4, &program)].concat();
        [field(1, &module), field(2, b"config")].concat()
    }

    #[test]
    fn parameters_and_results() {
        let shape = |element, dims: &[i64]| Shape::new(element, dims).unwrap();
        let expected = ProgramShape {
            parameters: vec![shape(ElementType::F32, &[2, 300]), shape(ElementType::Bool, &[])],
            results: vec![shape(ElementType::I32, &[5])],
        };
        assert_eq!(ProgramShape::parse(&module()), Ok(expected));
    }

    #[test]
    fn no_bytes_are_too_odd() {
        let good = module();
        for length in 0..good.len() {
            let _ = ProgramShape::parse(&good[..length]);
        }
        for index in 0..good.len() {
            for byte in [0, 0x7f, 0x80, 0xff] {
                let mut bad = good.clone();
                bad[index] = byte;
                let _ = ProgramShape::parse(&bad);
            }
        }
        assert_eq!(ProgramShape::parse(&[]), Err("it has no module".to_owned()));
        assert_eq!(ProgramShape::parse(&[0x0a, 5, 1]), Err("it is cut short".to_owned()));
    }
}
