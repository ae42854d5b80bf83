//! In which calls the requests of a batch run, and what their results mean (sequence mode §11,
//! §12). A batch is run from its first call every time, up to the first call whose result is not
//! known yet.

use tlaloc_engine::{CallFailure, EntryKind, EntryShape, Nanos, Outcome, Refusal, RowRef};

use super::{Pools, Reference};
use crate::mutation::Mutation;

/// How far a batch is.
#[derive(Debug, Default)]
pub struct Progress {
    /// One for each request.
    pub states: Vec<State>,
    /// The call whose result is not known.
    pub next: Option<Planned>,
}

/// How far a request is.
#[derive(Clone, Debug, Default)]
pub struct State {
    pub done: usize,
    pub refusal: Option<Refusal>,
    pub row: Option<RowRef>,
    pub compute: Option<(Nanos, Nanos)>,
}

/// A call to come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// Index of the entry.
    pub entry: usize,
    pub ordinal: usize,
    /// Request, tokens of it that have run before, tokens that run now.
    pub rows: Vec<(usize, usize, usize)>,
}

/// Runs the batch of a reference.
pub fn run(reference: &Reference) -> Progress {
    let mut run = Run {
        reference,
        outcomes: reference.outcomes.iter(),
        states: vec![State::default(); reference.works.len()],
        calls: 0,
        // Pools that an execution of this batch took were there at its start.
        pools: reference.pools == Pools::There || !reference.outcomes.is_empty(),
    };
    let next = run.all().err();
    Progress { states: run.states, next }
}

struct Run<'a> {
    reference: &'a Reference,
    outcomes: std::slice::Iter<'a, Outcome>,
    states: Vec<State>,
    calls: usize,
    pools: bool,
}

/// Request and number of its tokens.
type Rows = Vec<(usize, usize)>;

impl Run<'_> {
    fn breaks(&self, mutation: Mutation) -> bool {
        self.reference.breaks(mutation)
    }

    fn rule<T>(&self, right: T, mutation: Mutation, wrong: T) -> T {
        self.reference.rule(right, mutation, wrong)
    }

    /// Tokens of a request that are still to run.
    fn left(&self, work: usize) -> usize {
        match self.states[work].refusal {
            Some(_) => 0,
            None => self.reference.works[work].tokens().len() - self.states[work].done,
        }
    }

    /// Positions that a request's sequence has now.
    fn position(&self, work: usize) -> usize {
        self.reference.works[work].admitted.unwrap_or(0) + self.states[work].done
    }

    /// Requests that passed admission, by whether they have one token or several.
    fn admitted(&self, wanted: impl Fn(usize) -> bool) -> Vec<usize> {
        let works = self.reference.works.iter().enumerate();
        let fits = works.filter(|(_, work)| work.admitted.is_some() && wanted(work.tokens().len()));
        fits.map(|(index, _)| index).collect()
    }

    fn all(&mut self) -> Result<(), Planned> {
        if self.breaks(Mutation::DecodesFirst) {
            self.decodes()?;
            return self.prompts(&self.admitted(|tokens| tokens > 1));
        }
        if self.breaks(Mutation::PromptByPrompt) {
            for work in self.admitted(|tokens| tokens > 1) {
                self.prompts(&[work])?;
            }
        }
        self.prompts(&self.admitted(|tokens| tokens > 1))?;
        self.decodes()
    }

    /// §11.2: rounds, until nothing is left.
    fn prompts(&mut self, prompts: &[usize]) -> Result<(), Planned> {
        loop {
            let mut groups: Vec<(usize, Rows)> = Vec::new();
            let mut stepwise = Rows::new();
            for &work in prompts {
                if self.left(work) == 0 {
                    continue;
                }
                let at = self.position(work);
                let m = self.left(work).min(self.max_tokens_per_call(at));
                let entry = (m > 1).then(|| self.choose(EntryKind::Prefill, 1, at + m, m));
                let Some(entry) = entry.flatten() else {
                    stepwise.push((work, m));
                    continue;
                };
                let context = self.reference.entries[entry].context;
                match groups.iter_mut().find(|(other, _)| *other == context) {
                    Some((_, rows)) => rows.push((work, m)),
                    None => groups.push((context, vec![(work, m)])),
                }
            }
            if self.breaks(Mutation::ContextsMerged) && groups.len() > 1 {
                let context = groups.iter().map(|(context, _)| *context).max().unwrap_or(0);
                groups = vec![(context, groups.into_iter().flat_map(|(_, rows)| rows).collect())];
            }
            if groups.is_empty() && stepwise.is_empty() {
                return Ok(());
            }
            for (context, rows) in groups {
                let of_context = |entry: &&EntryShape| entry.context == context;
                let prefill = self.reference.of_kind(EntryKind::Prefill).filter(of_context);
                let rows_per_call = prefill.map(|entry| entry.batch).max().unwrap_or(0).max(1);
                for rows in rows.chunks(rows_per_call) {
                    let tokens = rows.iter().map(|(_, m)| *m).max().unwrap_or(0);
                    self.execute(EntryKind::Prefill, rows, context, tokens)?;
                }
            }
            for (work, m) in stepwise {
                for _ in 0..m {
                    if self.left(work) > 0 {
                        let context = self.position(work) + 1;
                        self.execute(EntryKind::Decode, &[(work, 1)], context, 1)?;
                    }
                }
            }
        }
    }

    /// §11.3.
    fn decodes(&mut self) -> Result<(), Planned> {
        let batches = self.reference.of_kind(EntryKind::Decode).map(|entry| entry.batch);
        let rows_per_call = batches.max().unwrap_or(0).max(1);
        for works in self.admitted(|tokens| tokens == 1).chunks(rows_per_call) {
            let context = works.iter().map(|&work| self.position(work) + 1).max().unwrap_or(0);
            let rows: Rows = works.iter().map(|&work| (work, 1)).collect();
            self.execute(EntryKind::Decode, &rows, context, 1)?;
        }
        Ok(())
    }

    /// Artifact format §8.
    fn max_tokens_per_call(&self, start: usize) -> usize {
        let prefill = self.reference.of_kind(EntryKind::Prefill);
        let chunk = prefill.map(|entry| entry.tokens).max().unwrap_or(usize::MAX);
        let Some(pools) = self.reference.windowed else { return chunk };
        let seen = start.min(pools.window - 1);
        let seen = self.rule(seen, Mutation::SplitOneLater, seen.saturating_sub(1));
        let ring = (pools.ring_pages * self.reference.block_size).saturating_sub(seen);
        let limit = chunk.min(ring).max(1);
        self.rule(limit, Mutation::SplitByChunkOnly, chunk)
    }

    /// §11.1.
    fn choose(&self, kind: EntryKind, batch: usize, context: usize, t: usize) -> Option<usize> {
        let mut best: Option<usize> = None;
        let entries = &self.reference.entries;
        for (index, entry) in entries.iter().enumerate() {
            let fits = entry.kind == kind
                && entry.batch >= batch
                && entry.context >= context
                && entry.tokens >= t;
            let cost = |entry: &EntryShape| (entry.batch * entry.context, entry.tokens);
            let first = self.breaks(Mutation::FirstEntry);
            let better = best.is_none_or(|best| !first && cost(entry) < cost(&entries[best]));
            if fits && better {
                best = Some(index);
            }
        }
        best
    }

    /// §12, with what a failure means for the call's requests.
    fn execute(
        &mut self,
        kind: EntryKind,
        rows: &[(usize, usize)],
        context: usize,
        tokens: usize,
    ) -> Result<(), Planned> {
        let instance = || self.reference.settings.instance.clone();
        let Some(entry) = self.choose(kind, rows.len(), context, tokens) else {
            let kind = kind.manifest_name();
            let refusal = Refusal::NoEntry { kind, rows: rows.len(), tokens, context };
            self.refuse(rows, refusal);
            return Ok(());
        };
        if !self.pools && !self.breaks(Mutation::LostPoolsRunOn) {
            let instance = instance();
            self.refuse(rows, Refusal::PoolsGone { instance });
            return Ok(());
        }
        let Some(outcome) = self.outcomes.next() else {
            let row = |&(work, m): &(usize, usize)| (work, self.states[work].done, m);
            let rows = rows.iter().map(row).collect();
            return Err(Planned { entry, ordinal: self.calls, rows });
        };
        let call = self.calls;
        self.calls += 1;
        for (row, &(work, m)) in rows.iter().enumerate() {
            let state = &mut self.states[work];
            state.compute = Some((outcome.compute_start, outcome.compute_end));
            let copy_failed = matches!(outcome.result, Err(CallFailure::Copy { .. }));
            let advances = copy_failed && self.reference.breaks(Mutation::CopyFailureAdvances);
            if outcome.result.is_ok() || advances {
                state.done += m;
            }
            if outcome.result.is_ok() {
                state.row = Some(RowRef { call, row });
            }
        }
        let entry = self.reference.entries[entry].id.clone();
        match outcome.result.clone() {
            Ok(()) => {}
            Err(CallFailure::Execution { message, pools_lost: true }) => {
                self.pools = false;
                let instance = instance();
                self.refuse(rows, Refusal::PoolsLost { entry, instance, message });
            }
            Err(CallFailure::Execution { message, pools_lost: false }) => {
                self.refuse(rows, Refusal::ExecutionFailed { entry, message });
                if self.breaks(Mutation::FailureEndsTheBatch) {
                    self.pools = false;
                }
            }
            Err(CallFailure::Copy { message }) => {
                let refusal = Refusal::CopyFailed { entry, message };
                // A recurrent state has taken the tokens in: they cannot be sent again.
                let stuck = self.reference.linear && !self.breaks(Mutation::StateGoesBack);
                let advanced = Refusal::StateAdvanced { cause: Box::new(refusal.clone()) };
                self.refuse(rows, if stuck { advanced } else { refusal });
            }
        }
        Ok(())
    }

    /// A failure after an earlier call of the same request says so (§11.2).
    fn refuse(&mut self, rows: &[(usize, usize)], refusal: Refusal) {
        for &(work, _) in rows {
            let state = &mut self.states[work];
            let refusal = refusal.clone();
            let lost_already = matches!(refusal, Refusal::StateAdvanced { .. });
            state.refusal = Some(if state.done == 0 || lost_already {
                refusal
            } else {
                Refusal::AfterEarlierCall { cause: Box::new(refusal) }
            });
        }
    }
}
