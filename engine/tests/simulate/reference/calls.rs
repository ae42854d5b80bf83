//! In which calls the requests of a batch run, and what their results mean (sequence mode §11,
//! §12). A batch is run from its first call every time, up to the first call whose result is not
//! known yet.

use tlaloc_engine::{CallFailure, EntryKind, EntryShape, Nanos, Outcome, Refusal, RowRef};

use super::{Pools, Reference, Sequence, Work};
use crate::mutation::Mutation;
use crate::support::Given;

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
    /// Its sequence, from admission on.
    pub sequence: Option<Sequence>,
    pub done: usize,
    /// What its last call gave.
    pub emitted: Vec<i32>,
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
        states: reference
            .works
            .iter()
            .map(|work| State { sequence: work.admitted.clone(), ..State::default() })
            .collect(),
        calls: 0,
        // Pools that an execution of this batch took were there at its start.
        pools: reference.pools == Pools::There || !reference.outcomes.is_empty(),
    };
    let next = run.all().err();
    Progress { states: run.states, next }
}

struct Run<'a> {
    reference: &'a Reference,
    outcomes: std::slice::Iter<'a, (Outcome, Given, bool)>,
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
        self.states[work].sequence.as_ref().map_or(0, |sequence| sequence.tokens.len())
    }

    /// Requests with tokens that passed admission: decode steps, or prompts.
    fn admitted(&self, decode: bool) -> Vec<usize> {
        let step = |work: &Work| match self.reference.drafts {
            Some(_) if !self.breaks(Mutation::OneTokenIsAStep) => work.verify,
            _ => work.tokens().len() == 1,
        };
        let works = self.reference.works.iter().enumerate();
        let fits = works.filter(|(_, work)| {
            work.admitted.is_some() && !work.tokens().is_empty() && step(work) == decode
        });
        fits.map(|(index, _)| index).collect()
    }

    fn all(&mut self) -> Result<(), Planned> {
        if self.breaks(Mutation::DecodesFirst) {
            self.decodes()?;
            return self.prompts(&self.admitted(false));
        }
        if self.breaks(Mutation::PromptByPrompt) {
            for work in self.admitted(false) {
                self.prompts(&[work])?;
            }
        }
        self.prompts(&self.admitted(false))?;
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
                let drafts = self.reference.drafts.is_some();
                let reach = at + m + self.reference.extra(m, false);
                let entry = (m > 1 || drafts).then(|| self.choose(EntryKind::Prefill, 1, reach, m));
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
                if self.reference.drafts.is_some() {
                    // Decode entries only verify.
                    let reach = self.position(work) + m + self.reference.extra(m, false);
                    self.execute(EntryKind::Prefill, &[(work, m)], reach, m)?;
                    continue;
                }
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
        let k = self.reference.drafts.map_or(0, |drafts| drafts.tokens);
        let extra = self.reference.extra(1, true);
        for works in self.admitted(true).chunks(rows_per_call) {
            let reach = |&work: &usize| self.position(work) + 1 + extra;
            let context = works.iter().map(reach).max().unwrap_or(0);
            let rows: Rows = works.iter().map(|&work| (work, 1)).collect();
            self.execute(EntryKind::Decode, &rows, context, 1 + k)?;
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
        let Some((outcome, given, ahead)) = self.outcomes.next() else {
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
            let given = match self.reference.drafts {
                Some(drafts) if outcome.result.is_ok() => {
                    let Some((next, drafts)) = given.row(row, drafts.tokens) else {
                        let sequence = self.reference.works[work].arrival.sequence.clone();
                        let entry = self.reference.entries[entry].id.clone();
                        state.refusal =
                            sequence.map(|sequence| Refusal::NoToken { entry, sequence });
                        continue;
                    };
                    Some((next, drafts))
                }
                _ => None,
            };
            if outcome.result.is_ok() || advances {
                let before = state.done;
                state.done += m;
                let work = &self.reference.works[work];
                if let Some(sequence) = &mut state.sequence {
                    sequence.tokens.extend(&work.tokens()[before..before + m]);
                    if let Some((next, drafts)) = given {
                        state.emitted = next.to_vec();
                        take(self.reference, sequence, next, drafts, work.verify);
                    }
                }
            }
            if outcome.result.is_ok() {
                state.row = Some(RowRef { call, row });
            }
        }
        let verify = rows.iter().all(|&(work, _)| self.reference.works[work].verify);
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
                // The state that a verify step started from is still where it was, unless the next one
                // wrote over it.
                let kept = verify && !self.rule(*ahead, Mutation::LostAheadKeeps, false);
                let stuck = stuck && (!kept || self.breaks(Mutation::LostStepsLose));
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

/// What a sequence was given becomes of it (artifact format §10.2, §10.3); its request's own tokens
/// are among its tokens already.
fn take(
    reference: &Reference,
    sequence: &mut Sequence,
    next: &[i32],
    drafts: &[i32],
    verify: bool,
) {
    let accepted = next.len() - 1;
    if verify {
        let right = reference.rule(accepted, Mutation::EveryDraftCounts, drafts.len());
        let right = sequence.drafts[..right].to_vec();
        sequence.tokens.extend(right);
        if !reference.breaks(Mutation::StateStays) {
            sequence.state_slots.swap(0, 1 + accepted);
        }
    }
    sequence.pending = next.last().copied();
    let legal = |&token: &i32| (token as usize) < reference.vocabulary;
    sequence.drafts = drafts.iter().map(|token| if legal(token) { *token } else { 0 }).collect();
}
