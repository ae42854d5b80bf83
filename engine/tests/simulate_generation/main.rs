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

use mutation::Mutation;
use sabotage::Sabotage;
use support::{Failure, caught, notice_faults, notice_rules, replay_schedule, run_schedules};
use world::{EVERYTHING, World, Wrong};

fn simulate(seed: u64, wrong: Wrong, tell: bool) -> (World, Result<(), Failure>) {
    let mut world = World::new(seed, wrong, tell);
    let result = caught(|| world.run());
    (world, result)
}

fn wrong_rule(rule: Mutation) -> Wrong {
    Wrong { rule: Some(rule), fault: None }
}

fn fault(fault: Sabotage) -> Wrong {
    Wrong { rule: None, fault: Some(fault) }
}

#[test]
fn schedules() {
    run_schedules("simulate_generation", &EVERYTHING, |seed| {
        let (world, result) = simulate(seed, Wrong::default(), false);
        (world.seen, result)
    });
}

#[test]
fn replay() {
    replay_schedule(|seed, tell| simulate(seed, Wrong::default(), tell).1);
}

#[test]
fn wrong_rules_are_noticed() {
    notice_rules(Mutation::ALL, |seed, rule| simulate(seed, wrong_rule(rule), false).1);
}

#[test]
fn faults_are_noticed() {
    notice_faults(&Sabotage::ALL, 4_000, |seed, sabotage| {
        let (world, result) = simulate(seed, fault(sabotage), false);
        (world.faulted, result)
    });
}
