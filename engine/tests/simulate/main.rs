//! Random schedules of an instance, and what is right in each of them.
//!
//! A schedule follows from its seed: a model (full-history, windowed, linear-attention, or both),
//! clients that chat, pause, die, resend, start and end at will, overflow and send nonsense,
//! executions that fail with and without taking the pools, copies that fail, a server that stops in
//! the middle of it all. [`reference`] predicts every step, call, reply, event and holding from the
//! contract; after every event the engine must agree, and the invariants that need no prediction
//! must hold. As the reference knows nothing of hash maps, an engine that agrees is deterministic.
//!
//! | To | Run `cargo test -p tlaloc-engine --test simulate` with |
//! |---|---|
//! | see one schedule, event by event | `TLALOC_SIM_SEED=<seed>` in front, `replay -- --nocapture` behind |
//! | run more or fewer of them | `TLALOC_SIM_SCHEDULES=<count>` in front |

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod client;
mod coverage;
mod invariants;
mod mutation;
mod reference;
mod sabotage;
mod scenario;
#[path = "../support/mod.rs"]
mod support;
mod world;

use std::collections::BTreeMap;
use std::sync::Mutex;

use coverage::EVERYTHING;
use mutation::Mutation;
use sabotage::Sabotage;
use support::{Failure, caught, on_all_cores, variable};
use world::{World, Wrong};

const SCHEDULES: u64 = 200_000;

/// Schedules in which a wrong rule must be noticed.
const MUTATED_SCHEDULES: u64 = 20_000;

fn simulate(seed: u64, wrong: Wrong, tell: bool) -> (World, Result<(), Failure>) {
    let mut world = World::new(seed, wrong, tell);
    let result = caught(|| world.run());
    (world, result)
}

#[test]
fn schedules() {
    let count = variable("TLALOC_SIM_SCHEDULES").unwrap_or(SCHEDULES);
    let seen: Mutex<BTreeMap<&str, u64>> = Mutex::default();
    let result = on_all_cores(count, |seed| {
        let (world, result) = simulate(seed, Wrong::default(), false);
        let mut seen = seen.lock().unwrap();
        for (what, times) in world.seen {
            *seen.entry(what).or_default() += times;
        }
        result.map_err(|failure| {
            format!(
                "{failure:?}\nseen in schedule {seed}; to see it again: TLALOC_SIM_SEED={seed} \
                 cargo test -p tlaloc-engine --test simulate replay"
            )
        })
    });
    let seen = seen.into_inner().unwrap();
    println!("{count} schedules: {seen:?}");
    if let Err(message) = result {
        panic!("{message}");
    }
    // Control: the schedules reach what they are there for.
    for what in EVERYTHING {
        let times = seen.get(what).copied().unwrap_or(0);
        assert!(times > count / 2_000, "{what} is seen {times} times");
    }
    assert_eq!(seen.len(), EVERYTHING.len(), "{seen:?}");
}

#[test]
fn replay() {
    let seed = variable("TLALOC_SIM_SEED");
    let (_, result) = simulate(seed.unwrap_or(0), Wrong::default(), seed.is_some());
    if let Err(failure) = result {
        panic!("{failure:?}");
    }
}

#[test]
fn wrong_rules_are_noticed() {
    let noticed = Mutex::new(Vec::new());
    let result = on_all_cores(Mutation::ALL.len() as u64, |index| {
        let rule = Mutation::ALL[index as usize];
        let wrong = Wrong { rule: Some(rule), fault: None };
        for seed in 0..MUTATED_SCHEDULES {
            match simulate(seed, wrong, false).1 {
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

#[test]
fn faults_are_noticed() {
    for fault in Sabotage::ALL {
        let wrong = Wrong { rule: None, fault: Some(fault) };
        let mut noticed = 0;
        for seed in 0..1_000 {
            let (world, result) = simulate(seed, wrong, false);
            noticed += usize::from(result.is_err());
            if world.faulted {
                assert!(result.is_err(), "{fault:?} of seed {seed} is not noticed");
            }
        }
        assert!(noticed > 20, "{fault:?} is noticed {noticed} times");
    }
}

#[test]
fn resources_that_do_not_add_up_are_noticed() {
    let check = |holders: &[&[usize]], free| {
        support::check_resource(1..5, holders.iter().copied(), free).is_ok()
    };
    assert!(check(&[&[1, 4], &[2]], 1));
    assert!(!check(&[&[1, 4], &[2]], 2), "one too many");
    assert!(!check(&[&[1, 4], &[2]], 0), "one is lost");
    assert!(!check(&[&[1, 4], &[1]], 2), "one has two owners");
    assert!(!check(&[&[0], &[2]], 2), "the padding page is held");
    assert!(!check(&[&[5], &[2]], 2), "there is no such page");
}
