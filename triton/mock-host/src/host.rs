use std::ffi::CString;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::Mutex;
use triton_backend_sys as sys;

use crate::error::{ErrorObject, Failure};
use crate::object::{
    AttributeObject, BackendObject, BatchReport, InstanceObject, MemoryReport, Message,
    ModelObject, State,
};
use crate::request::{Event, RequestObject, RequestSetup, c_string};
use crate::symbols::set_api_version;

/// How long a backend may take to release a request.
const PATIENCE: Duration = Duration::from_secs(20);

/// What a backend is told when it starts.
#[derive(Clone, Debug)]
pub struct BackendSetup {
    /// Its name.
    pub name: String,
    /// The folder of its library.
    pub directory: PathBuf,
    /// `{"cmdline": {…}}`.
    pub config: String,
    /// Major and minor TRITONBACKEND API version of the host.
    pub api_version: (u32, u32),
}

impl Default for BackendSetup {
    /// A backend `mock` without settings, on a host of the version of the bindings.
    fn default() -> Self {
        BackendSetup {
            name: "mock".to_owned(),
            directory: PathBuf::from("/backends/mock"),
            config: r#"{"cmdline":{}}"#.to_owned(),
            api_version: (
                sys::TRITONBACKEND_API_VERSION_MAJOR,
                sys::TRITONBACKEND_API_VERSION_MINOR,
            ),
        }
    }
}

/// What a backend is told of a model.
#[derive(Clone, Debug)]
pub struct ModelSetup {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: u64,
    /// Its folder.
    pub repository: PathBuf,
    /// Its configuration, JSON.
    pub config: String,
    /// Whether configurations may be completed.
    pub auto_complete: bool,
}

impl Default for ModelSetup {
    /// Version 1 of a model `model` with an empty configuration.
    fn default() -> Self {
        ModelSetup {
            name: "model".to_owned(),
            version: 1,
            repository: PathBuf::from("/models/model"),
            config: "{}".to_owned(),
            auto_complete: true,
        }
    }
}

/// What a backend is told of an instance.
#[derive(Clone, Debug)]
pub struct InstanceSetup {
    /// Its name.
    pub name: String,
    /// A `TRITONSERVER_INSTANCEGROUPKIND_*`.
    pub kind: u32,
    /// Its device.
    pub device_id: i32,
}

impl Default for InstanceSetup {
    /// `model_0` of kind MODEL on device 0.
    fn default() -> Self {
        InstanceSetup {
            name: "model_0".to_owned(),
            kind: sys::TRITONSERVER_INSTANCEGROUPKIND_MODEL,
            device_id: 0,
        }
    }
}

/// A started backend. It is finalized when this and all of its models are dropped.
pub struct Host {
    host: Arc<HostInner>,
    preferred: Vec<(u32, u64)>,
}

struct HostInner {
    entry: sys::EntryPoints,
    backend: Arc<BackendObject>,
}

impl Host {
    /// Starts a backend and asks for its attributes.
    pub fn start(entry: sys::EntryPoints, setup: BackendSetup) -> Result<Self, Failure> {
        let backend = Arc::new(BackendObject {
            name: c_string(&setup.name),
            directory: c_path(&setup.directory),
            config: Message::new(&setup.config),
            state: State::default(),
            unloads: Mutex::default(),
        });
        let raw = raw(&backend);
        set_api_version(setup.api_version);
        // SAFETY: the pointer is a backend of this host's that lives.
        unsafe { ErrorObject::take((entry.initialize)(raw))? };
        let host = Arc::new(HostInner { entry, backend });
        let attributes = AttributeObject::default();
        // SAFETY: both pointers are objects of this host's that live.
        unsafe {
            let attributes = std::ptr::from_ref(&attributes).cast_mut().cast();
            ErrorObject::take((entry.get_backend_attribute)(raw, attributes))?;
        }
        Ok(Host { host, preferred: attributes.preferred.into_inner() })
    }

    /// Kind and count of the instance groups that the backend prefers, best first.
    pub fn preferred_groups(&self) -> &[(u32, u64)] {
        &self.preferred
    }

    /// Names of the models that the backend has asked the server to unload, which this host leaves to
    /// the test.
    pub fn unloads(&self) -> Vec<String> {
        self.host.backend.unloads.lock().clone()
    }

    /// Loads a model.
    pub fn load(&self, setup: ModelSetup) -> Result<LoadedModel, Failure> {
        let model = Arc::new(ModelObject {
            name: c_string(&setup.name),
            version: setup.version,
            repository: c_path(&setup.repository),
            config: Mutex::new(setup.config.into_bytes()),
            auto_complete: setup.auto_complete,
            live_messages: Arc::default(),
            memory: Mutex::default(),
            backend: self.host.backend.clone(),
            state: State::default(),
        });
        // SAFETY: the pointer is a model of this host's that lives.
        unsafe { ErrorObject::take((self.host.entry.model_initialize)(raw(&model)))? };
        Ok(LoadedModel { inner: Arc::new(ModelInner { host: self.host.clone(), model }) })
    }
}

impl Drop for HostInner {
    fn drop(&mut self) {
        // SAFETY: the backend was initialized and is finalized once.
        let result = unsafe { ErrorObject::take((self.entry.finalize)(raw(&self.backend))) };
        told("TRITONBACKEND_Finalize", result);
    }
}

/// A loaded model. It is finalized when this and all of its instances are dropped.
pub struct LoadedModel {
    inner: Arc<ModelInner>,
}

struct ModelInner {
    host: Arc<HostInner>,
    model: Arc<ModelObject>,
}

impl LoadedModel {
    /// Creates an instance.
    pub fn instance(&self, setup: InstanceSetup) -> Result<LoadedInstance, Failure> {
        let instance = Arc::new(InstanceObject {
            name: c_string(&setup.name),
            kind: setup.kind,
            device_id: setup.device_id,
            host_policy: Message::new(r#"{"mock":{}}"#),
            model: self.inner.model.clone(),
            state: State::default(),
            batches: Mutex::default(),
            memory: Mutex::default(),
            requests: Mutex::default(),
        });
        let initialize = self.inner.host.entry.model_instance_initialize;
        // SAFETY: the pointer is an instance of this host's that lives.
        unsafe { ErrorObject::take(initialize(raw(&instance)))? };
        Ok(LoadedInstance { model: self.inner.clone(), instance })
    }

    /// The configuration, as the backend completed it.
    pub fn config(&self) -> String {
        String::from_utf8_lossy(&self.inner.model.config.lock()).into_owned()
    }

    /// The memory that the backend reported of the model itself.
    pub fn memory_usage(&self) -> Vec<MemoryReport> {
        self.inner.model.memory.lock().clone()
    }

    /// Configurations that the backend was given and has not deleted.
    pub fn live_messages(&self) -> usize {
        self.inner.model.live_messages.load(Ordering::SeqCst)
    }
}

impl Drop for ModelInner {
    fn drop(&mut self) {
        // SAFETY: the model was initialized and is finalized once, after its instances.
        let result =
            unsafe { ErrorObject::take((self.host.entry.model_finalize)(raw(&self.model))) };
        told("TRITONBACKEND_ModelFinalize", result);
    }
}

/// An instance. When it is dropped it waits for its requests, then it is finalized.
pub struct LoadedInstance {
    model: Arc<ModelInner>,
    instance: Arc<InstanceObject>,
}

impl LoadedInstance {
    /// Executes requests. Where the backend returns an error they stay the host's.
    pub fn execute(&self, setups: Vec<RequestSetup>) -> Result<Vec<Ticket>, Failure> {
        let requests: Vec<_> = setups.into_iter().map(RequestObject::new).collect();
        let mut list: Vec<_> = requests.iter().map(raw).collect();
        let count = u32::try_from(list.len()).unwrap_or(u32::MAX);
        self.instance.requests.lock().extend(requests.iter().cloned());
        let execute = self.model.host.entry.model_instance_execute;
        // SAFETY: the pointers are objects of this host's that live; the instance keeps the requests.
        let result =
            unsafe { ErrorObject::take(execute(raw(&self.instance), list.as_mut_ptr(), count)) };
        // The list is the host's again; whoever kept it finds nothing there.
        list.fill(std::ptr::null_mut());
        if let Err(failure) = result {
            let ours = |kept: &Arc<_>| requests.iter().any(|request| Arc::ptr_eq(kept, request));
            self.instance.requests.lock().retain(|kept| !ours(kept));
            return Err(failure);
        }
        Ok(requests.into_iter().map(|request| Ticket { request }).collect())
    }

    /// Whether the backend says that the instance can serve.
    pub fn ready(&self) -> Result<(), Failure> {
        let ready = self.model.host.entry.model_instance_ready;
        // SAFETY: the pointer is an instance of this host's that lives.
        unsafe { ErrorObject::take(ready(raw(&self.instance))) }
    }

    /// What the backend reports of the instance, now and later.
    pub fn reports(&self) -> Reports {
        Reports { instance: self.instance.clone() }
    }
}

/// What a backend reports of an instance; it shows reports that come after the instance's end too.
#[derive(Clone)]
pub struct Reports {
    instance: Arc<InstanceObject>,
}

impl Reports {
    /// The batches that the backend counted.
    pub fn batches(&self) -> Vec<BatchReport> {
        self.instance.batches.lock().clone()
    }

    /// The memory that the backend reported last.
    pub fn memory_usage(&self) -> Vec<MemoryReport> {
        self.instance.memory.lock().clone()
    }
}

impl Drop for LoadedInstance {
    fn drop(&mut self) {
        let requests = self.instance.requests.lock().clone();
        let all = requests.iter().all(|request| request.wait(PATIENCE));
        // SAFETY: the instance was initialized and is finalized once.
        let result = unsafe {
            ErrorObject::take((self.model.host.entry.model_instance_finalize)(raw(&self.instance)))
        };
        told("TRITONBACKEND_ModelInstanceFinalize", result);
        assert!(all || std::thread::panicking(), "the instance has unreleased requests");
    }
}

/// A request that was executed.
#[derive(Clone)]
pub struct Ticket {
    request: Arc<RequestObject>,
}

impl Ticket {
    /// What the backend has done with the request.
    pub fn events(&self) -> Vec<Event> {
        self.request.events()
    }

    /// Waits until the backend has released the request, or tried to, and says all that it did.
    ///
    /// # Panics
    /// After 20 seconds.
    pub fn wait(&self) -> Vec<Event> {
        assert!(self.request.wait(PATIENCE), "unreleased after {PATIENCE:?}: {:?}", self.events());
        self.events()
    }

    /// Makes the request a cancelled one.
    pub fn cancel(&self) {
        self.request.cancelled.store(true, Ordering::SeqCst);
    }

    /// Factories that were created and not deleted.
    pub fn live_factories(&self) -> usize {
        self.request.live_factories.load(Ordering::SeqCst)
    }

    /// Responses that were created and neither sent nor deleted.
    pub fn live_responses(&self) -> usize {
        self.request.live_responses.load(Ordering::SeqCst)
    }
}

/// The pointer that Triton's functions take for an object.
fn raw<O, R>(object: &Arc<O>) -> *mut R {
    Arc::as_ptr(object).cast_mut().cast()
}

fn c_path(path: &std::path::Path) -> CString {
    c_string(&path.to_string_lossy())
}

/// A server logs what finalizing returns, and goes on.
fn told(call: &str, result: Result<(), Failure>) {
    if let Err(failure) = result {
        eprintln!("{call}: {failure}");
    }
}
