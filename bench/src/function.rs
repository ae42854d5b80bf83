//! One StableHLO function in a bare loop: inputs read in place, every call awaited, outputs dropped
//! where they are.

use std::fmt;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Instant;

use serde::Serialize;
use tlaloc_artifact::Tensor;
use tlaloc_artifact::stablehlo::{Module, prepare};
use tlaloc_pjrt::{Argument, Client, ClientOptions, Plugin, Shape, Staging};

use crate::error::Error;
use crate::replay::{element_type, signed};
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

    let plugin = Plugin::load(&options.plugin)?;
    let client = Client::shared(&plugin, 0, &ClientOptions::default())?;
    let executable = client.compile(&prepare(&text, &function.name))?;
    let shapes = tensors
        .iter()
        .map(|tensor| Shape::new(element_type(tensor.dtype()), &signed(tensor)))
        .collect::<Result<Vec<_>, _>>()?;
    let inputs = Staging::new(&client, shapes)?;
    let mut times = Vec::with_capacity(options.calls.get());
    for call in 0..WARM_UP + options.calls.get() {
        let started = Instant::now();
        let mut pending = executable.execute(inputs.inputs().map(Argument::Staged))?;
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
