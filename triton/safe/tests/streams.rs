//! A request that is answered with many responses: whatever the backend does with it and whatever the
//! server refuses, one final flag is sent, after everything else, and the request is released once.

#![allow(clippy::panic, clippy::unwrap_used)] // helpers of tests

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use proptest::prelude::*;
use triton_backend::{
    Backend, BackendContext, DataType, Error, Instance, InstanceContext, ModelContext,
    ParameterValue, Request, Requests, Response, Times, entry_points,
};
use triton_backend_sys as sys;
use triton_mock_host::{
    Answer, BackendSetup, Event, Failure, Faults, Host, InstanceSetup, LoadedInstance, ModelSetup,
    Output, Parameter, RequestSetup, Ticket, live_errors,
};

/// How the backend ends a request, after some responses.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    /// With outputs.
    Finish,
    /// Fails while it fills the last response, with one output in it.
    FillError,
    /// Panics there.
    FillPanic,
    /// With an error.
    Fail,
    /// Drops the stream.
    Drop,
    /// Panics with the stream in hand.
    Panic,
    /// Goes on until the client cancels.
    Cancelled,
}

const ENDS: [End; 7] =
    [End::Finish, End::FillError, End::FillPanic, End::Fail, End::Drop, End::Panic, End::Cancelled];

const TIMES: Times = Times { start: 1, compute_start: 2, compute_end: 3, end: 4 };

#[derive(Clone, Copy, Debug)]
struct Plan {
    chunks: usize,
    end: usize,
    /// On a thread of the backend's.
    later: bool,
}

struct Streams;

impl Backend for Streams {
    type Model = ();
    type Instance = Instance;

    fn initialize(_: &BackendContext) -> Result<Self, Error> {
        Ok(Streams)
    }

    fn load(&self, _: &ModelContext) -> Result<(), Error> {
        Ok(())
    }

    fn create_instance(_: &Arc<()>, context: &InstanceContext) -> Result<Instance, Error> {
        Ok(context.instance())
    }

    fn execute(instance: &Instance, requests: Requests<'_>) {
        for request in requests {
            let plan = plan(&request);
            let instance = instance.clone();
            let act = move || {
                let _ = catch_unwind(AssertUnwindSafe(|| act(request, plan, &instance)));
            };
            if plan.later {
                std::thread::spawn(act);
            } else {
                act();
            }
        }
    }
}

fn plan(request: &Request) -> Plan {
    let mut plan = Plan { chunks: 0, end: 0, later: false };
    for (name, value) in request.parameters() {
        match (name, value) {
            ("chunks", ParameterValue::Int(chunks)) => plan.chunks = chunks as usize,
            ("end", ParameterValue::Int(end)) => plan.end = end as usize,
            ("later", ParameterValue::Bool(later)) => plan.later = later,
            other => panic!("{other:?}"),
        }
    }
    plan
}

fn chunk(response: &mut Response<'_>, number: usize) -> Result<(), Error> {
    response.output("OUT", DataType::Uint8, &[1], &[number as u8])
}

fn act(request: Request, plan: Plan, instance: &Instance) {
    let mut stream = match request.into_stream(instance) {
        Ok(stream) => stream,
        Err(answered) => return answered.report(instance, TIMES),
    };
    for number in 0..plan.chunks {
        if let Err(error) = stream.respond(|response| chunk(response, number)) {
            return stream.fail(error).report(instance, TIMES);
        }
    }
    let last = plan.chunks;
    let answered = match ENDS[plan.end] {
        End::Finish => stream.finish(|response| chunk(response, last)),
        End::FillError => stream.finish(|response| {
            chunk(response, last)?;
            Err(Error::invalid_argument("no"))
        }),
        End::FillPanic => stream.finish(|response| {
            chunk(response, last)?;
            panic!("in fill")
        }),
        End::Fail => stream.fail(Error::unavailable("later")),
        End::Drop => return drop(stream),
        End::Panic => panic!("with the stream"),
        End::Cancelled => {
            while !stream.is_cancelled() {
                std::thread::yield_now();
            }
            stream.fail(Error::new(triton_backend::Code::Cancelled, "gone"))
        }
    };
    answered.report(instance, TIMES);
}

fn output(number: usize, bytes: bool) -> Output {
    Output {
        name: "OUT".to_owned(),
        data_type: sys::TRITONSERVER_TYPE_UINT8,
        shape: vec![1],
        bytes: if bytes { vec![number as u8] } else { vec![] },
    }
}

/// What must have happened, without times.
fn expected(plan: Plan, faults: Faults) -> Vec<Event> {
    let failure = |code, message: &str| Some(Failure { code, message: message.to_owned() });
    let refused = |function: &str| {
        let message = format!("{function} failed: injected failure of {function}");
        failure(sys::TRITONSERVER_ERROR_UNAVAILABLE, &message)
    };
    let mut events = Vec::new();
    let sent = |events: &mut Vec<Event>, streamed: bool, last, error: Option<Failure>, outputs| {
        let success = error.is_none();
        events.push(match faults.send {
            true => Event::SendFailed,
            false => Event::Answered(Answer { error, outputs, last }),
        });
        // A chunk that could not be sent is not counted; the last response is.
        if streamed && !faults.report && (last || !faults.send) {
            events.push(Event::ReportedResponse { success, times: [0; 3] });
        }
    };
    let reported = |success| Event::Reported { success, times: [1, 2, 3, 4] };
    let closed = |events: &mut Vec<Event>, success: bool, reports: bool| {
        if reports && !faults.report {
            events.push(reported(success));
        }
        events.push(if faults.release { Event::ReleaseRefused } else { Event::Released });
    };
    if faults.factory_new {
        if !faults.response_new {
            sent(&mut events, false, true, refused("TRITONBACKEND_ResponseFactoryNew"), vec![]);
        }
        closed(&mut events, false, true);
        return events;
    }
    // The first fault that an output meets, and what of it is left in the response.
    let met = |number| {
        if faults.output {
            (refused("TRITONBACKEND_ResponseOutput"), vec![])
        } else if faults.buffer {
            (refused("TRITONBACKEND_OutputBuffer"), vec![output(number, false)])
        } else {
            (None, vec![output(number, true)])
        }
    };
    for number in 0..plan.chunks {
        let (error, _) = met(number);
        let error = match faults.response_new {
            true => refused("TRITONBACKEND_ResponseNewFromFactory"),
            false => error
                .or_else(|| faults.send.then(|| refused("TRITONBACKEND_ResponseSend")).flatten()),
        };
        if !faults.response_new && (error.is_none() || faults.send) && met(number).0.is_none() {
            sent(&mut events, true, false, None, vec![output(number, true)]);
        }
        if error.is_some() {
            if faults.response_new {
                events.push(Event::Ended);
            } else {
                sent(&mut events, true, true, error, vec![]);
            }
            closed(&mut events, false, true);
            return events;
        }
    }
    let (met, left) = met(plan.chunks);
    let unanswered = || {
        failure(
            sys::TRITONSERVER_ERROR_INTERNAL,
            "the backend dropped the request without an answer",
        )
    };
    let end = ENDS[plan.end];
    let (error, outputs, reports) = match end {
        End::Finish => (met, left, true),
        End::FillError => {
            (met.or_else(|| failure(sys::TRITONSERVER_ERROR_INVALID_ARG, "no")), left, true)
        }
        // An output that is refused ends the filling before the panic, and so does no response.
        End::FillPanic if met.is_some() || faults.response_new => (met, left, true),
        End::Fail => (failure(sys::TRITONSERVER_ERROR_UNAVAILABLE, "later"), vec![], true),
        End::Cancelled => (failure(sys::TRITONSERVER_ERROR_CANCELLED, "gone"), vec![], true),
        End::FillPanic | End::Drop | End::Panic => (unanswered(), vec![], false),
    };
    let success = error.is_none() && !faults.response_new && !faults.send;
    if faults.response_new {
        events.push(Event::Ended);
    } else {
        sent(&mut events, true, true, error, outputs);
    }
    closed(&mut events, success, reports);
    events
}

/// Events without the times of responses, which must be in order.
fn without_times(events: Vec<Event>) -> Vec<Event> {
    events
        .into_iter()
        .map(|event| match event {
            Event::ReportedResponse { success, times } => {
                assert!(times[0] > 0 && times.is_sorted(), "{times:?}");
                Event::ReportedResponse { success, times: [0; 3] }
            }
            other => other,
        })
        .collect()
}

fn setup(plan: Plan, faults: Faults) -> RequestSetup {
    RequestSetup {
        parameters: vec![
            ("chunks".to_owned(), Parameter::Int(plan.chunks as i64)),
            ("end".to_owned(), Parameter::Int(plan.end as i64)),
            ("later".to_owned(), Parameter::Bool(plan.later)),
        ],
        faults,
        ..RequestSetup::default()
    }
}

fn instance() -> LoadedInstance {
    let host = Host::start(entry_points::<Streams>(), BackendSetup::default()).unwrap();
    host.load(ModelSetup::default()).unwrap().instance(InstanceSetup::default()).unwrap()
}

fn run(instance: &LoadedInstance, plan: Plan, faults: Faults) -> Ticket {
    let tickets = instance.execute(vec![setup(plan, faults)]).unwrap();
    if ENDS[plan.end] == End::Cancelled {
        tickets[0].cancel();
    }
    tickets.into_iter().next().unwrap()
}

#[test]
fn every_stream_has_one_final_flag_and_one_release() {
    // Panics are part of it.
    std::panic::set_hook(Box::new(|_| ()));
    let instance = instance();
    let fault = || proptest::bool::weighted(0.15);
    let faults = (fault(), fault(), fault(), fault(), fault(), fault(), fault()).prop_map(
        |(factory_new, response_new, output, buffer, send, report, release)| Faults {
            factory_new,
            response_new,
            output,
            buffer,
            send,
            report,
            release,
            ..Faults::default()
        },
    );
    let plans = (0..4_usize, 0..ENDS.len(), any::<bool>()).prop_map(|(chunks, end, later)| {
        // A client cancels while its request is executed only where another thread does that.
        Plan { chunks, end, later: later || ENDS[end] == End::Cancelled }
    });
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: 3000,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let result = runner.run(&(plans, faults), |(plan, faults)| {
        let ticket = run(&instance, plan, faults);
        prop_assert_eq!(without_times(ticket.wait()), expected(plan, faults));
        prop_assert_eq!((ticket.live_responses(), ticket.live_factories()), (0, 0));
        Ok(())
    });
    let _ = std::panic::take_hook();
    result.unwrap();
    drop(instance);
    assert_eq!(live_errors(), 0);
}

/// Triton 25.01 crashed in such a poll. `ResponseStream` is gone after the final flag, so that a
/// backend of this frame cannot do it.
#[test]
fn server_8192_nothing_asks_about_a_request_after_its_final_flag() {
    let instance = instance();
    for end in 0..ENDS.len() {
        let plan = Plan { chunks: 2, end, later: true };
        std::panic::set_hook(Box::new(|_| ()));
        let events = run(&instance, plan, Faults::default()).wait();
        let _ = std::panic::take_hook();
        let finals = events
            .iter()
            .filter(|event| matches!(event, Event::Answered(Answer { last: true, .. })))
            .count();
        assert_eq!(finals, 1, "{events:?}");
        assert!(!events.iter().any(|event| matches!(event, Event::Misused(_))), "{events:?}");
    }
}
