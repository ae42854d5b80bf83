//! Buffers: arrays on a device.

use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use tlaloc_pjrt_sys as sys;
use tlaloc_pjrt_sys::{
    PJRT_Buffer, PJRT_Buffer_DecreaseExternalReferenceCount_Args, PJRT_Buffer_Destroy_Args,
    PJRT_Buffer_IncreaseExternalReferenceCount_Args, PJRT_Buffer_IsDeleted_Args,
    PJRT_Buffer_OnDeviceSizeInBytes_Args, PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args,
    PJRT_Buffer_ReadyEvent_Args, PJRT_Buffer_ToHostBuffer_Args,
    PJRT_Client_BufferFromHostBuffer_Args, PJRT_Client_CreateViewOfDeviceBuffer_Args, Versioned,
};

use crate::api::{Api, call};
use crate::client::Client;
use crate::error::Error;
use crate::event::Event;
use crate::heap::zeroed;
use crate::mapped::MappedFile;
use crate::shape::{ElementType, Shape};

/// An array on a device.
///
/// A buffer that was donated to an execution is gone: [`Buffer::is_deleted`] says so, every other
/// use is an error of the plugin's, and dropping it is all that is left to do.
#[derive(Debug)]
pub struct Buffer {
    raw: NonNull<PJRT_Buffer>,
    shape: Arc<Shape>,
    client: Arc<Client>,
    lender: Option<Lender>,
}

/// Memory that a buffer lies over.
#[derive(Debug)]
struct Lender {
    /// Comes when the device uses the memory no more.
    returned: Option<Event>,
    /// Whose memory it is, unless it is borrowed.
    file: Option<Arc<MappedFile>>,
}

// SAFETY: PJRT's buffer functions may be called from any thread.
unsafe impl Send for Buffer {}
// SAFETY: as above, from several at once; what changes a buffer (donation) takes it `&mut`.
unsafe impl Sync for Buffer {}

impl Client {
    /// Copies host memory to a new buffer.
    ///
    /// # Errors
    /// [`Error::Shape`] and [`Error::Size`] for arguments that do not fit together, [`Error::Call`]
    /// where the device has no room or the copy fails.
    pub fn upload(
        self: &Arc<Self>,
        element_type: ElementType,
        dims: &[i64],
        bytes: &[u8],
    ) -> Result<Buffer, Error> {
        let shape = Shape::sized(element_type, dims, bytes.len())?;
        let semantics = sys::PJRT_HostBufferSemantics_kImmutableOnlyDuringCall;
        // SAFETY: the bytes are not needed after this call, which waits for the copy.
        let (buffer, returned) =
            unsafe { self.buffer_from_host(shape, NonNull::from(bytes).cast(), semantics) }?;
        wait_for_copy(returned)?;
        Ok(buffer)
    }

    /// A new buffer of zeros.
    ///
    /// # Errors
    /// As [`Client::upload`], and [`Error::HostMemory`].
    pub fn zeros(
        self: &Arc<Self>,
        element_type: ElementType,
        dims: &[i64],
    ) -> Result<Buffer, Error> {
        let bytes = Shape::new(element_type, dims)?.bytes();
        self.upload(element_type, dims, &zeroed(bytes)?)
    }

    /// A buffer of a file's contents, read where they are mapped if the device shares the host's
    /// memory ([`Buffer::is_mapped`]), and copied otherwise.
    ///
    /// # Errors
    /// [`Error::FileSize`] for a file of another size than the array, and as [`Client::upload`].
    pub fn upload_mapped(
        self: &Arc<Self>,
        file: &Arc<MappedFile>,
        element_type: ElementType,
        dims: &[i64],
    ) -> Result<Buffer, Error> {
        let shape = Shape::new(element_type, dims)?;
        let (needed, found) = (shape.bytes(), file.bytes().len());
        if found != needed {
            return Err(Error::FileSize { path: file.path().to_owned(), shape, needed, found });
        }
        self.lend(file, file.bytes(), shape)
    }

    /// A buffer over `bytes`, which are part of `file`.
    fn lend(
        self: &Arc<Self>,
        file: &Arc<MappedFile>,
        bytes: &[u8],
        shape: Shape,
    ) -> Result<Buffer, Error> {
        let in_place = self.shares_host_memory() && !bytes.is_empty();
        if !in_place
            && bytes.len() == file.bytes().len()
            && let Some(buffer) = self.stream(file, &shape)?
        {
            return Ok(buffer);
        }
        let semantics = if in_place {
            sys::PJRT_HostBufferSemantics_kImmutableZeroCopy
        } else {
            sys::PJRT_HostBufferSemantics_kImmutableOnlyDuringCall
        };
        // SAFETY: a buffer that reads the bytes in place holds the mapping until they are returned,
        // and nothing writes to it; one that does not has copied them before this call returns.
        let (mut buffer, returned) =
            unsafe { self.buffer_from_host(shape, NonNull::from(bytes).cast(), semantics) }?;
        // Plugins copy what is not aligned to their liking without a word. Waiting for the return of
        // bytes that are read in place would be waiting for ever.
        let copied = buffer.device_address().is_some_and(|at| at != bytes.as_ptr().addr());
        if in_place && !copied {
            buffer.lender = Some(Lender { returned, file: Some(file.clone()) });
        } else {
            wait_for_copy(returned)?;
        }
        Ok(buffer)
    }

    /// Makes a buffer and the event that tells when its device touches `memory` no more.
    ///
    /// # Safety
    /// `memory` must hold the array and stay alive until that event, in nobody else's use where the
    /// semantics are mutable, and unchanged otherwise.
    pub(crate) unsafe fn buffer_from_host(
        self: &Arc<Self>,
        shape: Shape,
        memory: NonNull<u8>,
        semantics: sys::PJRT_HostBufferSemantics,
    ) -> Result<(Buffer, Option<Event>), Error> {
        let (dims, num_dims) = shape.raw_dims();
        let mut args = PJRT_Client_BufferFromHostBuffer_Args {
            client: self.raw(),
            data: memory.as_ptr().cast_const().cast(),
            type_: shape.element_type().raw(),
            dims,
            num_dims,
            host_buffer_semantics: semantics,
            device: self.device(),
            ..Versioned::new()
        };
        // SAFETY: client and device are alive; the memory is the caller's promise.
        unsafe { call!(self.api(), PJRT_Client_BufferFromHostBuffer, &mut args) }?;
        // SAFETY: ours alone, if there is one.
        let returned = unsafe { Event::new(self.api(), args.done_with_host_buffer) };
        let raw = self.api().non_null("PJRT_Client_BufferFromHostBuffer", args.buffer)?;
        Ok((Buffer { raw, shape: Arc::new(shape), client: self.clone(), lender: None }, returned))
    }

    /// A buffer laid over memory that the device can address.
    ///
    /// # Safety
    /// `memory` must hold the array, and stay alive until the buffer and every execution that takes
    /// it are gone. It must not be written while such an execution runs.
    pub(crate) unsafe fn view(
        self: &Arc<Self>,
        shape: Shape,
        memory: NonNull<u8>,
    ) -> Result<Buffer, Error> {
        /// Does nothing, but must be there: GPU plugins call it unasked.
        extern "C" fn released(_memory: *mut std::ffi::c_void, _context: *mut std::ffi::c_void) {}

        let (dims, num_dims) = shape.raw_dims();
        let mut args = PJRT_Client_CreateViewOfDeviceBuffer_Args {
            client: self.raw(),
            device_buffer_ptr: memory.as_ptr().cast(),
            dims,
            num_dims,
            element_type: shape.element_type().raw(),
            device: self.device(),
            on_delete_callback: Some(released),
            ..Versioned::new()
        };
        // SAFETY: client and device are alive; the memory is the caller's promise.
        unsafe { call!(self.api(), PJRT_Client_CreateViewOfDeviceBuffer, &mut args) }?;
        let raw = self.api().non_null("PJRT_Client_CreateViewOfDeviceBuffer", args.buffer)?;
        Ok(Buffer { raw, shape: Arc::new(shape), client: self.clone(), lender: None })
    }
}

impl Buffer {
    /// Takes over a buffer that an execution returned.
    ///
    /// # Safety
    /// `raw` is a buffer of `client` and of this shape, and nobody else destroys it.
    pub(crate) unsafe fn from_raw(
        raw: NonNull<PJRT_Buffer>,
        shape: Arc<Shape>,
        client: Arc<Client>,
    ) -> Self {
        Self { raw, shape, client, lender: None }
    }

    pub(crate) fn raw(&self) -> *mut PJRT_Buffer {
        self.raw.as_ptr()
    }

    /// The client it belongs to.
    pub fn client(&self) -> &Arc<Client> {
        &self.client
    }

    /// Element type, dimensions and dense size.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The element type.
    pub fn element_type(&self) -> ElementType {
        self.shape.element_type()
    }

    /// The dimensions, outermost first.
    pub fn dims(&self) -> &[i64] {
        self.shape.dims()
    }

    /// The dense size in bytes.
    pub fn bytes(&self) -> usize {
        self.shape.bytes()
    }

    /// Whether the device reads the file that the buffer was made from in place.
    pub fn is_mapped(&self) -> bool {
        self.lender.as_ref().is_some_and(|lender| lender.file.is_some())
    }

    /// Has the buffer's end wait for that of the device's use of memory that it lies over.
    pub(crate) fn borrowing_until(mut self, returned: Option<Event>) -> Self {
        self.lender = Some(Lender { returned, file: None });
        self
    }

    /// Where the array lies in the device's memory, to be compared and never read; none where the
    /// plugin does not tell, and for a deleted buffer.
    pub fn device_address(&self) -> Option<usize> {
        // SAFETY: the buffer is alive.
        unsafe { device_address(self.client.api(), self.raw()) }
    }

    /// Whether the array is gone, because an execution took it. A buffer whose state the plugin
    /// cannot tell counts as gone.
    pub fn is_deleted(&self) -> bool {
        let mut args = PJRT_Buffer_IsDeleted_Args { buffer: self.raw(), ..Versioned::new() };
        // SAFETY: the buffer is alive.
        let asked = unsafe { call!(self.client.api(), PJRT_Buffer_IsDeleted, &mut args) };
        asked.is_err() || args.is_deleted
    }

    /// Waits until the array is there and copies it to `destination`, which must have its size.
    ///
    /// # Errors
    /// [`Error::Size`], or [`Error::Call`] where the copy or the execution that computes the array
    /// fails.
    pub fn copy_to_host(&self, destination: &mut [u8]) -> Result<(), Error> {
        let mut args = PJRT_Buffer_ToHostBuffer_Args { src: self.raw(), ..Versioned::new() };
        // SAFETY: the buffer is alive; a null destination asks for the size only.
        unsafe { call!(self.client.api(), PJRT_Buffer_ToHostBuffer, &mut args) }?;
        let needed = args.dst_size;
        if needed != self.bytes() || needed != destination.len() {
            let shape = self.shape().clone();
            return Err(Error::Size { shape, needed, found: destination.len() });
        }
        if needed == 0 {
            return Ok(());
        }
        args.dst = destination.as_mut_ptr().cast();
        // SAFETY: `destination` has the size asked for above and is not touched until the event.
        unsafe { call!(self.client.api(), PJRT_Buffer_ToHostBuffer, &mut args) }?;
        // SAFETY: ours alone, if there is one.
        let copied = unsafe { Event::new(self.client.api(), args.event) };
        wait(copied, "PJRT_Buffer_ToHostBuffer")
    }

    /// Waits until the array is there and shows its bytes where they lie; none where host and device
    /// do not share memory, or the array is not dense.
    ///
    /// # Errors
    /// [`Error::Call`] for a deleted buffer, or one whose computation failed.
    pub fn host_bytes(&self) -> Result<Option<HostBytes<'_>>, Error> {
        if !self.client.shares_host_memory() {
            return Ok(None);
        }
        self.ready()?;
        if !self.is_dense()? {
            return Ok(None);
        }
        Ok(Some(HostBytes { hold: self.hold()?, bytes: self.bytes() }))
    }

    /// Waits until the array is there.
    pub(crate) fn ready(&self) -> Result<(), Error> {
        let mut ready = PJRT_Buffer_ReadyEvent_Args { buffer: self.raw(), ..Versioned::new() };
        // SAFETY: the buffer is alive.
        unsafe { call!(self.client.api(), PJRT_Buffer_ReadyEvent, &mut ready) }?;
        // SAFETY: ours alone, if there is one.
        wait(unsafe { Event::new(self.client.api(), ready.event) }, "PJRT_Buffer_ReadyEvent")
    }

    /// Whether the device stores the array dense, row by row.
    pub(crate) fn is_dense(&self) -> Result<bool, Error> {
        let mut size =
            PJRT_Buffer_OnDeviceSizeInBytes_Args { buffer: self.raw(), ..Versioned::new() };
        // SAFETY: the buffer is alive.
        unsafe { call!(self.client.api(), PJRT_Buffer_OnDeviceSizeInBytes, &mut size) }?;
        Ok(size.on_device_size_in_bytes == self.bytes())
    }

    /// Keeps the array where it is, and tells where.
    pub(crate) fn hold(&self) -> Result<Hold<'_>, Error> {
        // SAFETY: the buffer is alive while `self` is borrowed.
        unsafe { Hold::new(self.client.api(), self.raw(), self.bytes()) }
    }
}

/// Where a buffer's array lies in the device's memory; none where the plugin does not tell.
///
/// # Safety
/// `buffer` must be a buffer of `api`'s plugin.
pub(crate) unsafe fn device_address(api: Api, buffer: *mut PJRT_Buffer) -> Option<usize> {
    // SAFETY: the caller's promise.
    Some(unsafe { Hold::new(api, buffer, 1) }.ok()?.address.addr())
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let mut args = PJRT_Buffer_Destroy_Args { buffer: self.raw(), ..Versioned::new() };
        // SAFETY: the buffer is alive and not used after this; executions that still read it hold its
        // memory.
        let destroyed = unsafe { call!(self.client.api(), PJRT_Buffer_Destroy, &mut args) };
        match self.lender.take() {
            // The memory of a buffer that is still there does not come back: waiting for it would be
            // waiting for ever, so its file stays mapped.
            Some(lender) if destroyed.is_err() => std::mem::forget(lender.file),
            Some(Lender { returned: Some(returned), .. }) => drop(returned.wait()),
            Some(_) | None => {}
        }
    }
}

/// An external reference to a buffer: while it lives, the plugin neither frees nor moves the memory.
#[derive(Debug)]
pub(crate) struct Hold<'a> {
    api: Api,
    buffer: *mut PJRT_Buffer,
    address: *const u8,
    borrow: PhantomData<&'a Buffer>,
}

impl Hold<'_> {
    /// Where the array lies in the device's memory.
    pub(crate) fn address(&self) -> *const u8 {
        self.address
    }

    /// Pins the array's memory and asks for its address, which is not null unless there are no bytes.
    ///
    /// # Safety
    /// `buffer` must be a buffer of `api`'s plugin for as long as this lives.
    unsafe fn new(api: Api, buffer: *mut PJRT_Buffer, bytes: usize) -> Result<Self, Error> {
        let mut increase =
            PJRT_Buffer_IncreaseExternalReferenceCount_Args { buffer, ..Versioned::new() };
        // SAFETY: the caller's promise.
        unsafe { call!(api, PJRT_Buffer_IncreaseExternalReferenceCount, &mut increase) }?;
        let mut hold = Hold { api, buffer, address: ptr::null(), borrow: PhantomData };
        let mut pointer =
            PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args { buffer, ..Versioned::new() };
        // SAFETY: the buffer is alive and held.
        unsafe { call!(api, PJRT_Buffer_OpaqueDeviceMemoryDataPointer, &mut pointer) }?;
        hold.address = pointer.device_memory_ptr.cast();
        if bytes > 0 {
            api.non_null("PJRT_Buffer_OpaqueDeviceMemoryDataPointer", pointer.device_memory_ptr)?;
        }
        Ok(hold)
    }
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        let mut args = PJRT_Buffer_DecreaseExternalReferenceCount_Args {
            buffer: self.buffer,
            ..Versioned::new()
        };
        // SAFETY: the buffer is alive and its count was increased. An error leaks the memory.
        let _ = unsafe { call!(self.api, PJRT_Buffer_DecreaseExternalReferenceCount, &mut args) };
    }
}

/// The bytes of an array, in place. While they are looked at, the buffer cannot be donated.
#[derive(Debug)]
pub struct HostBytes<'a> {
    hold: Hold<'a>,
    bytes: usize,
}

impl Deref for HostBytes<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        if self.bytes == 0 {
            return &[];
        }
        // SAFETY: the host's memory, of this size, complete (awaited) and pinned; executions write
        // only to buffers donated to them, which takes the buffer `&mut`.
        unsafe { std::slice::from_raw_parts(self.hold.address, self.bytes) }
    }
}

fn wait_for_copy(returned: Option<Event>) -> Result<(), Error> {
    wait(returned, "PJRT_Client_BufferFromHostBuffer")
}

pub(crate) fn wait(event: Option<Event>, function: &'static str) -> Result<(), Error> {
    match event.map(Event::wait) {
        None | Some(Ok(())) => Ok(()),
        Some(Err(failure)) => Err(Error::Call { function, failure }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ClientOptions, Plugin};

    /// Mappings start at page boundaries, so only a part of one is ever unaligned.
    #[test]
    fn unaligned_memory_is_copied() {
        let Some(path) = std::env::var_os("TLALOC_PJRT_PLUGIN_PATH") else {
            eprintln!("SKIPPED: TLALOC_PJRT_PLUGIN_PATH names no PJRT plugin");
            return;
        };
        let client =
            Client::shared(&Plugin::load(path).unwrap(), 0, &ClientOptions::default()).unwrap();
        let on_disk = tempfile::NamedTempFile::new().unwrap();
        let bytes: Vec<u8> = (0..=255).collect();
        std::fs::write(on_disk.path(), &bytes).unwrap();
        let file = Arc::new(MappedFile::open(on_disk.path()).unwrap());
        for (offset, mapped) in [(0, true), (64, true), (4, false), (60, false), (1, false)] {
            let bytes = &file.bytes()[offset..offset + 64];
            let shape = Shape::new(ElementType::U8, &[64]).unwrap();
            let buffer = client.lend(&file, bytes, shape).unwrap();
            assert_eq!(buffer.is_mapped(), mapped, "{offset}");
            assert_eq!(*buffer.host_bytes().unwrap().unwrap(), *bytes, "{offset}");
            assert_eq!(Arc::strong_count(&file), 1 + usize::from(mapped));
        }
    }
}
