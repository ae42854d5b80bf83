//! Sequences that step together.

use tlaloc_engine::{Arrival, Engine, Nanos, Outcome, Step};

use super::{MS, Packed};

/// How a round went.
pub struct Round {
    pub executions: usize,
    /// No request was refused.
    pub all_ran: bool,
}

/// Sends the requests and answers them. They come back as the next round's, for one token each.
/// Allocates nothing of its own, once `arrivals` and `packed` have their sizes.
pub fn step_all(
    engine: &mut Engine,
    packed: &mut Packed,
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
                engine.complete(Outcome { compute_start, compute_end, result: Ok(()) });
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
                    });
                }
            }
            Step::WaitUntil(time) => *now = time,
            Step::Idle => return round,
            step => panic!("{step:?}"),
        }
    }
}
