//! The forms that Triton's functions come in.

use std::borrow::Cow;
use std::ffi::{CStr, CString, c_char};
use std::mem::MaybeUninit;

use triton_backend_sys as sys;

use crate::error::{Error, check};

/// Reads one property of a Triton object.
///
/// # Safety
/// `object` must be what `function` takes, and all-zero bytes a value of `T`, which is what `function`
/// writes.
pub(crate) unsafe fn get<O, T>(
    call: &'static str,
    function: unsafe extern "C" fn(*mut O, *mut T) -> *mut sys::TRITONSERVER_Error,
    object: *mut O,
) -> Result<T, Error> {
    let mut value = MaybeUninit::zeroed();
    // SAFETY: the caller's promise; the value is initialized, by `function` or as zeros.
    unsafe {
        check(call, function(object, value.as_mut_ptr()))?;
        Ok(value.assume_init())
    }
}

/// Reads one text of a Triton object.
///
/// # Safety
/// `object` must be what `function` takes; `function` must give a null pointer or a C string that
/// lives for `'a`.
pub(crate) unsafe fn get_text<'a, O>(
    call: &'static str,
    function: unsafe extern "C" fn(*mut O, *mut *const c_char) -> *mut sys::TRITONSERVER_Error,
    object: *mut O,
) -> Result<&'a str, Error> {
    // SAFETY: the caller's promise; null is a value of a pointer.
    unsafe { text(call, get(call, function, object)?) }
}

/// The text at a pointer that `what` gave.
///
/// # Safety
/// `pointer` must be null or a C string that lives for `'a`.
pub(crate) unsafe fn text<'a>(
    what: &'static str,
    pointer: *const c_char,
) -> Result<&'a str, Error> {
    if pointer.is_null() {
        return Err(Error::Text { what });
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(pointer) }.to_str().map_err(|_| Error::Text { what })
}

/// The text at a pointer, empty where it is null, with replacement characters where it is not UTF-8.
///
/// # Safety
/// `pointer` must be null or a C string that lives for `'a`.
pub(crate) unsafe fn lossy<'a>(pointer: *const c_char) -> Cow<'a, str> {
    if pointer.is_null() {
        return Cow::Borrowed("");
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(pointer) }.to_string_lossy()
}

/// A name for Triton.
pub(crate) fn name(what: &'static str, text: &str) -> Result<CString, Error> {
    CString::new(text).map_err(|_| Error::ZeroByte { what, text: text.to_owned() })
}
