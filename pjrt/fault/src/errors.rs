//! Errors: our own among those of the real plugin. Both are opaque to the caller, who hands them back
//! to the table's functions; ours are known by their address.

use std::collections::{HashMap, HashSet};
use std::fmt::Display;

use parking_lot::Mutex;
use tlaloc_pjrt_sys::{PJRT_Error, PJRT_Error_Code};

/// What an error of ours says, boxed because its address is the error's handle.
struct Told {
    code: PJRT_Error_Code,
    text: String,
}

/// The errors that callers have not destroyed, by handle.
#[derive(Default)]
pub(crate) struct Errors {
    ours: Mutex<HashMap<usize, Box<Told>>>,
    real: Mutex<HashSet<usize>>,
}

impl Errors {
    /// Makes an error.
    pub(crate) fn make(&self, code: PJRT_Error_Code, message: impl Display) -> *mut PJRT_Error {
        let told = Box::new(Told { code, text: format!("pjrt-fault: {message}") });
        let handle = (&raw const *told).cast_mut();
        self.ours.lock().insert(handle.addr(), told);
        handle.cast()
    }

    /// Takes note of an error of the real plugin that a caller gets.
    pub(crate) fn pass_on(&self, error: *const PJRT_Error) {
        self.real.lock().insert(error.addr());
    }

    /// Destroys an error, if it is one of ours; else the real plugin has to.
    pub(crate) fn destroy(&self, error: *const PJRT_Error) -> bool {
        self.real.lock().remove(&error.addr());
        self.ours.lock().remove(&error.addr()).is_some()
    }

    /// The text of an error of ours, which lives as long as the error.
    pub(crate) fn text(&self, error: *const PJRT_Error) -> Option<(*const u8, usize)> {
        self.ours.lock().get(&error.addr()).map(|told| (told.text.as_ptr(), told.text.len()))
    }

    /// The code of an error of ours.
    pub(crate) fn code(&self, error: *const PJRT_Error) -> Option<PJRT_Error_Code> {
        self.ours.lock().get(&error.addr()).map(|told| told.code)
    }

    /// How many there are.
    pub(crate) fn live(&self) -> usize {
        self.ours.lock().len() + self.real.lock().len()
    }
}
