//! Bounded artifacts (bounded mode §1, §2): one program, compiled for several sizes ("buckets") of
//! each axis whose size a request chooses.
//!
//! [`manifest`] is the JSON, unchecked; [`BoundedArtifact`] is a checked artifact, [`mod@write`]
//! builds a new one.

mod check;
pub mod manifest;
pub mod write;

use std::fmt;
use std::path::{Path, PathBuf};

use crate::{DType, Error, Tensor};

/// A bounded artifact whose manifest keeps every rule of bounded mode §2.
#[derive(Clone, Debug, PartialEq)]
pub struct BoundedArtifact {
    /// Absolute path of the manifest.
    pub manifest_path: PathBuf,
    /// Name of the program.
    pub name: String,
    /// The bounds; at least one. Elsewhere they are named by their index here, and sizes of all
    /// bounds are in this order.
    pub bounds: Vec<Bound>,
    /// What surrounds a request's values in a larger bucket.
    pub padding: f64,
    /// Arguments in order; at least one is [`InputValue::Data`].
    pub inputs: Vec<BoundedInput>,
    /// Results in order; at least one.
    pub outputs: Vec<BoundedTensor>,
    /// Programs, one for every combination of buckets.
    pub entries: Vec<BoundedEntry>,
}

/// A size that requests choose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    /// Its name.
    pub name: String,
    /// The sizes that there are programs for: at least one, ascending, from 1.
    buckets: Vec<usize>,
}

/// A tensor whose axes may be bounded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundedTensor {
    /// Its name.
    pub name: String,
    /// f32 or i32.
    pub dtype: DType,
    /// Axes, outermost first.
    pub axes: Vec<Axis>,
}

/// The size of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
    /// Always this one.
    Fixed(usize),
    /// That of the bound of this index.
    Bound(usize),
}

/// An argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundedInput {
    /// Name and type.
    pub tensor: BoundedTensor,
    /// Where its value comes from.
    pub value: InputValue,
}

/// Where an argument's value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputValue {
    /// The request.
    Data,
    /// The real size of this bound: f32, 1 below it and 0 from it on.
    ValidMask(usize),
    /// The real size of this bound, as an f32 scalar.
    ValidLength(usize),
}

/// The program for one combination of buckets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundedEntry {
    /// Its name in logs.
    pub id: String,
    /// The bucket of each bound.
    pub sizes: Vec<usize>,
    /// Function to run.
    pub entry_point: String,
    /// Absolute path of the body.
    pub body: PathBuf,
    /// Absolute path of the program's description, which may be absent.
    pub program: PathBuf,
    /// The body as the manifest names it.
    pub body_name: String,
    /// Types of the arguments at these sizes.
    pub inputs: Vec<Tensor>,
    /// Types of the results at these sizes.
    pub outputs: Vec<Tensor>,
}

impl Bound {
    /// The sizes that there are programs for: at least one, ascending, from 1.
    pub fn buckets(&self) -> &[usize] {
        &self.buckets
    }

    /// The largest size.
    pub fn max(&self) -> usize {
        self.buckets.last().copied().unwrap_or(0)
    }

    /// The smallest bucket that holds `size`; none above [`max`](Self::max).
    pub fn bucket(&self, size: usize) -> Option<usize> {
        self.buckets.iter().copied().find(|bucket| *bucket >= size)
    }
}

impl fmt::Display for Bound {
    /// As in `Seq <= 8 (buckets 4 8)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} <= {} (buckets", self.name, self.max())?;
        self.buckets.iter().try_for_each(|bucket| write!(f, " {bucket}"))?;
        f.write_str(")")
    }
}

impl BoundedTensor {
    /// Its dims where the bounds have these sizes.
    pub fn dims(&self, sizes: &[usize]) -> Vec<usize> {
        let size = |axis: &Axis| match axis {
            Axis::Fixed(size) => *size,
            Axis::Bound(bound) => sizes.get(*bound).copied().unwrap_or(0),
        };
        self.axes.iter().map(size).collect()
    }

    /// Its dims as a Triton configuration declares them: -1 where the size is bounded.
    pub fn config_dims(&self) -> Vec<i64> {
        let size = |axis: &Axis| match axis {
            Axis::Fixed(size) => i64::try_from(*size).unwrap_or(i64::MAX),
            Axis::Bound(_) => -1,
        };
        self.axes.iter().map(size).collect()
    }
}

impl BoundedArtifact {
    /// Reads and checks the manifest at `path`. Bodies are not opened.
    ///
    /// # Errors
    /// [`Error::is_not_found`] when it cannot be read; otherwise the first rule of bounded mode §2
    /// that is broken.
    pub fn open(path: &Path) -> Result<BoundedArtifact, Error> {
        let bytes = std::fs::read(path)
            .map_err(|source| Error::Unreadable { path: path.to_owned(), source })?;
        BoundedArtifact::parse(path, &bytes)
    }

    /// Checks the manifest `bytes`, which stand at `path`. Opens nothing.
    ///
    /// # Errors
    /// The first rule of bounded mode §2 that is broken.
    pub fn parse(path: &Path, bytes: &[u8]) -> Result<BoundedArtifact, Error> {
        check::artifact(path, bytes)
    }

    /// Absolute path of the directory that holds the manifest.
    pub fn root(&self) -> &Path {
        self.manifest_path.parent().unwrap_or(Path::new("/"))
    }

    /// The arguments that a request gives, in order.
    pub fn data_inputs(&self) -> impl Iterator<Item = &BoundedTensor> {
        let data = self.inputs.iter().filter(|input| input.value == InputValue::Data);
        data.map(|input| &input.tensor)
    }

    /// The entry for exactly these buckets.
    pub fn entry(&self, buckets: &[usize]) -> Option<usize> {
        self.entries.iter().position(|entry| entry.sizes == buckets)
    }
}
