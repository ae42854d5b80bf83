//! What simulations share: many schedules on all cores, and how a failure is told.

use std::collections::BTreeMap;
use std::fmt::Debug;
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
fn on_all_cores(count: u64, work: impl Fn(u64) -> Result<(), String> + Sync) -> Result<(), String> {
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

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|value| value.parse().expect("a number"))
}

/// How often what happened in a schedule.
pub type Seen = BTreeMap<&'static str, u64>;

/// Runs `TLALOC_SIM_SCHEDULES` schedules, or 200,000. Each must be right, and together they must
/// reach `everything`.
pub fn run_schedules(
    test: &str,
    everything: &[&str],
    simulate: impl Fn(u64) -> (Seen, Result<(), Failure>) + Sync,
) {
    let count = variable("TLALOC_SIM_SCHEDULES").unwrap_or(200_000);
    let seen: Mutex<Seen> = Mutex::default();
    let result = on_all_cores(count, |seed| {
        let (of_schedule, result) = simulate(seed);
        let mut seen = seen.lock().unwrap();
        for (what, times) in of_schedule {
            *seen.entry(what).or_default() += times;
        }
        result.map_err(|failure| {
            format!(
                "{failure:?}\nseen in schedule {seed}; to see it again: TLALOC_SIM_SEED={seed} \
                 cargo test -p tlaloc-engine --test {test} replay"
            )
        })
    });
    let seen = seen.into_inner().unwrap();
    println!("{count} schedules: {seen:?}");
    if let Err(message) = result {
        panic!("{message}");
    }
    // Control: the schedules reach what they are there for.
    for what in everything {
        let times = seen.get(what).copied().unwrap_or(0);
        assert!(times > count / 2_000, "{what} is seen {times} times");
    }
    assert_eq!(seen.len(), everything.len(), "{seen:?}");
}

/// Runs the schedule `TLALOC_SIM_SEED`, and tells of it.
pub fn replay_schedule(simulate: impl FnOnce(u64, bool) -> Result<(), Failure>) {
    let seed = variable("TLALOC_SIM_SEED");
    if let Err(failure) = simulate(seed.unwrap_or(0), seed.is_some()) {
        panic!("{failure:?}");
    }
}

/// Schedules in which a wrong rule must be noticed.
const MUTATED_SCHEDULES: u64 = 20_000;

/// Each wrong rule must make a difference, and not by a panic.
pub fn notice_rules<R: Copy + Debug + Ord + Send + Sync>(
    rules: &[R],
    simulate: impl Fn(u64, R) -> Result<(), Failure> + Sync,
) {
    let noticed = Mutex::new(Vec::new());
    let result = on_all_cores(rules.len() as u64, |index| {
        let rule = rules[index as usize];
        for seed in 0..MUTATED_SCHEDULES {
            match simulate(seed, rule) {
                Ok(()) => {}
                Err(Failure::Panic(message)) => return Err(format!("{rule:?}: {message}")),
                Err(Failure::Seen(message)) => {
                    noticed.lock().unwrap().push((seed, rule, message));
                    return Ok(());
                }
            }
        }
        Err(format!("{rule:?} makes no difference in {MUTATED_SCHEDULES} schedules"))
    });
    let mut noticed = noticed.into_inner().unwrap();
    noticed.sort();
    for (seed, rule, message) in noticed {
        println!("{rule:?} in schedule {seed}: {}", message.chars().take(120).collect::<String>());
    }
    result.unwrap();
}

/// Each fault must be noticed wherever it takes place, which `simulate` tells first.
pub fn notice_faults<F: Copy + Debug>(
    faults: &[F],
    schedules: u64,
    simulate: impl Fn(u64, F) -> (bool, Result<(), Failure>),
) {
    for &fault in faults {
        let mut noticed = 0;
        for seed in 0..schedules {
            let (faulted, result) = simulate(seed, fault);
            noticed += usize::from(result.is_err());
            assert!(!faulted || result.is_err(), "{fault:?} of seed {seed} is not noticed");
        }
        assert!(noticed > 20, "{fault:?} is noticed {noticed} times");
    }
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
