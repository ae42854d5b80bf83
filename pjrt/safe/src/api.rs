//! The plugin's table of functions, and how one of them is called.

use std::ffi::c_char;
use std::ptr::NonNull;

use tlaloc_pjrt_sys::{
    PJRT_Api, PJRT_Error, PJRT_Error_Code_UNKNOWN, PJRT_Error_Destroy_Args,
    PJRT_Error_GetCode_Args, PJRT_Error_Message_Args, PJRT_Extension_Base, PJRT_Extension_Type,
    Versioned,
};

use crate::error::{Code, Error, Failure};

/// The table of a loaded plugin. It may be shorter than [`PJRT_Api`] (an older plugin) or longer (a
/// newer one), so it is only read entry by entry, through [`entry!`] and [`call!`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Api {
    table: NonNull<PJRT_Api>,
    size: usize,
}

// SAFETY: plugins are never unloaded and never change their table.
unsafe impl Send for Api {}
// SAFETY: as above; the functions behind the table may be called from any thread.
unsafe impl Sync for Api {}

/// The named function of a table, or none where the table ends before it or holds null.
macro_rules! entry {
    ($api:expr, $function:ident) => {
        $api.entry(std::mem::offset_of!(tlaloc_pjrt_sys::PJRT_Api, $function), |table| {
            // `call!` is used inside unsafe blocks.
            #[allow(unused_unsafe)]
            // SAFETY: `entry` calls this only if the table reaches past the field.
            let function = unsafe { (&raw const (*table).$function).read() };
            function
        })
    };
}

/// Calls the named function with a pointer to its arguments and turns its error into ours. Needs an
/// `unsafe` block: the arguments must be what the header asks of that function.
macro_rules! call {
    ($api:expr, $function:ident, $args:expr) => {
        match $crate::api::entry!($api, $function) {
            Some(function) => $api.check(stringify!($function), function($args)),
            None => Err($crate::error::Error::Missing { function: stringify!($function) }),
        }
    };
}

pub(crate) use {call, entry};

impl Api {
    /// # Safety
    /// `table` is the table of a plugin that is never unloaded.
    pub(crate) unsafe fn new(table: NonNull<PJRT_Api>) -> Self {
        // SAFETY: every version of the table starts with its size.
        let size = unsafe { (&raw const (*table.as_ptr()).struct_size).read() };
        Self { table, size }
    }

    /// Bytes of the plugin's table.
    pub(crate) fn size(self) -> usize {
        self.size
    }

    /// The plugin's major and minor C API version.
    ///
    /// # Safety
    /// The table reaches past `pjrt_api_version`.
    pub(crate) unsafe fn version(self) -> (i32, i32) {
        // SAFETY: the caller's promise.
        let version = unsafe { (&raw const (*self.table.as_ptr()).pjrt_api_version).read() };
        (version.major_version, version.minor_version)
    }

    /// Whether the plugin offers an extension of this type.
    ///
    /// # Safety
    /// The table reaches past `extension_start`.
    pub(crate) unsafe fn has_extension(self, wanted: PJRT_Extension_Type) -> bool {
        // SAFETY: the caller's promise.
        let mut next: *const PJRT_Extension_Base =
            unsafe { (&raw const (*self.table.as_ptr()).extension_start).read() };
        // SAFETY: a null-terminated list of structs that live as long as the plugin, each starting
        // with this base.
        while let Some(extension) = unsafe { next.as_ref() } {
            if extension.type_ == wanted {
                return true;
            }
            next = extension.next;
        }
        false
    }

    /// Reads the entry at `offset` of the table; see [`entry!`].
    pub(crate) fn entry<F>(
        self,
        offset: usize,
        read: impl FnOnce(*const PJRT_Api) -> Option<F>,
    ) -> Option<F> {
        if offset + size_of::<Option<F>>() > self.size {
            return None;
        }
        read(self.table.as_ptr())
    }

    /// Takes over the error that a function returned.
    pub(crate) fn check(self, function: &'static str, error: *mut PJRT_Error) -> Result<(), Error> {
        match self.failure(error) {
            None => Ok(()),
            Some(failure) => Err(Error::Call { function, failure }),
        }
    }

    /// A handle that a successful call must have set.
    pub(crate) fn non_null<T>(
        self,
        function: &'static str,
        handle: *mut T,
    ) -> Result<NonNull<T>, Error> {
        NonNull::new(handle).ok_or_else(|| Error::Call {
            function,
            failure: Failure {
                code: Code::Internal,
                message: "the plugin returned neither a result nor an error".to_owned(),
            },
        })
    }

    /// Reads and destroys an error; none for null, which is success.
    pub(crate) fn failure(self, error: *mut PJRT_Error) -> Option<Failure> {
        if error.is_null() {
            return None;
        }
        let mut code = PJRT_Error_GetCode_Args { error, ..Versioned::new() };
        // No code is still an error: an enumerator outside the known ones reads as unknown.
        code.code = PJRT_Error_Code_UNKNOWN;
        let mut message = PJRT_Error_Message_Args { error, ..Versioned::new() };
        let mut destroy = PJRT_Error_Destroy_Args { error, ..Versioned::new() };

        if let Some(get_code) = entry!(self, PJRT_Error_GetCode) {
            // SAFETY: `error` is alive. An error about this error leaks, which no plugin returns.
            unsafe { get_code(&mut code) };
        }
        if let Some(get_message) = entry!(self, PJRT_Error_Message) {
            // SAFETY: `error` is alive.
            unsafe { get_message(&mut message) };
        }
        // SAFETY: the plugin's text of that many bytes lives as long as `error`.
        let text = unsafe { text(message.message, message.message_size) };
        if let Some(destroy_error) = entry!(self, PJRT_Error_Destroy) {
            // SAFETY: `error` is alive and not used after this.
            unsafe { destroy_error(&mut destroy) };
        }
        let message = if text.is_empty() { "the plugin gave no message".to_owned() } else { text };
        Some(Failure { code: Code::from_raw(code.code), message })
    }
}

/// A text of the C API's, with replacement characters where it is not UTF-8; empty for null.
///
/// # Safety
/// `text` must be null or that many bytes.
pub(crate) unsafe fn text(text: *const c_char, len: usize) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the caller's promise.
    let bytes = unsafe { std::slice::from_raw_parts(text.cast::<u8>(), len) };
    String::from_utf8_lossy(bytes).into_owned()
}
