//! Element types and shapes of arrays.

use std::fmt;

use tlaloc_pjrt_sys as sys;

use crate::error::Error;

macro_rules! element_types {
    ($($(#[$doc:meta])* $name:ident = $raw:ident, $bytes:literal, $text:literal;)*) => {
        /// The element type of an array.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum ElementType {
            $($(#[$doc])* $name,)*
        }

        impl ElementType {
            /// Every type.
            pub const ALL: &[ElementType] = &[$(ElementType::$name,)*];

            /// Bytes of one element.
            pub const fn bytes(self) -> usize {
                match self { $(ElementType::$name => $bytes,)* }
            }

            pub(crate) fn raw(self) -> sys::PJRT_Buffer_Type {
                match self { $(ElementType::$name => sys::$raw,)* }
            }

            pub(crate) fn from_raw(raw: sys::PJRT_Buffer_Type) -> Option<Self> {
                match raw {
                    $(sys::$raw => Some(ElementType::$name),)*
                    _ => None,
                }
            }
        }

        /// StableHLO's name of the type.
        impl fmt::Display for ElementType {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(ElementType::$name => $text,)* })
            }
        }
    };
}

element_types! {
    /// IEEE double.
    F64 = PJRT_Buffer_Type_F64, 8, "f64";
    /// IEEE single.
    F32 = PJRT_Buffer_Type_F32, 4, "f32";
    /// IEEE half.
    F16 = PJRT_Buffer_Type_F16, 2, "f16";
    /// bfloat16.
    Bf16 = PJRT_Buffer_Type_BF16, 2, "bf16";
    /// 8-bit float of 4 exponent and 3 mantissa bits, no infinities.
    F8E4M3Fn = PJRT_Buffer_Type_F8E4M3FN, 1, "f8E4M3FN";
    /// Signed, 64 bits.
    I64 = PJRT_Buffer_Type_S64, 8, "i64";
    /// Signed, 32 bits.
    I32 = PJRT_Buffer_Type_S32, 4, "i32";
    /// Signed, 16 bits.
    I16 = PJRT_Buffer_Type_S16, 2, "i16";
    /// Signed, 8 bits.
    I8 = PJRT_Buffer_Type_S8, 1, "i8";
    /// Unsigned, 64 bits.
    U64 = PJRT_Buffer_Type_U64, 8, "ui64";
    /// Unsigned, 32 bits.
    U32 = PJRT_Buffer_Type_U32, 4, "ui32";
    /// Unsigned, 16 bits.
    U16 = PJRT_Buffer_Type_U16, 2, "ui16";
    /// Unsigned, 8 bits.
    U8 = PJRT_Buffer_Type_U8, 1, "ui8";
    /// One byte, 0 or 1.
    Bool = PJRT_Buffer_Type_PRED, 1, "i1";
}

/// Element type and dimensions of a dense, row-major array; rank 0 is a scalar.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    element_type: ElementType,
    dims: Box<[i64]>,
    bytes: usize,
}

impl Shape {
    /// A shape whose size in bytes is known to fit.
    ///
    /// # Errors
    /// [`Error::Shape`] for a negative dimension or a size that no memory has.
    pub fn new(element_type: ElementType, dims: &[i64]) -> Result<Self, Error> {
        let bytes = dims
            .iter()
            .try_fold(element_type.bytes(), |bytes, &dim| {
                bytes.checked_mul(usize::try_from(dim).ok()?)
            })
            .filter(|&bytes| isize::try_from(bytes).is_ok())
            .ok_or_else(|| Error::Shape { element_type, dims: dims.to_vec() })?;
        Ok(Self { element_type, dims: dims.into(), bytes })
    }

    /// The shape of an array of this size in bytes.
    pub(crate) fn sized(
        element_type: ElementType,
        dims: &[i64],
        found: usize,
    ) -> Result<Self, Error> {
        let shape = Self::new(element_type, dims)?;
        let needed = shape.bytes;
        if found == needed { Ok(shape) } else { Err(Error::Size { shape, needed, found }) }
    }

    /// The element type.
    pub fn element_type(&self) -> ElementType {
        self.element_type
    }

    /// The dimensions, outermost first.
    pub fn dims(&self) -> &[i64] {
        &self.dims
    }

    /// The dense size in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The dimensions as the C API takes them: a null pointer for rank 0.
    pub(crate) fn raw_dims(&self) -> (*const i64, usize) {
        let pointer = if self.dims.is_empty() { std::ptr::null() } else { self.dims.as_ptr() };
        (pointer, self.dims.len())
    }
}

/// As in StableHLO: `2x3xf32`.
impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for dim in &self.dims {
            write!(f, "{dim}x")?;
        }
        self.element_type.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_dense_and_checked() {
        let bytes = |element_type, dims: &[i64]| Shape::new(element_type, dims).map(|s| s.bytes());
        assert_eq!(bytes(ElementType::F32, &[2, 3]).unwrap(), 24);
        assert_eq!(bytes(ElementType::Bool, &[]).unwrap(), 1);
        assert_eq!(bytes(ElementType::F64, &[4, 0]).unwrap(), 0);
        assert!(bytes(ElementType::F32, &[-1]).is_err());
        assert!(bytes(ElementType::I8, &[i64::MAX, 2]).is_err());
        assert!(bytes(ElementType::I16, &[i64::MAX]).is_err());
    }

    #[test]
    fn every_type_survives_the_way_through_the_c_api() {
        for &element_type in ElementType::ALL {
            assert_eq!(ElementType::from_raw(element_type.raw()), Some(element_type));
        }
        assert_eq!(ElementType::from_raw(sys::PJRT_Buffer_Type_C64), None);
    }
}
