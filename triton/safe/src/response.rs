use std::marker::PhantomData;
use std::ptr::{self, NonNull};

use tracing::warn;
use triton_backend_sys as sys;

use crate::call::name;
use crate::data_type::DataType;
use crate::error::{Error, RawError, check};
use crate::memory::{GpuMemory, Memory};
use crate::request::Request;

/// A response to which outputs are added; see [`Request::respond`] and
/// [`ResponseStream::respond`](crate::ResponseStream::respond).
#[derive(Debug)]
pub struct Response<'a> {
    raw: NonNull<sys::TRITONBACKEND_Response>,
    /// The request, or the factory of its responses.
    source: PhantomData<&'a ()>,
}

/// Where an output's bytes are to be written.
#[derive(Debug)]
pub enum OutputBuffer<'a> {
    /// To host memory.
    Host(&'a mut [u8]),
    /// To a GPU's, by its runtime.
    Gpu(GpuMemory<'a>),
}

impl<'a> Response<'a> {
    pub(crate) fn new(request: &'a Request) -> Result<Self, Error> {
        // SAFETY: the request lives for `'a`.
        unsafe { Response::begin(request.as_ptr()) }
    }

    /// # Safety
    /// `request` must be a request that lives for `'a`.
    pub(crate) unsafe fn begin(request: *mut sys::TRITONBACKEND_Request) -> Result<Self, Error> {
        let call = "TRITONBACKEND_ResponseNew";
        let mut raw = ptr::null_mut();
        // SAFETY: the caller's promise; `raw` is writable.
        unsafe { check(call, sys::TRITONBACKEND_ResponseNew(&mut raw, request))? };
        let raw = NonNull::new(raw).ok_or(Error::NoObject { call })?;
        Ok(Response { raw, source: PhantomData })
    }

    /// # Safety
    /// `factory` must be a response factory that lives for `'a`.
    pub(crate) unsafe fn of_factory(
        factory: *mut sys::TRITONBACKEND_ResponseFactory,
    ) -> Result<Self, Error> {
        let call = "TRITONBACKEND_ResponseNewFromFactory";
        let mut raw = ptr::null_mut();
        // SAFETY: the caller's promise; `raw` is writable.
        unsafe { check(call, sys::TRITONBACKEND_ResponseNewFromFactory(&mut raw, factory))? };
        let raw = NonNull::new(raw).ok_or(Error::NoObject { call })?;
        Ok(Response { raw, source: PhantomData })
    }

    /// Adds an output of this type and shape (the batch dimension included) with a copy of `bytes`,
    /// which are little endian and dense.
    ///
    /// # Errors
    /// [`Error::OutputMemory`] where the client wants it elsewhere than in host memory, and as
    /// [`Response::output_buffer`].
    pub fn output(
        &mut self,
        output: &str,
        data_type: DataType,
        shape: &[i64],
        bytes: &[u8],
    ) -> Result<(), Error> {
        match self.output_buffer(output, data_type, shape, bytes.len())? {
            OutputBuffer::Host(buffer) => buffer.copy_from_slice(bytes),
            OutputBuffer::Gpu(memory) => return Err(Error::gpu_output(output, &memory)),
        }
        Ok(())
    }

    /// Adds an output of this type and shape (the batch dimension included), and gives the memory of
    /// `byte_size` bytes to write it to, little endian and dense: that of the response, or of the
    /// client where it shares some. What is in it before is of no use.
    ///
    /// # Errors
    /// [`Error::Call`] where Triton has no memory for it, as with a shared memory region that is too
    /// small.
    pub fn output_buffer(
        &mut self,
        output: &str,
        data_type: DataType,
        shape: &[i64],
        byte_size: usize,
    ) -> Result<OutputBuffer<'_>, Error> {
        let c_name = name("the output name", output)?;
        let rank = u32::try_from(shape.len()).unwrap_or(u32::MAX);
        let mut raw = ptr::null_mut();
        let mut base = ptr::null_mut();
        let mut memory = Memory::Cpu as u32;
        let mut device = 0;
        // SAFETY: the response lives, the name is a C string, the shape has `rank` values, all
        // results are writable; the output lives as long as the response.
        unsafe {
            check(
                "TRITONBACKEND_ResponseOutput",
                sys::TRITONBACKEND_ResponseOutput(
                    self.raw.as_ptr(),
                    &mut raw,
                    c_name.as_ptr(),
                    data_type as u32,
                    shape.as_ptr(),
                    rank,
                ),
            )?;
            check(
                "TRITONBACKEND_OutputBuffer",
                sys::TRITONBACKEND_OutputBuffer(
                    raw,
                    &mut base,
                    byte_size as u64,
                    &mut memory,
                    &mut device,
                ),
            )?;
        }
        if byte_size == 0 {
            return Ok(OutputBuffer::Host(&mut []));
        }
        if base.is_null() {
            return Err(Error::NoObject { call: "TRITONBACKEND_OutputBuffer" });
        }
        // SAFETY: the buffer is memory of that kind of the length asked for, newly given, nobody
        // else's, and lives as long as the response. Its bytes may not have been written before, which
        // is harmless: they are of a type without invalid values, in memory from outside of Rust.
        Ok(unsafe {
            match Memory::from_raw(memory).is_host() {
                true => OutputBuffer::Host(std::slice::from_raw_parts_mut(base.cast(), byte_size)),
                false => OutputBuffer::Gpu(GpuMemory::new(base, byte_size, device)),
            }
        })
    }

    /// Sends the response, with these flags and this error.
    pub(crate) fn send(self, flags: u32, error: Option<&RawError>) -> Result<(), Error> {
        let raw = self.raw.as_ptr();
        // Triton takes the response even where sending it fails.
        std::mem::forget(self);
        let error = error.map_or(ptr::null_mut(), RawError::as_ptr);
        // SAFETY: the response was ours and is given up; the error stays the caller's and lives.
        unsafe {
            check("TRITONBACKEND_ResponseSend", sys::TRITONBACKEND_ResponseSend(raw, flags, error))
        }
    }
}

impl Drop for Response<'_> {
    fn drop(&mut self) {
        // SAFETY: the response is ours and is given up.
        let deleted = unsafe {
            check(
                "TRITONBACKEND_ResponseDelete",
                sys::TRITONBACKEND_ResponseDelete(self.raw.as_ptr()),
            )
        };
        if let Err(error) = deleted {
            warn!("{error}");
        }
    }
}
