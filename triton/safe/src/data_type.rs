use std::fmt;

use triton_backend_sys as sys;

/// Element types of Triton's tensors. Displayed as in the inference protocol (`INT32`); a model's
/// configuration writes `TYPE_INT32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum DataType {
    /// One byte, 0 or 1.
    Bool = sys::TRITONSERVER_TYPE_BOOL,
    /// 8 bits, unsigned.
    Uint8 = sys::TRITONSERVER_TYPE_UINT8,
    /// 16 bits, unsigned.
    Uint16 = sys::TRITONSERVER_TYPE_UINT16,
    /// 32 bits, unsigned.
    Uint32 = sys::TRITONSERVER_TYPE_UINT32,
    /// 64 bits, unsigned.
    Uint64 = sys::TRITONSERVER_TYPE_UINT64,
    /// 8 bits, signed.
    Int8 = sys::TRITONSERVER_TYPE_INT8,
    /// 16 bits, signed.
    Int16 = sys::TRITONSERVER_TYPE_INT16,
    /// 32 bits, signed.
    Int32 = sys::TRITONSERVER_TYPE_INT32,
    /// 64 bits, signed.
    Int64 = sys::TRITONSERVER_TYPE_INT64,
    /// IEEE half precision.
    Fp16 = sys::TRITONSERVER_TYPE_FP16,
    /// IEEE single precision.
    Fp32 = sys::TRITONSERVER_TYPE_FP32,
    /// IEEE double precision.
    Fp64 = sys::TRITONSERVER_TYPE_FP64,
    /// Strings, each behind its length as 4 bytes, little endian.
    Bytes = sys::TRITONSERVER_TYPE_BYTES,
    /// The upper half of single precision.
    Bf16 = sys::TRITONSERVER_TYPE_BF16,
}

impl DataType {
    pub(crate) fn from_raw(raw: sys::TRITONSERVER_DataType) -> Option<Self> {
        Some(match raw {
            sys::TRITONSERVER_TYPE_BOOL => DataType::Bool,
            sys::TRITONSERVER_TYPE_UINT8 => DataType::Uint8,
            sys::TRITONSERVER_TYPE_UINT16 => DataType::Uint16,
            sys::TRITONSERVER_TYPE_UINT32 => DataType::Uint32,
            sys::TRITONSERVER_TYPE_UINT64 => DataType::Uint64,
            sys::TRITONSERVER_TYPE_INT8 => DataType::Int8,
            sys::TRITONSERVER_TYPE_INT16 => DataType::Int16,
            sys::TRITONSERVER_TYPE_INT32 => DataType::Int32,
            sys::TRITONSERVER_TYPE_INT64 => DataType::Int64,
            sys::TRITONSERVER_TYPE_FP16 => DataType::Fp16,
            sys::TRITONSERVER_TYPE_FP32 => DataType::Fp32,
            sys::TRITONSERVER_TYPE_FP64 => DataType::Fp64,
            sys::TRITONSERVER_TYPE_BYTES => DataType::Bytes,
            sys::TRITONSERVER_TYPE_BF16 => DataType::Bf16,
            _ => return None,
        })
    }
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DataType::Bool => "BOOL",
            DataType::Uint8 => "UINT8",
            DataType::Uint16 => "UINT16",
            DataType::Uint32 => "UINT32",
            DataType::Uint64 => "UINT64",
            DataType::Int8 => "INT8",
            DataType::Int16 => "INT16",
            DataType::Int32 => "INT32",
            DataType::Int64 => "INT64",
            DataType::Fp16 => "FP16",
            DataType::Fp32 => "FP32",
            DataType::Fp64 => "FP64",
            DataType::Bytes => "BYTES",
            DataType::Bf16 => "BF16",
        })
    }
}
