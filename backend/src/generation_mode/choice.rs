//! The next tokens of a call's rows: drawn from logits, or as the model's programs chose them.

use slab::Slab;
use tlaloc_engine::generation::{Row, Scheduler, Verdicts};
use tlaloc_engine::{Nanos, Outcome, StepResults, Ticket};
use tlaloc_generation::sampler::Scratch;
use triton_backend::now_ns;

use super::job::{Job, NoToken};
use super::worker::key;
use crate::metrics::GenerationMetrics;

/// What a call gave.
#[derive(Clone, Copy)]
pub enum Given<'a> {
    /// Logits of every row, f32 little-endian; nothing where nobody reads them.
    Logits(&'a [u8]),
    /// What a model with a draft head gives.
    Step(StepResults<'a>),
}

/// What became of the rows of a call. The memory is used again.
#[derive(Default)]
pub struct Choices {
    /// For the scheduler.
    pub verdicts: Verdicts,
    /// The rows that have tokens, or an error in their place.
    pub rows: Vec<(Ticket, Option<NoToken>)>,
    scratch: Scratch,
    tokens: Vec<i32>,
}

impl Choices {
    /// Of no call.
    pub fn clear(&mut self) {
        self.verdicts.clear();
        self.rows.clear();
    }

    /// Chooses the next tokens of the rows of the scheduler's call.
    pub fn choose(
        &mut self,
        given: Given<'_>,
        scheduler: &Scheduler,
        held: &mut Slab<Job>,
        metrics: &GenerationMetrics,
        outcome: &Outcome,
    ) {
        let Choices { verdicts, rows, scratch, tokens } = self;
        let (geometry, call) = (scheduler.geometry(), scheduler.call());
        let columns = geometry.entries().get(call.entry).map_or(1, |entry| entry.logits_columns);
        let row_bytes = geometry.vocab_size() * size_of::<f32>();
        let now = now_ns();
        for (index, row) in call.rows().enumerate() {
            let Some(job) = held.get_mut(key(row.ticket)) else {
                verdicts.push_none();
                continue;
            };
            job.ran(outcome.compute_start, outcome.compute_end);
            if !row.samples {
                verdicts.push_none();
                continue;
            }
            tokens.clear();
            let previous = job.last_token();
            let chosen = match given {
                Given::Logits(bytes) => {
                    let first = (index + 1) * columns - 1 - row.drafts;
                    let logits = (first..).map(|column| {
                        let at = column * row_bytes;
                        bytes.get(at..at + row_bytes).unwrap_or_default()
                    });
                    draw(job, &row, logits, now, scratch, tokens).map(|()| &[][..])
                }
                Given::Step(results) => match results.row(index, geometry) {
                    None => Err(NoToken::NotFinite),
                    Some(given) => {
                        take(job, &row, given.emitted, now, tokens).map(|()| given.drafts)
                    }
                },
            };
            metrics.tokens(job.arrival(), previous, now, tokens.len());
            job.drafted(row.drafts, tokens.len().saturating_sub(1));
            match chosen {
                Ok(proposed) => {
                    verdicts.push_tokens(tokens, job.is_finished());
                    verdicts.propose(proposed);
                    rows.push((row.ticket, None));
                }
                Err(error) => {
                    verdicts.push_failed();
                    rows.push((row.ticket, Some(error)));
                }
            }
        }
    }
}

/// Draws tokens column by column until one is another than the draft, or the output ends.
fn draw<'a>(
    job: &mut Job,
    row: &Row<'_>,
    logits: impl Iterator<Item = &'a [u8]>,
    now: Nanos,
    scratch: &mut Scratch,
    tokens: &mut Vec<i32>,
) -> Result<(), NoToken> {
    let drafts = row.tokens.get(row.tokens.len() - row.drafts..).unwrap_or_default();
    for (column, logits) in logits.take(row.drafts + 1).enumerate() {
        let token = job.choose(logits, column + 1 == row.remaining, now, scratch)?;
        tokens.push(token);
        if job.is_finished() || drafts.get(column) != Some(&token) {
            break;
        }
    }
    Ok(())
}

/// Takes tokens that were chosen until the output ends.
fn take(
    job: &mut Job,
    row: &Row<'_>,
    chosen: &[i32],
    now: Nanos,
    tokens: &mut Vec<i32>,
) -> Result<(), NoToken> {
    for (column, &token) in chosen.iter().enumerate() {
        job.take(token, column + 1 == row.remaining, now)?;
        tokens.push(token);
        if job.is_finished() {
            break;
        }
    }
    Ok(())
}
