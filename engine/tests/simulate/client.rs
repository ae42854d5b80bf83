//! Clients: they chat, pause, die, resend, start and end at will, overflow and send nonsense.

use tlaloc_engine::{Generation, Nanos, SequenceId};

use crate::scenario::{PLACEHOLDER, VOCABULARY};
use crate::support::{MS, Random, US};

/// What a client is inclined to; percentages.
#[derive(Clone, Copy)]
pub struct Temper {
    /// From a reply to its next request.
    pauses: &'static [Nanos],
    /// It never comes back.
    dies: usize,
    /// It sends a refused request again.
    resends: usize,
    /// It starts what is started, ends what is ended, goes on with what is not there.
    confused: usize,
    /// It sends more than fits.
    overflows: usize,
    /// It sends tokens that no model has, or something else that intake refuses.
    nonsense: usize,
    /// It does not wait for the reply.
    impatient: usize,
}

impl Temper {
    pub fn new(random: &mut Random) -> Temper {
        Temper {
            pauses: random.pick(&[
                &[0][..],
                &[0, 100 * US, MS, 4 * MS],
                &[100 * US, 100 * US, 100 * US, 30 * MS],
                &[0, MS, 5_000 * MS],
            ]),
            dies: random.pick(&[0, 2, 10]),
            resends: random.pick(&[0, 30, 70]),
            confused: random.pick(&[0, 2, 20]),
            overflows: random.pick(&[0, 3, 10]),
            nonsense: random.pick(&[0, 3, 10]),
            impatient: random.pick(&[0, 0, 0, 5]),
        }
    }
}

/// What a client sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub start: bool,
    pub end: bool,
    pub tokens: Vec<i32>,
    /// Intake finds it malformed.
    pub malformed: bool,
    /// The engine is to go on by itself.
    pub generation: Option<Generation>,
}

pub struct Client {
    pub id: Option<SequenceId>,
    /// When it sends its next request; none while it waits for a reply, or when it is dead.
    pub due: Option<Nanos>,
    temper: Temper,
    /// It believes that its sequence lives.
    started: bool,
    last: Option<Message>,
    again: bool,
    /// The last token that it was given, to be sent back.
    given: Option<i32>,
}

impl Client {
    pub fn new(id: Option<SequenceId>, temper: Temper, due: Nanos) -> Client {
        let due = Some(due);
        Client { id, due, temper, started: false, last: None, again: false, given: None }
    }

    /// Its next request, at the time when that is due. `room` is the model's largest context.
    /// Generations are for models with a draft head.
    pub fn speak(&mut self, random: &mut Random, room: usize, generates: bool) -> Message {
        let now = self.due.take();
        if random.chance(self.temper.impatient) {
            self.due = now.map(|now| now + random.pick(&[0, MS]));
        }
        let again = std::mem::take(&mut self.again);
        let message = match self.last.take().filter(|_| again) {
            Some(message) => message,
            None => self.compose(random, room, generates),
        };
        self.last = Some(message.clone());
        message
    }

    fn compose(&mut self, random: &mut Random, room: usize, generates: bool) -> Message {
        let temper = self.temper;
        let start = self.started == random.chance(temper.confused);
        let end = if self.started { random.chance(10) } else { random.chance(3) };
        let count = if random.chance(temper.overflows) {
            random.below(2 * room + 2)
        } else if end && random.chance(50) || random.chance(temper.confused / 2) {
            0
        } else if start || random.chance(15) {
            let most = random.below(room);
            1 + random.below(1 + most)
        } else {
            1
        };
        let mut tokens: Vec<i32> = (0..count)
            .map(|_| random.below(VOCABULARY) as i32)
            .map(|token| if token == PLACEHOLDER { 0 } else { token })
            .collect();
        if let ([token], Some(given)) = (&mut tokens[..], self.given)
            && random.chance(90)
        {
            *token = given;
        }
        let generation = (generates && random.chance(30)).then(|| Generation {
            max_tokens: random.pick(&[0, 1, 2, 5, 12, 40]),
            end_tokens: if random.chance(30) { (100..150).collect() } else { Vec::new() },
        });
        let nonsense = random.chance(temper.nonsense);
        if nonsense && !tokens.is_empty() {
            let at = random.below(tokens.len());
            tokens[at] = random.pick(&[PLACEHOLDER, VOCABULARY as i32, -1, i32::MAX, i32::MIN]);
        }
        self.started = !end;
        Message { start, end, tokens, malformed: nonsense && random.chance(30), generation }
    }

    /// It gets a reply; `known` is whether its sequence is held now.
    /// The tokens that it was given, if any, say how to go on.
    pub fn hear(
        &mut self,
        refused: bool,
        known: bool,
        given: &[i32],
        now: Nanos,
        random: &mut Random,
    ) {
        self.given = given.last().copied().or(self.given);
        if random.chance(self.temper.dies) {
            self.due = None;
            return;
        }
        self.again = refused && random.chance(self.temper.resends);
        self.started = known;
        self.due = Some(now + random.pick(self.temper.pauses));
    }
}
