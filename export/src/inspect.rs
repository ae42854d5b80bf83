//! A readable summary of an artifact.

use std::collections::BTreeMap;
use std::fmt;

use tlaloc_artifact::{Artifact, DType, EntryKind, PoolRole};

/// Prints what an artifact serves and the memory it takes.
pub struct Summary<'a>(pub &'a Artifact);

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let artifact = self.0;
        let model = &artifact.manifest().model;
        writeln!(f, "model     {}", artifact.model_name())?;
        writeln!(f, "identity  {}", artifact.model_hash())?;
        writeln!(f, "format    {}", artifact.version().manifest_name())?;
        writeln!(
            f,
            "shape     {} layers, hidden {}, {} heads over {} KV heads of {}, vocabulary {}",
            model.num_layers,
            model.hidden_size,
            model.num_heads,
            model.num_kv_heads,
            model.head_dim,
            model.vocab_size
        )?;
        let weights = self.weights(f)?;
        let pools = self.pools(f)?;
        writeln!(
            f,
            "memory    {} for weights and pools of one instance; programs' working memory is extra",
            Size(weights + pools)
        )?;
        self.entries(f)
    }
}

impl Summary<'_> {
    fn weights(&self, f: &mut fmt::Formatter<'_>) -> Result<usize, fmt::Error> {
        let mut by_dtype: BTreeMap<DType, (usize, usize)> = BTreeMap::new();
        for weight in self.0.weights() {
            let (count, bytes) = by_dtype.entry(weight.tensor.dtype()).or_default();
            *count += 1;
            *bytes += weight.tensor.bytes();
        }
        let total = by_dtype.values().map(|(_, bytes)| bytes).sum();
        let parts: Vec<_> = by_dtype
            .iter()
            .map(|(dtype, (count, bytes))| format!("{count} {dtype} ({})", Size(*bytes)))
            .collect();
        match parts.is_empty() {
            true => writeln!(f, "weights   in the programs")?,
            false => writeln!(f, "weights   {}: {}", Size(total), parts.join(", "))?,
        }
        Ok(total)
    }

    fn pools(&self, f: &mut fmt::Formatter<'_>) -> Result<usize, fmt::Error> {
        let artifact = self.0;
        let total = artifact.pools().iter().map(|pool| pool.tensor.bytes()).sum();
        writeln!(f, "pools     {}", Size(total))?;
        let (pages, page) = (artifact.num_blocks() - 1, artifact.block_size());
        self.pool_class(
            f,
            "history",
            PoolRole::Kv,
            format!("{pages} pages of {page} tokens to use ({} tokens)", pages * page),
        )?;
        if let Some(window) = artifact.windowed() {
            // What a ring holds beside the rest of the window (artifact format §8).
            let call = (window.ring_pages * page).saturating_sub(window.window - 1).max(1);
            let use_of = format!(
                "{} tokens: {} pages to use, {} a sequence; calls of up to {call} tokens after the \
                 first window",
                window.window,
                window.num_blocks - 1,
                window.ring_pages
            );
            self.pool_class(f, "window", PoolRole::WindowKv, use_of)?;
        }
        if let Some(state) = artifact.linear_state() {
            let use_of = format!("{} slots, one a sequence", state.num_slots);
            self.pool_class(f, "state", PoolRole::State, use_of)?;
        }
        Ok(total)
    }

    /// One line about the pools of `role`.
    fn pool_class(
        &self,
        f: &mut fmt::Formatter<'_>,
        name: &str,
        role: PoolRole,
        use_of: String,
    ) -> fmt::Result {
        let pools = self.0.pools().iter().filter(|pool| pool.role == role);
        match pools.clone().next() {
            Some(first) => writeln!(
                f,
                "  {name:8}{} {} ({}): {use_of}",
                pools.clone().count(),
                first.tensor.dtype(),
                Size(pools.map(|pool| pool.tensor.bytes()).sum())
            ),
            None => Ok(()),
        }
    }

    fn entries(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "entries   {}", self.0.entries().len())?;
        let width = self.0.entries().iter().map(|entry| entry.id.len()).max().unwrap_or(0);
        for entry in self.0.entries() {
            let tokens = match entry.kind {
                EntryKind::Decode => String::new(),
                EntryKind::Prefill if entry.logits_columns > 1 => {
                    format!(", {} tokens a call, to verify drafts", entry.tokens)
                }
                EntryKind::Prefill => format!(", {} tokens a call", entry.tokens),
            };
            let rows = if entry.batch == 1 { "row" } else { "rows" };
            writeln!(
                f,
                "  {:width$}  {} {rows} of up to {} positions{tokens}",
                entry.id, entry.batch, entry.context
            )?;
        }
        Ok(())
    }
}

/// Bytes in decimal units.
struct Size(usize);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0 as f64;
        match self.0 {
            0..1_000_000 => write!(f, "{:.1} kB", bytes / 1e3),
            1_000_000..10_000_000_000 => write!(f, "{:.1} MB", bytes / 1e6),
            _ => write!(f, "{:.1} GB", bytes / 1e9),
        }
    }
}
