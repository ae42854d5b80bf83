//! What a call's integer inputs hold (artifact format §7.5).

use crate::EntryShape;

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
}

/// Padding of `TOKEN_IDS`: any legal id.
const TOKEN_PAD: i32 = 0;
/// Padding of `POSITIONS`: any legal position.
const POSITION_PAD: i32 = 0;
/// Padding of `BLOCK_TABLES`: the page that no sequence holds, so gathers stay in bounds.
const PAGE_PAD: i32 = 0;
/// Padding of `SEQ_LENS`: a length of zero would make the softmax 0/0.
const LENGTH_PAD: i32 = 1;
/// Padding of `SLOT_MAPPING`: the scatter drops a negative slot.
const SLOT_PAD: i32 = -1;

/// One row to pack: `tokens` go to positions from `position` on, in `pages`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PackedRow<'a> {
    pub position: usize,
    pub tokens: &'a [i32],
    pub pages: &'a [usize],
}

/// Fills every element of `inputs` for `rows` on an entry of `shape`: each row right-aligned, the
/// rest padding.
///
/// # Panics
/// When an input's size is not the entry's.
pub(crate) fn pack<'a>(
    shape: &EntryShape,
    block_size: usize,
    rows: impl Iterator<Item = PackedRow<'a>>,
    inputs: StepInputs<'_>,
) {
    let EntryShape { batch, tokens: width, columns, .. } = *shape;
    assert_eq!(inputs.token_ids.len(), batch * width, "TOKEN_IDS of {}", shape.id);
    assert_eq!(inputs.positions.len(), batch * width, "POSITIONS of {}", shape.id);
    assert_eq!(inputs.block_tables.len(), batch * columns, "BLOCK_TABLES of {}", shape.id);
    assert_eq!(inputs.seq_lens.len(), batch, "SEQ_LENS of {}", shape.id);
    assert_eq!(inputs.slot_mapping.len(), batch * width, "SLOT_MAPPING of {}", shape.id);

    let mut used = 0;
    for (index, row) in rows.enumerate() {
        used = index + 1;
        let span = index * width..used * width;
        let pad = width - row.tokens.len();

        let token_ids = &mut inputs.token_ids[span.clone()];
        token_ids[..pad].fill(TOKEN_PAD);
        token_ids[pad..].copy_from_slice(row.tokens);

        let positions = &mut inputs.positions[span.clone()];
        let slots = &mut inputs.slot_mapping[span];
        positions[..pad].fill(POSITION_PAD);
        slots[..pad].fill(SLOT_PAD);
        let live = positions[pad..].iter_mut().zip(&mut slots[pad..]);
        for (position, (to_position, to_slot)) in (row.position..).zip(live) {
            *to_position = position as i32;
            *to_slot = slot(row.pages, position, block_size);
        }

        // A sequence may hold more pages than the table has columns: they are for later calls.
        let table = &mut inputs.block_tables[index * columns..used * columns];
        let listed = row.pages.len().min(columns);
        for (to, &page) in table.iter_mut().zip(row.pages) {
            *to = page as i32;
        }
        table[listed..].fill(PAGE_PAD);

        inputs.seq_lens[index] = (row.position + row.tokens.len()) as i32;
    }
    inputs.token_ids[used * width..].fill(TOKEN_PAD);
    inputs.positions[used * width..].fill(POSITION_PAD);
    inputs.block_tables[used * columns..].fill(PAGE_PAD);
    inputs.seq_lens[used..].fill(LENGTH_PAD);
    inputs.slot_mapping[used * width..].fill(SLOT_PAD);
}

/// Slot of a position (artifact format §7.4).
fn slot(pages: &[usize], position: usize, block_size: usize) -> i32 {
    (pages[position / block_size] * block_size + position % block_size) as i32
}
