//! Tells once which way each tensor of a model goes (tensor mode §10.1).

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

use tracing::{Span, info};

use super::config::TensorConfig;

/// Which lines have been told, for all instances of a model.
#[derive(Debug)]
pub struct Paths {
    /// The model's span: its name is in front of the lines.
    span: Span,
    inputs: Vec<Told>,
    outputs: Vec<Told>,
}

#[derive(Debug)]
struct Told {
    name: String,
    direct: AtomicBool,
    copied: AtomicBool,
}

/// Why an input is not read where it lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The model's parameter says so.
    ZeroCopyOff,
    /// The device cannot read it there.
    Unaligned(usize),
    /// It is in several pieces.
    Pieces(usize),
    /// The plugin refused, in these words.
    Refused(String),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::ZeroCopyOff => f.write_str("zero_copy is false"),
            Reason::Unaligned(alignment) => {
                write!(f, "it is not aligned to {alignment} bytes")
            }
            Reason::Pieces(count) => write!(f, "it comes in {count} pieces"),
            Reason::Refused(reason) => write!(f, "the device cannot read it there: {reason}"),
        }
    }
}

impl Paths {
    /// Nothing told. Call it in the model's span.
    pub fn new(config: &TensorConfig) -> Self {
        let told = |name: &String| Told {
            name: name.clone(),
            direct: AtomicBool::new(false),
            copied: AtomicBool::new(false),
        };
        Paths {
            span: Span::current(),
            inputs: config.inputs.iter().map(|input| told(&input.name)).collect(),
            outputs: config.outputs.iter().map(|output| told(&output.name)).collect(),
        }
    }

    /// An input is read where it lies.
    pub fn input_in_place(&self, input: usize) {
        let Some(told) = self.inputs.get(input) else { return };
        if first(&told.direct) {
            info!(
                parent: &self.span,
                "input '{}' is read in place from host memory (no host copy)", told.name
            );
        }
    }

    /// An input is copied to memory that the device reads.
    pub fn input_copied(&self, input: usize, reason: &Reason) {
        let Some(told) = self.inputs.get(input) else { return };
        if first(&told.copied) {
            info!(
                parent: &self.span,
                "input '{}' is in host memory and is copied: {reason}", told.name
            );
        }
    }

    /// An output is written to the client's memory by the execution.
    pub fn output_in_place(&self, output: usize) {
        let Some(told) = self.outputs.get(output) else { return };
        if first(&told.direct) {
            info!(
                parent: &self.span,
                "output '{}' is written in place into host memory (no host copy)", told.name
            );
        }
    }

    /// An output is copied to the client's memory from where the execution left it.
    pub fn output_copied(&self, output: usize) {
        let Some(told) = self.outputs.get(output) else { return };
        if first(&told.copied) {
            info!(
                parent: &self.span,
                "output '{}' is copied from device memory into host memory", told.name
            );
        }
    }
}

fn first(told: &AtomicBool) -> bool {
    // The load spares executions the exclusive access.
    !told.load(Ordering::Relaxed) && !told.swap(true, Ordering::Relaxed)
}
