//! Element types as the artifact, the plugin and Triton have them.

use tlaloc_artifact::DType;
use tlaloc_pjrt::ElementType;
use triton_backend::DataType;

macro_rules! spellings {
    ($($dtype:ident $element:ident $triton:expr;)*) => {
        /// The plugin's type.
        pub fn element_type(dtype: DType) -> ElementType {
            match dtype { $(DType::$dtype => ElementType::$element,)* }
        }

        /// The artifact's type.
        pub fn dtype(element_type: ElementType) -> DType {
            match element_type { $(ElementType::$element => DType::$dtype,)* }
        }

        /// Triton's type; it has none for 8-bit floats.
        pub fn data_type(dtype: DType) -> Option<DataType> {
            match dtype { $(DType::$dtype => $triton,)* }
        }
    };
}

spellings! {
    F64 F64 Some(DataType::Fp64);
    F32 F32 Some(DataType::Fp32);
    F16 F16 Some(DataType::Fp16);
    Bf16 Bf16 Some(DataType::Bf16);
    F8E4M3Fn F8E4M3Fn None;
    I64 I64 Some(DataType::Int64);
    I32 I32 Some(DataType::Int32);
    I16 I16 Some(DataType::Int16);
    I8 I8 Some(DataType::Int8);
    U64 U64 Some(DataType::Uint64);
    U32 U32 Some(DataType::Uint32);
    U16 U16 Some(DataType::Uint16);
    U8 U8 Some(DataType::Uint8);
    Bool Bool Some(DataType::Bool);
}

/// The type that a configuration names, with or without `TYPE_`.
pub fn from_config(name: &str) -> Option<DType> {
    let name = name.strip_prefix("TYPE_").unwrap_or(name);
    DType::ALL.into_iter().find(|dtype| data_type(*dtype).is_some_and(|t| t.to_string() == name))
}

/// Dims as the plugin and Triton have them.
pub fn signed(dims: &[usize]) -> Vec<i64> {
    dims.iter().map(|dim| i64::try_from(*dim).unwrap_or(i64::MAX)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// U9.
    #[test]
    fn names_of_configurations() {
        assert_eq!(from_config("TYPE_BF16"), Some(DType::Bf16));
        assert_eq!(from_config("INT32"), Some(DType::I32));
        assert_eq!(from_config("TYPE_UINT16"), Some(DType::U16));
        for none in ["TYPE_STRING", "BYTES", "TYPE_INVALID", "", "TYPE_", "F32", "type_int8"] {
            assert_eq!(from_config(none), None, "{none}");
        }
    }

    #[test]
    fn every_spelling_is_of_one_type() {
        for dtype in DType::ALL {
            assert_eq!(super::dtype(element_type(dtype)), dtype);
            assert_eq!(element_type(dtype).bytes(), dtype.size());
            if let Some(triton) = data_type(dtype) {
                assert_eq!(from_config(&format!("TYPE_{triton}")), Some(dtype));
            }
        }
    }
}
