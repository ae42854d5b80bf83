use std::path::{Path, PathBuf};
use std::ptr::{self, NonNull};

use serde_json::Value;
use triton_backend_sys as sys;

use crate::call::{get, get_text, text};
use crate::error::{Error, check};
use crate::instance::Instance;

/// What the server says when it initializes the backend.
#[derive(Clone, Debug)]
pub struct BackendContext {
    name: String,
    directory: PathBuf,
    config: Value,
}

impl BackendContext {
    /// # Safety
    /// `raw` must be a backend.
    pub(crate) unsafe fn new(raw: *mut sys::TRITONBACKEND_Backend) -> Result<Self, Error> {
        // SAFETY: the backend lives; name, location and message are its own.
        unsafe {
            let name = get_text("TRITONBACKEND_BackendName", sys::TRITONBACKEND_BackendName, raw)?;
            let directory = location(
                "TRITONBACKEND_BackendArtifacts",
                sys::TRITONBACKEND_BackendArtifacts,
                raw,
            )?;
            let config: *mut sys::TRITONSERVER_Message =
                get("TRITONBACKEND_BackendConfig", sys::TRITONBACKEND_BackendConfig, raw)?;
            let config = json("the backend configuration", config)?;
            Ok(BackendContext { name: name.to_owned(), directory, config })
        }
    }

    /// The backend's name, the `backend` of a model's configuration.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The folder of the backend's library.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// `{"cmdline": {"<key>": "<value>", …}}` with the server's `--backend-config` settings and some
    /// of Triton's own.
    pub fn config(&self) -> &Value {
        &self.config
    }
}

/// What the server says when it loads a model.
#[derive(Clone, Debug)]
pub struct ModelContext {
    name: String,
    version: u64,
    repository: PathBuf,
    config: Value,
    auto_complete: bool,
}

impl ModelContext {
    /// # Safety
    /// `raw` must be a model.
    pub(crate) unsafe fn new(raw: *mut sys::TRITONBACKEND_Model) -> Result<Self, Error> {
        // SAFETY: the model lives; name and location are its own, the configuration is ours.
        unsafe {
            let name = get_text("TRITONBACKEND_ModelName", sys::TRITONBACKEND_ModelName, raw)?;
            let repository =
                location("TRITONBACKEND_ModelRepository", sys::TRITONBACKEND_ModelRepository, raw)?;
            let mut config = ptr::null_mut();
            check(
                "TRITONBACKEND_ModelConfig",
                sys::TRITONBACKEND_ModelConfig(raw, CONFIG_VERSION, &mut config),
            )?;
            let parsed = json("the model configuration", config);
            check("TRITONSERVER_MessageDelete", sys::TRITONSERVER_MessageDelete(config))?;
            Ok(ModelContext {
                name: name.to_owned(),
                version: get("TRITONBACKEND_ModelVersion", sys::TRITONBACKEND_ModelVersion, raw)?,
                repository,
                config: parsed?,
                auto_complete: get(
                    "TRITONBACKEND_ModelAutoCompleteConfig",
                    sys::TRITONBACKEND_ModelAutoCompleteConfig,
                    raw,
                )?,
            })
        }
    }

    /// The model's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The version being loaded.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The model's folder, with its `config.pbtxt` and its versions.
    pub fn repository(&self) -> &Path {
        &self.repository
    }

    /// The folder of the version being loaded.
    pub fn version_directory(&self) -> PathBuf {
        self.repository.join(self.version.to_string())
    }

    /// The model's configuration, all fields present; for 64-bit ones see [`config_integer`].
    pub fn config(&self) -> &Value {
        &self.config
    }

    /// Whether the server lets backends complete configurations.
    pub fn auto_complete(&self) -> bool {
        self.auto_complete
    }
}

/// An integer of a configuration: Triton writes 64-bit ones as text, the others as numbers.
pub fn config_integer(value: &Value) -> Option<i64> {
    match value {
        Value::String(text) => text.parse().ok(),
        other => other.as_i64(),
    }
}

/// Where an instance is meant to compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum InstanceKind {
    /// Triton's choice; no instance has this kind.
    Auto = sys::TRITONSERVER_INSTANCEGROUPKIND_AUTO,
    /// On the processor.
    Cpu = sys::TRITONSERVER_INSTANCEGROUPKIND_CPU,
    /// On the GPU of the instance's device id.
    Gpu = sys::TRITONSERVER_INSTANCEGROUPKIND_GPU,
    /// Where the model or its backend says.
    Model = sys::TRITONSERVER_INSTANCEGROUPKIND_MODEL,
}

impl InstanceKind {
    fn from_raw(raw: sys::TRITONSERVER_InstanceGroupKind) -> Self {
        match raw {
            sys::TRITONSERVER_INSTANCEGROUPKIND_CPU => InstanceKind::Cpu,
            sys::TRITONSERVER_INSTANCEGROUPKIND_GPU => InstanceKind::Gpu,
            sys::TRITONSERVER_INSTANCEGROUPKIND_MODEL => InstanceKind::Model,
            _ => InstanceKind::Auto,
        }
    }
}

/// What the server says when it creates an instance of a model.
#[derive(Clone, Debug)]
pub struct InstanceContext {
    name: String,
    kind: InstanceKind,
    device_id: i32,
    host_policy: Value,
    instance: Instance,
}

impl InstanceContext {
    /// # Safety
    /// `raw` must be the instance behind `instance`.
    pub(crate) unsafe fn new(
        raw: NonNull<sys::TRITONBACKEND_ModelInstance>,
        instance: Instance,
    ) -> Result<Self, Error> {
        let raw = raw.as_ptr();
        // SAFETY: the instance lives; name and message are its own.
        unsafe {
            let name = get_text(
                "TRITONBACKEND_ModelInstanceName",
                sys::TRITONBACKEND_ModelInstanceName,
                raw,
            )?;
            let kind: u32 =
                get("TRITONBACKEND_ModelInstanceKind", sys::TRITONBACKEND_ModelInstanceKind, raw)?;
            let host_policy: *mut sys::TRITONSERVER_Message = get(
                "TRITONBACKEND_ModelInstanceHostPolicy",
                sys::TRITONBACKEND_ModelInstanceHostPolicy,
                raw,
            )?;
            Ok(InstanceContext {
                name: name.to_owned(),
                kind: InstanceKind::from_raw(kind),
                device_id: get(
                    "TRITONBACKEND_ModelInstanceDeviceId",
                    sys::TRITONBACKEND_ModelInstanceDeviceId,
                    raw,
                )?,
                host_policy: json("the host policy", host_policy)?,
                instance,
            })
        }
    }

    /// The instance's name, unique on the server.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where it is meant to compute.
    pub fn kind(&self) -> InstanceKind {
        self.kind
    }

    /// The device of a [`InstanceKind::Gpu`] instance; 0 for the others.
    pub fn device_id(&self) -> i32 {
        self.device_id
    }

    /// `{"<policy>": {"<setting>": "<value>", …}}`, of `--host-policy`.
    pub fn host_policy(&self) -> &Value {
        &self.host_policy
    }

    /// Triton's side of the instance, to report to.
    pub fn instance(&self) -> Instance {
        self.instance.clone()
    }
}

/// The only version of model configurations there is.
const CONFIG_VERSION: u32 = 1;

/// Gives a model another configuration.
///
/// # Safety
/// `model` must be a model that is being initialized.
pub(crate) unsafe fn set_config(
    model: *mut sys::TRITONBACKEND_Model,
    config: &Value,
) -> Result<(), Error> {
    let text = config.to_string();
    let mut message = ptr::null_mut();
    // SAFETY: the text has the length given and is copied; the message is ours until it is deleted.
    unsafe {
        check(
            "TRITONSERVER_MessageNewFromSerializedJson",
            sys::TRITONSERVER_MessageNewFromSerializedJson(
                &mut message,
                text.as_ptr().cast(),
                text.len(),
            ),
        )?;
        let set = check(
            "TRITONBACKEND_ModelSetConfig",
            sys::TRITONBACKEND_ModelSetConfig(model, CONFIG_VERSION, message),
        );
        check("TRITONSERVER_MessageDelete", sys::TRITONSERVER_MessageDelete(message))?;
        set
    }
}

/// A folder of a Triton object.
///
/// # Safety
/// `object` must be what `function` takes, and the location it gives live as long as it.
unsafe fn location<O>(
    call: &'static str,
    function: unsafe extern "C" fn(
        *mut O,
        *mut sys::TRITONBACKEND_ArtifactType,
        *mut *const std::ffi::c_char,
    ) -> *mut sys::TRITONSERVER_Error,
    object: *mut O,
) -> Result<PathBuf, Error> {
    let mut kind = sys::TRITONBACKEND_ARTIFACT_FILESYSTEM;
    let mut path = ptr::null();
    // SAFETY: the caller's promise. Folders are the only kind there is.
    unsafe {
        check(call, function(object, &mut kind, &mut path))?;
        Ok(PathBuf::from(text(call, path)?))
    }
}

/// The JSON in a message.
///
/// # Safety
/// `message` must be a message.
unsafe fn json(
    what: &'static str,
    message: *mut sys::TRITONSERVER_Message,
) -> Result<Value, Error> {
    let call = "TRITONSERVER_MessageSerializeToJson";
    let mut base = ptr::null();
    let mut byte_size = 0;
    // SAFETY: the message lives, its text as long as it.
    let bytes = unsafe {
        check(call, sys::TRITONSERVER_MessageSerializeToJson(message, &mut base, &mut byte_size))?;
        if base.is_null() {
            return Err(Error::NoObject { call });
        }
        std::slice::from_raw_parts(base.cast::<u8>(), byte_size)
    };
    serde_json::from_slice(bytes).map_err(|source| Error::Json { what, source })
}
