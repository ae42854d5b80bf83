//! Weight files mapped into memory.

use std::fs::File;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use memmap2::{Advice, Mmap, UncheckedAdvice};

use crate::error::Error;

/// A file mapped read-only, which a device may read in place for as long as a buffer needs it.
///
/// The file must not change while it is mapped. A changed byte changes the weights; a file truncated
/// under the mapping ends the process (`SIGBUS`) when a page past its new end is read. Replace files
/// by renaming new ones over them: the mapping keeps the old contents.
#[derive(Debug)]
pub struct MappedFile {
    path: PathBuf,
    file: File,
    map: Mmap,
}

impl MappedFile {
    /// Maps the whole file.
    ///
    /// # Errors
    /// [`Error::Map`] where the system refuses.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let failed = |source| Error::Map { path: path.to_owned(), source };
        let file = File::open(path).map_err(failed)?;
        // SAFETY: read-only, and weight files are not changed while in use: this type's contract with
        // whoever installs them.
        let map = unsafe { Mmap::map(&file) }.map_err(failed)?;
        Ok(Self { path: path.to_owned(), file, map })
    }

    /// The file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file's contents.
    pub fn bytes(&self) -> &[u8] {
        &self.map
    }

    /// Tells the kernel that these bytes are read soon. Only advice.
    pub(crate) fn prefetch(&self, range: Range<usize>) {
        if range.start < range.end {
            let _ = self.map.advise_range(Advice::WillNeed, range.start, range.len());
        }
    }

    /// [`MappedFile::drop_page_cache`] for a part that starts and ends at borders of pages, or at the
    /// file's end.
    pub(crate) fn drop_pages(&self, range: Range<usize>) {
        let (start, len) = (range.start, range.len());
        // SAFETY: the pages of a read-only file mapping come back from the file.
        let _ = unsafe { self.map.unchecked_advise_range(UncheckedAdvice::DontNeed, start, len) };
        let [start, len] = [start, len].map(|bytes| libc::off_t::try_from(bytes).unwrap_or(0));
        // SAFETY: an open descriptor; the call touches no memory of ours.
        unsafe {
            libc::posix_fadvise(self.file.as_raw_fd(), start, len, libc::POSIX_FADV_DONTNEED)
        };
    }

    /// Tells the kernel that the file's cached pages are not needed any more, which frees memory once
    /// the contents have been copied to a device. Only advice: nothing happens where it is refused,
    /// and a later read brings the pages back.
    pub fn drop_page_cache(&self) {
        // Pages in use by a mapping are not dropped, so they leave this one first.
        // SAFETY: unlike private memory, the pages of a read-only file mapping come back from the file
        // with the same contents.
        let _ = unsafe { self.map.unchecked_advise(UncheckedAdvice::DontNeed) };
        // SAFETY: an open descriptor; the call touches no memory of ours.
        unsafe { libc::posix_fadvise(self.file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
    }
}
