//! Loading plugins.

use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::mem::offset_of;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::{Arc, LazyLock};

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW, Symbol};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tlaloc_pjrt_sys::{
    PJRT_API_MAJOR, PJRT_API_MINOR, PJRT_Api, PJRT_Api_Version, PJRT_Plugin_Attributes_Args,
    PJRT_Plugin_Initialize_Args, Versioned,
};

use crate::api::{Api, call, entry};
use crate::error::Error;
use crate::note::Note;
use crate::options;

/// A loaded plugin. Plugins stay loaded until the process ends: XLA cannot be unloaded.
#[derive(Debug)]
pub struct Plugin {
    path: PathBuf,
    /// The file that was loaded, as far as the system told.
    file: Option<Identity>,
    digest: Mutex<Option<Digest>>,
    api: Api,
    version: (i32, i32),
}

/// A SHA-256.
pub(crate) type Digest = [u8; 32];

/// What changes with a file's contents, or when another one takes its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
    bytes: u64,
    changed: (i64, i64),
}

impl Identity {
    fn of(file: &Metadata) -> Self {
        let changed = (file.mtime(), file.mtime_nsec());
        Self { device: file.dev(), inode: file.ino(), bytes: file.size(), changed }
    }
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

    /// The SHA-256 of the loaded file, read at the first call: from a note in the folder `notes`, or
    /// from the file, which has 200 MB; a load waits for it.
    ///
    /// # Errors
    /// The system's; and where another file has taken its place since: its digest is of no use, as
    /// this process runs the old one until it ends.
    pub(crate) fn digest(&self, notes: &Path) -> io::Result<Digest> {
        let mut known = self.digest.lock();
        if let Some(digest) = *known {
            return Ok(digest);
        }
        let mut file = File::open(&self.path)?;
        let metadata = file.metadata()?;
        if self.file != Some(Identity::of(&metadata)) {
            return Err(io::Error::other(format!(
                "the PJRT plugin {} was replaced since it was loaded; restart the server",
                self.path.display()
            )));
        }
        let note = Note::of(notes, &self.path, &metadata);
        let digest = match note.read() {
            Some(digest) => digest,
            None => {
                let digest = digest_of(&mut file)?;
                note.write(&digest);
                digest
            }
        };
        Ok(*known.insert(digest))
    }

    /// What the plugin says of itself, one attribute a line: versions of its compiler and the like.
    /// Empty where it says nothing.
    pub(crate) fn attributes(&self) -> String {
        let mut args = PJRT_Plugin_Attributes_Args::new();
        // SAFETY: no arguments.
        let told = unsafe { call!(self.api, PJRT_Plugin_Attributes, &mut args) };
        if told.is_err() || args.attributes.is_null() {
            return String::new();
        }
        // SAFETY: an array of that many attributes that lives as long as the plugin.
        let attributes =
            unsafe { std::slice::from_raw_parts(args.attributes, args.num_attributes) };
        // SAFETY: attributes of a plugin, which stays loaded.
        attributes.iter().map(|attribute| unsafe { options::describe(attribute) }).collect()
    }

    fn open(path: &Path) -> Result<Self, Error> {
        // Before the file is loaded: one that replaces it meanwhile is then taken for another.
        let file = std::fs::metadata(path).ok().as_ref().map(Identity::of);
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
        Ok(Self { path: path.to_owned(), file, digest: Mutex::default(), api, version })
    }
}

fn digest_of(file: &mut File) -> io::Result<Digest> {
    let mut digest = Sha256::new();
    let mut part = vec![0; 1 << 18];
    loop {
        match file.read(&mut part)? {
            0 => return Ok(digest.finalize().into()),
            count => digest.update(&part[..count]),
        }
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
