//! What simulations share: many schedules on all cores, and how a failure is told.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// Why a schedule is not right.
#[derive(Debug)]
pub enum Failure {
    /// A check says so.
    Seen(String),
    /// Something panicked.
    Panic(String),
}

/// Runs one schedule.
pub fn caught(run: impl FnOnce() -> Result<(), String>) -> Result<(), Failure> {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(result) => result.map_err(Failure::Seen),
        Err(panic) => Err(Failure::Panic(
            panic.downcast_ref::<String>().cloned().unwrap_or_else(|| "a panic".to_owned()),
        )),
    }
}

/// Does `work` for every number below `count`, on all cores, until one fails.
pub fn on_all_cores(
    count: u64,
    work: impl Fn(u64) -> Result<(), String> + Sync,
) -> Result<(), String> {
    let next = AtomicU64::new(0);
    let failed = Mutex::new(None);
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        break;
                    }
                    if let Err(message) = work(number) {
                        next.store(count, Ordering::Relaxed);
                        failed.lock().unwrap().get_or_insert(message);
                    }
                }
            });
        }
    });
    failed.into_inner().unwrap().map_or(Ok(()), Err)
}

pub fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|value| value.parse().expect("a number"))
}

/// Deliberately wrong rules, as an enum with a list of them all.
macro_rules! mutations {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// A wrong rule.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Mutation {
            $($(#[$doc])* $name,)*
        }

        impl Mutation {
            pub const ALL: &[Mutation] = &[$(Mutation::$name,)*];
        }
    };
}

pub(crate) use mutations;
