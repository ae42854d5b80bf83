//! Options of a client, and how the C API takes them.

use tlaloc_pjrt_sys as sys;
use tlaloc_pjrt_sys::{PJRT_NamedValue, PJRT_NamedValue__bindgen_ty_1 as Value, Versioned};

/// How much device memory a client takes. Only GPU plugins have such options; others ignore them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClientOptions {
    /// The share of the device's memory that the client may use, in (0, 1].
    pub memory_fraction: f32,
    /// Whether the client takes its share at once instead of growing into it.
    pub preallocate: bool,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self { memory_fraction: 0.3, preallocate: false }
    }
}

/// An option as a plugin takes it at client creation.
pub(crate) enum CreateOption {
    Float(&'static str, f32),
    Bool(&'static str, bool),
    Int(&'static str, i64),
    Ints(&'static str, Box<[i64]>),
}

impl CreateOption {
    /// The C form, which points into `self`.
    pub(crate) fn raw(&self) -> PJRT_NamedValue {
        let (name, type_, value, value_size) = match self {
            CreateOption::Float(name, value) => {
                (name, sys::PJRT_NamedValue_kFloat, Value { float_value: *value }, 1)
            }
            CreateOption::Bool(name, value) => {
                (name, sys::PJRT_NamedValue_kBool, Value { bool_value: *value }, 1)
            }
            CreateOption::Int(name, value) => {
                (name, sys::PJRT_NamedValue_kInt64, Value { int64_value: *value }, 1)
            }
            CreateOption::Ints(name, values) => (
                name,
                sys::PJRT_NamedValue_kInt64List,
                Value { int64_array_value: values.as_ptr() },
                values.len(),
            ),
        };
        PJRT_NamedValue {
            name: name.as_ptr().cast(),
            name_size: name.len(),
            type_,
            __bindgen_anon_1: value,
            value_size,
            ..Versioned::new()
        }
    }
}
