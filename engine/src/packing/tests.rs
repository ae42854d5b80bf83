use proptest::prelude::*;
use tlaloc_artifact::EntryKind;

use super::*;
use crate::WindowedPools;

/// The integer inputs, owned, in the order of artifact format §7.1; empty if the model lacks them.
type Arrays = [Vec<i32>; 9];

const TOKEN_IDS: usize = 0;
const BLOCK_TABLES: usize = 2;
const SEQ_LENS: usize = 3;
const SLOT_MAPPING: usize = 4;
const WINDOW_BLOCK_TABLES: usize = 5;
const STATE_SLOTS: usize = 7;
const STATE_WRITE_SLOTS: usize = 8;

/// A model with one entry.
fn model(block_size: usize, batch: usize, tokens: usize, columns: usize) -> Geometry {
    let (id, kind, context) = ("entry".to_owned(), EntryKind::Prefill, 0);
    let entry = EntryShape { id, kind, batch, context, tokens, columns, logits_columns: 1 };
    Geometry::new(1000, 1000, block_size, vec![], vec![entry])
}

fn with_ring(model: Geometry, ring_pages: usize) -> Geometry {
    model.with_windowed_pools(WindowedPools { window: 8, ring_pages, num_blocks: 1000 })
}

fn pages(pages: &[usize]) -> Held {
    Held { pages: pages.to_vec(), ..Held::default() }
}

fn packed(geometry: &Geometry, rows: &[PackedRow<'_>]) -> Arrays {
    let EntryShape { batch, tokens, columns, .. } = geometry.entries()[0];
    let (wide, table) = (batch * tokens, batch * columns);
    let windowed = usize::from(geometry.windowed().is_some());
    let linear = usize::from(geometry.num_state_slots().is_some());
    let drafts = usize::from(geometry.drafts().is_some());
    let (windowed_table, windowed_wide) = (windowed * table, windowed * wide);
    let (slots, writes) = (linear * batch, drafts * wide);
    let sizes = [wide, wide, table, batch, wide, windowed_table, windowed_wide, slots, writes];
    // What is there before must not matter.
    let mut arrays = sizes.map(|size| vec![i32::MAX; size]);
    let [
        token_ids,
        positions,
        block_tables,
        seq_lens,
        slot_mapping,
        tables,
        mapping,
        slots,
        writes,
    ] = &mut arrays;
    let windowed = WindowInputs { block_tables: tables, slot_mapping: mapping };
    let inputs = StepInputs {
        token_ids,
        positions,
        block_tables,
        seq_lens,
        slot_mapping,
        windowed: geometry.windowed().map(|_| windowed),
        state_slots: geometry.num_state_slots().map(|_| &mut slots[..]),
        state_write_slots: geometry.drafts().map(|_| &mut writes[..]),
    };
    pack(geometry, 0, rows.iter().copied(), inputs);
    arrays
}

/// Artifact format §7.5 item by item, one element at a time.
fn reference(geometry: &Geometry, rows: &[PackedRow<'_>]) -> Arrays {
    let EntryShape { batch, tokens: t, columns: m, .. } = geometry.entries()[0];
    let bs = geometry.block_size();
    let mut token_ids = vec![0; batch * t];
    let mut positions = vec![0; batch * t];
    let mut block_tables = vec![0; batch * m];
    let mut seq_lens = vec![1; batch];
    let mut slot_mapping = vec![-1; batch * t];
    let mut window_block_tables = vec![0; batch * m];
    let mut window_slot_mapping = vec![-1; batch * t];
    let mut state_slots = vec![0; batch];
    let mut state_write_slots = vec![-1; batch * t];
    for (r, row) in rows.iter().enumerate() {
        let Held { pages, ring, state_slots: slots } = row.held;
        let tokens = [row.tokens, row.drafts].concat();
        let (n, at) = (tokens.len(), row.position);
        let pad = t - n;
        for j in 0..n {
            token_ids[r * t + pad + j] = tokens[j];
            if !row.drafts.is_empty() {
                state_write_slots[r * t + j] = slots[1 + j] as i32;
            }
            positions[r * t + pad + j] = (at + j) as i32;
            let slot = pages[(at + j) / bs] * bs + (at + j) % bs;
            slot_mapping[r * t + pad + j] = slot as i32;
            if let Some(WindowedPools { ring_pages, .. }) = geometry.windowed() {
                let slot = ring[((at + j) / bs) % ring_pages] * bs + (at + j) % bs;
                window_slot_mapping[r * t + pad + j] = slot as i32;
            }
        }
        for j in 0..m {
            if j < pages.len() {
                block_tables[r * m + j] = pages[j] as i32;
                if let Some(WindowedPools { ring_pages, .. }) = geometry.windowed() {
                    window_block_tables[r * m + j] = ring[j % ring_pages] as i32;
                }
            }
        }
        seq_lens[r] = (at + n) as i32;
        if geometry.num_state_slots().is_some() {
            state_slots[r] = slots[0] as i32;
        }
    }
    if geometry.windowed().is_none() {
        window_block_tables.clear();
        window_slot_mapping.clear();
    }
    if geometry.num_state_slots().is_none() {
        state_slots.clear();
    }
    if geometry.drafts().is_none() {
        state_write_slots.clear();
    }
    [
        token_ids,
        positions,
        block_tables,
        seq_lens,
        slot_mapping,
        window_block_tables,
        window_slot_mapping,
        state_slots,
        state_write_slots,
    ]
}

#[test]
fn the_worked_example_of_the_format() {
    // Artifact format §7.6.
    let held = Held { pages: vec![1, 2, 3, 4], ring: vec![1, 2, 3], state_slots: vec![] };
    let row = PackedRow { position: 13, tokens: &[7], drafts: &[], held: &held };
    assert_eq!(
        packed(&with_ring(model(4, 2, 1, 4), 3), &[row]),
        [
            vec![7, 0],
            vec![13, 0],
            vec![1, 2, 3, 4, 0, 0, 0, 0],
            vec![14, 1],
            vec![17, -1],
            vec![1, 2, 3, 1, 0, 0, 0, 0],
            vec![5, -1],
            vec![],
            vec![],
        ]
    );
    let held = Held { pages: vec![1], ring: vec![1], state_slots: vec![] };
    let row = PackedRow { position: 0, tokens: &[31, 32, 33], drafts: &[], held: &held };
    assert_eq!(
        packed(&with_ring(model(4, 1, 6, 4), 3), &[row]),
        [
            vec![0, 0, 0, 31, 32, 33],
            vec![0, 0, 0, 0, 1, 2],
            vec![1, 0, 0, 0],
            vec![3],
            vec![-1, -1, -1, 4, 5, 6],
            vec![1, 0, 0, 0],
            vec![-1, -1, -1, 4, 5, 6],
            vec![],
            vec![],
        ]
    );
}

#[test]
fn the_recorded_slots_of_the_reference_artifact() {
    // Artifact format §18: tokens 3, 7, 1, 9 on pages 1, 2 go to slots 2, 3, 4, 5.
    for (position, (token, slot)) in [(3, 2), (7, 3), (1, 4), (9, 5)].into_iter().enumerate() {
        let row = PackedRow { position, tokens: &[token], drafts: &[], held: &pages(&[1, 2]) };
        let arrays = packed(&model(2, 1, 1, 2), &[row]);
        assert_eq!(
            (&arrays[TOKEN_IDS][..], &arrays[SLOT_MAPPING][..]),
            (&[token][..], &[slot][..])
        );
        assert_eq!(arrays[SEQ_LENS], [position as i32 + 1]);
    }
    let rows = [(4, pages(&[3])), (10, pages(&[4]))];
    let rows = rows.each_ref().map(|(token, held)| PackedRow {
        position: 0,
        tokens: std::slice::from_ref(token),
        drafts: &[],
        held,
    });
    assert_eq!(packed(&model(2, 2, 1, 1), &rows)[SLOT_MAPPING], [6, 8]);
}

#[test]
fn pages_beyond_the_tables_columns_are_not_listed() {
    let held = Held { pages: vec![9, 8, 7], ring: vec![4, 6], state_slots: vec![] };
    let row = PackedRow { position: 1, tokens: &[5], drafts: &[], held: &held };
    let arrays = packed(&with_ring(model(2, 2, 1, 2), 2), &[row]);
    assert_eq!(arrays[BLOCK_TABLES], [9, 8, 0, 0]);
    assert_eq!(arrays[SLOT_MAPPING], [19, -1]);
    assert_eq!(arrays[WINDOW_BLOCK_TABLES], [4, 6, 0, 0]);
}

#[test]
fn a_row_names_the_first_of_its_state_slots() {
    let held = Held { pages: vec![3], ring: vec![], state_slots: vec![5, 2] };
    let row = PackedRow { position: 0, tokens: &[5], drafts: &[], held: &held };
    let arrays = packed(&model(2, 3, 1, 2).with_state_slots(8), &[row]);
    assert_eq!(arrays[STATE_SLOTS], [5, 0, 0]);
}

#[test]
fn a_verify_step_writes_the_slots_that_it_does_not_read() {
    let drafts = crate::Drafts { tokens: 2, chained: true };
    let model = model(2, 2, 3, 4).with_state_slots(16).with_drafts(drafts);
    let held = Held { pages: vec![3, 7, 4], ring: vec![], state_slots: vec![5, 2, 9, 4] };
    let row = PackedRow { position: 2, tokens: &[6], drafts: &[8, 1], held: &held };
    let arrays = packed(&model, &[row]);
    assert_eq!(arrays[TOKEN_IDS], [6, 8, 1, 0, 0, 0]);
    assert_eq!(arrays[SLOT_MAPPING], [14, 15, 8, -1, -1, -1]);
    assert_eq!(arrays[SEQ_LENS], [5, 1]);
    assert_eq!(arrays[STATE_SLOTS], [5, 0]);
    assert_eq!(arrays[STATE_WRITE_SLOTS], [2, 9, 4, -1, -1, -1]);
    assert_eq!(arrays, reference(&model, &[row]));
    // A prompt's state stays where it is.
    let prompt = PackedRow { position: 2, tokens: &[6, 8], drafts: &[], held: &held };
    assert_eq!(packed(&model, &[prompt])[STATE_WRITE_SLOTS], [-1; 6]);
}

#[test]
#[should_panic(expected = "SEQ_LENS of entry")]
fn an_input_of_another_size_is_seen() {
    let mut arrays = [vec![0], vec![0], vec![0], vec![], vec![0]];
    let [token_ids, positions, block_tables, seq_lens, slot_mapping] = &mut arrays;
    let (windowed, state_slots) = (None, None);
    let inputs = StepInputs {
        token_ids,
        positions,
        block_tables,
        seq_lens,
        slot_mapping,
        windowed,
        state_slots,
        state_write_slots: None,
    };
    pack(&model(1, 1, 1, 1), 0, std::iter::empty(), inputs);
}

#[test]
#[should_panic(expected = "STATE_SLOTS of entry")]
fn an_input_that_is_missing_is_seen() {
    let mut arrays = [vec![0], vec![0], vec![0], vec![0], vec![0]];
    let [token_ids, positions, block_tables, seq_lens, slot_mapping] = &mut arrays;
    let (windowed, state_slots) = (None, None);
    let inputs = StepInputs {
        token_ids,
        positions,
        block_tables,
        seq_lens,
        slot_mapping,
        windowed,
        state_slots,
        state_write_slots: None,
    };
    pack(&model(1, 1, 1, 1).with_state_slots(2), 0, std::iter::empty(), inputs);
}

prop_compose! {
    /// A model of one entry, and rows that it can run: `(position, tokens, held)`.
    fn calls()(
        block_size in 1..6_usize,
        batch in 1..5_usize,
        columns in 1..7_usize,
        chunk in 1..20_usize,
        ring_pages in prop::option::of(1..8_usize),
        linear in any::<bool>(),
    )(
        rows in prop::collection::vec(
            (0..usize::MAX, 0..usize::MAX, 0..3_usize, any::<u64>()),
            0..=batch,
        ),
        model in Just({
            let mut model = model(block_size, batch, chunk.min(block_size * columns), columns);
            if let Some(ring_pages) = ring_pages {
                model = with_ring(model, ring_pages);
            }
            if linear {
                model = model.with_state_slots(1000);
            }
            model
        }),
    ) -> (Geometry, Vec<(usize, Vec<i32>, Held)>) {
        let EntryShape { tokens, columns, .. } = model.entries()[0];
        let context = model.block_size() * columns;
        let rows = rows.into_iter().map(|(at, count, extra, seed)| {
            let count = 1 + count % tokens;
            let at = at % (context - count + 1);
            let token = |j: usize| (seed.rotate_left(j as u32) % 1000) as i32;
            let page = |j: usize| 1 + (seed.rotate_right(j as u32) % 500) as usize;
            let pages = (at + count).div_ceil(model.block_size()) + extra;
            let held = Held {
                pages: (0..pages).map(page).collect(),
                ring: (0..pages.min(model.ring_pages())).map(|j| page(j + 20)).collect(),
                state_slots: vec![page(40)],
            };
            (at, (0..count).map(token).collect(), held)
        });
        let rows = rows.collect();
        (model, rows)
    }
}

proptest! {
    #[test]
    fn packs_as_the_format_says((model, rows) in calls()) {
        let rows: Vec<_> = rows
            .iter()
            .map(|(position, tokens, held)| PackedRow { position: *position, tokens, drafts: &[], held })
            .collect();
        let expected = reference(&model, &rows);
        prop_assert_eq!(packed(&model, &rows), expected.clone());
        // Control: with any row moved by one position the arrays differ.
        for index in 0..rows.len() {
            let mut moved = rows.clone();
            moved[index].position += 1;
            let Held { pages, ring, state_slots } = moved[index].held;
            let mut held =
                Held { pages: pages.clone(), ring: ring.clone(), state_slots: state_slots.clone() };
            held.pages.push(1);
            held.ring.resize(model.ring_pages(), 1);
            moved[index].held = &held;
            prop_assert_ne!(packed(&model, &moved), expected.clone());
        }
    }
}
