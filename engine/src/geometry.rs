//! Sizes of the model, and which of its entries runs a call.

use tlaloc_artifact::{Artifact, EntryKind};

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
}

/// Sizes of a model, with the choices that follow from them (sequence mode §11.1).
#[derive(Clone, Debug)]
pub struct Geometry {
    vocab_size: usize,
    num_blocks: usize,
    block_size: usize,
    /// Ascending by id.
    refused_tokens: Vec<(i32, String)>,
    entries: Vec<EntryShape>,
    max_context: usize,
    max_decode_batch: usize,
    max_tokens_per_call: usize,
}

impl Geometry {
    /// A model of `vocab_size` token ids and `num_blocks` pages (page 0 included) of `block_size`
    /// tokens, with the token ids that it must refuse (id, config key) and its entries in manifest
    /// order.
    pub fn new(
        vocab_size: usize,
        num_blocks: usize,
        block_size: usize,
        mut refused_tokens: Vec<(i32, String)>,
        entries: Vec<EntryShape>,
    ) -> Geometry {
        refused_tokens.sort();
        let of = |kind| entries.iter().filter(move |entry| entry.kind == kind);
        let decode = || of(EntryKind::Decode);
        Geometry {
            max_context: decode().map(|entry| entry.context).max().unwrap_or(0),
            max_decode_batch: decode().map(|entry| entry.batch).max().unwrap_or(0),
            // Without prefill entries nothing bounds a call: its tokens run one by one.
            max_tokens_per_call: of(EntryKind::Prefill)
                .map(|entry| entry.tokens.max(1))
                .max()
                .unwrap_or(usize::MAX),
            vocab_size,
            num_blocks,
            // A page of no tokens would make page arithmetic divide by zero.
            block_size: block_size.max(1),
            refused_tokens,
            entries,
        }
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
        });
        let refused = artifact.refused_tokens().iter();
        Geometry::new(
            artifact.vocab_size(),
            artifact.num_blocks(),
            artifact.block_size(),
            refused.map(|token| (token.id, token.config_key.clone())).collect(),
            entries.collect(),
        )
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

    /// The entries in manifest order.
    pub fn entries(&self) -> &[EntryShape] {
        &self.entries
    }

    /// Largest context of a decode entry: the most tokens that a sequence can hold.
    pub fn max_context(&self) -> usize {
        self.max_context
    }

    /// Largest batch of a decode entry.
    pub fn max_decode_batch(&self) -> usize {
        self.max_decode_batch
    }

    /// Checks the token ids of a request, from left to right (sequence mode §7). Intake calls it,
    /// off the instance thread; `start` and `end` are the request's flags.
    ///
    /// # Errors
    /// [`Refusal::OutsideVocabulary`] or [`Refusal::RefusedToken`] of the first offending token.
    pub fn check_tokens(&self, tokens: &[i32], start: bool, end: bool) -> Result<(), Refusal> {
        let aftermath = Aftermath::of(start, end);
        for (index, &token) in tokens.iter().enumerate() {
            if usize::try_from(token).is_ok_and(|token| token < self.vocab_size) {
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

    /// Most tokens of a sequence that one call may append.
    pub(crate) fn max_tokens_per_call(&self) -> usize {
        self.max_tokens_per_call
    }

    /// Rows that a prefill call at exactly `context` may have, at least one.
    pub(crate) fn max_prefill_batch(&self, context: usize) -> usize {
        let batches = self
            .entries
            .iter()
            .filter(|entry| entry.kind == EntryKind::Prefill && entry.context == context)
            .map(|entry| entry.batch);
        batches.max().unwrap_or(0).max(1)
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
        let fits = |entry: &EntryShape| {
            entry.kind == kind
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
