//! Which experts each token goes through, and with which weight.

use tlaloc_artifact::DType;

use crate::lower::forms::Orientation;
use crate::lower::{Context, attention, projection};
use crate::spec::MoeSpec;
use crate::stablehlo::{Binary, Compare, Function, Reduce, Value};

/// Each token's experts, the most probable first.
pub(super) struct Chosen {
    /// Their numbers, i32 `[tokens, experts_per_token]`.
    pub(super) experts: Value,
    /// Their weights, `[tokens, experts_per_token]`.
    pub(super) weights: Value,
}

/// The experts that `router` (`[experts, hidden]`) chooses for the tokens of `h`; of equally probable
/// ones the first.
///
/// One expert after the other is found and crossed out: a sort of 512 tokens' 128 probabilities takes
/// five times as long, and ranks by comparison of all pairs longer still.
pub(super) fn choose(
    f: &mut Function,
    cx: &Context,
    moe: &MoeSpec,
    h: &Value,
    router: &Value,
) -> Chosen {
    let MoeSpec { experts, experts_per_token, .. } = *moe;
    let tokens = cx.tokens();
    let scores = projection::exact(f, cx, h, router);
    let scores = match cx.orientation {
        Orientation::FeatureMajor => {
            // Keeps the transpose out of the product.
            let [scores] = f.barrier([&scores]);
            f.transpose(&scores, &[1, 0])
        }
        Orientation::RowMajor => scores,
    };
    let unnormalised = attention::weights(f, &scores);

    let numbers = f.int(0, &[tokens, experts_per_token]);
    let weights = f.float(0.0, DType::F32, &[tokens, experts_per_token]);
    let times = f.int(experts_per_token as i32, &[]);
    let state = [&unnormalised, &numbers, &weights];
    let [_, numbers, weights] =
        f.repeat(&times, state, &[], |f, place, [left, numbers, weights], _| {
            let largest = f.reduce(Reduce::Maximum, &left, 1);
            let all = f.broadcast(&largest, left.dims(), &[0]);
            let is_largest = f.compare(Compare::Eq, &left, &all);
            let number = f.iota(left.dims(), 1);
            let beyond = f.int(experts as i32, left.dims());
            let candidates = f.select(&is_largest, &number, &beyond);
            let first = f.reduce(Reduce::Minimum, &candidates, 1);
            let all = f.broadcast(&first, left.dims(), &[0]);
            let is_first = f.compare(Compare::Eq, &number, &all);
            // Below every weight, which are not negative.
            let crossed_out = f.float(-1.0, DType::F32, left.dims());
            let left = f.select(&is_first, &crossed_out, &left);
            let column = [tokens, 1];
            let (first, largest) = (f.reshape(&first, &column), f.reshape(&largest, &column));
            [
                left,
                f.dynamic_update_slice(&numbers, &first, &[(1, place)]),
                f.dynamic_update_slice(&weights, &largest, &[(1, place)]),
            ]
        });

    // Softmax over all experts; where the chosen ones' weights are to sum to one, that divides out.
    let counted = if moe.normalise { &weights } else { &unnormalised };
    let sum = f.reduce(Reduce::Add, counted, 1);
    let sum = f.broadcast(&sum, weights.dims(), &[0]);
    Chosen { experts: numbers, weights: f.binary(Binary::Divide, &weights, &sum) }
}
