//! Uploads in pieces: of a file, no more than two of them are in the host's memory.

use std::ops::Range;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use tlaloc_pjrt_sys::{
    PJRT_AsyncHostToDeviceTransferManager, PJRT_AsyncHostToDeviceTransferManager_Destroy_Args,
    PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer_Args,
    PJRT_AsyncHostToDeviceTransferManager_TransferData_Args,
    PJRT_Client_CreateBuffersForAsyncHostToDevice_Args, PJRT_Device_DefaultMemory_Args,
    PJRT_ShapeSpec, Versioned,
};

use crate::api::call;
use crate::buffer::{Buffer, wait};
use crate::client::Client;
use crate::error::{Code, Error, Failure};
use crate::event::Event;
use crate::mapped::MappedFile;
use crate::shape::Shape;

/// Bytes of a piece: enough for the bus to be busy, and a whole number of pages.
const PIECE: usize = 16 << 20;

impl Client {
    /// A buffer of a file's contents, copied piece by piece: the next one is read from disk while one
    /// is on its way, and what has arrived leaves the page cache. None where the plugin takes no
    /// pieces, or the file is one.
    pub(crate) fn stream(
        self: &Arc<Self>,
        file: &MappedFile,
        shape: &Shape,
    ) -> Result<Option<Buffer>, Error> {
        if file.bytes().len() <= PIECE {
            return Ok(None);
        }
        let transfer = match Transfer::new(self, shape) {
            Ok(transfer) => transfer,
            Err(Error::Missing { .. }) => return Ok(None),
            Err(error) if error.code() == Some(Code::Unimplemented) => return Ok(None),
            Err(error) => return Err(error),
        };
        let buffer = transfer.buffer(shape)?;
        let end = file.bytes().len();
        let piece = |start: usize| start..end.min(start + PIECE);
        let mut on_its_way = None;
        for start in (0..end).step_by(PIECE) {
            file.prefetch(piece(start + PIECE));
            let range = piece(start);
            // SAFETY: the bytes are the mapping's, which the caller keeps until this returns; every
            // piece that was handed over is waited for first.
            let handed = unsafe { transfer.send(&file.bytes()[range.clone()], start, end) };
            let before = on_its_way.take().map_or(Ok(()), |sent| arrived(file, sent));
            match (handed, before) {
                (Ok(event), Ok(())) => on_its_way = Some((event, range)),
                (Ok(event), Err(error)) => {
                    let _ = arrived(file, (event, range));
                    return Err(error);
                }
                (Err(error), _) => return Err(error),
            }
        }
        on_its_way.map_or(Ok(()), |sent| arrived(file, sent))?;
        buffer.ready()?;
        Ok(Some(buffer))
    }
}

/// Waits for a piece, and gives its page cache back.
fn arrived(file: &MappedFile, (event, range): (Event, Range<usize>)) -> Result<(), Error> {
    wait(Some(event), "PJRT_AsyncHostToDeviceTransferManager_TransferData")?;
    file.drop_pages(range);
    Ok(())
}

/// A transfer of the C API to one buffer, destroyed with this handle.
struct Transfer<'a> {
    client: &'a Arc<Client>,
    raw: NonNull<PJRT_AsyncHostToDeviceTransferManager>,
}

impl<'a> Transfer<'a> {
    fn new(client: &'a Arc<Client>, shape: &Shape) -> Result<Self, Error> {
        let api = client.api();
        let mut memory =
            PJRT_Device_DefaultMemory_Args { device: client.device(), ..Versioned::new() };
        // SAFETY: the device lives as long as the client.
        unsafe { call!(api, PJRT_Device_DefaultMemory, &mut memory) }?;
        let (dims, num_dims) = shape.raw_dims();
        let element_type = shape.element_type().raw();
        let mut spec = PJRT_ShapeSpec { dims, num_dims, element_type, ..Versioned::new() };
        let mut args = PJRT_Client_CreateBuffersForAsyncHostToDevice_Args {
            client: client.raw(),
            shape_specs: &mut spec,
            num_shape_specs: 1,
            device_layouts: ptr::null_mut(),
            num_device_layouts: 0,
            memory: memory.memory,
            ..Versioned::new()
        };
        // SAFETY: client and memory are alive, the shape outlives the call.
        unsafe { call!(api, PJRT_Client_CreateBuffersForAsyncHostToDevice, &mut args) }?;
        let raw =
            api.non_null("PJRT_Client_CreateBuffersForAsyncHostToDevice", args.transfer_manager)?;
        Ok(Self { client, raw })
    }

    /// The buffer that it fills; to be asked for once.
    fn buffer(&self, shape: &Shape) -> Result<Buffer, Error> {
        let api = self.client.api();
        let mut args = PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer_Args {
            transfer_manager: self.raw.as_ptr(),
            buffer_index: 0,
            ..Versioned::new()
        };
        // SAFETY: the transfer is alive.
        unsafe { call!(api, PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer, &mut args) }?;
        let raw =
            api.non_null("PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer", args.buffer_out)?;
        // SAFETY: a buffer of this client and shape that is nobody else's.
        Ok(unsafe { Buffer::from_raw(raw, Arc::new(shape.clone()), self.client.clone()) })
    }

    /// Hands a piece over, which is the last one where it reaches `end`. The event comes when the
    /// piece's memory is needed no more.
    ///
    /// # Safety
    /// The bytes must stay as they are until then.
    unsafe fn send(&self, piece: &[u8], offset: usize, end: usize) -> Result<Event, Error> {
        let api = self.client.api();
        let signed = |bytes: usize| i64::try_from(bytes).unwrap_or(i64::MAX);
        let mut args = PJRT_AsyncHostToDeviceTransferManager_TransferData_Args {
            transfer_manager: self.raw.as_ptr(),
            buffer_index: 0,
            data: piece.as_ptr().cast(),
            offset: signed(offset),
            transfer_size: signed(piece.len()),
            is_last_transfer: offset + piece.len() == end,
            ..Versioned::new()
        };
        // SAFETY: the transfer is alive; the bytes are the caller's promise.
        unsafe { call!(api, PJRT_AsyncHostToDeviceTransferManager_TransferData, &mut args) }?;
        // SAFETY: ours alone, if there is one.
        unsafe { Event::new(api, args.done_with_h2d_transfer) }.ok_or_else(|| Error::Call {
            function: "PJRT_AsyncHostToDeviceTransferManager_TransferData",
            failure: Failure {
                code: Code::Internal,
                message: "the plugin returned neither an event nor an error".to_owned(),
            },
        })
    }
}

impl Drop for Transfer<'_> {
    fn drop(&mut self) {
        let mut args = PJRT_AsyncHostToDeviceTransferManager_Destroy_Args {
            transfer_manager: self.raw.as_ptr(),
            ..Versioned::new()
        };
        // SAFETY: the transfer is alive and not used after this. There is nothing to do about an
        // error.
        let _ = unsafe {
            call!(self.client.api(), PJRT_AsyncHostToDeviceTransferManager_Destroy, &mut args)
        };
    }
}
