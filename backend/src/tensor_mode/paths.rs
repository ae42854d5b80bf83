//! Tells once which way each tensor of a model goes (tensor mode §10.1).

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

use tlaloc_pjrt::Client;
use tracing::{Span, info};
use triton_backend::GpuMemory;

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
    host: Ways,
    gpu: Ways,
}

/// Of each place of a tensor.
#[derive(Debug, Default)]
struct Ways {
    direct: AtomicBool,
    copied: AtomicBool,
}

impl Told {
    fn ways(&self, place: Place) -> &Ways {
        match place {
            Place::Host => &self.host,
            Place::Gpu => &self.gpu,
        }
    }
}

/// Where a client has a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In host memory.
    Host,
    /// In a GPU's.
    Gpu,
}

/// How an output came to its client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delivered {
    /// The execution wrote it to the client's host memory.
    InPlace,
    /// It was copied to host memory.
    Copied,
    /// It was copied to the client's GPU memory without leaving the GPU.
    OnDevice,
    /// It was copied to GPU memory by way of the host.
    ThroughHost(Reason),
}

/// Why a tensor does not go the direct way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The model's parameter says so.
    ZeroCopyOff,
    /// The device cannot read it there.
    Unaligned(usize),
    /// The plugin cannot lay arrays over memory.
    NoViews,
    /// It is on the GPU of this ordinal, the model on another.
    OtherGpu(i64),
    /// Several requests share the execution, or its rows do not fill it.
    Batched,
    /// The device stores the result with gaps, or in another order.
    NotDense,
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
            Reason::NoViews => f.write_str("the plugin has no device views"),
            Reason::OtherGpu(device) => write!(f, "it is on GPU {device}"),
            Reason::Batched => f.write_str("it is part of a batch"),
            Reason::NotDense => f.write_str("its device storage is not dense row-major"),
            Reason::Pieces(count) => write!(f, "it comes in {count} pieces"),
            Reason::Refused(reason) => write!(f, "the device cannot read it there: {reason}"),
        }
    }
}

impl Reason {
    /// Why the device of a client does not touch GPU memory; none where it can.
    pub fn unreached(client: &Client, memory: &GpuMemory<'_>) -> Option<Self> {
        if !client.supports_views() {
            Some(Reason::NoViews)
        } else if memory.device() != i64::from(client.ordinal()) {
            Some(Reason::OtherGpu(memory.device()))
        } else {
            None
        }
    }
}

impl Paths {
    /// Nothing told. Call it in the model's span.
    pub fn new(config: &TensorConfig) -> Self {
        let told = |name: &String| Told {
            name: name.clone(),
            host: Ways::default(),
            gpu: Ways::default(),
        };
        Paths {
            span: Span::current(),
            inputs: config.inputs.iter().map(|input| told(&input.name)).collect(),
            outputs: config.outputs.iter().map(|output| told(&output.name)).collect(),
        }
    }

    /// An input is read where it lies.
    pub fn input_in_place(&self, input: usize, place: Place) {
        let Some(told) = self.inputs.get(input) else { return };
        if first(&told.ways(place).direct) {
            let from = match place {
                Place::Host => "host",
                Place::Gpu => "GPU",
            };
            info!(
                parent: &self.span,
                "input '{}' is read in place from {from} memory (no host copy)", told.name
            );
        }
    }

    /// An input is copied to memory that the device reads.
    pub fn input_copied(&self, input: usize, place: Place, reason: &Reason) {
        let Some(told) = self.inputs.get(input) else { return };
        if first(&told.ways(place).copied) {
            let what = match place {
                Place::Host => "is in host memory and is copied",
                Place::Gpu => "is in GPU memory and goes through the host",
            };
            info!(parent: &self.span, "input '{}' {what}: {reason}", told.name);
        }
    }

    /// An output is where its client wants it.
    pub fn output(&self, output: usize, how: &Delivered) {
        let Some(told) = self.outputs.get(output) else { return };
        let (flag, text) = match how {
            Delivered::InPlace => {
                (&told.host.direct, "is written in place into host memory (no host copy)")
            }
            Delivered::Copied => {
                (&told.host.copied, "is copied from device memory into host memory")
            }
            Delivered::OnDevice => (&told.gpu.direct, "is copied device to device into GPU memory"),
            Delivered::ThroughHost(_) => {
                (&told.gpu.copied, "was given GPU memory and goes through the host: ")
            }
        };
        if first(flag) {
            let reason = match how {
                Delivered::ThroughHost(reason) => reason.to_string(),
                _ => String::new(),
            };
            info!(parent: &self.span, "output '{}' {text}{reason}", told.name);
        }
    }
}

fn first(told: &AtomicBool) -> bool {
    // The load spares executions the exclusive access.
    !told.load(Ordering::Relaxed) && !told.swap(true, Ordering::Relaxed)
}
