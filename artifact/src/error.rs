//! What can be wrong with an artifact.

use std::io;
use std::path::PathBuf;

/// Why an artifact cannot be read or written. Messages start with the path at fault.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The manifest, a body or a weight is missing or unreadable: restore it or export again.
    #[error("{}: cannot be read: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The manifest is not JSON: it was truncated or edited; export again.
    #[error("{}: is not valid JSON: {source}", manifest.display())]
    Json {
        /// The manifest.
        manifest: PathBuf,
        /// Where parsing stopped.
        source: serde_json::Error,
    },
    /// A field of the manifest is missing or has the wrong JSON type: correct that field.
    #[error("{}: {field}: {reason}", manifest.display())]
    Field {
        /// The manifest.
        manifest: PathBuf,
        /// Path of the field, as in `entries[0].batch`.
        field: String,
        /// What was found and what is expected.
        reason: String,
    },
    /// The manifest's version or its `model` breaks a rule (artifact format §17 items 2–12, 19–22):
    /// export with settings that keep it, or with a version this reader knows.
    #[error("{}: {reason}", manifest.display())]
    Model {
        /// The manifest.
        manifest: PathBuf,
        /// The field, what was found and what is expected.
        reason: String,
    },
    /// A bounded manifest breaks a rule (bounded mode §2): the exporter that wrote it is at fault.
    #[error("{}: {reason}", manifest.display())]
    Bounded {
        /// The manifest.
        manifest: PathBuf,
        /// The field, what was found and what is expected.
        reason: String,
    },
    /// An entry breaks a rule (§17 items 13–18): the exporter that wrote it is at fault.
    #[error("{}: entry {entry}: {reason}", manifest.display())]
    Entry {
        /// The manifest.
        manifest: PathBuf,
        /// The entry's position and, once known, its id.
        entry: String,
        /// The slot or field, what was found and what is expected.
        reason: String,
    },
    /// The weight table does not serve the entries' weight slots (§17 item 23): export again.
    #[error("{}: weights: {reason}", manifest.display())]
    Weights {
        /// The manifest.
        manifest: PathBuf,
        /// The row or slot, what was found and what is expected.
        reason: String,
    },
    /// A body does not hold the program that its entry describes: export again.
    #[error("{}: {reason}", body.display())]
    Body {
        /// The body file.
        body: PathBuf,
        /// The argument or result, what was found and what is expected.
        reason: String,
    },
    /// A weight file's size is not that of its slot: it was truncated or belongs to another export.
    #[error(
        "{}: weight '{slot}' is {tensor}, which takes {expected} bytes, but the file has {found}; \
         restore the file or export again", file.display()
    )]
    WeightSize {
        /// The weight file.
        file: PathBuf,
        /// Slot name.
        slot: String,
        /// The slot's type.
        tensor: String,
        /// Bytes the slot takes.
        expected: u64,
        /// Bytes the file has.
        found: u64,
    },
    /// A directory to be replaced holds something else: choose another one or empty it.
    #[error("{}: exists and {reason}", path.display())]
    Occupied {
        /// The directory.
        path: PathBuf,
        /// What it is instead.
        reason: String,
    },
    /// What the writer was given cannot be an artifact: the caller is at fault.
    #[error("{}: {reason}", out.display())]
    Description {
        /// The artifact being written.
        out: PathBuf,
        /// The part at fault.
        reason: String,
    },
    /// A tensor's byte size does not fit memory arithmetic: its dims are wrong.
    #[error("slot '{slot}' is too large: its byte size does not fit 63 bits")]
    Oversize {
        /// Slot name.
        slot: String,
    },
    /// A file or directory could not be written: check space and permissions.
    #[error("{}: cannot be written: {source}", path.display())]
    Unwritable {
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl Error {
    /// Whether a file is missing or unreadable, as opposed to present and wrong.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Error::Unreadable { .. })
    }
}
