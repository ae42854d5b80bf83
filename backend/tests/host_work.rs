//! How many instructions the host spends on a decode step, apart from the plugin's execute call: a
//! bound that noise does not blur.
//!
//! callgrind counts them on Triton's thread inside of `TRITONBACKEND_ModelInstanceExecute` and on the
//! instance's thread, through the whole backend. Triton is the mock host, and the plugin is
//! `pjrt-null`, for valgrind takes minutes for each step of a real one. The model has the layers of
//! SmolLM2-135M, so as many arguments. Its vocabulary is small: large memory is copied by one
//! instruction, which callgrind counts once for each byte.
#![allow(clippy::unwrap_used)] // helpers of tests

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::process::Command;

use safetensors::Dtype;
use safetensors::tensor::{TensorView, serialize_to_file};
use serde_json::json;
use tlaloc_export::plan::PlanOptions;
use tlaloc_export::{ExportOptions, Progress, export};
use triton_backend::entry_points;
use triton_mock_host::{
    BackendSetup, Correlation, Event, Host, InputSetup, InstanceSetup, LoadedInstance, ModelSetup,
    RequestSetup,
};
use triton_tlaloc::Tlaloc;

/// Instructions of a step of one row, and of each further row, in a release build. A test build checks
/// itself and inlines little.
const BOUND: f64 = 60_000.0 * SLACK;
const BOUND_OF_A_ROW: f64 = 15_000.0 * SLACK;
const SLACK: f64 = if cfg!(debug_assertions) { 1.5 } else { 1.0 };

const BATCHES: [usize; 3] = [1, 2, 4];
const STEPS: usize = 10;
const LAYERS: usize = 30;
const VOCAB: usize = 256;
/// As many runs are watched more closely (sequence mode §12.1).
const FIRST_RUNS: usize = 100;
/// Where the steps to count find the model.
const FOLDER: &str = "TLALOC_HOST_WORK";

#[test]
fn a_decode_step_costs_the_host_few_instructions() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        eprintln!("SKIPPED: there is no valgrind");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    write_model(folder.path());
    let profile = folder.path().join("profile");
    let output = Command::new("valgrind")
        .args([
            "--tool=callgrind",
            "--collect-atstart=no",
            "--toggle-collect=*model_instance_execute*",
            "--toggle-collect=*sequence_mode::instance::Worker*::run*",
            "--toggle-collect=*execute::launch*",
            "--dump-before=host_work::next_batch*",
        ])
        .arg(format!("--callgrind-out-file={}", profile.display()))
        .arg(std::env::current_exe().unwrap())
        .args(["steps", "--exact", "--ignored", "--nocapture"])
        .env(FOLDER, folder.path())
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&said));

    let counted: Vec<f64> = (1..=BATCHES.len())
        .map(|part| {
            // The first part is the load and the first warm-up; every other part is a warm-up.
            total(&folder.path().join(format!("profile.{}", 2 * part))) / STEPS as f64
        })
        .collect();
    let steps: Vec<_> = BATCHES.iter().zip(&counted).map(|(b, n)| format!("{b} {n:.0}")).collect();
    println!("instructions of a decode step by rows: {}", steps.join(", "));
    assert!(counted[0] > 1000.0, "nothing was counted: {counted:?}");
    within_bounds(&counted).unwrap();
    // The check itself: a dear step is noticed, and so are dear rows.
    let dear: Vec<f64> = counted.iter().map(|count| count + BOUND).collect();
    within_bounds(&dear).unwrap_err();
    let dear: Vec<f64> =
        counted.iter().zip(BATCHES).map(|(count, b)| count + BOUND_OF_A_ROW * b as f64).collect();
    within_bounds(&dear).unwrap_err();
}

/// Whether the instructions of a step of each of [`BATCHES`] are within the bounds.
fn within_bounds(counted: &[f64]) -> Result<(), String> {
    let one = counted[0];
    if one >= BOUND {
        return Err(format!("{one} instructions for a step of one row, the bound is {BOUND}"));
    }
    for (batch, count) in BATCHES.iter().zip(counted).skip(1) {
        let row = (count - one) / (batch - 1) as f64;
        if row >= BOUND_OF_A_ROW {
            return Err(format!(
                "{row} instructions for each further row of {batch}, the bound is {BOUND_OF_A_ROW}"
            ));
        }
    }
    Ok(())
}

/// What a part of a profile counted.
fn total(profile: &Path) -> f64 {
    let text = fs::read_to_string(profile).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("totals: ")).unwrap();
    line.trim().parse().unwrap()
}

/// Parts of the profile end here.
#[inline(never)]
fn next_batch(rows: usize) {
    black_box(rows);
}

/// Not a test: what is counted.
#[test]
#[ignore = "runs under valgrind, from the test above"]
fn steps() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let folder = Path::new(&folder);
    let plugin = std::env::current_exe().unwrap().with_file_name("libpjrt_null.so");
    let config = json!({"cmdline": {"pjrt-plugin-path": plugin}}).to_string();
    let setup = BackendSetup { config, ..Default::default() };
    let host = Host::start(entry_points::<Tlaloc>(), setup).unwrap();
    let setup = ModelSetup {
        repository: folder.join("model"),
        config: config_of_model().to_string(),
        ..Default::default()
    };
    let model = host.load(setup).unwrap();
    let instance = model.instance(InstanceSetup::default()).unwrap();
    for (number, &rows) in BATCHES.iter().enumerate() {
        let ids: Vec<u64> = (1..=rows as u64).map(|id| 100 * number as u64 + id).collect();
        let step = |start, end| {
            let requests = ids.iter().map(|id| request(*id, start, end)).collect();
            answered(&instance, requests);
        };
        step(true, false);
        let warm_up = if number == 0 { FIRST_RUNS } else { STEPS };
        (0..warm_up).for_each(|_| step(false, false));
        next_batch(rows);
        (0..STEPS).for_each(|_| step(false, false));
        next_batch(rows);
        step(false, true);
    }
}

fn request(id: u64, start: bool, end: bool) -> RequestSetup {
    RequestSetup {
        correlation: Correlation::Number(id),
        start,
        end,
        inputs: vec![InputSetup::int32("TOKENS", &[7])],
        outputs: vec!["LOGITS".to_owned()],
        ..Default::default()
    }
}

fn answered(instance: &LoadedInstance, requests: Vec<RequestSetup>) {
    for ticket in instance.execute(requests).unwrap() {
        let good = ticket.wait().into_iter().any(|event| match event {
            Event::Answered(answer) => answer.error.is_none(),
            _ => false,
        });
        assert!(good, "{:?}", ticket.events());
    }
}

fn config_of_model() -> serde_json::Value {
    let logits = json!([{"name": "LOGITS", "data_type": "TYPE_FP32", "dims": [VOCAB]}]);
    let mut config = support::sequence_config(8, &logits);
    config["instance_group"] = json!([{"kind": "KIND_MODEL", "count": 1}]);
    config
}

struct Silent;

impl Progress for Silent {
    fn start(&mut self, _: u64) {}
    fn weight(&mut self, _: &str) {}
    fn advance(&mut self, _: u64) {}
}

/// A model of weights that are all zero.
fn write_model(folder: &Path) {
    let checkpoint = folder.join("checkpoint");
    fs::create_dir_all(&checkpoint).unwrap();
    fs::create_dir_all(folder.join("model")).unwrap();
    let (hidden, heads, kv_heads, head_dim, intermediate) = (48, 6, 2, 8, 80);
    let config = json!({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": VOCAB,
        "hidden_size": hidden, "num_hidden_layers": LAYERS, "num_attention_heads": heads,
        "num_key_value_heads": kv_heads, "head_dim": head_dim, "intermediate_size": intermediate,
        "max_position_embeddings": 512, "hidden_act": "silu", "rms_norm_eps": 1e-5,
        "tie_word_embeddings": true, "rope_theta": 10000.0
    });
    fs::write(checkpoint.join("config.json"), config.to_string()).unwrap();
    let mut shapes = BTreeMap::from([
        ("model.embed_tokens.weight".to_owned(), vec![VOCAB, hidden]),
        ("model.norm.weight".to_owned(), vec![hidden]),
    ]);
    for layer in 0..LAYERS {
        let of_layer: [(&str, Vec<usize>); 9] = [
            ("input_layernorm", vec![hidden]),
            ("post_attention_layernorm", vec![hidden]),
            ("self_attn.q_proj", vec![heads * head_dim, hidden]),
            ("self_attn.k_proj", vec![kv_heads * head_dim, hidden]),
            ("self_attn.v_proj", vec![kv_heads * head_dim, hidden]),
            ("self_attn.o_proj", vec![hidden, heads * head_dim]),
            ("mlp.gate_proj", vec![intermediate, hidden]),
            ("mlp.up_proj", vec![intermediate, hidden]),
            ("mlp.down_proj", vec![hidden, intermediate]),
        ];
        let named = |(name, dims)| (format!("model.layers.{layer}.{name}.weight"), dims);
        shapes.extend(of_layer.map(named));
    }
    let zeros = vec![0; 4 * VOCAB * hidden];
    let views = shapes.iter().map(|(name, dims)| {
        let bytes = &zeros[..4 * dims.iter().product::<usize>()];
        (name, TensorView::new(Dtype::F32, dims.clone(), bytes).unwrap())
    });
    serialize_to_file(views, None, &checkpoint.join("model.safetensors")).unwrap();
    let options = ExportOptions {
        plan: PlanOptions { contexts: vec![256], batches: BATCHES.to_vec(), ..Default::default() },
        ..Default::default()
    };
    export(&checkpoint, &folder.join("model/1"), &options, &mut Silent).unwrap();
}
