//! A weight as a checkpoint stores it: all of a tensor, or evenly spaced rows of one.

use super::StoredTensor;

/// A weight in its file.
#[derive(Clone, Debug)]
pub struct StoredWeight {
    /// The tensor that holds it.
    pub tensor: StoredTensor,
    /// Shape of the weight. A tensor of another shape is read as rows of as many elements as the
    /// weight's rows have.
    pub dims: Vec<usize>,
    /// Which of the tensor's rows it is.
    pub rows: Rows,
    /// Whether 1 is to be added to every element.
    pub zero_centred: bool,
}

/// Rows of a tensor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rows {
    /// All of them.
    #[default]
    All,
    /// Of every `period` rows the `len` from `start` on, until the weight has all its rows.
    Every {
        /// Distance between the first rows of two runs.
        period: usize,
        /// First row of the first run.
        start: usize,
        /// Rows of a run.
        len: usize,
    },
}

impl StoredWeight {
    /// Rows of the weight.
    pub fn rows(&self) -> usize {
        self.dims.first().copied().unwrap_or(1)
    }

    /// Elements of a row.
    pub fn row_elements(&self) -> usize {
        self.dims.iter().skip(1).product()
    }

    /// Number of the tensor's first element of row `row`.
    pub fn row_start(&self, row: usize) -> usize {
        let stored = match self.rows {
            Rows::All => row,
            Rows::Every { period, start, len } => row / len * period + start + row % len,
        };
        stored * self.row_elements()
    }

    /// The weight's rows in order as `(first element in the tensor, number of elements)`, each as
    /// long as the tensor holds them together.
    pub fn runs(&self) -> impl Iterator<Item = (usize, usize)> {
        let len = match self.rows {
            Rows::All => self.rows(),
            Rows::Every { len, .. } => len,
        };
        (0..self.rows())
            .step_by(len.max(1))
            .map(move |row| (self.row_start(row), len.min(self.rows() - row) * self.row_elements()))
    }
}
