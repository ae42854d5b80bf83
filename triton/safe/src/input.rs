use std::marker::PhantomData;
use std::ptr;

use triton_backend_sys as sys;

use crate::call::text;
use crate::data_type::DataType;
use crate::error::{Error, check};
use crate::memory::{GpuMemory, Memory};
use crate::request::Request;

/// An input tensor of a request.
#[derive(Debug)]
pub struct Input<'a> {
    raw: *mut sys::TRITONBACKEND_Input,
    name: &'a str,
    data_type: DataType,
    shape: &'a [i64],
    byte_size: u64,
    buffer_count: u32,
    request: PhantomData<&'a Request>,
}

/// One of the pieces that an input's bytes lie in. It need not be aligned.
#[derive(Clone, Copy, Debug)]
pub enum Piece<'a> {
    /// In host memory.
    Host(&'a [u8]),
    /// In a GPU's.
    Gpu(GpuMemory<'a>),
}

impl Piece<'_> {
    /// How many bytes it has.
    pub fn byte_size(&self) -> usize {
        match self {
            Piece::Host(bytes) => bytes.len(),
            Piece::Gpu(memory) => memory.byte_size(),
        }
    }
}

impl<'a> Input<'a> {
    /// # Safety
    /// `raw` must be an input of a request that lives for `'a`.
    pub(crate) unsafe fn new(raw: *mut sys::TRITONBACKEND_Input) -> Result<Self, Error> {
        let mut name = ptr::null();
        let mut data_type = sys::TRITONSERVER_TYPE_INVALID;
        let mut shape = ptr::null();
        let mut rank = 0;
        let mut byte_size = 0;
        let mut buffer_count = 0;
        // SAFETY: the input lives, all results are writable; name and shape live as long as the
        // request does.
        let (name, shape) = unsafe {
            check(
                "TRITONBACKEND_InputProperties",
                sys::TRITONBACKEND_InputProperties(
                    raw,
                    &mut name,
                    &mut data_type,
                    &mut shape,
                    &mut rank,
                    &mut byte_size,
                    &mut buffer_count,
                ),
            )?;
            (text("the name of an input", name)?, slice(shape, rank as usize))
        };
        let data_type = DataType::from_raw(data_type).ok_or_else(|| {
            Error::invalid_argument(format!("input '{name}' has the unknown data type {data_type}"))
        })?;
        Ok(Input { raw, name, data_type, shape, byte_size, buffer_count, request: PhantomData })
    }

    /// Its name in the model's configuration.
    pub fn name(&self) -> &'a str {
        self.name
    }

    /// Type of its elements.
    pub fn data_type(&self) -> DataType {
        self.data_type
    }

    /// Its shape, the batch dimension included.
    pub fn shape(&self) -> &'a [i64] {
        self.shape
    }

    /// How many elements its shape has; none where that is no number, or more than can be counted.
    pub fn elements(&self) -> Option<usize> {
        let mut dims = self.shape.iter().map(|dim| usize::try_from(*dim).ok());
        dims.try_fold(1_usize, |product, dim| product.checked_mul(dim?))
    }

    /// Bytes sent, in all buffers. They need not be what type and shape say.
    pub fn byte_size(&self) -> u64 {
        self.byte_size
    }

    /// In how many pieces the bytes lie; none where the input is empty.
    pub fn buffer_count(&self) -> u32 {
        self.buffer_count
    }

    /// The pieces that the bytes lie in, in order.
    ///
    /// # Errors
    /// [`Error::Call`] where Triton does not find one.
    pub fn pieces(&self) -> impl ExactSizeIterator<Item = Result<Piece<'a>, Error>> {
        (0..self.buffer_count as usize)
            .map(|index| self.buffer(u32::try_from(index).unwrap_or(u32::MAX)))
    }

    /// Replaces `bytes` with the input's, little endian and dense. The pieces need not be aligned
    /// where Triton has them.
    ///
    /// # Errors
    /// [`Error::InputMemory`] where a piece is not in host memory.
    pub fn read_into(&self, bytes: &mut Vec<u8>) -> Result<(), Error> {
        bytes.clear();
        for piece in self.pieces() {
            match piece? {
                Piece::Host(piece) => bytes.extend_from_slice(piece),
                Piece::Gpu(memory) => return Err(Error::gpu_input(self.name, &memory)),
            }
        }
        Ok(())
    }

    fn buffer(&self, index: u32) -> Result<Piece<'a>, Error> {
        let mut base = ptr::null();
        let mut byte_size = 0;
        let mut memory = Memory::Cpu as u32;
        let mut device = 0;
        // SAFETY: the input lives as long as `'a`, all results are writable.
        unsafe {
            check(
                "TRITONBACKEND_InputBuffer",
                sys::TRITONBACKEND_InputBuffer(
                    self.raw,
                    index,
                    &mut base,
                    &mut byte_size,
                    &mut memory,
                    &mut device,
                ),
            )?;
        }
        let byte_size = usize::try_from(byte_size).unwrap_or(0);
        // SAFETY: the buffer is memory of that kind of `byte_size` bytes that nothing writes while
        // the request lives; bytes need no alignment.
        Ok(unsafe {
            match Memory::from_raw(memory).is_host() {
                true => Piece::Host(slice(base.cast(), byte_size)),
                false => Piece::Gpu(GpuMemory::new(base, byte_size, device)),
            }
        })
    }
}

/// Null or empty: an empty slice.
///
/// # Safety
/// `base` must be null or aligned, with `count` values that nothing changes during `'a`.
unsafe fn slice<'a, T>(base: *const T, count: usize) -> &'a [T] {
    if base.is_null() || count == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(base, count) }
}
