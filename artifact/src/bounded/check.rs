//! From the manifest as written to a [`BoundedArtifact`]: the rules of bounded mode §2.

use std::collections::HashSet;
use std::path::Path;

use super::manifest::{self, Manifest, SCHEMA_VERSION};
use super::{Axis, Bound, BoundedArtifact, BoundedEntry, BoundedInput, BoundedTensor, InputValue};
use crate::check::inside;
use crate::{DType, Error, Tensor, json};

/// A broken rule, before it is known in which manifest.
type Broken<T> = Result<T, String>;

/// Checks the manifest `bytes` read from `path`.
pub(super) fn artifact(path: &Path, bytes: &[u8]) -> Result<BoundedArtifact, Error> {
    let absolute = std::path::absolute(path)
        .map_err(|source| Error::Unreadable { path: path.to_owned(), source })?;
    let (_, manifest) =
        json::versioned(path, bytes, &[SCHEMA_VERSION], json::RepeatedKeys::Refused)?;
    checked(&absolute, &manifest)
        .map_err(|reason| Error::Bounded { manifest: path.to_owned(), reason })
}

fn checked(path: &Path, manifest: &Manifest) -> Broken<BoundedArtifact> {
    let root = path.parent().unwrap_or(Path::new("/"));
    if manifest.name.trim().is_empty() {
        return Err("name is blank".to_owned());
    }
    let bounds = bounds(&manifest.bounds)?;
    let inputs = numbered("inputs", &manifest.inputs, |tensor| input(tensor, &bounds))?;
    if !inputs.iter().any(|input| input.value == InputValue::Data) {
        return Err("inputs has no DATA tensor; a program needs one at least".to_owned());
    }
    let outputs = numbered("outputs", &manifest.outputs, |tensor| output(tensor, &bounds))?;
    if outputs.is_empty() {
        return Err("outputs is empty; a program has one at least".to_owned());
    }
    each_named("inputs", "name", manifest.inputs.iter().map(|input| &*input.name))?;
    each_named("outputs", "name", manifest.outputs.iter().map(|output| &*output.name))?;
    let sizes = numbered("entries", &manifest.entries, |entry| entry_sizes(entry, &bounds))?;
    all_combinations(&sizes, &bounds)?;
    each_named("entries", "id", manifest.entries.iter().map(|entry| &*entry.id))?;
    let entries = manifest.entries.iter().zip(sizes);
    let entries = entries.map(|(written, sizes)| {
        entry(root, written, sizes, &inputs, &outputs)
            .map_err(|reason| format!("entry {}: {reason}", written.id))
    });
    let entries = entries.collect::<Broken<_>>()?;
    let manifest::PaddingCheck { max_difference, tolerance, .. } = manifest.padding_check;
    // A comparison with NaN is false, too.
    let agrees = max_difference <= tolerance;
    if !agrees {
        return Err(format!(
            "paddingCheck.maxDifference is {max_difference}, more than the tolerance {tolerance}: \
             padding changes what the program computes"
        ));
    }
    Ok(BoundedArtifact {
        manifest_path: path.to_owned(),
        name: manifest.name.clone(),
        bounds,
        padding: manifest.padding.value,
        inputs,
        outputs,
        entries,
    })
}

/// Every item of a list has a name, and a name of its own.
fn each_named<'a>(list: &str, key: &str, names: impl Iterator<Item = &'a str>) -> Broken<()> {
    let mut seen = HashSet::new();
    for (index, name) in names.enumerate() {
        if name.trim().is_empty() {
            return Err(format!("{list}[{index}].{key} is blank"));
        }
        if !seen.insert(name) {
            return Err(format!("{list} has the {key} '{name}' twice"));
        }
    }
    Ok(())
}

/// Checks each item of a list; a reason gets the item's place in front.
fn numbered<T, U>(list: &str, items: &[T], check: impl Fn(&T) -> Broken<U>) -> Broken<Vec<U>> {
    let check = |(index, item)| check(item).map_err(|reason| format!("{list}[{index}]{reason}"));
    items.iter().enumerate().map(check).collect()
}

fn bounds(written: &[manifest::Bound]) -> Broken<Vec<Bound>> {
    if written.is_empty() {
        return Err("bounds is empty; a bounded program has one at least".to_owned());
    }
    each_named("bounds", "name", written.iter().map(|bound| &*bound.name))?;
    numbered("bounds", written, |bound| {
        let manifest::Bound { name, max, buckets } = bound;
        let sizes = buckets.iter().map(|size| positive(*size)).collect::<Option<Vec<_>>>();
        let Some(sizes) = sizes.filter(|sizes| !sizes.is_empty()) else {
            return Err(format!(".buckets is {buckets:?}, expected sizes from 1 on"));
        };
        if !sizes.is_sorted_by(|a, b| a < b) {
            return Err(format!(".buckets is {buckets:?}, which is not ascending"));
        }
        if buckets.last() != Some(max) {
            return Err(format!(".max is {max}, but the last of its buckets {buckets:?} is not"));
        }
        Ok(Bound { name: name.clone(), buckets: sizes })
    })
}

fn input(written: &manifest::Tensor, bounds: &[Bound]) -> Broken<BoundedInput> {
    let tensor = tensor(written, bounds)?;
    let value = match written.role.as_str() {
        "DATA" => {
            no_bound(written)?;
            InputValue::Data
        }
        "VALID_MASK" => {
            let bound = told_bound(written, bounds)?;
            if tensor.axes != [Axis::Bound(bound)] {
                let name = &bounds[bound].name;
                return Err(format!(".axes of a VALID_MASK must be its bound '{name}' alone"));
            }
            InputValue::ValidMask(bound)
        }
        "VALID_LENGTH" => {
            let bound = told_bound(written, bounds)?;
            if !tensor.axes.is_empty() {
                return Err(".axes of a VALID_LENGTH must be empty: it is a scalar".to_owned());
            }
            InputValue::ValidLength(bound)
        }
        other => {
            return Err(format!(".role is '{other}', expected DATA, VALID_MASK or VALID_LENGTH"));
        }
    };
    if value != InputValue::Data && tensor.dtype != DType::F32 {
        return Err(format!(".dtype of a {} must be f32, not {}", written.role, tensor.dtype));
    }
    Ok(BoundedInput { tensor, value })
}

fn output(written: &manifest::Tensor, bounds: &[Bound]) -> Broken<BoundedTensor> {
    if written.role != "DATA" {
        return Err(format!(".role is '{}', but outputs are DATA", written.role));
    }
    no_bound(written)?;
    tensor(written, bounds)
}

fn tensor(written: &manifest::Tensor, bounds: &[Bound]) -> Broken<BoundedTensor> {
    let dtype = match written.dtype.as_str() {
        "f32" => DType::F32,
        "i32" => DType::I32,
        other => return Err(format!(".dtype is '{other}', expected f32 or i32")),
    };
    let axes = numbered(".axes", &written.axes, |axis| match (axis.size, &axis.bound) {
        (Some(size), None) => positive(size)
            .map(Axis::Fixed)
            .ok_or_else(|| format!(".size is {size}, expected 1 at least")),
        (None, Some(name)) => Ok(Axis::Bound(declared(name, bounds)?)),
        (Some(_), Some(_)) => Err(" has both a size and a bound; keep one".to_owned()),
        (None, None) => Err(" has neither a size nor a bound".to_owned()),
    })?;
    Ok(BoundedTensor { name: written.name.clone(), dtype, axes })
}

fn no_bound(written: &manifest::Tensor) -> Broken<()> {
    match &written.bound {
        Some(bound) => Err(format!(".bound is '{bound}', but a DATA tensor has none of its own")),
        None => Ok(()),
    }
}

/// The bound that a mask or length tells the size of.
fn told_bound(written: &manifest::Tensor, bounds: &[Bound]) -> Broken<usize> {
    match &written.bound {
        Some(bound) => declared(bound, bounds),
        None => Err(format!(".bound is missing; a {} tells the size of one", written.role)),
    }
}

fn declared(name: &str, bounds: &[Bound]) -> Broken<usize> {
    let index = bounds.iter().position(|bound| bound.name == name);
    index.ok_or_else(|| format!(".bound is '{name}', which bounds does not declare"))
}

/// The bucket of each bound, in their order.
fn entry_sizes(entry: &manifest::Entry, bounds: &[Bound]) -> Broken<Vec<usize>> {
    let known = |name: &str| bounds.iter().any(|bound| bound.name == name);
    if let Some(extra) = entry.sizes.keys().find(|name| !known(name)) {
        return Err(format!(".sizes has '{extra}', which bounds does not declare"));
    }
    let size = |bound: &Bound| {
        let name = &bound.name;
        let written = entry.sizes.get(name).ok_or_else(|| format!(".sizes has no '{name}'"))?;
        let size = positive(*written).filter(|size| bound.buckets.contains(size));
        size.ok_or_else(|| {
            format!(".sizes.{name} is {written}, which is none of its buckets {:?}", bound.buckets)
        })
    };
    bounds.iter().map(size).collect()
}

/// Every combination of buckets has exactly one entry.
fn all_combinations(entries: &[Vec<usize>], bounds: &[Bound]) -> Broken<()> {
    let named = |sizes: &[usize]| {
        let named = bounds.iter().zip(sizes).map(|(bound, size)| format!("{} {size}", bound.name));
        named.collect::<Vec<_>>().join(", ")
    };
    let mut seen: HashSet<&[usize]> = HashSet::new();
    if let Some(twice) = entries.iter().find(|sizes| !seen.insert(sizes)) {
        return Err(format!("entries has two entries for {}", named(twice)));
    }
    // One of the first combinations, as many as there are entries and one more, is missing if any is.
    let mut places = vec![0; bounds.len()];
    for _ in 0..=entries.len() {
        let sizes: Vec<usize> =
            bounds.iter().zip(&places).map(|(bound, place)| bound.buckets[*place]).collect();
        if !seen.contains(sizes.as_slice()) {
            return Err(format!("entries has none for {}", named(&sizes)));
        }
        if !advance(&mut places, bounds) {
            break;
        }
    }
    Ok(())
}

/// Moves on to the next combination; false after the last.
fn advance(places: &mut [usize], bounds: &[Bound]) -> bool {
    for (place, bound) in places.iter_mut().zip(bounds).rev() {
        *place += 1;
        if *place < bound.buckets.len() {
            return true;
        }
        *place = 0;
    }
    false
}

fn entry(
    root: &Path,
    written: &manifest::Entry,
    sizes: Vec<usize>,
    inputs: &[BoundedInput],
    outputs: &[BoundedTensor],
) -> Broken<BoundedEntry> {
    let path = |key, path| inside(root, path).map_err(|reason| format!("{key}: {reason}"));
    let sized = |tensor: &BoundedTensor| {
        Tensor::new(tensor.dtype, tensor.dims(&sizes))
            .ok_or_else(|| format!("'{}' is too large for any memory", tensor.name))
    };
    Ok(BoundedEntry {
        id: written.id.clone(),
        entry_point: written.entry_point.clone(),
        body: path("bodyPath", &written.body_path)?,
        program: path("programPath", &written.program_path)?,
        body_name: written.body_path.clone(),
        inputs: inputs.iter().map(|input| sized(&input.tensor)).collect::<Broken<_>>()?,
        outputs: outputs.iter().map(sized).collect::<Broken<_>>()?,
        sizes,
    })
}

fn positive(size: i64) -> Option<usize> {
    usize::try_from(size).ok().filter(|size| *size >= 1)
}
