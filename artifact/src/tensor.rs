//! A static tensor type.

use std::fmt;

use crate::DType;

/// Element type and shape of a tensor whose byte size is known to fit memory arithmetic.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tensor {
    dtype: DType,
    dims: Vec<usize>,
}

impl Tensor {
    /// A tensor of `dims` (outermost first; empty for a scalar), or `None` when its byte size does
    /// not fit `isize`.
    pub fn new(dtype: DType, dims: impl Into<Vec<usize>>) -> Option<Tensor> {
        let dims = dims.into();
        let bytes = dims.iter().try_fold(dtype.size(), |n, &d| n.checked_mul(d))?;
        isize::try_from(bytes).ok()?;
        // A zero dimension hides the overflow of its neighbours, which `elements` multiplies in any
        // order: the product with zeros left out must fit too.
        let nonzero = dims.iter().filter(|&&d| d > 0);
        nonzero.copied().try_fold(dtype.size(), usize::checked_mul)?;
        Some(Tensor { dtype, dims })
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Shape, outermost dimension first; empty for a scalar.
    pub fn dims(&self) -> &[usize] {
        &self.dims
    }

    /// Number of elements.
    pub fn elements(&self) -> usize {
        self.dims.iter().product()
    }

    /// Size in bytes, dense.
    pub fn bytes(&self) -> usize {
        self.elements() * self.dtype.size()
    }
}

impl fmt::Display for Tensor {
    /// The spelling in StableHLO text: `tensor<2x2xf32>`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("tensor<")?;
        for dim in &self.dims {
            write!(f, "{dim}x")?;
        }
        write!(f, "{}>", self.dtype.mlir_name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_spelling() {
        let t = Tensor::new(DType::Bf16, [2, 3]).unwrap();
        assert_eq!((t.elements(), t.bytes()), (6, 12));
        assert_eq!(t.to_string(), "tensor<2x3xbf16>");
        let scalar = Tensor::new(DType::U8, []).unwrap();
        assert_eq!((scalar.elements(), scalar.bytes()), (1, 1));
        assert_eq!(scalar.to_string(), "tensor<ui8>");
    }

    #[test]
    fn sizes_that_overflow_are_no_tensor() {
        assert_eq!(Tensor::new(DType::F32, [usize::MAX / 4, 2]), None);
        assert_eq!(Tensor::new(DType::F64, [usize::MAX / 8]), None, "over isize");
        assert_eq!(Tensor::new(DType::I8, [0, usize::MAX, usize::MAX]), None);
        assert!(Tensor::new(DType::I8, [0, 7]).is_some());
    }
}
