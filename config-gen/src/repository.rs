//! The model directory in a model repository.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use tlaloc_artifact::Artifact;
use tlaloc_artifact::bounded::BoundedArtifact;
use tlaloc_artifact::staging::StagedDir;

use crate::{Checkpoint, Error, ModelName};

const CONFIG: &str = "config.pbtxt";
const VERSION: &str = "1";

/// Writes `<repository>/<name>/` with `config` as its `config.pbtxt` and the files of `artifact` as
/// its version 1: hard links where the file system allows them, else copies, never symbolic links.
/// Bodies and weight sizes are checked first. A model of this backend that stands there is replaced
/// whole; on failure it stays as it was. Returns the model directory. In generation mode the files of
/// the `checkpoint` are put beside those of the artifact.
///
/// # Errors
/// [`Error::Artifact`] when a body or weight is missing or wrong, or another directory stands there;
/// [`Error::Place`] when a file cannot be linked or copied.
pub fn write(
    artifact: &Artifact,
    checkpoint: Option<&Checkpoint>,
    name: &ModelName,
    config: &str,
    repository: &Path,
) -> Result<PathBuf, Error> {
    for entry in artifact.entries() {
        artifact.read_body(entry)?;
    }
    for slot in artifact.weights() {
        slot.open()?;
    }
    let mut files = vec![artifact.manifest_path().to_owned()];
    files.extend(artifact.entries().iter().map(|entry| entry.body.clone()));
    files.extend(artifact.weights().iter().map(|slot| slot.file.clone()));
    let programs = artifact.manifest().entries.iter();
    files.extend(programs.map(|entry| artifact.root().join(&entry.program_path)).filter(exists));
    let mut sources = vec![(artifact.root(), files)];
    sources.extend(checkpoint.map(|checkpoint| (checkpoint.folder(), checkpoint.files().to_vec())));
    write_files(sources, name, config, repository)
}

/// [`write()`] for a bounded artifact.
///
/// # Errors
/// As [`write`].
pub fn write_bounded(
    artifact: &BoundedArtifact,
    name: &ModelName,
    config: &str,
    repository: &Path,
) -> Result<PathBuf, Error> {
    for entry in &artifact.entries {
        artifact.read_body(entry)?;
    }
    let mut files = vec![artifact.manifest_path.clone()];
    files.extend(artifact.entries.iter().map(|entry| entry.body.clone()));
    files.extend(artifact.entries.iter().map(|entry| entry.program.clone()).filter(exists));
    write_files(vec![(artifact.root(), files)], name, config, repository)
}

/// Program descriptions are for other runtimes and may be absent.
#[expect(clippy::ptr_arg, reason = "a filter of paths")]
fn exists(program: &PathBuf) -> bool {
    program.exists()
}

/// Writes a model of files below folders.
fn write_files(
    sources: Vec<(&Path, Vec<PathBuf>)>,
    name: &ModelName,
    config: &str,
    repository: &Path,
) -> Result<PathBuf, Error> {
    let model = repository.join(name.as_str());
    let staged = StagedDir::create(&model, is_model)?;
    let version = staged.path().join(VERSION);
    for (root, files) in sources {
        // Entries may share a file.
        for file in BTreeSet::from_iter(files) {
            let relative = file.strip_prefix(root).unwrap_or(&file);
            place(&file, &version.join(relative))?;
        }
    }
    let text = staged.path().join(CONFIG);
    fs::write(&text, config)
        .map_err(|source| tlaloc_artifact::Error::Unwritable { path: text, source })?;
    staged.commit()?;
    Ok(model)
}

/// Whether a directory is a model of this backend, which may be replaced.
fn is_model(directory: &Path) -> bool {
    let config = fs::read_to_string(directory.join(CONFIG)).unwrap_or_default();
    config.lines().any(|line| line.trim() == "backend: \"tlaloc\"")
}

/// Links or copies one file. A hard link to a symbolic link would be one itself, so that is followed
/// first.
fn place(from: &Path, to: &Path) -> Result<(), Error> {
    let failed = |source| Error::Place { from: from.to_owned(), to: to.to_owned(), source };
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    let file = fs::canonicalize(from).map_err(failed)?;
    if fs::hard_link(&file, to).is_err() {
        fs::copy(&file, to).map_err(failed)?;
    }
    Ok(())
}
