//! Checkpoints that the exporter reads.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;

use safetensors::tensor::{Dtype, TensorView, serialize};
use tempfile::TempDir;
use tlaloc_export::checkpoint::{Config, Tensors};
use tlaloc_export::family;
use tlaloc_export::plan::{Plan, PlanOptions};

use crate::repository;

/// `config.json`: a model as far as the plan of its entries.
pub fn checkpoint_config(data: &[u8]) {
    let Ok(config) = Config::parse(PathBuf::from("/checkpoint/config.json"), data) else { return };
    let Ok((_, spec)) = family::read(config) else { return };
    assert!(!spec.layers.is_empty());
    if let Ok(plan) = Plan::new(&PlanOptions::default(), &spec) {
        assert!(!plan.buckets.is_empty());
    }
}

/// What parts the index of a sharded checkpoint from its first shard.
const PART: u8 = b'\n';

/// A checkpoint folder. After a first byte of 0 stands a `model.safetensors`; after any other an index
/// of shards on one line, and then the shard `a.safetensors`, beside which there is a good
/// `b.safetensors`. Every tensor that is found is read to its last element.
pub fn safetensors(data: &[u8]) {
    thread_local! { static FOLDER: RefCell<Option<TempDir>> = const { RefCell::new(None) }; }
    FOLDER.with_borrow_mut(|folder| {
        let folder = folder.get_or_insert_with(|| tempfile::tempdir().unwrap()).path();
        let single = folder.join("model.safetensors");
        let _ = fs::remove_file(&single);
        let Some((&form, rest)) = data.split_first() else { return };
        if form == 0 {
            fs::write(single, rest).unwrap();
        } else {
            let end = rest.iter().position(|byte| *byte == PART).unwrap_or(rest.len());
            let (index, shard) = rest.split_at(end);
            fs::write(folder.join("model.safetensors.index.json"), index).unwrap();
            fs::write(folder.join("a.safetensors"), shard.get(1..).unwrap_or_default()).unwrap();
            fs::write(folder.join("b.safetensors"), shard_of(&["c"])).unwrap();
        }
        let Ok(mut tensors) = Tensors::open(folder) else { return };
        let named: HashMap<String, serde_json::Value> = headers(data);
        for (name, info) in named {
            let Some(dims) = info.get("shape").and_then(|shape| {
                shape.as_array()?.iter().map(|dim| dim.as_u64()?.try_into().ok()).collect()
            }) else {
                continue;
            };
            let dims: Vec<usize> = dims;
            let Ok(tensor) = tensors.claim(&name, &dims) else { continue };
            let stored = tensor.stored().unwrap();
            let mut bytes = vec![0; tensor.elements() * stored.size()];
            tensor.read(0, &mut bytes).unwrap();
        }
        let _ = tensors.finish(|_| false);
    });
}

/// The tensors that a header in `data` names, as written.
fn headers(data: &[u8]) -> HashMap<String, serde_json::Value> {
    let starts = data.windows(2).enumerate().filter(|(_, pair)| pair == b"{\"");
    let read = |at: usize| {
        let mut values = serde_json::Deserializer::from_slice(&data[at..]).into_iter();
        values.next()?.ok()
    };
    starts.filter_map(|(at, _)| read(at)).next_back().unwrap_or_default()
}

fn shard_of(names: &[&str]) -> Vec<u8> {
    let bytes = [0; 24];
    let view = |name: &&str| {
        let view = match *name {
            "a" => TensorView::new(Dtype::F32, vec![2, 3], &bytes),
            "b" => TensorView::new(Dtype::BF16, vec![4], &bytes[..8]),
            _ => TensorView::new(Dtype::F16, vec![], &bytes[..2]),
        };
        ((*name).to_owned(), view.unwrap())
    };
    serialize(names.iter().map(view), None).unwrap()
}

pub(crate) fn config_seeds() -> Vec<Vec<u8>> {
    let folder = fs::read_dir(repository("tests/fixtures/tiny")).unwrap();
    let mut files: Vec<PathBuf> = folder.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.into_iter().filter_map(|folder| fs::read(folder.join("config.json")).ok()).collect()
}

pub(crate) fn safetensors_seeds() -> Vec<Vec<u8>> {
    let index = br#"{"weight_map":{"a":"a.safetensors","b":"a.safetensors","c":"b.safetensors"}}"#;
    vec![
        [&[0], shard_of(&["a", "b", "c"]).as_slice()].concat(),
        [&[1], index.as_slice(), &[PART], &shard_of(&["a", "b"])].concat(),
    ]
}
