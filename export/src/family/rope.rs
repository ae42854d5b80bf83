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
