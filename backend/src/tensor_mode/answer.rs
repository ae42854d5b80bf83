//! Answers requests with their rows of what an execution left (tensor mode §10).

use std::ops::Range;

use tlaloc_pjrt::Buffer;
use triton_backend::{DataType, Error, Response};

use super::config::ConfigTensor;
use crate::dtype::data_type;

/// The outputs of one execution.
pub struct Outputs {
    /// In the order of the configuration.
    outputs: Vec<Output>,
    /// Rows of the program; none without batching.
    batch: Option<usize>,
}

struct Output {
    buffer: Buffer,
    /// The whole of it, where the host cannot see the device's memory and several requests want
    /// their parts.
    copy: Vec<u8>,
}

/// Rows of a request in an execution.
#[derive(Clone, Copy, Debug)]
pub struct Rows {
    /// The first.
    pub first: usize,
    /// How many.
    pub count: usize,
}

impl Outputs {
    /// Takes over what an execution left.
    pub fn new(buffers: Vec<Buffer>, batch: Option<usize>) -> Self {
        let output = |buffer| Output { buffer, copy: Vec::new() };
        Outputs { outputs: buffers.into_iter().map(output).collect(), batch }
    }

    /// Writes a request's rows of the output of this index to its response.
    ///
    /// # Errors
    /// Triton has no memory for it, or it cannot be read.
    pub fn write(
        &mut self,
        index: usize,
        declared: &ConfigTensor,
        rows: Rows,
        response: &mut Response<'_>,
    ) -> Result<(), Error> {
        let unreadable = |reason: &dyn std::fmt::Display| {
            Error::internal(format!("output '{}' cannot be read: {reason}", declared.name))
        };
        let missing = "the execution did not leave it";
        let output = self.outputs.get_mut(index).ok_or_else(|| unreadable(&missing))?;
        let (shape, range) = part(&output.buffer, declared, self.batch, rows);
        // Configured types are all Triton's.
        let data_type = data_type(declared.dtype).unwrap_or(DataType::Bytes);
        let memory = response.output_buffer(&declared.name, data_type, &shape, range.len())?;
        let Output { buffer, copy } = output;
        let seen = buffer.host_bytes().map_err(|error| unreadable(&error))?;
        let bytes = match &seen {
            Some(bytes) => bytes,
            None if range.len() == buffer.bytes() => {
                return buffer.copy_to_host(memory).map_err(|error| unreadable(&error));
            }
            None => {
                if copy.is_empty() {
                    copy.resize(buffer.bytes(), 0);
                    buffer.copy_to_host(copy).map_err(|error| unreadable(&error))?;
                }
                copy.as_slice()
            }
        };
        memory.copy_from_slice(bytes.get(range).ok_or_else(|| unreadable(&missing))?);
        Ok(())
    }
}

/// The shape of a request's rows of an output, and where their bytes are.
fn part(
    buffer: &Buffer,
    declared: &ConfigTensor,
    batch: Option<usize>,
    rows: Rows,
) -> (Vec<i64>, Range<usize>) {
    let mut shape = buffer.dims().to_vec();
    let Some(batch) = batch else {
        // Triton has no scalars.
        if shape.is_empty() && declared.shape == [1] {
            shape.push(1);
        }
        return (shape, 0..buffer.bytes());
    };
    if let Some(first) = shape.first_mut() {
        *first = i64::try_from(rows.count).unwrap_or(i64::MAX);
    }
    let row = buffer.bytes() / batch.max(1);
    (shape, rows.first * row..(rows.first + rows.count) * row)
}
