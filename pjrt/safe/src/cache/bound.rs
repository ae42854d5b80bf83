//! The size bound of the compile cache.

use std::fs::{self, DirEntry, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::disk::PARTIAL;

/// What was removed to keep to the bound.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Removed {
    pub programs: usize,
    pub bytes: u64,
}

/// How old an unfinished file must be to be one whose writer is gone.
const ABANDONED: Duration = Duration::from_secs(3600);

/// A program on disk.
struct Kept {
    used: SystemTime,
    path: PathBuf,
    bytes: u64,
}

/// Removes the programs that were used longest ago until the rest has at most `limit` bytes, and what
/// writers left behind that ended midway. Files of other kinds are not touched. Other processes may do
/// the same at once: what is gone already is gone.
pub(super) fn keep_to(folder: &Path, limit: u64) -> io::Result<Removed> {
    let now = SystemTime::now();
    let mut kept = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        // Gone since the folder was read.
        let Ok(metadata) = entry.metadata() else { continue };
        if !metadata.is_file() {
            continue;
        }
        let used = metadata.modified()?;
        if is_program(&entry) {
            kept.push(Kept { used, path: entry.path(), bytes: metadata.len() });
        } else if is_abandoned(&entry, &metadata, now) {
            let _ = fs::remove_file(entry.path());
        }
    }
    let mut total: u64 = kept.iter().map(|kept| kept.bytes).sum();
    kept.sort_unstable_by_key(|kept| kept.used);
    let mut removed = Removed::default();
    for Kept { path, bytes, .. } in kept {
        if total <= limit {
            break;
        }
        match fs::remove_file(&path) {
            Ok(()) => {
                removed.programs += 1;
                removed.bytes += bytes;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        total -= bytes;
    }
    Ok(removed)
}

/// Its name is a key.
fn is_program(entry: &DirEntry) -> bool {
    let name = entry.file_name();
    let digits = name.as_encoded_bytes();
    digits.len() == 64 && digits.iter().all(u8::is_ascii_hexdigit)
}

fn is_abandoned(entry: &DirEntry, metadata: &Metadata, now: SystemTime) -> bool {
    let partial = entry.path().extension().is_some_and(|extension| extension == PARTIAL);
    let age = metadata.modified().ok().and_then(|written| now.duration_since(written).ok());
    partial && age.is_some_and(|age| age > ABANDONED)
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    fn write(folder: &Path, name: &str, bytes: usize, age: u64) -> PathBuf {
        let path = folder.join(name);
        fs::write(&path, vec![0; bytes]).unwrap();
        let used = SystemTime::now() - Duration::from_secs(age);
        File::options().write(true).open(&path).unwrap().set_modified(used).unwrap();
        path
    }

    #[test]
    fn what_was_used_longest_ago_goes_first_and_strangers_stay() {
        let folder = tempfile::tempdir().unwrap();
        let key = |digit: &str| digit.repeat(64);
        let oldest = write(folder.path(), &key("a"), 100, 300);
        let middle = write(folder.path(), &key("b"), 100, 200);
        let newest = write(folder.path(), &key("c"), 100, 100);
        let abandoned = write(folder.path(), "a.1-ThreadId(2)-3.partial", 100, 7200);
        let in_work = write(folder.path(), "b.1-ThreadId(2)-3.partial", 100, 60);
        let stranger = write(folder.path(), "README", 10_000, 9_000);

        assert_eq!(keep_to(folder.path(), 300).unwrap(), Removed::default());
        assert!(!abandoned.exists() && in_work.exists());
        assert_eq!(keep_to(folder.path(), 299).unwrap(), Removed { programs: 1, bytes: 100 });
        assert!(!oldest.exists() && middle.exists());
        // The control: used again, it is not the oldest any more.
        let file = File::options().write(true).open(&middle).unwrap();
        file.set_modified(SystemTime::now()).unwrap();
        assert_eq!(keep_to(folder.path(), 100).unwrap(), Removed { programs: 1, bytes: 100 });
        assert!(middle.exists() && !newest.exists());
        assert_eq!(keep_to(folder.path(), 0).unwrap(), Removed { programs: 1, bytes: 100 });
        assert!(stranger.exists() && in_work.exists());
    }
}
