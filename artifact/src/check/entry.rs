//! The rules of one entry (artifact format §17 items 13–16).

use std::collections::HashSet;
use std::path::Path;

use super::{Broken, count, inside};
use crate::artifact::{Entry, EntryKind};
use crate::signature::{Geometry, logits_columns};
use crate::{
    DType, Input, InputRole, Output, OutputRole, PoolRole, SchemaVersion, Tensor, entry_id,
    manifest,
};

/// What the entries of one artifact have in common.
pub(super) struct Shape {
    pub(super) version: SchemaVersion,
    pub(super) vocab_size: usize,
    pub(super) block_size: usize,
    pub(super) draft_tokens: usize,
    pub(super) windowed: bool,
    pub(super) linear_state: bool,
}

impl Shape {
    /// Items 13 to 16.
    pub(super) fn entry(&self, root: &Path, written: &manifest::Entry) -> Broken<Entry> {
        let kind = EntryKind::parse(&written.kind)
            .ok_or_else(|| format!("kind is '{}', expected decode or prefill", written.kind))?;
        let batch = count("batch", written.batch, 1)?;
        let context = count("context", written.context, 1)?;
        let tokens = count("tokensPerSeq", written.tokens_per_seq, 1)?;
        let columns = count("maxBlocksPerSeq", written.max_blocks_per_seq, 1)?;
        if kind == EntryKind::Prefill && self.version == SchemaVersion::V1 {
            return Err(format!("{} has no prefill entries", self.version.manifest_name()));
        }
        let body =
            inside(root, &written.body_path).map_err(|reason| format!("bodyPath: {reason}"))?;
        inside(root, &written.program_path).map_err(|reason| format!("programPath: {reason}"))?;
        let inputs = slots(&written.inputs, "inputs", |name, role, tensor| {
            Some(Input { name, role: InputRole::parse(role)?, tensor })
        })?;
        let outputs = slots(&written.outputs, "outputs", |name, role, tensor| {
            Some(Output { name, role: OutputRole::parse(role)?, tensor })
        })?;
        let donations = donations(&written.donation_pairs, &inputs, &outputs)?;

        // The logits of every token are for verify calls: prefill entries that leave no recurrent
        // state behind, whose drafts could be wrong.
        let may_verify = kind == EntryKind::Prefill && self.draft_tokens == 0 && !self.linear_state;
        let verifies = may_verify && tokens > 1 && logits_columns(&outputs) == tokens;
        let logits_columns = if verifies { tokens } else { 1 };
        let geometry = Geometry {
            batch,
            tokens,
            columns,
            logits_columns,
            vocab_size: self.vocab_size,
            draft_tokens: self.draft_tokens,
            windowed: self.windowed,
            linear_state: self.linear_state,
        };
        self.inputs(&geometry, &inputs)?;
        self.outputs(&geometry, &inputs, &outputs, &donations)?;

        match kind {
            EntryKind::Decode if tokens != 1 + self.draft_tokens => {
                return Err(format!(
                    "tokensPerSeq is {tokens}, but a decode entry of {} draft tokens has {}",
                    self.draft_tokens,
                    1 + self.draft_tokens
                ));
            }
            EntryKind::Prefill if tokens > context => {
                return Err(format!(
                    "tokensPerSeq is {tokens}, more than the context of {context}"
                ));
            }
            _ => {}
        }
        let covered = columns.saturating_mul(self.block_size);
        if covered < context {
            return Err(format!(
                "maxBlocksPerSeq is {columns}: pages of {} tokens cover {covered} positions, less \
                 than the context of {context}",
                self.block_size
            ));
        }
        Ok(Entry {
            id: entry_id(kind, batch, context, tokens, logits_columns),
            kind,
            batch,
            context,
            tokens,
            columns,
            logits_columns,
            entry_point: written.entry_point.clone(),
            body,
            body_name: written.body_path.clone(),
            inputs,
            outputs,
            donations,
        })
    }

    /// Item 14.
    fn inputs(&self, geometry: &Geometry, inputs: &[Input]) -> Broken<()> {
        let expected = geometry.request_inputs();
        let mut seen = HashSet::new();
        let mut names = HashSet::new();
        for input in inputs {
            let role = input.role.manifest_name();
            match input.role {
                InputRole::Pool(PoolRole::WindowKv) if !self.windowed => {
                    return Err(format!(
                        "input '{}' has role {role}, but the model has no windowedKv",
                        input.name
                    ));
                }
                InputRole::Pool(PoolRole::State) if !self.linear_state => {
                    return Err(format!(
                        "input '{}' has role {role}, but the model has no linearState",
                        input.name
                    ));
                }
                InputRole::Pool(_) | InputRole::Weight => {
                    if !names.insert(input.name.as_str()) {
                        return Err(format!("two pools or weights are named '{}'", input.name));
                    }
                    continue;
                }
                _ => {}
            }
            let Some((_, _, dims)) = expected.iter().find(|(_, r, _)| *r == input.role) else {
                return Err(format!(
                    "input '{}' has role {role}, which belongs to a feature that the model lacks",
                    input.name
                ));
            };
            if !seen.insert(input.role) {
                return Err(format!("two inputs have role {role}"));
            }
            typed("input", &input.name, role, &input.tensor, DType::I32, dims)?;
        }
        match expected.iter().find(|(_, role, _)| !seen.contains(role)) {
            Some((_, role, _)) => Err(format!("no input has role {}", role.manifest_name())),
            None => Ok(()),
        }
    }

    /// Item 15.
    fn outputs(
        &self,
        geometry: &Geometry,
        inputs: &[Input],
        outputs: &[Output],
        donations: &[(usize, usize)],
    ) -> Broken<()> {
        let leading = geometry.leading_outputs();
        let chain = geometry.chain_outputs();
        let mut seen = HashSet::new();
        for (index, output) in outputs.iter().enumerate() {
            let role = output.role.manifest_name();
            if let OutputRole::Pool(pool) = output.role {
                let mut pairs = donations.iter().filter(|(_, o)| *o == index);
                let input = match (pairs.next(), pairs.next()) {
                    (Some(&(i, _)), None) => inputs.get(i),
                    _ => None,
                };
                match input {
                    Some(input) if input.role == InputRole::Pool(pool) => continue,
                    Some(input) => {
                        return Err(format!(
                            "output '{}' has role {role}, but donationPairs pairs it with input \
                             '{}' of role {}",
                            output.name,
                            input.name,
                            input.role.manifest_name()
                        ));
                    }
                    None => {
                        return Err(format!(
                            "output '{}' has role {role}, but donationPairs does not pair it with \
                             exactly one input",
                            output.name
                        ));
                    }
                }
            }
            let expected = leading.iter().chain(&chain).find(|(_, r, _, _)| *r == output.role);
            let Some((_, _, dtype, dims)) = expected else {
                return Err(format!(
                    "output '{}' has role {role}, which a model of {} draft tokens does not have",
                    output.name, self.draft_tokens
                ));
            };
            if !seen.insert(output.role) {
                return Err(format!("two outputs have role {role}"));
            }
            typed("output", &output.name, role, &output.tensor, *dtype, dims)?;
        }
        if let Some((_, role, _, _)) = leading.iter().find(|(_, role, _, _)| !seen.contains(role)) {
            return Err(format!("no output has role {}", role.manifest_name()));
        }
        let missing = |role: &OutputRole| !seen.contains(role);
        let absent: Vec<_> = chain
            .iter()
            .map(|(_, r, _, _)| r)
            .filter(|r| missing(r))
            .map(|r| r.manifest_name())
            .collect();
        if !absent.is_empty() && absent.len() < chain.len() {
            return Err(format!(
                "outputs of the next verify step must be all there or none; missing: {}",
                absent.join(", ")
            ));
        }
        for (index, input) in inputs.iter().enumerate() {
            let paired = donations.iter().filter(|(i, _)| *i == index).count();
            let expected = usize::from(matches!(input.role, InputRole::Pool(_)));
            if paired != expected {
                return Err(format!(
                    "donationPairs names input '{}' of role {} {paired} times, expected {expected}",
                    input.name,
                    input.role.manifest_name()
                ));
            }
        }
        Ok(())
    }
}

/// The id of an entry whose numbers are not checked yet.
pub(super) fn written_id(entry: &manifest::Entry) -> String {
    format!(
        "{}_b{}_c{}{}",
        entry.kind,
        entry.batch,
        entry.context,
        match entry.kind.as_str() {
            "prefill" if entry.tokens_per_seq < entry.context => {
                format!("_t{}", entry.tokens_per_seq)
            }
            _ => String::new(),
        }
    )
}

/// Reads the slots of one side of a signature.
fn slots<S>(
    written: &[manifest::Slot],
    side: &str,
    build: impl Fn(String, &str, Tensor) -> Option<S>,
) -> Broken<Vec<S>> {
    let mut slots = Vec::with_capacity(written.len());
    for (index, slot) in written.iter().enumerate() {
        let place = || format!("{side}[{index}] '{}'", slot.name);
        if slot.name.is_empty() {
            return Err(format!("{side}[{index}] has no name"));
        }
        let dtype = DType::parse(&slot.tensor.dtype).ok_or_else(|| {
            format!("{}: dtype '{}' is not supported", place(), slot.tensor.dtype)
        })?;
        let dims = slot.tensor.dims.iter().map(|&dim| count("a dim", dim, 1));
        let dims = dims
            .collect::<Broken<Vec<_>>>()
            .map_err(|reason| format!("{}: {reason} (dims {:?})", place(), slot.tensor.dims))?;
        let tensor = Tensor::new(dtype, dims)
            .ok_or_else(|| format!("{}: dims {:?} are too large", place(), slot.tensor.dims))?;
        let built = build(slot.name.clone(), &slot.role, tensor)
            .ok_or_else(|| format!("{}: role '{}' is unknown", place(), slot.role))?;
        slots.push(built);
    }
    Ok(slots)
}

/// Donation pairs with indices in range and equal types, in input order.
fn donations(
    written: &[[i64; 2]],
    inputs: &[Input],
    outputs: &[Output],
) -> Broken<Vec<(usize, usize)>> {
    let mut pairs = Vec::with_capacity(written.len());
    for (index, &[input, output]) in written.iter().enumerate() {
        let at = || format!("donationPairs[{index}] is [{input},{output}]");
        let pair = usize::try_from(input).ok().zip(usize::try_from(output).ok());
        let slots = pair.and_then(|(i, o)| Some((inputs.get(i)?, outputs.get(o)?)));
        let (Some(pair), Some((source, target))) = (pair, slots) else {
            let (n, m) = (inputs.len(), outputs.len());
            return Err(format!("{}, but the entry has {n} inputs and {m} outputs", at()));
        };
        if source.tensor != target.tensor {
            return Err(format!(
                "{}, but input '{}' is {} and output '{}' is {}",
                at(),
                source.name,
                source.tensor,
                target.name,
                target.tensor
            ));
        }
        pairs.push(pair);
    }
    pairs.sort_unstable();
    Ok(pairs)
}

fn typed(
    side: &str,
    name: &str,
    role: &str,
    found: &Tensor,
    dtype: DType,
    dims: &[usize],
) -> Broken<()> {
    if found.dtype() == dtype && found.dims() == dims {
        return Ok(());
    }
    let expected = Tensor::new(dtype, dims).map_or(format!("{dims:?}"), |t| t.to_string());
    Err(format!(
        "{side} '{name}' of role {role} is {found}, but the entry's sizes make it {expected}"
    ))
}
