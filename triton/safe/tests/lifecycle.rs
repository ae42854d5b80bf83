//! Start, load, failure and end, as a server sees them.

#![allow(clippy::unwrap_used)] // helpers of tests

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use triton_backend::{
    Backend, BackendContext, Code, Error, Instance, InstanceContext, InstanceKind, Memory,
    MemoryUsage, ModelContext, Requests, Times, config_integer, entry_points, export_backend,
};
use triton_backend_sys as sys;
use triton_mock_host::{BackendSetup, Failure, Host, InstanceSetup, ModelSetup, RequestSetup};

/// What a value of [`Fickle`]'s is counted with while it lives.
struct Counted(&'static AtomicUsize);

impl Counted {
    fn new(counter: &'static AtomicUsize) -> Self {
        counter.fetch_add(1, Ordering::SeqCst);
        Counted(counter)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Fails, panics or works as a model's `fail` says: in `load`, in `instance`, as `panic load`, …
struct Fickle;

struct FickleModel {
    fail: String,
    _alive: Counted,
}

struct FickleInstance {
    fail: String,
    instance: Instance,
    _alive: Counted,
}

static MODELS: AtomicUsize = AtomicUsize::new(0);
static INSTANCES: AtomicUsize = AtomicUsize::new(0);
/// Tests count the same models.
static ALONE: Mutex<()> = Mutex::new(());

fn fail(wanted: &str, here: &str) -> Result<(), Error> {
    assert!(wanted != format!("panic {here}"), "panicked in {here}");
    match wanted == here {
        true => Err(Error::not_found(format!("no {here}"))),
        false => Ok(()),
    }
}

impl Backend for Fickle {
    type Model = FickleModel;
    type Instance = FickleInstance;

    const PREFERRED_KINDS: &'static [InstanceKind] = &[InstanceKind::Model, InstanceKind::Cpu];

    fn initialize(context: &BackendContext) -> Result<Self, Error> {
        assert_eq!(context.directory().to_str(), Some("/backends/mock"));
        fail(context.config()["cmdline"]["fail"].as_str().unwrap_or_default(), "start")?;
        Ok(Fickle)
    }

    fn load(&self, context: &ModelContext) -> Result<FickleModel, Error> {
        let alive = Counted::new(&MODELS);
        let wanted = context.config()["fail"].as_str().unwrap_or_default().to_owned();
        fail(&wanted, "load")?;
        Ok(FickleModel { fail: wanted, _alive: alive })
    }

    fn memory_usage(_: &FickleModel) -> Vec<MemoryUsage> {
        vec![MemoryUsage { memory: Memory::Gpu, device: 2, byte_size: 7 }]
    }

    fn create_instance(
        model: &Arc<FickleModel>,
        context: &InstanceContext,
    ) -> Result<FickleInstance, Error> {
        let alive = Counted::new(&INSTANCES);
        fail(&model.fail, "instance")?;
        Ok(FickleInstance { fail: model.fail.clone(), instance: context.instance(), _alive: alive })
    }

    fn execute(instance: &FickleInstance, requests: Requests<'_>) {
        *KEPT.lock().unwrap() = Some(instance.instance.clone());
        fail(&instance.fail, "execute").unwrap();
        requests.for_each(|request| drop(request.respond(|_| Ok(()))));
    }

    fn ready(instance: &FickleInstance) -> Result<(), Error> {
        fail(&instance.fail, "ready")
    }
}

impl Drop for FickleInstance {
    fn drop(&mut self) {
        fail(&self.fail, "drop").unwrap();
    }
}

static KEPT: Mutex<Option<Instance>> = Mutex::new(None);

fn start() -> Host {
    Host::start(entry_points::<Fickle>(), BackendSetup::default()).unwrap()
}

fn failing(what: &str) -> ModelSetup {
    ModelSetup { config: format!(r#"{{"fail":"{what}"}}"#), ..ModelSetup::default() }
}

fn failure(code: u32, message: &str) -> Failure {
    Failure { code, message: message.to_owned() }
}

fn alive() -> (usize, usize) {
    (MODELS.load(Ordering::SeqCst), INSTANCES.load(Ordering::SeqCst))
}

#[test]
fn only_servers_of_the_same_major_and_no_smaller_minor_version_will_do() {
    let built = (sys::TRITONBACKEND_API_VERSION_MAJOR, sys::TRITONBACKEND_API_VERSION_MINOR);
    assert_eq!(built, (1, 19));
    let start = |api_version| {
        let setup = BackendSetup { api_version, ..BackendSetup::default() };
        Host::start(entry_points::<Fickle>(), setup).map(drop)
    };
    assert_eq!(start((1, 19)), Ok(()));
    assert_eq!(start((1, 20)), Ok(()));
    for (major, minor) in [(1, 18), (2, 19), (0, 20)] {
        let message = format!(
            "the server's TRITONBACKEND API is {major}.{minor}, the backend needs 1.19 or a later \
             1.x: run a server of that release or later"
        );
        assert_eq!(
            start((major, minor)),
            Err(failure(sys::TRITONSERVER_ERROR_UNSUPPORTED, &message))
        );
    }
}

#[test]
fn a_backend_that_does_not_start_says_why() {
    let start = |what| {
        let config = format!(r#"{{"cmdline":{{"fail":"{what}"}}}}"#);
        let setup = BackendSetup { config, ..BackendSetup::default() };
        Host::start(entry_points::<Fickle>(), setup).map(drop)
    };
    assert_eq!(start("nothing"), Ok(()));
    assert_eq!(start("start"), Err(failure(sys::TRITONSERVER_ERROR_NOT_FOUND, "no start")));
    let panicked = "the backend panicked in TRITONBACKEND_Initialize: panicked in start";
    assert_eq!(start("panic start"), Err(failure(sys::TRITONSERVER_ERROR_INTERNAL, panicked)));

    let setup = BackendSetup { config: "{".to_owned(), ..BackendSetup::default() };
    let failure = Host::start(entry_points::<Fickle>(), setup).map(drop).unwrap_err();
    assert!(failure.message.starts_with("the backend configuration is not JSON: EOF"));
}

#[test]
fn preferred_groups_are_single_instances_in_order() {
    let groups = [
        (sys::TRITONSERVER_INSTANCEGROUPKIND_MODEL, 1),
        (sys::TRITONSERVER_INSTANCEGROUPKIND_CPU, 1),
    ];
    assert_eq!(start().preferred_groups(), groups);
}

#[test]
fn whatever_fails_leaves_nothing_behind_and_the_next_load_works() {
    let _alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let host = start();
    let internal = sys::TRITONSERVER_ERROR_INTERNAL;
    let not_found = sys::TRITONSERVER_ERROR_NOT_FOUND;

    let load = |what| host.load(failing(what)).map(drop);
    assert_eq!(load("load"), Err(failure(not_found, "no load")));
    let panicked = "the backend panicked in TRITONBACKEND_ModelInitialize: panicked in load";
    assert_eq!(load("panic load"), Err(failure(internal, panicked)));
    let setup = ModelSetup { config: "no".to_owned(), ..ModelSetup::default() };
    let told = host.load(setup).map(drop).unwrap_err();
    assert!(told.message.starts_with("the model configuration is not JSON: "));
    assert_eq!(alive(), (0, 0));

    for (what, code, message) in [
        ("instance", not_found, "no instance"),
        (
            "panic instance",
            internal,
            "the backend panicked in TRITONBACKEND_ModelInstanceInitialize: panicked in instance",
        ),
    ] {
        let model = host.load(failing(what)).unwrap();
        let created = model.instance(InstanceSetup::default()).map(drop);
        assert_eq!(created, Err(failure(code, message)));
        assert_eq!(alive(), (1, 0));
        drop(model);
        assert_eq!(alive(), (0, 0));
    }

    let model = host.load(ModelSetup::default()).unwrap();
    let instance = model.instance(InstanceSetup::default()).unwrap();
    assert_eq!(model.live_messages(), 0);
    assert_eq!(alive(), (1, 1));
    let tickets = instance.execute(vec![RequestSetup::default(); 3]).unwrap();
    assert!(tickets.iter().all(|ticket| ticket.wait().len() == 2));
    drop(model);
    assert_eq!(alive(), (1, 1), "the instance keeps its model");
    drop(instance);
    assert_eq!(alive(), (0, 0));
}

#[test]
fn a_handle_that_outlives_its_instance_reports_nothing() {
    let _alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let host = start();
    // The second instance panics as it is dropped; it is gone nevertheless.
    for what in ["nothing", "panic drop"] {
        let model = host.load(failing(what)).unwrap();
        let instance = model.instance(InstanceSetup::default()).unwrap();
        let tickets = instance.execute(vec![RequestSetup::default()]).unwrap();
        assert_eq!(tickets[0].wait().len(), 2);
        let kept = KEPT.lock().unwrap().clone().unwrap();
        let usage = MemoryUsage { memory: Memory::Cpu, device: 0, byte_size: 64 };
        let reports = instance.reports();
        kept.report_batch(5, Times::default());
        assert_eq!((reports.batches().len(), reports.memory_usage().len()), (1, 0));
        drop(instance);
        kept.report_batch(5, Times::default());
        kept.report_memory_usage(&[usage]);
        assert_eq!((reports.batches().len(), reports.memory_usage().len()), (1, 0));
        drop(model);
        assert_eq!(alive(), (0, 0));
    }
}

#[test]
fn contexts_say_what_the_server_said() {
    struct Attentive;
    static SEEN: Mutex<Vec<String>> = Mutex::new(Vec::new());
    impl Backend for Attentive {
        type Model = ();
        type Instance = ();
        fn initialize(context: &BackendContext) -> Result<Self, Error> {
            SEEN.lock().unwrap().push(format!("{} {}", context.name(), context.config()));
            Ok(Attentive)
        }
        fn load(&self, context: &ModelContext) -> Result<(), Error> {
            SEEN.lock().unwrap().push(format!(
                "{} {} {} {} {} {:?}",
                context.name(),
                context.version(),
                context.repository().display(),
                context.version_directory().display(),
                context.auto_complete(),
                config_integer(&context.config()["idle"]),
            ));
            Ok(())
        }
        fn create_instance(_: &Arc<()>, context: &InstanceContext) -> Result<(), Error> {
            SEEN.lock().unwrap().push(format!(
                "{} {:?} {} {}",
                context.name(),
                context.kind(),
                context.device_id(),
                context.host_policy(),
            ));
            Ok(())
        }
        fn execute((): &(), _: Requests<'_>) {}
    }
    let setup = BackendSetup {
        name: "attentive".to_owned(),
        config: r#"{"cmdline":{"a":"b"}}"#.to_owned(),
        ..BackendSetup::default()
    };
    let host = Host::start(entry_points::<Attentive>(), setup).unwrap();
    let setup = ModelSetup {
        name: "m".to_owned(),
        version: 12,
        repository: "/r/m".into(),
        config: r#"{"idle":"60000000"}"#.to_owned(),
        auto_complete: false,
    };
    let setup_gpu = InstanceSetup {
        name: "m_0_gpu1".to_owned(),
        kind: sys::TRITONSERVER_INSTANCEGROUPKIND_GPU,
        device_id: 1,
    };
    drop(host.load(setup).unwrap().instance(setup_gpu).unwrap());
    assert_eq!(
        *SEEN.lock().unwrap(),
        [
            r#"attentive {"cmdline":{"a":"b"}}"#,
            "m 12 /r/m /r/m/12 false Some(60000000)",
            r#"m_0_gpu1 Gpu 1 {"mock":{}}"#,
        ]
    );
}

#[test]
fn a_configuration_is_completed_where_the_server_lets_it_be() {
    struct Completing;
    impl Backend for Completing {
        type Model = i64;
        type Instance = ();
        fn initialize(_: &BackendContext) -> Result<Self, Error> {
            Ok(Completing)
        }
        fn complete_config(&self, context: &ModelContext) -> Option<serde_json::Value> {
            let mut config = context.config().clone();
            let missing = config.get("size").is_none();
            config["size"] = 7.into();
            missing.then_some(config)
        }
        fn load(&self, context: &ModelContext) -> Result<i64, Error> {
            let size = context.config().get("size").and_then(config_integer);
            size.ok_or_else(|| Error::invalid_argument("no size"))
        }
        fn create_instance(_: &Arc<i64>, _: &InstanceContext) -> Result<(), Error> {
            Ok(())
        }
        fn execute((): &(), _: Requests<'_>) {}
    }
    let host = Host::start(entry_points::<Completing>(), BackendSetup::default()).unwrap();
    let load = |config: &str, auto_complete| {
        host.load(ModelSetup { config: config.to_owned(), auto_complete, ..ModelSetup::default() })
    };
    let completed = load(r#"{"name":"m"}"#, true).unwrap();
    assert_eq!(completed.config(), r#"{"name":"m","size":7}"#);
    assert_eq!(completed.live_messages(), 0);
    assert_eq!(load(r#"{"size":3}"#, true).unwrap().config(), r#"{"size":3}"#);
    assert!(load("{}", false).is_err());
}

#[test]
fn integers_of_a_configuration_are_numbers_or_text() {
    let integer = |json: &str| config_integer(&serde_json::from_str(json).unwrap());
    assert_eq!(integer("\"-9223372036854775808\""), Some(i64::MIN));
    assert_eq!(integer("8"), Some(8));
    assert_eq!(integer("8.5"), None);
    assert_eq!(integer("\"\""), None);
    assert_eq!(integer("null"), None);
}

#[test]
fn an_error_has_its_code_and_message_at_the_server() {
    struct Codes;
    impl Backend for Codes {
        type Model = ();
        type Instance = ();
        fn initialize(context: &BackendContext) -> Result<Self, Error> {
            let codes = [
                Code::Unknown,
                Code::Internal,
                Code::NotFound,
                Code::InvalidArgument,
                Code::Unavailable,
                Code::Unsupported,
                Code::AlreadyExists,
                Code::Cancelled,
            ];
            let code = config_integer(&context.config()["code"]).unwrap();
            Err(Error::new(codes[code as usize], "zero \0 byte"))
        }
        fn load(&self, _: &ModelContext) -> Result<(), Error> {
            Ok(())
        }
        fn create_instance(_: &Arc<()>, _: &InstanceContext) -> Result<(), Error> {
            Ok(())
        }
        fn execute((): &(), _: Requests<'_>) {}
    }
    // The header counts the codes from 0 in this order.
    for code in 0..8 {
        let setup =
            BackendSetup { config: format!(r#"{{"code":{code}}}"#), ..BackendSetup::default() };
        let told = Host::start(entry_points::<Codes>(), setup).map(drop);
        assert_eq!(told, Err(failure(code, "zero   byte")));
    }
}

export_backend!(Fickle);

/// The symbols that a server looks for.
#[test]
fn the_exported_functions_are_the_backends() {
    unsafe extern "C" {
        fn TRITONBACKEND_Initialize(
            _: *mut sys::TRITONBACKEND_Backend,
        ) -> *mut sys::TRITONSERVER_Error;
        fn TRITONBACKEND_Finalize(
            _: *mut sys::TRITONBACKEND_Backend,
        ) -> *mut sys::TRITONSERVER_Error;
        fn TRITONBACKEND_GetBackendAttribute(
            _: *mut sys::TRITONBACKEND_Backend,
            _: *mut sys::TRITONBACKEND_BackendAttribute,
        ) -> *mut sys::TRITONSERVER_Error;
        fn TRITONBACKEND_ModelInitialize(
            _: *mut sys::TRITONBACKEND_Model,
        ) -> *mut sys::TRITONSERVER_Error;
        fn TRITONBACKEND_ModelFinalize(
            _: *mut sys::TRITONBACKEND_Model,
        ) -> *mut sys::TRITONSERVER_Error;
        fn TRITONBACKEND_ModelInstanceInitialize(
            _: *mut sys::TRITONBACKEND_ModelInstance,
        ) -> *mut sys::TRITONSERVER_Error;
        fn TRITONBACKEND_ModelInstanceFinalize(
            _: *mut sys::TRITONBACKEND_ModelInstance,
        ) -> *mut sys::TRITONSERVER_Error;
        fn TRITONBACKEND_ModelInstanceExecute(
            _: *mut sys::TRITONBACKEND_ModelInstance,
            _: *mut *mut sys::TRITONBACKEND_Request,
            _: u32,
        ) -> *mut sys::TRITONSERVER_Error;
        fn TRITONBACKEND_ModelInstanceReady(
            _: *mut sys::TRITONBACKEND_ModelInstance,
        ) -> *mut sys::TRITONSERVER_Error;
    }
    let _alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let entry = sys::EntryPoints {
        initialize: TRITONBACKEND_Initialize,
        finalize: TRITONBACKEND_Finalize,
        get_backend_attribute: TRITONBACKEND_GetBackendAttribute,
        model_initialize: TRITONBACKEND_ModelInitialize,
        model_finalize: TRITONBACKEND_ModelFinalize,
        model_instance_initialize: TRITONBACKEND_ModelInstanceInitialize,
        model_instance_finalize: TRITONBACKEND_ModelInstanceFinalize,
        model_instance_execute: TRITONBACKEND_ModelInstanceExecute,
        model_instance_ready: TRITONBACKEND_ModelInstanceReady,
    };
    let host = Host::start(entry, BackendSetup::default()).unwrap();
    assert_eq!(host.preferred_groups().len(), 2);
    let instance =
        host.load(ModelSetup::default()).unwrap().instance(InstanceSetup::default()).unwrap();
    let tickets = instance.execute(vec![RequestSetup::default()]).unwrap();
    assert_eq!(tickets[0].wait().len(), 2);
    drop((instance, host));
    assert_eq!(alive(), (0, 0));
}

#[test]
fn an_instance_says_whether_it_can_serve() {
    let _alone = ALONE.lock().unwrap();
    let host = start();
    let ready = |what: &str| {
        let model = host.load(failing(what)).unwrap();
        model.instance(InstanceSetup::default()).unwrap().ready()
    };
    assert_eq!(ready(""), Ok(()));
    assert_eq!(ready("ready"), Err(failure(sys::TRITONSERVER_ERROR_NOT_FOUND, "no ready")));
    let panicked = "the backend panicked in TRITONBACKEND_ModelInstanceReady: panicked in ready";
    assert_eq!(ready("panic ready"), Err(failure(sys::TRITONSERVER_ERROR_INTERNAL, panicked)));
}

#[test]
fn an_instance_can_have_its_model_unloaded() {
    let _alone = ALONE.lock().unwrap();
    let host = start();
    let model = host.load(ModelSetup { name: "dying".to_owned(), ..failing("") }).unwrap();
    let loaded = model.instance(InstanceSetup::default()).unwrap();
    loaded.execute(vec![RequestSetup::default()]).unwrap();
    let instance = KEPT.lock().unwrap().take().unwrap();
    assert_eq!(host.unloads(), Vec::<String>::new());
    instance.unload_model().unwrap();
    assert_eq!(host.unloads(), ["dying"]);
    // The server took the instance away: there is nothing to unload.
    drop(loaded);
    instance.unload_model().unwrap();
    assert_eq!(host.unloads(), ["dying"]);
}

#[test]
fn the_memory_of_a_model_is_reported() {
    let _alone = ALONE.lock().unwrap();
    let model = start().load(failing("")).unwrap();
    let memory = sys::TRITONSERVER_MEMORY_GPU;
    let expected = triton_mock_host::MemoryReport { memory, device: 2, byte_size: 7 };
    assert_eq!(model.memory_usage(), [expected]);
}
