//! Each fault, seen through the safe crate.

#![allow(clippy::unwrap_used)] // helpers of tests

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
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
        client(&Plugin::load(library()).unwrap())
    }

    /// The plugin by another path, for which its table is made anew by this plan.
    fn fresh(&self, plan: &str) -> Result<Arc<Plugin>, Error> {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        self.plan(plan);
        let link = self.folder.join(format!("{}.so", COUNT.fetch_add(1, Ordering::Relaxed)));
        std::os::unix::fs::symlink(library(), &link).unwrap();
        Plugin::load(link)
    }

    fn fresh_client(&self, plan: &str) -> Arc<Client> {
        client(&self.fresh(plan).unwrap())
    }

    /// What a plan is to have in it for [`Bench::report`].
    fn reporting(&self, plan: &str) -> String {
        format!("{plan}\nreport {}", self.folder.join("report").display())
    }

    fn report(&self) -> serde_json::Value {
        serde_json::from_slice(&std::fs::read(self.folder.join("report")).unwrap()).unwrap()
    }
}

/// The plugin that this crate builds to, beside the test's own executable.
fn library() -> PathBuf {
    std::env::current_exe().unwrap().with_file_name("libpjrt_fault.so")
}

fn client(plugin: &Arc<Plugin>) -> Arc<Client> {
    Client::shared(plugin, 0, &ClientOptions::default()).unwrap()
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
    const VIEW: &str = "PJRT_Client_CreateViewOfDeviceBuffer";
    const STATS: &str = "PJRT_Executable_GetCompiledMemoryStats";
    for (hidden, views, memory_stats) in [
        (&[VIEW][..], false, true),
        (&["PJRT_Buffer_OpaqueDeviceMemoryDataPointer"], false, true),
        (&[STATS], true, false),
        (&[VIEW, STATS], false, false),
    ] {
        let plan = hidden.iter().map(|function| format!("hide {function}\n"));
        let client = bench.fresh_client(&plan.collect::<String>());
        assert_eq!(client.supports_views(), views, "{hidden:?}");
        let executable = client.compile(DOUBLE).unwrap();
        assert_eq!(executable.memory_stats().is_some(), memory_stats, "{hidden:?}");
        let shape = Shape::new(ElementType::F32, &[4]).unwrap();
        match Staging::new(&client, [shape]) {
            Ok(_) => assert!(views, "{hidden:?}"),
            Err(error) => assert!(matches!(error, Error::NoStaging { .. }) && !views, "{hidden:?}"),
        }
        assert_eq!(upload(&client).unwrap().host_bytes().unwrap().is_some(), views, "{hidden:?}");
        assert_works(&client, &executable);
    }
}

/// Every function that the safe crate calls can be made to fail: none was forgotten in the list.
#[test]
fn every_function_in_use_can_be_refused() {
    let Some(bench) = Bench::new() else { return };
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../safe/src");
    let mut names = std::collections::BTreeSet::new();
    for file in std::fs::read_dir(sources).unwrap() {
        let path = file.unwrap().path();
        let text = if path.is_file() { std::fs::read_to_string(path).unwrap() } else { continue };
        let calls = ["call!(", "entry!("].map(|call| text.split(call).skip(1));
        names.extend(calls.into_iter().flatten().filter_map(|rest| {
            let (before, name) = rest.split_once("PJRT_")?;
            let end = name.find(|c: char| !c.is_alphanumeric() && c != '_')?;
            (before.len() < 40).then(|| format!("PJRT_{}", &name[..end]))
        }));
    }
    assert!(names.len() > 30, "{names:?}");
    for name in names {
        let fault = if name.starts_with("PJRT_Error") { "null" } else { "refuse at 1000000" };
        bench.plan(&format!("{name} {fault}"));
        let uploaded = upload(&bench.client());
        assert!(uploaded.is_ok(), "{name}: {uploaded:?}");
    }
}

#[test]
fn errors_have_the_code_of_the_plan_and_texts_may_be_missing() {
    let Some(bench) = Bench::new() else { return };
    let client = bench.client();
    bench.plan("upload refuse RESOURCE_EXHAUSTED");
    let error = upload(&client).unwrap_err();
    assert_eq!(error.code(), Some(Code::ResourceExhausted));
    bench.plan("upload refuse\nPJRT_Error_Message null\nPJRT_Error_GetCode null");
    let error = upload(&client).unwrap_err();
    assert_eq!(error.code(), Some(Code::Unknown));
    assert!(error.to_string().ends_with("the plugin gave no message"), "{error}");
}

#[test]
fn null_results_are_no_results() {
    let Some(bench) = Bench::new() else { return };
    let client = bench.client();
    let executable = client.compile(DOUBLE).unwrap();
    let nothing = "the plugin returned neither a result nor an error";
    bench.plan("compile null");
    assert!(client.compile(DOUBLE).unwrap_err().to_string().contains(nothing));
    bench.plan("upload null");
    assert!(upload(&client).unwrap_err().to_string().contains(nothing));
    bench.plan("execute null at 1");
    let (outcome, gone) = step(&client, &executable);
    assert!(outcome.unwrap_err().to_string().contains(nothing));
    assert!(!gone, "nothing has run");
    assert_works(&client, &executable);
}

/// Named after zml's issue: an event that is ready and failed was taken for success.
#[test]
fn zml_756_ready_events_that_failed_are_failures() {
    let Some(bench) = Bench::new() else { return };
    let client = bench.client();
    bench.plan("PJRT_Buffer_ReadyEvent fail DATA_LOSS at 1");
    let x = upload(&client).unwrap();
    let error = x.host_bytes().err().unwrap();
    assert_eq!(error.code(), Some(Code::DataLoss));
    assert!(x.host_bytes().is_ok());
    bench.plan("read fail at 2");
    assert!(x.copy_to_host(&mut [0; 16]).is_err(), "the copy behind the question for the size");
    bench.plan("upload fail");
    assert!(upload(&client).is_err());
}

/// Named after zml's issue: one plugin lets a donated buffer be read, another does not.
#[test]
fn zml_748_a_donated_buffer_is_dead() {
    let Some(bench) = Bench::new() else { return };
    let client = bench.client();
    let executable = client.compile(DOUBLE).unwrap();
    bench.plan(&bench.reporting(""));
    let mut x = upload(&client).unwrap();
    let mut pending = executable.execute([Argument::Donate(&mut x)]).unwrap();
    pending.wait().unwrap();
    assert!(x.is_deleted(), "this may be asked");
    let before = bench.report()["misuse"].as_array().unwrap().len();
    let error = x.host_bytes().err().unwrap().to_string();
    let dead = "PJRT_Buffer_ReadyEvent: the Buffer was donated";
    assert!(error.ends_with(dead), "{error}");
    let misuse = bench.report()["misuse"].clone();
    assert_eq!(misuse.as_array().unwrap().len(), before + 1);
    assert_eq!(misuse.as_array().unwrap().last().unwrap(), dead);
    let launched = executable.execute([Argument::Donate(&mut x)]).err().unwrap().to_string();
    assert!(launched.ends_with("PJRT_LoadedExecutable_Execute: the Buffer was donated"));
}

/// Named after the issues of other clients, which never destroyed theirs.
#[test]
fn pytorch_xla_9669_whatever_is_made_is_destroyed() {
    let Some(bench) = Bench::new() else { return };
    bench.plan(&bench.reporting(""));
    upload(&bench.client()).unwrap();
    let nothing: serde_json::Value = serde_json::json!(
        {"Buffer": 0, "Client": 0, "Error": 0, "Event": 0, "Executable": 0, "LoadedExecutable": 0, "Transfer": 0});
    assert_eq!(bench.report()["live"], nothing);
    {
        let client = bench.client();
        let executable = client.compile(DOUBLE).unwrap();
        let _x = upload(&client).unwrap();
        let live = bench.report()["live"].clone();
        assert_eq!((&live["Client"], &live["LoadedExecutable"]), (&1.into(), &1.into()));
        assert_eq!(live["Buffer"], 1);
        bench.plan(&bench.reporting("execute lose at 1\nexecute fail at 2\nread refuse at 1"));
        for _ in 0..3 {
            assert!(step(&client, &executable).0.is_err());
        }
        assert!(client.compile("not a module").is_err());
        assert_eq!(bench.report()["injected"], 3);
        assert_eq!(bench.report()["calls"]["PJRT_LoadedExecutable_Execute"], 3);
    }
    assert_eq!(bench.report()["live"], nothing);
}

#[test]
fn a_plugin_says_what_it_is_told_to() {
    let Some(bench) = Bench::new() else { return };
    let refused = |plan: &str| bench.fresh(plan).err().unwrap().to_string();
    let text = refused("api-version 1.3");
    assert!(text.contains(".so has C API 1.3 and this build needs 0.x"), "{text}");
    assert!(refused("struct-size 20").contains("has C API of a table of 20 bytes"));
    assert!(refused("struct-size 200").contains("without PJRT_Buffer_ToHostBuffer"));
    assert!(refused("PJRT_Plugin_Initialize refuse").contains("PJRT_Plugin_Initialize failed"));
    // Newer plugins of the same major version are served, and those without extensions.
    let client = bench.fresh_client("api-version 0.4000\nhide extensions");
    assert_eq!(client.plugin().api_version(), (0, 4000));
    assert_works(&client, &client.compile(DOUBLE).unwrap());
}

#[test]
fn a_mistyped_plan_is_noticed() {
    let Some(bench) = Bench::new() else { return };
    let client = bench.client();
    bench.plan("execute refuze");
    let text = injected(client.compile(DOUBLE));
    assert!(text.ends_with("pjrt-fault: plan line not understood: execute refuze"), "{text}");
    // The client could not be destroyed.
    bench.plan("");
}
