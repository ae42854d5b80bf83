//! What a call's integer inputs hold (artifact format §7.5).

use crate::resources::Held;
use crate::{EntryShape, Geometry};

/// The integer inputs of a call, to be filled. Sizes are those of its entry, `B` rows.
#[derive(Debug)]
pub struct StepInputs<'a> {
    /// `TOKEN_IDS`, `[B, T]`.
    pub token_ids: &'a mut [i32],
    /// `POSITIONS`, `[B, T]`.
    pub positions: &'a mut [i32],
    /// `BLOCK_TABLES`, `[B, M]`.
    pub block_tables: &'a mut [i32],
    /// `SEQ_LENS`, `[B]`.
    pub seq_lens: &'a mut [i32],
    /// `SLOT_MAPPING`, `[B * T]`.
    pub slot_mapping: &'a mut [i32],
    /// Of a model with windowed pools.
    pub windowed: Option<WindowInputs<'a>>,
    /// `STATE_SLOTS`, `[B]`, of a model with linear attention.
    pub state_slots: Option<&'a mut [i32]>,
    /// `STATE_WRITE_SLOTS`, `[B, T]`, of a model with a draft head.
    pub state_write_slots: Option<&'a mut [i32]>,
}

/// The integer inputs that windowed pools add to a call.
#[derive(Debug)]
pub struct WindowInputs<'a> {
    /// `WINDOW_BLOCK_TABLES`, `[B, M]`.
    pub block_tables: &'a mut [i32],
    /// `WINDOW_SLOT_MAPPING`, `[B * T]`.
    pub slot_mapping: &'a mut [i32],
}

/// What an executor runs: the current call of an [`Engine`](crate::Engine) or a
/// [`Scheduler`](crate::generation::Scheduler).
pub trait StepSource {
    /// Sizes of the model.
    fn geometry(&self) -> &Geometry;

    /// Index of the call's entry in [`Geometry::entries`].
    fn entry(&self) -> usize;

    /// Rows of the call. Rows of the entry beyond them are padding.
    fn rows(&self) -> usize;

    /// Whether someone reads the call's logits.
    fn wants_logits(&self) -> bool;

    /// The call is launched already, as the step after the one before it.
    fn chained(&self) -> bool {
        false
    }

    /// Whether the step after the call can be launched before this one is read (sequence mode §17).
    fn chains(&self) -> bool {
        false
    }

    /// The step after the call is launched.
    fn launched_next(&mut self) {}

    /// Fills the integer inputs of the call, every element (artifact format §7.5).
    ///
    /// # Panics
    /// When an input's size is not that of the call's entry, or one is there that the model does
    /// not have, or not there that it has.
    fn pack(&self, inputs: StepInputs<'_>);
}

/// Padding of `TOKEN_IDS`: any legal id.
const TOKEN_PAD: i32 = 0;
/// Padding of `POSITIONS`: any legal position.
const POSITION_PAD: i32 = 0;
/// Padding of block tables: the page that no sequence holds, so gathers stay in bounds.
const PAGE_PAD: i32 = 0;
/// Padding of `SEQ_LENS`: a length of zero would make the softmax 0/0.
const LENGTH_PAD: i32 = 1;
/// Padding of slot mappings: the scatter drops a negative slot.
const SLOT_PAD: i32 = -1;
/// Padding of `STATE_SLOTS`: any slot, as a row without live tokens leaves it alone.
const STATE_SLOT_PAD: i32 = 0;
/// Padding of `STATE_WRITE_SLOTS`: no write. A prefill call writes its state where it read it.
const STATE_WRITE_PAD: i32 = -1;

/// One row to pack: `tokens`, and in a verify step the `drafts` after them, go to positions from
/// `position` on, in what the sequence holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PackedRow<'a> {
    pub position: usize,
    pub tokens: &'a [i32],
    pub drafts: &'a [i32],
    pub held: &'a Held,
}

/// Fills every element of `inputs` for `rows` on an entry: each row right-aligned, the rest
/// padding.
///
/// # Panics
/// When an input's size is not the entry's, or the inputs are not those of the model.
pub(crate) fn pack<'a>(
    geometry: &Geometry,
    entry: usize,
    rows: impl Iterator<Item = PackedRow<'a>>,
    mut inputs: StepInputs<'_>,
) {
    let shape = &geometry.entries()[entry];
    check(geometry, shape, &inputs);
    let EntryShape { tokens: width, columns, .. } = *shape;
    let block_size = geometry.block_size();
    let slot = |page: usize, position: usize| (page * block_size + position % block_size) as i32;

    let mut used = 0;
    for (index, PackedRow { position, tokens, drafts, held }) in rows.enumerate() {
        used = index + 1;
        let (wide, table) = (index * width..used * width, index * columns..used * columns);
        let count = tokens.len() + drafts.len();
        let positions = position..position + count;
        let listed = 0..held.pages.len();

        let slots = positions.clone().map(|at| slot(held.pages[at / block_size], at));
        let pages = held.pages.iter().map(|&page| page as i32);
        let tokens = tokens.iter().chain(drafts).copied();
        align_right(&mut inputs.token_ids[wide.clone()], TOKEN_PAD, count, tokens);
        align_right(&mut inputs.slot_mapping[wide.clone()], SLOT_PAD, count, slots);
        align_left(&mut inputs.block_tables[table.clone()], PAGE_PAD, pages);
        inputs.seq_lens[index] = positions.end as i32;
        if let Some(WindowInputs { block_tables, slot_mapping }) = &mut inputs.windowed {
            // A ring is indexed by its largest size, also while it is shorter.
            let page = |block: usize| held.ring[block % geometry.ring_pages()];
            let slots = positions.clone().map(|at| slot(page(at / block_size), at));
            align_right(&mut slot_mapping[wide.clone()], SLOT_PAD, count, slots);
            align_left(&mut block_tables[table], PAGE_PAD, listed.map(|block| page(block) as i32));
        }
        if let Some(state_slots) = &mut inputs.state_slots {
            state_slots[index] = held.state_slots[0] as i32;
        }
        if let Some(writes) = &mut inputs.state_write_slots {
            let written = if drafts.is_empty() { 0 } else { count };
            let slots = held.state_slots[1..].iter().map(|&slot| slot as i32).take(written);
            align_right(&mut writes[wide.clone()], STATE_WRITE_PAD, written, slots);
        }
        let positions = positions.map(|at| at as i32);
        align_right(&mut inputs.positions[wide], POSITION_PAD, count, positions);
    }

    inputs.token_ids[used * width..].fill(TOKEN_PAD);
    inputs.positions[used * width..].fill(POSITION_PAD);
    inputs.block_tables[used * columns..].fill(PAGE_PAD);
    inputs.seq_lens[used..].fill(LENGTH_PAD);
    inputs.slot_mapping[used * width..].fill(SLOT_PAD);
    if let Some(WindowInputs { block_tables, slot_mapping }) = inputs.windowed {
        block_tables[used * columns..].fill(PAGE_PAD);
        slot_mapping[used * width..].fill(SLOT_PAD);
    }
    if let Some(state_slots) = inputs.state_slots {
        state_slots[used..].fill(STATE_SLOT_PAD);
    }
    if let Some(writes) = inputs.state_write_slots {
        writes[used * width..].fill(STATE_WRITE_PAD);
    }
}

/// Fills `row` with padding and then `count` values.
fn align_right(row: &mut [i32], padding: i32, count: usize, values: impl Iterator<Item = i32>) {
    let (pad, live) = row.split_at_mut(row.len() - count);
    pad.fill(padding);
    live.iter_mut().zip(values).for_each(|(to, value)| *to = value);
}

/// Fills `row` with as many `values` as it takes and then padding. A sequence may hold more pages
/// than a table has columns: they are for later calls.
fn align_left(row: &mut [i32], padding: i32, values: impl Iterator<Item = i32>) {
    let values = values.chain(std::iter::repeat(padding));
    row.iter_mut().zip(values).for_each(|(to, value)| *to = value);
}

fn check(geometry: &Geometry, shape: &EntryShape, inputs: &StepInputs<'_>) {
    let EntryShape { id, batch, tokens: width, columns, .. } = shape;
    let check = |role: &str, input: &[i32], size: usize| {
        assert_eq!(input.len(), size, "{role} of {id}");
    };
    check("TOKEN_IDS", inputs.token_ids, batch * width);
    check("POSITIONS", inputs.positions, batch * width);
    check("BLOCK_TABLES", inputs.block_tables, batch * columns);
    check("SEQ_LENS", inputs.seq_lens, *batch);
    check("SLOT_MAPPING", inputs.slot_mapping, batch * width);
    let windowed = geometry.windowed().is_some();
    assert_eq!(inputs.windowed.is_some(), windowed, "windowed inputs of {id}");
    if let Some(windowed) = &inputs.windowed {
        check("WINDOW_BLOCK_TABLES", windowed.block_tables, batch * columns);
        check("WINDOW_SLOT_MAPPING", windowed.slot_mapping, batch * width);
    }
    let linear = geometry.num_state_slots().is_some();
    assert_eq!(inputs.state_slots.is_some(), linear, "STATE_SLOTS of {id}");
    if let Some(state_slots) = &inputs.state_slots {
        check("STATE_SLOTS", state_slots, *batch);
    }
    let drafts = geometry.drafts().is_some();
    assert_eq!(inputs.state_write_slots.is_some(), drafts, "STATE_WRITE_SLOTS of {id}");
    if let Some(writes) = &inputs.state_write_slots {
        check("STATE_WRITE_SLOTS", writes, batch * width);
    }
}

#[cfg(test)]
mod tests;
