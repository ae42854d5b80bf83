//! Random schedules of a scheduler, and what is right in each of them.
//!
//! A schedule follows from its seed: a model (full-history, windowed, linear-attention, or both,
//! with or without verify entries), requests with priorities and deadlines that come and are
//! cancelled at any time, far too few pages, executions and moves that fail with and without taking
//! the pools, rows that are not finite, a server that stops. [`reference`] predicts every step,
//! call, draft, move, event, end, count and page number; after every event the scheduler must
//! agree. The device keeps every token and position in its slot, so that a row attends over exactly
//! its own history or the schedule fails; what comes next is a function of that history, so a
//! request's stream must be the one that it has alone. Bounded gaps, prompt ends of cancelled
//! requests, resources and liveness are checked without the reference.
//!
//! | To | Run `cargo test -p tlaloc-engine --test simulate_generation` with |
//! |---|---|
//! | see one schedule, event by event | `TLALOC_SIM_SEED=<seed>` in front, `replay -- --nocapture` behind |
//! | run more or fewer of them | `TLALOC_SIM_SCHEDULES=<count>` in front |

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod gaps;
mod mutation;
mod reference;
mod sabotage;
mod scenario;
#[path = "../support/mod.rs"]
mod support;
mod world;

use std::collections::BTreeMap;
use std::sync::Mutex;

use mutation::Mutation;
use sabotage::Sabotage;
use support::{Failure, caught, on_all_cores, variable};
use world::{EVERYTHING, World, Wrong};

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
                 cargo test -p tlaloc-engine --test simulate_generation replay"
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
        for seed in 0..2_000 {
            let (world, result) = simulate(seed, wrong, false);
            noticed += usize::from(result.is_err());
            if world.faulted {
                assert!(result.is_err(), "{fault:?} of seed {seed} is not noticed");
            }
        }
        assert!(noticed > 20, "{fault:?} is noticed {noticed} times");
    }
}
