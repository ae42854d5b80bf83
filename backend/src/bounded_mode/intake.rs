//! Reads and checks a request (bounded mode §4).

use tlaloc_artifact::bounded::{Axis, BoundedArtifact, BoundedTensor};
use triton_backend::{Code, Input, Request};

use super::blocks::WIDTH;
use crate::dtype::data_type;

/// Why a request is not served.
#[derive(Debug, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// The request is not what the program takes.
    #[error("{0}")]
    Request(String),
    /// The artifact cannot serve any request: it was exported wrongly.
    #[error("{0}")]
    Artifact(String),
}

impl Refusal {
    /// Triton's code for it.
    pub fn code(&self) -> Code {
        match self {
            Refusal::Request(_) => Code::InvalidArgument,
            Refusal::Artifact(_) => Code::Internal,
        }
    }
}

/// A request that can be served.
pub struct Prepared<'a> {
    /// Its inputs, in the order of the program's.
    pub inputs: Vec<Input<'a>>,
    /// The real size of each bound.
    pub sizes: Vec<usize>,
    /// The entry that runs.
    pub entry: usize,
}

/// Checks a request against the program.
pub fn prepare<'a>(
    request: &'a Request,
    artifact: &BoundedArtifact,
) -> Result<Prepared<'a>, Refusal> {
    let mut given = Vec::new();
    for input in request.inputs() {
        given.push(input.map_err(|error| Refusal::Request(error.to_string()))?);
    }
    let mut sizes = Sizes::new(artifact);
    let mut inputs = Vec::new();
    for tensor in artifact.data_inputs() {
        let Some(place) = given.iter().position(|input: &Input<'_>| input.name() == tensor.name)
        else {
            return Err(Refusal::Request(format!("the request has no input '{}'", tensor.name)));
        };
        let input = given.swap_remove(place);
        check_type(&input, tensor)?;
        sizes.read(tensor, input.shape())?;
        check_bytes(&input)?;
        inputs.push(input);
    }
    let sizes = sizes.finish()?;
    let entry = entry(artifact, &sizes)?;
    Ok(Prepared { inputs, sizes, entry })
}

fn check_type(input: &Input<'_>, tensor: &BoundedTensor) -> Result<(), Refusal> {
    let expected = data_type(tensor.dtype);
    if expected == Some(input.data_type()) {
        return Ok(());
    }
    Err(Refusal::Request(format!(
        "input '{}' is {}, the program takes {}",
        tensor.name,
        input.data_type(),
        expected.map(|expected| expected.to_string()).unwrap_or_default()
    )))
}

fn check_bytes(input: &Input<'_>) -> Result<(), Refusal> {
    let needed = input
        .shape()
        .iter()
        .try_fold(WIDTH as u64, |bytes, dim| bytes.checked_mul(u64::try_from(*dim).ok()?));
    if needed == Some(input.byte_size()) {
        return Ok(());
    }
    Err(Refusal::Request(format!(
        "input '{}' has {} bytes, which are not those of {} {:?}",
        input.name(),
        input.byte_size(),
        input.data_type(),
        input.shape()
    )))
}

/// The real sizes of bounds, as inputs tell them.
struct Sizes<'a> {
    artifact: &'a BoundedArtifact,
    found: Vec<Option<usize>>,
}

impl<'a> Sizes<'a> {
    fn new(artifact: &'a BoundedArtifact) -> Self {
        Sizes { artifact, found: vec![None; artifact.bounds.len()] }
    }

    /// Takes the sizes from the shape of an input.
    fn read(&mut self, tensor: &BoundedTensor, shape: &[i64]) -> Result<(), Refusal> {
        let name = &tensor.name;
        if shape.len() != tensor.axes.len() {
            return Err(Refusal::Request(format!(
                "input '{name}' has {} dims, the program's has {}",
                shape.len(),
                tensor.axes.len()
            )));
        }
        for (index, (axis, &dim)) in tensor.axes.iter().zip(shape).enumerate() {
            match *axis {
                Axis::Fixed(size) if usize::try_from(dim) == Ok(size) => {}
                Axis::Fixed(size) => {
                    return Err(Refusal::Request(format!(
                        "input '{name}' has size {dim} in dim {index}, the program takes {size}"
                    )));
                }
                Axis::Bound(bound) => self.set(bound, name, index, dim)?,
            }
        }
        Ok(())
    }

    fn set(&mut self, bound: usize, name: &str, index: usize, dim: i64) -> Result<(), Refusal> {
        // Axes name bounds of the artifact.
        let (Some(found), Some(bound)) =
            (self.found.get_mut(bound), self.artifact.bounds.get(bound))
        else {
            return Ok(());
        };
        let size = usize::try_from(dim).ok().filter(|size| (1..=bound.max()).contains(size));
        let size = size.ok_or_else(|| {
            Refusal::Request(format!(
                "input '{name}' has size {dim} in dim {index}, outside 1..{} of the bound {}",
                bound.max(),
                bound.name
            ))
        })?;
        match *found.get_or_insert(size) {
            first if first == size => Ok(()),
            first => Err(Refusal::Request(format!(
                "input '{name}' has size {size} in dim {index}, but {} is {first} in this request: \
                 every axis of one bound has one size",
                bound.name
            ))),
        }
    }

    fn finish(self) -> Result<Vec<usize>, Refusal> {
        let sizes = self.found.iter().zip(&self.artifact.bounds).map(|(size, bound)| {
            size.ok_or_else(|| {
                Refusal::Artifact(format!(
                    "no input of the program '{}' carries the bound {}, so that no request tells \
                     its size",
                    self.artifact.name, bound.name
                ))
            })
        });
        sizes.collect()
    }
}

/// The entry of the smallest buckets that hold these sizes.
fn entry(artifact: &BoundedArtifact, sizes: &[usize]) -> Result<usize, Refusal> {
    let buckets = artifact.bounds.iter().zip(sizes).map(|(bound, size)| bound.bucket(*size));
    let buckets: Option<Vec<usize>> = buckets.collect();
    let entry = buckets.as_deref().and_then(|buckets| artifact.entry(buckets));
    entry.ok_or_else(|| {
        Refusal::Artifact(format!("the program '{}' has no entry for {buckets:?}", artifact.name))
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::{Value, json};

    use super::*;

    /// Bounds Seq of 4 and 8, Batch of 1 and 2; inputs `x0` [Batch, Seq, 3] and `ids` [Seq].
    fn artifact(inputs: Value) -> BoundedArtifact {
        let entries: Vec<_> = [(4, 1), (4, 2), (8, 1), (8, 2)]
            .iter()
            .map(|(seq, batch)| {
                json!({
                    "id": format!("Seq{seq}_Batch{batch}"), "sizes": {"Seq": seq, "Batch": batch},
                    "entryPoint": "main", "bodyPath": "b.mlir", "programPath": "p.json"
                })
            })
            .collect();
        let manifest = json!({
            "schemaVersion": "tlaloc-bounded-v1",
            "name": "program",
            "bounds": [
                {"name": "Seq", "max": 8, "buckets": [4, 8]},
                {"name": "Batch", "max": 2, "buckets": [1, 2]}
            ],
            "padding": {"value": 0},
            "inputs": inputs,
            "outputs": [{"name": "y0", "role": "DATA", "dtype": "f32", "axes": [{"bound": "Batch"}]}],
            "entries": entries,
            "paddingCheck": {"maxDifference": 0, "tolerance": 0}
        });
        BoundedArtifact::parse(Path::new("m.json"), manifest.to_string().as_bytes()).unwrap()
    }

    fn data(name: &str, axes: Value) -> Value {
        json!({"name": name, "role": "DATA", "dtype": "f32", "axes": axes})
    }

    fn both() -> Value {
        json!([
            data("x0", json!([{"bound": "Batch"}, {"bound": "Seq"}, {"size": 3}])),
            data("ids", json!([{"bound": "Seq"}]))
        ])
    }

    /// Sizes and entry of a request of these shapes.
    fn read(artifact: &BoundedArtifact, shapes: &[&[i64]]) -> Result<(Vec<usize>, usize), Refusal> {
        let mut sizes = Sizes::new(artifact);
        for (tensor, shape) in artifact.data_inputs().zip(shapes) {
            sizes.read(tensor, shape)?;
        }
        let sizes = sizes.finish()?;
        let entry = entry(artifact, &sizes)?;
        Ok((sizes, entry))
    }

    #[test]
    fn the_smallest_buckets_that_hold_a_request() {
        let artifact = artifact(both());
        let of = |batch, seq| read(&artifact, &[&[batch, seq, 3], &[seq]]).unwrap();
        assert_eq!(of(1, 1), (vec![1, 1], 0));
        assert_eq!(of(2, 4), (vec![4, 2], 1));
        assert_eq!(of(1, 5), (vec![5, 1], 2));
        assert_eq!(of(2, 8), (vec![8, 2], 3));
    }

    #[test]
    fn every_flaw_is_refused_by_name() {
        let artifact = artifact(both());
        for (shapes, needle) in [
            (
                [&[1, 9, 3][..], &[9][..]],
                "input 'x0' has size 9 in dim 1, outside 1..8 of the bound Seq",
            ),
            ([&[3, 8, 3], &[8]], "input 'x0' has size 3 in dim 0, outside 1..2 of the bound Batch"),
            ([&[1, 0, 3], &[0]], "input 'x0' has size 0 in dim 1, outside 1..8"),
            ([&[1, -1, 3], &[1]], "input 'x0' has size -1 in dim 1, outside 1..8"),
            ([&[1, 4, 5], &[4]], "input 'x0' has size 5 in dim 2, the program takes 3"),
            ([&[1, 4], &[4]], "input 'x0' has 2 dims, the program's has 3"),
            (
                [&[1, 4, 3], &[5]],
                "input 'ids' has size 5 in dim 0, but Seq is 4 in this request: every axis of one bound has one size",
            ),
        ] {
            let error = read(&artifact, &shapes).unwrap_err();
            assert!(matches!(error, Refusal::Request(_)));
            assert!(error.to_string().contains(needle), "expected {needle:?} in {error}");
        }
    }

    #[test]
    fn a_bound_that_no_input_carries() {
        let artifact = artifact(json!([data("ids", json!([{"bound": "Seq"}]))]));
        let error = read(&artifact, &[&[4]]).unwrap_err();
        assert!(matches!(&error, Refusal::Artifact(reason) if reason.contains("the bound Batch")));
        assert_eq!(error.code(), Code::Internal);
    }
}
