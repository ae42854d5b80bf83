//! Checkpoints to export: the tiny ones with an oracle, and damaged variants of them.

#![allow(dead_code, reason = "each test file uses its own part")]
#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use serde_json::Value;
use tlaloc_export::plan::PlanOptions;
use tlaloc_export::{Error, ExportOptions, Progress, export};

/// Folder of the tiny checkpoint `name`.
pub fn tiny(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/tiny").join(name)
}

/// Names of all tiny checkpoints.
pub fn tiny_names() -> Vec<String> {
    let names = fs::read_dir(tiny("")).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

/// A checkpoint in memory, to be changed and written.
#[derive(Clone)]
pub struct Checkpoint {
    pub config: Value,
    pub tensors: BTreeMap<String, (Dtype, Vec<usize>, Vec<u8>)>,
}

impl Checkpoint {
    pub fn tiny(name: &str) -> Checkpoint {
        let config = fs::read(tiny(name).join("config.json")).unwrap();
        let bytes = fs::read(tiny(name).join("model.safetensors")).unwrap();
        let tensors = SafeTensors::deserialize(&bytes).unwrap();
        Checkpoint {
            config: serde_json::from_slice(&config).unwrap(),
            tensors: tensors
                .iter()
                .map(|(name, t)| {
                    (name.to_owned(), (t.dtype(), t.shape().to_vec(), t.data().to_vec()))
                })
                .collect(),
        }
    }

    /// Sets `key` of the config; a key with dots is inside objects.
    pub fn set(mut self, key: &str, value: Value) -> Checkpoint {
        *key.split('.').fold(&mut self.config, |object, key| &mut object[key]) = value;
        self
    }

    pub fn remove(mut self, key: &str) -> Checkpoint {
        let (path, key) = key.rsplit_once('.').unwrap_or(("", key));
        let path = path.split('.').filter(|key| !key.is_empty());
        let object = path.fold(&mut self.config, |object, key| &mut object[key]);
        object.as_object_mut().unwrap().remove(key).unwrap();
        self
    }

    pub fn f32s(&self, name: &str) -> Vec<f32> {
        let (dtype, _, bytes) = &self.tensors[name];
        assert_eq!(*dtype, Dtype::F32);
        bytes.as_chunks().0.iter().map(|x| f32::from_le_bytes(*x)).collect()
    }

    /// Writes the checkpoint with all tensors in one file.
    pub fn write(&self, dir: &Path) {
        self.write_config(dir);
        self.write_tensors(&dir.join("model.safetensors"), |_| true);
    }

    pub fn write_config(&self, dir: &Path) {
        fs::create_dir_all(dir).unwrap();
        fs::write(dir.join("config.json"), self.config.to_string()).unwrap();
    }

    /// Writes the tensors that `keep` chooses to `file`.
    pub fn write_tensors(&self, file: &Path, keep: impl Fn(&str) -> bool) {
        let views = self
            .tensors
            .iter()
            .filter(|(name, _)| keep(name))
            .map(|(name, t)| (name.clone(), TensorView::new(t.0, t.1.clone(), &t.2).unwrap()));
        fs::write(file, safetensors::serialize(views, None).unwrap()).unwrap();
    }
}

struct Silent;

impl Progress for Silent {
    fn start(&mut self, _: u64) {}
    fn weight(&mut self, _: &str) {}
    fn advance(&mut self, _: u64) {}
}

/// Exports with two small contexts and two batches.
pub fn export_to(checkpoint: &Path, out: &Path, options: ExportOptions) -> Result<(), Error> {
    let plan = PlanOptions { contexts: vec![32, 64], batches: vec![1, 2], ..options.plan };
    let options = ExportOptions { plan, name: Some("tiny".to_owned()), ..options };
    export(checkpoint, out, &options, &mut Silent)
}

/// What exporting `checkpoint` says when it is refused, `None` when it is not. A refusal must leave
/// nothing behind.
pub fn refusal(checkpoint: &Checkpoint) -> Option<String> {
    let dir = tempfile::tempdir().unwrap();
    checkpoint.write(&dir.path().join("checkpoint"));
    refusal_of_folder(&dir.path().join("checkpoint"))
}

pub fn refusal_of_folder(checkpoint: &Path) -> Option<String> {
    let dir = tempfile::tempdir().unwrap();
    let error = export_to(checkpoint, &dir.path().join("out"), ExportOptions::default()).err()?;
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "left behind after: {error}");
    Some(error.to_string())
}

/// Every file under `dir`, by relative path.
pub fn tree(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(dir).unwrap().to_owned();
                files.insert(name, fs::read(path).unwrap());
            }
        }
    }
    files
}
