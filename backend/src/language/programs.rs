//! What a device holds of a model: compiled programs and weights, shared by all its instances.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use tlaloc_artifact::{Artifact, Entry, InputRole, OutputRole};
use tlaloc_pjrt::{Argument, Buffer, Client, ElementType, Executable};
use tracing::info;
use triton_backend::MemoryUsage;

use super::error::Error;
use super::memory;
use super::rows::{RowPrograms, RowUse};
use crate::compile::{Compiler, Progress, in_parallel};
use crate::device::memory_usage;
use crate::dtype::{element_type, signed};
use crate::weights::{Uploaded, Uploads};

/// Where an argument of a program comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// An index of [`Program::steps`].
    Step(usize),
    /// The artifact's next pool: arguments have them in its order.
    Pool,
    /// An index of the artifact's weights.
    Weight(usize),
}

/// A compiled entry and how it is called.
pub struct Program {
    /// The entry's id.
    pub id: String,
    /// The compiled body; entries of one body share it.
    pub executable: Executable,
    /// One per argument.
    pub sources: Vec<Source>,
    /// The integer inputs that every call fills, in the order of its arguments.
    pub steps: Vec<StepInput>,
    /// Output index of the logits.
    pub logits: usize,
    /// Output index of each pool.
    pub pools: Vec<usize>,
    /// What each output is.
    outputs: Vec<OutputRole>,
}

/// An integer input of an entry, i32.
pub struct StepInput {
    /// What a call writes there.
    pub role: InputRole,
    /// Its shape.
    pub dims: Vec<i64>,
}

/// A model on one device.
pub struct DeviceModel {
    /// One program per entry of the artifact.
    pub programs: Vec<Program>,
    /// One buffer per weight of the artifact.
    pub weights: Vec<Buffer>,
    /// What moves rows of the pools, where that is asked for.
    pub rows: Option<RowPrograms>,
    /// How the weights got there.
    uploaded: Uploaded,
    /// The device.
    pub client: Arc<Client>,
    /// The artifact.
    pub artifact: Arc<Artifact>,
}

impl DeviceModel {
    /// Uploads the weights and compiles every body. A program that does not come from the compile
    /// cache runs once on scratch pools before it is kept there: it can compile and still fail when
    /// it runs.
    pub fn load(
        artifact: Arc<Artifact>,
        client: Arc<Client>,
        compiler: &Compiler,
        rows: RowUse,
    ) -> Result<Self, Error> {
        let bodies = Bodies::read(&artifact)?;
        let (weights, uploaded) = upload_weights(&artifact, &client)?;
        let rows = RowPrograms::load(&artifact, &client, compiler, rows)?;
        let programs = Vec::new();
        let mut model = DeviceModel { programs, weights, rows, uploaded, client, artifact };
        model.programs = bodies.compile(&model, compiler)?;
        Ok(model)
    }

    /// Bytes of the weights, as Triton is told of them.
    pub fn memory_usage(&self) -> MemoryUsage {
        memory_usage(&self.client, self.weights.iter().map(Buffer::bytes).sum())
    }

    /// A set of zeroed pools. On a CPU most of its time goes into fresh pages of memory.
    pub fn zeroed_pools(&self) -> Result<Vec<Buffer>, tlaloc_pjrt::Error> {
        let pools = self.artifact.pools();
        in_parallel(pools.len(), |index| {
            let tensor = &pools[index].tensor;
            self.client.zeros(element_type(tensor.dtype()), &signed(tensor.dims()))
        })
    }

    /// The load line, up to what concerns the configuration (sequence mode §4.1).
    pub fn summary(&self) -> String {
        let artifact = &self.artifact;
        let mut text = format!(
            "{}; {} entries, KV pool of {} pages x {} tokens, \
             largest context {}, largest decode batch {}, largest prefill batch {}",
            self.uploaded,
            artifact.entries().len(),
            artifact.num_blocks(),
            artifact.block_size(),
            artifact.max_context(),
            artifact.max_decode_batch(),
            artifact.max_prefill_batch()
        );
        let most = artifact.max_prefill_tokens();
        if 0 < most && most < artifact.max_context() {
            text += &format!(", at most {most} tokens per sequence in a prefill call");
        }
        text
    }
}

/// The bodies of an artifact, each once.
struct Bodies {
    bodies: Vec<Body>,
    /// Index of each entry's body.
    of_entry: Vec<usize>,
}

struct Body {
    file: PathBuf,
    name: String,
    text: String,
    /// The first entry that names it.
    entry: usize,
}

impl Bodies {
    /// Reads every body and checks it against each entry that names it.
    fn read(artifact: &Artifact) -> Result<Self, Error> {
        let mut bodies: Vec<Body> = Vec::new();
        let mut known = HashMap::new();
        let mut of_entry = Vec::with_capacity(artifact.entries().len());
        for (index, entry) in artifact.entries().iter().enumerate() {
            let text = artifact.read_body(entry)?;
            let body = *known.entry((&entry.body, text.clone())).or_insert_with(|| {
                bodies.push(Body {
                    file: entry.body.clone(),
                    name: entry.body_name.clone(),
                    text,
                    entry: index,
                });
                bodies.len() - 1
            });
            of_entry.push(body);
        }
        Ok(Bodies { bodies, of_entry })
    }

    /// Compiles all bodies, or takes them from the compile cache.
    fn compile(&self, model: &DeviceModel, compiler: &Compiler) -> Result<Vec<Program>, Error> {
        let scratch = Mutex::new(Vec::new());
        let progress = Progress::new(self.of_entry.len(), "entries");
        let programs = in_parallel(self.bodies.len(), |index| {
            let entries = self.of_entry.iter().filter(|body| **body == index).count();
            let ready = || progress.add(entries);
            self.bodies[index].obtain(model, compiler, &scratch, ready)
        })?;
        let entries = model.artifact.entries().iter().zip(&self.of_entry);
        Ok(entries
            .filter_map(|(entry, body)| Some(Program::new(entry, programs.get(*body)?.clone())))
            .collect())
    }
}

impl Body {
    fn obtain(
        &self,
        model: &DeviceModel,
        compiler: &Compiler,
        scratch: &Mutex<Vec<Buffer>>,
        ready: impl FnOnce() -> String,
    ) -> Result<Executable, Error> {
        let entry = &model.artifact.entries()[self.entry];
        let obtained = compiler
            .obtain(&model.client, self.text.as_bytes())
            .map_err(|source| Error::Compile { body: self.file.clone(), source })?;
        let (executable, millis) = (obtained.executable(), obtained.millis());
        let found = executable.num_outputs();
        if found != entry.outputs.len() {
            return Err(Error::Outputs {
                body: self.file.clone(),
                entry: entry.id.clone(),
                found,
                expected: entry.outputs.len(),
            });
        }
        if obtained.is_fresh() {
            let program = Program::new(entry, executable.clone());
            program.try_once(model, &mut scratch.lock()).map_err(|reason| Error::Trial {
                body: self.file.clone(),
                entry: entry.id.clone(),
                reason,
            })?;
        }
        info!(
            "{} {} ({}) in {millis} ms{}; {}",
            obtained.how(),
            entry.id,
            self.name,
            memory::needed(executable),
            ready()
        );
        memory::warn_of_copies(&model.artifact, entry, executable);
        Ok(obtained.keep())
    }
}

impl Program {
    fn new(entry: &Entry, executable: Executable) -> Self {
        let mut weights = 0..;
        let mut steps = Vec::new();
        let sources = entry
            .inputs
            .iter()
            .map(|input| match input.role {
                InputRole::Pool(_) => Source::Pool,
                InputRole::Weight => Source::Weight(weights.next().unwrap_or_default()),
                role => {
                    steps.push(StepInput { role, dims: signed(input.tensor.dims()) });
                    Source::Step(steps.len() - 1)
                }
            })
            .collect();
        let logits = entry.outputs.iter().position(|output| output.role == OutputRole::Logits);
        let pools = entry.donations.iter().map(|(_, output)| *output).collect();
        Program {
            id: entry.id.clone(),
            executable,
            sources,
            steps,
            logits: logits.unwrap_or_default(),
            pools,
            outputs: entry.outputs.iter().map(|output| output.role).collect(),
        }
    }

    /// Index of the output with this role, if there is one.
    pub fn result(&self, role: OutputRole) -> Option<usize> {
        self.outputs.iter().position(|output| *output == role)
    }

    /// Runs once with padding rows only, which leaves the pools as they are.
    fn try_once(&self, model: &DeviceModel, scratch: &mut Vec<Buffer>) -> Result<(), String> {
        let run = |scratch: &mut Vec<Buffer>| -> Result<(), tlaloc_pjrt::Error> {
            if scratch.is_empty() {
                *scratch = model.zeroed_pools()?;
            }
            let steps = self
                .steps
                .iter()
                .map(|step| {
                    let bytes = i32::to_le_bytes(padding(step.role)).repeat(elements(&step.dims));
                    model.client.upload(ElementType::I32, &step.dims, &bytes)
                })
                .collect::<Result<Vec<_>, _>>()?;
            let mut pools = scratch.iter_mut();
            let arguments = self.sources.iter().filter_map(|source| match source {
                Source::Step(step) => steps.get(*step).map(Argument::Keep),
                Source::Weight(weight) => model.weights.get(*weight).map(Argument::Keep),
                Source::Pool => pools.next().map(Argument::Donate),
            });
            let mut pending = self.executable.execute(arguments)?;
            pending.wait()?;
            *scratch = self.pools.iter().filter_map(|output| pending.take(*output)).collect();
            Ok(())
        };
        run(scratch).map_err(|error| {
            scratch.clear();
            error.to_string()
        })
    }
}

/// What rows without a sequence hold (artifact format §7.5).
fn padding(role: InputRole) -> i32 {
    match role {
        InputRole::SeqLens => 1,
        InputRole::SlotMapping | InputRole::WindowSlotMapping | InputRole::StateWriteSlots => -1,
        _ => 0,
    }
}

/// Brings every weight to the device.
fn upload_weights(
    artifact: &Artifact,
    client: &Arc<Client>,
) -> Result<(Vec<Buffer>, Uploaded), Error> {
    let weights = artifact.weights();
    let total = weights.iter().map(|weight| weight.tensor.bytes()).sum();
    let mut uploads = Uploads::new(client, total);
    let buffers = weights
        .iter()
        .map(|weight| {
            weight.open()?;
            uploads.upload(&weight.file, &weight.tensor).map_err(|source| Error::Upload {
                what: format!("weight '{}' ({})", weight.name, weight.file.display()),
                source,
            })
        })
        .collect::<Result<Vec<_>, Error>>()?;
    let uploaded = uploads.finish(&buffers);
    Ok((buffers, uploaded))
}

/// How many elements a step input has.
pub fn elements(dims: &[i64]) -> usize {
    usize::try_from(dims.iter().product::<i64>()).unwrap_or_default()
}
