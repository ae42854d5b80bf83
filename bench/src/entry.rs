//! Which program runs a call.

use tlaloc_artifact::{Artifact, Entry, EntryKind};

use crate::error::Error;

/// The entry that the backend would run `batch` rows with, each attending over up to `context`
/// positions: the smallest `B × C`, then the smallest `T`, then the first (sequence mode §9). A
/// prefill call brings `tokens`, or else as many of the context's as the artifact's prefill calls can
/// have.
///
/// # Errors
/// [`Error::NoEntry`].
pub fn choose(
    artifact: &Artifact,
    kind: EntryKind,
    batch: usize,
    context: usize,
    tokens: Option<usize>,
) -> Result<&Entry, Error> {
    let tokens = match kind {
        EntryKind::Decode => 1,
        EntryKind::Prefill => tokens.unwrap_or_else(|| context.min(artifact.max_prefill_tokens())),
    };
    smallest(artifact.entries(), kind, batch, context, tokens).ok_or_else(|| {
        let ids = artifact.entries().iter().filter(|entry| entry.kind == kind);
        let ids: Vec<&str> = ids.map(|entry| entry.id.as_str()).collect();
        Error::NoEntry {
            artifact: artifact.manifest_path().to_owned(),
            kind: kind.manifest_name(),
            batch,
            context,
            entries: if ids.is_empty() { "none".to_owned() } else { ids.join(", ") },
        }
    })
}

fn smallest(
    entries: &[Entry],
    kind: EntryKind,
    batch: usize,
    context: usize,
    tokens: usize,
) -> Option<&Entry> {
    let fits = |entry: &&Entry| {
        entry.kind == kind
            && entry.logits_columns == 1
            && entry.batch >= batch
            && entry.context >= context
            && entry.tokens >= tokens
    };
    let size = |entry: &&Entry| (entry.batch.saturating_mul(entry.context), entry.tokens);
    entries.iter().filter(fits).min_by_key(size)
}

#[cfg(test)]
pub mod tests {
    use std::path::PathBuf;

    use tlaloc_artifact::entry_id;

    use super::*;

    /// An entry of these sizes without a program.
    pub fn entry(kind: EntryKind, batch: usize, context: usize, tokens: usize) -> Entry {
        Entry {
            id: entry_id(kind, batch, context, tokens, 1),
            kind,
            batch,
            context,
            tokens,
            columns: context / 16,
            logits_columns: 1,
            entry_point: "main".to_owned(),
            body: PathBuf::new(),
            body_name: String::new(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            donations: Vec::new(),
        }
    }

    #[test]
    fn the_smallest_product_wins_then_the_fewest_tokens_then_the_first() {
        use EntryKind::{Decode, Prefill};
        let entries = [
            entry(Decode, 4, 128, 1),
            entry(Decode, 1, 512, 1),
            entry(Prefill, 1, 512, 512),
            entry(Prefill, 1, 512, 128),
            entry(Prefill, 1, 128, 128),
        ];
        let id = |kind, batch, context, tokens| {
            smallest(&entries, kind, batch, context, tokens).map(|entry| entry.id.as_str())
        };
        // 4 x 128 and 1 x 512 are equals.
        assert_eq!(id(Decode, 1, 100, 1), Some("decode_b4_c128"));
        assert_eq!(id(Decode, 1, 129, 1), Some("decode_b1_c512"));
        assert_eq!(id(Decode, 2, 129, 1), None);
        assert_eq!(id(Prefill, 1, 300, 100), Some("prefill_b1_c512_t128"));
        assert_eq!(id(Prefill, 1, 300, 200), Some("prefill_b1_c512"));
        assert_eq!(id(Prefill, 1, 90, 90), Some("prefill_b1_c128"));
    }
}
