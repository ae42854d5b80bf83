//! Sequences that step together.

use tlaloc_engine::{Arrival, Engine, Nanos, Outcome, Step};

use super::{Given, MS, Packed};

/// How a round went.
pub struct Round {
    pub executions: usize,
    /// No request was refused.
    pub all_ran: bool,
}

/// Sends the requests and answers them. They come back as the next round's, for one token each.
/// Allocates nothing of its own, once `arrivals`, `packed` and `given` have their sizes.
pub fn step_all(
    engine: &mut Engine,
    packed: &mut Packed,
    given: &mut Given,
    now: &mut Nanos,
    arrivals: &mut Vec<Arrival>,
) -> Round {
    let mut round = Round { executions: 0, all_ran: true };
    for mut arrival in arrivals.drain(..) {
        arrival.at = *now;
        engine.push(arrival);
    }
    loop {
        match engine.next(*now) {
            Step::Run => {
                packed.fill(engine, 0);
                round.executions += 1;
                let compute_start = *now;
                *now += MS;
                let compute_end = *now;
                let outcome = Outcome { compute_start, compute_end, result: Ok(()) };
                let k = engine.geometry().draft_tokens();
                given.fill(engine.geometry().entries()[engine.call().entry].batch, k);
                engine.complete_with(outcome, (k > 0).then(|| given.results()));
            }
            Step::Reply => {
                for reply in engine.replies() {
                    round.all_ran &= matches!(reply.result, Ok(Some(_)));
                    let mut tokens = reply.tokens;
                    tokens.truncate(1);
                    arrivals.push(Arrival {
                        ticket: reply.ticket,
                        sequence: reply.sequence,
                        start: false,
                        end: false,
                        tokens: Ok(tokens),
                        at: 0,
                        generation: None,
                    });
                }
            }
            Step::WaitUntil(time) => *now = time,
            Step::Idle => return round,
            step => panic!("{step:?}"),
        }
    }
}
