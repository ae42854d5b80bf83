//! Options of a client, and how the C API takes them; attributes of a plugin, which it gives the same
//! way.

use tlaloc_pjrt_sys as sys;
use tlaloc_pjrt_sys::{PJRT_NamedValue, PJRT_NamedValue__bindgen_ty_1 as Value, Versioned};

use crate::api::text;

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

/// A named value as a line of text.
///
/// # Safety
/// What it points to must be alive.
pub(crate) unsafe fn describe(value: &PJRT_NamedValue) -> String {
    let many = value.value_size;
    // SAFETY: the caller's promise; the type says which field of the union is there.
    unsafe {
        let name = text(value.name, value.name_size);
        let field = &value.__bindgen_anon_1;
        match value.type_ {
            sys::PJRT_NamedValue_kString => {
                format!("{name}={}\n", text(field.string_value, many))
            }
            sys::PJRT_NamedValue_kInt64 => format!("{name}={}\n", field.int64_value),
            sys::PJRT_NamedValue_kInt64List if field.int64_array_value.is_null() => {
                format!("{name}=[]\n")
            }
            sys::PJRT_NamedValue_kInt64List => {
                let values = std::slice::from_raw_parts(field.int64_array_value, many);
                format!("{name}={values:?}\n")
            }
            sys::PJRT_NamedValue_kFloat => format!("{name}={}\n", field.float_value),
            sys::PJRT_NamedValue_kBool => format!("{name}={}\n", field.bool_value),
            other => format!("{name} of type {other}\n"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_of_every_type_have_their_values() {
        // SAFETY: the option outlives the call.
        let described = |option: CreateOption| unsafe { describe(&option.raw()) };
        assert_eq!(described(CreateOption::Int("xla_version", 2)), "xla_version=2\n");
        assert_eq!(described(CreateOption::Ints("v", Box::new([1, 13, 7]))), "v=[1, 13, 7]\n");
        assert_eq!(described(CreateOption::Bool("fast", true)), "fast=true\n");
        assert_eq!(described(CreateOption::Float("share", 0.5)), "share=0.5\n");
        let words = "new";
        let mut text = CreateOption::Int("name", 0).raw();
        text.type_ = sys::PJRT_NamedValue_kString;
        text.__bindgen_anon_1 = Value { string_value: words.as_ptr().cast() };
        text.value_size = words.len();
        // SAFETY: its texts are constants.
        assert_eq!(unsafe { describe(&text) }, "name=new\n");
    }
}
