//! Where an execution writes its large outputs: the client's memory, if it can, and a block of ours
//! otherwise.

use std::sync::Arc;

use tlaloc_pjrt::{Buffer, Client, ElementType, HostTarget};
use triton_backend::{DataType, Error, OutputMemory, Request};

use super::binding::{Plan, Target};
use super::block::Block;
use super::config::ConfigTensor;
use super::device::Program;
use crate::dtype::data_type;

/// What an execution left of an output.
pub enum Left {
    /// It is in the client's memory.
    Delivered,
    /// An array on the device.
    Device(Buffer),
    /// In a block, an array of these dims.
    Host(Block, Vec<i64>),
}

/// The results of a program that are placed, for one execution.
pub struct Placement {
    places: Vec<Place>,
}

struct Place {
    result: usize,
    /// Index of the output in the configuration.
    output: usize,
    element_type: ElementType,
    dims: Vec<i64>,
    byte_size: usize,
    /// Where it goes if not to the client.
    block: Option<Block>,
}

impl Placement {
    /// Of no result yet.
    pub fn new(program: &Program, plan: &Plan) -> Self {
        let place = |&result: &usize| {
            let shape = program.executable.outputs().nth(result)?;
            let Some(Target::Output(output)) = plan.results.get(result).copied() else {
                return None;
            };
            Some(Place {
                result,
                output,
                element_type: shape.element_type(),
                dims: shape.dims().to_vec(),
                byte_size: shape.bytes(),
                block: None,
            })
        };
        Placement { places: program.places.iter().filter_map(place).collect() }
    }

    /// The memory to write to, in the order of the program's further arguments: the client's of each
    /// output, where the device can write there, and blocks, of the spare ones if there are any.
    pub fn targets<'a>(
        &'a mut self,
        client: &Arc<Client>,
        memories: &'a mut [Option<OutputMemory<'_>>],
        spare: &mut Vec<Block>,
    ) -> Result<Vec<HostTarget<'a>>, tlaloc_pjrt::Error> {
        let mut memories: Vec<Option<&mut [u8]>> =
            memories.iter_mut().map(|memory| memory.as_mut()?.alone()).collect();
        let mut targets = Vec::with_capacity(self.places.len());
        for place in &mut self.places {
            let Place { element_type, dims, byte_size, .. } = place;
            let memory = memories.get_mut(place.output).and_then(Option::take);
            let wanted = match memory {
                Some(memory) => client.lend_host(*element_type, dims, memory)?,
                None => None,
            };
            if let Some(wanted) = wanted {
                targets.push(wanted);
                continue;
            }
            let reused = spare.iter().position(|block| block.len() == *byte_size);
            let block = match reused {
                Some(index) => spare.swap_remove(index),
                None => Block::new(*byte_size, client.view_alignment())?,
            };
            let block = place.block.insert(block);
            targets.extend(client.lend_host(*element_type, dims, block)?);
        }
        Ok(targets)
    }

    /// What is left of a result, after the execution gave this for it; none where it gave nothing.
    pub fn left(&mut self, result: usize, given: Option<Buffer>) -> Option<Left> {
        // An array was not written where it was asked for.
        if let Some(buffer) = given {
            return Some(Left::Device(buffer));
        }
        let place = self.places.iter_mut().find(|place| place.result == result)?;
        Some(match place.block.take() {
            Some(block) => Left::Host(block, std::mem::take(&mut place.dims)),
            None => Left::Delivered,
        })
    }
}

/// Asks Triton for the memory of the outputs that the program of a group places, where the one
/// request of the group wants them. An output that has its memory is in the response.
pub fn memories<'a>(
    request: &'a Request,
    program: &Program,
    plan: &Plan,
    declared: &[ConfigTensor],
) -> Result<Vec<Option<OutputMemory<'a>>>, Error> {
    let mut memories: Vec<Option<OutputMemory<'a>>> = declared.iter().map(|_| None).collect();
    for place in Placement::new(program, plan).places {
        let (Some(tensor), Some(memory)) =
            (declared.get(place.output), memories.get_mut(place.output))
        else {
            continue;
        };
        if request.wants(&tensor.name) {
            // Configured types are all Triton's.
            let data_type = data_type(tensor.dtype).unwrap_or(DataType::Bytes);
            let (name, dims) = (&tensor.name, &place.dims);
            *memory = Some(request.output_memory(name, data_type, dims, place.byte_size)?);
        }
    }
    Ok(memories)
}
