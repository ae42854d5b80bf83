//! 8-bit weights: a code per element and a factor per output channel (artifact format §12).
//!
//! A row of a projection (one output channel) becomes codes `w / scale`, with `scale` such that the
//! row's largest magnitude has the largest code. Programs compute `(x · codes) * scale`.

use float8::F8E4M3;
use tlaloc_artifact::DType;

/// Format of a quantised projection's codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum WeightQuant {
    /// Integers of -127 to 127.
    Int8,
    /// 8-bit floats (`e4m3fn`) of -448 to 448.
    Fp8,
}

impl WeightQuant {
    /// The name in options and model hashes.
    pub fn name(self) -> &'static str {
        match self {
            WeightQuant::Int8 => "int8",
            WeightQuant::Fp8 => "fp8",
        }
    }

    /// Element type of the codes.
    pub fn dtype(self) -> DType {
        match self {
            WeightQuant::Int8 => DType::I8,
            WeightQuant::Fp8 => DType::F8E4M3Fn,
        }
    }

    /// The largest code.
    fn most(self) -> f32 {
        match self {
            WeightQuant::Int8 => 127.0,
            WeightQuant::Fp8 => 448.0,
        }
    }

    /// The scale of a row: its largest magnitude `/ 127`, or `/ 448`. It is 1 for a row of zeros, and
    /// for one so small that the quotient is no positive f32. None for a row that holds an infinity
    /// or no number at all.
    pub fn scale(self, row: &[f32]) -> Option<f32> {
        let finite = row.iter().all(|value| value.is_finite());
        let largest = row.iter().fold(0.0, |largest: f32, value| largest.max(value.abs()));
        let scale = largest / self.most();
        finite.then_some(if scale > 0.0 { scale } else { 1.0 })
    }

    /// The code of `value` in a row of `scale`, as the byte stored: `value / scale` rounded to the
    /// nearest code, to the even one between two, and no further out than the largest.
    pub fn code(self, value: f32, scale: f32) -> u8 {
        let quotient = value / scale;
        match self {
            WeightQuant::Int8 => {
                (quotient.round_ties_even().clamp(-127.0, 127.0) as i8).cast_unsigned()
            }
            WeightQuant::Fp8 => F8E4M3::from_f32(quotient).to_bits(),
        }
    }
}

/// The value of an e4m3fn code by the format's definition: bias 7, three bits of mantissa,
/// subnormals in steps of 2^-9, no infinities.
#[cfg(test)]
pub(crate) fn fp8_value(code: u8) -> f32 {
    let (exponent, mantissa) = (i32::from(code >> 3 & 15), f32::from(code & 7));
    let magnitude = match exponent {
        0 => mantissa * 2.0_f32.powi(-9),
        _ => (1.0 + mantissa / 8.0) * 2.0_f32.powi(exponent - 7),
    };
    if code & 0x80 == 0 { magnitude } else { -magnitude }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

    use super::WeightQuant::{Fp8, Int8};
    use super::*;

    fn codes(quant: WeightQuant, row: &[f32]) -> (f32, Vec<u8>) {
        let scale = quant.scale(row).unwrap();
        (scale, row.iter().map(|&value| quant.code(value, scale)).collect())
    }

    fn int8(row: &[f32]) -> (f32, Vec<i8>) {
        let (scale, codes) = codes(Int8, row);
        (scale, codes.into_iter().map(u8::cast_signed).collect())
    }

    #[test]
    fn int8_ties_go_to_the_even_code() {
        let row = [127.0, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 3.25, -3.75];
        assert_eq!(int8(&row), (1.0, vec![127, 0, 2, 2, 0, -2, -2, 3, -4]));
        // The same an octave down: every quotient is exact.
        let half = row.map(|value| value / 2.0);
        assert_eq!(int8(&half), (0.5, vec![127, 0, 2, 2, 0, -2, -2, 3, -4]));
    }

    #[test]
    fn the_largest_magnitude_counts_whatever_its_sign() {
        assert_eq!(int8(&[-254.0, -2.0, -1.0, -3.0]), (2.0, vec![-127, -1, 0, -2]));
        assert_eq!(codes(Fp8, &[-896.0, -2.0]), (2.0, vec![0xfe, 0xb8]));
    }

    #[test]
    fn rows_of_zeros_have_scale_one() {
        assert_eq!(int8(&[0.0, -0.0]), (1.0, vec![0, 0]));
        assert_eq!(codes(Fp8, &[0.0, 0.0]), (1.0, vec![0, 0]));
        // The smallest f32 divided by 127 is zero.
        let tiny = f32::from_bits(1);
        assert_eq!(int8(&[tiny, -tiny]), (1.0, vec![0, 0]));
    }

    #[test]
    fn rows_that_are_not_finite_have_no_scale() {
        for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            for quant in [Int8, Fp8] {
                assert_eq!(quant.scale(&[1.0, value, 2.0]), None, "{value}");
            }
        }
        assert_eq!(Int8.scale(&[f32::MAX, 0.0]), Some(f32::MAX / 127.0));
    }

    /// The largest element of a row has the largest code, although quotient and product are rounded.
    #[test]
    fn the_largest_code_is_used_and_never_passed() {
        for step in 1..20_000_u16 {
            let largest = f32::from(step) * 0.000_37;
            assert_eq!(int8(&[largest, -largest]).1, [127, -127], "{largest}");
            assert_eq!(codes(Fp8, &[largest, -largest]).1, [0x7e, 0xfe], "{largest}");
        }
    }

    #[test]
    fn fp8_codes_are_the_nearest_ones() {
        let code = |value| Fp8.code(value, 1.0);
        // Codes 0 to 126 ascend; 127 is no number.
        for low in 0..=125_u8 {
            let (below, above) = (fp8_value(low), fp8_value(low + 1));
            let middle = (below + above) / 2.0;
            let even = low + (low & 1);
            assert_eq!(code(below), low, "{below}");
            assert_eq!(code(middle), even, "{middle} is a tie");
            assert_eq!(code(middle.next_down()), low, "{middle}");
            assert_eq!(code(middle.next_up()), low + 1, "{middle}");
            assert_eq!(code(-middle), even | 0x80, "-{middle}");
        }
        assert_eq!(fp8_value(126), 448.0);
        for beyond in [448.0, 460.0, 464.0, 465.0, 1e9, f32::MAX] {
            assert_eq!((code(beyond), code(-beyond)), (0x7e, 0xfe), "{beyond}");
        }
    }

    /// One subnormal code is 2^-9; half of it is the tie with zero.
    #[test]
    fn fp8_subnormals() {
        let code = |value| Fp8.code(value, 1.0);
        let least = 2.0_f32.powi(-9);
        assert_eq!([code(least), code(3.0 * least), code(7.0 * least)], [1, 3, 7]);
        assert_eq!([code(least / 2.0), code(-least / 2.0), code(least * 0.51)], [0, 0x80, 1]);
        assert_eq!([code(1.5 * least), code(2.5 * least), code(7.5 * least)], [2, 2, 8]);
    }
}
