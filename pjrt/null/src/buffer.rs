//! Arrays in the host's memory.

use std::ffi::c_void;
use std::ptr;

use tlaloc_pjrt_sys::*;

use crate::event;

/// An array; deleted when it has no address any more.
pub(crate) struct Buffer {
    address: *mut u8,
    bytes: usize,
    /// The memory, where it is this buffer's own.
    owned: Option<Box<[u64]>>,
}

impl Buffer {
    pub(crate) fn zeros(bytes: usize) -> Self {
        let mut memory = vec![0; bytes.div_ceil(8)].into_boxed_slice();
        Buffer { address: memory.as_mut_ptr().cast(), bytes, owned: Some(memory) }
    }

    /// The array, which is gone from `self`.
    pub(crate) fn donated(&mut self) -> Self {
        let address = std::mem::replace(&mut self.address, ptr::null_mut());
        Buffer { address, bytes: self.bytes, owned: self.owned.take() }
    }

    pub(crate) fn into_raw(self) -> *mut PJRT_Buffer {
        Box::into_raw(Box::new(self)).cast()
    }

    /// # Safety
    /// `raw` is a buffer of this plugin's that nobody else uses for as long as the result lives.
    pub(crate) unsafe fn of<'a>(raw: *mut PJRT_Buffer) -> &'a mut Buffer {
        // SAFETY: the caller's promise.
        unsafe { &mut *raw.cast::<Buffer>() }
    }
}

/// # Safety
/// `dims` has `num_dims` sizes; none need no memory.
unsafe fn bytes(element_type: PJRT_Buffer_Type, dims: *const i64, num_dims: usize) -> usize {
    let dims = match num_dims {
        0 => &[],
        // SAFETY: the caller's promise.
        count => unsafe { std::slice::from_raw_parts(dims, count) },
    };
    let elements: i64 = dims.iter().product();
    usize::try_from(elements).unwrap() * crate::program::size(element_type)
}

pub(crate) unsafe extern "C" fn from_host(
    args: *mut PJRT_Client_BufferFromHostBuffer_Args,
) -> *mut PJRT_Error {
    // SAFETY: the caller's struct, with dims and memory for them.
    unsafe {
        let args = &mut *args;
        let bytes = bytes(args.type_, args.dims, args.num_dims);
        let zero_copy = args.host_buffer_semantics == PJRT_HostBufferSemantics_kImmutableZeroCopy;
        let buffer = if zero_copy {
            Buffer { address: args.data.cast_mut().cast(), bytes, owned: None }
        } else {
            let buffer = Buffer::zeros(bytes);
            ptr::copy_nonoverlapping(args.data.cast::<u8>(), buffer.address, bytes);
            buffer
        };
        args.buffer = buffer.into_raw();
        args.done_with_host_buffer = event();
    }
    ptr::null_mut()
}

pub(crate) unsafe extern "C" fn view(
    args: *mut PJRT_Client_CreateViewOfDeviceBuffer_Args,
) -> *mut PJRT_Error {
    // SAFETY: the caller's struct, with dims and memory for them.
    unsafe {
        let args = &mut *args;
        let bytes = bytes(args.element_type, args.dims, args.num_dims);
        let address = args.device_buffer_ptr.cast();
        args.buffer = Buffer { address, bytes, owned: None }.into_raw();
    }
    ptr::null_mut()
}

pub(crate) unsafe extern "C" fn destroy(args: *mut PJRT_Buffer_Destroy_Args) -> *mut PJRT_Error {
    // SAFETY: a buffer of this plugin's, which the caller gives up.
    drop(unsafe { Box::from_raw((*args).buffer.cast::<Buffer>()) });
    ptr::null_mut()
}

pub(crate) unsafe extern "C" fn is_deleted(
    args: *mut PJRT_Buffer_IsDeleted_Args,
) -> *mut PJRT_Error {
    // SAFETY: the caller's struct with a buffer of this plugin's.
    unsafe { (*args).is_deleted = Buffer::of((*args).buffer).address.is_null() };
    ptr::null_mut()
}

pub(crate) unsafe extern "C" fn to_host(
    args: *mut PJRT_Buffer_ToHostBuffer_Args,
) -> *mut PJRT_Error {
    // SAFETY: the caller's struct, with a buffer of this plugin's, and no or enough room.
    unsafe {
        let args = &mut *args;
        let buffer = Buffer::of(args.src);
        args.dst_size = buffer.bytes;
        if !args.dst.is_null() {
            ptr::copy_nonoverlapping(buffer.address, args.dst.cast::<u8>(), buffer.bytes);
        }
        args.event = event();
    }
    ptr::null_mut()
}

pub(crate) unsafe extern "C" fn ready(args: *mut PJRT_Buffer_ReadyEvent_Args) -> *mut PJRT_Error {
    // SAFETY: the caller's struct.
    unsafe { (*args).event = event() };
    ptr::null_mut()
}

pub(crate) unsafe extern "C" fn size(
    args: *mut PJRT_Buffer_OnDeviceSizeInBytes_Args,
) -> *mut PJRT_Error {
    // SAFETY: the caller's struct with a buffer of this plugin's.
    unsafe { (*args).on_device_size_in_bytes = Buffer::of((*args).buffer).bytes };
    ptr::null_mut()
}

pub(crate) unsafe extern "C" fn address(
    args: *mut PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args,
) -> *mut PJRT_Error {
    // SAFETY: the caller's struct with a buffer of this plugin's.
    unsafe {
        (*args).device_memory_ptr = Buffer::of((*args).buffer).address.cast::<c_void>();
    }
    ptr::null_mut()
}
