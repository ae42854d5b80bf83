//! PJRT events: something the plugin will have done.

use std::ptr::NonNull;

use tlaloc_pjrt_sys::{PJRT_Event, PJRT_Event_Await_Args, PJRT_Event_Destroy_Args, Versioned};

use crate::api::{Api, call};
use crate::error::{Error, Failure};

/// An event of a plugin, destroyed with this handle.
#[derive(Debug)]
pub(crate) struct Event {
    api: Api,
    raw: NonNull<PJRT_Event>,
}

// SAFETY: PJRT's event functions may be called from any thread.
unsafe impl Send for Event {}
// SAFETY: as above, from several at once.
unsafe impl Sync for Event {}

impl Event {
    /// Takes over an event; none for null.
    ///
    /// # Safety
    /// `raw` is null or an event of `api`'s plugin that nobody else destroys.
    pub(crate) unsafe fn new(api: Api, raw: *mut PJRT_Event) -> Option<Self> {
        Some(Self { api, raw: NonNull::new(raw)? })
    }

    /// Blocks until the event has come, and returns what it came with.
    pub(crate) fn wait(self) -> Result<(), Failure> {
        let mut args = PJRT_Event_Await_Args { event: self.raw.as_ptr(), ..Versioned::new() };
        // SAFETY: the event is alive.
        match unsafe { call!(self.api, PJRT_Event_Await, &mut args) } {
            Ok(()) => Ok(()),
            Err(Error::Call { failure, .. }) => Err(failure),
            Err(missing) => {
                Err(Failure { code: crate::Code::Unimplemented, message: missing.to_string() })
            }
        }
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        let mut args = PJRT_Event_Destroy_Args { event: self.raw.as_ptr(), ..Versioned::new() };
        // SAFETY: the event is alive and not used after this. There is nothing to do about an error.
        let _ = unsafe { call!(self.api, PJRT_Event_Destroy, &mut args) };
    }
}
