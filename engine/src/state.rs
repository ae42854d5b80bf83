//! The live sequences, what is left for others, and what is to be told of them.

use crate::event::{Event, FreeCause};
use crate::resources::Resources;
use crate::sequence::{Sequence, SequenceKey, Sequences};
use crate::{Geometry, SequenceId};

/// What lives from batch to batch.
#[derive(Debug)]
pub(crate) struct State {
    pub sequences: Sequences,
    pub resources: Resources,
    draft_tokens: usize,
    pub events: Vec<Event>,
}

impl State {
    pub fn new(geometry: &Geometry) -> State {
        State {
            sequences: Sequences::default(),
            resources: Resources::new(geometry),
            draft_tokens: geometry.draft_tokens(),
            events: Vec::new(),
        }
    }

    /// An empty sequence.
    pub fn create(&mut self, id: &SequenceId) -> SequenceKey {
        self.sequences.create(id.clone(), self.resources.none_held(), self.draft_tokens)
    }

    /// Frees a sequence if it is held.
    pub fn free(&mut self, id: &SequenceId, cause: FreeCause) {
        self.remove(id, |sequence| Event::Freed {
            sequence: id.clone(),
            held: sequence.held.amounts(),
            tokens: sequence.length,
            cause,
        });
    }

    /// Frees a sequence if it is held, as `event` tells.
    pub fn remove(&mut self, id: &SequenceId, event: impl FnOnce(&Sequence) -> Event) {
        if let Some(sequence) = self.sequences.remove(id) {
            self.events.push(event(&sequence));
            self.resources.give_back(sequence.held);
        }
    }

    /// Frees every sequence; returns how many.
    pub fn free_all(&mut self) -> usize {
        let sequences = self.sequences.len();
        for sequence in self.sequences.drain() {
            self.resources.give_back(sequence.held);
        }
        sequences
    }
}
