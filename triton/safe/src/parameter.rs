use std::borrow::Cow;
use std::ffi::{c_char, c_void};
use std::fmt;

use triton_backend_sys as sys;

use crate::call::lossy;

/// Value of a request parameter.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ParameterValue<'a> {
    /// Text; bytes that are not UTF-8 are replaced.
    String(Cow<'a, str>),
    /// A whole number.
    Int(i64),
    /// A truth value.
    Bool(bool),
    /// A floating-point number.
    Double(f64),
    /// Of a type whose value Triton does not hand over.
    Opaque,
}

impl ParameterValue<'_> {
    /// # Safety
    /// `value` must be a value of the type `kind` that lives for the lifetime of what is returned.
    pub(crate) unsafe fn new(kind: sys::TRITONSERVER_ParameterType, value: *const c_void) -> Self {
        if value.is_null() {
            return ParameterValue::Opaque;
        }
        // SAFETY: the caller's promise. Alignment is nowhere promised, so it is not relied on.
        unsafe {
            match kind {
                sys::TRITONSERVER_PARAMETER_STRING => {
                    ParameterValue::String(lossy(value.cast::<c_char>()))
                }
                sys::TRITONSERVER_PARAMETER_INT => {
                    ParameterValue::Int(value.cast::<i64>().read_unaligned())
                }
                sys::TRITONSERVER_PARAMETER_BOOL => {
                    ParameterValue::Bool(value.cast::<u8>().read() != 0)
                }
                sys::TRITONSERVER_PARAMETER_DOUBLE => {
                    ParameterValue::Double(value.cast::<f64>().read_unaligned())
                }
                _ => ParameterValue::Opaque,
            }
        }
    }
}

impl fmt::Display for ParameterValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ParameterValue::String(text) => write!(f, "'{text}'"),
            ParameterValue::Int(number) => number.fmt(f),
            ParameterValue::Bool(truth) => truth.fmt(f),
            ParameterValue::Double(number) => number.fmt(f),
            ParameterValue::Opaque => f.write_str("a value of another type"),
        }
    }
}
