//! Where the keys and values that a row's tokens may see lie, and what positions they have.

use tlaloc_artifact::PoolRole;

use super::Context;
use crate::pools;
use crate::spec::AttentionSpec;
use crate::stablehlo::{Binary, Compare, Function, Value};

/// Position of a slot that holds nothing for its row: beyond every token's.
const NOTHING: i32 = i32::MAX;

/// What attention reads of a pool.
#[derive(Clone)]
pub(super) struct History {
    /// Pool slots of each row, i32 `[B, S]`.
    pub(super) slots: Value,
    /// The position that each slot holds, i32 `[B, S]`; beyond the row's last token where the slot
    /// holds nothing of the row.
    pub(super) positions: Value,
}

impl History {
    /// The history that the tokens of this call, at `positions` (i32 `[B, T]`), see in a layer of
    /// `attention`; `tables` are the block tables of its class of pools (i32 `[B, M]`).
    pub(super) fn build(
        f: &mut Function,
        cx: &Context,
        attention: &AttentionSpec,
        tables: &Value,
        positions: &Value,
    ) -> History {
        let ring_pages = match (pools::class(attention, cx.pools), cx.pools.windowed) {
            (PoolRole::WindowKv, Some(windowed)) => Some(windowed.ring_pages),
            _ => None,
        };
        let columns = tables.dims()[1];
        let pages = window_pages(cx, attention).min(ring_pages.unwrap_or(columns));
        match ring_pages {
            None if pages >= columns => whole(f, cx, tables),
            _ => tail(f, cx, tables, positions, ring_pages, pages.min(columns)),
        }
    }

    /// The history with slots that hold nothing added to a multiple of `multiple`.
    pub(super) fn padded(&self, f: &mut Function, multiple: usize) -> History {
        let (batch, width) = (self.slots.dims()[0], self.width());
        let missing = width.next_multiple_of(multiple) - width;
        if missing == 0 {
            return self.clone();
        }
        let mut pad = |value: &Value, with| {
            let padding = f.int(with, &[batch, missing]);
            f.concatenate(&[value.clone(), padding], 1)
        };
        History { slots: pad(&self.slots, 0), positions: pad(&self.positions, NOTHING) }
    }

    /// Slots of a row.
    pub(super) fn width(&self) -> usize {
        self.slots.dims()[1]
    }
}

/// Pages that hold all that the tokens of one call see: as many positions as there are token columns
/// and, before the first of them, the rest of its window.
fn window_pages(cx: &Context, attention: &AttentionSpec) -> usize {
    let Some(window) = attention.window else { return usize::MAX };
    let positions = window.saturating_add(cx.bucket.tokens - 1);
    (positions - 1).div_ceil(cx.pools.block_size).saturating_add(1)
}

/// Everything that the block tables list, from position 0 on.
fn whole(f: &mut Function, cx: &Context, tables: &Value) -> History {
    let block_size = cx.pools.block_size;
    let (batch, columns) = (tables.dims()[0], tables.dims()[1]);
    let positions = f.iota(&[batch, columns * block_size], 1);
    History { slots: slots(f, tables, block_size), positions }
}

/// The last `pages` pages that a row has written, in order. In a ring, a page's place in the table
/// is its number modulo `ring_pages`, and the unwritten end of the last page still holds what came a
/// whole ring before.
fn tail(
    f: &mut Function,
    cx: &Context,
    tables: &Value,
    positions: &Value,
    ring_pages: Option<usize>,
    pages: usize,
) -> History {
    let block_size = cx.pools.block_size;
    let (batch, columns) = (tables.dims()[0], tables.dims()[1]);
    // Rows are right-aligned: the last column is the last token.
    let last = f.slice(positions, 1, cx.bucket.tokens - 1, 1);
    let last = f.reshape(&last, &[batch]);
    let last_page = f.with_int(Binary::Divide, &last, block_size as i32);

    let dims = [batch, pages];
    let from_first = f.iota(&dims, 1);
    let last_page = f.broadcast(&last_page, &dims, &[0]);
    let page = f.add(&last_page, &from_first);
    // Negative before the sequence's first page.
    let page = f.with_int(Binary::Subtract, &page, pages as i32 - 1);

    let zero = f.int(0, &dims);
    let column = f.binary(Binary::Maximum, &page, &zero);
    let column = match ring_pages {
        Some(ring) => f.with_int(Binary::Remainder, &column, ring as i32),
        None => column,
    };
    let row = f.iota(&dims, 0);
    let row = f.with_int(Binary::Multiply, &row, columns as i32);
    let place = f.add(&row, &column);
    let place = f.reshape(&place, &[batch * pages]);
    let entries = f.reshape(tables, &[batch * columns, 1]);
    let listed = f.gather_rows(&entries, &place);
    let listed = f.reshape(&listed, &dims);

    let dims = [batch, pages * block_size];
    let first = f.with_int(Binary::Multiply, &page, block_size as i32);
    let held = with_offsets(f, &first, block_size);
    let held = match ring_pages {
        Some(ring) => {
            let last = f.broadcast(&last, &dims, &[0]);
            let written = f.compare(Compare::Le, &held, &last);
            let a_ring_before = f.with_int(Binary::Subtract, &held, (ring * block_size) as i32);
            f.select(&written, &held, &a_ring_before)
        }
        None => held,
    };
    let zero = f.int(0, &dims);
    let exists = f.compare(Compare::Le, &zero, &held);
    let nothing = f.int(NOTHING, &dims);
    let positions = f.select(&exists, &held, &nothing);
    History { slots: slots(f, &listed, block_size), positions }
}

/// The slots of `pages` (`[B, n]`): `[B, n * block_size]`.
fn slots(f: &mut Function, pages: &Value, block_size: usize) -> Value {
    let first = f.with_int(Binary::Multiply, pages, block_size as i32);
    with_offsets(f, &first, block_size)
}

/// `first` (`[B, n]`) and the `block_size - 1` numbers after each: `[B, n * block_size]`.
fn with_offsets(f: &mut Function, first: &Value, block_size: usize) -> Value {
    let (batch, pages) = (first.dims()[0], first.dims()[1]);
    let dims = [batch, pages, block_size];
    let first = f.broadcast(first, &dims, &[0, 1]);
    let offset = f.iota(&dims, 2);
    let numbers = f.add(&first, &offset);
    f.reshape(&numbers, &[batch, pages * block_size])
}
