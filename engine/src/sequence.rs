//! Sequences: what a client names, and what the instance holds for it.

use std::collections::HashMap;
use std::fmt;
use std::ops::{Index, IndexMut};
use std::sync::Arc;

use slab::Slab;

use crate::Nanos;
use crate::resources::Held;

/// A correlation id. Numbers and texts never meet: `7` and `"7"` are two sequences.
///
/// The number 0 and the empty text mean "not in a sequence" to Triton; an arrival without a
/// sequence stands for them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SequenceId {
    /// An unsigned correlation id.
    Number(u64),
    /// A text correlation id.
    Text(Arc<str>),
}

impl fmt::Display for SequenceId {
    /// A number bare, a text quoted and escaped (it comes from a client and goes to logs).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SequenceId::Number(id) => write!(f, "{id}"),
            SequenceId::Text(id) => write!(f, "{id:?}"),
        }
    }
}

/// A live sequence, to look at.
#[derive(Clone, Copy, Debug)]
pub struct LiveSequence<'a> {
    /// Its correlation id.
    pub id: &'a SequenceId,
    /// Tokens that it holds.
    pub length: usize,
    /// Its KV pages, in the order of its positions.
    pub pages: &'a [usize],
    /// Its ring pages, in ring order; none without windowed pools.
    pub ring: &'a [usize],
    /// Its state slots, the one of its state first and then those that a verify step writes; none
    /// without linear attention.
    pub state_slots: &'a [usize],
    /// The last token that it was given by a model with a draft head, which has no KV yet.
    pub pending: Option<i32>,
    /// Proposals for the tokens after that one.
    pub drafts: &'a [i32],
}

/// State of a live sequence.
#[derive(Debug)]
pub(crate) struct Sequence {
    pub id: SequenceId,
    /// Positions whose KV is valid: `0..length`.
    pub length: usize,
    pub held: Held,
    /// The last token that it was given by a model with a draft head: it has no KV yet.
    pub pending: Option<i32>,
    /// Proposals for the tokens after that one; none before the first call.
    pub drafts: Vec<i32>,
    /// End of the last batch with a request of it; none before the first.
    pub last_active: Option<Activity>,
}

/// When a sequence was last active. Sequences of one batch are ordered as in the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Activity {
    pub at: Nanos,
    pub order: u64,
}

/// Names a live sequence for as long as it lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SequenceKey(usize);

/// The live sequences of an instance.
#[derive(Debug, Default)]
pub(crate) struct Sequences {
    live: Slab<Sequence>,
    by_id: HashMap<SequenceId, usize>,
}

impl Sequences {
    pub fn len(&self) -> usize {
        self.live.len()
    }

    pub fn find(&self, id: &SequenceId) -> Option<SequenceKey> {
        self.by_id.get(id).copied().map(SequenceKey)
    }

    /// An empty sequence, with room for so many drafts. No sequence of this id may be live.
    pub fn create(&mut self, id: SequenceId, held: Held, drafts: usize) -> SequenceKey {
        debug_assert!(self.find(&id).is_none(), "sequence {id} is live");
        let sequence = Sequence {
            id: id.clone(),
            length: 0,
            held,
            pending: None,
            drafts: Vec::with_capacity(drafts),
            last_active: None,
        };
        let key = self.live.insert(sequence);
        self.by_id.insert(id, key);
        SequenceKey(key)
    }

    /// Takes a sequence out; its resources go with it.
    pub fn remove(&mut self, id: &SequenceId) -> Option<Sequence> {
        let key = self.by_id.remove(id)?;
        self.live.try_remove(key)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Sequence> {
        self.live.iter().map(|(_, sequence)| sequence)
    }

    /// Takes every sequence out.
    pub fn drain(&mut self) -> impl Iterator<Item = Sequence> {
        self.by_id.clear();
        self.live.drain()
    }
}

impl Index<SequenceKey> for Sequences {
    type Output = Sequence;

    fn index(&self, key: SequenceKey) -> &Sequence {
        &self.live[key.0]
    }
}

impl IndexMut<SequenceKey> for Sequences {
    fn index_mut(&mut self, key: SequenceKey) -> &mut Sequence {
        &mut self.live[key.0]
    }
}
