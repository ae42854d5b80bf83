//! One StableHLO function in a bare loop: inputs read in place, every call awaited, outputs left where
//! they are, in memory of the plugin's or of ours.

use std::fmt;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Instant;

use serde::Serialize;
use tlaloc_artifact::Tensor;
use tlaloc_artifact::stablehlo::{Module, prepare};
use tlaloc_pjrt::{Argument, Client, ClientOptions, Plugin, Shape, Staging};

use crate::error::Error;
use crate::program::{element_type, signed};
use crate::summary::Summary;

/// Calls before the first that counts.
const WARM_UP: usize = 5;

/// What to run.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// StableHLO text; its function `main` runs, or else its first.
    file: PathBuf,

    /// The PJRT plugin.
    #[arg(long, value_name = "FILE", env = "TLALOC_PJRT_PLUGIN_PATH")]
    plugin: PathBuf,

    /// Have outputs written to memory of ours, the same for every call, as the backend does with
    /// large ones; the plugin's own memory is new in each call.
    #[arg(long)]
    place: bool,

    /// Calls that count.
    #[arg(long, value_name = "N", default_value = "50")]
    calls: NonZeroUsize,

    /// Print one line of JSON.
    #[arg(long)]
    pub json: bool,
}

/// What a loop saw.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The function.
    function: String,
    /// Calls that counted.
    calls: usize,
    /// Time of a call.
    milliseconds: Summary,
}

/// Runs the loop, with zeros for inputs.
pub fn run(options: &Options) -> Result<Report, Error> {
    let unreadable = |source| Error::Unreadable { file: options.file.clone(), source };
    let wrong = |reason: String| Error::Function { file: options.file.clone(), reason };
    let text = std::fs::read_to_string(&options.file).map_err(unreadable)?;
    let module = Module::parse(&text).map_err(|error| wrong(error.to_string()))?;
    let function = module.function("main").or(module.functions.first());
    let function = function.ok_or_else(|| wrong("defines no function".to_owned()))?;
    let tensors: Option<Vec<Tensor>> =
        function.arguments.iter().map(|argument| argument.ty.tensor()).collect();
    let tensors = tensors
        .ok_or_else(|| wrong(format!("@{} has arguments of no fixed size", function.name)))?;

    let results: Vec<usize> =
        if options.place { (0..function.results.len()).collect() } else { Vec::new() };
    let placed = function.with_places(&text, &results);
    let placed = placed.ok_or_else(|| wrong("has results that cannot be placed".to_owned()))?;

    let plugin = Plugin::load(&options.plugin)?;
    let client = Client::shared(&plugin, 0, &ClientOptions::default())?;
    let executable = client.compile(&prepare(&placed, &function.name))?;
    let shapes = tensors
        .iter()
        .map(|tensor| Shape::new(element_type(tensor.dtype()), &signed(tensor)))
        .collect::<Result<Vec<_>, _>>()?;
    let inputs = Staging::new(&client, shapes)?;
    let alignment = client.view_alignment();
    let mut memories: Vec<(&Shape, Vec<u8>)> = executable
        .outputs()
        .take(results.len())
        .map(|shape| (shape, vec![0; shape.bytes() + alignment]))
        .collect();
    let mut times = Vec::with_capacity(options.calls.get());
    for call in 0..WARM_UP + options.calls.get() {
        let started = Instant::now();
        let mut targets = Vec::with_capacity(memories.len());
        for (shape, memory) in &mut memories {
            let start = memory.as_ptr().align_offset(alignment);
            let memory = memory.get_mut(start..start + shape.bytes()).unwrap_or_default();
            targets.extend(client.lend_host(shape.element_type(), shape.dims(), memory)?);
        }
        let arguments = inputs.inputs().map(Argument::Staged);
        let arguments = arguments.chain(targets.into_iter().map(Argument::Place));
        let mut pending = executable.execute(arguments)?;
        pending.wait()?;
        drop(pending);
        if call >= WARM_UP {
            times.push(started.elapsed().as_secs_f64() * 1e3);
        }
    }
    Ok(Report {
        function: function.name.clone(),
        calls: times.len(),
        milliseconds: Summary::of(times),
    })
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Summary { min, median, p90, .. } = self.milliseconds;
        writeln!(f, "@{}, {} calls", self.function, self.calls)?;
        writeln!(f, "{median:.3} ms median, {min:.3} min, {p90:.3} p90")
    }
}
