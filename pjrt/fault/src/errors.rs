//! Errors of our own, among those of the real plugin. Both are opaque to the caller, who hands them
//! back to the table's functions; ours are known by their address.

use std::collections::HashMap;

use parking_lot::Mutex;
use tlaloc_pjrt_sys::PJRT_Error;

/// An error's text, boxed because its address is the error's handle.
struct Text(String);

/// Our errors that have not been destroyed, by handle.
#[derive(Default)]
pub(crate) struct Errors(Mutex<HashMap<usize, Box<Text>>>);

impl Errors {
    /// Makes an error.
    pub(crate) fn make(&self, message: impl std::fmt::Display) -> *mut PJRT_Error {
        let text = Box::new(Text(format!("pjrt-fault: {message}")));
        let handle = (&raw const *text).cast_mut();
        self.0.lock().insert(handle.addr(), text);
        handle.cast()
    }

    /// Destroys an error, if it is one of ours.
    pub(crate) fn destroy(&self, error: *const PJRT_Error) -> bool {
        self.0.lock().remove(&error.addr()).is_some()
    }

    /// The text of an error of ours, which lives as long as the error.
    pub(crate) fn text(&self, error: *const PJRT_Error) -> Option<(*const u8, usize)> {
        self.0.lock().get(&error.addr()).map(|text| (text.0.as_ptr(), text.0.len()))
    }
}
