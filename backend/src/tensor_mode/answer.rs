//! Answers requests with their rows of what an execution left (tensor mode §10).

use std::ops::Range;

use tlaloc_pjrt::Client;
use triton_backend::{DataType, Error, GpuMemory, OutputBuffer, OutputMemory, Response};

use super::block::Block;
use super::config::ConfigTensor;
use super::paths::{Delivered, Reason};
use super::placement::Left;
use crate::dtype::data_type;
use crate::gpu;

/// The outputs of one execution.
pub struct Outputs {
    /// In the order of the configuration.
    outputs: Vec<Output>,
    /// Rows of the program; none without batching.
    batch: Option<usize>,
    /// Memory of outputs that were delivered.
    blocks: Vec<Block>,
}

struct Output {
    left: Left,
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

/// How outputs may go to GPU memory.
#[derive(Clone, Copy, Debug)]
pub struct ToGpu<'a> {
    /// Of the device that the execution ran on.
    pub client: &'a Client,
    /// Whether they may stay on the device.
    pub zero_copy: bool,
    /// Whether the execution was one request's alone, which fills it.
    pub direct: bool,
}

impl Outputs {
    /// Takes over what an execution left.
    pub fn new(left: Vec<Left>, batch: Option<usize>) -> Self {
        let output = |left| Output { left, copy: Vec::new() };
        Outputs { outputs: left.into_iter().map(output).collect(), batch, blocks: Vec::new() }
    }

    /// Writes a request's rows of the output of this index to its response, unless they are there.
    ///
    /// # Errors
    /// Triton has no memory for it, or it cannot be read.
    pub fn write(
        &mut self,
        index: usize,
        declared: &ConfigTensor,
        rows: Rows,
        response: &mut Response<'_>,
        to_gpu: ToGpu<'_>,
    ) -> Result<Option<Delivered>, Error> {
        let missing = "the execution did not leave it";
        let output = self.outputs.get_mut(index).ok_or_else(|| unreadable(declared, &missing))?;
        let (shape, bytes) = match &output.left {
            Left::Delivered => return Ok(None),
            Left::Device(buffer) => (buffer.dims(), buffer.bytes()),
            Left::Host(block, dims) => (dims.as_slice(), block.len()),
        };
        let (shape, range) = part(shape, bytes, declared, self.batch, rows);
        // Configured types are all Triton's.
        let data_type = data_type(declared.dtype).unwrap_or(DataType::Bytes);
        let name = &declared.name;
        let delivered = match response.output_buffer(name, data_type, &shape, range.len())? {
            OutputBuffer::Host(memory) => output.read(range, memory).map(|()| Delivered::Copied),
            OutputBuffer::Gpu(memory) if !to_gpu.client.reaches_device_memory() => {
                return Err(Error::gpu_output(name, &memory));
            }
            OutputBuffer::Gpu(memory) => output.read_to_gpu(range, &memory, to_gpu),
        };
        delivered.map(Some).map_err(|reason| unreadable(declared, &reason))
    }
}

impl Outputs {
    /// Writes an output to memory of the client's that is in the response already, unless the
    /// execution did; false where it did.
    pub fn deliver(&mut self, index: usize, memory: &mut OutputMemory<'_>) -> Result<bool, String> {
        let output = self.outputs.get_mut(index).ok_or("the execution did not leave it")?;
        let written = match &output.left {
            Left::Delivered => return Ok(false),
            Left::Host(block, _) => memory.write(block),
            Left::Device(buffer) => match buffer.host_bytes().map_err(|error| error.to_string())? {
                Some(bytes) => memory.write(&bytes),
                None => {
                    output.copy.resize(buffer.bytes(), 0);
                    buffer.copy_to_host(&mut output.copy).map_err(|error| error.to_string())?;
                    memory.write(&output.copy)
                }
            },
        };
        if !written {
            return Err("it is cut short".to_owned());
        }
        if let Left::Host(block, _) = std::mem::replace(&mut output.left, Left::Delivered) {
            self.blocks.push(block);
        }
        Ok(true)
    }

    /// The memory that was not the device's nor the client's, for further executions.
    pub fn into_blocks(self) -> impl Iterator<Item = Block> {
        let held = self.outputs.into_iter().filter_map(|output| match output.left {
            Left::Host(block, _) => Some(block),
            Left::Delivered | Left::Device(_) => None,
        });
        self.blocks.into_iter().chain(held)
    }
}

fn unreadable(declared: &ConfigTensor, reason: &dyn std::fmt::Display) -> Error {
    Error::internal(format!("output '{}' cannot be read: {reason}", declared.name))
}

impl Output {
    /// Copies a part to GPU memory of its size.
    fn read_to_gpu(
        &mut self,
        range: Range<usize>,
        memory: &GpuMemory<'_>,
        to_gpu: ToGpu<'_>,
    ) -> Result<Delivered, String> {
        let reason = match to_gpu.on_device(&self.left, memory) {
            Ok(()) => return Ok(Delivered::OnDevice),
            Err(reason) => reason,
        };
        let mut bytes = vec![0; range.len()];
        self.read(range, &mut bytes)?;
        gpu::deliver(to_gpu.client, &bytes, memory).map_err(|error| error.to_string())?;
        Ok(Delivered::ThroughHost(reason))
    }

    /// Copies a part to memory of its size.
    fn read(&mut self, range: Range<usize>, memory: &mut [u8]) -> Result<(), String> {
        let buffer = match &self.left {
            Left::Delivered => return Ok(()),
            Left::Host(block, _) => return copy(block, range, memory),
            Left::Device(buffer) => buffer,
        };
        if let Some(bytes) = buffer.host_bytes().map_err(|error| error.to_string())? {
            return copy(&bytes, range, memory);
        }
        if range.len() == buffer.bytes() {
            return buffer.copy_to_host(memory).map_err(|error| error.to_string());
        }
        if self.copy.is_empty() {
            self.copy.resize(buffer.bytes(), 0);
            buffer.copy_to_host(&mut self.copy).map_err(|error| error.to_string())?;
        }
        copy(&self.copy, range, memory)
    }
}

impl ToGpu<'_> {
    /// Copies an output within the device, or tells why it has to go through the host. The copy has
    /// ended when this returns.
    fn on_device(self, left: &Left, memory: &GpuMemory<'_>) -> Result<(), Reason> {
        let Left::Device(buffer) = left else { return Err(Reason::NotDense) };
        if !self.zero_copy {
            return Err(Reason::ZeroCopyOff);
        }
        if let Some(reason) = Reason::unreached(self.client, memory) {
            return Err(reason);
        }
        if !self.direct {
            return Err(Reason::Batched);
        }
        match buffer.copy_on_device(&mut gpu::bytes(memory)) {
            Ok(true) => Ok(()),
            Ok(false) => Err(Reason::NotDense),
            Err(error) => Err(Reason::Refused(error.to_string())),
        }
    }
}

fn copy(bytes: &[u8], range: Range<usize>, memory: &mut [u8]) -> Result<(), String> {
    let part = bytes.get(range).filter(|part| part.len() == memory.len());
    memory.copy_from_slice(part.ok_or("it is cut short")?);
    Ok(())
}

/// The shape of a request's rows of an output of these dims and size, and where their bytes are.
fn part(
    dims: &[i64],
    byte_size: usize,
    declared: &ConfigTensor,
    batch: Option<usize>,
    rows: Rows,
) -> (Vec<i64>, Range<usize>) {
    let mut shape = dims.to_vec();
    let Some(batch) = batch else {
        // Triton has no scalars.
        if shape.is_empty() && declared.shape == [1] {
            shape.push(1);
        }
        return (shape, 0..byte_size);
    };
    if let Some(first) = shape.first_mut() {
        *first = i64::try_from(rows.count).unwrap_or(i64::MAX);
    }
    let row = byte_size / batch.max(1);
    (shape, rows.first * row..(rows.first + rows.count) * row)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tlaloc_artifact::DType;

    #[test]
    fn rows_are_parts_of_the_output() {
        let declared = |shape: &[i64]| ConfigTensor {
            name: "Y".into(),
            dtype: DType::F32,
            shape: shape.to_vec(),
        };
        let rows = Rows { first: 2, count: 3 };
        let found = part(&[8, 4], 128, &declared(&[-1, 4]), Some(8), rows);
        assert_eq!(found, (vec![3, 4], 32..80));
        let all = Rows { first: 0, count: 1 };
        assert_eq!(part(&[], 4, &declared(&[1]), None, all), (vec![1], 0..4));
        assert_eq!(part(&[], 4, &declared(&[]), None, all), (vec![], 0..4));
        assert_eq!(part(&[2, 2], 16, &declared(&[-1, 2]), None, all), (vec![2, 2], 0..16));
    }
}
