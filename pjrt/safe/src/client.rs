//! Clients: a plugin at work on one device.

use std::collections::HashMap;
use std::path::PathBuf;
use std::ptr::NonNull;
use std::sync::{Arc, LazyLock, Weak};

use parking_lot::{Condvar, Mutex};
use tlaloc_pjrt_sys::{
    PJRT_Client, PJRT_Client_AddressableDevices_Args, PJRT_Client_Create_Args,
    PJRT_Client_Destroy_Args, PJRT_Client_PlatformName_Args, PJRT_Device,
    PJRT_Device_GetDescription_Args, PJRT_Device_LocalHardwareId_Args,
    PJRT_DeviceDescription_Kind_Args, Versioned,
};

use crate::api::{Api, call, entry, text};
use crate::error::{Code, Error};
use crate::options::{ClientOptions, CreateOption};
use crate::platform::Platform;
use crate::plugin::Plugin;
use crate::runtime::DeviceRuntime;

/// A client of a plugin for one device. It lives until the last buffer and executable made with it
/// is gone.
#[derive(Debug)]
pub struct Client {
    plugin: Arc<Plugin>,
    ordinal: i32,
    platform: Platform,
    platform_name: String,
    device_kind: String,
    device: NonNull<PJRT_Device>,
    views: bool,
    runtime: Option<Arc<dyn DeviceRuntime>>,
    // Fields are dropped in this order: the next client of this device waits for the whole of it.
    raw: Raw,
    _registration: Registration,
}

// SAFETY: PJRT's client functions may be called from any thread; devices live as long as the client.
unsafe impl Send for Client {}
// SAFETY: as above, from several at once.
unsafe impl Sync for Client {}

type Key = (PathBuf, i32);

/// The clients in use. An entry without a client belongs to one that is being destroyed.
static CLIENTS: LazyLock<Mutex<HashMap<Key, Weak<Client>>>> = LazyLock::new(Mutex::default);
/// Told when an entry has left [`CLIENTS`].
static DESTROYED: Condvar = Condvar::new();

/// An entry of [`CLIENTS`], which leaves it with this value.
#[derive(Debug)]
struct Registration(Key);

impl Drop for Registration {
    fn drop(&mut self) {
        CLIENTS.lock().remove(&self.0);
        DESTROYED.notify_all();
    }
}

impl Client {
    /// The process's client for this plugin and device ordinal, created at its first use and
    /// destroyed with its last one. The options of the first use hold.
    ///
    /// # Errors
    /// [`Error::Device`] where the plugin has no such device or makes no client for it.
    pub fn shared(
        plugin: &Arc<Plugin>,
        ordinal: i32,
        options: &ClientOptions,
    ) -> Result<Arc<Self>, Error> {
        Self::shared_on(plugin, ordinal, options, None)
    }

    /// The same with this runtime instead of the platform's, which [`Client::shared`] then gives as
    /// well. For tests: they see what is asked of a device that the machine does not have.
    ///
    /// # Errors
    /// As [`Client::shared`].
    pub fn shared_on(
        plugin: &Arc<Plugin>,
        ordinal: i32,
        options: &ClientOptions,
        runtime: Option<Arc<dyn DeviceRuntime>>,
    ) -> Result<Arc<Self>, Error> {
        let key = (plugin.path().to_owned(), ordinal);
        let mut clients = CLIENTS.lock();
        // Two clients for one device would exceed the memory fraction, so a dying one is waited for.
        while let Some(entry) = clients.get(&key) {
            if let Some(client) = entry.upgrade() {
                return Ok(client);
            }
            DESTROYED.wait(&mut clients);
        }
        let client = Arc::new(Self::create(plugin.clone(), ordinal, options, runtime)?);
        clients.insert(key, Arc::downgrade(&client));
        Ok(client)
    }

    /// The plugin.
    pub fn plugin(&self) -> &Arc<Plugin> {
        &self.plugin
    }

    /// The device ordinal it was asked for.
    pub fn ordinal(&self) -> i32 {
        self.ordinal
    }

    /// The platform's name, such as `cpu` or `cuda`.
    pub fn platform_name(&self) -> &str {
        &self.platform_name
    }

    /// What the plugin calls devices of this kind, such as a GPU's product name; empty where it does
    /// not tell.
    pub(crate) fn device_kind(&self) -> &str {
        &self.device_kind
    }

    /// Whether arrays can be laid over memory that exists already, and their addresses be had.
    pub fn supports_views(&self) -> bool {
        self.views
    }

    /// Whether the host can read and write device memory where it lies. Where it can,
    /// [`crate::Buffer::host_bytes`] copies nothing.
    pub fn shares_host_memory(&self) -> bool {
        self.views && self.runtime.as_ref().is_some_and(|runtime| runtime.is_host())
    }

    /// Whether the device can read inputs where the host writes them, in a [`crate::Staging`].
    pub fn stages_inputs(&self) -> bool {
        self.views && self.runtime.is_some()
    }

    /// Whether memory of others on devices can be copied from and to ([`crate::DeviceBytes`]).
    pub fn reaches_device_memory(&self) -> bool {
        self.runtime.as_ref().is_some_and(|runtime| !runtime.is_host())
    }

    /// What the bytes of a [`crate::View`] must be aligned to.
    pub fn view_alignment(&self) -> usize {
        self.platform.view_alignment()
    }

    /// The device in words: `GPU 0` or `device 0`.
    pub fn device_name(&self) -> String {
        self.platform.device(self.ordinal)
    }

    pub(crate) fn runtime(&self) -> Option<&Arc<dyn DeviceRuntime>> {
        self.runtime.as_ref()
    }

    pub(crate) fn api(&self) -> Api {
        self.plugin.api()
    }

    pub(crate) fn raw(&self) -> *mut PJRT_Client {
        self.raw.client.as_ptr()
    }

    pub(crate) fn device(&self) -> *mut PJRT_Device {
        self.device.as_ptr()
    }

    fn create(
        plugin: Arc<Plugin>,
        ordinal: i32,
        options: &ClientOptions,
        runtime: Option<Arc<dyn DeviceRuntime>>,
    ) -> Result<Self, Error> {
        let api = plugin.api();
        let no_device = |platform: Platform, reason: String| Error::Device {
            path: plugin.path().to_owned(),
            device: platform.device(ordinal),
            reason,
        };
        let platform = Platform::of_plugin(api);
        if ordinal < 0 {
            return Err(no_device(platform, "ordinals start at 0".to_owned()));
        }
        let raw = Raw::create(api, &platform.option_sets(ordinal, options))
            .map_err(|error| no_device(platform, error.to_string()))?;

        let platform_name = raw.platform_name()?;
        let platform = Platform::from_name(&platform_name);
        let devices = raw.devices()?;
        let device =
            *devices.first().ok_or_else(|| no_device(platform, "it has no devices".to_owned()))?;
        if platform.has_ordinals() {
            if devices.len() != 1 {
                let reason = format!("it gave {} devices instead", devices.len());
                return Err(no_device(platform, reason));
            }
            let found = raw.hardware_id(device)?;
            if found != ordinal {
                let reason = format!("it gave {} instead", platform.device(found));
                return Err(no_device(platform, reason));
            }
        }
        let views = supports_views(api);
        let runtime = runtime.or_else(|| platform.runtime(&platform_name));

        let (major, minor) = plugin.api_version();
        let (memory, kernels) = platform.log_details(options);
        tracing::info!(
            "PJRT client created on platform '{platform_name}' for {device}, PJRT C API \
             {major}.{minor}, device views {views}{memory}, plugin {path}{kernels}",
            device = platform.device(ordinal),
            views = if views { "supported" } else { "not supported" },
            path = plugin.path().display(),
        );
        let registration = Registration((plugin.path().to_owned(), ordinal));
        Ok(Self {
            plugin,
            ordinal,
            platform,
            device_kind: raw.device_kind(device).unwrap_or_default(),
            platform_name,
            device,
            views,
            runtime,
            raw,
            _registration: registration,
        })
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        tracing::info!(
            "destroying the PJRT client for {} and {}",
            self.platform.device(self.ordinal),
            self.plugin.path().display()
        );
    }
}

/// Whether the plugin has what views of memory need.
fn supports_views(api: Api) -> bool {
    entry!(api, PJRT_Client_CreateViewOfDeviceBuffer).is_some()
        && entry!(api, PJRT_Buffer_OpaqueDeviceMemoryDataPointer).is_some()
        && entry!(api, PJRT_Buffer_OnDeviceSizeInBytes).is_some()
        && entry!(api, PJRT_Buffer_ReadyEvent).is_some()
        && entry!(api, PJRT_Buffer_IncreaseExternalReferenceCount).is_some()
        && entry!(api, PJRT_Buffer_DecreaseExternalReferenceCount).is_some()
}

/// A client of the C API, destroyed with this handle.
#[derive(Debug)]
struct Raw {
    api: Api,
    client: NonNull<PJRT_Client>,
}

impl Raw {
    /// Creates a client with the first set of options that the plugin takes.
    fn create(api: Api, option_sets: &[Vec<CreateOption>]) -> Result<Self, Error> {
        let mut result = Err(Error::Missing { function: "PJRT_Client_Create" });
        for options in option_sets {
            result = Self::create_with(api, options);
            if !matches!(&result, Err(error) if error.code() == Some(Code::InvalidArgument)) {
                break;
            }
        }
        result
    }

    fn create_with(api: Api, options: &[CreateOption]) -> Result<Self, Error> {
        let options: Vec<_> = options.iter().map(CreateOption::raw).collect();
        let mut args = PJRT_Client_Create_Args {
            create_options: options.as_ptr(),
            num_options: options.len(),
            ..Versioned::new()
        };
        // SAFETY: the options, and what they point into, outlive the call.
        unsafe { call!(api, PJRT_Client_Create, &mut args) }?;
        let client = api.non_null("PJRT_Client_Create", args.client)?;
        Ok(Self { api, client })
    }

    fn platform_name(&self) -> Result<String, Error> {
        let mut args =
            PJRT_Client_PlatformName_Args { client: self.client.as_ptr(), ..Versioned::new() };
        // SAFETY: the client is alive.
        unsafe { call!(self.api, PJRT_Client_PlatformName, &mut args) }?;
        let name = self.api.non_null("PJRT_Client_PlatformName", args.platform_name.cast_mut())?;
        // SAFETY: a text of that many bytes that lives as long as the client.
        Ok(unsafe { text(name.as_ptr(), args.platform_name_size) })
    }

    fn devices(&self) -> Result<Vec<NonNull<PJRT_Device>>, Error> {
        let mut args = PJRT_Client_AddressableDevices_Args {
            client: self.client.as_ptr(),
            ..Versioned::new()
        };
        // SAFETY: the client is alive.
        unsafe { call!(self.api, PJRT_Client_AddressableDevices, &mut args) }?;
        if args.num_addressable_devices == 0 {
            return Ok(Vec::new());
        }
        // SAFETY: an array of that many devices that lives as long as the client.
        let devices = unsafe {
            std::slice::from_raw_parts(args.addressable_devices, args.num_addressable_devices)
        };
        Ok(devices.iter().filter_map(|&device| NonNull::new(device)).collect())
    }

    fn device_kind(&self, device: NonNull<PJRT_Device>) -> Result<String, Error> {
        let mut description =
            PJRT_Device_GetDescription_Args { device: device.as_ptr(), ..Versioned::new() };
        // SAFETY: the device lives as long as the client.
        unsafe { call!(self.api, PJRT_Device_GetDescription, &mut description) }?;
        let found = description.device_description;
        let found = self.api.non_null("PJRT_Device_GetDescription", found)?;
        let mut args = PJRT_DeviceDescription_Kind_Args {
            device_description: found.as_ptr(),
            ..Versioned::new()
        };
        // SAFETY: as above.
        unsafe { call!(self.api, PJRT_DeviceDescription_Kind, &mut args) }?;
        // SAFETY: a text of that many bytes that lives as long as the device.
        Ok(unsafe { text(args.device_kind, args.device_kind_size) })
    }

    fn hardware_id(&self, device: NonNull<PJRT_Device>) -> Result<i32, Error> {
        let mut args =
            PJRT_Device_LocalHardwareId_Args { device: device.as_ptr(), ..Versioned::new() };
        // SAFETY: the device lives as long as the client.
        unsafe { call!(self.api, PJRT_Device_LocalHardwareId, &mut args) }?;
        Ok(args.local_hardware_id)
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        let mut args =
            PJRT_Client_Destroy_Args { client: self.client.as_ptr(), ..Versioned::new() };
        // SAFETY: the client is alive and not used after this, nor is anything made with it, which
        // holds it alive. There is nothing to do about an error.
        let _ = unsafe { call!(self.api, PJRT_Client_Destroy, &mut args) };
    }
}
