//! A device that keeps tokens where a real one keeps keys, values and recurrent states.

use std::collections::HashSet;

use tlaloc_engine::generation::{MoveKind, MovedRows, Moves};
use tlaloc_engine::{
    Amounts, EntryKind, EntryShape, Geometry, Resource, StepInputs, StepSource, WindowInputs,
    WindowedPools,
};

use super::check;

/// The integer inputs of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packed {
    pub token_ids: Vec<i32>,
    pub positions: Vec<i32>,
    pub block_tables: Vec<i32>,
    pub seq_lens: Vec<i32>,
    pub slot_mapping: Vec<i32>,
    pub window_block_tables: Vec<i32>,
    pub window_slot_mapping: Vec<i32>,
    pub state_slots: Vec<i32>,
    pub state_write_slots: Vec<i32>,
}

impl Packed {
    /// What the engine packs for its current call. Elements that it leaves out are seen.
    pub fn of(engine: &impl StepSource) -> Packed {
        let mut packed = Packed::default();
        packed.fill(engine, i32::MIN);
        packed
    }

    /// Room for any call of a model.
    pub fn reserved(geometry: &Geometry) -> Packed {
        let most = |size: fn(&EntryShape) -> usize| {
            Vec::with_capacity(geometry.entries().iter().map(size).max().unwrap_or(0))
        };
        let (wide, table, batch) = (
            || most(|shape| shape.batch * shape.tokens),
            || most(|shape| shape.batch * shape.columns),
            || most(|shape| shape.batch),
        );
        Packed {
            token_ids: wide(),
            positions: wide(),
            block_tables: table(),
            seq_lens: batch(),
            slot_mapping: wide(),
            window_block_tables: table(),
            window_slot_mapping: wide(),
            state_slots: batch(),
            state_write_slots: wide(),
        }
    }

    /// As [`Packed::of`], in the memory of an earlier call.
    pub fn fill(&mut self, engine: &impl StepSource, stale: i32) {
        let geometry = engine.geometry();
        let shape = &geometry.entries()[engine.entry()];
        let (wide, table) = (shape.batch * shape.tokens, shape.batch * shape.columns);
        let fresh = |array: &mut Vec<i32>, size| {
            array.clear();
            array.resize(size, stale);
        };
        for array in [&mut self.token_ids, &mut self.positions, &mut self.slot_mapping] {
            fresh(array, wide);
        }
        fresh(&mut self.block_tables, table);
        fresh(&mut self.seq_lens, shape.batch);
        if geometry.windowed().is_some() {
            fresh(&mut self.window_block_tables, table);
            fresh(&mut self.window_slot_mapping, wide);
        }
        if geometry.num_state_slots().is_some() {
            fresh(&mut self.state_slots, shape.batch);
        }
        if geometry.drafts().is_some() {
            fresh(&mut self.state_write_slots, wide);
        }
        let windowed = WindowInputs {
            block_tables: &mut self.window_block_tables,
            slot_mapping: &mut self.window_slot_mapping,
        };
        engine.pack(StepInputs {
            token_ids: &mut self.token_ids,
            positions: &mut self.positions,
            block_tables: &mut self.block_tables,
            seq_lens: &mut self.seq_lens,
            slot_mapping: &mut self.slot_mapping,
            windowed: geometry.windowed().map(|_| windowed),
            state_slots: geometry.num_state_slots().map(|_| &mut self.state_slots[..]),
            state_write_slots: geometry.drafts().map(|_| &mut self.state_write_slots[..]),
        });
    }
}

/// One class of paged pools. A slot holds a token and its position.
#[derive(Clone, Debug)]
struct Paged {
    slots: Vec<Option<(i32, i32)>>,
    block_size: usize,
}

impl Paged {
    fn new(blocks: usize, block_size: usize) -> Paged {
        Paged { slots: vec![None; blocks * block_size], block_size }
    }

    /// Writes every token to its slot.
    fn write(&mut self, packed: &Packed, slot_mapping: &[i32]) -> Result<(), String> {
        for (index, &slot) in slot_mapping.iter().enumerate() {
            let (token, position) = (packed.token_ids[index], packed.positions[index]);
            if slot == -1 {
                check((token, position) == (0, 0), || format!("padding column {index}: {token}"))?;
                continue;
            }
            let slot = usize::try_from(slot).map_err(|_| format!("slot {slot}"))?;
            check(slot >= self.block_size, || format!("slot {slot} is in the padding page"))?;
            *self.slots.get_mut(slot).ok_or(format!("slot {slot} is outside"))? =
                Some((token, position));
        }
        Ok(())
    }

    /// The slot of `position`, whose page is `page`.
    fn slot(&self, page: Option<&i32>, position: usize) -> Option<usize> {
        Some(usize::try_from(*page?).ok()? * self.block_size + position % self.block_size)
    }

    /// Copies slots of `rows` blocks from `from`.
    fn copy(&mut self, to: &[usize], from: &Paged, rows: &[usize]) {
        for (&to, &row) in to.iter().zip(rows) {
            let (to, row) = (to * self.block_size, row * self.block_size);
            let block = &from.slots[row..row + self.block_size];
            self.slots[to..to + self.block_size].copy_from_slice(block);
        }
    }

    fn zero(&mut self, pages: &[usize]) {
        for page in pages {
            self.slots[page * self.block_size..(page + 1) * self.block_size].fill(None);
        }
    }

    /// Some slot of the pages of a block table has `token`.
    fn has(&self, table: &[i32], token: i32) -> bool {
        let page = |page: &i32| {
            let start = usize::try_from(*page).unwrap_or(0) * self.block_size;
            self.slots.get(start..start + self.block_size).unwrap_or_default()
        };
        table.iter().flat_map(page).flatten().any(|&(held, _)| held == token)
    }

    /// The token of `position`, whose page is `page`.
    fn read(&self, page: Option<&i32>, position: usize) -> Option<i32> {
        let (token, written) = (*self.slots.get(self.slot(page, position)?)?)?;
        (written as usize == position).then_some(token)
    }
}

/// The pools of an instance.
#[derive(Clone, Debug)]
pub struct Device {
    full: Paged,
    windowed: Option<(WindowedPools, Paged)>,
    /// The tokens that each state slot has taken in.
    states: Vec<Vec<i32>>,
    draft_tokens: usize,
    /// A token whose keys and values are not finite.
    poison: Option<i32>,
}

impl Device {
    pub fn new(geometry: &Geometry) -> Device {
        let block_size = geometry.block_size();
        Device {
            full: Paged::new(geometry.num_blocks(), block_size),
            windowed: geometry.windowed().map(|pools| {
                let paged = Paged::new(pools.num_blocks, block_size);
                (pools, paged)
            }),
            states: vec![Vec::new(); geometry.num_state_slots().unwrap_or(0)],
            draft_tokens: geometry.draft_tokens(),
            poison: None,
        }
    }

    /// A device on which the keys and values of a token are not finite.
    pub fn poisoned_by(self, token: i32) -> Device {
        Device { poison: Some(token), ..self }
    }

    /// Host memory for as many rows, row 0 included.
    pub fn host(geometry: &Geometry, rows: Amounts) -> Device {
        let paged = |rows| Paged::new(rows, geometry.block_size());
        Device {
            full: paged(rows.pages),
            windowed: geometry.windowed().map(|pools| (pools, paged(rows.ring_pages))),
            states: vec![Vec::new(); rows.state_slots],
            draft_tokens: geometry.draft_tokens(),
            poison: None,
        }
    }

    /// Does what a scheduler asks for.
    pub fn apply(&mut self, moves: &Moves<'_>, host: &mut Device) {
        let rows = |resource| moves.rows(resource);
        let (pages, ring) = (rows(Resource::Pages), rows(Resource::RingPages));
        let (scrub, out) = (moves.kind == MoveKind::Scrub, moves.kind == MoveKind::Out);
        let paged = |device: &mut Paged, host: &mut Paged, rows: MovedRows<'_>| match moves.kind {
            MoveKind::Out => host.copy(rows.host, device, rows.device),
            MoveKind::In => device.copy(rows.device, host, rows.host),
            MoveKind::Scrub => device.zero(rows.device),
        };
        paged(&mut self.full, &mut host.full, pages);
        if let (Some((_, device)), Some((_, host))) = (&mut self.windowed, &mut host.windowed) {
            paged(device, host, ring);
        }
        let slots = rows(Resource::StateSlots);
        for (index, &slot) in slots.device.iter().enumerate() {
            if scrub {
                self.states[slot].clear();
            } else if out {
                host.states[slots.host[index]] = self.states[slot].clone();
            } else {
                self.states[slot] = host.states[slots.host[index]].clone();
            }
        }
    }

    /// Exchanges what two pages hold.
    pub fn exchange(&mut self, one: usize, other: usize) {
        for offset in 0..self.full.block_size {
            let slot = |page| page * self.full.block_size + offset;
            self.full.slots.swap(slot(one), slot(other));
        }
    }

    pub fn zero(&mut self) {
        self.full.slots.fill(None);
        if let Some((_, paged)) = &mut self.windowed {
            paged.slots.fill(None);
        }
        self.states.iter_mut().for_each(Vec::clear);
    }

    /// Runs an entry as artifact format §7.5 says a program reads its inputs: every token is
    /// written to its slot, then each live row reads its first `SEQ_LENS` positions through its
    /// block table. Each token also reads its window through the ring, and the row's recurrent
    /// state takes its tokens in; both must tell of the same tokens. The answer is what each row
    /// reads, empty for a padding row.
    pub fn execute(
        &mut self,
        shape: &EntryShape,
        packed: &Packed,
    ) -> Result<Vec<Vec<i32>>, String> {
        self.full.write(packed, &packed.slot_mapping)?;
        if let Some((_, paged)) = &mut self.windowed {
            paged.write(packed, &packed.window_slot_mapping)?;
            let dead = |slots: &[i32]| slots.iter().map(|&slot| slot == -1).collect::<Vec<_>>();
            let same = dead(&packed.slot_mapping) == dead(&packed.window_slot_mapping);
            check(same, || "the slot mappings differ in padding".into())?;
        }
        let mut slots_seen = HashSet::new();
        let mut answers = Vec::new();
        for row in 0..shape.batch {
            let answer = self.read_row(shape, packed, row)?;
            let slots = &packed.slot_mapping[row * shape.tokens..(row + 1) * shape.tokens];
            let count = slots.iter().filter(|&&slot| slot != -1).count();
            if count > 0 && !self.states.is_empty() {
                let slot = packed.state_slots[row];
                check(slots_seen.insert(slot), || format!("state slot {slot} in two rows"))?;
                let wide = row * shape.tokens..(row + 1) * shape.tokens;
                let writes = packed.state_write_slots.get(wide).unwrap_or_default();
                let before = answer.len() - count;
                let drafts = self.draft_tokens;
                let state = self.state(slot)?;
                if before == 0 {
                    state.clear();
                }
                let starts = *state == answer[..before];
                check(starts, || format!("row {row}: state {state:?} for {answer:?}"))?;
                if drafts > 0 && shape.kind == EntryKind::Decode {
                    check(count == drafts + 1, || format!("{count} tokens to verify"))?;
                    for (column, &slot) in writes.iter().enumerate() {
                        let again = || format!("state slot {slot} twice");
                        check(slots_seen.insert(slot), again)?;
                        *self.state(slot)? = answer[..before + column + 1].to_vec();
                    }
                } else {
                    state.extend(&answer[before..]);
                    let written = writes.iter().any(|&slot| slot != -1);
                    check(!written, || format!("a prompt writes states to {writes:?}"))?;
                }
                self.check_reach(shape, packed, row, answer.len())?;
            }
            answers.push(answer);
        }
        Ok(answers)
    }

    fn state(&mut self, slot: i32) -> Result<&mut Vec<i32>, String> {
        let state = usize::try_from(slot).ok().and_then(|slot| self.states.get_mut(slot));
        state.ok_or(format!("state slot {slot}"))
    }

    /// The draft head has pages for what it keeps of its own proposals (artifact format §10.4), after
    /// any number of right drafts.
    fn check_reach(
        &self,
        shape: &EntryShape,
        packed: &Packed,
        row: usize,
        length: usize,
    ) -> Result<(), String> {
        let table = &packed.block_tables[row * shape.columns..(row + 1) * shape.columns];
        for position in length..(length + self.draft_tokens).saturating_sub(1) {
            let page = table.get(position / self.full.block_size).copied().unwrap_or(0);
            check(page != 0, || format!("row {row} drafts at {position}, beyond {table:?}"))?;
        }
        Ok(())
    }

    fn read_row(
        &self,
        shape: &EntryShape,
        packed: &Packed,
        row: usize,
    ) -> Result<Vec<i32>, String> {
        let (width, columns) = (shape.tokens, shape.columns);
        let slots = &packed.slot_mapping[row * width..(row + 1) * width];
        let positions = &packed.positions[row * width..(row + 1) * width];
        let table = &packed.block_tables[row * columns..(row + 1) * columns];
        let ring = packed.window_block_tables.get(row * columns..(row + 1) * columns);
        let length = packed.seq_lens[row];
        let pad = slots.iter().take_while(|&&slot| slot == -1).count();
        check(!slots[pad..].contains(&-1), || format!("row {row} is not right-aligned"))?;
        if pad == width {
            check(length == 1, || format!("padding row {row} has length {length}"))?;
            let empty = table.iter().chain(ring.unwrap_or(&[])).all(|&page| page == 0);
            check(empty, || format!("padding row {row} has pages"))?;
            let slot = packed.state_slots.get(row).copied().unwrap_or(0);
            check(slot == 0, || format!("padding row {row} has state slot {slot}"))?;
            return Ok(Vec::new());
        }
        let first = length - (width - pad) as i32;
        let in_order = positions[pad..].iter().copied().eq(first..length);
        check(in_order, || format!("row {row} of length {length} has positions {positions:?}"))?;
        let block_size = self.full.block_size;
        let page = |position: usize| table.get(position / block_size);
        for (&slot, position) in slots[pad..].iter().zip(first as usize..) {
            let right = self.full.slot(page(position), position) == Some(slot as usize);
            check(right, || format!("row {row} writes {position} to {slot}, not by {table:?}"))?;
        }
        let read = |position| self.full.read(page(position), position);
        let answer: Option<Vec<i32>> = (0..length as usize).map(read).collect();
        let answer = answer.ok_or(format!("row {row} reads what was never written"))?;
        if let Some(poison) = self.poison.filter(|poison| !answer.contains(poison)) {
            // What is masked out is multiplied by zero, which does not help against a NaN.
            let windowed = self.windowed.as_ref().zip(ring);
            let poisoned = self.full.has(table, poison)
                || windowed.is_some_and(|((_, paged), ring)| paged.has(ring, poison));
            check(!poisoned, || format!("row {row} meets what another request left: {table:?}"))?;
        }
        if let (Some((WindowedPools { window, ring_pages, .. }, paged)), Some(ring)) =
            (&self.windowed, ring)
        {
            let page = |position: usize| ring.get(position / block_size % ring_pages);
            let slots = &packed.window_slot_mapping[row * width + pad..(row + 1) * width];
            for (&slot, position) in slots.iter().zip(first as usize..) {
                let right = paged.slot(page(position), position) == Some(slot as usize);
                check(right, || format!("row {row} writes {position} to {slot} of {ring:?}"))?;
                let visible = (position + 1).saturating_sub(*window)..position + 1;
                for (seen, expected) in visible.clone().zip(&answer[visible]) {
                    let token = paged.read(page(seen), seen);
                    let what = || format!("row {row} reads {token:?} of {seen} at {position}");
                    check(token == Some(*expected), what)?;
                }
            }
        }
        Ok(answer)
    }
}
