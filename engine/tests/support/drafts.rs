//! A device's draft head: what it gives, and the step that follows from that.

use tlaloc_engine::{EntryKind, EntryShape, Geometry, StepResults};

use super::device::Packed;

/// Results of a call of a model with a draft head.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Given {
    pub next_tokens: Vec<i32>,
    pub accepted: Vec<i32>,
    pub drafts: Vec<i32>,
}

/// A token that stands for logits that are not numbers.
pub const NO_TOKEN: i32 = i32::MAX;

impl Given {
    pub fn results(&self) -> StepResults<'_> {
        let Given { next_tokens, accepted, drafts } = self;
        StepResults { next_tokens, accepted, drafts }
    }

    /// What the rows of an entry are given that have read so much.
    pub fn of(
        shape: &EntryShape,
        packed: &Packed,
        reads: &[Vec<i32>],
        geometry: &Geometry,
    ) -> Given {
        let k = geometry.draft_tokens();
        let mut given = Given::default();
        for (row, read) in reads.iter().enumerate() {
            let verify = shape.kind == EntryKind::Decode && !read.is_empty();
            let known = if verify { read.len() - k } else { read.len() };
            let mut next: Vec<i32> = (known..=read.len())
                .map(|length| token(&read[..length], geometry))
                .take(if verify { k + 1 } else { 1 })
                .collect();
            let proposed = &packed.token_ids[row * shape.tokens..(row + 1) * shape.tokens];
            let right = next.iter().zip(&proposed[1..]).take_while(|(token, draft)| token == draft);
            let accepted = if verify { right.count() } else { 0 };
            let mut ahead = [&read[..known + accepted], &[next[accepted]]].concat();
            for _ in 0..k {
                ahead.push(draft(&ahead, geometry));
            }
            given.drafts.extend(&ahead[ahead.len() - k..]);
            next.resize(k + 1, 0);
            given.next_tokens.extend(next);
            given.accepted.push(accepted as i32);
        }
        given
    }

    /// Token 1 for every row, and the same again.
    pub fn fill(&mut self, batch: usize, k: usize) {
        for (values, count, value) in [
            (&mut self.next_tokens, batch * (k + 1), 1),
            (&mut self.accepted, batch, 0),
            (&mut self.drafts, batch * k, 1),
        ] {
            values.clear();
            values.resize(count, value);
        }
    }

    /// Tokens that a row is given, and drafts after them; none if there is no token.
    pub fn row(&self, row: usize, k: usize) -> Option<(&[i32], &[i32])> {
        let next = &self.next_tokens[row * (k + 1)..][..=self.accepted[row] as usize];
        (!next.contains(&NO_TOKEN)).then_some((next, &self.drafts[row * k..][..k]))
    }
}

fn mixed(tokens: &[i32]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for &token in tokens {
        hash = (hash ^ token as u64).wrapping_mul(0x0100_0000_01b3);
        hash ^= hash >> 29;
    }
    hash
}

/// The model's token after others.
fn token(tokens: &[i32], geometry: &Geometry) -> i32 {
    // The smallest tokens may be ones that are refused.
    100 + (mixed(tokens) % (geometry.vocab_size() as u64 - 100)) as i32
}

/// The head's guess of that token, which is right more often than not.
fn draft(tokens: &[i32], geometry: &Geometry) -> i32 {
    let guess = token(tokens, geometry);
    if mixed(tokens) >> 40 & 7 < 5 { guess } else { 100 + guess % 50 }
}

impl Packed {
    /// The inputs of the verify step after one that gave these results (artifact format §10.5).
    pub fn next(&self, shape: &EntryShape, given: &Given, geometry: &Geometry) -> Packed {
        let (t, k) = (shape.tokens, geometry.draft_tokens());
        let block_size = geometry.block_size();
        let mut next = self.clone();
        for row in 0..shape.batch {
            let wide = row * t..(row + 1) * t;
            if self.slot_mapping[row * t + t - 1] < 0 {
                continue;
            }
            let accepted = given.accepted[row] as usize;
            let first = self.positions[row * t] + accepted as i32 + 1;
            let table = &self.block_tables[row * shape.columns..(row + 1) * shape.columns];
            for (column, at) in wide.clone().enumerate() {
                let position = first as usize + column;
                let page = table[(position / block_size).min(shape.columns - 1)];
                next.positions[at] = position as i32;
                next.slot_mapping[at] = page * block_size as i32 + (position % block_size) as i32;
                next.token_ids[at] = match column {
                    0 => given.next_tokens[row * (k + 1) + accepted],
                    _ => given.drafts[row * k + column - 1],
                };
            }
            next.seq_lens[row] = first + t as i32;
            let writes = &mut next.state_write_slots[wide];
            std::mem::swap(&mut writes[accepted], &mut next.state_slots[row]);
        }
        next
    }

    /// The same but for block tables, which may list more pages.
    pub fn agrees(&self, other: &Packed) -> bool {
        let tables = other.block_tables.clone();
        Packed { block_tables: tables, ..self.clone() } == *other
    }
}
