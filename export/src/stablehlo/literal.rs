//! Literals of `stablehlo.constant`.

use tlaloc_artifact::DType;

/// A float literal that the MLIR parser turns back into exactly `value`.
///
/// The parser reads a decimal as a double and rounds that to the element type, so the shortest
/// decimal is used where this double rounding returns the same bits, and the hexadecimal form of
/// the bits elsewhere (infinities included).
pub(super) fn float(value: f32, dtype: DType) -> String {
    let exact = match dtype {
        DType::Bf16 => half::bf16::from_f32(value).to_f32().to_bits() == value.to_bits(),
        _ => dtype == DType::F32,
    };
    assert!(exact, "{value} is not a {dtype} constant");
    let mut decimal = format!("{value:?}");
    if let Some(e) = decimal.find('e').filter(|_| !decimal.contains('.')) {
        decimal.insert_str(e, ".0");
    }
    let parsed = decimal.parse::<f64>().map(|double| double as f32);
    if value.is_finite() && parsed.is_ok_and(|parsed| parsed.to_bits() == value.to_bits()) {
        decimal
    } else if dtype == DType::Bf16 {
        format!("0x{:04X}", half::bf16::from_f32(value).to_bits())
    } else {
        format!("0x{:08X}", value.to_bits())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_have_a_point_and_infinities_are_hexadecimal() {
        assert_eq!(float(1.0, DType::F32), "1.0");
        assert_eq!(float(1e-5, DType::F32), "1.0e-5");
        assert_eq!(float(-1e30, DType::F32), "-1.0e30");
        assert_eq!(float(f32::NEG_INFINITY, DType::F32), "0xFF800000");
        assert_eq!(float(f32::NEG_INFINITY, DType::Bf16), "0xFF80");
    }

    #[test]
    fn every_literal_comes_back() {
        // Walks the whole range of finite floats in odd steps.
        for bits in (0..0x7f80_0000_u32).step_by(104_729) {
            let value = f32::from_bits(bits);
            let text = float(value, DType::F32);
            let back = match text.strip_prefix("0x") {
                Some(hex) => f32::from_bits(u32::from_str_radix(hex, 16).unwrap()),
                None => {
                    assert!(text.contains('.'), "{text} is not an MLIR float literal");
                    text.parse::<f64>().unwrap() as f32
                }
            };
            assert_eq!(back.to_bits(), bits, "{text}");
        }
    }
}
