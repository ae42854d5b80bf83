//! Element types of weights, pools and program arguments.

use std::fmt;

/// An element type, with its three spellings: manifest (`u8`), MLIR (`ui8`) and byte width.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "each variant is the type it names")]
pub enum DType {
    F64,
    F32,
    F16,
    Bf16,
    F8E4M3Fn,
    I64,
    I32,
    I16,
    I8,
    U64,
    U32,
    U16,
    U8,
    Bool,
}

impl DType {
    /// Every element type.
    pub const ALL: [DType; 14] = [
        DType::F64,
        DType::F32,
        DType::F16,
        DType::Bf16,
        DType::F8E4M3Fn,
        DType::I64,
        DType::I32,
        DType::I16,
        DType::I8,
        DType::U64,
        DType::U32,
        DType::U16,
        DType::U8,
        DType::Bool,
    ];

    /// The spelling in manifests.
    pub fn manifest_name(self) -> &'static str {
        match self {
            DType::F64 => "f64",
            DType::F32 => "f32",
            DType::F16 => "f16",
            DType::Bf16 => "bf16",
            DType::F8E4M3Fn => "f8e4m3fn",
            DType::I64 => "i64",
            DType::I32 => "i32",
            DType::I16 => "i16",
            DType::I8 => "i8",
            DType::U64 => "u64",
            DType::U32 => "u32",
            DType::U16 => "u16",
            DType::U8 => "u8",
            DType::Bool => "bool",
        }
    }

    /// The spelling in StableHLO text.
    pub fn mlir_name(self) -> &'static str {
        match self {
            DType::F8E4M3Fn => "f8E4M3FN",
            DType::U64 => "ui64",
            DType::U32 => "ui32",
            DType::U16 => "ui16",
            DType::U8 => "ui8",
            DType::Bool => "i1",
            other => other.manifest_name(),
        }
    }

    /// Reads any spelling that a manifest or StableHLO text may use (signless, signed and unsigned
    /// integer names, both cases of the 8-bit float).
    pub fn parse(name: &str) -> Option<DType> {
        if let Some(bits) = name.strip_prefix("si") {
            return DType::parse(&format!("i{bits}")).filter(|d| *d != DType::Bool);
        }
        DType::ALL.into_iter().find(|d| d.manifest_name() == name || d.mlir_name() == name)
    }

    /// Bytes of one element.
    pub fn size(self) -> usize {
        match self {
            DType::F64 | DType::I64 | DType::U64 => 8,
            DType::F32 | DType::I32 | DType::U32 => 4,
            DType::F16 | DType::Bf16 | DType::I16 | DType::U16 => 2,
            DType::F8E4M3Fn | DType::I8 | DType::U8 | DType::Bool => 1,
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.manifest_name())
    }
}
