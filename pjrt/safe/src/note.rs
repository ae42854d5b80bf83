//! Digests of large files, noted where later processes find them.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use crate::disk::{name_of, write_whole};
use crate::plugin::Digest;

/// Where a file's digest is noted: under a name that changes with the file's contents, or when another
/// one takes its place. It holds the digest and the SHA-256 of name and digest, so that a damaged note
/// is none.
pub(crate) struct Note {
    path: PathBuf,
    name: String,
}

impl Note {
    /// Of the file at `path`, in the folder `notes`.
    pub fn of(notes: &Path, path: &Path, file: &Metadata) -> Self {
        let facts = [
            file.dev().to_le_bytes(),
            file.ino().to_le_bytes(),
            file.size().to_le_bytes(),
            file.mtime().to_le_bytes(),
            file.mtime_nsec().to_le_bytes(),
            file.ctime().to_le_bytes(),
            file.ctime_nsec().to_le_bytes(),
        ];
        let key = Sha256::new().chain_update(facts.concat());
        let key = key.chain_update(path.as_os_str().as_encoded_bytes()).finalize();
        let name = name_of(&key.into());
        Self { path: notes.join(&name), name }
    }

    /// The digest; none where it was not noted, or not to the end.
    pub fn read(&self) -> Option<Digest> {
        let note = fs::read(&self.path).ok()?;
        let (digest, sum) = note.split_first_chunk::<{ size_of::<Digest>() }>()?;
        (sum == self.sum(digest)).then_some(*digest)
    }

    /// Notes it. Where that fails, the next process reads the file again.
    pub fn write(&self, digest: &Digest) {
        let Some(folder) = self.path.parent() else { return };
        let _ = fs::create_dir_all(folder)
            .and_then(|()| write_whole(&self.path, &[digest, &self.sum(digest)]));
    }

    fn sum(&self, digest: &Digest) -> Digest {
        Sha256::new().chain_update(&self.name).chain_update(digest).finalize().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_note_of_the_same_file_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let (file, notes) = (folder.path().join("plugin.so"), folder.path().join("notes"));
        fs::write(&file, "one").unwrap();
        let note = || Note::of(&notes, &file, &fs::metadata(&file).unwrap());
        assert_eq!(note().read(), None);
        note().write(&[7; 32]);
        assert_eq!(note().read(), Some([7; 32]));

        let noted = note().path;
        let whole = fs::read(&noted).unwrap();
        for cut in 0..whole.len() {
            fs::write(&noted, &whole[..cut]).unwrap();
            assert_eq!(note().read(), None, "cut at {cut}");
            let mut flipped = whole.clone();
            flipped[cut] ^= 1;
            fs::write(&noted, flipped).unwrap();
            assert_eq!(note().read(), None, "flipped at {cut}");
        }
        fs::write(&noted, &whole).unwrap();
        assert_eq!(note().read(), Some([7; 32]));

        let newer = folder.path().join("newer");
        fs::write(&newer, "two").unwrap();
        fs::rename(&newer, &file).unwrap();
        assert_eq!(note().read(), None, "of another file");
    }
}
