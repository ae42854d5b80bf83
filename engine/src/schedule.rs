//! In which calls the requests of a batch run (sequence mode §11): prompts in rounds, then decode
//! groups. The schedule looks at results of earlier calls only through the works and sequences.

use tlaloc_artifact::EntryKind;

use crate::Geometry;
use crate::sequence::{SequenceKey, Sequences};
use crate::speculation::extra_positions;
use crate::work::{CallRow, Work};

/// An admitted request with tokens to run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Admitted {
    /// Index into the batch.
    pub work: usize,
    pub sequence: SequenceKey,
    /// The sequence's drafts are verified.
    pub verify: bool,
}

/// The entry that a call asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Demand {
    pub kind: EntryKind,
    pub context: usize,
    pub tokens: usize,
}

/// What a schedule reads.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub works: &'a [Work],
    pub sequences: &'a Sequences,
    pub geometry: &'a Geometry,
}

/// The calls of a batch, one after another.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    prompts: Prompts,
    decodes: Decodes,
}

impl Schedule {
    pub fn clear(&mut self) {
        self.prompts.clear();
        self.decodes.clear();
    }

    /// Adds a request of so many tokens. With a draft head, one token that is not the last one given
    /// is a prompt, too: its decode entries verify.
    pub fn add(&mut self, admitted: Admitted, tokens: usize, geometry: &Geometry) {
        let drafts = geometry.drafts().is_some();
        match tokens {
            0 => {}
            1 if !drafts || admitted.verify => self.decodes.all.push(admitted),
            _ => self.prompts.all.push(admitted),
        }
    }

    /// Fills `rows` with those of the next call; none when all have run. The caller has recorded
    /// the result of the call before.
    pub fn next(&mut self, view: View<'_>, rows: &mut Vec<CallRow>) -> Option<Demand> {
        rows.clear();
        self.prompts.next(view, rows).or_else(|| self.decodes.next(view, rows))
    }
}

/// Requests of several tokens. Each round runs one call's worth of every prompt.
#[derive(Debug, Default)]
struct Prompts {
    all: Vec<Admitted>,
    /// This round's rows of prefill calls, those of one context together.
    chunked: Vec<(usize, CallRow)>,
    next_chunked: usize,
    /// This round's rows that no prefill entry takes: they run token by token, or with a draft head
    /// not at all.
    stepwise: Vec<CallRow>,
    next_stepwise: usize,
    /// Contexts of this round's calls, in order of first appearance.
    contexts: Vec<usize>,
}

impl Prompts {
    fn clear(&mut self) {
        self.all.clear();
        self.forget_round();
    }

    fn forget_round(&mut self) {
        self.chunked.clear();
        self.next_chunked = 0;
        self.stepwise.clear();
        self.next_stepwise = 0;
        self.contexts.clear();
    }

    fn next(&mut self, view: View<'_>, rows: &mut Vec<CallRow>) -> Option<Demand> {
        loop {
            if let Some(demand) = self.next_of_round(view, rows) {
                return Some(demand);
            }
            self.plan_round(view);
            if self.chunked.is_empty() && self.stepwise.is_empty() {
                return None;
            }
        }
    }

    fn plan_round(&mut self, View { works, sequences, geometry }: View<'_>) {
        self.forget_round();
        let drafts = geometry.drafts().is_some();
        for &Admitted { work, sequence, .. } in &self.all {
            let start = sequences[sequence].length;
            let count = works[work].left().min(geometry.max_tokens_per_call(start));
            if count == 0 {
                continue;
            }
            let row = CallRow { work, sequence, count, verify: false };
            let reach = start + count + extra_positions(count, false, geometry);
            let entry = (count > 1 || drafts)
                .then(|| geometry.choose(EntryKind::Prefill, 1, reach, count))
                .flatten();
            match entry {
                Some(entry) => {
                    let context = geometry.entries()[entry].context;
                    if !self.contexts.contains(&context) {
                        self.contexts.push(context);
                    }
                    self.chunked.push((context, row));
                }
                None => self.stepwise.push(row),
            }
        }
        let rank = |context| self.contexts.iter().position(|&known| known == context);
        self.chunked.sort_unstable_by_key(|(context, row)| (rank(*context), row.work));
    }

    fn next_of_round(&mut self, view: View<'_>, rows: &mut Vec<CallRow>) -> Option<Demand> {
        let rest = &self.chunked[self.next_chunked..];
        if let Some(&(context, _)) = rest.first() {
            let chunk = rest
                .iter()
                .take_while(|(other, _)| *other == context)
                .take(view.geometry.max_prefill_batch(context));
            rows.extend(chunk.map(|(_, row)| *row));
            self.next_chunked += rows.len();
            let tokens = rows.iter().map(|row| row.count).max().unwrap_or(0);
            return Some(Demand { kind: EntryKind::Prefill, context, tokens });
        }
        while let Some(row) = self.stepwise.get_mut(self.next_stepwise) {
            if view.geometry.drafts().is_some() {
                self.next_stepwise += 1;
                rows.push(*row);
                let extra = extra_positions(row.count, false, view.geometry);
                let context = view.sequences[row.sequence].length + row.count + extra;
                return Some(Demand { kind: EntryKind::Prefill, context, tokens: row.count });
            }
            if row.count > 0 && view.works[row.work].left() > 0 {
                row.count -= 1;
                let context = view.sequences[row.sequence].length + 1;
                rows.push(CallRow { count: 1, ..*row });
                return Some(Demand { kind: EntryKind::Decode, context, tokens: 1 });
            }
            self.next_stepwise += 1;
        }
        None
    }
}

/// Requests of one token, or verify steps, in groups of at most the largest decode batch.
#[derive(Debug, Default)]
struct Decodes {
    all: Vec<Admitted>,
    next: usize,
}

impl Decodes {
    fn clear(&mut self) {
        self.all.clear();
        self.next = 0;
    }

    fn next(&mut self, view: View<'_>, rows: &mut Vec<CallRow>) -> Option<Demand> {
        let group = self.all[self.next..].iter().take(view.geometry.max_decode_batch().max(1));
        let row = |&Admitted { work, sequence, verify }: &Admitted| CallRow {
            work,
            sequence,
            count: 1,
            verify,
        };
        rows.extend(group.map(row));
        self.next += rows.len();
        let longest = rows.iter().map(|row| view.sequences[row.sequence].length).max()?;
        let context = longest + 1 + extra_positions(1, true, view.geometry);
        Some(Demand { kind: EntryKind::Decode, context, tokens: 1 + view.geometry.draft_tokens() })
    }
}
