//! Builds a bounded artifact (bounded mode §1).

use std::fs;
use std::path::Path;

use serde_json::to_vec as json;
use sha2::{Digest, Sha256};

use super::BoundedArtifact;
use super::manifest::{
    Bound, Entry, MANIFEST_FILE, Manifest, Padding, PaddingCheck, SCHEMA_VERSION, Sizes, Tensor,
};
use crate::manifest::TensorType;
use crate::staging::StagedDir;
use crate::write::{ENTRY_POINT, Program, hex};
use crate::{Error, Tensor as Sized};

/// What a bounded artifact is, apart from its bodies.
#[derive(Clone, Debug)]
pub struct Description {
    /// Name of the program.
    pub name: String,
    /// The axes of bounded size.
    pub bounds: Vec<Bound>,
    /// What surrounds a request's values in a larger bucket.
    pub padding: f64,
    /// Arguments in order.
    pub inputs: Vec<Tensor>,
    /// Results in order.
    pub outputs: Vec<Tensor>,
    /// What was found of padded results.
    pub padding_check: PaddingCheck,
}

/// Writes the artifact `out`, which is replaced if it is a bounded artifact already. `body` is asked
/// for the text of each combination of buckets, the last bound's changing fastest.
///
/// # Errors
/// [`Error::Description`] when the parts do not make an artifact, [`Error::Occupied`] when something
/// else stands there, [`Error::Unwritable`]. `out` is then as it was.
pub fn write(
    out: &Path,
    description: Description,
    mut body: impl FnMut(&Sizes) -> String,
) -> Result<(), Error> {
    let staged = StagedDir::create(out, |dir| dir.join(MANIFEST_FILE).is_file())?;
    let refuse = |error: &dyn std::fmt::Display| Error::Description {
        out: out.to_owned(),
        reason: error.to_string(),
    };
    let place = |path: &str, bytes: &[u8]| {
        let path = staged.path().join(path);
        fs::write(&path, bytes).map_err(|source| Error::Unwritable { path, source })
    };
    for folder in ["bodies", "programs"] {
        let path = staged.path().join(folder);
        fs::create_dir(&path).map_err(|source| Error::Unwritable { path, source })?;
    }
    let Description { name, bounds, padding, inputs, outputs, padding_check } = description;
    let mut entries = Vec::new();
    for sizes in combinations(&bounds) {
        let text = body(&sizes);
        let hash = hex(&Sha256::digest(&text));
        place(&format!("bodies/{hash}.mlir"), text.as_bytes())?;
        let id: Vec<_> =
            bounds.iter().map(|bound| format!("{}{}", bound.name, sizes[&bound.name])).collect();
        entries.push(Entry {
            program_path: format!("programs/{}.json", id.join("_")),
            id: id.join("_"),
            sizes,
            entry_point: ENTRY_POINT.to_owned(),
            body_path: format!("bodies/{hash}.mlir"),
            body_hash: Some(hash),
        });
    }
    let manifest = Manifest {
        schema_version: SCHEMA_VERSION.to_owned(),
        name,
        bounds,
        padding: Padding { value: padding },
        inputs,
        outputs,
        entries,
        padding_check,
    };
    place(MANIFEST_FILE, &json(&manifest).map_err(|error| refuse(&error))?)?;
    // What the reader would refuse is not written.
    let artifact =
        BoundedArtifact::open(&staged.path().join(MANIFEST_FILE)).map_err(|e| refuse(&e))?;
    for (entry, written) in artifact.entries.iter().zip(&manifest.entries) {
        artifact.read_body(entry).map_err(|error| refuse(&error))?;
        let types = |tensors: &[Sized]| tensors.iter().map(TensorType::of).collect::<Vec<_>>();
        let (inputs, outputs) = (types(&entry.inputs), types(&entry.outputs));
        let hash = written.body_hash.as_deref().unwrap_or_default();
        let program = Program::new(&entry.id, inputs.iter(), outputs.iter(), hash);
        place(&written.program_path, &json(&program).map_err(|error| refuse(&error))?)?;
    }
    staged.commit()
}

/// Every combination of buckets.
fn combinations(bounds: &[Bound]) -> Vec<Sizes> {
    bounds.iter().fold(vec![Sizes::new()], |combinations, bound| {
        let with = |sizes: &Sizes, bucket: i64| {
            let mut sizes = sizes.clone();
            sizes.insert(bound.name.clone(), bucket);
            sizes
        };
        let longer = combinations
            .iter()
            .flat_map(|sizes| bound.buckets.iter().map(|bucket| with(sizes, *bucket)));
        longer.collect()
    })
}
