use std::ffi::CString;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::{Condvar, Mutex};
use triton_backend_sys as sys;

use crate::error::Failure;

/// A request to execute.
#[derive(Clone, Debug, Default)]
pub struct RequestSetup {
    /// The client's id; empty for none.
    pub id: String,
    /// The sequence.
    pub correlation: Correlation,
    /// START.
    pub start: bool,
    /// END.
    pub end: bool,
    /// The inputs.
    pub inputs: Vec<InputSetup>,
    /// The outputs asked for.
    pub outputs: Vec<String>,
    /// Where outputs of these names are given memory of a GPU.
    pub gpu_outputs: Vec<(String, GpuAddress)>,
    /// The parameters.
    pub parameters: Vec<(String, Parameter)>,
    /// How long it may take; 0 for any time.
    pub timeout_microseconds: u64,
    /// What is to fail.
    pub faults: Faults,
}

/// A correlation id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Correlation {
    /// None, which Triton makes the number 0.
    #[default]
    None,
    /// A number.
    Number(u64),
    /// Text.
    Text(String),
}

/// A place on a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuAddress {
    /// Which is the test's to make up, or to have memory at.
    pub address: usize,
    /// The GPU.
    pub device: i64,
}

/// An input tensor.
#[derive(Clone, Debug)]
pub struct InputSetup {
    /// Its name.
    pub name: String,
    /// A `TRITONSERVER_TYPE_*`.
    pub data_type: u32,
    /// Its shape.
    pub shape: Vec<i64>,
    /// Its bytes in pieces.
    pub pieces: Vec<Vec<u8>>,
    /// A `TRITONSERVER_MEMORY_*`.
    pub memory: u32,
    /// Where its one piece is that is said to be on a GPU.
    pub gpu: GpuAddress,
}

impl GpuAddress {
    /// An address that is nobody's.
    pub const NOWHERE: Self = GpuAddress { address: 8, device: 0 };
}

impl InputSetup {
    /// INT32 `[1, n]` in one piece; without values in none, as Triton does it.
    pub fn int32(name: &str, values: &[i32]) -> Self {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        InputSetup {
            name: name.to_owned(),
            data_type: sys::TRITONSERVER_TYPE_INT32,
            shape: vec![1, i64::try_from(values.len()).unwrap_or(i64::MAX)],
            pieces: if bytes.is_empty() { Vec::new() } else { vec![bytes] },
            memory: sys::TRITONSERVER_MEMORY_CPU,
            gpu: GpuAddress::NOWHERE,
        }
    }
}

/// A parameter's value.
#[derive(Clone, Debug, PartialEq)]
pub enum Parameter {
    /// Text.
    String(String),
    /// A whole number.
    Int(i64),
    /// A truth value.
    Bool(bool),
    /// A floating-point number.
    Double(f64),
    /// Bytes, which a request's parameters never are on a real server.
    Bytes,
}

/// Functions that fail for a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// `TRITONBACKEND_ResponseFactoryNew`.
    pub factory_new: bool,
    /// `TRITONBACKEND_ResponseNew` and `TRITONBACKEND_ResponseNewFromFactory`.
    pub response_new: bool,
    /// `TRITONBACKEND_ResponseOutput`.
    pub output: bool,
    /// `TRITONBACKEND_OutputBuffer`.
    pub buffer: bool,
    /// `TRITONBACKEND_OutputBuffer` gives memory of GPU 0.
    pub gpu_output: bool,
    /// `TRITONBACKEND_ResponseSend`, which takes the response nevertheless.
    pub send: bool,
    /// `TRITONBACKEND_ModelInstanceReportStatistics` and
    /// `TRITONBACKEND_ModelInstanceReportResponseStatistics`.
    pub report: bool,
    /// `TRITONBACKEND_RequestRelease`, which does not take the request.
    pub release: bool,
}

/// What a backend did with a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// It sent a response.
    Answered(Answer),
    /// It tried to, and the server failed.
    SendFailed,
    /// It said without a response that there are no more.
    Ended,
    /// It counted a response: whether as answered with success, and when it was begun, when its
    /// outputs were, and when it was sent, in nanoseconds.
    ReportedResponse {
        /// As answered with success.
        success: bool,
        /// The times.
        times: [u64; 3],
    },
    /// It counted the request.
    Reported {
        /// As answered with success.
        success: bool,
        /// Start, compute start, compute end and end in nanoseconds.
        times: [u64; 4],
    },
    /// It released the request.
    Released,
    /// It tried to, and the server refused.
    ReleaseRefused,
    /// It used the request after it had released it, or a factory after the last response, with this
    /// function.
    Misused(&'static str),
}

/// A response that was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The error in it.
    pub error: Option<Failure>,
    /// Its outputs.
    pub outputs: Vec<Output>,
    /// Whether it said that it is the last.
    pub last: bool,
}

/// An output of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// Its name.
    pub name: String,
    /// A `TRITONSERVER_TYPE_*`.
    pub data_type: u32,
    /// Its shape.
    pub shape: Vec<i64>,
    /// Its bytes; 0xAA where the backend wrote none.
    pub bytes: Vec<u8>,
}

pub(crate) struct InputObject {
    pub(crate) name: CString,
    pub(crate) data_type: u32,
    pub(crate) shape: Vec<i64>,
    pub(crate) memory: u32,
    pub(crate) gpu: GpuAddress,
    /// Each behind one byte of padding in memory aligned to 8.
    pieces: Vec<(Vec<u64>, usize)>,
}

impl InputObject {
    fn new(setup: InputSetup) -> Self {
        let unaligned = |piece: &Vec<u8>| {
            let mut bytes = vec![0];
            bytes.extend_from_slice(piece);
            bytes.resize(bytes.len().next_multiple_of(8), 0);
            let words = bytes.chunks_exact(8).filter_map(|word| word.try_into().ok());
            (words.map(u64::from_ne_bytes).collect(), piece.len())
        };
        InputObject {
            name: c_string(&setup.name),
            data_type: setup.data_type,
            shape: setup.shape,
            memory: setup.memory,
            gpu: setup.gpu,
            pieces: setup.pieces.iter().map(unaligned).collect(),
        }
    }

    pub(crate) fn byte_size(&self) -> u64 {
        self.pieces.iter().map(|(_, length)| *length as u64).sum()
    }

    pub(crate) fn buffer_count(&self) -> usize {
        self.pieces.len()
    }

    /// Address and length of a piece.
    pub(crate) fn piece(&self, index: usize) -> Option<(*const u8, usize)> {
        let (words, length) = self.pieces.get(index)?;
        Some(match self.memory {
            sys::TRITONSERVER_MEMORY_GPU => {
                (std::ptr::with_exposed_provenance(self.gpu.address), *length)
            }
            _ => (words.as_ptr().cast::<u8>().wrapping_add(1), *length),
        })
    }
}

/// A parameter whose value has an address.
pub(crate) enum ParameterObject {
    String(CString),
    Int(i64),
    Bool(bool),
    Double(f64),
    Bytes([u8; 4]),
}

pub(crate) enum CorrelationObject {
    Number(u64),
    Text(CString),
}

pub(crate) struct RequestObject {
    pub(crate) id: CString,
    pub(crate) correlation: CorrelationObject,
    pub(crate) flags: u32,
    pub(crate) inputs: Vec<InputObject>,
    pub(crate) outputs: Vec<CString>,
    pub(crate) gpu_outputs: Vec<(String, GpuAddress)>,
    pub(crate) parameters: Vec<(CString, ParameterObject)>,
    pub(crate) timeout_microseconds: u64,
    pub(crate) faults: Faults,
    pub(crate) cancelled: AtomicBool,
    pub(crate) live_responses: AtomicUsize,
    pub(crate) live_factories: AtomicUsize,
    /// A last response was sent, or tried to.
    pub(crate) ended: AtomicBool,
    events: Mutex<Vec<Event>>,
    changed: Condvar,
}

impl RequestObject {
    pub(crate) fn new(setup: RequestSetup) -> Arc<Self> {
        let flag = |set: bool, flag: u32| if set { flag } else { 0 };
        Arc::new(RequestObject {
            id: c_string(&setup.id),
            correlation: match setup.correlation {
                Correlation::None => CorrelationObject::Number(0),
                Correlation::Number(id) => CorrelationObject::Number(id),
                Correlation::Text(id) => CorrelationObject::Text(c_string(&id)),
            },
            flags: flag(setup.start, sys::TRITONSERVER_REQUEST_FLAG_SEQUENCE_START)
                | flag(setup.end, sys::TRITONSERVER_REQUEST_FLAG_SEQUENCE_END),
            inputs: setup.inputs.into_iter().map(InputObject::new).collect(),
            outputs: setup.outputs.iter().map(|name| c_string(name)).collect(),
            gpu_outputs: setup.gpu_outputs,
            parameters: setup
                .parameters
                .into_iter()
                .map(|(name, value)| {
                    let value = match value {
                        Parameter::String(text) => ParameterObject::String(c_string(&text)),
                        Parameter::Int(number) => ParameterObject::Int(number),
                        Parameter::Bool(truth) => ParameterObject::Bool(truth),
                        Parameter::Double(number) => ParameterObject::Double(number),
                        Parameter::Bytes => ParameterObject::Bytes(*b"\xff\0\xff\0"),
                    };
                    (c_string(&name), value)
                })
                .collect(),
            timeout_microseconds: setup.timeout_microseconds,
            faults: setup.faults,
            cancelled: AtomicBool::new(false),
            live_responses: AtomicUsize::new(0),
            live_factories: AtomicUsize::new(0),
            ended: AtomicBool::new(false),
            events: Mutex::default(),
            changed: Condvar::new(),
        })
    }

    pub(crate) fn push(&self, event: Event) {
        self.events.lock().push(event);
        self.changed.notify_all();
    }

    pub(crate) fn events(&self) -> Vec<Event> {
        self.events.lock().clone()
    }

    /// Notes a function that was called after the release.
    pub(crate) fn used(&self, function: &'static str) {
        let mut events = self.events.lock();
        if events.contains(&Event::Released) {
            events.push(Event::Misused(function));
        }
    }

    /// Notes a function of a factory that was called after the last response.
    pub(crate) fn used_factory(&self, function: &'static str) {
        if self.ended.load(Ordering::SeqCst) {
            self.push(Event::Misused(function));
        }
    }

    /// Waits until the request is released, or its release refused; false after `timeout`.
    pub(crate) fn wait(&self, timeout: std::time::Duration) -> bool {
        let mut events = self.events.lock();
        let waiting = |events: &mut Vec<Event>| {
            !events.iter().any(|event| matches!(event, Event::Released | Event::ReleaseRefused))
        };
        !self.changed.wait_while_for(&mut events, waiting, timeout).timed_out()
    }
}

/// What makes the responses to a request.
pub(crate) struct FactoryObject {
    pub(crate) request: Arc<RequestObject>,
}

impl FactoryObject {
    pub(crate) fn new(request: Arc<RequestObject>) -> Self {
        request.live_factories.fetch_add(1, Ordering::SeqCst);
        FactoryObject { request }
    }
}

impl Drop for FactoryObject {
    fn drop(&mut self) {
        self.request.live_factories.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A response that is being filled.
pub(crate) struct ResponseObject {
    pub(crate) request: Arc<RequestObject>,
    #[expect(clippy::vec_box, reason = "the backend has pointers to the outputs")]
    pub(crate) outputs: Vec<Box<OutputObject>>,
}

impl ResponseObject {
    pub(crate) fn new(request: Arc<RequestObject>) -> Self {
        request.live_responses.fetch_add(1, Ordering::SeqCst);
        ResponseObject { request, outputs: Vec::new() }
    }
}

impl Drop for ResponseObject {
    fn drop(&mut self) {
        self.request.live_responses.fetch_sub(1, Ordering::SeqCst);
    }
}

pub(crate) struct OutputObject {
    pub(crate) output: Output,
    pub(crate) gpu: Option<GpuAddress>,
    pub(crate) faults: Faults,
}

pub(crate) fn c_string(text: &str) -> CString {
    CString::new(text.replace('\0', " ")).unwrap_or_default()
}
