//! What a device holds of a model: compiled programs and weights, shared by all its instances.

use std::path::Path;
use std::sync::Arc;

use tlaloc_artifact::Tensor;
use tlaloc_pjrt::{Buffer, Client, Executable, Shape};
use tracing::info;
use triton_backend::MemoryUsage;

use super::binding::{Argument, Plan};
use super::error::Error;
use super::signature::Signature;
use super::source::Source;
use crate::compile::Compiler;
use crate::device::memory_usage;
use crate::dtype::{element_type, signed};
use crate::weights::Uploads;

/// A model on one device.
pub struct DeviceModel {
    /// The device.
    pub client: Arc<Client>,
    /// One program per artifact.
    pub programs: Vec<Program>,
    /// One buffer per weight of the plan.
    pub weights: Vec<Buffer>,
    /// The type of each state of the plan.
    pub states: Vec<Tensor>,
}

/// A compiled artifact.
pub struct Program {
    /// The artifact's file.
    pub file: String,
    /// The compiled module.
    pub executable: Executable,
    /// The results that are written to memory given as further arguments, in their order.
    pub places: Vec<usize>,
    /// The type of each input of the configuration.
    pub inputs: Vec<Tensor>,
}

/// A compiled module, and the results that the caller places.
pub struct Compiled {
    executable: Executable,
    places: Vec<usize>,
}

impl Compiled {
    /// Compiles an artifact, or takes it from the compile cache; with `placing` so that its large
    /// outputs can be written where they are wanted. Also the line that tells of it.
    pub fn new(
        client: &Arc<Client>,
        source: &Source,
        placing: bool,
        compiler: &Compiler,
    ) -> Result<(Self, String), Error> {
        let placed = source.placing.as_ref().filter(|_| placing).and_then(|placing| {
            // The module as it is tells better what is wrong with it.
            Some((compiler.obtain(client, &placing.module).ok()?, placing.results.clone()))
        });
        let (obtained, places) = match placed {
            Some(placed) => placed,
            None => {
                let obtained = compiler
                    .obtain(client, &source.module)
                    .map_err(|error| Error::Compile { file: source.file.clone(), source: error })?;
                (obtained, Vec::new())
            }
        };
        let line = format!(
            "{} {} (@{}) for {} in {} ms",
            obtained.how(),
            source.file,
            source.function(),
            client.device_name(),
            obtained.millis()
        );
        Ok((Compiled { executable: obtained.keep(), places }, line))
    }

    /// The program.
    pub fn executable(&self) -> &Executable {
        &self.executable
    }
}

impl DeviceModel {
    /// Brings together what was compiled, and uploads the weights. Arguments were checked before.
    pub fn new(
        client: Arc<Client>,
        compiled: Vec<Compiled>,
        signatures: &[Signature],
        plan: &Plan,
        directory: &Path,
    ) -> Result<Self, Error> {
        let programs: Vec<Program> = compiled
            .into_iter()
            .zip(signatures)
            .map(|(compiled, signature)| Program::new(compiled, signature, plan))
            .collect::<Result<_, _>>()?;
        let of_first = |argument: usize| signatures.first()?.arguments.get(argument).cloned();
        let states = plan.states.iter().filter_map(|state| of_first(state.argument)).collect();
        let weights = upload_weights(&client, signatures, plan, directory)?;
        Ok(DeviceModel { client, programs, weights, states })
    }

    /// Bytes of the weights, as Triton is told of them.
    pub fn memory_usage(&self) -> MemoryUsage {
        memory_usage(&self.client, self.weights.iter().map(Buffer::bytes).sum())
    }

    /// A set of zeroed states.
    pub fn zeroed_states(&self) -> Result<Vec<Buffer>, tlaloc_pjrt::Error> {
        let zeros = |tensor: &Tensor| {
            self.client.zeros(element_type(tensor.dtype()), &signed(tensor.dims()))
        };
        self.states.iter().map(zeros).collect()
    }
}

impl Program {
    fn new(compiled: Compiled, signature: &Signature, plan: &Plan) -> Result<Self, Error> {
        let Compiled { executable, places } = compiled;
        let wrong = |found: String, expected: String| Error::Compiled {
            file: signature.file.clone(),
            found,
            function: signature.function.clone(),
            expected,
        };
        if executable.num_outputs() != signature.results.len() {
            return Err(wrong(
                format!("{} outputs", executable.num_outputs()),
                format!("{} results", signature.results.len()),
            ));
        }
        for (index, (output, result)) in executable.outputs().zip(&signature.results).enumerate() {
            if *output != pjrt_shape(result).map_err(Error::Device)? {
                return Err(wrong(format!("output {index} of {output}"), result.to_string()));
            }
        }
        let count = plan.arguments.iter().filter(|a| matches!(a, Argument::Input(_))).count();
        let input = |input| {
            plan.argument_of_input(input).and_then(|index| signature.arguments.get(index)).cloned()
        };
        Ok(Program {
            file: signature.file.clone(),
            executable,
            places,
            inputs: (0..count).filter_map(input).collect(),
        })
    }
}

/// The weights of a plan: file and type, in order.
fn weights<'a>(
    signatures: &'a [Signature],
    plan: &'a Plan,
) -> impl Iterator<Item = (usize, &'a str, &'a Tensor)> {
    let arguments = plan.arguments.iter().enumerate();
    arguments.filter_map(move |(index, argument)| match argument {
        Argument::Weight(weight) => Some((
            index,
            plan.weights.get(*weight)?.as_str(),
            signatures.first()?.arguments.get(index)?,
        )),
        Argument::Input(_) | Argument::State(_) => None,
    })
}

/// Checks that every weight file has its argument's size.
pub fn check_weights(signatures: &[Signature], plan: &Plan, directory: &Path) -> Result<(), Error> {
    for (argument, file, tensor) in weights(signatures, plan) {
        let path = directory.join(file);
        let found = std::fs::metadata(&path)
            .map_err(|source| Error::Unreadable { path: path.clone(), source })?
            .len();
        if found != tensor.bytes() as u64 {
            let function = signatures.first().map(|first| first.function.clone());
            return Err(Error::WeightSize {
                file: file.to_owned(),
                found,
                argument,
                function: function.unwrap_or_default(),
                tensor: tensor.to_string(),
                needed: tensor.bytes(),
            });
        }
    }
    Ok(())
}

/// Brings every weight to the device.
fn upload_weights(
    client: &Arc<Client>,
    signatures: &[Signature],
    plan: &Plan,
    directory: &Path,
) -> Result<Vec<Buffer>, Error> {
    if plan.weights.is_empty() {
        return Ok(Vec::new());
    }
    let total = weights(signatures, plan).map(|(_, _, tensor)| tensor.bytes()).sum();
    let mut uploads = Uploads::new(client, total);
    let buffers = weights(signatures, plan)
        .map(|(_, file, tensor)| {
            uploads
                .upload(&directory.join(file), tensor)
                .map_err(|source| Error::Upload { what: format!("weight '{file}'"), source })
        })
        .collect::<Result<Vec<_>, Error>>()?;
    info!("{}", uploads.finish(&buffers));
    Ok(buffers)
}

/// The plugin's shape of a tensor.
pub fn pjrt_shape(tensor: &Tensor) -> Result<Shape, tlaloc_pjrt::Error> {
    Shape::new(element_type(tensor.dtype()), &signed(tensor.dims()))
}
