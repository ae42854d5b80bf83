//! A checked artifact.

use std::fs::File;
use std::path::{Path, PathBuf};

use crate::manifest::Manifest;
use crate::{Error, Input, Output, PoolRole, Tensor, check};

/// A serving artifact whose manifest keeps every rule of artifact format §17.
///
/// All pools and weights are the same, in the same order, in every entry: the n-th pool argument of
/// an entry is `pools()[n]`, its n-th weight argument `weights()[n]`.
#[derive(Clone, Debug)]
pub struct Artifact {
    pub(crate) manifest_path: PathBuf,
    pub(crate) root: PathBuf,
    pub(crate) manifest: Manifest,
    pub(crate) version: SchemaVersion,
    pub(crate) vocab_size: usize,
    pub(crate) num_blocks: usize,
    pub(crate) block_size: usize,
    pub(crate) draft_tokens: usize,
    pub(crate) refused_tokens: Vec<RefusedToken>,
    pub(crate) windowed: Option<Windowed>,
    pub(crate) linear_state: Option<LinearState>,
    pub(crate) pools: Vec<Pool>,
    pub(crate) weights: Vec<WeightSlot>,
    pub(crate) entries: Vec<Entry>,
}

/// Version of the manifest format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SchemaVersion {
    /// Decode entries only.
    V1,
    /// Adds prefill entries.
    V2,
    /// Adds a windowed KV pool.
    V3,
    /// Adds linear-attention state.
    V4,
    /// Adds a draft head.
    V5,
}

impl SchemaVersion {
    pub(crate) const ALL: [SchemaVersion; 5] = [
        SchemaVersion::V1,
        SchemaVersion::V2,
        SchemaVersion::V3,
        SchemaVersion::V4,
        SchemaVersion::V5,
    ];

    /// The spelling in manifests.
    pub fn manifest_name(self) -> &'static str {
        match self {
            SchemaVersion::V1 => "tlaloc-serving-v1",
            SchemaVersion::V2 => "tlaloc-serving-v2",
            SchemaVersion::V3 => "tlaloc-serving-v3",
            SchemaVersion::V4 => "tlaloc-serving-v4",
            SchemaVersion::V5 => "tlaloc-serving-v5",
        }
    }
}

/// A token id that a server must refuse.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedToken {
    /// The id, in `[0, vocab_size)`.
    pub id: i32,
    /// The checkpoint's config key that names it.
    pub config_key: String,
}

/// The pool class of sliding-window layers (artifact format §8).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Windowed {
    /// Largest window among the layers, in tokens.
    pub window: usize,
    /// The layers.
    pub layers: Vec<usize>,
    /// Pages of a pool, page 0 included.
    pub num_blocks: usize,
    /// Pages of one sequence's ring.
    pub ring_pages: usize,
}

/// The pool class of linear-attention layers (artifact format §9).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinearState {
    /// The layers.
    pub layers: Vec<usize>,
    /// State slots of a pool.
    pub num_slots: usize,
}

/// A buffer that lives as long as the instance and is updated by every step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Name, as in the entries' inputs.
    pub name: String,
    /// Its class.
    pub role: PoolRole,
    /// Its type.
    pub tensor: Tensor,
}

/// A staged weight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WeightSlot {
    /// Name, as in the entries' inputs.
    pub name: String,
    /// Its type.
    pub tensor: Tensor,
    /// The file with its elements: little-endian, dense, row-major. Not opened yet.
    pub file: PathBuf,
}

impl WeightSlot {
    /// Opens the file, whose size is that of the slot.
    ///
    /// # Errors
    /// [`Error::is_not_found`] when the file cannot be read; [`Error::WeightSize`] when its size is
    /// another.
    pub fn open(&self) -> Result<File, Error> {
        let unreadable = |source| Error::Unreadable { path: self.file.clone(), source };
        let file = File::open(&self.file).map_err(unreadable)?;
        let found = file.metadata().map_err(unreadable)?.len();
        let expected = self.tensor.bytes() as u64;
        if found != expected {
            return Err(Error::WeightSize {
                file: self.file.clone(),
                slot: self.name.clone(),
                tensor: self.tensor.to_string(),
                expected,
                found,
            });
        }
        Ok(file)
    }
}

/// What an entry is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EntryKind {
    /// One token (or one verify step) of each row.
    Decode,
    /// Up to `tokens` tokens of each row.
    Prefill,
}

impl EntryKind {
    /// The spelling in manifests.
    pub fn manifest_name(self) -> &'static str {
        match self {
            EntryKind::Decode => "decode",
            EntryKind::Prefill => "prefill",
        }
    }

    pub(crate) fn parse(name: &str) -> Option<EntryKind> {
        [EntryKind::Decode, EntryKind::Prefill].into_iter().find(|k| k.manifest_name() == name)
    }
}

/// One compiled program and the sizes it serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its id in logs; see [`entry_id`].
    pub id: String,
    /// What it is for.
    pub kind: EntryKind,
    /// Rows, `B`.
    pub batch: usize,
    /// Positions that a row may attend over, this call's tokens included: `C`.
    pub context: usize,
    /// Token columns of a row, `T`.
    pub tokens: usize,
    /// Columns of a row's block table, `M`.
    pub columns: usize,
    /// Columns of a row's logits: 1 for those of its last token; `T` in a verify entry, which is for
    /// nothing else.
    pub logits_columns: usize,
    /// Function to run.
    pub entry_point: String,
    /// Absolute path of the body.
    pub body: PathBuf,
    /// The body as the manifest names it.
    pub body_name: String,
    /// Arguments in order.
    pub inputs: Vec<Input>,
    /// Results in order.
    pub outputs: Vec<Output>,
    /// `(input, output)` of each pool, in pool order.
    pub donations: Vec<(usize, usize)>,
}

/// The id of an entry (artifact format §6): `<kind>_b<B>_c<C>`, with `_t<T>` for a prefill entry
/// whose `tokens` are fewer than its `context`, and `_verify` behind that of a verify entry.
pub fn entry_id(
    kind: EntryKind,
    batch: usize,
    context: usize,
    tokens: usize,
    logits_columns: usize,
) -> String {
    let mut id = format!("{}_b{batch}_c{context}", kind.manifest_name());
    if kind == EntryKind::Prefill && tokens < context {
        id += &format!("_t{tokens}");
    }
    if logits_columns > 1 {
        id += "_verify";
    }
    id
}

impl Artifact {
    /// Reads and checks the manifest at `manifest_path`. Bodies and weights are not opened.
    ///
    /// # Errors
    /// [`Error::is_not_found`] when the manifest cannot be read; otherwise the first broken rule of
    /// artifact format §17, in its order.
    pub fn open(manifest_path: &Path) -> Result<Artifact, Error> {
        let bytes = std::fs::read(manifest_path)
            .map_err(|source| Error::Unreadable { path: manifest_path.to_owned(), source })?;
        Artifact::parse(manifest_path, &bytes)
    }

    /// Checks the manifest `bytes`, which stand at `manifest_path`. Opens nothing.
    ///
    /// # Errors
    /// The first broken rule of artifact format §17, in its order.
    pub fn parse(manifest_path: &Path, bytes: &[u8]) -> Result<Artifact, Error> {
        check::artifact(manifest_path, bytes)
    }

    /// Absolute path of the directory that holds the manifest.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Absolute path of the manifest.
    pub fn manifest_path(&self) -> &Path {
        &self.manifest_path
    }

    /// The manifest as written. Its paths stay in [`root`](Self::root).
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Repository id or directory name of the checkpoint.
    pub fn model_name(&self) -> &str {
        &self.manifest.model_name
    }

    /// Identity of the model (artifact format §15).
    pub fn model_hash(&self) -> &str {
        &self.manifest.model_hash
    }

    /// Version of the manifest format.
    pub fn version(&self) -> SchemaVersion {
        self.version
    }

    /// Token ids are in `[0, vocab_size)`.
    pub fn vocab_size(&self) -> usize {
        self.vocab_size
    }

    /// Pages of a full-history pool, page 0 included; at least 2.
    pub fn num_blocks(&self) -> usize {
        self.num_blocks
    }

    /// Tokens of a page.
    pub fn block_size(&self) -> usize {
        self.block_size
    }

    /// Draft tokens of a speculative step, `K`; 0 when the model has no draft head.
    pub fn draft_tokens(&self) -> usize {
        self.draft_tokens
    }

    /// Token ids that a server must refuse, ascending.
    pub fn refused_tokens(&self) -> &[RefusedToken] {
        &self.refused_tokens
    }

    /// The windowed pool class; only in v3.
    pub fn windowed(&self) -> Option<&Windowed> {
        self.windowed.as_ref()
    }

    /// The linear-attention pool class; in v4 and v5.
    pub fn linear_state(&self) -> Option<&LinearState> {
        self.linear_state.as_ref()
    }

    /// Pools, in signature order; at least one.
    pub fn pools(&self) -> &[Pool] {
        &self.pools
    }

    /// Staged weights, in signature order; empty when the bodies hold them.
    pub fn weights(&self) -> &[WeightSlot] {
        &self.weights
    }

    /// Entries, in manifest order; at least one is a decode entry.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Without its verify entries, for who verifies no drafts.
    pub fn without_verify_entries(mut self) -> Artifact {
        self.entries.retain(|entry| entry.logits_columns == 1);
        self
    }

    /// Largest context of a decode entry.
    pub fn max_context(&self) -> usize {
        self.largest(EntryKind::Decode, |e| e.context)
    }

    /// Largest batch of a decode entry.
    pub fn max_decode_batch(&self) -> usize {
        self.largest(EntryKind::Decode, |e| e.batch)
    }

    /// Largest batch of a prefill entry; 0 when there is none.
    pub fn max_prefill_batch(&self) -> usize {
        self.largest(EntryKind::Prefill, |e| e.batch)
    }

    /// Most tokens of a row in a prefill call; 0 when there is no prefill entry.
    pub fn max_prefill_tokens(&self) -> usize {
        self.largest(EntryKind::Prefill, |e| e.tokens)
    }

    fn largest(&self, kind: EntryKind, size: impl Fn(&Entry) -> usize) -> usize {
        let of_kind = self.entries.iter().filter(|e| e.kind == kind && e.logits_columns == 1);
        of_kind.map(size).max().unwrap_or(0)
    }
}
