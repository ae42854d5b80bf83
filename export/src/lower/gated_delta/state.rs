//! A row's slot in a state pool.

use tlaloc_artifact::DType;

use super::Shared;
use crate::stablehlo::{Compare, Function, Value};

/// What a loop over rows must be given to find each row's slot, in the order of [`Slot::of`].
pub(super) fn slots(shared: &Shared) -> [&Value; 3] {
    [&shared.slots, &shared.fresh, &shared.rows.padding]
}

/// One row's slot.
pub(super) struct Slot {
    /// Its number, an i32 scalar.
    number: Value,
    /// Whether what it holds is not the row's.
    fresh: Value,
    /// Padding columns before the row's tokens, an i32 scalar.
    pub(super) padding: Value,
}

impl Slot {
    /// The slot of row `row` (an i32 scalar), out of [`slots`].
    pub(super) fn of(f: &mut Function, row: &Value, values: &[Value]) -> Slot {
        Slot {
            number: f.element(&values[0], row),
            fresh: f.element(&values[1], row),
            padding: f.element(&values[2], row),
        }
    }

    /// What the pool holds and what the row starts from, which is zero in a fresh row; both
    /// `[1, ..]`.
    pub(super) fn read(&self, f: &mut Function, pool: &Value) -> (Value, Value) {
        let held = f.dynamic_slice(pool, 0, &self.number, 1);
        let zero = f.float(0.0, DType::F32, held.dims());
        let start = f.choose(&self.fresh, &zero, &held);
        (held, start)
    }

    /// The pool with `state`, or still with `held` if the row has none of `columns` tokens.
    pub(super) fn write(
        &self,
        f: &mut Function,
        pool: &Value,
        held: &Value,
        state: &Value,
        columns: usize,
    ) -> Value {
        let columns = f.int(columns as i32, &[]);
        let live = f.compare(Compare::Lt, &self.padding, &columns);
        let state = f.choose(&live, state, held);
        f.dynamic_update_slice(pool, &state, &[(0, &self.number)])
    }
}
