//! Why something could not be measured.

use std::io;
use std::path::PathBuf;

/// A refusal or failure of a measurement.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The artifact cannot be read or breaks a rule of the format: export it again.
    #[error(transparent)]
    Artifact(#[from] tlaloc_artifact::Error),
    /// The plugin cannot be loaded, does not take the program or fails to run it: the message says
    /// which.
    #[error(transparent)]
    Pjrt(#[from] tlaloc_pjrt::Error),
    /// The artifact has no program for the call: ask for one of those named, or export others.
    #[error(
        "{}: no {kind} program runs {batch} row(s) at a context of {context}; it has {entries}",
        artifact.display()
    )]
    NoEntry {
        /// The manifest.
        artifact: PathBuf,
        /// `decode` or `prefill`.
        kind: &'static str,
        /// The rows asked for.
        batch: usize,
        /// The context asked for.
        context: usize,
        /// The ids of the programs of this kind.
        entries: String,
    },
    /// The call's tokens would not fit in front of the end of the context: choose an earlier
    /// position.
    #[error(
        "--position {position}: {tokens} token(s) from there end behind the context of {context}; \
         the last position that fits is {last}"
    )]
    Position {
        /// The position asked for.
        position: usize,
        /// Tokens of a row in one call.
        tokens: usize,
        /// The context asked for.
        context: usize,
        /// The last position that fits.
        last: usize,
    },
    /// The rows need more pages than the pools have: ask for less, or export with more pages.
    #[error(
        "{}: {rows} row(s) of {columns} pages need {needed} pages, but the pools have {found} beside \
         page 0", artifact.display(), needed = rows * columns
    )]
    Pages {
        /// The manifest.
        artifact: PathBuf,
        /// The rows asked for.
        rows: usize,
        /// Pages of a row.
        columns: usize,
        /// Usable pages of the pools.
        found: usize,
    },
    /// The rows need more state slots than the pools have: ask for less, or export with more.
    #[error(
        "{}: {rows} row(s) need a state slot each, but the pools have {found}", artifact.display()
    )]
    StateSlots {
        /// The manifest.
        artifact: PathBuf,
        /// The rows asked for.
        rows: usize,
        /// State slots of the pools.
        found: usize,
    },
    /// The program takes an input of a kind that the bare loop does not make up (drafts): measure such artifacts through the server.
    #[error(
        "{}: {entry} takes the input '{input}' ({role}), which a bare loop has no values for; \
         measure it through the server", artifact.display()
    )]
    Input {
        /// The manifest.
        artifact: PathBuf,
        /// The entry's id.
        entry: String,
        /// The input's name.
        input: String,
        /// The input's role.
        role: &'static str,
    },
    /// The compiled program lacks a result that its entry lists: the plugin and the artifact do not
    /// fit each other.
    #[error("{entry}: the compiled program has {found} results, but the entry lists {expected}")]
    Outputs {
        /// The entry's id.
        entry: String,
        /// Results of the program.
        found: usize,
        /// Results of the entry.
        expected: usize,
    },
    /// The folder of the compile cache cannot be made: name another one.
    #[error("--cache {}: {source}", folder.display())]
    Cache {
        /// The folder.
        folder: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The measurements cannot be read: check the path.
    #[error("{}: cannot be read: {source}", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file has no function to run: export it again.
    #[error("{}: {reason}", file.display())]
    Function {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A line of the measurements is not one of them: correct or delete it.
    #[error("{}:{line}: {reason}", file.display())]
    Measurement {
        /// The file.
        file: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// What was found and what is expected.
        reason: String,
    },
}
