//! How a load comes by its programs: from the compile cache, or compiled, several at once.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use parking_lot::Mutex;
use tlaloc_pjrt::{CacheEntry, Claim, Client, CompileCache, Executable};
use tracing::{Span, warn};

use crate::metrics::{CacheMetrics, Owner};
use crate::settings::ServerSettings;

/// Compiles the modules of a model, or takes their programs from the compile cache.
pub struct Compiler {
    cache: Option<CompileCache>,
    /// Shown for as long as the compiler is kept.
    metrics: CacheMetrics,
}

impl Compiler {
    /// For a model, with the compile cache if one is configured and can be used.
    pub fn new(server: &ServerSettings, model: &Owner) -> Self {
        let cache = server.compile_cache.as_deref().and_then(|folder| {
            CompileCache::open(Path::new(folder))
                .map(|cache| match server.compile_cache_max {
                    Some(limit) => cache.bounded(limit),
                    None => cache,
                })
                .inspect_err(|error| warn!("the compile cache {folder} cannot be used: {error}"))
                .ok()
        });
        Compiler { cache, metrics: CacheMetrics::new(model) }
    }

    /// The program of a module. Models that load at the same time do not compile one module twice:
    /// one of them does, and the others read what it keeps.
    ///
    /// # Errors
    /// The module does not compile.
    pub fn obtain(
        &self,
        client: &Arc<Client>,
        module: &[u8],
    ) -> Result<Obtained, tlaloc_pjrt::Error> {
        let started = Instant::now();
        let claim = self.cache.as_ref().and_then(|cache| cache.claim(client, module));
        let kept = self.cache.as_ref().and_then(|cache| cache.load(client, module));
        match kept {
            Some(executable) => {
                self.metrics.hits.add(1.0);
                Ok(Obtained { executable, fresh: None, started, _claim: None })
            }
            None => {
                let executable = client.compile(module)?;
                self.metrics.misses.add(1.0);
                let entry = self.cache.as_ref().and_then(|cache| cache.entry(&executable, module));
                Ok(Obtained { executable, fresh: Some(entry), started, _claim: claim })
            }
        }
    }
}

/// A program. One that was compiled waits to be kept until its owner has checked it.
#[must_use = "a program is kept in the compile cache by `keep`"]
pub struct Obtained {
    executable: Executable,
    /// Of a program that was compiled: what the compile cache is to keep, if there is one.
    fresh: Option<Option<CacheEntry>>,
    started: Instant,
    /// Of a program that was compiled: nobody else does it before this one is kept.
    _claim: Option<Claim>,
}

impl Obtained {
    /// The program.
    pub fn executable(&self) -> &Executable {
        &self.executable
    }

    /// It was compiled just now, and has never run.
    pub fn is_fresh(&self) -> bool {
        self.fresh.is_some()
    }

    /// How it was come by, for a load's lines.
    pub fn how(&self) -> &'static str {
        if self.is_fresh() { "compiled" } else { "read from the compile cache" }
    }

    /// How long that took.
    pub fn millis(&self) -> u128 {
        self.started.elapsed().as_millis()
    }

    /// Keeps it for later loads: it is as it should be.
    pub fn keep(self) -> Executable {
        if let Some(Some(entry)) = self.fresh {
            entry.keep();
        }
        self.executable
    }
}

/// How much of a load is done.
pub struct Progress {
    done: AtomicUsize,
    total: usize,
    what: &'static str,
}

impl Progress {
    /// Nothing of `total`; `what` are they, in the plural.
    pub fn new(total: usize, what: &'static str) -> Self {
        Progress { done: AtomicUsize::new(0), total, what }
    }

    /// So many more are done.
    pub fn add(&self, count: usize) -> String {
        let done = self.done.fetch_add(count, Ordering::Relaxed) + count;
        format!("{done} of {} {} are ready", self.total, self.what)
    }
}

/// What a compilation may take of the host's memory: several hundred MiB for a body of hundreds of
/// thousands of operations.
const COMPILE_MEMORY: u64 = 1 << 30;

/// Does `work` for every number below `count`, as many at once as there are cores to run on and
/// memory to compile in. The first error ends it.
///
/// # Errors
/// That of `work`.
pub fn in_parallel<T: Send, E: Send>(
    count: usize,
    work: impl Fn(usize) -> Result<T, E> + Sync,
) -> Result<Vec<T>, E> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(count));
    let failed = Mutex::new(None);
    let span = Span::current();
    let worker = || {
        let _entered = span.enter();
        while failed.lock().is_none() {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= count {
                return;
            }
            match work(index) {
                Ok(result) => done.lock().push((index, result)),
                Err(error) => _ = failed.lock().get_or_insert(error),
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..workers().min(count) {
            scope.spawn(worker);
        }
        worker();
    });
    match failed.into_inner() {
        Some(error) => Err(error),
        None => {
            let mut done = done.into_inner();
            done.sort_unstable_by_key(|(index, _)| *index);
            Ok(done.into_iter().map(|(_, result)| result).collect())
        }
    }
}

/// How many compilations may run at once: one for each core that the process may use, and for each
/// that fits into the memory that is available.
fn workers() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let fitting = available(&text)
        .map_or(usize::MAX, |bytes| usize::try_from(bytes / COMPILE_MEMORY).unwrap_or(usize::MAX));
    cores.min(fitting).max(1)
}

/// Bytes that `/proc/meminfo` calls available.
fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_order_whoever_computed_them() {
        let squares = in_parallel(100, |index| Ok::<_, ()>(index * index)).unwrap();
        assert_eq!(squares, (0..100).map(|index| index * index).collect::<Vec<_>>());
        assert_eq!(in_parallel(0, Ok::<_, ()>).unwrap(), Vec::<usize>::new());
    }

    #[test]
    fn the_first_error_ends_it() {
        let begun = AtomicUsize::new(0);
        let result = in_parallel(1_000_000, |index| {
            begun.fetch_add(1, Ordering::Relaxed);
            if index >= 3 { Err(index) } else { Ok(()) }
        });
        assert!(result.is_err_and(|index| index >= 3));
        assert!(begun.into_inner() < 1_000_000);
    }

    #[test]
    fn memory_is_what_the_system_calls_available() {
        let text = "MemTotal:       24566480 kB\nMemAvailable:    2097152 kB\nBuffers: 1 kB\n";
        assert_eq!(available(text), Some(2 << 30));
        assert_eq!(available("MemTotal: 1 kB\n"), None);
    }

    #[test]
    fn progress_counts_up_to_all() {
        let progress = Progress::new(18, "entries");
        assert_eq!(progress.add(1), "1 of 18 entries are ready");
        assert_eq!(progress.add(17), "18 of 18 entries are ready");
    }
}
