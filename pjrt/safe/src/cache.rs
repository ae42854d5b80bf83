//! Compiled programs on disk.

mod bound;
mod claim;
mod file;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use sha2::{Digest as _, Sha256};
use tlaloc_pjrt_sys::{PJRT_Executable_DeserializeAndLoad_Args, Versioned};
use tracing::{info, warn};

use crate::api::call;
use crate::client::Client;
use crate::compile::{COMPILE_OPTIONS, Executable};
use crate::disk::{name_of, write_whole};
use crate::error::Error;
use crate::plugin::Digest;

pub use claim::Claim;
pub use file::{Unusable, program_in};

const MIB: u64 = 1 << 20;
/// Digests of plugins, in the folder.
const NOTES: &str = "plugins";

/// A folder of compiled programs, which several processes may share.
///
/// A program is found by the SHA-256 of everything that it depends on: the plugin's file and
/// attributes, its platform and device, the processor, the compile options and the module. (A plugin
/// takes a program of another version without a word and computes wrong results with it.) A file holds
/// its key and the plugin's own form of the program behind the SHA-256 of both; one that does not fit
/// is told of, compiled again and rewritten.
#[derive(Debug)]
pub struct CompileCache {
    folder: PathBuf,
    /// The most bytes that its programs may take.
    limit: Option<u64>,
    /// What programs are generated for.
    processor: String,
}

impl CompileCache {
    /// A cache in `folder`, which is made if it is not there.
    ///
    /// # Errors
    /// The system's, where the folder cannot be made.
    pub fn open(folder: &Path) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        Ok(Self { folder: folder.to_owned(), limit: None, processor: processor() })
    }

    /// The same with a bound in bytes: whenever a program is written, those used longest ago go until
    /// the rest fits.
    #[must_use]
    pub fn bounded(self, limit: u64) -> Self {
        Self { limit: Some(limit), ..self }
    }

    /// The claim to compile `module` for this cache, after the thread of this process that has it, if
    /// there is one: what that one kept is there to be loaded then. None where nothing can be kept.
    pub fn claim(&self, client: &Client, module: &(impl AsRef<[u8]> + ?Sized)) -> Option<Claim> {
        let key = self.key(client, module.as_ref()).ok()?;
        Some(Claim::to(&self.path(&key)))
    }

    /// The program that `module` was compiled to; none where it has to be compiled.
    pub fn load(
        &self,
        client: &Arc<Client>,
        module: &(impl AsRef<[u8]> + ?Sized),
    ) -> Option<Executable> {
        let key = self.key(client, module.as_ref()).ok()?;
        let path = self.path(&key);
        let loaded = match File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            opened => opened
                .and_then(|file| read(&file))
                .map_err(|error| format!("it cannot be read ({error})"))
                .and_then(|file| {
                    let program = program_in(&file, &key).map_err(|reason| reason.to_string())?;
                    load(client, program).map_err(|error| error.to_string())
                }),
        };
        loaded
            .inspect_err(|reason| {
                let path = path.display();
                warn!("{path} in the compile cache is not used, {reason}; compiling it again");
            })
            .ok()
    }

    /// The program that `module` was compiled to, ready to be kept. To be asked for before the
    /// program's first run: a plugin may not write down what has run (XLA's sorts on CPUs then hold a
    /// function: "`LessThan` is not serializable").
    ///
    /// None where the plugin cannot write it down, which is told of; nothing else comes of it.
    pub fn entry(
        &self,
        executable: &Executable,
        module: &(impl AsRef<[u8]> + ?Sized),
    ) -> Option<CacheEntry> {
        let entry = self
            .key(executable.client(), module.as_ref())
            .map_err(|error| error.to_string())
            .and_then(|key| {
                let program = executable.serialise().map_err(|error| error.to_string())?;
                Ok(CacheEntry { path: self.path(&key), key, program, limit: self.limit })
            });
        entry.inspect_err(|reason| not_kept(&self.folder, reason)).ok()
    }

    /// Keeps the program that `module` was compiled to: [`CompileCache::entry`], then
    /// [`CacheEntry::keep`].
    pub fn store(&self, executable: &Executable, module: &(impl AsRef<[u8]> + ?Sized)) {
        if let Some(entry) = self.entry(executable, module) {
            entry.keep();
        }
    }

    fn key(&self, client: &Client, module: &[u8]) -> io::Result<Digest> {
        let mut key = Sha256::new();
        let mut part = |bytes: &[u8]| {
            key.update(bytes.len().to_le_bytes());
            key.update(bytes);
        };
        part(file::MAGIC);
        part(&client.plugin().digest(&self.folder.join(NOTES))?);
        part(client.plugin().attributes().as_bytes());
        part(client.platform_name().as_bytes());
        part(client.device_kind().as_bytes());
        part(&client.ordinal().to_le_bytes());
        part(self.processor.as_bytes());
        part(&COMPILE_OPTIONS);
        part(module);
        Ok(key.finalize().into())
    }

    fn path(&self, key: &Digest) -> PathBuf {
        self.folder.join(name_of(key))
    }
}

/// A program on its way to the compile cache.
#[derive(Debug)]
pub struct CacheEntry {
    path: PathBuf,
    key: Digest,
    program: Vec<u8>,
    limit: Option<u64>,
}

impl CacheEntry {
    /// Writes it. A cache that cannot be written is told of, and nothing else comes of it.
    pub fn keep(self) {
        let folder = self.path.parent().unwrap_or(&self.path);
        if let Some(limit) = self.limit
            && self.program.len() as u64 > limit
        {
            let (bytes, most) = (self.program.len(), limit / MIB);
            return not_kept(folder, &format!("its {bytes} bytes exceed the bound of {most} MiB"));
        }
        if let Err(error) = self.write() {
            return not_kept(folder, &error.to_string());
        }
        let Some(limit) = self.limit else { return };
        match bound::keep_to(folder, limit) {
            Ok(removed) if removed.programs > 0 => info!(
                "removed the {} programs used longest ago ({} MiB) from the compile cache {}, which \
                 may have {} MiB",
                removed.programs,
                removed.bytes / MIB,
                folder.display(),
                limit / MIB
            ),
            Ok(_) => {}
            Err(error) => warn!(
                "the compile cache {} cannot be kept to {} MiB: {error}",
                folder.display(),
                limit / MIB
            ),
        }
    }

    fn write(&self) -> io::Result<()> {
        write_whole(&self.path, &[&file::header(&self.key, &self.program), &self.program])
    }
}

fn not_kept(folder: &Path, reason: &str) {
    warn!("a compiled program is not kept in the compile cache {}: {reason}", folder.display());
}

/// The file's contents; the time of its last use is noted where the file is ours to change.
fn read(mut file: &File) -> io::Result<Vec<u8>> {
    let mut contents = Vec::new();
    io::Read::read_to_end(&mut file, &mut contents)?;
    let _ = file.set_modified(SystemTime::now());
    Ok(contents)
}

fn load(client: &Arc<Client>, program: &[u8]) -> Result<Executable, Error> {
    let mut args = PJRT_Executable_DeserializeAndLoad_Args {
        client: client.raw(),
        serialized_executable: program.as_ptr().cast(),
        serialized_executable_size: program.len(),
        ..Versioned::new()
    };
    // SAFETY: the client is alive and the program outlives the call.
    unsafe { call!(client.api(), PJRT_Executable_DeserializeAndLoad, &mut args) }?;
    let raw =
        client.api().non_null("PJRT_Executable_DeserializeAndLoad", args.loaded_executable)?;
    Executable::new(client, raw)
}

/// What the system says of the processor that code is generated for.
fn processor() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let of_one = text.split("\n\n").next().unwrap_or_default();
    let lasting = ["model name", "flags", "Features", "CPU implementer", "CPU part"];
    of_one
        .lines()
        .filter(|line| lasting.iter().any(|key| line.starts_with(key)))
        .flat_map(|line| [line, "\n"])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(path: &Path, program: Vec<u8>, limit: Option<u64>) -> CacheEntry {
        CacheEntry { path: path.to_owned(), key: [1; 32], program, limit }
    }

    #[test]
    fn threads_that_keep_one_program_at_once_do_not_meet() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        std::thread::scope(|scope| {
            for writer in 0..4_u8 {
                let path = &path;
                scope.spawn(move || {
                    for _ in 0..50 {
                        // Of different lengths, as compilations of one text may be.
                        let written = vec![writer; 50_000 + usize::from(writer)];
                        entry(path, written, None).write().unwrap();
                        assert!(program_in(&fs::read(path).unwrap(), &[1; 32]).is_ok());
                    }
                });
            }
        });
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing but the program");
    }

    #[test]
    fn a_program_above_the_bound_pushes_nothing_out() {
        let folder = tempfile::tempdir().unwrap();
        let (first, second) = ("a".repeat(64), "b".repeat(64));
        entry(&folder.path().join(&first), vec![0; 1000], Some(3000)).keep();
        entry(&folder.path().join(&second), vec![0; 3001], Some(3000)).keep();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(folder.path().join(first).exists());
    }
}
