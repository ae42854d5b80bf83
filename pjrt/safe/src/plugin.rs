//! Loading plugins.

use std::collections::HashMap;
use std::mem::offset_of;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::{Arc, LazyLock};

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW, Symbol};
use parking_lot::Mutex;
use tlaloc_pjrt_sys::{
    PJRT_API_MAJOR, PJRT_API_MINOR, PJRT_Api, PJRT_Api_Version, PJRT_Plugin_Initialize_Args,
    Versioned,
};

use crate::api::{Api, call, entry};
use crate::error::Error;

/// A loaded plugin. Plugins stay loaded until the process ends: XLA cannot be unloaded.
#[derive(Debug)]
pub struct Plugin {
    path: PathBuf,
    api: Api,
    version: (i32, i32),
}

static PLUGINS: LazyLock<Mutex<HashMap<PathBuf, Arc<Plugin>>>> = LazyLock::new(Mutex::default);

impl Plugin {
    /// The plugin of this path, loaded once per process. Failures are not remembered.
    ///
    /// # Errors
    /// [`Error::Load`], [`Error::NotAPlugin`] and [`Error::Version`], which name the path, and
    /// [`Error::Call`] where the plugin's own initialisation fails.
    pub fn load(path: impl AsRef<Path>) -> Result<Arc<Self>, Error> {
        let path = path.as_ref();
        let mut plugins = PLUGINS.lock();
        if let Some(plugin) = plugins.get(path) {
            return Ok(plugin.clone());
        }
        let plugin = Arc::new(Self::open(path)?);
        plugins.insert(path.to_owned(), plugin.clone());
        Ok(plugin)
    }

    /// The path it was loaded from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Major and minor version of the plugin's C API.
    pub fn api_version(&self) -> (i32, i32) {
        self.version
    }

    pub(crate) fn api(&self) -> Api {
        self.api
    }

    fn open(path: &Path) -> Result<Self, Error> {
        // SAFETY: loading runs the library's initialisers; the path comes from the operator's
        // configuration, who vouches for the file.
        let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }
            .map_err(|error| Error::Load { path: path.to_owned(), reason: reason(&error) })?;
        let not_a_plugin =
            |reason: &str| Error::NotAPlugin { path: path.to_owned(), reason: reason.to_owned() };

        // SAFETY: a symbol of this name has this type in every PJRT plugin.
        let table = unsafe {
            let get: Symbol<unsafe extern "C" fn() -> *const PJRT_Api> = library
                .get(b"GetPjrtApi\0")
                .map_err(|_| not_a_plugin("it has no function GetPjrtApi"))?;
            get()
        };
        // From here on the library's code may run in threads of its own: it is never unloaded.
        std::mem::forget(library);
        let table = NonNull::new(table.cast_mut())
            .ok_or_else(|| not_a_plugin("its GetPjrtApi returns null"))?;
        // SAFETY: a plugin's table, and the plugin stays loaded.
        let api = unsafe { Api::new(table) };

        let version = check_version(path, api)?;
        if entry!(api, PJRT_Plugin_Initialize).is_some() {
            let mut args = PJRT_Plugin_Initialize_Args::new();
            // SAFETY: no arguments.
            unsafe { call!(api, PJRT_Plugin_Initialize, &mut args) }?;
        }
        Ok(Self { path: path.to_owned(), api, version })
    }
}

/// The C API version, if this build can use it: the same major version, and every function that is
/// not asked for one by one.
fn check_version(path: &Path, api: Api) -> Result<(i32, i32), Error> {
    let refused = |found: String| Error::Version {
        path: path.to_owned(),
        found,
        needed: format!("{PJRT_API_MAJOR}.x, such as {PJRT_API_MAJOR}.{PJRT_API_MINOR}"),
    };
    let version_end = offset_of!(PJRT_Api, pjrt_api_version) + size_of::<PJRT_Api_Version>();
    if api.size() < version_end {
        return Err(refused(format!("of a table of {} bytes", api.size())));
    }
    // SAFETY: checked above.
    let (major, minor) = unsafe { api.version() };
    if u32::try_from(major) != Ok(PJRT_API_MAJOR) {
        return Err(refused(format!("{major}.{minor}")));
    }
    if entry!(api, PJRT_Buffer_ToHostBuffer).is_none() {
        return Err(refused(format!("{major}.{minor} without PJRT_Buffer_ToHostBuffer")));
    }
    Ok((major, minor))
}

/// The dynamic linker's words, without the wrapping that repeats the name of `dlopen`.
fn reason(error: &libloading::Error) -> String {
    let source = std::error::Error::source(error);
    source.map_or_else(|| error.to_string(), ToString::to_string)
}
