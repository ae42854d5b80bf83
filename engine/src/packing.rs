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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tlaloc_artifact::EntryKind;

    use super::*;

    /// The five inputs, owned, in the order of [`StepInputs`].
    type Arrays = [Vec<i32>; 5];

    fn shape(batch: usize, tokens: usize, columns: usize) -> EntryShape {
        let (id, kind, context) = ("entry".to_owned(), EntryKind::Prefill, 0);
        EntryShape { id, kind, batch, context, tokens, columns }
    }

    fn packed(shape: &EntryShape, block_size: usize, rows: &[PackedRow<'_>]) -> Arrays {
        // What is there before must not matter.
        let stale = |size| vec![i32::MAX; size];
        let EntryShape { batch, tokens, columns, .. } = *shape;
        let sizes = [batch * tokens, batch * tokens, batch * columns, batch, batch * tokens];
        let mut arrays = sizes.map(stale);
        let [token_ids, positions, block_tables, seq_lens, slot_mapping] = &mut arrays;
        let inputs = StepInputs { token_ids, positions, block_tables, seq_lens, slot_mapping };
        pack(shape, block_size, rows.iter().copied(), inputs);
        arrays
    }

    /// Artifact format §7.5 item by item, one element at a time.
    fn reference(shape: &EntryShape, bs: usize, rows: &[PackedRow<'_>]) -> Arrays {
        let EntryShape { batch, tokens: t, columns: m, .. } = *shape;
        let mut token_ids = vec![0; batch * t];
        let mut positions = vec![0; batch * t];
        let mut block_tables = vec![0; batch * m];
        let mut seq_lens = vec![1; batch];
        let mut slot_mapping = vec![-1; batch * t];
        for (r, row) in rows.iter().enumerate() {
            let (n, at) = (row.tokens.len(), row.position);
            let pad = t - n;
            for j in 0..n {
                token_ids[r * t + pad + j] = row.tokens[j];
                positions[r * t + pad + j] = (at + j) as i32;
                let slot = row.pages[(at + j) / bs] * bs + (at + j) % bs;
                slot_mapping[r * t + pad + j] = slot as i32;
            }
            for j in 0..m {
                if j < row.pages.len() {
                    block_tables[r * m + j] = row.pages[j] as i32;
                }
            }
            seq_lens[r] = (at + n) as i32;
        }
        [token_ids, positions, block_tables, seq_lens, slot_mapping]
    }

    #[test]
    fn the_worked_example_of_the_format() {
        // Artifact format §7.6, without its window.
        let row = PackedRow { position: 13, tokens: &[7], pages: &[1, 2, 3, 4] };
        assert_eq!(
            packed(&shape(2, 1, 4), 4, &[row]),
            [vec![7, 0], vec![13, 0], vec![1, 2, 3, 4, 0, 0, 0, 0], vec![14, 1], vec![17, -1]]
        );
        let row = PackedRow { position: 0, tokens: &[31, 32, 33], pages: &[1] };
        assert_eq!(
            packed(&shape(1, 6, 4), 4, &[row]),
            [
                vec![0, 0, 0, 31, 32, 33],
                vec![0, 0, 0, 0, 1, 2],
                vec![1, 0, 0, 0],
                vec![3],
                vec![-1, -1, -1, 4, 5, 6]
            ]
        );
    }

    #[test]
    fn the_recorded_slots_of_the_reference_artifact() {
        // Artifact format §18: tokens 3, 7, 1, 9 on pages 1, 2 go to slots 2, 3, 4, 5.
        for (position, (token, slot)) in [(3, 2), (7, 3), (1, 4), (9, 5)].into_iter().enumerate() {
            let row = PackedRow { position, tokens: &[token], pages: &[1, 2] };
            let [token_ids, _, _, seq_lens, slots] = packed(&shape(1, 1, 2), 2, &[row]);
            assert_eq!((token_ids, slots), (vec![token], vec![slot]));
            assert_eq!(seq_lens, [position as i32 + 1]);
        }
        let rows = [(4, [3]), (10, [4])];
        let rows = rows.each_ref().map(|(token, pages)| PackedRow {
            position: 0,
            tokens: std::slice::from_ref(token),
            pages,
        });
        let [.., slots] = packed(&shape(2, 1, 1), 2, &rows);
        assert_eq!(slots, [6, 8]);
    }

    #[test]
    fn pages_beyond_the_tables_columns_are_not_listed() {
        let row = PackedRow { position: 1, tokens: &[5], pages: &[9, 8, 7] };
        let [_, _, tables, _, slots] = packed(&shape(2, 1, 2), 2, &[row]);
        assert_eq!((tables, slots), (vec![9, 8, 0, 0], vec![19, -1]));
    }

    #[test]
    #[should_panic(expected = "SEQ_LENS of entry")]
    fn an_input_of_another_size_is_seen() {
        let mut arrays = [vec![0], vec![0], vec![0], vec![], vec![0]];
        let [token_ids, positions, block_tables, seq_lens, slot_mapping] = &mut arrays;
        let inputs = StepInputs { token_ids, positions, block_tables, seq_lens, slot_mapping };
        pack(&shape(1, 1, 1), 1, std::iter::empty(), inputs);
    }

    prop_compose! {
        /// A block size, an entry, and rows that it can run: `(position, tokens, pages)`.
        fn calls()(
            block_size in 1..6_usize,
            batch in 1..5_usize,
            columns in 1..7_usize,
            chunk in 1..20_usize,
        )(
            rows in prop::collection::vec(
                (0..usize::MAX, 0..usize::MAX, 0..3_usize, any::<u64>()),
                0..=batch,
            ),
            block_size in Just(block_size),
            shape in Just(shape(batch, chunk.min(block_size * columns), columns)),
        ) -> (usize, EntryShape, Vec<(usize, Vec<i32>, Vec<usize>)>) {
            let context = block_size * shape.columns;
            let rows = rows.into_iter().map(|(at, count, extra, seed)| {
                let count = 1 + count % shape.tokens;
                let at = at % (context - count + 1);
                let token = |j: usize| (seed.rotate_left(j as u32) % 1000) as i32;
                let page = |j: usize| 1 + (seed.rotate_right(j as u32) % 500) as usize;
                let pages = (at + count).div_ceil(block_size) + extra;
                (at, (0..count).map(token).collect(), (0..pages).map(page).collect())
            });
            (block_size, shape.clone(), rows.collect())
        }
    }

    proptest! {
        #[test]
        fn packs_as_the_format_says((block_size, shape, rows) in calls()) {
            let rows: Vec<_> = rows
                .iter()
                .map(|(position, tokens, pages)| PackedRow { position: *position, tokens, pages })
                .collect();
            let expected = reference(&shape, block_size, &rows);
            prop_assert_eq!(packed(&shape, block_size, &rows), expected.clone());
            // Control: with any row moved by one position the arrays differ.
            for index in 0..rows.len() {
                let mut moved = rows.clone();
                moved[index].position += 1;
                let mut pages = moved[index].pages.to_vec();
                pages.push(1);
                moved[index].pages = &pages;
                prop_assert_ne!(packed(&shape, block_size, &moved), expected.clone());
            }
        }
    }
}
