//! Random schedules through the whole backend, on a plugin whose calls fail by a seed: requests good
//! and bad, cancels, loads and unloads. Whatever fails, each request is answered and released once,
//! nothing panics, no handle of the plugin is misused or left, and the next request is served.
//!
//! ```text
//! TLALOC_SCHEDULES=<count> TLALOC_SCHEDULE_SEED=<seed> cargo test -p triton-tlaloc --test schedules
//! ```
#![allow(clippy::unwrap_used)] // helpers of tests

mod support;

use std::cell::Cell;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};
use serde_json::{Value, json};
use tempfile::TempDir;
use triton_backend::entry_points;
use triton_backend_sys as sys;
use triton_mock_host::{
    Answer, BackendSetup, Correlation, Event, Faults, Host, InputSetup, InstanceSetup,
    LoadedInstance, ModelSetup, RequestSetup, Ticket, live_errors, log_lines,
};
use triton_tlaloc::Tlaloc;

/// Functions that fail: not those that give back, so that what is left is a leak of the backend's.
const FAILING: [&str; 14] = [
    "PJRT_Client_BufferFromHostBuffer",
    "PJRT_Client_CreateViewOfDeviceBuffer",
    "PJRT_Client_Compile",
    "PJRT_Executable_DeserializeAndLoad",
    "PJRT_LoadedExecutable_GetExecutable",
    "PJRT_Executable_NumOutputs",
    "PJRT_Executable_OutputDimensions",
    "PJRT_LoadedExecutable_Execute",
    "PJRT_Event_Await",
    "PJRT_Buffer_ReadyEvent",
    "PJRT_Buffer_OnDeviceSizeInBytes",
    "PJRT_Buffer_IncreaseExternalReferenceCount",
    "PJRT_Buffer_OpaqueDeviceMemoryDataPointer",
    "PJRT_Buffer_IsDeleted",
];

/// One thing that happens.
#[derive(Clone, Debug)]
enum Act {
    /// Requests that Triton hands over together.
    Execute(Vec<Sent>),
    /// The model is unloaded and loaded again.
    Reload,
    /// Calls fail from now on, so many in a hundred.
    Fail { seed: u64, percent: u8 },
}

/// A request, as far as it is drawn.
#[derive(Clone, Debug)]
struct Sent {
    sequence: u64,
    start: bool,
    end: bool,
    values: Vec<i32>,
    /// Of the outputs, by bits.
    outputs: u8,
    cancelled: bool,
    faults: Faults,
}

/// A mode, as far as schedules differ by it.
struct Face {
    model: &'static str,
    config: fn() -> Value,
    request: fn(&Sent) -> RequestSetup,
    /// A request that is always served, on a model that has served nothing yet.
    control: fn() -> RequestSetup,
}

/// Token ids of the reference model, whose vocabulary has 11 and whose pools 5 pages of 2.
const SEQUENCE: Face = Face {
    model: "reference_sequence",
    config: || {
        let output = |name: &str, kind: &str, size: usize| json!({"name": name, "data_type": kind, "dims": [size]});
        support::sequence_config(
            5,
            &json!([
                output("LOGITS", "TYPE_FP32", 11),
                output("KV_PAGES", "TYPE_INT32", 2),
                output("NEXT_TOKEN", "TYPE_INT32", 1)
            ]),
        )
    },
    request: |sent| RequestSetup {
        correlation: Correlation::Number(sent.sequence),
        start: sent.start,
        end: sent.end,
        inputs: vec![InputSetup::int32("TOKENS", &sent.values)],
        outputs: ["LOGITS", "KV_PAGES", "NEXT_TOKEN"]
            .into_iter()
            .zip(0..)
            .filter(|(_, bit)| sent.outputs >> bit & 1 == 1)
            .map(|(name, _)| name.to_owned())
            .collect(),
        faults: sent.faults,
        ..RequestSetup::default()
    },
    control: || RequestSetup {
        correlation: Correlation::Number(99),
        start: true,
        end: true,
        inputs: vec![InputSetup::int32("TOKENS", &[3, 7, 1, 9])],
        outputs: vec!["NEXT_TOKEN".to_owned(), "LOGITS".to_owned()],
        ..RequestSetup::default()
    },
};

/// The gradient of the sum of A A.
const TENSOR: Face = Face {
    model: "grad_batched",
    config: || {
        json!({
            "max_batch_size": 8,
            "input": [{"name": "A", "data_type": "TYPE_FP32", "dims": [2, 2]}],
            "output": [{"name": "GRAD", "data_type": "TYPE_FP32", "dims": [2, 2]}],
            "parameters": {"artifact": {
                "string_value": "grad_b1.mlir, grad_b2.mlir, grad_b4.mlir, grad_b8.mlir"}}
        })
    },
    request: |sent| RequestSetup {
        inputs: vec![matrices(sent.values.len() as i64, if sent.start { 2 } else { 3 })],
        outputs: vec!["GRAD".to_owned()],
        faults: sent.faults,
        ..RequestSetup::default()
    },
    control: || RequestSetup {
        inputs: vec![matrices(3, 2)],
        outputs: vec!["GRAD".to_owned()],
        ..RequestSetup::default()
    },
};

fn matrices(rows: i64, width: i64) -> InputSetup {
    let values = (0..rows * 2 * width).map(|value| value as f32);
    let bytes: Vec<u8> = values.flat_map(f32::to_le_bytes).collect();
    InputSetup {
        data_type: sys::TRITONSERVER_TYPE_FP32,
        shape: vec![rows, 2, width],
        pieces: if bytes.is_empty() { vec![] } else { vec![bytes] },
        ..InputSetup::int32("A", &[])
    }
}

/// The reference model's logits after the tokens 3, 7, 1 and 9, by `Reference` of
/// tests/harness/example_models.py, which is written in numpy.
const EXPECTED: [f32; 11] = [
    0.12024, 0.38160, 1.44692, -0.82592, 0.43097, 2.08337, 0.44369, 0.15141, -0.00952, 0.12828,
    0.12261,
];

/// Whether the control's answer is right, by another way than this backend's.
fn is_right(face: &Face, answer: &Answer) -> bool {
    let found = |name: &str| {
        let output = answer.outputs.iter().find(|output| output.name == name).unwrap();
        let words = output.bytes.as_chunks().0.iter();
        words.map(|word| f32::from_le_bytes(*word)).collect::<Vec<_>>()
    };
    if face.model == "grad_batched" {
        // The gradient of sum(A A) at i, j is the sum of row j and of column i.
        let expected = (0..12).map(|place| {
            let (row, i, j) = (place / 4, place / 2 % 2, place % 2);
            let a = |i: i32, j: i32| (4 * row + 2 * i + j) as f32;
            a(j, 0) + a(j, 1) + a(0, i) + a(1, i)
        });
        return found("GRAD") == expected.collect::<Vec<_>>();
    }
    let found = found("LOGITS");
    let near = |(found, expected): (&f32, &f32)| (found - expected).abs() < 1e-3;
    found.len() == EXPECTED.len() && found.iter().zip(&EXPECTED).all(near)
}

struct Bench {
    folder: TempDir,
    host: Host,
    plugin: PathBuf,
    /// Requests of the schedules that got an answer, and that got an error.
    served: Cell<usize>,
    failed: Cell<usize>,
}

impl Bench {
    fn new() -> Option<Self> {
        let Some(target) = std::env::var_os("TLALOC_PJRT_PLUGIN_PATH") else {
            eprintln!("SKIPPED: TLALOC_PJRT_PLUGIN_PATH names no PJRT plugin");
            return None;
        };
        let folder = TempDir::new().unwrap();
        // SAFETY: only C code reads the environment without the standard library's lock, and none
        // runs yet: the one test of this process makes one of these.
        unsafe {
            std::env::set_var("PJRT_FAULT_TARGET", target);
            std::env::set_var("PJRT_FAULT_PLAN", folder.path().join("plan"));
        }
        let cache = folder.path().join("programs");
        let config = json!({"cmdline": {"compile-cache-dir": cache}}).to_string();
        let setup = BackendSetup { config, ..BackendSetup::default() };
        let host = Host::start(entry_points::<Tlaloc>(), setup).unwrap();
        let plugin = std::env::current_exe().unwrap().with_file_name("libpjrt_fault.so");
        Some(Bench { folder, host, plugin, served: Cell::new(0), failed: Cell::new(0) })
    }

    fn report_path(&self) -> PathBuf {
        self.folder.path().join("report")
    }

    /// What is to fail; nothing where it is empty.
    fn plan(&self, lines: &str) {
        let path = self.folder.path().join("plan");
        let text = format!("report {}\n{lines}", self.report_path().display());
        let partial = path.with_extension("new");
        std::fs::write(&partial, text).unwrap();
        std::fs::rename(partial, path).unwrap();
    }

    fn load(&self, face: &Face) -> Option<LoadedInstance> {
        let mut config = (face.config)();
        config["parameters"]["pjrt_plugin_path"] = json!({"string_value": self.plugin});
        config["instance_group"] = json!([{"kind": "KIND_MODEL", "count": 1}]);
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../model-repository");
        let model = self.host.load(ModelSetup {
            name: face.model.to_owned(),
            repository: repository.join(face.model),
            config: config.to_string(),
            ..ModelSetup::default()
        });
        model.ok()?.instance(InstanceSetup::default()).ok()
    }

    /// Loads while nothing fails, which must succeed.
    fn load_in_peace(&self, face: &Face) -> LoadedInstance {
        self.plan("");
        self.load(face).unwrap()
    }

    fn control(&self, face: &Face, instance: &LoadedInstance) -> Answer {
        let tickets = instance.execute(vec![(face.control)()]).unwrap();
        let answered = tickets[0].wait().into_iter().find_map(|event| match event {
            Event::Answered(answer) => Some(answer),
            _ => None,
        });
        answered.unwrap()
    }

    /// Runs a schedule; what the control gives at its end.
    fn run(&self, face: &Face, acts: &[Act]) -> Result<Answer, TestCaseError> {
        let mut instance = Some(self.load_in_peace(face));
        let mut tickets = Vec::new();
        for act in acts {
            match act {
                Act::Fail { seed, percent } => {
                    let lines = FAILING.map(|f| format!("{f} refuse chance {percent}%\n")).concat();
                    let more = format!(
                        "seed {seed}\nexecute lose chance 2%\nexecute fail chance 2%\n{lines}"
                    );
                    self.plan(&more);
                }
                Act::Reload => {
                    drop(instance.take());
                    instance = self.load(face).or_else(|| Some(self.load_in_peace(face)));
                }
                Act::Execute(sent) => {
                    let Some(instance) = &instance else { continue };
                    let setups = sent.iter().map(face.request).collect();
                    let executed = instance.execute(setups);
                    let executed = executed.map_err(|error| TestCaseError::fail(error.message))?;
                    for (sent, ticket) in sent.iter().zip(executed) {
                        if sent.cancelled {
                            ticket.cancel();
                        }
                        tickets.push((sent.faults, ticket));
                    }
                }
            }
        }
        for (faults, ticket) in &tickets {
            once(*faults, ticket)?;
            for event in ticket.wait() {
                if let Event::Answered(answer) = event {
                    let told = if answer.error.is_some() { &self.failed } else { &self.served };
                    told.set(told.get() + 1);
                }
            }
        }
        self.plan("");
        // The first may find that the pools are to be zeroed still, and that this fails no more.
        drop(instance);
        let instance = self.load_in_peace(face);
        let answer = self.control(face, &instance);
        drop(instance);
        Ok(answer)
    }
}

/// The request was answered once, released once, and not touched after.
fn once(faults: Faults, ticket: &Ticket) -> Result<(), TestCaseError> {
    let events = ticket.wait();
    let count = |wanted: fn(&Event) -> bool| events.iter().filter(|event| wanted(event)).count();
    let answers = count(|event| matches!(event, Event::Answered(_) | Event::SendFailed));
    let releases = count(|event| matches!(event, Event::Released | Event::ReleaseRefused));
    prop_assert_eq!(answers, usize::from(!faults.response_new), "{:?}", &events);
    prop_assert_eq!(releases, 1, "{:?}", &events);
    prop_assert_eq!(count(|event| matches!(event, Event::Misused(_))), 0, "{:?}", &events);
    prop_assert!(count(|event| matches!(event, Event::Reported { .. })) <= 1, "{:?}", &events);
    prop_assert_eq!(ticket.live_responses(), 0);
    Ok(())
}

fn sent() -> impl Strategy<Value = Sent> {
    let fault = || proptest::bool::weighted(0.05);
    let faults = (fault(), fault(), fault(), fault(), fault()).prop_map(
        |(response_new, output, buffer, send, report)| Faults {
            response_new,
            output,
            buffer,
            send,
            report,
            ..Faults::default()
        },
    );
    let values = prop::collection::vec(-1..12, 0..6);
    let rare = proptest::bool::weighted(0.3);
    (0..5_u64, any::<bool>(), rare, values, 0..8_u8, proptest::bool::weighted(0.2), faults)
        .prop_map(|(sequence, start, end, values, outputs, cancelled, faults)| Sent {
            sequence,
            start,
            end,
            values,
            outputs,
            cancelled,
            faults,
        })
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        8 => prop::collection::vec(sent(), 1..5).prop_map(Act::Execute),
        1 => Just(Act::Reload),
        2 => (any::<u64>(), 0..20_u8).prop_map(|(seed, percent)| Act::Fail { seed, percent }),
    ];
    prop::collection::vec(act, 1..12)
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().unwrap())
}

fn schedules(bench: &Bench, face: &Face, seed: u64) {
    let bytes: Vec<u8> = seed.to_le_bytes().into_iter().cycle().take(32).collect();
    let config = ProptestConfig {
        cases: u32::try_from(number("TLALOC_SCHEDULES", 30)).unwrap(),
        failure_persistence: None,
        max_shrink_iters: 200,
        ..ProptestConfig::default()
    };
    let mut runner =
        TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let first = bench.run(face, &[]).unwrap();
    assert_eq!(first.error, None);
    assert!(is_right(face, &first), "{first:?}");
    runner
        .run(&acts(), |acts| {
            let answer = bench.run(face, &acts)?;
            prop_assert_eq!(&answer, &first);
            let report = std::fs::read_to_string(bench.report_path()).unwrap();
            let report: Value = serde_json::from_str(&report).unwrap();
            let live: u64 =
                report["live"].as_object().unwrap().values().flat_map(Value::as_u64).sum();
            prop_assert_eq!(live, 0, "{}", report);
            prop_assert_eq!(&report["misuse"], &json!([]));
            Ok(())
        })
        .unwrap();
}

#[test]
fn every_request_is_answered_and_released_once_whatever_fails() {
    let Some(bench) = Bench::new() else { return };
    let seed = number("TLALOC_SCHEDULE_SEED", 0x7_1a10c);
    println!("TLALOC_SCHEDULE_SEED={seed}");
    schedules(&bench, &SEQUENCE, seed);
    schedules(&bench, &TENSOR, seed);
    // Control: schedules in which nothing fails, or everything does, would prove nothing.
    assert!(bench.served.get() > 0 && bench.failed.get() > 0);
    let panicked = log_lines().iter().filter(|line| line.message.contains("panicked")).count();
    assert_eq!(panicked, 0);
    drop(bench);
    assert_eq!(live_errors(), 0);
}
