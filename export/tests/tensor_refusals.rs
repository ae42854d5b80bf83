//! Checkpoints whose tensors are not those of the model are refused by the tensor's name.

mod common;

use std::fs;

use common::{Checkpoint, refusal, refusal_of_folder, tiny};
use safetensors::Dtype;
use serde_json::json;

const UP: &str = "model.layers.1.mlp.up_proj.weight";

#[test]
fn missing_unknown_misshapen_and_mistyped_tensors_are_named() {
    let mut missing = Checkpoint::tiny("llama");
    missing.tensors.remove(UP);
    let message = refusal(&missing).unwrap();
    assert!(message.contains(&format!("tensor '{UP}': is in none of")), "{message}");

    let mut unknown = Checkpoint::tiny("llama");
    let bias = "model.layers.0.self_attn.q_proj.bias";
    unknown.tensors.insert(bias.to_owned(), (Dtype::F32, vec![48], vec![0; 192]));
    let message = refusal(&unknown).unwrap();
    assert!(message.contains(&format!("tensor '{bias}': is not part of the model")), "{message}");

    let mut misshapen = Checkpoint::tiny("llama");
    misshapen.tensors.get_mut(UP).unwrap().1 = vec![48, 80];
    let message = refusal(&misshapen).unwrap();
    assert!(
        message.contains(&format!("'{UP}': has shape [48, 80]; the config asks for [80, 48]")),
        "{message}"
    );

    let mut mistyped = Checkpoint::tiny("llama");
    mistyped.tensors.get_mut(UP).unwrap().0 = Dtype::I32;
    let message = refusal(&mistyped).unwrap();
    assert!(message.contains(&format!("'{UP}': is stored as I32; only F32, F16")), "{message}");
}

#[test]
fn one_layer_more_or_less_than_the_config_says_is_refused() {
    let message = refusal(&Checkpoint::tiny("llama").set("num_hidden_layers", json!(2))).unwrap();
    assert!(message.contains("'model.layers.2.input_layernorm.weight': is not part"), "{message}");
    let message = refusal(&Checkpoint::tiny("llama").set("num_hidden_layers", json!(4))).unwrap();
    assert!(message.contains("'model.layers.3.input_layernorm.weight': is in none"), "{message}");
}

#[test]
fn a_tied_head_may_be_stored_only_if_it_is_the_embedding() {
    let tied = Checkpoint::tiny("llama").set("tie_word_embeddings", json!(true));
    let message = refusal(&tied).unwrap();
    assert!(
        message.contains("'lm_head.weight': differs from 'model.embed_tokens.weight'"),
        "{message}"
    );

    let mut equal = tied.clone();
    let embedding = equal.tensors["model.embed_tokens.weight"].clone();
    equal.tensors.insert("lm_head.weight".to_owned(), embedding);
    assert_eq!(refusal(&equal), None, "stored twice");

    let last = equal.tensors.get_mut("lm_head.weight").unwrap().2.last_mut().unwrap();
    *last ^= 1;
    assert!(refusal(&equal).is_some(), "one bit of the last element differs");

    let mut absent = tied;
    absent.tensors.remove("lm_head.weight");
    assert_eq!(refusal(&absent), None, "not stored");
}

#[test]
fn stored_rotary_frequencies_are_ignored() {
    let mut checkpoint = Checkpoint::tiny("llama");
    let name = "model.layers.0.self_attn.rotary_emb.inv_freq";
    checkpoint.tensors.insert(name.to_owned(), (Dtype::F32, vec![4], vec![0; 16]));
    assert_eq!(refusal(&checkpoint), None);
}

#[test]
fn damaged_files_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    Checkpoint::tiny("llama").write_config(dir.path());
    let message = refusal_of_folder(dir.path()).unwrap();
    assert!(message.contains("model.safetensors: cannot be read"), "{message}");

    let whole = fs::read(tiny("llama").join("model.safetensors")).unwrap();
    let huge = [&u64::MAX.to_le_bytes()[..], &whole[8..]].concat();
    let no_header = [&whole[..8], &vec![b'x'; whole.len() - 8]].concat();
    for (bytes, expected) in [
        (&whole[..whole.len() - 1], "it is truncated or damaged"),
        (&whole[..4], "cannot be read"),
        (&huge[..], "claims a header of"),
        (&no_header[..], "has no safetensors header"),
    ] {
        fs::write(dir.path().join("model.safetensors"), bytes).unwrap();
        let message = refusal_of_folder(dir.path()).unwrap();
        assert!(message.contains(expected), "{expected}: {message}");
    }

    fs::write(dir.path().join("model.safetensors"), &whole).unwrap();
    assert_eq!(refusal_of_folder(dir.path()), None);
}

#[test]
fn an_index_that_does_not_fit_its_shards_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let checkpoint = Checkpoint::tiny("llama");
    checkpoint.write_config(dir.path());
    checkpoint.write_tensors(&dir.path().join("a.safetensors"), |name| name < "model.layers.1");
    checkpoint.write_tensors(&dir.path().join("b.safetensors"), |name| name >= "model.layers.1");
    let index = |changed: &str, shard: &str| {
        let map: serde_json::Map<_, _> = checkpoint
            .tensors
            .keys()
            .map(|name| {
                let own = if name.as_str() < "model.layers.1" { "a" } else { "b" };
                let file =
                    if name == changed { shard.to_owned() } else { format!("{own}.safetensors") };
                (name.clone(), json!(file))
            })
            .collect();
        let text = json!({"metadata": {}, "weight_map": map}).to_string();
        fs::write(dir.path().join("model.safetensors.index.json"), text).unwrap();
        refusal_of_folder(dir.path())
    };
    assert_eq!(index("", ""), None, "as it should be");
    for (shard, expected) in [
        ("a.safetensors", "which it does not"),
        ("c.safetensors", "c.safetensors: cannot be read"),
        ("../b.safetensors", "which is not a file name"),
    ] {
        let message = index(UP, shard).unwrap();
        assert!(message.contains(expected), "{shard}: {message}");
    }
    checkpoint.write_tensors(&dir.path().join("b.safetensors"), |name| {
        name >= "model.layers.1" || name == "lm_head.weight"
    });
    let message = index("", "").unwrap();
    assert!(message.contains("'lm_head.weight': is also in"), "{message}");
}
