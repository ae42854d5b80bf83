use std::ptr::{self, NonNull};

use tracing::{error, warn};
use triton_backend_sys as sys;

use crate::call::get;
use crate::clock::now_ns;
use crate::error::{Error, RawError, check};
use crate::instance::Instance;
use crate::request::{Answered, release};
use crate::response::Response;

/// A request that is answered with any number of responses; see
/// [`Request::into_stream`](crate::Request::into_stream).
///
/// The last response, or the error in its place, carries the final flag and ends this: nothing asks
/// Triton about a request after it. Dropped before, also by a panic, it ends with INTERNAL.
#[derive(Debug)]
pub struct ResponseStream {
    request: NonNull<sys::TRITONBACKEND_Request>,
    /// None after the final flag.
    factory: Option<Factory>,
    instance: Instance,
    /// When the next response was begun, for the statistics.
    begun: u64,
}

// SAFETY: Triton lets any one thread at a time use a request and its factory; `&ResponseStream` does
// not leave a thread.
unsafe impl Send for ResponseStream {}

const FINAL: u32 = sys::TRITONSERVER_RESPONSE_COMPLETE_FINAL;

impl ResponseStream {
    /// # Safety
    /// The caller must own the request, and gives it up where this succeeds.
    pub(crate) unsafe fn new(
        request: NonNull<sys::TRITONBACKEND_Request>,
        instance: Instance,
    ) -> Result<Self, Error> {
        // SAFETY: the caller's promise.
        let factory = Some(unsafe { Factory::new(request) }?);
        Ok(ResponseStream { request, factory, instance, begun: now_ns() })
    }

    /// Whether its client has gone or has taken the request back.
    pub fn is_cancelled(&self) -> bool {
        self.factory.as_ref().is_some_and(Factory::is_cancelled)
    }

    /// Sends a response with the outputs that `fill` adds; it is not the last.
    ///
    /// # Errors
    /// What `fill` returned, after which nothing was sent, or why Triton did not take the response.
    /// The stream is still to be ended.
    pub fn respond(
        &mut self,
        fill: impl FnOnce(&mut Response<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let Some(factory) = &self.factory else { return Ok(()) };
        let output_start = now_ns();
        let mut response = factory.response()?;
        fill(&mut response)?;
        response.send(0, None)?;
        let sent = now_ns();
        self.report(factory, [output_start, sent], None);
        self.begun = sent;
        Ok(())
    }

    /// Sends the last response, with the outputs that `fill` adds, or the error it returns.
    pub fn finish(mut self, fill: impl FnOnce(&mut Response<'_>) -> Result<(), Error>) -> Answered {
        let result = self.end(fill);
        // SAFETY: the request was ours; without its factory this does not release it.
        unsafe { Answered::new(self.request, result) }
    }

    /// Sends an error as the last response.
    pub fn fail(self, error: Error) -> Answered {
        self.finish(|_| Err(error))
    }

    /// Sends the final flag: with a response where Triton has one, by itself elsewhere, and once.
    fn end(
        &mut self,
        fill: impl FnOnce(&mut Response<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let result = self.send_last(fill);
        self.factory = None;
        result.inspect_err(|error| {
            if let Error::Call { .. } | Error::NoObject { .. } = error {
                error!("a request stays without its last response: {error}");
            }
        })
    }

    fn send_last(
        &self,
        fill: impl FnOnce(&mut Response<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let Some(factory) = &self.factory else { return Ok(()) };
        let output_start = now_ns();
        let mut response = factory.response().inspect_err(|_| factory.send_flags(FINAL))?;
        let filled = fill(&mut response);
        let error = filled.as_ref().err().map(Error::to_raw);
        let sent = response.send(FINAL, error.as_ref());
        self.report(factory, [output_start, now_ns()], error.as_ref());
        sent.and(filled)
    }

    /// Counts the response that was sent: when its outputs were begun, and when it was sent.
    fn report(&self, factory: &Factory, [output, sent]: [u64; 2], error: Option<&RawError>) {
        // SAFETY: the factory lives.
        unsafe { self.instance.report_response(factory.0, [self.begun, output, sent], error) };
    }
}

impl Drop for ResponseStream {
    fn drop(&mut self) {
        if self.factory.is_some() {
            let _ = self.end(|_| Err(Error::Unanswered));
            // SAFETY: the request was ours until now and is not used after.
            unsafe { release(self.request) };
        }
    }
}

/// What makes the responses to a request.
#[derive(Debug)]
struct Factory(NonNull<sys::TRITONBACKEND_ResponseFactory>);

impl Factory {
    /// # Safety
    /// `request` must be a request that lives.
    unsafe fn new(request: NonNull<sys::TRITONBACKEND_Request>) -> Result<Self, Error> {
        let call = "TRITONBACKEND_ResponseFactoryNew";
        let mut raw = ptr::null_mut();
        // SAFETY: the caller's promise; `raw` is writable.
        unsafe { check(call, sys::TRITONBACKEND_ResponseFactoryNew(&mut raw, request.as_ptr()))? };
        NonNull::new(raw).map(Factory).ok_or(Error::NoObject { call })
    }

    fn is_cancelled(&self) -> bool {
        let call = "TRITONBACKEND_ResponseFactoryIsCancelled";
        // SAFETY: the factory lives as long as `self`.
        unsafe {
            get(call, sys::TRITONBACKEND_ResponseFactoryIsCancelled, self.0.as_ptr())
                .unwrap_or(false)
        }
    }

    fn response(&self) -> Result<Response<'_>, Error> {
        // SAFETY: the factory lives as long as `self`.
        unsafe { Response::of_factory(self.0.as_ptr()) }
    }

    fn send_flags(&self, flags: u32) {
        let call = "TRITONBACKEND_ResponseFactorySendFlags";
        // SAFETY: the factory lives as long as `self`.
        let sent = unsafe {
            check(call, sys::TRITONBACKEND_ResponseFactorySendFlags(self.0.as_ptr(), flags))
        };
        if let Err(error) = sent {
            warn!("{error}");
        }
    }
}

impl Drop for Factory {
    fn drop(&mut self) {
        let call = "TRITONBACKEND_ResponseFactoryDelete";
        // SAFETY: the factory is ours and is given up.
        let deleted =
            unsafe { check(call, sys::TRITONBACKEND_ResponseFactoryDelete(self.0.as_ptr())) };
        if let Err(error) = deleted {
            warn!("{error}");
        }
    }
}
