//! Which artifact serves which request (tensor mode §9).

use super::binding::Plan;
use super::config::TensorConfig;
use super::signature::{Signature, shape};

/// The artifacts of a model by the shapes that they take.
#[derive(Clone, Debug)]
pub struct Buckets {
    batching: bool,
    classes: Vec<Class>,
}

/// Artifacts that take rows of one shape.
#[derive(Clone, Debug)]
struct Class {
    /// For each input of the configuration, the dims of a row; without batching, all dims.
    rows: Vec<Vec<i64>>,
    /// Batch and index of each artifact, in order of batch.
    buckets: Vec<(usize, usize)>,
}

impl Buckets {
    /// Sorts artifacts whose signatures were checked.
    pub fn new(signatures: &[Signature], plan: &Plan, config: &TensorConfig) -> Self {
        let batching = config.max_batch_size > 0;
        let mut classes: Vec<Class> = Vec::new();
        for (index, signature) in signatures.iter().enumerate() {
            let rows: Vec<Vec<i64>> = (0..config.inputs.len())
                .map(|input| {
                    let argument = plan.argument_of_input(input);
                    let tensor = argument.and_then(|argument| signature.arguments.get(argument));
                    let dims = tensor.map(|tensor| tensor.dims()).unwrap_or_default().iter();
                    let skipped = usize::from(batching);
                    dims.skip(skipped).map(|dim| i64::try_from(*dim).unwrap_or(i64::MAX)).collect()
                })
                .collect();
            let batch = if batching { signature.batch(plan) } else { 1 };
            match classes.iter_mut().find(|class| class.rows == rows) {
                Some(class) => class.buckets.push((batch, index)),
                None => classes.push(Class { rows, buckets: vec![(batch, index)] }),
            }
        }
        for class in &mut classes {
            class.buckets.sort();
        }
        Buckets { batching, classes }
    }

    /// Whether requests have a batch dimension.
    pub fn batching(&self) -> bool {
        self.batching
    }

    /// The class of a request with inputs of these shapes, in the order of the configuration, and
    /// its rows (1 without batching).
    ///
    /// # Errors
    /// What is wrong with the shapes.
    pub fn classify(&self, shapes: &[&[i64]]) -> Result<(usize, usize), String> {
        let rows = if self.batching { rows(shapes)? } else { 1 };
        let found = self.classes.iter().position(|class| {
            shapes.len() == class.rows.len()
                && shapes.iter().zip(&class.rows).all(|(found, row)| self.matches(found, row))
        });
        let fits = |class: &usize| self.choose(*class, rows).is_some();
        found.filter(fits).map(|class| (class, rows)).ok_or_else(|| {
            let found: Vec<String> = shapes.iter().map(|dims| shape(dims)).collect();
            format!(
                "no compiled artifact takes input shapes ({}); the model serves {}",
                found.join(", "),
                self.served()
            )
        })
    }

    /// The artifact for so many rows of a class: the smallest batch that holds them.
    pub fn choose(&self, class: usize, rows: usize) -> Option<Bucket> {
        let buckets = &self.classes.get(class)?.buckets;
        let (batch, index) = *buckets.iter().find(|(batch, _)| rows <= *batch)?;
        Some(Bucket { index, batch })
    }

    fn matches(&self, found: &[i64], row: &[i64]) -> bool {
        if self.batching {
            found.get(1..) == Some(row)
        } else {
            // Triton has no scalars.
            found == row || (found == [1] && row.is_empty())
        }
    }

    /// The shapes of all classes: `([4]), ([8])`, or with up to 8 rows `([1..8,4])`.
    fn served(&self) -> String {
        let of_class = |class: &Class| {
            let largest = class.buckets.last().map_or(0, |(batch, _)| *batch);
            let inputs: Vec<String> = class
                .rows
                .iter()
                .map(|row| {
                    let batch = self.batching.then(|| format!("1..{largest}"));
                    let dims = row.iter().map(ToString::to_string);
                    shape(&batch.into_iter().chain(dims).collect::<Vec<_>>())
                })
                .collect();
            format!("({})", inputs.join(", "))
        };
        self.classes.iter().map(of_class).collect::<Vec<_>>().join(", ")
    }
}

/// An artifact to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Its index.
    pub index: usize,
    /// Rows that it takes.
    pub batch: usize,
}

/// The rows of a request: dim 0 of every input.
fn rows(shapes: &[&[i64]]) -> Result<usize, String> {
    let mut rows = None;
    for dims in shapes {
        let found = dims.first().ok_or("an input has no batch dimension")?;
        if *rows.get_or_insert(*found) != *found {
            return Err(format!(
                "all inputs must have the same number of rows, got {} and {found}",
                rows.unwrap_or_default()
            ));
        }
    }
    let rows = rows.unwrap_or_default();
    usize::try_from(rows)
        .ok()
        .filter(|rows| *rows > 0)
        .ok_or_else(|| format!("a request needs at least 1 row, got {rows}"))
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Artifacts of one input by batch (0: no batching) and dims of a row.
    pub fn buckets(artifacts: &[(usize, &[i64])]) -> Buckets {
        let batching = artifacts.iter().all(|(batch, _)| *batch > 0);
        let mut classes: Vec<Class> = Vec::new();
        for (index, (batch, row)) in artifacts.iter().enumerate() {
            let rows = vec![row.to_vec()];
            let bucket = (if batching { *batch } else { 1 }, index);
            match classes.iter_mut().find(|class| class.rows == rows) {
                Some(class) => class.buckets.push(bucket),
                None => classes.push(Class { rows, buckets: vec![bucket] }),
            }
        }
        Buckets { batching, classes }
    }

    #[test]
    fn without_batching_shapes_are_equal() {
        let buckets = buckets(&[(0, &[4]), (0, &[8]), (0, &[])]);
        assert_eq!(buckets.classify(&[&[8]]), Ok((1, 1)));
        assert_eq!(buckets.choose(1, 1), Some(Bucket { index: 1, batch: 1 }));
        assert_eq!(buckets.classify(&[&[1]]), Ok((2, 1)), "a scalar");
        let error = buckets.classify(&[&[5]]).unwrap_err();
        let expected =
            "no compiled artifact takes input shapes ([5]); the model serves ([4]), ([8]), ([])";
        assert_eq!(error, expected);
    }

    #[test]
    fn with_batching_the_smallest_batch_runs() {
        let buckets = buckets(&[(1, &[4]), (2, &[4]), (8, &[4]), (2, &[8])]);
        let index = |class, rows| buckets.choose(class, rows).map(|bucket| bucket.index);
        assert_eq!([1, 2, 3, 8].map(|rows| index(0, rows)), [Some(0), Some(1), Some(2), Some(2)]);
        assert_eq!(index(0, 9), None);
        assert_eq!(buckets.classify(&[&[2, 8]]), Ok((1, 2)));
        for (dims, needle) in [
            (&[3, 8][..], "takes input shapes ([3,8]); the model serves ([1..8,4]), ([1..2,8])"),
            (&[1, 5], "takes input shapes ([1,5])"),
            (&[0, 4], "needs at least 1 row, got 0"),
            (&[], "an input has no batch dimension"),
        ] {
            let error = buckets.classify(&[dims]).unwrap_err();
            assert!(error.contains(needle), "expected {needle:?} in {error:?}");
        }
        let error = buckets.classify(&[&[2, 4], &[3, 4]]).unwrap_err();
        assert!(error.contains("same number of rows, got 2 and 3"), "{error}");
    }
}
