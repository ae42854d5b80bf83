//! Runs a group of requests on a device (tensor mode §10).

use std::sync::Arc;

use tlaloc_pjrt::{Argument, Buffer, Client, ElementType, Staging, View};
use triton_backend::{GpuMemory, OutputMemory, Piece};

use super::binding::{self, Plan, Target};
use super::block::Block;
use super::device::{DeviceModel, Program, pjrt_shape};
use super::grouping::Group;
use super::intake::{Bytes, Prepared};
use super::paths::{Paths, Place, Reason};
use super::placement::{Left, Placement};
use crate::dtype::{element_type, signed};
use crate::gpu;

/// The states of one instance and the memory that its executions need.
pub struct Executor {
    device: Arc<DeviceModel>,
    plan: Arc<Plan>,
    paths: Arc<Paths>,
    zero_copy: bool,
    states: Vec<Buffer>,
    /// Whether a failed execution took the states and there was no memory for new ones.
    lost: bool,
    /// Memory that inputs are gathered in, by program and input, made when first needed.
    gathered: Vec<Vec<Gather>>,
    /// Memory for outputs that are not written where the client wants them.
    spare: Vec<Block>,
}

/// Where one input of a program is gathered.
#[derive(Default)]
struct Gather {
    /// Read by the device where it lies.
    staging: Option<Staging>,
    /// Uploaded.
    host: Vec<u8>,
}

/// An input as it is passed.
enum Given<'a> {
    /// The request's own memory.
    InPlace(View<'a>),
    /// Gathered where the device reads it.
    Gathered,
    /// A copy on the device.
    Uploaded(Buffer),
}

impl Executor {
    /// Zeroes a set of states.
    pub fn new(
        device: Arc<DeviceModel>,
        plan: Arc<Plan>,
        paths: Arc<Paths>,
        zero_copy: bool,
    ) -> Result<Self, tlaloc_pjrt::Error> {
        let states = device.zeroed_states()?;
        let inputs = |program: &Program| program.inputs.iter().map(|_| Gather::default()).collect();
        let gathered = device.programs.iter().map(inputs).collect();
        Ok(Executor {
            device,
            plan,
            paths,
            zero_copy,
            states,
            lost: false,
            gathered,
            spare: Vec::new(),
        })
    }

    /// Bytes of all states.
    pub fn state_bytes(&self) -> usize {
        self.states.iter().map(Buffer::bytes).sum()
    }

    /// The program for a group, which chose it.
    pub fn program(&self, group: &Group) -> Option<&Program> {
        self.device.programs.get(group.bucket.index)
    }

    /// Takes back memory of outputs that have been answered.
    pub fn recycle(&mut self, blocks: impl Iterator<Item = Block>) {
        self.spare.extend(blocks);
    }

    /// Runs a group and returns what is left of its outputs, in the order of the configuration.
    /// `memories` are the client's, for as many outputs as are known.
    ///
    /// # Errors
    /// What went wrong, beginning with the artifact's file, and whether the states are lost.
    pub fn run(
        &mut self,
        group: &Group,
        requests: &[&Prepared<'_>],
        memories: &mut [Option<OutputMemory<'_>>],
    ) -> Result<Vec<Left>, String> {
        let device = self.device.clone();
        let Some(program) = device.programs.get(group.bucket.index) else {
            return Err("the program is gone".to_owned());
        };
        if self.lost {
            self.restore().map_err(|error| {
                format!("{}: the instance's states are lost, and there is no memory for new ones: {error}", program.file)
            })?;
        }
        self.execute(program, group, requests, memories).map_err(|error| {
            self.lost = self.states.iter().any(Buffer::is_deleted);
            let states = match self.lost.then(|| self.restore()) {
                None => String::new(),
                Some(Ok(())) => {
                    "; the execution took the instance's states, which are zero again".to_owned()
                }
                Some(Err(error)) => format!(
                    "; the execution took the instance's states, and there is no memory for new \
                     ones: {error}"
                ),
            };
            format!("{}: {error}{states}", program.file)
        })
    }

    fn execute(
        &mut self,
        program: &Program,
        group: &Group,
        requests: &[&Prepared<'_>],
        memories: &mut [Option<OutputMemory<'_>>],
    ) -> Result<Vec<Left>, tlaloc_pjrt::Error> {
        let gathered = self.gathered.get_mut(group.bucket.index).map(Vec::as_mut_slice);
        let gathered = gathered.unwrap_or_default();
        let mut given = Vec::with_capacity(program.inputs.len());
        for (index, (tensor, gather)) in program.inputs.iter().zip(&mut *gathered).enumerate() {
            let input = requests.iter().filter_map(|request| request.inputs.get(index));
            let dims = signed(tensor.dims());
            let element = element_type(tensor.dtype());
            if group.is_direct()
                && let Some(bytes) = input.clone().next()
            {
                match in_place(&self.device.client, self.zero_copy, element, &dims, bytes) {
                    Ok(view) => {
                        self.paths.input_in_place(index, bytes.place());
                        given.push(Given::InPlace(view));
                        continue;
                    }
                    Err(Some(reason)) => self.paths.input_copied(index, bytes.place(), &reason),
                    Err(None) => {}
                }
            }
            let pieces = input.flat_map(|bytes| bytes.pieces());
            let fetch =
                |from: &GpuMemory<'_>, to: &mut [u8]| gpu::fetch(&self.device.client, from, to);
            if self.device.client.shares_host_memory() {
                let staging = match &mut gather.staging {
                    Some(staging) => staging,
                    none => none.insert(Staging::new(&self.device.client, [pjrt_shape(tensor)?])?),
                };
                if let Some(memory) = staging.inputs_mut()?.next() {
                    fill(memory, pieces, fetch)?;
                }
                given.push(Given::Gathered);
            } else {
                gather.host.resize(tensor.bytes(), 0);
                fill(&mut gather.host, pieces, fetch)?;
                let uploaded = self.device.client.upload(element, &dims, &gather.host)?;
                given.push(Given::Uploaded(uploaded));
            }
        }
        let client = &self.device.client;
        let mut placement = Placement::new(program, &self.plan);
        let targets = placement.targets(client, memories, &mut self.spare)?;
        let mut states = self.states.iter_mut();
        let arguments = self.plan.arguments.iter().filter_map(|argument| match argument {
            binding::Argument::Input(input) => match given.get(*input)? {
                Given::InPlace(view) => Some(Argument::Borrowed(view)),
                Given::Gathered => {
                    let staging = gathered.get(*input)?.staging.as_ref()?;
                    Some(Argument::Staged(staging.input(0)))
                }
                Given::Uploaded(buffer) => Some(Argument::Keep(buffer)),
            },
            binding::Argument::Weight(weight) => {
                self.device.weights.get(*weight).map(Argument::Keep)
            }
            binding::Argument::State(_) => states.next().map(Argument::Donate),
        });
        let arguments = arguments.chain(targets.into_iter().map(Argument::Place));
        let mut pending = program.executable.execute(arguments)?;
        pending.wait()?;
        let mut outputs = Vec::with_capacity(self.plan.results.len());
        for (result, target) in self.plan.results.iter().enumerate() {
            let given = pending.take(result);
            match target {
                Target::Output(output) => {
                    outputs.extend(placement.left(result, given).map(|left| (*output, left)));
                }
                // Kept whatever becomes of the outputs.
                Target::State(state) => {
                    if let (Some(kept), Some(new)) = (self.states.get_mut(*state), given) {
                        *kept = new;
                    }
                }
            }
        }
        outputs.sort_by_key(|(output, _)| *output);
        Ok(outputs.into_iter().map(|(_, left)| left).collect())
    }

    /// Replaces states that a failed execution took by zeroed ones.
    fn restore(&mut self) -> Result<(), tlaloc_pjrt::Error> {
        self.states = self.device.zeroed_states()?;
        self.lost = false;
        Ok(())
    }
}

/// The bytes as the device reads them where they lie, or why it does not: no reason where it never
/// reads the host's memory.
fn in_place<'a>(
    client: &Arc<Client>,
    zero_copy: bool,
    element: ElementType,
    dims: &[i64],
    bytes: &Bytes<'a>,
) -> Result<View<'a>, Option<Reason>> {
    if bytes.place() == Place::Host && !client.shares_host_memory() {
        return Err(None);
    }
    if !zero_copy {
        return Err(Some(Reason::ZeroCopyOff));
    }
    let viewed = match bytes {
        Bytes::Pieces(pieces) => return Err(Some(Reason::Pieces(pieces.len()))),
        Bytes::Whole(Piece::Host([])) => return Err(None),
        Bytes::Whole(Piece::Host(bytes)) => client.view_host(element, dims, bytes),
        Bytes::Whole(Piece::Gpu(memory)) => match Reason::unreached(client, memory) {
            Some(reason) => return Err(Some(reason)),
            None => client.view_device(element, dims, &gpu::bytes(memory)),
        },
    };
    match viewed {
        Ok(Some(view)) => Ok(view),
        Ok(None) => Err(Some(Reason::Unaligned(client.view_alignment()))),
        Err(error) => Err(Some(Reason::Refused(error.to_string()))),
    }
}

/// Writes the pieces one behind the other, and zeros behind the last. `fetch` copies from GPUs.
fn fill<'a>(
    mut memory: &mut [u8],
    pieces: impl Iterator<Item = &'a Piece<'a>>,
    mut fetch: impl FnMut(&GpuMemory<'a>, &mut [u8]) -> Result<(), tlaloc_pjrt::Error>,
) -> Result<(), tlaloc_pjrt::Error> {
    for piece in pieces {
        // Sizes were checked: the pieces are no longer than the memory.
        let length = piece.byte_size().min(memory.len());
        let (head, rest) = memory.split_at_mut(length);
        match piece {
            Piece::Host(bytes) => head.copy_from_slice(bytes.get(..length).unwrap_or_default()),
            Piece::Gpu(from) => fetch(from, head)?,
        }
        memory = rest;
    }
    memory.fill(0);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_filled_is_zero() {
        let mut memory = [9; 6];
        let pieces = [&[1, 2][..], &[], &[3]].map(Piece::Host);
        fill(&mut memory, pieces.iter(), |_, _| unreachable!("nothing is on a GPU")).unwrap();
        assert_eq!(memory, [1, 2, 3, 0, 0, 0]);
    }
}
