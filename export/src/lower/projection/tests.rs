//! Products with codes, run on the plugin.

#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

use tlaloc_artifact::EntryKind;
use tlaloc_pjrt::ElementType;

use super::*;
use crate::plan::{Bucket, PoolShape};
use crate::quantise::fp8_value;
use crate::slots::WeightDType;
use crate::stablehlo::Module;
use crate::support::{Array, client, run};

/// Products of `features` inputs and `outputs` outputs for `tokens` tokens, with `codes` (bytes of
/// `dtype`, `[outputs, features]`) and `scales`: `[outputs, tokens]`.
struct Case {
    weights: WeightDType,
    layout: WeightLayout,
    dtype: DType,
    codes: Vec<u8>,
    scales: Vec<f32>,
}

impl Case {
    fn product(&self, activations: &[f32], tokens: usize) -> Option<Vec<f32>> {
        let client = client()?;
        let (features, outputs) = (activations.len() / tokens, self.scales.len());
        let cx = Context {
            bucket: Bucket {
                kind: EntryKind::Decode,
                batch: tokens,
                context: 16,
                tokens: 1,
                verify: false,
            },
            pools: PoolShape {
                num_blocks: 2,
                block_size: 16,
                windowed: None,
                kv_dtype: DType::F32,
                state_slots: 1,
            },
            weight_dtype: self.weights.dtype(),
            layout: self.layout,
            orientation: Orientation::choose(self.weights.dtype(), self.layout, tokens),
            product: Product::choose(self.weights.dtype(), self.layout, tokens),
            norm_eps: 0.0,
            widest_at_once: usize::MAX,
        };
        let (codes, dims) = match self.layout {
            WeightLayout::OutIn => (self.codes.clone(), [outputs, features]),
            WeightLayout::InOut => {
                (transposed(&self.codes, outputs, features), [features, outputs])
            }
        };
        let by_feature = cx.orientation == Orientation::FeatureMajor;
        let h = if by_feature {
            transposed(activations, tokens, features)
        } else {
            activations.to_vec()
        };

        let mut f = Function::new("main");
        let x = f.parameter("x", DType::F32, &cx.orientation.dims(features, tokens));
        let matrix = f.parameter("codes", self.dtype, &dims);
        let scale = f.parameter("scales", DType::F32, &[outputs]);
        let projection = Projection { matrix: &matrix, scale: Some(&scale) };
        let out = project(&mut f, &cx, &x, projection);
        f.returns(vec![out]);
        let executable = client.compile(&Module { main: f, private: Vec::new() }.text()).unwrap();
        let element_type = match self.dtype {
            DType::I8 => ElementType::I8,
            _ => ElementType::F8E4M3Fn,
        };
        let arguments = [
            Array::f32(&cx.orientation.dims(features, tokens), &h),
            Array::new(element_type, &dims, codes),
            Array::f32(&[outputs], &self.scales),
        ];
        let out = run(&executable, &arguments).remove(0).f32s();
        Some(if by_feature { out } else { transposed(&out, tokens, outputs) })
    }
}

fn transposed<T: Copy>(matrix: &[T], rows: usize, columns: usize) -> Vec<T> {
    (0..columns).flat_map(|c| (0..rows).map(move |r| matrix[r * columns + c])).collect()
}

/// Every combination of weight dtype and layout.
fn forms() -> impl Iterator<Item = (WeightDType, WeightLayout)> {
    [WeightDType::F32, WeightDType::Bf16]
        .into_iter()
        .flat_map(|dtype| [WeightLayout::OutIn, WeightLayout::InOut].map(|layout| (dtype, layout)))
}

/// Token `t` has feature `t` alone, so each product is one code times its output's scale, exactly.
#[test]
fn every_code_is_multiplied_by_its_output_s_scale() {
    const FEATURES: usize = 4;
    let one_hot: Vec<f32> =
        (0..FEATURES * FEATURES).map(|i| f32::from(i % (FEATURES + 1) == 0)).collect();
    let int8: Vec<u8> = (0..=255).filter(|&code| code != 0x80).chain([0]).collect();
    let fp8_codes: Vec<u8> =
        (0..=255).map(|code| if code & 0x7f == 0x7f { 0 } else { code }).collect();
    // An all-zero row has scale 1; the others' are powers of two, with nothing to round.
    let scales: Vec<f32> = (0..64).map(|output| 2.0_f32.powi(output % 9 - 4)).collect();
    for (weights, layout) in forms() {
        for (dtype, codes) in [(DType::I8, &int8), (DType::F8E4M3Fn, &fp8_codes)] {
            let case =
                Case { weights, layout, dtype, codes: codes.clone(), scales: scales.clone() };
            let Some(out) = case.product(&one_hot, FEATURES) else { return };
            let expected: Vec<f32> = codes
                .iter()
                .enumerate()
                .map(|(i, &code)| {
                    let value = match dtype {
                        DType::I8 => f32::from(code.cast_signed()),
                        _ => fp8_value(code),
                    };
                    value * scales[i / FEATURES]
                })
                .collect();
            assert_eq!(out, expected, "{weights:?} {layout:?} {dtype}");
        }
    }
}

/// Sums over many features, for one token and for several: the form is chosen by their number.
#[test]
fn sums_are_those_of_exact_arithmetic() {
    const FEATURES: usize = 96;
    const OUTPUTS: usize = 40;
    let codes: Vec<u8> = (0..OUTPUTS * FEATURES).map(|i| (i * 37 % 251) as u8).collect();
    let codes: Vec<u8> =
        codes.into_iter().map(|code| if code & 0x7f == 0x7f { 1 } else { code }).collect();
    let scales: Vec<f32> = (0..OUTPUTS).map(|output| 0.01 + output as f32 * 0.003).collect();
    for tokens in [1, 2, 33] {
        // Eighths below 8: bf16 holds them.
        let x: Vec<f32> =
            (0..tokens * FEATURES).map(|i| (i * 29 % 121) as f32 / 8.0 - 7.5).collect();
        for (weights, layout) in forms() {
            for dtype in [DType::I8, DType::F8E4M3Fn] {
                let (codes, scales) = (codes.clone(), scales.clone());
                let case = Case { weights, layout, dtype, codes, scales };
                let Some(out) = case.product(&x, tokens) else { return };
                let value = |code: u8| match dtype {
                    DType::I8 => f64::from(code.cast_signed()),
                    _ => f64::from(fp8_value(code)),
                };
                for (i, actual) in out.into_iter().enumerate() {
                    let (output, token) = (i / tokens, i % tokens);
                    let terms = case.codes[output * FEATURES..][..FEATURES]
                        .iter()
                        .zip(&x[token * FEATURES..])
                        .map(|(&code, &x)| value(code) * f64::from(x));
                    let scale = f64::from(case.scales[output]);
                    let (sum, magnitude) =
                        terms.fold((0.0, 0.0), |(sum, all), term| (sum + term, all + term.abs()));
                    let error = (f64::from(actual) - sum * scale).abs();
                    assert!(
                        error <= 1e-6 * magnitude * scale,
                        "{weights:?} {layout:?} {dtype}, {tokens} tokens: {actual}, not {}",
                        sum * scale
                    );
                }
            }
        }
    }
}
