//! Generated bindings of the PJRT C API (0.81) and the convention its structs follow.
//!
//! `src/bindings.rs` is written by `generate.sh` and committed, so that building needs no libclang.
//! Nothing here is linked: a plugin hands over one table of functions ([`PJRT_Api`]) at run time.

/// Implements [`Versioned`] for structs and checks that this crate's layout of each one ends where
/// the C compiler put the end of its last field.
macro_rules! versioned {
    ($($name:ident = $size:ident,)*) => {$(
        const _: () = assert!(
            size_of::<$name>() == $size.next_multiple_of(align_of::<$name>()),
            concat!("layout of ", stringify!($name))
        );

        // SAFETY: the header declares the struct with `struct_size` first and only integers, floats,
        // booleans, unions of those and nullable pointers behind it.
        unsafe impl super::Versioned for $name {
            fn new() -> Self {
                // SAFETY: the trait's promise: all-zero bytes are a value of this type.
                let zero: Self = unsafe { core::mem::zeroed() };
                Self { struct_size: $size, ..zero }
            }
        }
    )*};
}

#[allow(
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    clippy::all,
    clippy::pedantic
)]
mod bindings;

pub use bindings::*;

/// A struct that a caller fills and passes to a plugin.
///
/// Every such struct starts with `struct_size`, by which a plugin tells how many fields its caller
/// knows; all other fields are optional when zero.
///
/// # Safety
/// All-zero bytes must be a valid value of the implementing type.
pub unsafe trait Versioned: Sized {
    /// All fields zero but `struct_size`, which has the header's value. Meant as the base of a
    /// struct expression: `PJRT_Event_Await_Args { event, ..Versioned::new() }`.
    fn new() -> Self;
}
