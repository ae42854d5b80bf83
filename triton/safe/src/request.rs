use std::borrow::Cow;
use std::cell::RefCell;
use std::ptr::{self, NonNull};
use std::time::Duration;

use tracing::error;
use triton_backend_sys as sys;

use crate::call::{get, lossy, text};
use crate::data_type::DataType;
use crate::error::{Error, check};
use crate::input::{Input, Piece};
use crate::instance::{Instance, Times};
use crate::output_memory::{Begun, OutputMemory, addresses, overlap};
use crate::parameter::ParameterValue;
use crate::response::{OutputBuffer, Response};
use crate::stream::ResponseStream;

/// The requests of one execution, handed out one by one. Those that are left when this is dropped
/// are answered as [`Request`]s that are dropped.
#[derive(Debug)]
pub struct Requests<'a> {
    left: std::slice::Iter<'a, *mut sys::TRITONBACKEND_Request>,
}

impl<'a> Requests<'a> {
    /// # Safety
    /// The caller must own the requests, each listed once, and give them up to this.
    pub(crate) unsafe fn new(requests: &'a [*mut sys::TRITONBACKEND_Request]) -> Self {
        Requests { left: requests.iter() }
    }
}

impl Iterator for Requests<'_> {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        self.left
            .by_ref()
            .find_map(|raw| NonNull::new(*raw))
            .map(|raw| Request { raw, begun: RefCell::default() })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.left.size_hint()
    }
}

impl Drop for Requests<'_> {
    fn drop(&mut self) {
        self.for_each(drop);
    }
}

/// One request, owned until it is answered. It may be kept beyond the execution that brought it and
/// answered on any thread.
///
/// Dropped, also by a panic, it is answered with INTERNAL and released.
#[derive(Debug)]
pub struct Request {
    raw: NonNull<sys::TRITONBACKEND_Request>,
    /// The response, where it was begun before the answer.
    begun: RefCell<Option<Begun>>,
}

// SAFETY: Triton lets any one thread at a time use a request; `&Request` does not leave a thread.
unsafe impl Send for Request {}

/// The sequence that a request belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CorrelationId {
    /// To none: the id is 0 or empty.
    None,
    /// A numeric id.
    Number(u64),
    /// A text id, which is never equal to a number's. Bytes that are not UTF-8 are replaced.
    Text(String),
}

/// The place of a request in its sequence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// It begins the sequence.
    pub start: bool,
    /// It ends the sequence.
    pub end: bool,
}

impl Request {
    pub(crate) fn as_ptr(&self) -> *mut sys::TRITONBACKEND_Request {
        self.raw.as_ptr()
    }

    /// The id that the client gave it for its own use; empty where it gave none.
    pub fn id(&self) -> Cow<'_, str> {
        // SAFETY: the request lives as long as `self`, and its id as long as it.
        unsafe {
            get("TRITONBACKEND_RequestId", sys::TRITONBACKEND_RequestId, self.raw.as_ptr())
                .map_or(Cow::Borrowed(""), |id| lossy(id))
        }
    }

    /// The sequence it belongs to, from the request itself: a control tensor does not say whether
    /// it holds a number or text.
    pub fn correlation_id(&self) -> CorrelationId {
        let raw = self.raw.as_ptr();
        // SAFETY: the request lives as long as `self`, and its id as long as it. Triton refuses to
        // read text as a number and a number as text.
        unsafe {
            let number = get::<_, u64>(
                "TRITONBACKEND_RequestCorrelationId",
                sys::TRITONBACKEND_RequestCorrelationId,
                raw,
            );
            match number {
                Ok(0) => CorrelationId::None,
                Ok(number) => CorrelationId::Number(number),
                Err(_) => get(
                    "TRITONBACKEND_RequestCorrelationIdString",
                    sys::TRITONBACKEND_RequestCorrelationIdString,
                    raw,
                )
                .map(|id| lossy(id))
                .ok()
                .filter(|id| !id.is_empty())
                .map_or(CorrelationId::None, |id| CorrelationId::Text(id.into_owned())),
            }
        }
    }

    /// Its place in the sequence.
    pub fn flags(&self) -> Flags {
        // SAFETY: the request lives as long as `self`.
        let flags: u32 = unsafe {
            get("TRITONBACKEND_RequestFlags", sys::TRITONBACKEND_RequestFlags, self.raw.as_ptr())
                .unwrap_or(0)
        };
        Flags {
            start: flags & sys::TRITONSERVER_REQUEST_FLAG_SEQUENCE_START != 0,
            end: flags & sys::TRITONSERVER_REQUEST_FLAG_SEQUENCE_END != 0,
        }
    }

    /// Whether its client has gone or its deadline has passed, as far as Triton knows.
    pub fn is_cancelled(&self) -> bool {
        // SAFETY: the request lives as long as `self`.
        unsafe {
            let call = "TRITONBACKEND_RequestIsCancelled";
            get(call, sys::TRITONBACKEND_RequestIsCancelled, self.raw.as_ptr()).unwrap_or(false)
        }
    }

    /// How long it may take, where its client said so.
    pub fn timeout(&self) -> Option<Duration> {
        // SAFETY: the request lives as long as `self`.
        let microseconds: u64 = unsafe {
            let call = "TRITONBACKEND_InferenceRequestTimeoutMicroseconds";
            let function = sys::TRITONBACKEND_InferenceRequestTimeoutMicroseconds;
            get(call, function, self.raw.as_ptr()).unwrap_or(0)
        };
        (microseconds > 0).then(|| Duration::from_micros(microseconds))
    }

    /// Its inputs, those of the model's sequence controls included, in no particular order.
    pub fn inputs(&self) -> impl Iterator<Item = Result<Input<'_>, Error>> {
        // SAFETY: the request lives as long as `self`.
        let count: u32 = unsafe {
            let call = "TRITONBACKEND_RequestInputCount";
            get(call, sys::TRITONBACKEND_RequestInputCount, self.raw.as_ptr()).unwrap_or(0)
        };
        (0..count).map(|index| {
            let mut input = ptr::null_mut();
            // SAFETY: as above; the input lives as long as the request.
            unsafe {
                check(
                    "TRITONBACKEND_RequestInputByIndex",
                    sys::TRITONBACKEND_RequestInputByIndex(self.raw.as_ptr(), index, &mut input),
                )?;
                Input::new(input)
            }
        })
    }

    /// The input of this name.
    ///
    /// # Errors
    /// [`Error::NoInput`].
    pub fn input(&self, name: &str) -> Result<Input<'_>, Error> {
        for input in self.inputs() {
            let input = input?;
            if input.name() == name {
                return Ok(input);
            }
        }
        Err(Error::NoInput { name: name.to_owned() })
    }

    /// Names of the outputs to answer with: all that the model has where the client named none.
    pub fn requested_outputs(&self) -> impl Iterator<Item = &str> {
        // SAFETY: the request lives as long as `self`.
        let count: u32 = unsafe {
            let call = "TRITONBACKEND_RequestOutputCount";
            get(call, sys::TRITONBACKEND_RequestOutputCount, self.raw.as_ptr()).unwrap_or(0)
        };
        (0..count).filter_map(|index| {
            let call = "TRITONBACKEND_RequestOutputName";
            let mut name = ptr::null();
            // SAFETY: as above; the name lives as long as the request.
            unsafe {
                let result =
                    sys::TRITONBACKEND_RequestOutputName(self.raw.as_ptr(), index, &mut name);
                check(call, result).and_then(|()| text(call, name)).ok()
            }
        })
    }

    /// Whether the answer is to have this output.
    pub fn wants(&self, output: &str) -> bool {
        self.requested_outputs().any(|name| name == output)
    }

    /// Its parameters, in no particular order.
    pub fn parameters(&self) -> impl Iterator<Item = (&str, ParameterValue<'_>)> {
        // SAFETY: the request lives as long as `self`.
        let count: u32 = unsafe {
            let call = "TRITONBACKEND_RequestParameterCount";
            get(call, sys::TRITONBACKEND_RequestParameterCount, self.raw.as_ptr()).unwrap_or(0)
        };
        (0..count).filter_map(|index| {
            let call = "TRITONBACKEND_RequestParameter";
            let mut key = ptr::null();
            let mut kind = sys::TRITONSERVER_PARAMETER_BYTES;
            let mut value = ptr::null();
            // SAFETY: as above; key and value live as long as the request, the value is of its type.
            unsafe {
                let result = sys::TRITONBACKEND_RequestParameter(
                    self.raw.as_ptr(),
                    index,
                    &mut key,
                    &mut kind,
                    &mut value,
                );
                let key = check(call, result).and_then(|()| text(call, key)).ok()?;
                Some((key, ParameterValue::new(kind, value)))
            }
        })
    }

    /// Adds an output to the response before the request is answered, and gives its memory, for an
    /// output that is to be written where the client wants it while the inputs are still read.
    /// [`respond`](Self::respond) sends it with the others.
    ///
    /// # Errors
    /// As [`Response::output`].
    pub fn output_memory(
        &self,
        output: &str,
        data_type: DataType,
        shape: &[i64],
        byte_size: usize,
    ) -> Result<OutputMemory<'_>, Error> {
        let mut begun = self.begun.borrow_mut();
        let begun = match &mut *begun {
            Some(begun) => begun,
            none => {
                // SAFETY: the request lives until it is answered, which takes the response.
                let response = unsafe { Response::begin(self.raw.as_ptr()) }?;
                none.insert(Begun { response, given: Vec::new() })
            }
        };
        let memory = match begun.response.output_buffer(output, data_type, shape, byte_size)? {
            OutputBuffer::Host(memory) => memory,
            OutputBuffer::Gpu(memory) => return Err(Error::gpu_output(output, &memory)),
        };
        let range = addresses(memory);
        let mut alone = !begun.given.iter().any(|given| overlap(given, &range));
        for input in self.inputs() {
            for piece in input?.pieces() {
                // The host's memory is no GPU's.
                if let Piece::Host(piece) = piece? {
                    alone &= !overlap(&addresses(piece), &range);
                }
            }
        }
        begun.given.push(range);
        // SAFETY: memory of the response, which lives until the request is answered, and is the
        // backend's until then but for what `alone` tells of.
        Ok(unsafe { OutputMemory::new(NonNull::from(memory).cast(), byte_size, alone) })
    }

    /// Opens the request for any number of responses, which a decoupled model may send; each is
    /// counted in the statistics of `instance`.
    ///
    /// # Errors
    /// Where Triton has no means for it the request is answered with that error.
    pub fn into_stream(self, instance: &Instance) -> Result<ResponseStream, Answered> {
        drop(self.begun.take());
        // SAFETY: the request is ours; the stream owns it from here on.
        match unsafe { ResponseStream::new(self.raw, instance.clone()) } {
            Ok(stream) => {
                std::mem::forget(self);
                Ok(stream)
            }
            Err(error) => Err(self.fail(error)),
        }
    }

    /// Answers with the outputs that `fill` adds to the response, or with the error it returns.
    pub fn respond(self, fill: impl FnOnce(&mut Response<'_>) -> Result<(), Error>) -> Answered {
        let result = self.answer(fill);
        let raw = self.raw;
        std::mem::forget(self);
        Answered { raw, result }
    }

    /// Answers with an error.
    pub fn fail(self, error: Error) -> Answered {
        self.respond(|_| Err(error))
    }

    /// Sends the one response. Where Triton does not take it there is no second try: it may have
    /// reached the client nevertheless.
    fn answer(
        &self,
        fill: impl FnOnce(&mut Response<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut filled = Ok(());
        let begun = self.begun.take().map(|begun| begun.response);
        begun
            .map_or_else(|| Response::new(self), Ok)
            .and_then(|mut response| {
                filled = fill(&mut response);
                let error = filled.as_ref().err().map(Error::to_raw);
                response.send(sys::TRITONSERVER_RESPONSE_COMPLETE_FINAL, error.as_ref())
            })
            .inspect_err(|error| error!("request '{}' stays without an answer: {error}", self.id()))
            .and(filled)
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        let _ = self.answer(|_| Err(Error::Unanswered));
        // SAFETY: the request was ours until now and is not used after.
        unsafe { release(self.raw) };
    }
}

/// A request that has its answer and waits for its statistics. Dropped, it is released without.
#[derive(Debug)]
#[must_use = "a request that was answered is to be reported"]
pub struct Answered {
    raw: NonNull<sys::TRITONBACKEND_Request>,
    result: Result<(), Error>,
}

// SAFETY: as for Request.
unsafe impl Send for Answered {}

impl Answered {
    /// # Safety
    /// The caller must own the request, and gives it up.
    pub(crate) unsafe fn new(
        raw: NonNull<sys::TRITONBACKEND_Request>,
        result: Result<(), Error>,
    ) -> Self {
        Answered { raw, result }
    }

    /// Whether the client got outputs; if not, the error that it got, or for which it got nothing.
    pub fn result(&self) -> Result<(), &Error> {
        self.result.as_ref().copied()
    }

    /// Counts the request in its instance's statistics and releases it.
    pub fn report(self, instance: &Instance, times: Times) {
        // SAFETY: the request is not released before `self` is dropped.
        unsafe { instance.report_request(self.raw, self.result.is_ok(), times) };
    }
}

impl Drop for Answered {
    fn drop(&mut self) {
        // SAFETY: the request was ours until now and is not used after.
        unsafe { release(self.raw) };
    }
}

/// # Safety
/// The caller must own the request, and gives it up.
pub(crate) unsafe fn release(request: NonNull<sys::TRITONBACKEND_Request>) {
    // SAFETY: the caller's promise.
    let released = unsafe {
        check(
            "TRITONBACKEND_RequestRelease",
            sys::TRITONBACKEND_RequestRelease(
                request.as_ptr(),
                sys::TRITONSERVER_REQUEST_RELEASE_ALL,
            ),
        )
    };
    if let Err(error) = released {
        error!("a request could not be released, its model cannot be unloaded: {error}");
    }
}
