//! From the manifest as written to an [`Artifact`]: the rules of artifact format §17, in its order.

mod entry;

use std::collections::{HashMap, HashSet};
use std::path::{Component, Path, PathBuf};

use self::entry::{Shape, written_id};
use crate::artifact::{Entry, EntryKind, LinearState, Pool, RefusedToken, WeightSlot, Windowed};
use crate::manifest::{self, Manifest};
use crate::{Artifact, DType, Error, Input, InputRole, PoolRole, SchemaVersion, json};

/// Checks the manifest `bytes` read from `path`.
pub(crate) fn artifact(path: &Path, bytes: &[u8]) -> Result<Artifact, Error> {
    let absolute = std::path::absolute(path)
        .map_err(|source| Error::Unreadable { path: path.to_owned(), source })?;
    let root = absolute.parent().unwrap_or(Path::new("/")).to_owned();
    let check = Check { path, absolute: &absolute, root: &root };
    let (version, manifest) = check.parse(bytes)?;
    check.manifest(version, manifest)
}

struct Check<'a> {
    /// The manifest's path as given, for messages.
    path: &'a Path,
    absolute: &'a Path,
    root: &'a Path,
}

/// A rule broken by an entry, before it is known which one.
type Broken<T> = Result<T, String>;

impl Check<'_> {
    fn model_error(&self, reason: impl Into<String>) -> Error {
        Error::Model { manifest: self.path.to_owned(), reason: reason.into() }
    }

    fn weights_error(&self, reason: impl Into<String>) -> Error {
        Error::Weights { manifest: self.path.to_owned(), reason: reason.into() }
    }

    /// Items 1 and 2, and the JSON types of all others.
    fn parse(&self, bytes: &[u8]) -> Result<(SchemaVersion, Manifest), Error> {
        let known = SchemaVersion::ALL.map(SchemaVersion::manifest_name);
        let (version, manifest) =
            json::versioned(self.path, bytes, &known, json::RepeatedKeys::LastCounts)?;
        Ok((SchemaVersion::ALL[version], manifest))
    }

    fn manifest(&self, version: SchemaVersion, manifest: Manifest) -> Result<Artifact, Error> {
        let model = &manifest.model;
        let count = |field, value, least| {
            count(field, value, least).map_err(|reason| self.model_error(reason))
        };
        let vocab_size = count("model.vocabSize", model.vocab_size, 1)?;
        let block_size = count("model.blockSize", model.block_size, 1)?;
        if model.kv_quant.is_some() {
            return Err(self.model_error(
                "model.kvQuant is set, but quantised KV pools are not served; export without it",
            ));
        }
        let num_blocks = count("model.numBlocks", model.num_blocks, 2)?;
        self.slots_fit("model.numBlocks", num_blocks, block_size)?;
        let refused_tokens = self.refused_tokens(&model.refused_tokens, vocab_size)?;

        let has_linear_state = version >= SchemaVersion::V4;
        self.present_in(
            "model.linearState",
            model.linear_state.is_some(),
            has_linear_state,
            version,
        )?;
        let draft_tokens = count("model.mtpDraftTokens", model.mtp_draft_tokens, 0)?;
        let speculative = version == SchemaVersion::V5;
        self.present_in("model.mtpDraftTokens", draft_tokens > 0, speculative, version)?;
        let linear_state = match &model.linear_state {
            Some(state) => Some(self.linear_state(state, draft_tokens, model.num_layers)?),
            None => None,
        };
        let has_window = version == SchemaVersion::V3;
        self.present_in("model.windowedKv", model.windowed_kv.is_some(), has_window, version)?;
        let windowed = match &model.windowed_kv {
            Some(windowed) => Some(self.windowed(windowed, block_size, model.num_layers)?),
            None => None,
        };

        if manifest.entries.is_empty() {
            return Err(self.model_error("entries is empty; an artifact needs at least one"));
        }
        let shape = Shape {
            version,
            vocab_size,
            block_size,
            draft_tokens,
            windowed: windowed.is_some(),
            linear_state: linear_state.is_some(),
        };
        let mut entries: Vec<Entry> = Vec::with_capacity(manifest.entries.len());
        for (index, written) in manifest.entries.iter().enumerate() {
            let entry = shape.entry(self.root, written).map_err(|reason| Error::Entry {
                manifest: self.path.to_owned(),
                entry: format!("{index} ({})", written_id(written)),
                reason,
            })?;
            entries.push(entry);
        }
        self.same_persistent_slots(&entries)?;
        if !entries.iter().any(|e| e.kind == EntryKind::Decode) {
            return Err(self.model_error("no entry is a decode entry; at least one is needed"));
        }

        let pools = pools_of(&entries);
        let mut artifact = Artifact {
            manifest_path: self.absolute.to_owned(),
            root: self.root.to_owned(),
            version,
            vocab_size,
            num_blocks,
            block_size,
            draft_tokens,
            refused_tokens,
            windowed,
            linear_state,
            pools,
            weights: Vec::new(),
            entries,
            manifest,
        };
        self.ring_length(&artifact)?;
        self.pools(&artifact)?;
        artifact.weights = self.weights(&artifact)?;
        Ok(artifact)
    }

    /// A feature of some versions is there exactly in these.
    fn present_in(
        &self,
        field: &str,
        present: bool,
        expected: bool,
        version: SchemaVersion,
    ) -> Result<(), Error> {
        let version = version.manifest_name();
        match (present, expected) {
            (true, false) => {
                Err(self.model_error(format!("{field} is set, but {version} has none")))
            }
            (false, true) => {
                Err(self.model_error(format!("{field} is missing; {version} needs it")))
            }
            _ => Ok(()),
        }
    }

    /// Slots of a pool are numbered in i32 arguments.
    fn slots_fit(&self, field: &str, blocks: usize, block_size: usize) -> Result<(), Error> {
        match blocks.checked_mul(block_size).map(i32::try_from) {
            Some(Ok(_)) => Ok(()),
            _ => Err(self.model_error(format!(
                "{field} is {blocks}, but its pages of {block_size} tokens have more slots than an \
                 i32 numbers"
            ))),
        }
    }

    fn refused_tokens(
        &self,
        written: &[manifest::RefusedToken],
        vocab_size: usize,
    ) -> Result<Vec<RefusedToken>, Error> {
        let mut tokens = Vec::with_capacity(written.len());
        for (index, token) in written.iter().enumerate() {
            let id = i32::try_from(token.id).ok().filter(|&id| in_range(id, vocab_size));
            let Some(id) = id else {
                return Err(self.model_error(format!(
                    "model.refusedTokens[{index}].id is {}, outside the vocabulary [0, {vocab_size})",
                    token.id
                )));
            };
            tokens.push(RefusedToken { id, config_key: token.config_key.clone() });
        }
        tokens.sort_by_key(|token| token.id);
        match tokens.windows(2).find_map(|pair| match pair {
            [a, b] if a.id == b.id => Some(a.id),
            _ => None,
        }) {
            Some(id) => {
                Err(self.model_error(format!("model.refusedTokens lists token id {id} twice")))
            }
            None => Ok(tokens),
        }
    }

    fn layers(&self, field: &str, layers: &[i64], num_layers: i64) -> Result<Vec<usize>, Error> {
        if layers.is_empty() {
            return Err(self.model_error(format!("{field} is empty; it must name a layer")));
        }
        let mut seen = HashSet::new();
        let number = |&layer: &i64| {
            let number = count(field, layer, 0)?;
            if layer >= num_layers {
                return Err(format!("{field} has {layer}, but model.numLayers is {num_layers}"));
            }
            if !seen.insert(layer) {
                return Err(format!("{field} has {layer} twice"));
            }
            Ok(number)
        };
        let numbers: Broken<_> = layers.iter().map(number).collect();
        numbers.map_err(|reason| self.model_error(reason))
    }

    fn linear_state(
        &self,
        written: &manifest::LinearState,
        draft_tokens: usize,
        num_layers: i64,
    ) -> Result<LinearState, Error> {
        let count = |field, value, least| {
            count(field, value, least).map_err(|reason| self.model_error(reason))
        };
        let num_slots = count("model.linearState.numSlots", written.num_slots, 1)?;
        let layers = self.layers("model.linearState.layers", &written.layers, num_layers)?;
        let least = if draft_tokens > 0 { draft_tokens + 2 } else { 1 };
        if num_slots < least {
            return Err(self.model_error(format!(
                "model.linearState.numSlots is {num_slots}, but one sequence of {draft_tokens} \
                 draft tokens takes {least}"
            )));
        }
        Ok(LinearState { layers, num_slots })
    }

    fn windowed(
        &self,
        written: &manifest::WindowedKv,
        block_size: usize,
        num_layers: i64,
    ) -> Result<Windowed, Error> {
        let count = |field, value, least| {
            count(field, value, least).map_err(|reason| self.model_error(reason))
        };
        let window = count("model.windowedKv.window", written.window, 1)?;
        let ring_pages = count("model.windowedKv.ringPages", written.ring_pages, 1)?;
        let num_blocks = count("model.windowedKv.numBlocks", written.num_blocks, 1)?;
        if num_blocks < 1 + ring_pages {
            return Err(self.model_error(format!(
                "model.windowedKv.numBlocks is {num_blocks}, but page 0 and a ring of {ring_pages} \
                 pages need {}",
                1 + ring_pages
            )));
        }
        self.slots_fit("model.windowedKv.numBlocks", num_blocks, block_size)?;
        let layers = self.layers("model.windowedKv.layers", &written.layers, num_layers)?;
        Ok(Windowed { window, layers, num_blocks, ring_pages })
    }

    /// Item 17: pools and weights of every entry are those of the first.
    fn same_persistent_slots(&self, entries: &[Entry]) -> Result<(), Error> {
        let Some((first, rest)) = entries.split_first() else { return Ok(()) };
        for entry in rest {
            let mut ours = persistent(&entry.inputs);
            let mut theirs = persistent(&first.inputs);
            loop {
                let (ours, theirs) = (ours.next(), theirs.next());
                if ours != theirs {
                    return Err(self.model_error(format!(
                        "entry {} has {} where entry {} has {}; pools and weights must be the same \
                         in all entries",
                        entry.id,
                        describe(ours),
                        first.id,
                        describe(theirs)
                    )));
                }
                if ours.is_none() {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Item 19: a decode step must not read a ring position that a later token has overwritten.
    fn ring_length(&self, artifact: &Artifact) -> Result<(), Error> {
        let Some(windowed) = &artifact.windowed else { return Ok(()) };
        let (block_size, context) = (artifact.block_size, artifact.max_context());
        let held = windowed.ring_pages * block_size;
        let read = windowed.window.min(context);
        if held >= read {
            return Ok(());
        }
        Err(self.model_error(format!(
            "model.windowedKv.ringPages is {}: a ring of {held} positions is shorter than the \
             {read} that a token attends over (window {}, largest decode context {context}), so a \
             decode step would read a position already written over; export with ringPages of at \
             least {}",
            windowed.ring_pages,
            windowed.window,
            read.div_ceil(block_size)
        )))
    }

    /// Items 20 to 22.
    fn pools(&self, artifact: &Artifact) -> Result<(), Error> {
        if artifact.pools.is_empty() {
            return Err(self.model_error("the entries have no pool; at least one is needed"));
        }
        let num_slots = artifact.linear_state.as_ref().map_or(0, |state| state.num_slots);
        let window_blocks = artifact.windowed.as_ref().map_or(0, |windowed| windowed.num_blocks);
        for pool in &artifact.pools {
            let tensor = &pool.tensor;
            let pages = |blocks| {
                let leading = [blocks, artifact.block_size];
                (tensor.dims().len() == 4 && tensor.dims().starts_with(&leading))
                    .then_some(())
                    .ok_or_else(|| format!("[{blocks},{},heads,head dim]", artifact.block_size))
            };
            let shape = match pool.role {
                PoolRole::Kv => pages(artifact.num_blocks),
                PoolRole::WindowKv => pages(window_blocks),
                PoolRole::State => (tensor.dtype() == DType::F32
                    && tensor.dims().starts_with(&[num_slots]))
                .then_some(())
                .ok_or_else(|| format!("f32 [{num_slots},…]")),
            };
            shape.map_err(|expected| {
                self.model_error(format!(
                    "pool '{}' is {tensor}, but the model's sizes make it {expected}",
                    pool.name
                ))
            })?;
        }
        let held = |role| artifact.pools.iter().filter(|pool| pool.role == role).count();
        let linear_layers = artifact.linear_state.as_ref().map_or(0, |state| state.layers.len());
        let head_state = usize::from(artifact.draft_tokens > 0);
        let window_layers = artifact.windowed.as_ref().map_or(0, |windowed| windowed.layers.len());
        for (role, expected, why) in [
            (PoolRole::State, 2 * linear_layers + head_state, "model.linearState.layers"),
            (PoolRole::WindowKv, 2 * window_layers, "model.windowedKv.layers"),
        ] {
            if held(role) != expected {
                return Err(self.model_error(format!(
                    "the entries have {} pools of role {}, but {why} makes it {expected}",
                    held(role),
                    InputRole::Pool(role).manifest_name()
                )));
            }
        }
        Ok(())
    }

    /// Item 23: a file for every weight slot.
    fn weights(&self, artifact: &Artifact) -> Result<Vec<WeightSlot>, Error> {
        let Some(first) = artifact.entries.first() else { return Ok(Vec::new()) };
        let mut slots = first.inputs.iter().filter(|i| i.role == InputRole::Weight).peekable();
        if slots.peek().is_none() {
            return Ok(Vec::new());
        }
        let mut files: HashMap<&str, PathBuf> = HashMap::new();
        for row in &artifact.manifest.weights.table {
            let file = inside(self.root, &row.path)
                .map_err(|reason| self.weights_error(format!("row '{}': {reason}", row.name)))?;
            if files.insert(&row.name, file).is_some() {
                return Err(self.weights_error(format!("the table has two rows '{}'", row.name)));
            }
        }
        slots
            .map(|slot| {
                let file = files.get(slot.name.as_str()).ok_or_else(|| {
                    self.weights_error(format!("the table has no row for slot '{}'", slot.name))
                })?;
                Ok(WeightSlot {
                    name: slot.name.clone(),
                    tensor: slot.tensor.clone(),
                    file: file.clone(),
                })
            })
            .collect()
    }
}

/// A whole number that device arguments, which are i32, can hold.
fn count(field: &str, value: i64, least: i32) -> Broken<usize> {
    i32::try_from(value)
        .ok()
        .filter(|&v| v >= least)
        .and_then(|v| usize::try_from(v).ok())
        .ok_or_else(|| format!("{field} is {value}, expected {least} to {}", i32::MAX))
}

fn in_range(id: i32, vocab_size: usize) -> bool {
    usize::try_from(id).is_ok_and(|id| id < vocab_size)
}

/// A path of the manifest, which must stay in its directory.
pub(crate) fn inside(root: &Path, path: &str) -> Broken<PathBuf> {
    if path.is_empty() {
        return Err("the path is empty".to_owned());
    }
    let relative = Path::new(path);
    if relative.has_root() {
        return Err(format!("path '{path}' is absolute; it must stay in the manifest's directory"));
    }
    if relative.components().any(|c| c == Component::ParentDir) {
        return Err(format!(
            "path '{path}' has a '..' component and leaves the manifest's directory"
        ));
    }
    Ok(root.join(relative))
}

/// The inputs that outlive a step: pools and weights.
fn persistent(inputs: &[Input]) -> impl Iterator<Item = &Input> {
    let pools = inputs.iter().filter(|i| matches!(i.role, InputRole::Pool(_)));
    pools.chain(inputs.iter().filter(|i| i.role == InputRole::Weight))
}

fn describe(input: Option<&Input>) -> String {
    input.map_or("nothing".to_owned(), |input| {
        format!("{} '{}' of {}", input.role.manifest_name(), input.name, input.tensor)
    })
}

fn pools_of(entries: &[Entry]) -> Vec<Pool> {
    let inputs = entries.first().map_or(&[][..], |entry| &entry.inputs);
    let pool = |input: &Input| match input.role {
        InputRole::Pool(role) => {
            Some(Pool { name: input.name.clone(), role, tensor: input.tensor.clone() })
        }
        _ => None,
    };
    inputs.iter().filter_map(pool).collect()
}
