//! The integers of a call, as a server's would be.

use tlaloc_artifact::{Entry, InputRole, Windowed};

/// The integer inputs of an entry, in the order of artifact format §7.1. The last three are only in
/// models with windowed pools and with linear attention.
pub const ROLES: [InputRole; 8] = [
    InputRole::TokenIds,
    InputRole::Positions,
    InputRole::BlockTables,
    InputRole::SeqLens,
    InputRole::SlotMapping,
    InputRole::WindowBlockTables,
    InputRole::WindowSlotMapping,
    InputRole::StateSlots,
];

/// What a row that stands for no sequence has in each of [`ROLES`].
const PADDING: [i32; ROLES.len()] = [0, 0, 0, 1, -1, 0, -1, 0];

/// Rows of sequences that hold pages of their own, scattered over the pools as they are in a server
/// that has run for a while.
#[derive(Debug)]
pub struct Rows {
    /// Token columns of a row.
    tokens: usize,
    block_size: usize,
    /// Page ids of each row.
    pages: Vec<Vec<usize>>,
    /// Page ids of each row's ring; empty where there are no windowed pools.
    rings: Vec<Vec<usize>>,
}

/// `rows` lists of `length` pages of a pool of `num_blocks`, page 0 included, that have no page in
/// common. None where the pool has not enough.
fn scattered(rows: usize, length: usize, num_blocks: usize) -> Option<Vec<Vec<usize>>> {
    let usable = num_blocks.checked_sub(1)?;
    if rows.checked_mul(length)? > usable {
        return None;
    }
    // Multiples of a number without a common divisor visit every page once.
    let near_golden_section = usable * 5 / 8 + 1;
    let stride = (near_golden_section..).find(|stride| gcd(*stride, usable) == 1)?;
    let page = |index: usize| 1 + index * stride % usable;
    let row = |row| (0..length).map(|column| page(row * length + column)).collect();
    Some((0..rows).map(row).collect())
}

impl Rows {
    /// `rows` rows of an entry; the pools have `num_blocks` pages, page 0 included. None where these
    /// are not enough.
    pub fn new(
        entry: &Entry,
        rows: usize,
        num_blocks: usize,
        block_size: usize,
        windowed: Option<&Windowed>,
    ) -> Option<Rows> {
        let rings = match windowed {
            Some(windowed) => scattered(rows, windowed.ring_pages, windowed.num_blocks)?,
            None => Vec::new(),
        };
        let pages = scattered(rows, entry.columns, num_blocks)?;
        Some(Rows { tokens: entry.tokens, block_size, pages, rings })
    }

    /// Writes the call in which each of the first `rows` rows brings its next tokens, the first of
    /// them at `position`. `ids` has the rows' tokens one row after the other; other rows become
    /// padding.
    pub fn write(
        &self,
        position: usize,
        rows: usize,
        ids: &[i32],
        inputs: [&mut [i32]; ROLES.len()],
    ) {
        let mut inputs = inputs;
        for (input, padding) in inputs.iter_mut().zip(PADDING) {
            input.fill(padding);
        }
        let [
            token_ids,
            positions,
            block_tables,
            seq_lens,
            slots,
            ring_tables,
            ring_slots,
            state_slots,
        ] = inputs;
        copy(token_ids, ids.iter().copied().take(rows * self.tokens));
        let columns = block_tables.len() / seq_lens.len().max(1);
        let call = position..position + self.tokens;
        for (row, pages) in self.pages.iter().take(rows).enumerate() {
            let tokens = row * self.tokens..;
            copy(at(positions, tokens.clone()), call.clone().map(integer));
            copy(at(seq_lens, row..), [integer(call.end)]);
            copy(at(state_slots, row..), [integer(row)]);
            let place = |tables: &mut [i32], slots: &mut [i32], pages: &[usize]| {
                let listed = pages.iter().cycle().take(columns);
                copy(at(tables, row * columns..), listed.map(|page| integer(*page)));
                let slots_of_tokens = call.clone().map(|at| integer(self.slot(pages, at)));
                copy(at(slots, tokens.clone()), slots_of_tokens);
            };
            place(block_tables, slots, pages);
            if let Some(ring) = self.rings.get(row) {
                place(ring_tables, ring_slots, ring);
            }
        }
    }

    fn slot(&self, pages: &[usize], position: usize) -> usize {
        let page =
            pages.iter().cycle().nth(position / self.block_size).copied().unwrap_or_default();
        page * self.block_size + position % self.block_size
    }
}

fn at(input: &mut [i32], range: std::ops::RangeFrom<usize>) -> &mut [i32] {
    input.get_mut(range).unwrap_or_default()
}

fn copy(to: &mut [i32], from: impl IntoIterator<Item = i32>) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to = from);
}

/// Sizes of an artifact's axes fit, being those of `i32` inputs.
fn integer(value: usize) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::path::PathBuf;

    use tlaloc_artifact::EntryKind;

    use super::*;

    fn entry(batch: usize, columns: usize, tokens: usize) -> Entry {
        Entry {
            id: String::new(),
            kind: EntryKind::Decode,
            batch,
            context: columns * 4,
            tokens,
            columns,
            logits_columns: 1,
            entry_point: String::new(),
            body: PathBuf::new(),
            body_name: String::new(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            donations: Vec::new(),
        }
    }

    #[test]
    fn pages_are_distinct_and_in_the_pool() {
        for usable in [6, 7, 8, 64, 100] {
            let rows = Rows::new(&entry(2, 3, 1), 2, usable + 1, 4, None).unwrap();
            let pages: HashSet<usize> = rows.pages.iter().flatten().copied().collect();
            assert_eq!(pages.len(), 6, "of {usable}");
            assert!(pages.iter().all(|page| (1..=usable).contains(page)), "of {usable}: {pages:?}");
        }
        assert!(Rows::new(&entry(2, 3, 1), 2, 6, 4, None).is_none(), "five pages for six");
        assert!(Rows::new(&entry(1, 1, 1), 1, 0, 4, None).is_none());
    }

    #[test]
    fn a_call_is_written_as_the_format_says() {
        // Two columns of two tokens from position 5 on, pages of 4 tokens, rings of one page, two
        // rows of three.
        let (pages, rings) = (vec![vec![9, 7], vec![3, 2]], vec![vec![3], vec![1]]);
        let rows = Rows { tokens: 2, block_size: 4, pages, rings };
        let (mut ids, mut positions, mut tables) = ([8; 6], [8; 6], [8; 6]);
        let (mut lens, mut slots, mut states) = ([8; 3], [8; 6], [8; 3]);
        let (mut ring_tables, mut ring_slots) = ([8; 6], [8; 6]);
        let inputs = [
            &mut ids[..],
            &mut positions[..],
            &mut tables[..],
            &mut lens[..],
            &mut slots[..],
            &mut ring_tables[..],
            &mut ring_slots[..],
            &mut states[..],
        ];
        rows.write(5, 2, &[41, 42, 43, 44], inputs);
        assert_eq!(ids, [41, 42, 43, 44, 0, 0]);
        assert_eq!(positions, [5, 6, 5, 6, 0, 0]);
        assert_eq!(tables, [9, 7, 3, 2, 0, 0]);
        assert_eq!(lens, [7, 7, 1]);
        // Position 5 is the second token of page 7, and of page 2.
        assert_eq!(slots, [29, 30, 9, 10, -1, -1]);
        // A ring's only page is every page of its sequence.
        assert_eq!(ring_tables, [3, 3, 1, 1, 0, 0]);
        assert_eq!(ring_slots, [13, 14, 5, 6, -1, -1]);
        assert_eq!(states, [0, 1, 0]);
    }
}
