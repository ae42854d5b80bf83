//! Whatever a backend does with its requests and whatever the server refuses, each request is
//! answered once, reported at most once and released once, in this order.

#![allow(clippy::panic, clippy::unwrap_used)] // helpers of tests

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};
use triton_backend::{
    Answered, Backend, BackendContext, DataType, Error, Instance, InstanceContext, ModelContext,
    ParameterValue, Request, Requests, Times, entry_points,
};
use triton_backend_sys as sys;
use triton_mock_host::{
    Answer, BackendSetup, Event, Failure, Faults, Host, InstanceSetup, ModelSetup, Output,
    Parameter, RequestSetup, live_errors,
};

/// What the backend does with a request.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Deed {
    /// Answers with an output.
    Respond,
    /// Answers with no output.
    RespondEmpty,
    /// Fails while it fills the response, with one output in it.
    FillError,
    /// Panics there.
    FillPanic,
    /// Answers with an error.
    Fail,
    /// Drops the request.
    Drop,
    /// Panics with the request in hand.
    Panic,
    /// Writes an output before it answers.
    Place,
    /// Writes an output and drops the request.
    PlaceDrop,
}

const DEEDS: [Deed; 9] = [
    Deed::Respond,
    Deed::RespondEmpty,
    Deed::FillError,
    Deed::FillPanic,
    Deed::Fail,
    Deed::Drop,
    Deed::Panic,
    Deed::Place,
    Deed::PlaceDrop,
];

const TIMES: Times = Times { start: 1, compute_start: 2, compute_end: 3, end: 4 };

/// A request's parameters.
#[derive(Clone, Copy, Debug)]
struct Plan {
    deed: usize,
    /// On the backend's thread.
    later: bool,
    /// Reports the answered request.
    report: bool,
    /// The client is gone. That changes nothing: it is the backend's to ask.
    cancelled: bool,
}

struct Planned;

struct PlannedInstance {
    instance: Instance,
    to_thread: Option<Sender<(Request, Plan)>>,
    thread: Option<JoinHandle<()>>,
}

impl Backend for Planned {
    type Model = ();
    type Instance = PlannedInstance;

    fn initialize(_: &BackendContext) -> Result<Self, Error> {
        Ok(Planned)
    }

    fn load(&self, _: &ModelContext) -> Result<(), Error> {
        Ok(())
    }

    fn create_instance(_: &Arc<()>, context: &InstanceContext) -> Result<PlannedInstance, Error> {
        let (to_thread, requests): (_, Receiver<(Request, Plan)>) = channel();
        let instance = context.instance();
        let thread = std::thread::spawn(move || {
            for (request, plan) in requests {
                let act = std::panic::AssertUnwindSafe(|| act(request, plan, &instance));
                let _ = std::panic::catch_unwind(act);
            }
        });
        Ok(PlannedInstance {
            instance: context.instance(),
            to_thread: Some(to_thread),
            thread: Some(thread),
        })
    }

    /// A panic leaves the requests behind it undone.
    fn execute(instance: &PlannedInstance, requests: Requests<'_>) {
        for request in requests {
            let plan = plan(&request);
            match &instance.to_thread {
                Some(to_thread) if plan.later => to_thread.send((request, plan)).unwrap(),
                _ => act(request, plan, &instance.instance),
            }
        }
    }
}

impl Drop for PlannedInstance {
    fn drop(&mut self) {
        self.to_thread = None;
        self.thread.take().unwrap().join().unwrap();
    }
}

fn plan(request: &Request) -> Plan {
    let mut plan = Plan { deed: 0, later: false, report: false, cancelled: false };
    for (name, value) in request.parameters() {
        match (name, value) {
            ("deed", ParameterValue::Int(deed)) => plan.deed = deed as usize,
            ("later", ParameterValue::Bool(later)) => plan.later = later,
            ("report", ParameterValue::Bool(report)) => plan.report = report,
            other => panic!("{other:?}"),
        }
    }
    plan
}

fn act(request: Request, plan: Plan, instance: &Instance) {
    let report = |answered: Answered| {
        if plan.report {
            answered.report(instance, TIMES);
        }
    };
    match DEEDS[plan.deed] {
        Deed::Respond => {
            report(
                request.respond(|response| {
                    response.output("OUT", DataType::Uint8, &[1, 3], &[7, 8, 9])
                }),
            );
        }
        Deed::RespondEmpty => report(request.respond(|_| Ok(()))),
        Deed::FillError => report(request.respond(|response| {
            response.output("OUT", DataType::Uint8, &[1, 3], &[7, 8, 9])?;
            Err(Error::invalid_argument("no"))
        })),
        Deed::FillPanic => report(request.respond(|response| {
            response.output("OUT", DataType::Uint8, &[1, 3], &[7, 8, 9])?;
            panic!("in fill")
        })),
        Deed::Fail => report(request.fail(Error::unavailable("later"))),
        Deed::Drop => drop(request),
        Deed::Place => match place(&request) {
            Ok(()) => report(request.respond(|_| Ok(()))),
            Err(error) => report(request.fail(error)),
        },
        Deed::PlaceDrop => {
            let _ = place(&request);
            drop(request);
        }
        Deed::Panic => panic!("with the request"),
    }
}

/// Writes the output before the answer.
fn place(request: &Request) -> Result<(), Error> {
    let mut memory = request.output_memory("OUT", DataType::Uint8, &[1, 3], 3)?;
    assert!(!memory.write(&[7, 8]), "of another size");
    memory.alone().unwrap().copy_from_slice(&[1, 2, 3]);
    assert!(memory.write(&[7, 8, 9]));
    Ok(())
}

/// What must have happened to one request; `undone` where the backend panicked before it came to it.
fn expected(plan: Plan, faults: Faults, undone: bool) -> Vec<Event> {
    let deed = if undone { Deed::Drop } else { DEEDS[plan.deed] };
    let ours = |code, message: &str| Failure { code, message: message.to_owned() };
    let unanswered =
        ours(sys::TRITONSERVER_ERROR_INTERNAL, "the backend dropped the request without an answer");
    let output = Output {
        name: "OUT".to_owned(),
        data_type: sys::TRITONSERVER_TYPE_UINT8,
        shape: vec![1, 3],
        bytes: vec![7, 8, 9],
    };
    // The first fault that the output meets.
    let refused = |function: &str| {
        let message = format!("{function} failed: injected failure of {function}");
        ours(sys::TRITONSERVER_ERROR_UNAVAILABLE, &message)
    };
    let (met, left) = if faults.output {
        (Some(refused("TRITONBACKEND_ResponseOutput")), vec![])
    } else if faults.buffer {
        let left = Output { bytes: vec![], ..output };
        (Some(refused("TRITONBACKEND_OutputBuffer")), vec![left])
    } else if faults.gpu_output {
        let message = "output 'OUT' is wanted in GPU memory of device 0; take it in host memory";
        let left = Output { bytes: vec![], ..output };
        (Some(ours(sys::TRITONSERVER_ERROR_UNSUPPORTED, message)), vec![left])
    } else {
        (None, vec![output])
    };
    let invalid = ours(sys::TRITONSERVER_ERROR_INVALID_ARG, "no");
    let (error, outputs, reports) = match deed {
        Deed::Respond | Deed::Place => (met, left, plan.report),
        Deed::RespondEmpty => (None, vec![], plan.report),
        Deed::FillError => (Some(met.unwrap_or(invalid)), left, plan.report),
        // An output that is refused ends the filling before the panic.
        Deed::FillPanic if met.is_some() => (met, left, plan.report),
        Deed::Fail => {
            let later = ours(sys::TRITONSERVER_ERROR_UNAVAILABLE, "later");
            (Some(later), vec![], plan.report)
        }
        Deed::PlaceDrop => (Some(unanswered), left, false),
        Deed::FillPanic | Deed::Drop | Deed::Panic => (Some(unanswered), vec![], false),
    };

    let success = error.is_none() && !faults.response_new && !faults.send;
    // A response that cannot be created is not filled, so nothing panics.
    let reports = reports || (faults.response_new && deed == Deed::FillPanic && plan.report);
    let mut events = Vec::new();
    if !faults.response_new {
        events.push(match faults.send {
            true => Event::SendFailed,
            false => Event::Answered(Answer { error, outputs, last: true }),
        });
    }
    if reports && !faults.report {
        events.push(Event::Reported { success, times: [1, 2, 3, 4] });
    }
    events.push(if faults.release { Event::ReleaseRefused } else { Event::Released });
    events
}

fn faults() -> impl Strategy<Value = Faults> {
    let fault = || proptest::bool::weighted(0.15);
    (fault(), fault(), fault(), fault(), fault(), fault(), fault()).prop_map(
        |(response_new, output, buffer, gpu_output, send, report, release)| Faults {
            response_new,
            output,
            buffer,
            gpu_output,
            send,
            report,
            release,
            ..Faults::default()
        },
    )
}

fn plans() -> impl Strategy<Value = Vec<(Plan, Faults)>> {
    let plan = (0..DEEDS.len(), any::<bool>(), any::<bool>(), any::<bool>())
        .prop_map(|(deed, later, report, cancelled)| Plan { deed, later, report, cancelled });
    prop::collection::vec((plan, faults()), 1..8)
}

/// Draws the same schedules again for the same seed.
fn seeded(seed: u64) -> TestRng {
    let bytes: Vec<u8> = seed.to_le_bytes().into_iter().cycle().take(32).collect();
    TestRng::from_seed(RngAlgorithm::ChaCha, &bytes)
}

#[test]
fn every_request_is_answered_reported_and_released_once() {
    // Panics are part of it.
    std::panic::set_hook(Box::new(|_| ()));
    let host = Host::start(entry_points::<Planned>(), BackendSetup::default()).unwrap();
    let seed = std::env::var("TRITON_BACKEND_SEED").map_or(0x5eed, |seed| seed.parse().unwrap());
    println!("TRITON_BACKEND_SEED={seed}");
    let config =
        ProptestConfig { cases: 10_000, failure_persistence: None, ..ProptestConfig::default() };
    let mut runner = TestRunner::new_with_rng(config, seeded(seed));
    let result = runner.run(&plans(), |plans| {
        // Loaded for these requests, and unloaded behind them.
        let model = host.load(ModelSetup::default()).unwrap();
        let instance = model.instance(InstanceSetup::default()).unwrap();
        let setups = plans.iter().map(|(plan, faults)| RequestSetup {
            parameters: vec![
                ("deed".to_owned(), Parameter::Int(plan.deed as i64)),
                ("later".to_owned(), Parameter::Bool(plan.later)),
                ("report".to_owned(), Parameter::Bool(plan.report)),
            ],
            faults: *faults,
            ..RequestSetup::default()
        });
        let tickets = instance.execute(setups.collect()).unwrap();
        for ((plan, _), ticket) in plans.iter().zip(&tickets) {
            if plan.cancelled {
                ticket.cancel();
            }
        }
        let mut undone = false;
        for ((plan, faults), ticket) in plans.iter().zip(&tickets) {
            prop_assert_eq!(ticket.wait(), expected(*plan, *faults, undone));
            prop_assert_eq!(ticket.live_responses(), 0);
            undone |= !plan.later && panics(*plan, *faults);
        }
        drop(instance);
        Ok(())
    });
    let _ = std::panic::take_hook();
    result.unwrap();
    drop(host);
    assert_eq!(live_errors(), 0);
}

fn panics(plan: Plan, faults: Faults) -> bool {
    match DEEDS[plan.deed] {
        Deed::Panic => true,
        Deed::FillPanic => {
            !(faults.response_new || faults.output || faults.buffer || faults.gpu_output)
        }
        _ => false,
    }
}
