//! Builds an artifact directory (artifact format §1).
//!
//! Equal calls give byte-identical directories. The directory stands at its place only once
//! [`ArtifactWriter::finish`] has checked it with the same rules as [`Artifact::open`].

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::manifest::{
    self, BucketLadder, MANIFEST_FILE, Manifest, Model, Slot, TensorType, WeightRow, Weights,
};
use crate::signature::Signature;
use crate::staging::StagedDir;
use crate::{Artifact, EntryKind, Error, InputRole, SchemaVersion, Tensor, entry_id};

/// Name of the function that bodies define.
pub const ENTRY_POINT: &str = "main";

/// Builds one artifact. Dropped before [`finish`](Self::finish), it leaves nothing behind.
#[derive(Debug)]
pub struct ArtifactWriter {
    out: PathBuf,
    staged: StagedDir,
    weights: Vec<WeightRow>,
    bodies: BTreeSet<String>,
}

/// What an artifact is, apart from its weights and bodies.
#[derive(Clone, Debug)]
pub struct Description {
    /// Repository id or directory name of the checkpoint.
    pub model_name: String,
    /// Identity of the model (artifact format §15) without the hash of its weights, which is added.
    pub model_hash: String,
    /// Shape and pools.
    pub model: Model,
    /// Buckets of the entries.
    pub ladder: BucketLadder,
    /// Entries, in order.
    pub entries: Vec<EntryDescription>,
}

/// One entry of a [`Description`].
#[derive(Clone, Debug)]
pub struct EntryDescription {
    /// What it is for.
    pub kind: EntryKind,
    /// Rows, `B`.
    pub batch: usize,
    /// Positions that a row may attend over, `C`.
    pub context: usize,
    /// Token columns of a row, `T`.
    pub tokens: usize,
    /// Columns of a row's block table, `M`.
    pub columns: usize,
    /// What [`ArtifactWriter::body`] returned for its text.
    pub body: String,
    /// Arguments, results and donations.
    pub signature: Signature,
}

impl ArtifactWriter {
    /// Starts the artifact that is to stand at `out`.
    ///
    /// # Errors
    /// [`Error::Occupied`] when `out` exists and is neither empty nor an artifact;
    /// [`Error::Unwritable`].
    pub fn create(out: &Path) -> Result<ArtifactWriter, Error> {
        let staged = StagedDir::create(out, |dir| dir.join(MANIFEST_FILE).is_file())?;
        for folder in ["bodies", "programs"] {
            let path = staged.path().join(folder);
            fs::create_dir(&path).map_err(|source| Error::Unwritable { path, source })?;
        }
        Ok(ArtifactWriter {
            out: out.to_owned(),
            staged,
            weights: Vec::new(),
            bodies: BTreeSet::new(),
        })
    }

    /// Starts the next weight, in slot order.
    ///
    /// # Errors
    /// [`Error::Description`] when `name` does not make a file name or is taken;
    /// [`Error::Unwritable`].
    pub fn weight(&mut self, name: &str, tensor: &Tensor) -> Result<WeightSink<'_>, Error> {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        if name.is_empty() || !name.chars().all(plain) {
            return Err(self.refuse(format!(
                "weight name '{name}' must be letters, digits, '_', '-' and '.'"
            )));
        }
        if self.weights.iter().any(|row| row.name == name) {
            return Err(self.refuse(format!("two weights are named '{name}'")));
        }
        let path = format!("weights/{:04}_{name}.bin", self.weights.len());
        let file = self.staged.path().join(&path);
        let unwritable = |source| Error::Unwritable { path: file.clone(), source };
        fs::create_dir_all(self.staged.path().join("weights")).map_err(unwritable)?;
        Ok(WeightSink {
            file: BufWriter::with_capacity(1 << 20, File::create(&file).map_err(unwritable)?),
            hash: Sha256::new(),
            written: 0,
            tensor: tensor.clone(),
            name: name.to_owned(),
            path,
            writer: self,
        })
    }

    /// Adds a body and returns the hash to name it by. Equal texts are stored once.
    ///
    /// # Errors
    /// [`Error::Unwritable`].
    pub fn body(&mut self, text: &str) -> Result<String, Error> {
        let hash = hex(&Sha256::digest(text));
        if self.bodies.insert(hash.clone()) {
            self.write(&format!("bodies/{hash}.mlir"), text.as_bytes())?;
        }
        Ok(hash)
    }

    /// Writes programs and manifest, checks the whole and puts it at its place.
    ///
    /// # Errors
    /// [`Error::Description`] when the parts do not make an artifact; [`Error::Unwritable`]. What
    /// stood at the place before is then still there.
    pub fn finish(self, description: Description) -> Result<(), Error> {
        let staged_weights: Vec<_> = self.weights.iter().map(|row| row.name.as_str()).collect();
        for entry in &description.entries {
            let inputs = entry.signature.inputs.iter().filter(|i| i.role == InputRole::Weight);
            let slots: Vec<_> = inputs.map(|input| input.name.as_str()).collect();
            if slots != staged_weights {
                return Err(self.refuse(format!(
                    "entry {} has weight slots {slots:?}, but the weights written are \
                     {staged_weights:?}",
                    id_of(entry)
                )));
            }
            if !self.bodies.contains(&entry.body) {
                return Err(self.refuse(format!("entry {} has no body", id_of(entry))));
            }
        }
        let manifest = manifest_of(&description, self.weights.clone())
            .map_err(|reason| self.refuse(reason))?;
        for entry in &manifest.entries {
            let program = Program::new(
                entry.program_path.trim_start_matches("programs/").trim_end_matches(".json"),
                entry.inputs.iter().map(|slot| &slot.tensor),
                entry.outputs.iter().map(|slot| &slot.tensor),
                &entry.body_hash,
            );
            self.write_json(&entry.program_path, &program)?;
        }
        self.write_json(MANIFEST_FILE, &manifest)?;
        self.check()?;
        self.staged.commit()
    }

    /// What the reader would refuse is not written.
    fn check(&self) -> Result<(), Error> {
        let artifact = Artifact::open(&self.staged.path().join(MANIFEST_FILE))
            .map_err(|error| self.refuse(error.to_string()))?;
        for entry in artifact.entries() {
            artifact.read_body(entry).map_err(|error| self.refuse(error.to_string()))?;
        }
        Ok(())
    }

    fn write_json(&self, path: &str, value: &impl Serialize) -> Result<(), Error> {
        let json = serde_json::to_vec(value).map_err(|error| self.refuse(error.to_string()))?;
        self.write(path, &json)
    }

    fn write(&self, path: &str, bytes: &[u8]) -> Result<(), Error> {
        let path = self.staged.path().join(path);
        fs::write(&path, bytes).map_err(|source| Error::Unwritable { path, source })
    }

    fn refuse(&self, reason: impl Into<String>) -> Error {
        Error::Description { out: self.out.clone(), reason: reason.into() }
    }
}

/// Takes the elements of one weight: little-endian, dense, row-major. Hashes while it writes.
#[derive(Debug)]
pub struct WeightSink<'a> {
    writer: &'a mut ArtifactWriter,
    file: BufWriter<File>,
    hash: Sha256,
    written: usize,
    tensor: Tensor,
    name: String,
    path: String,
}

impl Write for WeightSink<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.hash.update(bytes.get(..written).unwrap_or_default());
        self.written += written;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl WeightSink<'_> {
    /// Ends the weight and records it in the weight table.
    ///
    /// # Errors
    /// [`Error::Description`] when the bytes written are not the tensor's; [`Error::Unwritable`].
    pub fn finish(mut self) -> Result<(), Error> {
        let expected = self.tensor.bytes();
        if self.written != expected {
            return Err(self.writer.refuse(format!(
                "weight '{}' is {}, which takes {expected} bytes, but {} were written",
                self.name, self.tensor, self.written
            )));
        }
        self.file.flush().map_err(|source| Error::Unwritable {
            path: self.writer.staged.path().join(&self.path),
            source,
        })?;
        let row = WeightRow {
            name: self.name,
            path: self.path,
            dtype: self.tensor.dtype().manifest_name().to_owned(),
            dims: signed(self.tensor.dims()),
            byte_length: signed_one(expected),
            sha256: hex(&self.hash.finalize()),
        };
        self.writer.weights.push(row);
        Ok(())
    }
}

/// A program description (artifact format §14). Field order is the order written.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Program<'a> {
    name: &'a str,
    inputs: Vec<&'a TensorType>,
    outputs: Vec<&'a TensorType>,
    mesh_requirement: &'a str,
    body_hash: &'a str,
    sharding_spec: [(); 0],
    backend_matrix: [(); 0],
}

impl<'a> Program<'a> {
    pub(crate) fn new(
        name: &'a str,
        inputs: impl Iterator<Item = &'a TensorType>,
        outputs: impl Iterator<Item = &'a TensorType>,
        body_hash: &'a str,
    ) -> Self {
        Program {
            name,
            inputs: inputs.collect(),
            outputs: outputs.collect(),
            mesh_requirement: "single-device",
            body_hash,
            sharding_spec: [],
            backend_matrix: [],
        }
    }
}

impl TensorType {
    /// The type as manifests spell it.
    pub(crate) fn of(tensor: &Tensor) -> TensorType {
        TensorType {
            dtype: tensor.dtype().manifest_name().to_owned(),
            dims: signed(tensor.dims()),
            axis_names: Vec::new(),
        }
    }
}

fn id_of(entry: &EntryDescription) -> String {
    let columns = entry.signature.logits_columns();
    entry_id(entry.kind, entry.batch, entry.context, entry.tokens, columns)
}

fn manifest_of(description: &Description, table: Vec<WeightRow>) -> Result<Manifest, String> {
    let model = &description.model;
    let mut model_hash = description.model_hash.clone();
    if !table.is_empty() {
        model_hash.push_str(&weights_suffix(table.iter().map(|row| row.sha256.as_str())));
    }
    if description.model_name.trim().is_empty() || description.model_hash.trim().is_empty() {
        return Err("model name and model hash must not be blank".to_owned());
    }
    let mut ids = BTreeSet::new();
    let mut entries = Vec::with_capacity(description.entries.len());
    for entry in &description.entries {
        let id = id_of(entry);
        if !ids.insert(id.clone()) {
            return Err(format!("two entries have the id {id}"));
        }
        let signature = &entry.signature;
        let inputs = signature.inputs.iter();
        let outputs = signature.outputs.iter();
        let donations = signature.donations.iter();
        entries.push(manifest::Entry {
            kind: entry.kind.manifest_name().to_owned(),
            batch: signed_one(entry.batch),
            context: signed_one(entry.context),
            tokens_per_seq: signed_one(entry.tokens),
            max_blocks_per_seq: signed_one(entry.columns),
            cache_key: cache_key(&model_hash, model, entry),
            entry_point: ENTRY_POINT.to_owned(),
            body_path: format!("bodies/{}.mlir", entry.body),
            body_hash: entry.body.clone(),
            program_path: format!("programs/{id}.json"),
            inputs: inputs.map(|i| slot(&i.name, i.role.manifest_name(), &i.tensor)).collect(),
            outputs: outputs.map(|o| slot(&o.name, o.role.manifest_name(), &o.tensor)).collect(),
            donation_pairs: donations.map(|&(i, o)| [signed_one(i), signed_one(o)]).collect(),
        });
    }
    let version = lowest_version(model);
    let staged = !table.is_empty();
    Ok(Manifest {
        schema_version: version.manifest_name().to_owned(),
        model_name: description.model_name.clone(),
        model_hash,
        model: model.clone(),
        bucket_ladder: description.ladder.clone(),
        weights: Weights {
            format: if staged { "staged" } else { "embedded" }.to_owned(),
            path: staged.then(|| "weights".to_owned()),
            embedded: !staged,
            table,
        },
        entries,
    })
}

/// The lowest version that describes the model (artifact format §16).
fn lowest_version(model: &Model) -> SchemaVersion {
    if model.mtp_draft_tokens > 0 {
        SchemaVersion::V5
    } else if model.linear_state.is_some() {
        SchemaVersion::V4
    } else if model.windowed_kv.is_some() {
        SchemaVersion::V3
    } else {
        SchemaVersion::V2
    }
}

/// What staged weights add to the model hash (artifact format §15): `:weights-` and the first 16 hex
/// digits of the SHA-256 over the files' newline-joined hex hashes.
fn weights_suffix<'a>(hashes: impl Iterator<Item = &'a str>) -> String {
    let joined = hashes.collect::<Vec<_>>().join("\n");
    let mut digits = hex(&Sha256::digest(joined));
    digits.truncate(16);
    format!(":weights-{digits}")
}

/// Identity of an entry's program (artifact format §15).
fn cache_key(model_hash: &str, model: &Model, entry: &EntryDescription) -> String {
    let mut key = format!(
        "tlaloc-decode-v1/{model_hash}/{}/b{}/c{}/t{}/dt{}/kv{}",
        entry.kind.manifest_name(),
        entry.batch,
        entry.context,
        entry.tokens,
        model.dtype,
        model.kv_dtype
    );
    if let Some(w) = &model.windowed_kv {
        key += &format!("/w{}r{}n{}", w.window, w.ring_pages, w.num_blocks);
    }
    if let Some(state) = &model.linear_state {
        key += &format!("/ls{}n{}", state.layers.len(), state.num_slots);
    }
    if model.mtp_draft_tokens > 0 {
        key += &format!("/mtp{}", model.mtp_draft_tokens);
    }
    if model.cuda_kernels {
        key += "/cuda";
    }
    if entry.signature.logits_columns() > 1 {
        key += "/verify";
    }
    key
}

fn slot(name: &str, role: &str, tensor: &Tensor) -> Slot {
    Slot { name: name.to_owned(), role: role.to_owned(), tensor: TensorType::of(tensor) }
}

fn signed(dims: &[usize]) -> Vec<i64> {
    dims.iter().copied().map(signed_one).collect()
}

/// Sizes of tensors fit; anything larger is refused by the final check.
fn signed_one(value: usize) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a model's weights add to its hash, from the table of the original exporter's window
    /// model.
    #[test]
    fn weights_suffix_of_the_window_model() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../shared/upstream/model_repository/window_sequence/1/tlaloc-serving.json");
        let Ok(bytes) = fs::read(&path) else {
            eprintln!("skipped: weights_suffix_of_the_window_model: {} is absent", path.display());
            return;
        };
        let manifest: Manifest = serde_json::from_slice(&bytes).unwrap();
        let hashes = manifest.weights.table.iter().map(|row| row.sha256.as_str());
        assert_eq!(manifest.model_hash, format!("window-sequence-v1{}", weights_suffix(hashes)));
    }
}
