//! Operations that put elements where data says.

use super::{Function, Value, names, types};

impl Function {
    /// `a` with `update` written from the index on that `starts` gives, 0 in dimensions that it does
    /// not name: `(dimension, i32 scalar)` each. A start beyond the last possible one is taken as
    /// that.
    pub fn dynamic_update_slice(
        &mut self,
        a: &Value,
        update: &Value,
        starts: &[(usize, &Value)],
    ) -> Value {
        assert!(
            a.dtype == update.dtype
                && a.dims.len() == update.dims.len()
                && a.dims.iter().zip(&update.dims).all(|(whole, part)| part <= whole),
            "update of {:?} with {:?}",
            a.dims,
            update.dims
        );
        let zero = self.int(0, &[]);
        let starts: Vec<_> = (0..a.dims.len())
            .map(|dim| {
                let start = starts.iter().find(|(named, _)| *named == dim);
                start.map_or_else(|| zero.clone(), |(_, start)| (*start).clone())
            })
            .collect();
        let text = format!(
            "stablehlo.dynamic_update_slice {}, {}, {} : ({}, {}, {}) -> {}",
            a.name,
            update.name,
            names(&starts),
            a.ty(),
            update.ty(),
            types(&starts),
            a.ty()
        );
        self.push(a.dtype, a.dims.clone(), text)
    }

    /// Two i32 vectors reordered alike, so that `keys` ascend; equal keys keep their order.
    pub fn sort_pairs(&mut self, keys: &Value, values: &Value) -> (Value, Value) {
        assert!(keys.ty() == values.ty() && keys.dims.len() == 1, "sort of {:?}", keys.dims);
        let base = self.fresh();
        let id = self.next;
        let scalar = "tensor<i32>";
        self.body.push(format!(
            "{base}:2 = \"stablehlo.sort\"({}, {}) <{{dimension = 0 : i64, is_stable = true}}> ({{\n    \
             ^bb0(%a{id}: {scalar}, %b{id}: {scalar}, %c{id}: {scalar}, %d{id}: {scalar}):\n      \
             %less{id} = stablehlo.compare LT, %a{id}, %b{id}, SIGNED : ({scalar}, {scalar}) -> tensor<i1>\n      \
             stablehlo.return %less{id} : tensor<i1>\n    }}) : ({}, {}) -> ({}, {})",
            keys.name,
            values.name,
            keys.ty(),
            values.ty(),
            keys.ty(),
            values.ty()
        ));
        let result =
            |i: usize, like: &Value| Value { name: format!("{base}#{i}").into(), ..like.clone() };
        (result(0, keys), result(1, values))
    }

    /// Element `index` (i32 scalar) of a vector, a scalar.
    pub fn element(&mut self, vector: &Value, index: &Value) -> Value {
        let element = self.dynamic_slice(vector, 0, index, 1);
        self.reshape(&element, &[])
    }

    /// `a` where the scalar `condition` holds, else `b`.
    pub fn choose(&mut self, condition: &Value, a: &Value, b: &Value) -> Value {
        let condition = self.broadcast(condition, &a.dims, &[]);
        self.select(&condition, a, b)
    }
}
