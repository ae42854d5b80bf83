//! Each fault, seen through the safe crate.

#![allow(clippy::unwrap_used)] // helpers of tests

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use tlaloc_pjrt::{
    Argument, Buffer, Client, ClientOptions, Code, ElementType, Error, Executable, Plugin, Shape,
    Staging,
};

/// One plan steers the process, so one test runs at a time.
static TURN: Mutex<()> = Mutex::new(());

struct Bench {
    _turn: MutexGuard<'static, ()>,
    folder: &'static Path,
}

impl Bench {
    /// Waits for this test's turn, with an empty plan; skips by name where there is no real plugin.
    fn new() -> Option<Self> {
        static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
        let Some(target) = std::env::var_os("TLALOC_PJRT_PLUGIN_PATH") else {
            eprintln!(
                "SKIPPED: TLALOC_PJRT_PLUGIN_PATH names no PJRT plugin (scripts/setup.sh --env)"
            );
            return None;
        };
        let turn = TURN.lock();
        let folder = FOLDER.get_or_init(|| {
            let folder = tempfile::tempdir().unwrap();
            // SAFETY: only C code reads the environment without the standard library's lock, and none
            // runs before the first test has come past here.
            unsafe {
                std::env::set_var("PJRT_FAULT_TARGET", target);
                std::env::set_var("PJRT_FAULT_PLAN", folder.path().join("plan"));
            }
            folder
        });
        let bench = Self { _turn: turn, folder: folder.path() };
        bench.plan("");
        Some(bench)
    }

    fn plan(&self, text: &str) {
        std::fs::write(self.folder.join("plan"), text).unwrap();
    }

    fn client(&self) -> Arc<Client> {
        client(&library())
    }

    /// A client of a fresh copy of the plugin, which reads the plan when it is loaded.
    fn fresh_client(&self, plan: &str) -> Arc<Client> {
        self.plan(plan);
        let copy = self.folder.join(format!("{}.so", plan.replace([' ', '\n'], "-")));
        std::fs::copy(library(), &copy).unwrap();
        client(&copy)
    }
}

/// The plugin that this crate builds to, beside the test's own executable.
fn library() -> PathBuf {
    std::env::current_exe().unwrap().with_file_name("libpjrt_fault.so")
}

fn client(path: &Path) -> Arc<Client> {
    Client::shared(&Plugin::load(path).unwrap(), 0, &ClientOptions::default()).unwrap()
}

/// Doubles four f32 in place.
const DOUBLE: &str = "module {
  func.func public @main(%x: tensor<4xf32> {tf.aliasing_output = 0 : i32}) -> tensor<4xf32> {
    %y = stablehlo.add %x, %x : tensor<4xf32>
    return %y : tensor<4xf32> } }";

fn upload(client: &Arc<Client>) -> Result<Buffer, Error> {
    let bytes: Vec<u8> = [1.0_f32, 2.0, 3.0, 4.0].into_iter().flat_map(f32::to_ne_bytes).collect();
    client.upload(ElementType::F32, &[4], &bytes)
}

/// Runs once on a fresh donated input: the outcome, and whether the input is gone.
fn step(client: &Arc<Client>, executable: &Executable) -> (Result<Vec<f32>, Error>, bool) {
    let mut x = upload(client).unwrap();
    let outcome = executable.execute([Argument::Donate(&mut x)]).and_then(|mut pending| {
        pending.wait()?;
        let mut bytes = [0; 16];
        pending.take(0).unwrap().copy_to_host(&mut bytes)?;
        Ok(bytes.as_chunks().0.iter().map(|&chunk| f32::from_ne_bytes(chunk)).collect())
    });
    (outcome, x.is_deleted())
}

fn assert_works(client: &Arc<Client>, executable: &Executable) {
    let (outcome, gone) = step(client, executable);
    assert_eq!(outcome.unwrap(), [2.0, 4.0, 6.0, 8.0]);
    assert!(gone);
}

/// The text of an error that this plugin made.
fn injected<T>(outcome: Result<T, Error>) -> String {
    let error = outcome.err().unwrap();
    assert_eq!(error.code(), Some(Code::Internal));
    error.to_string()
}

#[test]
fn without_a_plan_everything_passes_through() {
    let Some(bench) = Bench::new() else { return };
    let client = bench.client();
    assert_eq!(client.platform_name(), "cpu");
    assert!(client.supports_views());
    let executable = client.compile(DOUBLE).unwrap();
    assert_eq!(executable.memory_stats().unwrap().alias, 16);
    assert_works(&client, &executable);
    // The real plugin's own errors too.
    let error = client.compile("not a module").unwrap_err().to_string();
    assert!(!error.contains("pjrt-fault"), "{error}");
}

#[test]
fn a_refused_launch_takes_nothing() {
    let Some(bench) = Bench::new() else { return };
    let client = bench.client();
    let executable = client.compile(DOUBLE).unwrap();
    bench.plan("execute refuse at 2");
    assert_works(&client, &executable);
    let (outcome, gone) = step(&client, &executable);
    assert_eq!(injected(outcome), "PJRT_LoadedExecutable_Execute failed: pjrt-fault: refused");
    assert!(!gone);
    assert_works(&client, &executable);
}

#[test]
fn a_lost_launch_takes_the_donated_buffers() {
    let Some(bench) = Bench::new() else { return };
    let client = bench.client();
    let executable = client.compile(DOUBLE).unwrap();
    bench.plan("execute lose at 1");
    let (outcome, gone) = step(&client, &executable);
    assert_eq!(
        injected(outcome),
        "PJRT_LoadedExecutable_Execute failed: pjrt-fault: launched and lost"
    );
    assert!(gone);
    assert_works(&client, &executable);
}

#[test]
fn a_failed_execution_shows_when_it_is_awaited() {
    let Some(bench) = Bench::new() else { return };
    let client = bench.client();
    let executable = client.compile(DOUBLE).unwrap();
    bench.plan("execute fail at 1");
    let mut x = upload(&client).unwrap();
    let mut pending = executable.execute([Argument::Donate(&mut x)]).unwrap();
    let text = "execution failed: pjrt-fault: execution failed";
    assert_eq!(injected(pending.wait()), text);
    assert_eq!(injected(pending.wait()), text, "the second wait forgets");
    assert!(x.is_deleted());
    drop(pending);
    assert_works(&client, &executable);
}

#[test]
fn compiling_uploading_and_reading_fail() {
    let Some(bench) = Bench::new() else { return };
    let client = bench.client();
    let executable = client.compile(DOUBLE).unwrap();
    bench.plan("compile refuse\nupload refuse at 2\nread refuse at 1");
    let compiled = client.compile(DOUBLE);
    assert_eq!(injected(compiled), "PJRT_Client_Compile failed: pjrt-fault: refused");
    let (outcome, _) = step(&client, &executable);
    assert_eq!(injected(outcome), "PJRT_Buffer_ToHostBuffer failed: pjrt-fault: refused");
    let uploaded = upload(&client);
    assert_eq!(injected(uploaded), "PJRT_Client_BufferFromHostBuffer failed: pjrt-fault: refused");
    assert_works(&client, &executable);
}

#[test]
fn a_launch_is_delayed() {
    let Some(bench) = Bench::new() else { return };
    let client = bench.client();
    let executable = client.compile(DOUBLE).unwrap();
    let time = || {
        let start = Instant::now();
        assert_works(&client, &executable);
        start.elapsed()
    };
    let delay = Duration::from_millis(300);
    bench.plan("execute delay 300 at 2");
    assert!(time() < delay);
    assert!(time() >= delay);
}

#[test]
fn hidden_functions_are_done_without() {
    let Some(bench) = Bench::new() else { return };
    for (plan, views, memory_stats) in [
        ("hide views", false, true),
        ("hide pointers", false, true),
        ("hide memory-stats", true, false),
        ("hide views\nhide memory-stats", false, false),
    ] {
        let client = bench.fresh_client(plan);
        assert_eq!(client.supports_views(), views, "{plan}");
        let executable = client.compile(DOUBLE).unwrap();
        assert_eq!(executable.memory_stats().is_some(), memory_stats, "{plan}");
        let shape = Shape::new(ElementType::F32, &[4]).unwrap();
        match Staging::new(&client, [shape]) {
            Ok(_) => assert!(views, "{plan}"),
            Err(error) => assert!(matches!(error, Error::NoStaging { .. }) && !views, "{plan}"),
        }
        assert_eq!(upload(&client).unwrap().host_bytes().unwrap().is_some(), views, "{plan}");
        assert_works(&client, &executable);
    }
}

#[test]
fn a_mistyped_plan_is_noticed() {
    let Some(bench) = Bench::new() else { return };
    let client = bench.client();
    bench.plan("execute refuze");
    let text = injected(client.compile(DOUBLE));
    assert!(text.ends_with("pjrt-fault: plan line not understood: execute refuze"), "{text}");
}
