//! Rotary frequencies from a config, in both of its layouts.
//!
//! Since transformers 5: `rope_parameters` with `rope_type`, `rope_theta` and the type's own keys.
//! Before: `rope_theta` at the top level, and `rope_scaling` (null, or an object with `rope_type` or
//! `type` and the type's own keys).

use std::f64::consts::TAU;

use crate::Error;
use crate::checkpoint::{Config, Keys};

const DEFAULT_THETA: f64 = 10_000.0;

/// Radians per position of each of the `head_dim / 2` rotated pairs.
///
/// # Errors
/// When the rope type is unknown, or one of its keys is missing, unknown or out of range.
pub(super) fn frequencies(config: &mut Config, head_dim: usize) -> Result<Vec<f32>, Error> {
    let top_theta = config.positive("rope_theta")?;
    let (new, old) = (config.object("rope_parameters")?, config.object("rope_scaling")?);
    let mut keys = match (new, old) {
        (Some(_), Some(_)) => {
            return Err(config.refuse("rope_scaling", "is there beside rope_parameters"));
        }
        (Some(keys), None) | (None, Some(keys)) => keys,
        (None, None) => {
            return Ok(plain(top_theta.unwrap_or(DEFAULT_THETA), head_dim).collect_f32());
        }
    };
    let theta = keys.positive("rope_theta")?;
    if let (Some(inner), Some(top)) = (theta, top_theta)
        && inner != top
    {
        return Err(keys.refuse("rope_theta", format!("is {inner}, but {top} at the top level")));
    }
    let theta = theta.or(top_theta).unwrap_or(DEFAULT_THETA);
    keys.only("partial_rotary_factor", 1)?;

    let plain = plain(theta, head_dim);
    let frequencies = match rope_type(&mut keys)?.as_str() {
        "default" => plain,
        "linear" => {
            let factor = required(&mut keys, "factor")?;
            Frequencies(plain.0.into_iter().map(|f| f / factor).collect())
        }
        "llama3" => llama3(&mut keys, plain)?,
        other => {
            let known = "default, linear and llama3 are supported";
            return Err(keys.refuse("rope_type", format!("is '{other}'; {known}")));
        }
    };
    keys.finish()?;
    Ok(frequencies.collect_f32())
}

/// The rope type, which some configs state under its old key or under both.
fn rope_type(keys: &mut Keys) -> Result<String, Error> {
    let (new, old) = (keys.text("rope_type")?, keys.text("type")?);
    match (new, old) {
        (Some(new), Some(old)) if new != old => {
            Err(keys.refuse("type", format!("is '{old}', but rope_type is '{new}'")))
        }
        (Some(found), _) | (None, Some(found)) => Ok(found),
        (None, None) => Ok("default".to_owned()),
    }
}

fn required(keys: &mut Keys, key: &str) -> Result<f64, Error> {
    let value = keys.positive(key)?;
    keys.require(key, value)
}

struct Frequencies(Vec<f64>);

impl Frequencies {
    fn collect_f32(self) -> Vec<f32> {
        self.0.into_iter().map(|f| f as f32).collect()
    }
}

/// `theta^(-2i / head_dim)`.
fn plain(theta: f64, head_dim: usize) -> Frequencies {
    let exponent = |i: usize| -2.0 * i as f64 / head_dim as f64;
    Frequencies((0..head_dim / 2).map(|i| theta.powf(exponent(i))).collect())
}

/// Llama 3: frequencies whose wavelength exceeds the original context are divided by `factor`, short
/// ones kept, those between interpolated.
fn llama3(keys: &mut Keys, plain: Frequencies) -> Result<Frequencies, Error> {
    let factor = required(keys, "factor")?;
    let low = required(keys, "low_freq_factor")?;
    let high = required(keys, "high_freq_factor")?;
    let context = required(keys, "original_max_position_embeddings")?;
    if high <= low {
        return Err(keys.refuse(
            "high_freq_factor",
            format!("is {high}, which is not above low_freq_factor {low}"),
        ));
    }
    let scale = |f: f64| {
        let turns = context * f / TAU;
        if turns > high {
            f
        } else if turns < low {
            f / factor
        } else {
            let kept = (turns - low) / (high - low);
            (1.0 - kept) * f / factor + kept * f
        }
    };
    Ok(Frequencies(plain.0.into_iter().map(scale).collect()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn of(config: &str, head_dim: usize) -> Vec<f32> {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("config.json"), config).unwrap();
        frequencies(&mut Config::open(dir.path()).unwrap(), head_dim).unwrap()
    }

    #[test]
    fn plain_and_linear_are_powers_of_theta() {
        // 10000^(-2i/8) = 10^-i
        let plain = [1.0, 0.1, 0.01, 0.001];
        assert_eq!(of("{}", 8), plain);
        assert_eq!(of(r#"{"rope_theta": 1e4, "rope_scaling": null}"#, 8), plain);
        assert_eq!(of(r#"{"rope_parameters": {"rope_theta": 16}}"#, 4), [1.0, 0.25]);
        let linear = r#"{"rope_scaling": {"type": "linear", "factor": 4.0}}"#;
        assert_eq!(of(linear, 8), [0.25, 0.025, 0.0025, 0.00025]);
    }

    #[test]
    fn llama3_keeps_short_waves_divides_long_ones_and_blends_between() {
        // Context 64: wavelengths below 16 are kept, above 64 divided by 8. The frequencies 1, 0.1
        // and 0.01 have wavelengths of 6.28, 62.8 and 628.
        let config = r#"{"rope_parameters": {"rope_type": "llama3", "rope_theta": 10000,
            "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4,
            "original_max_position_embeddings": 64}}"#;
        let found = of(config, 8);
        let turns = 64.0 * 0.1 / (2.0 * std::f64::consts::PI);
        let kept = (turns - 1.0) / 3.0;
        let blended = 0.1 * kept + 0.1 / 8.0 * (1.0 - kept);
        assert_eq!(found, [1.0, blended as f32, 0.01 / 8.0, 0.001 / 8.0]);
        assert!((0.0125..0.014).contains(&blended), "near the long end: {blended}");
    }
}
