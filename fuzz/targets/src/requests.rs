//! Requests of clients, to models of every mode on the plugin that `TLALOC_PJRT_PLUGIN_PATH` names.

use std::sync::LazyLock;

use arbitrary::{Arbitrary, Unstructured};
use serde_json::{Value, json};
use triton_backend::entry_points;
use triton_backend_sys as sys;
use triton_mock_host::{
    BackendSetup, Correlation, Event, Faults, GpuAddress, Host, InputSetup, InstanceSetup,
    LoadedInstance, LoadedModel, ModelSetup, Parameter, RequestSetup, Ticket,
};
use triton_tlaloc::Tlaloc;

use crate::{configuration, repository};

/// A model with what a good request to it holds.
struct Served {
    instance: LoadedInstance,
    inputs: &'static [(&'static str, u32, &'static [i64])],
    outputs: &'static [&'static str],
    /// Whether requests belong to sequences.
    sequences: bool,
    _model: LoadedModel,
}

/// Batches of requests, one after the other.
#[derive(Arbitrary, Debug)]
struct Script {
    model: u8,
    batches: Vec<Vec<Written>>,
}

/// A request, as far as it differs from a good one.
#[derive(Arbitrary, Debug)]
struct Written {
    sequence: u8,
    start: bool,
    end: bool,
    /// Bytes of each input.
    data: Vec<Vec<u8>>,
    /// Shape of the first input in place of one that fits its bytes.
    shape: Option<Vec<i64>>,
    /// Type of the first input in place of its own.
    data_type: Option<u8>,
    /// Where the first input's bytes are cut in two.
    cut: u8,
    /// An input that the model does not have, or has already.
    extra: Option<String>,
    missing: bool,
    outputs: Option<Vec<u8>>,
    parameters: Vec<(Named, Kind)>,
    faults: Option<[bool; 4]>,
    cancelled: bool,
    text_id: Option<String>,
}

#[derive(Arbitrary, Debug)]
enum Named {
    MaxTokens,
    EndTokens,
    Other(String),
}

#[derive(Arbitrary, Debug)]
enum Kind {
    Text(String),
    Numbers(Vec<i16>),
    Int(i64),
    Bool(bool),
    Double(f64),
    Bytes,
}

const MOST_REQUESTS: usize = 6;

/// Requests to models of every mode. Each is answered once and released once, whatever is in it, and
/// the backend does not panic. Without a plugin nothing is run.
pub fn requests(data: &[u8]) {
    static MODELS: LazyLock<Vec<Served>> = LazyLock::new(models);
    let Ok(script) = Script::arbitrary(&mut Unstructured::new(data)) else { return };
    if MODELS.is_empty() {
        return;
    }
    let served = &MODELS[usize::from(script.model) % MODELS.len()];
    for batch in script.batches.iter().take(4) {
        let batch = &batch[..batch.len().min(MOST_REQUESTS)];
        let setups = batch.iter().enumerate().map(|(place, written)| written.setup(served, place));
        let tickets = served.instance.execute(setups.collect()).unwrap();
        for (ticket, written) in tickets.iter().zip(batch) {
            if written.cancelled {
                ticket.cancel();
            }
        }
        for (ticket, written) in tickets.iter().zip(batch) {
            check(ticket, written);
        }
    }
}

fn check(ticket: &Ticket, written: &Written) {
    let events = ticket.wait();
    let count = |of: fn(&Event) -> bool| events.iter().filter(|event| of(event)).count();
    assert_eq!(count(|event| *event == Event::Released), 1, "{written:?}: {events:?}");
    assert_eq!(count(|event| matches!(event, Event::Misused(_))), 0, "{written:?}: {events:?}");
    let answers = count(|event| matches!(event, Event::Answered(_) | Event::SendFailed));
    // Where the server gives no response, none can be sent.
    let without = written.faults.is_some_and(|faults| faults[0]);
    assert_eq!(answers, usize::from(!without), "{written:?}: {events:?}");
    assert_eq!(ticket.live_responses(), 0);
    for event in &events {
        if let Event::Answered(answer) = event {
            let error = answer.error.as_ref().map_or(String::new(), ToString::to_string);
            assert!(answer.last && !error.contains("panicked"), "{written:?}: {error}");
        }
    }
}

impl Written {
    fn setup(&self, served: &Served, place: usize) -> RequestSetup {
        let mut inputs: Vec<InputSetup> = served
            .inputs
            .iter()
            .enumerate()
            .map(|(index, (name, data_type, dims))| {
                let bytes = self.data.get(index).cloned().unwrap_or_default();
                let shape = shape_for(*data_type, dims, bytes.len());
                InputSetup {
                    name: (*name).to_owned(),
                    data_type: *data_type,
                    shape,
                    pieces: vec![bytes],
                    memory: sys::TRITONSERVER_MEMORY_CPU,
                    gpu: GpuAddress::NOWHERE,
                }
            })
            .collect();
        if let Some(first) = inputs.first_mut() {
            let bytes = first.pieces.concat();
            let (head, tail) = bytes.split_at(usize::from(self.cut).min(bytes.len()));
            let pieces = [head, tail].into_iter().filter(|piece| !piece.is_empty());
            first.pieces = pieces.map(<[u8]>::to_vec).collect();
            if let Some(shape) = &self.shape {
                first.shape.clone_from(shape);
            }
            if let Some(data_type) = self.data_type {
                first.data_type = u32::from(data_type) % 16;
            }
        }
        if self.missing {
            inputs.pop();
        }
        if let Some(name) = &self.extra {
            inputs.push(InputSetup::int32(name, &[1]));
        }
        let outputs = served.outputs.iter().enumerate().filter(|(index, _)| {
            self.outputs.as_ref().is_none_or(|wanted| wanted.contains(&(*index as u8)))
        });
        let [response_new, output, buffer, send] = self.faults.unwrap_or_default();
        let parameter = |(name, kind): &(Named, Kind)| (name.text(), kind.value());
        RequestSetup {
            correlation: match &self.text_id {
                _ if !served.sequences => Correlation::None,
                // Never two requests of one sequence at once: the server holds them back.
                Some(id) => Correlation::Text(format!("{place}{id}")),
                None => Correlation::Number(
                    u64::from(self.sequence % 8) * MOST_REQUESTS as u64 + place as u64,
                ),
            },
            start: self.start && served.sequences,
            end: self.end && served.sequences,
            inputs,
            outputs: outputs.map(|(_, name)| (*name).to_owned()).collect(),
            parameters: self.parameters.iter().map(parameter).collect(),
            faults: Faults { response_new, output, buffer, send, ..Faults::default() },
            ..RequestSetup::default()
        }
    }
}

impl Named {
    fn text(&self) -> String {
        match self {
            Named::MaxTokens => "max_tokens".to_owned(),
            Named::EndTokens => "end_tokens".to_owned(),
            Named::Other(name) => name.clone(),
        }
    }
}

impl Kind {
    fn value(&self) -> Parameter {
        match self {
            Kind::Text(text) => Parameter::String(text.clone()),
            Kind::Numbers(numbers) => {
                let numbers: Vec<_> = numbers.iter().map(i16::to_string).collect();
                Parameter::String(numbers.join(", "))
            }
            Kind::Int(number) => Parameter::Int(*number),
            Kind::Bool(truth) => Parameter::Bool(*truth),
            Kind::Double(number) => Parameter::Double(*number),
            Kind::Bytes => Parameter::Bytes,
        }
    }
}

/// Dims with the first -1 such that the tensor has as many bytes.
fn shape_for(data_type: u32, dims: &[i64], bytes: usize) -> Vec<i64> {
    let size: i64 = match data_type {
        sys::TRITONSERVER_TYPE_BOOL => 1,
        sys::TRITONSERVER_TYPE_INT64 => 8,
        _ => 4,
    };
    let fixed: i64 = dims.iter().filter(|dim| **dim > 0).product();
    let open = (bytes as i64) / (size * fixed);
    let mut open = std::iter::once(open).chain(std::iter::repeat(1));
    dims.iter().map(|dim| if *dim > 0 { *dim } else { open.next().unwrap_or(1) }).collect()
}

fn models() -> Vec<Served> {
    if std::env::var_os("TLALOC_PJRT_PLUGIN_PATH").is_none() {
        eprintln!("SKIPPED: TLALOC_PJRT_PLUGIN_PATH names no PJRT plugin");
        return Vec::new();
    }
    let host = Host::start(entry_points::<Tlaloc>(), BackendSetup::default()).unwrap();
    let load = |name: &str, config: Value| {
        let repository = repository("model-repository").join(name);
        let config = config.to_string();
        let setup = ModelSetup { name: name.to_owned(), repository, config, ..Default::default() };
        let model = host.load(setup).unwrap();
        (model.instance(InstanceSetup::default()).unwrap(), model)
    };
    let tensor = |max_batch_size: i64, inputs: Value, outputs: Value, parameters: Value| {
        let parameters = parameters.as_object().unwrap().iter();
        let written = parameters.map(|(key, value)| (key.clone(), json!({"string_value": value})));
        json!({
            "max_batch_size": max_batch_size, "input": inputs, "output": outputs,
            "instance_group": [{"kind": "KIND_MODEL", "count": 1}],
            "parameters": written.collect::<serde_json::Map<_, _>>()
        })
    };
    let named = |name: &str, data_type: &str, dims: &[i64]| json!({"name": name, "data_type": data_type, "dims": dims});
    const FP32: u32 = sys::TRITONSERVER_TYPE_FP32;

    let config = tensor(
        0,
        json!([named("X", "TYPE_INT64", &[4]), named("B", "TYPE_BOOL", &[4])]),
        json!([
            named("Y", "TYPE_INT64", &[4]),
            named("ABOVE_AND_B", "TYPE_BOOL", &[4]),
            named("NOT_B", "TYPE_BOOL", &[4])
        ]),
        json!({"artifact": "model.mlir"}),
    );
    let (instance, _model) = load("int64_bool", config);
    let plain = Served {
        instance,
        inputs: &[
            ("X", sys::TRITONSERVER_TYPE_INT64, &[-1]),
            ("B", sys::TRITONSERVER_TYPE_BOOL, &[-1]),
        ],
        outputs: &["Y", "ABOVE_AND_B", "NOT_B"],
        sequences: false,
        _model,
    };

    let files: Vec<_> = [1, 2, 4, 8]
        .iter()
        .flat_map(|rows| [4, 8].map(|columns| format!("square_plus_b{rows}_n{columns}.mlir")))
        .collect();
    let config = tensor(
        8,
        json!([named("X", "TYPE_FP32", &[-1])]),
        json!([named("Y", "TYPE_FP32", &[-1])]),
        json!({"artifact": files.join(",")}),
    );
    let (instance, _model) = load("ragged_batched", config);
    let batched = Served {
        instance,
        inputs: &[("X", FP32, &[-1, 4])],
        outputs: &["Y"],
        sequences: false,
        _model,
    };

    let config = tensor(
        0,
        json!([named("x0", "TYPE_FP32", &[-1, 4])]),
        json!([named("y0", "TYPE_FP32", &[4])]),
        json!({"bounded_manifest": "tlaloc-bounded.json"}),
    );
    let (instance, _model) = load("bounded_mean", config);
    let bounded = Served {
        instance,
        inputs: &[("x0", FP32, &[-1, 4])],
        outputs: &["y0"],
        sequences: false,
        _model,
    };

    let (instance, _model) = load("reference_sequence", configuration::sequence());
    let sequence = Served {
        instance,
        inputs: &[("TOKENS", sys::TRITONSERVER_TYPE_INT32, &[1, -1])],
        outputs: &["LOGITS", "KV_PAGES", "NEXT_TOKEN"],
        sequences: true,
        _model,
    };
    // For ever, as the server that it plays.
    std::mem::forget(host);
    vec![plain, batched, bounded, sequence]
}

/// A script is what `arbitrary` makes of any bytes: bytes that count up and down meet every field.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let rising = (0..=255).cycle().take(600).collect();
    let falling = (0..=255).rev().cycle().take(900).collect();
    let mixed = (0..1200_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    vec![rising, falling, mixed, vec![1; 400], vec![3; 400]]
}
