//! Sizes of the model, and which of its entries runs a call.

use tlaloc_artifact::{Artifact, Entry, EntryKind, OutputRole};

use crate::{Aftermath, Refusal};

/// What an entry is compiled for. Sizes as in the artifact format: `B`, `C`, `T`, `M`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryShape {
    /// Its id in logs and messages, as `decode_b4_c64`.
    pub id: String,
    /// What it is for.
    pub kind: EntryKind,
    /// Rows, `B`.
    pub batch: usize,
    /// Positions that a row may attend over, the call's own tokens included: `C`.
    pub context: usize,
    /// Token columns of a row, `T`.
    pub tokens: usize,
    /// Columns of a row's block table, `M`.
    pub columns: usize,
    /// Columns of a row's logits: 1 for those of its last token, or `T` for those of every token.
    /// The latter is what a verify call needs, and is used for nothing else.
    pub logits_columns: usize,
}

impl EntryShape {
    /// It gives the logits of every token of a row.
    pub fn verifies(&self) -> bool {
        self.logits_columns > 1
    }

    /// What it computes for, padding included: `B × T`.
    pub(crate) fn token_columns(&self) -> usize {
        self.batch.saturating_mul(self.tokens)
    }
}

/// The windowed pools of a model (artifact format §8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowedPools {
    /// Largest window among the sliding layers in tokens, the current one included: `W`.
    pub window: usize,
    /// Most pages of one sequence's ring: `R`.
    pub ring_pages: usize,
    /// Pages of a windowed pool, page 0 included.
    pub num_blocks: usize,
}

/// The draft head of a model (artifact format §10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drafts {
    /// Tokens that it proposes in each step: `K`, at least 1.
    pub tokens: usize,
    /// A step also gives the next one's inputs, which can then start before anyone has read them.
    pub chained: bool,
}

/// Sizes of a model, with the choices that follow from them (sequence mode §11.1).
#[derive(Clone, Debug)]
pub struct Geometry {
    vocab_size: usize,
    num_blocks: usize,
    block_size: usize,
    windowed: Option<WindowedPools>,
    num_state_slots: Option<usize>,
    drafts: Option<Drafts>,
    /// Ascending by id.
    refused_tokens: Vec<(i32, String)>,
    entries: Vec<EntryShape>,
    max_context: usize,
    max_decode_batch: usize,
    max_prefill_tokens: usize,
}

impl Geometry {
    /// A model of `vocab_size` token ids and `num_blocks` pages (page 0 included) of `block_size`
    /// tokens, with the token ids that it must refuse (id, config key) and its entries in manifest
    /// order. It has neither windowed pools nor linear attention.
    pub fn new(
        vocab_size: usize,
        num_blocks: usize,
        block_size: usize,
        mut refused_tokens: Vec<(i32, String)>,
        entries: Vec<EntryShape>,
    ) -> Geometry {
        refused_tokens.sort();
        let of = |kind| {
            entries
                .iter()
                .filter(move |entry: &&EntryShape| entry.kind == kind && !entry.verifies())
        };
        let decode = || of(EntryKind::Decode);
        Geometry {
            max_context: decode().map(|entry| entry.context).max().unwrap_or(0),
            max_decode_batch: decode().map(|entry| entry.batch).max().unwrap_or(0),
            // Without prefill entries nothing bounds a call: its tokens run one by one.
            max_prefill_tokens: of(EntryKind::Prefill)
                .map(|entry| entry.tokens.max(1))
                .max()
                .unwrap_or(usize::MAX),
            vocab_size,
            num_blocks,
            // A page of no tokens would make page arithmetic divide by zero.
            block_size: block_size.max(1),
            windowed: None,
            num_state_slots: None,
            drafts: None,
            refused_tokens,
            entries,
        }
    }

    /// With windowed pools.
    pub fn with_windowed_pools(self, pools: WindowedPools) -> Geometry {
        // A ring of no pages would make ring arithmetic divide by zero.
        let ring_pages = pools.ring_pages.max(1);
        Geometry { windowed: Some(WindowedPools { ring_pages, ..pools }), ..self }
    }

    /// With linear attention, whose pools have `num_slots` state slots.
    pub fn with_state_slots(self, num_slots: usize) -> Geometry {
        Geometry { num_state_slots: Some(num_slots), ..self }
    }

    /// With a draft head. A sequence then takes two state slots more than that proposes.
    pub fn with_drafts(self, drafts: Drafts) -> Geometry {
        Geometry { drafts: Some(drafts).filter(|drafts| drafts.tokens > 0), ..self }
    }

    /// The sizes of a checked artifact.
    pub fn of(artifact: &Artifact) -> Geometry {
        let entries = artifact.entries().iter().map(|entry| EntryShape {
            id: entry.id.clone(),
            kind: entry.kind,
            batch: entry.batch,
            context: entry.context,
            tokens: entry.tokens,
            columns: entry.columns,
            logits_columns: entry.logits_columns,
        });
        let refused = artifact.refused_tokens().iter();
        let mut geometry = Geometry::new(
            artifact.vocab_size(),
            artifact.num_blocks(),
            artifact.block_size(),
            refused.map(|token| (token.id, token.config_key.clone())).collect(),
            entries.collect(),
        );
        if let Some(windowed) = artifact.windowed() {
            geometry = geometry.with_windowed_pools(WindowedPools {
                window: windowed.window,
                ring_pages: windowed.ring_pages,
                num_blocks: windowed.num_blocks,
            });
        }
        if let Some(state) = artifact.linear_state() {
            geometry = geometry.with_state_slots(state.num_slots);
        }
        let chained = |entry: &Entry| {
            entry.outputs.iter().any(|output| output.role == OutputRole::NextTokenIds)
        };
        geometry.with_drafts(Drafts {
            tokens: artifact.draft_tokens(),
            chained: artifact.entries().iter().all(chained),
        })
    }

    /// Token ids are in `[0, vocab_size)`.
    pub fn vocab_size(&self) -> usize {
        self.vocab_size
    }

    /// Pages of a pool, page 0 included.
    pub fn num_blocks(&self) -> usize {
        self.num_blocks
    }

    /// Tokens of a page.
    pub fn block_size(&self) -> usize {
        self.block_size
    }

    /// The windowed pools, if it has any.
    pub fn windowed(&self) -> Option<WindowedPools> {
        self.windowed
    }

    /// State slots of the linear-attention pools, if it has any.
    pub fn num_state_slots(&self) -> Option<usize> {
        self.num_state_slots
    }

    /// The draft head, if it has one.
    pub fn drafts(&self) -> Option<Drafts> {
        self.drafts
    }

    /// Draft tokens of a step, `K`; 0 without a draft head.
    pub fn draft_tokens(&self) -> usize {
        self.drafts.map_or(0, |drafts| drafts.tokens)
    }

    /// State slots that one sequence takes: 0 without linear attention.
    pub(crate) fn state_slots_each(&self) -> usize {
        match (self.num_state_slots, self.drafts) {
            (None, _) => 0,
            (Some(_), None) => 1,
            // The state of its last token, and one for each token of a verify step.
            (Some(_), Some(drafts)) => drafts.tokens + 2,
        }
    }

    /// The entries in manifest order.
    pub fn entries(&self) -> &[EntryShape] {
        &self.entries
    }

    /// Largest context of a decode entry: the most tokens that a sequence can hold.
    pub fn max_context(&self) -> usize {
        self.max_context
    }

    /// The most tokens that a request of generation mode can take in. With a draft head its calls
    /// write more than that, and each token may have to be taken in by a prefill entry.
    pub fn max_length(&self) -> usize {
        let most = |context: usize, beyond| context.saturating_sub(beyond);
        let decoded = most(self.max_context, self.beyond_decode());
        if self.drafts.is_none() {
            return decoded;
        }
        let prefill = self.entries_of(EntryKind::Prefill).map(|entry| entry.context).max();
        decoded.min(most(prefill.unwrap_or(0), self.beyond_prefill()))
    }

    /// Positions beyond its tokens that a prefill call writes: what a draft head keeps of its own
    /// proposals (artifact format §10.4).
    pub(crate) fn beyond_prefill(&self) -> usize {
        self.draft_tokens().saturating_sub(1)
    }

    /// Positions beyond its one token that a decode call writes: drafts, and what the draft head
    /// keeps of its own proposals after them (artifact format §10.4).
    pub(crate) fn beyond_decode(&self) -> usize {
        (2 * self.draft_tokens()).saturating_sub(1)
    }

    /// A draft as it can be verified: what no embedding is of cannot be, so any token does.
    pub(crate) fn legal_draft(&self, draft: i32) -> i32 {
        if self.has_token(draft) { draft } else { 0 }
    }

    /// Largest batch of a decode entry.
    pub fn max_decode_batch(&self) -> usize {
        self.max_decode_batch
    }

    /// Whether a token id is in the vocabulary.
    pub(crate) fn has_token(&self, token: i32) -> bool {
        usize::try_from(token).is_ok_and(|token| token < self.vocab_size)
    }

    /// Checks the token ids of a request, from left to right (sequence mode §7). Intake calls it,
    /// off the instance thread; `start` and `end` are the request's flags.
    ///
    /// # Errors
    /// [`Refusal::OutsideVocabulary`] or [`Refusal::RefusedToken`] of the first offending token.
    pub fn check_tokens(&self, tokens: &[i32], start: bool, end: bool) -> Result<(), Refusal> {
        let aftermath = Aftermath::of(start, end);
        for (index, &token) in tokens.iter().enumerate() {
            if self.has_token(token) {
                let known = self.refused_tokens.binary_search_by_key(&token, |refused| refused.0);
                if let Some((_, key)) = known.ok().and_then(|at| self.refused_tokens.get(at)) {
                    let config_key = key.clone();
                    return Err(Refusal::RefusedToken { index, token, config_key, aftermath });
                }
            } else {
                let vocab_size = self.vocab_size;
                return Err(Refusal::OutsideVocabulary { index, token, vocab_size, aftermath });
            }
        }
        Ok(())
    }

    /// Pages that `tokens` tokens of a sequence fill.
    pub(crate) fn blocks_for(&self, tokens: usize) -> usize {
        tokens.div_ceil(self.block_size)
    }

    /// Most pages of a sequence's ring: 0 without windowed pools.
    pub(crate) fn ring_pages(&self) -> usize {
        self.windowed.map_or(0, |pools| pools.ring_pages)
    }

    /// Most tokens that one call may append to a sequence of `start` positions (artifact format
    /// §8).
    pub(crate) fn max_tokens_per_call(&self, start: usize) -> usize {
        self.max_prefill_tokens.min(self.ring_room(start)).max(1)
    }

    /// Most tokens that one call may write to the ring of a sequence of `start` positions. A call
    /// writes its tokens before any of them attends: they must not reach what the first of them
    /// still sees.
    pub(crate) fn ring_room(&self, start: usize) -> usize {
        self.windowed.map_or(usize::MAX, |WindowedPools { window, ring_pages, .. }| {
            let seen = start.min(window.saturating_sub(1));
            ring_pages.saturating_mul(self.block_size).saturating_sub(seen)
        })
    }

    /// How many of `left` tokens a call prefills of a sequence of `start` positions, on an entry of
    /// how many token columns at most: the most that entries of up to `budget` columns take. Where
    /// they take none, `anyway` asks for what the entries of the fewest columns take. None if that
    /// is less than two tokens, for which no prefill is worth it; with a draft head, whose decode
    /// entries verify drafts, it is.
    pub(crate) fn prefill_chunk(
        &self,
        start: usize,
        left: usize,
        budget: usize,
        anyway: bool,
    ) -> Option<(usize, usize)> {
        let limit = left.min(self.ring_room(start));
        let least = if self.drafts.is_some() { 1 } else { 2 };
        let takes = |entry: &EntryShape| {
            let room = entry.context.saturating_sub(start + self.beyond_prefill());
            let count = entry.tokens.min(limit).min(room);
            (count >= least).then_some((count, entry.token_columns()))
        };
        let all = || self.entries_of(EntryKind::Prefill).filter_map(takes);
        let most_up_to = |budget: usize| {
            let counts = all().filter(|(_, columns)| *columns <= budget).map(|(count, _)| count);
            counts.max().map(|count| (count, budget))
        };
        most_up_to(budget).or_else(|| {
            let fewest = all().map(|(_, columns)| columns).min().filter(|_| anyway);
            fewest.and_then(most_up_to)
        })
    }

    /// As [`Geometry::choose`] for a prefill call, of the entries of up to `columns` token columns.
    pub(crate) fn choose_prefill(
        &self,
        batch: usize,
        context: usize,
        tokens: usize,
        columns: usize,
    ) -> Option<usize> {
        self.smallest(batch, context, tokens, |entry| {
            entry.kind == EntryKind::Prefill
                && !entry.verifies()
                && entry.token_columns() <= columns
        })
    }

    /// Rows that a prefill call at exactly `context` may have, at least one.
    pub(crate) fn max_prefill_batch(&self, context: usize) -> usize {
        let of_context =
            self.entries_of(EntryKind::Prefill).filter(|entry| entry.context == context);
        of_context.map(|entry| entry.batch).max().unwrap_or(0).max(1)
    }

    /// Rows that a decode call may have whose rows attend over up to `context` positions.
    pub(crate) fn max_decode_batch_at(&self, context: usize) -> usize {
        let reaching = self.entries_of(EntryKind::Decode).filter(|entry| entry.context >= context);
        reaching.map(|entry| entry.batch).max().unwrap_or(0)
    }

    /// Most rows and most tokens of a row that a verify call may have; none without an entry for
    /// it.
    pub(crate) fn max_verify(&self) -> Option<(usize, usize)> {
        let verify = || self.entries.iter().filter(|entry| entry.verifies());
        Some((verify().map(|entry| entry.batch).max()?, verify().map(|entry| entry.tokens).max()?))
    }

    /// The entries of a kind, but those of verify calls.
    fn entries_of(&self, kind: EntryKind) -> impl Iterator<Item = &EntryShape> {
        self.entries.iter().filter(move |entry| entry.kind == kind && !entry.verifies())
    }

    /// Index of the entry that runs `batch` rows of up to `tokens` tokens which attend over up to
    /// `context` positions: the smallest `B × C`, then the smallest `T`, then the first.
    pub(crate) fn choose(
        &self,
        kind: EntryKind,
        batch: usize,
        context: usize,
        tokens: usize,
    ) -> Option<usize> {
        self.smallest(batch, context, tokens, |entry| entry.kind == kind && !entry.verifies())
    }

    /// As [`Geometry::choose`], for a verify call.
    pub(crate) fn choose_verify(
        &self,
        batch: usize,
        context: usize,
        tokens: usize,
    ) -> Option<usize> {
        self.smallest(batch, context, tokens, EntryShape::verifies)
    }

    fn smallest(
        &self,
        batch: usize,
        context: usize,
        tokens: usize,
        serves: impl Fn(&EntryShape) -> bool,
    ) -> Option<usize> {
        let fits = |entry: &EntryShape| {
            serves(entry)
                && entry.batch >= batch
                && entry.context >= context
                && entry.tokens >= tokens
        };
        let candidates = self.entries.iter().enumerate().filter(|(_, entry)| fits(entry));
        candidates
            .min_by_key(|(_, entry)| (entry.batch.saturating_mul(entry.context), entry.tokens))
            .map(|(index, _)| index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn geometry(shapes: &[(EntryKind, usize, usize, usize)]) -> Geometry {
        let entry =
            |&(kind, batch, context, tokens): &(EntryKind, usize, usize, usize)| EntryShape {
                id: String::new(),
                kind,
                batch,
                context,
                tokens,
                columns: context / 4,
                logits_columns: 1,
            };
        Geometry::new(10, 8, 4, vec![], shapes.iter().map(entry).collect())
    }

    const D: EntryKind = EntryKind::Decode;
    const P: EntryKind = EntryKind::Prefill;

    #[test]
    fn decode_takes_the_smallest_product_and_the_first_of_equals() {
        let model = geometry(&[(D, 4, 32, 1), (D, 2, 64, 1), (D, 1, 128, 1), (D, 1, 16, 1)]);
        let choose = |batch, context| model.choose(D, batch, context, 1);
        assert_eq!(choose(1, 16), Some(3));
        // 4 × 32, 2 × 64 and 1 × 128 are the same: manifest order decides.
        assert_eq!(choose(1, 17), Some(0));
        assert_eq!(choose(1, 33), Some(1));
        assert_eq!(choose(1, 65), Some(2));
        assert_eq!(choose(3, 1), Some(0));
        assert_eq!((choose(5, 1), choose(2, 65), choose(1, 129)), (None, None, None));
        assert_eq!(model.choose(P, 1, 1, 1), None);
    }

    #[test]
    fn prefill_takes_the_smallest_product_then_the_fewest_columns() {
        let model = geometry(&[
            (P, 2, 16, 16),
            (P, 1, 32, 32),
            (P, 1, 32, 8),
            (P, 2, 16, 8),
            (P, 1, 64, 4),
            (D, 1, 16, 1),
        ]);
        let choose = |batch, context, tokens| model.choose(P, batch, context, tokens);
        assert_eq!(choose(1, 16, 8), Some(2));
        assert_eq!(choose(2, 16, 8), Some(3));
        assert_eq!(choose(1, 16, 9), Some(0));
        assert_eq!(choose(1, 17, 9), Some(1));
        assert_eq!(choose(1, 40, 4), Some(4));
        assert_eq!(choose(1, 40, 5), None);
        assert_eq!((model.max_prefill_batch(16), model.max_prefill_batch(32)), (2, 1));
        assert_eq!(model.max_prefill_batch(48), 1);
        assert_eq!(model.max_tokens_per_call(100), 32);
    }

    #[test]
    fn limits_are_those_of_decode_entries() {
        let model = geometry(&[(D, 1, 32, 1), (D, 2, 16, 1), (P, 8, 64, 64)]);
        assert_eq!((model.max_context(), model.max_decode_batch()), (32, 2));
        let without_prefill = geometry(&[(D, 1, 32, 1)]);
        assert_eq!(without_prefill.max_tokens_per_call(0), usize::MAX);
    }

    /// Calls in which `count` tokens from `start` on run.
    fn split(model: &Geometry, mut start: usize, count: usize) -> Vec<usize> {
        let end = start + count;
        let mut calls = Vec::new();
        while start < end {
            calls.push(model.max_tokens_per_call(start).min(end - start));
            start += calls[calls.len() - 1];
        }
        calls
    }

    #[test]
    fn calls_are_split_as_in_the_formats_examples() {
        // Artifact format §8: W = 8, bs = 4, then R = 3 with whole contexts and R = 4 with chunks.
        let ring = |ring_pages, chunk: usize| {
            let entries = [(D, 2, 64, 1), (P, 2, 16, chunk.min(16)), (P, 2, 64, chunk)];
            geometry(&entries).with_windowed_pools(WindowedPools {
                window: 8,
                ring_pages,
                num_blocks: 13,
            })
        };
        let whole = ring(3, 64);
        assert_eq!(split(&whole, 0, 13), [12, 1]);
        assert_eq!(split(&whole, 24, 9), [5, 4]);
        let chunked = ring(4, 6);
        assert_eq!(split(&chunked, 0, 13), [6, 6, 1]);
        assert_eq!(split(&chunked, 24, 9), [6, 3]);
        // Control: without a window they are not split.
        assert_eq!(split(&geometry(&[(D, 2, 64, 1), (P, 2, 64, 64)]), 24, 9), [9]);
        // Without prefill entries the ring alone bounds a call.
        let pools = |ring_pages| WindowedPools { window: 8, ring_pages, num_blocks: 13 };
        let without_prefill = geometry(&[(D, 2, 64, 1)]).with_windowed_pools(pools(3));
        assert_eq!(split(&without_prefill, 3, 20), [9, 5, 5, 1]);
        // A ring no larger than its window still takes a token.
        let tight = geometry(&[(D, 2, 64, 1)]).with_windowed_pools(pools(2));
        assert_eq!(split(&tight, 6, 4), [2, 1, 1]);
        let short = geometry(&[(D, 2, 64, 1)]).with_windowed_pools(pools(0));
        assert_eq!(split(&short, 6, 2), [1, 1]);
    }

    #[test]
    fn a_model_without_page_size_or_entries_takes_nothing_and_does_not_panic() {
        let model = Geometry::new(0, 0, 0, vec![], vec![]);
        assert_eq!((model.max_context(), model.blocks_for(7)), (0, 7));
        assert!(model.check_tokens(&[0], false, false).is_err());
    }
}
