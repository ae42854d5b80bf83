//! A row's slot in a state pool.

use tlaloc_artifact::DType;

use super::Shared;
use crate::stablehlo::{Binary, Compare, Function, Value};

/// What a loop over rows must be given to find each row's slot, in the order of [`Slot::of`].
pub(super) fn slots(shared: &Shared) -> Vec<&Value> {
    let fixed = [&shared.slots, &shared.fresh, &shared.rows.padding];
    fixed.into_iter().chain(&shared.writes).collect()
}

/// One row's slot.
pub(super) struct Slot {
    /// Its number, an i32 scalar.
    number: Value,
    /// Whether what it holds is not the row's.
    fresh: Value,
    /// Padding columns before the row's tokens, an i32 scalar.
    pub(super) padding: Value,
    /// Numbers of the slots for the states after each token, i32 `[T]`, in a verify step.
    writes: Option<Value>,
}

impl Slot {
    /// The slot of row `row` (an i32 scalar) of `rows`, out of [`slots`].
    pub(super) fn of(f: &mut Function, row: &Value, rows: usize, values: &[Value]) -> Slot {
        let writes = values.get(3).map(|writes| {
            let columns = writes.dims()[0] / rows;
            let first = f.with_int(Binary::Multiply, row, columns as i32);
            f.dynamic_slice(writes, 0, &first, columns)
        });
        Slot {
            number: f.element(&values[0], row),
            fresh: f.element(&values[1], row),
            padding: f.element(&values[2], row),
            writes,
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

    /// The pool with the last of `states`, which are those after each of the row's tokens, in the
    /// row's slot; in a verify step with each of them in its own. A row that has none of `columns`
    /// tokens leaves what it `held`.
    pub(super) fn write(
        &self,
        f: &mut Function,
        pool: &Value,
        held: &Value,
        states: &[Value],
        columns: usize,
    ) -> Value {
        let columns = f.int(columns as i32, &[]);
        let live = f.compare(Compare::Lt, &self.padding, &columns);
        let Some(writes) = &self.writes else {
            let state = states.last().map_or_else(|| held.clone(), |s| f.choose(&live, s, held));
            return f.dynamic_update_slice(pool, &state, &[(0, &self.number)]);
        };
        let mut pool = pool.clone();
        for (column, state) in states.iter().enumerate() {
            let number = f.slice(writes, 0, column, 1);
            let number = f.reshape(&number, &[]);
            let number = f.select(&live, &number, &self.number);
            let state = f.choose(&live, state, held);
            pool = f.dynamic_update_slice(&pool, &state, &[(0, &number)]);
        }
        pool
    }

    /// Whether the state after every token is written.
    pub(super) fn keeps_each(&self) -> bool {
        self.writes.is_some()
    }
}
