//! The tensors of a checkpoint: where each lies, and reads of its ranges.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use safetensors::Dtype;
use safetensors::tensor::Metadata;
use serde::Deserialize;

use crate::Error;

const SINGLE_FILE: &str = "model.safetensors";
const INDEX_FILE: &str = "model.safetensors.index.json";
/// Largest header that the format allows, bytes.
const MOST_HEADER: u64 = 100_000_000;

/// Element types of weights that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// 32-bit floats.
    F32,
    /// IEEE half precision.
    F16,
    /// bfloat16.
    Bf16,
}

impl Stored {
    /// Bytes of one element.
    pub fn size(self) -> usize {
        match self {
            Stored::F32 => 4,
            Stored::F16 | Stored::Bf16 => 2,
        }
    }

    /// The value of one element, from its [`Stored::size`] little-endian bytes.
    pub fn value(self, bytes: &[u8]) -> f32 {
        match (self, bytes) {
            (Stored::F32, &[a, b, c, d]) => f32::from_le_bytes([a, b, c, d]),
            (Stored::F16, &[a, b]) => half::f16::from_le_bytes([a, b]).to_f32(),
            (Stored::Bf16, &[a, b]) => half::bf16::from_le_bytes([a, b]).to_f32(),
            _ => f32::NAN,
        }
    }
}

#[derive(Debug)]
struct Shard {
    path: PathBuf,
    file: File,
}

/// One tensor in its file.
#[derive(Clone, Debug)]
pub struct StoredTensor {
    shard: Arc<Shard>,
    name: String,
    dtype: Dtype,
    dims: Vec<usize>,
    offset: u64,
}

impl StoredTensor {
    /// Name in the checkpoint.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Shape.
    pub fn dims(&self) -> &[usize] {
        &self.dims
    }

    /// Number of elements.
    pub fn elements(&self) -> usize {
        self.dims.iter().product()
    }

    /// Element type.
    ///
    /// # Errors
    /// When it is not one of [`Stored`].
    pub fn stored(&self) -> Result<Stored, Error> {
        match self.dtype {
            Dtype::F32 => Ok(Stored::F32),
            Dtype::F16 => Ok(Stored::F16),
            Dtype::BF16 => Ok(Stored::Bf16),
            other => Err(self
                .refuse(format!("is stored as {other:?}; only F32, F16 and BF16 are supported"))),
        }
    }

    /// Reads the elements from number `first` on, row-major, as many as fill `bytes`.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn read(&self, first: usize, bytes: &mut [u8]) -> Result<(), Error> {
        let offset = self.offset + (first * self.dtype.bitsize() / 8) as u64;
        self.shard
            .file
            .read_exact_at(bytes, offset)
            .map_err(|source| Error::Unreadable { path: self.shard.path.clone(), source })
    }

    /// An [`Error::Tensor`] about this tensor.
    pub fn refuse(&self, reason: String) -> Error {
        Error::Tensor { path: self.shard.path.clone(), tensor: self.name.clone(), reason }
    }
}

#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

/// All tensors of a checkpoint, by name.
#[derive(Debug)]
pub struct Tensors {
    dir: PathBuf,
    tensors: BTreeMap<String, StoredTensor>,
    claimed: BTreeSet<String>,
}

impl Tensors {
    /// Reads the headers of the checkpoint folder `dir`: `model.safetensors`, or the shards that
    /// `model.safetensors.index.json` names.
    ///
    /// # Errors
    /// When a file is missing or malformed, two shards hold one tensor, or a tensor is not where the
    /// index says.
    pub fn open(dir: &Path) -> Result<Tensors, Error> {
        let mut all =
            Tensors { dir: dir.to_owned(), tensors: BTreeMap::new(), claimed: BTreeSet::new() };
        let (single, index) = (dir.join(SINGLE_FILE), dir.join(INDEX_FILE));
        if single.exists() || !index.exists() {
            all.add_shard(&single)?;
            return Ok(all);
        }
        let text = std::fs::read(&index)
            .map_err(|source| Error::Unreadable { path: index.clone(), source })?;
        let malformed = |reason| Error::Malformed { path: index.clone(), reason };
        let Index { weight_map } = serde_json::from_slice(&text)
            .map_err(|e| malformed(format!("is not an index of shards: {e}")))?;
        let mut names: Vec<_> = weight_map.values().collect();
        names.sort();
        names.dedup();
        let mut shards = HashMap::new();
        for name in names {
            if Path::new(name).components().count() != 1 || name.starts_with("..") {
                return Err(malformed(format!(
                    "names the shard '{name}', which is not a file name"
                )));
            }
            shards.insert(name.clone(), all.add_shard(&dir.join(name))?);
        }
        for (tensor, shard) in &weight_map {
            let found = all.tensors.get(tensor).map(|t| &t.shard);
            if !found.zip(shards.get(shard)).is_some_and(|(a, b)| Arc::ptr_eq(a, b)) {
                return Err(malformed(format!(
                    "says that '{shard}' holds '{tensor}', which it does not"
                )));
            }
        }
        Ok(all)
    }

    fn add_shard(&mut self, path: &Path) -> Result<Arc<Shard>, Error> {
        let unreadable = |source| Error::Unreadable { path: path.to_owned(), source };
        let malformed = |reason| Error::Malformed { path: path.to_owned(), reason };
        let mut file = File::open(path).map_err(unreadable)?;
        let length = file.metadata().map_err(unreadable)?.len();
        let mut prefix = [0; 8];
        file.read_exact(&mut prefix).map_err(unreadable)?;
        let header_length = u64::from_le_bytes(prefix);
        if header_length > MOST_HEADER || header_length > length.saturating_sub(8) {
            return Err(malformed(format!(
                "claims a header of {header_length} bytes in a file of {length}"
            )));
        }
        let mut header = vec![0; header_length as usize];
        file.read_exact(&mut header).map_err(unreadable)?;
        let metadata: Metadata = serde_json::from_slice(&header)
            .map_err(|e| malformed(format!("has no safetensors header: {e}")))?;
        let data = 8 + header_length;
        if data + metadata.data_len() as u64 != length {
            return Err(malformed(format!(
                "has {length} bytes, but its header describes {}: it is truncated or damaged",
                data + metadata.data_len() as u64
            )));
        }
        let shard = Arc::new(Shard { path: path.to_owned(), file });
        for (name, info) in metadata.tensors() {
            let tensor = StoredTensor {
                shard: shard.clone(),
                name: name.clone(),
                dtype: info.dtype,
                dims: info.shape.clone(),
                offset: data + info.data_offsets.0 as u64,
            };
            if let Some(other) = self.tensors.insert(name, tensor) {
                return Err(other.refuse(format!("is also in {}", path.display())));
            }
        }
        Ok(shard)
    }

    /// The tensor called `name`, which counts as part of the model from now on.
    ///
    /// # Errors
    /// When there is none, its shape is not `dims`, or its element type cannot be read.
    pub fn claim(&mut self, name: &str, dims: &[usize]) -> Result<StoredTensor, Error> {
        let tensor = self.tensors.get(name).ok_or_else(|| Error::Tensor {
            path: self.dir.clone(),
            tensor: name.to_owned(),
            reason: "is in none of the checkpoint's files".to_owned(),
        })?;
        if tensor.dims != dims {
            return Err(
                tensor.refuse(format!("has shape {:?}; the config asks for {dims:?}", tensor.dims))
            );
        }
        tensor.stored()?;
        self.claimed.insert(name.to_owned());
        Ok(tensor.clone())
    }

    /// Whether there is a tensor called `name`.
    pub fn has(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
    }

    /// Refuses any tensor that was not claimed and is not `ignorable`.
    ///
    /// # Errors
    /// For the first such tensor, in alphabetical order.
    pub fn finish(self, ignorable: impl Fn(&str) -> bool) -> Result<(), Error> {
        let known = |name: &str| self.claimed.contains(name) || ignorable(name);
        match self.tensors.values().find(|tensor| !known(&tensor.name)) {
            Some(tensor) => {
                Err(tensor.refuse("is not part of the model that the config describes".to_owned()))
            }
            None => Ok(()),
        }
    }
}
