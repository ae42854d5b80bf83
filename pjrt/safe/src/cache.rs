//! Compiled programs on disk.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use sha2::{Digest as _, Sha256};
use tlaloc_pjrt_sys::{PJRT_Executable_DeserializeAndLoad_Args, Versioned};
use tracing::warn;

use crate::api::call;
use crate::client::Client;
use crate::compile::{COMPILE_OPTIONS, Executable};
use crate::error::Error;
use crate::plugin::Digest;

/// Start of every file; a change of the format changes it.
const MAGIC: &[u8] = b"tlaloc compiled program 1\n";
const DIGEST: usize = size_of::<Digest>();

/// A folder of compiled programs, which several processes may share.
///
/// A program is found by the SHA-256 of everything that it depends on: the plugin's file, its
/// platform and device, the processor, the compile options and the module. (A plugin takes a program of
/// another version without a word and computes wrong results with it.) A file holds the plugin's own
/// form behind its SHA-256; one that does not fit it is compiled again and rewritten.
#[derive(Debug)]
pub struct CompileCache {
    folder: PathBuf,
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
        Ok(Self { folder: folder.to_owned(), processor: processor() })
    }

    /// The program that `module` was compiled to; none where it has to be compiled.
    pub fn load(
        &self,
        client: &Arc<Client>,
        module: &(impl AsRef<[u8]> + ?Sized),
    ) -> Option<Executable> {
        let path = self.path(client, module.as_ref()).ok()?;
        let file = fs::read(&path).ok()?;
        let loaded = program(&file)
            .ok_or_else(|| "it is damaged".to_owned())
            .and_then(|program| load(client, program).map_err(|error| error.to_string()));
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
            .path(executable.client(), module.as_ref())
            .map_err(|error| error.to_string())
            .and_then(|path| {
                let program = executable.serialise().map_err(|error| error.to_string())?;
                Ok(CacheEntry { path, program })
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

    fn path(&self, client: &Client, module: &[u8]) -> io::Result<PathBuf> {
        let mut key = Sha256::new();
        let mut part = |bytes: &[u8]| {
            key.update(bytes.len().to_le_bytes());
            key.update(bytes);
        };
        part(MAGIC);
        part(&client.plugin().digest()?);
        part(client.platform_name().as_bytes());
        part(&client.ordinal().to_le_bytes());
        part(self.processor.as_bytes());
        part(&COMPILE_OPTIONS);
        part(module);
        let name: String = key.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(self.folder.join(name))
    }
}

/// A program on its way to the compile cache.
#[derive(Debug)]
pub struct CacheEntry {
    path: PathBuf,
    program: Vec<u8>,
}

impl CacheEntry {
    /// Writes it. A cache that cannot be written is told of, and nothing else comes of it.
    pub fn keep(self) {
        if let Err(error) = self.write() {
            not_kept(self.path.parent().unwrap_or(&self.path), &error.to_string());
        }
    }

    fn write(&self) -> io::Result<()> {
        let Self { path, program } = self;
        // Under a name of its own until it is whole, so that nobody reads half a file. Threads of this
        // process may write the same program at once, and so may a process of the same number in
        // another container.
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let (process, thread) = (std::process::id(), std::thread::current().id());
        let partial =
            path.with_extension(format!("{process}-{thread:?}-{}.partial", now.as_nanos()));
        let written = File::create_new(&partial).and_then(|mut file| {
            file.write_all(MAGIC)?;
            file.write_all(&Sha256::digest(program))?;
            file.write_all(program)
        });
        written.and_then(|()| fs::rename(&partial, path)).inspect_err(|_| {
            let _ = fs::remove_file(&partial);
        })
    }
}

fn not_kept(folder: &Path, reason: &str) {
    warn!("a compiled program is not kept in the compile cache {}: {reason}", folder.display());
}

/// The program in a file; none in one that is not whole.
fn program(file: &[u8]) -> Option<&[u8]> {
    let (digest, program) = file.strip_prefix(MAGIC)?.split_at_checked(DIGEST)?;
    (Sha256::digest(program).as_slice() == digest).then_some(program)
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
                        CacheEntry { path: path.clone(), program: written }.write().unwrap();
                        assert!(program(&fs::read(path).unwrap()).is_some());
                    }
                });
            }
        });
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing but the program");
    }

    #[test]
    fn only_a_whole_file_holds_a_program() {
        let mut file = MAGIC.to_vec();
        file.extend(Sha256::digest(b"code"));
        file.extend(b"code");
        assert_eq!(program(&file), Some(&b"code"[..]));
        for cut in 0..file.len() {
            assert_eq!(program(&file[..cut]), None, "cut at {cut}");
            let mut flipped = file.clone();
            flipped[cut] ^= 1;
            assert_eq!(program(&flipped), None, "flipped at {cut}");
        }
    }
}
