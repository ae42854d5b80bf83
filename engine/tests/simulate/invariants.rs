//! What holds whatever the rules are, checked without the reference.

use std::collections::{BTreeMap, BTreeSet};

use tlaloc_engine::{Engine, Refusal, Reply, SequenceId};

use crate::support::check;

/// What an engine holds of a sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    pub length: usize,
    pub pages: Vec<usize>,
    pub ring: Vec<usize>,
    pub state_slots: Vec<usize>,
}

pub type Sequences = BTreeMap<SequenceId, Held>;

/// All that an engine holds.
pub fn sequences(engine: &Engine) -> Sequences {
    let held = |live: tlaloc_engine::LiveSequence<'_>| Held {
        length: live.length,
        pages: live.pages.to_vec(),
        ring: live.ring.to_vec(),
        state_slots: live.state_slots.to_vec(),
    };
    engine.sequences().map(|live| (live.id.clone(), held(live))).collect()
}

/// Requests that are inside.
#[derive(Default)]
pub struct Ledger {
    open: BTreeMap<u64, Sent>,
    closed: BTreeSet<u64>,
}

/// What the table of refusals asks of a request.
#[derive(Clone, Debug)]
pub struct Sent {
    pub id: Option<SequenceId>,
    pub start: bool,
    pub end: bool,
    /// Who sent it.
    pub client: usize,
}

impl Ledger {
    pub fn open(&mut self, ticket: u64, sent: Sent) {
        self.open.insert(ticket, sent);
    }

    /// A request is answered, and with that released: once.
    pub fn close(&mut self, ticket: u64) -> Result<Sent, String> {
        let sent = self.open.remove(&ticket);
        let again = if self.closed.insert(ticket) { "was never sent" } else { "is answered twice" };
        sent.ok_or_else(|| format!("request {ticket} {again}"))
    }

    /// A generation's first step is in: its sequence is started.
    pub fn started(&mut self, ticket: u64) {
        if let Some(sent) = self.open.get_mut(&ticket) {
            sent.start = false;
        }
    }

    /// Nobody waits for an answer.
    pub fn check_empty(&self) -> Result<(), String> {
        check(self.open.is_empty(), || format!("never answered: {:?}", self.open))
    }
}

/// What a request leaves of its sequence (sequence mode §21), from how that was when its batch
/// started.
pub fn check_aftermath(
    sent: &Sent,
    reply: &Reply,
    before: &Sequences,
    after: &Sequences,
) -> Result<(), String> {
    let Some(id) = &sent.id else { return Ok(()) };
    let (before, after) = (before.get(id), after.get(id));
    let wrong = || {
        let result = &reply.result;
        Err(format!("{sent:?} is answered {result:?}: {before:?} became {after:?}"))
    };
    let right = match &reply.result {
        _ if sent.end => after.is_none(),
        Ok(_) => after.is_some(),
        // Whatever it had of several calls is of no use.
        Err(
            Refusal::AfterEarlierCall { .. }
            | Refusal::StateAdvanced { .. }
            | Refusal::NoToken { .. },
        ) => after.is_none(),
        // It was admitted: its pages are taken, its length is as it was.
        Err(
            Refusal::NoEntry { .. }
            | Refusal::ExecutionFailed { .. }
            | Refusal::PoolsLost { .. }
            | Refusal::PoolsGone { .. }
            | Refusal::CopyFailed { .. },
        ) => {
            let length = if sent.start { 0 } else { before.map_or(0, |held| held.length) };
            after.is_some_and(|held| held.length == length)
        }
        Err(_) if sent.start => after.is_none(),
        Err(_) => after == before,
    };
    if right { Ok(()) } else { wrong() }
}

#[cfg(test)]
mod tests {
    use tlaloc_engine::{Amounts, Ticket, Times};

    use super::*;
    use crate::support::number;

    fn reply(result: Result<Option<tlaloc_engine::RowRef>, Refusal>) -> Reply {
        Reply {
            ticket: Ticket(0),
            sequence: Some(number(1)),
            result,
            held: Amounts::default(),
            times: Times { start: 0, compute_start: 0, compute_end: 0 },
            tokens: Vec::new(),
            sent: 0,
            step: 0,
        }
    }

    #[test]
    fn a_refusal_that_changes_something_is_seen() {
        let held = |length| Held { length, pages: vec![1], ring: vec![], state_slots: vec![] };
        let of = |length: Option<usize>| -> Sequences {
            length.map(|length| (number(1), held(length))).into_iter().collect()
        };
        let sent = |start, end| Sent { id: Some(number(1)), start, end, client: 0 };
        let malformed = || reply(Err(Refusal::Malformed(String::new())));
        let failed = || {
            let (entry, message) = (String::new(), String::new());
            reply(Err(Refusal::ExecutionFailed { entry, message }))
        };
        let lost = || {
            let cause = Box::new(Refusal::NoSequence);
            reply(Err(Refusal::AfterEarlierCall { cause }))
        };
        // (request, reply, length before, length after, whether that is right)
        let cases = [
            (sent(false, false), malformed(), Some(3), Some(3), true),
            (sent(false, false), malformed(), Some(3), Some(4), false),
            (sent(false, false), malformed(), Some(3), None, false),
            (sent(false, false), malformed(), None, Some(0), false),
            (sent(true, false), malformed(), Some(3), None, true),
            (sent(true, false), malformed(), Some(3), Some(3), false),
            (sent(false, true), malformed(), Some(3), None, true),
            (sent(false, true), malformed(), Some(3), Some(3), false),
            (sent(false, false), failed(), Some(3), Some(3), true),
            (sent(false, false), failed(), Some(3), Some(4), false),
            (sent(false, false), failed(), Some(3), None, false),
            (sent(true, false), failed(), Some(3), Some(0), true),
            (sent(true, false), failed(), Some(3), Some(3), false),
            (sent(false, false), lost(), Some(3), None, true),
            (sent(false, false), lost(), Some(3), Some(3), false),
        ];
        for (sent, reply, before, after, right) in cases {
            let result = check_aftermath(&sent, &reply, &of(before), &of(after));
            assert_eq!(result.is_ok(), right, "{sent:?} {before:?} {after:?}");
        }
    }

    #[test]
    fn requests_that_are_answered_twice_or_never_are_seen() {
        let mut ledger = Ledger::default();
        ledger.open(1, Sent { id: None, start: false, end: false, client: 0 });
        assert!(ledger.check_empty().is_err());
        assert!(ledger.close(1).is_ok());
        assert!(ledger.close(1).is_err() && ledger.close(2).is_err());
        assert!(ledger.check_empty().is_ok());
    }
}
