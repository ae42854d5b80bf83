//! Directories that are replaced whole, or left as they were.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::Error;

/// A directory under construction beside its final place. Dropped before [`commit`](Self::commit),
/// it disappears.
#[derive(Debug)]
pub struct StagedDir {
    target: PathBuf,
    build: TempDir,
}

impl StagedDir {
    /// Starts a directory that is to stand at `target`, whose parents are created.
    ///
    /// # Errors
    /// [`Error::Occupied`] when `target` is a file or a non-empty directory that is not `ours`;
    /// [`Error::Unwritable`] when its parent cannot be written.
    pub fn create(target: &Path, ours: impl Fn(&Path) -> bool) -> Result<StagedDir, Error> {
        let occupied =
            |reason: &str| Error::Occupied { path: target.to_owned(), reason: reason.to_owned() };
        let unwritable = |source| Error::Unwritable { path: target.to_owned(), source };
        let absolute = std::path::absolute(target).map_err(unwritable)?;
        let (Some(parent), Some(name)) = (absolute.parent(), absolute.file_name()) else {
            return Err(occupied("is no directory that can be replaced; choose another one"));
        };
        match fs::symlink_metadata(&absolute) {
            Ok(found) if !found.is_dir() => {
                return Err(occupied("is not a directory; choose another one"));
            }
            Ok(_) if !is_empty(&absolute).map_err(unwritable)? && !ours(&absolute) => {
                return Err(occupied("holds something else; choose another one or empty it"));
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(source) => return Err(unwritable(source)),
        }
        fs::create_dir_all(parent).map_err(unwritable)?;
        let prefix = format!(".{}.", name.to_string_lossy());
        let build = staging_dir(parent, &prefix).map_err(unwritable)?;
        Ok(StagedDir { target: absolute, build })
    }

    /// Where to build.
    pub fn path(&self) -> &Path {
        self.build.path()
    }

    /// Puts the directory at its place. What stood there is removed only once the new one stands; a
    /// failure leaves it as it was.
    ///
    /// # Errors
    /// [`Error::Unwritable`].
    pub fn commit(self) -> Result<(), Error> {
        let StagedDir { target, build } = self;
        let unwritable = |source| Error::Unwritable { path: target.clone(), source };
        // Renaming a directory onto an empty or absent one is a single step.
        let Err(refusal) = fs::rename(build.path(), &target) else {
            // The name is free again: nothing is left to remove.
            let _ = build.keep();
            return Ok(());
        };
        if !target.is_dir() {
            return Err(unwritable(refusal));
        }
        let parent = target.parent().unwrap_or(Path::new("/"));
        let aside = staging_dir(parent, ".replaced.").map_err(unwritable)?;
        let old = aside.path().join("old");
        fs::rename(&target, &old).map_err(unwritable)?;
        if let Err(source) = fs::rename(build.path(), &target) {
            if fs::rename(&old, &target).is_err() {
                // The old directory must survive, if only under the other name.
                let _ = aside.keep();
            }
            return Err(unwritable(source));
        }
        let _ = build.keep();
        Ok(())
    }
}

/// A temporary directory with the permissions of any new directory.
fn staging_dir(parent: &Path, prefix: &str) -> io::Result<TempDir> {
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(fs::Permissions::from_mode(0o777));
    }
    builder.prefix(prefix).tempdir_in(parent)
}

fn is_empty(directory: &Path) -> io::Result<bool> {
    Ok(fs::read_dir(directory)?.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A commit that finds its place taken meanwhile changes nothing and leaves nothing.
    #[test]
    fn a_failed_commit_leaves_what_stands_there() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("target");
        let staged = StagedDir::create(&target, |_| false).unwrap();
        fs::write(staged.path().join("new"), "new").unwrap();
        fs::write(&target, "taken").unwrap();
        let error = staged.commit().unwrap_err();
        assert!(matches!(error, Error::Unwritable { .. }), "{error}");
        assert_eq!(fs::read_to_string(&target).unwrap(), "taken");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        // The control: with the place free, the same steps succeed.
        fs::remove_file(&target).unwrap();
        let staged = StagedDir::create(&target, |_| false).unwrap();
        fs::write(staged.path().join("new"), "new").unwrap();
        staged.commit().unwrap();
        assert_eq!(fs::read_to_string(target.join("new")).unwrap(), "new");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
