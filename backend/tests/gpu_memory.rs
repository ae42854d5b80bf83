//! Tensors of clients on GPUs, and several GPUs, through the whole backend. The GPUs are played by the
//! host: the plugin is the CPU's, and a double of the device's runtime records what is asked of it.
#![allow(clippy::unwrap_used)] // helpers of tests

#[path = "../../pjrt/safe/tests/support/recording.rs"]
mod recording;
mod support;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use recording::{Asked, DeviceTensor, Recording};
use serde_json::{Value, json};
use tempfile::TempDir;
use tlaloc_pjrt::{Client, ClientOptions, Direction, Plugin};
use triton_backend::entry_points;
use triton_backend_sys as sys;
use triton_mock_host::{
    Answer, BackendSetup, Correlation, Event, GpuAddress, Host, InputSetup, InstanceSetup,
    LoadedInstance, LoadedModel, ModelSetup, RequestSetup, log_lines,
};
use triton_tlaloc::Tlaloc;

/// x x + x of f32s.
fn body(dims: &str) -> String {
    let tensor = format!("tensor<{dims}xf32>");
    format!(
        "func.func @main(%x: {tensor}) -> {tensor} {{\n\
           %0 = stablehlo.multiply %x, %x : {tensor}\n\
           %1 = stablehlo.add %0, %x : {tensor}\n\
           return %1 : {tensor}\n\
         }}\n"
    )
}

/// A repository, a backend, and what plays the GPUs of these ordinals.
struct Bench {
    repository: TempDir,
    host: Host,
    gpus: Vec<(Arc<Client>, Arc<Recording>)>,
}

impl Bench {
    /// Tests have ordinals of their own: clients are the process's.
    fn new(ordinals: &[i32]) -> Option<Self> {
        let Some(plugin) = std::env::var_os("TLALOC_PJRT_PLUGIN_PATH") else {
            eprintln!("SKIPPED: TLALOC_PJRT_PLUGIN_PATH names no PJRT plugin");
            return None;
        };
        let plugin = Plugin::load(plugin).unwrap();
        let gpu = |ordinal: &i32| {
            let (runtime, options) = (Recording::new(), ClientOptions::default());
            let played = Some(runtime.clone() as Arc<dyn tlaloc_pjrt::DeviceRuntime>);
            (Client::shared_on(&plugin, *ordinal, &options, played).unwrap(), runtime)
        };
        let gpus = ordinals.iter().map(gpu).collect();
        let host = Host::start(entry_points::<Tlaloc>(), BackendSetup::default()).unwrap();
        Some(Bench { repository: TempDir::new().unwrap(), host, gpus })
    }

    /// A model of `artifacts`, on the GPUs.
    fn load(&self, name: &str, artifacts: &[(&str, &str)], config: Value) -> LoadedModel {
        let folder = self.repository.path().join(name);
        std::fs::create_dir_all(folder.join("1")).unwrap();
        for (file, dims) in artifacts {
            std::fs::write(folder.join("1").join(file), body(dims)).unwrap();
        }
        self.load_from(name, folder, config)
    }

    fn load_from(&self, name: &str, repository: PathBuf, mut config: Value) -> LoadedModel {
        let ordinals: Vec<i32> = self.gpus.iter().map(|(client, _)| client.ordinal()).collect();
        config["instance_group"] = json!([{"kind": "KIND_GPU", "count": 1, "gpus": ordinals}]);
        let config = config.to_string();
        let setup = ModelSetup { name: name.to_owned(), repository, config, ..Default::default() };
        self.host.load(setup).unwrap()
    }

    fn on(&self, model: &LoadedModel, gpu: usize) -> LoadedInstance {
        let setup = InstanceSetup {
            kind: sys::TRITONSERVER_INSTANCEGROUPKIND_GPU,
            device_id: self.gpus[gpu].0.ordinal(),
            ..Default::default()
        };
        model.instance(setup).unwrap()
    }
}

fn config(max_batch_size: i64, dims: &[i64], artifact: &str, more: Value) -> Value {
    let mut parameters = json!({"artifact": {"string_value": artifact}});
    for (key, value) in more.as_object().unwrap() {
        parameters[key] = json!({"string_value": value});
    }
    json!({
        "max_batch_size": max_batch_size,
        "input": [{"name": "X", "data_type": "TYPE_FP32", "dims": dims}],
        "output": [{"name": "Y", "data_type": "TYPE_FP32", "dims": dims}],
        "parameters": parameters
    })
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn squares(values: &[f32]) -> Vec<u8> {
    bytes(&values.iter().map(|x| x * x + x).collect::<Vec<_>>())
}

/// X of a shape; Y where `y` says, or in host memory.
fn request(x: InputSetup, y: Option<GpuAddress>) -> RequestSetup {
    RequestSetup {
        inputs: vec![x],
        outputs: vec!["Y".to_owned()],
        gpu_outputs: y.map(|y| ("Y".to_owned(), y)).into_iter().collect(),
        ..Default::default()
    }
}

fn on_host(shape: &[i64], values: &[f32]) -> InputSetup {
    InputSetup {
        data_type: sys::TRITONSERVER_TYPE_FP32,
        shape: shape.to_vec(),
        pieces: vec![bytes(values)],
        ..InputSetup::int32("X", &[])
    }
}

fn on_gpu(shape: &[i64], values: &[f32], gpu: GpuAddress) -> InputSetup {
    let memory = sys::TRITONSERVER_MEMORY_GPU;
    InputSetup { memory, gpu, ..on_host(shape, values) }
}

fn at(tensor: &DeviceTensor, ordinal: i64) -> GpuAddress {
    GpuAddress { address: tensor.address(), device: ordinal }
}

fn answer(instance: &LoadedInstance, request: RequestSetup) -> Answer {
    answers(instance, vec![request]).remove(0)
}

fn answers(instance: &LoadedInstance, requests: Vec<RequestSetup>) -> Vec<Answer> {
    let tickets = instance.execute(requests).unwrap();
    let answer = |event: Event| match event {
        Event::Answered(answer) => Some(answer),
        _ => None,
    };
    tickets.iter().map(|ticket| ticket.wait().into_iter().find_map(answer).unwrap()).collect()
}

fn logged(line: &str) -> usize {
    log_lines().iter().filter(|logged| logged.message.contains(line)).count()
}

#[track_caller]
fn told(lines: &[&str]) {
    for line in lines {
        assert_eq!(logged(line), 1, "{line}");
    }
}

const VALUES: [f32; 16] =
    [0.5, -1.0, 2.0, 3.0, -4.5, 5.0, 6.0, 7.0, 8.0, -9.0, 1.5, 1.0, 12.0, 13.0, 0.0, 15.0];

#[test]
fn gpu_memory_is_read_in_place_and_written_device_to_device() {
    let Some(bench) = Bench::new(&[20]) else { return };
    let model = bench.load("direct", &[("m.mlir", "16")], config(0, &[16], "m.mlir", json!({})));
    let instance = bench.on(&model, 0);
    let x = DeviceTensor::new(&bytes(&VALUES));
    for _ in 0..2 {
        let y = DeviceTensor::new(&[0; 64]);
        bench.gpus[0].1.take();
        let sent = request(on_gpu(&[16], &VALUES, at(&x, 20)), Some(at(&y, 20)));
        let answer = answer(&instance, sent);
        assert_eq!(answer.error, None);
        // Copied, then waited for: the double copies only when it is waited for.
        assert_eq!(y.bytes(), squares(&VALUES));
        let order =
            [Asked::SetDevice(20), Asked::Copy(Direction::OnDevice, 64), Asked::Synchronize];
        assert_eq!(bench.gpus[0].1.take(), order);
    }
    assert_eq!(x.bytes(), bytes(&VALUES));
    told(&[
        "model 'direct': device 20 ready; GPU-memory tensors are read in place and written device to \
         device",
        "model 'direct': input 'X' is read in place from GPU memory (no host copy)",
        "model 'direct': output 'Y' is copied device to device into GPU memory",
    ]);
    assert_eq!(logged("model 'direct': input 'X' is in GPU memory"), 0);
}

#[test]
fn what_cannot_stay_on_the_gpu_goes_through_the_host() {
    let Some(bench) = Bench::new(&[21]) else { return };
    let plain = bench.load("plain", &[("m.mlir", "16")], config(0, &[16], "m.mlir", json!({})));
    let off = json!({"zero_copy": "false"});
    let off = bench.load("off", &[("m.mlir", "16")], config(0, &[16], "m.mlir", off));
    let runtime = &bench.gpus[0].1;
    let through = |instance: &LoadedInstance, x: GpuAddress, y: &DeviceTensor, device| {
        runtime.take();
        let answer = answer(instance, request(on_gpu(&[16], &VALUES, x), Some(at(y, device))));
        assert_eq!(answer.error, None);
        assert_eq!(y.bytes(), squares(&VALUES));
        runtime.take()
    };
    let set = Asked::SetDevice(21);
    let (fetched, delivered) =
        (Asked::Copy(Direction::ToHost, 64), Asked::Copy(Direction::ToDevice, 64));
    let both = [set, fetched, set, delivered, Asked::Synchronize];

    let x = DeviceTensor::new(&bytes(&VALUES));
    let y = DeviceTensor::new(&[0; 64]);
    let instance = bench.on(&off, 0);
    assert_eq!(through(&instance, at(&x, 21), &y, 21), both);
    told(&[
        "model 'off': device 21 ready; GPU-memory tensors go through the host (zero_copy is false)",
        "model 'off': input 'X' is in GPU memory and goes through the host: zero_copy is false",
        "model 'off': output 'Y' was given GPU memory and goes through the host: zero_copy is false",
    ]);

    let (y, instance) = (DeviceTensor::new(&[0; 64]), bench.on(&plain, 0));
    assert_eq!(through(&instance, at(&x, 3), &y, 3), both);
    told(&[
        "model 'plain': input 'X' is in GPU memory and goes through the host: it is on GPU 3",
        "model 'plain': output 'Y' was given GPU memory and goes through the host: it is on GPU 3",
    ]);

    let shifted = DeviceTensor::new(&[&[0; 4], &bytes(&VALUES)[..]].concat());
    let unaligned = GpuAddress { address: shifted.address() + 4, device: 21 };
    let (y, again) = (
        DeviceTensor::new(&[0; 64]),
        bench.load("unaligned", &[("m.mlir", "16")], config(0, &[16], "m.mlir", json!({}))),
    );
    let instance = bench.on(&again, 0);
    let asked = through(&instance, unaligned, &y, 21);
    assert_eq!(
        asked,
        [set, fetched, set, Asked::Copy(Direction::OnDevice, 64), Asked::Synchronize]
    );
    told(&["model 'unaligned': input 'X' is in GPU memory and goes through the host: it is not \
            aligned to 64 bytes"]);
}

#[test]
fn requests_of_a_batch_come_from_and_go_to_the_gpu() {
    let Some(bench) = Bench::new(&[22]) else { return };
    let files = [("b1.mlir", "1x16"), ("b4.mlir", "4x16")];
    let model = bench.load("batched", &files, config(4, &[16], "b1.mlir, b4.mlir", json!({})));
    let instance = bench.on(&model, 0);
    let other: Vec<f32> = VALUES.iter().map(|x| x + 1.0).collect();
    let (x, y) = (DeviceTensor::new(&bytes(&other)), DeviceTensor::new(&[0; 64]));
    let requests = vec![
        request(on_host(&[1, 16], &VALUES), None),
        request(on_gpu(&[1, 16], &other, at(&x, 22)), Some(at(&y, 22))),
    ];
    let answers = answers(&instance, requests);
    assert!(answers.iter().all(|answer| answer.error.is_none()));
    assert_eq!(answers[0].outputs[0].bytes, squares(&VALUES));
    assert_eq!(y.bytes(), squares(&other));
    told(&[
        "model 'batched': output 'Y' was given GPU memory and goes through the host: it is part \
            of a batch",
    ]);
}

#[test]
fn a_copy_that_fails_is_an_error_of_its_request_alone() {
    let Some(bench) = Bench::new(&[23]) else { return };
    let model = bench.load("fails", &[("m.mlir", "16")], config(0, &[16], "m.mlir", json!({})));
    let (instance, runtime) = (bench.on(&model, 0), &bench.gpus[0].1);
    let (x, y) = (DeviceTensor::new(&bytes(&VALUES)), DeviceTensor::new(&[0; 64]));
    let to_gpu = || request(on_host(&[16], &VALUES), Some(at(&y, 3)));
    runtime.refuse(Some(Direction::ToDevice));
    let failed = answer(&instance, to_gpu()).error.unwrap();
    assert!(
        failed.message.contains("model 'fails': output 'Y' cannot be read: copy failed: refused"),
        "{failed}"
    );
    // Within the device it cannot be copied; by way of the host it can.
    runtime.refuse(Some(Direction::OnDevice));
    let sent = request(on_gpu(&[16], &VALUES, at(&x, 23)), Some(at(&y, 23)));
    assert_eq!(answer(&instance, sent).error, None);
    assert_eq!(y.bytes(), squares(&VALUES));
    runtime.refuse(None);
    assert_eq!(answer(&instance, to_gpu()).error, None);
}

#[test]
fn each_gpu_has_a_client_of_its_own() {
    let Some(bench) = Bench::new(&[24, 25]) else { return };
    let model = bench.load("two", &[("m.mlir", "16")], config(0, &[16], "m.mlir", json!({})));
    told(&["model 'two': device 24 ready; ", "model 'two': device 25 ready; "]);
    for gpu in [0, 1] {
        let (client, runtime) = &bench.gpus[gpu];
        let ordinal = i64::from(client.ordinal());
        let instance = bench.on(&model, gpu);
        bench.gpus.iter().for_each(|(_, runtime)| drop(runtime.take()));
        let (x, y) = (DeviceTensor::new(&bytes(&VALUES)), DeviceTensor::new(&[0; 64]));
        let sent = request(on_gpu(&[16], &VALUES, at(&x, ordinal)), Some(at(&y, ordinal)));
        assert_eq!(answer(&instance, sent).error, None);
        assert_eq!(y.bytes(), squares(&VALUES));
        assert_eq!(runtime.take()[0], Asked::SetDevice(client.ordinal()));
        assert_eq!(bench.gpus[1 - gpu].1.take(), [], "the other GPU is left alone");
    }
    let elsewhere = InstanceSetup {
        kind: sys::TRITONSERVER_INSTANCEGROUPKIND_GPU,
        device_id: 7,
        ..Default::default()
    };
    let refused = model.instance(elsewhere).err().unwrap();
    assert!(refused.message.contains("the instance is on GPU 7"), "{refused}");
}

#[test]
fn a_model_on_the_cpu_refuses_gpu_memory_by_name() {
    let Some(mut bench) = Bench::new(&[]) else { return };
    let plugin = Plugin::load(std::env::var_os("TLALOC_PJRT_PLUGIN_PATH").unwrap()).unwrap();
    let client = Client::shared(&plugin, 26, &ClientOptions::default()).unwrap();
    bench.gpus.push((client, Recording::new()));
    let model = bench.load("cpu", &[("m.mlir", "16")], config(0, &[16], "m.mlir", json!({})));
    let instance = bench.on(&model, 0);
    let sent = request(on_gpu(&[16], &VALUES, GpuAddress::NOWHERE), None);
    let refused = answer(&instance, sent).error.unwrap();
    let said = "model 'cpu': input 'X' is in GPU memory of device 0; send it from host memory";
    assert!(refused.message.contains(said), "{refused}");
    let sent = request(on_host(&[16], &VALUES), Some(GpuAddress::NOWHERE));
    let refused = answer(&instance, sent).error.unwrap();
    let said =
        "model 'cpu': output 'Y' is wanted in GPU memory of device 0; take it in host memory";
    assert!(refused.message.contains(said), "{refused}");
    let served = answer(&instance, request(on_host(&[16], &VALUES), None));
    assert_eq!(served.outputs[0].bytes, squares(&VALUES));
}

/// Steps of a language model: inputs where the device reads them, tokens from a GPU, logits to one.
#[test]
fn a_sequence_is_served_from_mapped_inputs_and_gpu_memory() {
    let name = "reference_sequence";
    let upstream = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/upstream");
    let folder = upstream.join("model_repository").join(name);
    if !folder.is_dir() {
        eprintln!("SKIPPED: the artifact {name} is not at {}", folder.display());
        return;
    }
    let recorded = upstream.join("reference/reference_decode.json");
    let recorded: Value =
        serde_json::from_str(&std::fs::read_to_string(recorded).unwrap()).unwrap();
    let Some(bench) = Bench::new(&[27]) else { return };
    let logits = json!([{"name": "LOGITS", "data_type": "TYPE_FP32", "dims": [11]}]);
    let config = support::sequence_config(5, &logits);
    let model = bench.load_from(name, folder, config);
    let runtime = &bench.gpus[0].1;
    runtime.take();
    let instance = bench.on(&model, 0);
    let made = runtime.take();
    assert!(
        matches!(&made[..2], [Asked::SetDevice(27), Asked::Allocate(bytes)] if bytes % 256 == 0),
        "{made:?}"
    );
    assert_eq!(logged("that the device reads in place"), 1);

    for (step, token) in [3_i32, 7, 1, 9].into_iter().enumerate() {
        let tokens = DeviceTensor::new(&token.to_le_bytes());
        let logits = DeviceTensor::new(&[0; 44]);
        runtime.take();
        let answer = answer(
            &instance,
            RequestSetup {
                correlation: Correlation::Number(5),
                start: step == 0,
                end: step == 3,
                inputs: vec![InputSetup {
                    memory: sys::TRITONSERVER_MEMORY_GPU,
                    gpu: at(&tokens, 27),
                    ..InputSetup::int32("TOKENS", &[token])
                }],
                outputs: vec!["LOGITS".to_owned()],
                gpu_outputs: vec![("LOGITS".to_owned(), at(&logits, 27))],
                ..Default::default()
            },
        );
        assert_eq!(answer.error, None);
        let expected = recorded["steps"][step]["outputs"]["logits"]["data"].as_array().unwrap();
        let found = logits.bytes();
        for (found, expected) in found.chunks(4).zip(expected.iter().take(11)) {
            let found = f32::from_le_bytes(found.try_into().unwrap());
            let expected = expected.as_f64().unwrap() as f32;
            assert!((found - expected).abs() < 1e-3, "step {step}: {found} {expected}");
        }
        let order = [
            Asked::SetDevice(27),
            Asked::Copy(Direction::ToHost, 4),
            Asked::SetDevice(27),
            Asked::Copy(Direction::ToDevice, 44),
            Asked::Synchronize,
        ];
        assert_eq!(runtime.take(), order, "nothing but the client's tensors is copied");
    }
}
