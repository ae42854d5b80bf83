//! Calls: what they are to be, what the device makes of them, and what is sampled.

use tlaloc_engine::generation::Row;
use tlaloc_engine::{CallFailure, EntryKind, Outcome};

use super::World;
use crate::gaps::Gaps;
use crate::reference::Sampled;
use crate::sabotage::Sabotage;
use crate::scenario::{LAST, POISON, model, proposals};
use crate::support::check;

impl World {
    pub(super) fn execute(&mut self) -> Result<(), String> {
        self.packed.fill(&self.scheduler, i32::MIN);
        let planned = self.reference.call.clone().ok_or("runs an unknown call")?;
        let call = self.scheduler.call();
        let shape = self.scheduler.geometry().entries()[call.entry].clone();
        let rows: Vec<Row<'_>> = call.rows().collect();
        let plan = || format!("runs {rows:?} on {}, not {planned:?}", shape.id);
        check(call.entry == planned.entry && rows.len() == planned.rows.len(), plan)?;
        let mut expected = Vec::new();
        for (row, (ticket, count)) in rows.iter().zip(&planned.rows) {
            let request = self.reference.get(*ticket).ok_or("runs an unknown request")?;
            let history = [&request.tokens[..], &request.drafts].concat();
            let end = request.computed + count;
            let same = row.ticket.0 == *ticket
                && row.position == request.computed
                && row.tokens == &history[request.computed..end]
                && row.drafts == request.drafts.len()
                && row.samples == (end == history.len())
                && row.remaining == request.remaining();
            check(same, || format!("runs {row:?}, not {count} of {request:?}"))?;
            expected.push((*ticket, row.drafts, row.samples, history[..end].to_vec()));
        }
        self.note((&shape.id, &planned.rows));
        let decodes = shape.kind == EntryKind::Decode;
        let step_of_prompt = decodes && rows.iter().any(|row| !row.samples);
        let own_drafts = self.scheduler.geometry().drafts().is_some();
        let one_token = own_drafts && !decodes && planned.rows.iter().any(|row| row.1 == 1);
        let tickets: Vec<_> = planned.rows.iter().map(|row| row.0).collect();
        let budget = self.scenario.settings.max_prefill_tokens_per_step;
        self.gaps.call(&shape, &tickets, budget)?;
        if step_of_prompt {
            self.saw("step of a prompt");
        }
        if one_token {
            self.saw("prefill of one token");
        }
        if !decodes && !shape.verifies() && tickets.len() > 1 {
            self.saw("joint prefill");
        }

        let result = self.outcome();
        self.note(&result);
        let mut sampled = Vec::new();
        if matches!(result, Ok(()) | Err(CallFailure::Copy { .. })) {
            let remembers =
                planned.rows.iter().zip(&expected).any(|(row, all)| all.3.len() > row.1);
            if remembers && self.faults(Sabotage::ForgetfulDevice) {
                self.device.zero();
            }
            let read = self.device.execute(&shape, &self.packed)?;
            for (read, (ticket, _, _, history)) in read.iter().zip(&expected) {
                check(read == history, || format!("{ticket} reads {read:?}, not {history:?}"))?;
            }
            check(read[expected.len()..].iter().all(Vec::is_empty), || "padding reads".into())?;
        }
        if result.is_ok() {
            for (ticket, drafts, samples, history) in expected {
                sampled.push(self.sample(ticket, drafts, samples, &history)?);
            }
        } else {
            tickets.iter().for_each(|ticket| self.gaps.stops(*ticket));
        }
        let compute_start = self.now;
        let nanos = self.random.pick(self.scenario.executions);
        if self.random.chance(30) {
            self.now += nanos / 2;
            self.deliver()?;
        }
        self.now = compute_start + nanos;
        self.reference.complete(nanos, result.clone(), &sampled);
        let hidden = result.is_err() && self.faults(Sabotage::HiddenFailure);
        self.verdicts.clear();
        for sampled in &sampled {
            match sampled {
                Sampled::Nothing => self.verdicts.push_none(),
                Sampled::Tokens(tokens, proposed, finished) => {
                    self.verdicts.push_tokens(tokens, *finished);
                    self.verdicts.propose(proposed);
                }
                Sampled::Failed => self.verdicts.push_failed(),
            }
        }
        let result = if hidden { Ok(()) } else { result };
        let outcome = Outcome { compute_start, compute_end: self.now, result };
        self.scheduler.complete(outcome, &self.verdicts);
        Ok(())
    }

    /// How the next call goes.
    fn outcome(&mut self) -> Result<(), CallFailure> {
        // Requests in host memory are rare, and must survive.
        let more = if self.scheduler.counts().swapped > 0 { 4 } else { 1 };
        if !self.random.chance(more * self.scenario.trouble) {
            return Ok(());
        }
        let message = "boom".to_owned();
        Err(match self.random.below(4) {
            0 => {
                self.device.zero();
                self.lost_pools();
                CallFailure::Execution { message, pools_lost: true }
            }
            1 => {
                self.saw("copy failed");
                CallFailure::Copy { message }
            }
            _ => {
                self.saw("execution failed");
                CallFailure::Execution { message, pools_lost: false }
            }
        })
    }

    pub(super) fn lost_pools(&mut self) {
        self.saw("pools lost");
        self.gaps = Gaps::default();
        if self.scheduler.counts().swapped > 0 {
            self.saw("swap lost with pools");
        }
    }

    /// What the owner makes of a row whose call took `history` in, the last tokens of it drafts.
    fn sample(
        &mut self,
        ticket: u64,
        drafts: usize,
        samples: bool,
        history: &[i32],
    ) -> Result<Sampled, String> {
        if !samples {
            return Ok(Sampled::Nothing);
        }
        let bad = history.contains(&POISON) || self.random.chance(self.scenario.bad_rows);
        let wrong_draft = self.fault == Some(Sabotage::WrongDraft);
        let known = self.clients.get_mut(&ticket).ok_or("samples for nobody")?;
        let stream = [&known.prompt[..], &known.stream].concat();
        let mine = history[..history.len() - drafts] == stream[..];
        check(mine, || format!("request {ticket} goes on from {history:?}, not {stream:?}"))?;
        if bad {
            known.open = false;
            self.gaps.stops(ticket);
            self.saw("failed row");
            return Ok(Sampled::Failed);
        }
        let mut tokens = Vec::new();
        for column in history.len() - drafts..=history.len() {
            let token = model(&history[..column]);
            let draft = history.get(column);
            if draft.is_some_and(|draft| *draft != token) && wrong_draft && !self.faulted {
                self.faulted = true;
                tokens.extend(draft);
                continue;
            }
            tokens.push(token);
            let full = known.stream.len() + tokens.len() == known.max_tokens;
            if token == LAST || full || draft != Some(&token) {
                break;
            }
        }
        known.stream.extend(&tokens);
        let (stream, alone) = (&known.stream, &known.alone);
        check(alone.starts_with(stream), || format!("{ticket} is {stream:?}, not {alone:?}"))?;
        let last = tokens.last() == Some(&LAST);
        let full = stream.len() >= known.max_tokens;
        // Which the scheduler ends by itself.
        let finished = last || (full && self.random.chance(50));
        if last || full {
            let whole = stream == alone;
            check(whole, || format!("{ticket} ends as {stream:?}, not {alone:?}"))?;
            known.open = false;
            self.gaps.stops(ticket);
            self.saw(if full { "finished" } else { "finished early" });
        } else {
            self.gaps.token(ticket);
        }
        let own = self.scheduler.geometry().draft_tokens();
        if tokens.len() > 1 {
            self.saw(if own > 0 { "own draft accepted" } else { "draft accepted" });
        }
        if tokens.len() < 1 + drafts {
            self.saw(if own > 0 { "own draft rejected" } else { "draft rejected" });
        }
        let proposed = proposals(&[&history[..history.len() - drafts], &tokens].concat(), own);
        Ok(Sampled::Tokens(tokens, proposed, finished))
    }
}
