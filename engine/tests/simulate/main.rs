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

use coverage::EVERYTHING;
use mutation::Mutation;
use sabotage::Sabotage;
use support::{Failure, caught, notice_faults, notice_rules, replay_schedule, run_schedules};
use world::{World, Wrong};

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
    run_schedules("simulate", &EVERYTHING, |seed| {
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
    notice_faults(&Sabotage::ALL, 1_000, |seed, sabotage| {
        let (world, result) = simulate(seed, fault(sabotage), false);
        (world.faulted, result)
    });
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
