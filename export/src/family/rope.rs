//! Rotary frequencies from a config, in both of its layouts.
//!
//! Since transformers 5: `rope_parameters` with `rope_type`, `rope_theta` and the type's own keys.
//! Before: `rope_theta` at the top level, and `rope_scaling` (null, or an object with `rope_type` or
//! `type` and the type's own keys).

use std::f64::consts::TAU;

use crate::Error;
use crate::checkpoint::{Config, Keys};

const DEFAULT_THETA: f64 = 10_000.0;
const PARTIAL: &str = "partial_rotary_factor";

/// What a family's rotary embedding can be.
#[derive(Clone, Copy)]
pub(super) struct Rope {
    head_dim: usize,
    /// The part of a head that is rotated when the config does not say; `None` where it must be all.
    partial: Option<f64>,
    /// Keys of the rope dictionary that do not change what text gives.
    ignored: &'static [&'static str],
}

impl Rope {
    /// Whole heads of `head_dim` features are rotated.
    pub(super) fn whole(head_dim: usize) -> Rope {
        Rope { head_dim, partial: None, ignored: &[] }
    }

    /// The first features of a head are rotated: `factor` of all unless the config says another.
    /// `ignored` keys of the rope dictionary do not change what text gives.
    pub(super) fn partial(head_dim: usize, factor: f64, ignored: &'static [&'static str]) -> Rope {
        Rope { head_dim, partial: Some(factor), ignored }
    }

    /// Radians per position of each rotated pair.
    ///
    /// # Errors
    /// When the rope type is unknown, or one of its keys is missing, unknown or out of range.
    pub(super) fn read(self, config: &mut Config) -> Result<Vec<f32>, Error> {
        self.read_with_theta(config).map(|(_, frequencies)| frequencies)
    }

    /// As [`Rope::read`], with the base of the frequencies.
    pub(super) fn read_with_theta(self, config: &mut Config) -> Result<(f64, Vec<f32>), Error> {
        let theta = config.positive("rope_theta")?;
        let (new, old) = (config.object("rope_parameters")?, config.object("rope_scaling")?);
        let keys = match (new, old) {
            (Some(_), Some(_)) => {
                return Err(config.refuse("rope_scaling", "is there beside rope_parameters"));
            }
            (new, old) => new.or(old),
        };
        let factor = self.factor(config)?;
        let theta = theta.or(keys.is_none().then_some(DEFAULT_THETA));
        self.frequencies(config, keys, theta, factor, Some(DEFAULT_THETA))
    }

    /// The frequencies of full and of sliding layers, from configs that have two.
    ///
    /// # Errors
    /// As [`Rope::read`]; also when a base is missing.
    pub(super) fn read_full_and_sliding(
        self,
        config: &mut Config,
    ) -> Result<(Vec<f32>, Vec<f32>), Error> {
        let theta = config.positive("rope_theta")?;
        let local_theta = config.positive("rope_local_base_freq")?;
        let (new, old) = (config.object("rope_parameters")?, config.object("rope_scaling")?);
        let factor = self.factor(config)?;
        let (full, local) = match (new, old) {
            (Some(_), Some(_)) => {
                return Err(config.refuse("rope_scaling", "is there beside rope_parameters"));
            }
            (Some(mut both), None) => {
                let [full, local] = ["full_attention", "sliding_attention"].map(|kind| {
                    let keys = both.object(kind)?;
                    both.require(kind, keys).map(Some)
                });
                both.finish()?;
                (full?, local?)
            }
            (None, full) => {
                config.require("rope_theta", theta)?;
                config.require("rope_local_base_freq", local_theta)?;
                (full, None)
            }
        };
        let (_, full) = self.frequencies(config, full, theta, factor, None)?;
        let (_, local) = self.frequencies(config, local, local_theta, factor, None)?;
        Ok((full, local))
    }

    /// Takes the rotated part of a head, as older configs spell it.
    fn factor(self, keys: &mut Keys) -> Result<Option<f64>, Error> {
        match self.partial {
            Some(_) => keys.positive(PARTIAL),
            None => keys.only(PARTIAL, 1).map(|()| None),
        }
    }

    /// Base and frequencies by the dictionary `keys`, where there is one, with the `theta` and
    /// `factor` that stand outside of it.
    fn frequencies(
        self,
        config: &Config,
        keys: Option<Keys>,
        theta: Option<f64>,
        factor: Option<f64>,
        default_theta: Option<f64>,
    ) -> Result<(f64, Vec<f32>), Error> {
        let Some(mut keys) = keys else {
            let theta = config.require("rope_theta", theta)?;
            let rotated = self.rotated(config, factor)?;
            return Ok((theta, plain(theta, rotated).collect_f32()));
        };
        let inner = keys.positive("rope_theta")?;
        let theta = same(&keys, "rope_theta", inner, theta)?.or(default_theta);
        let theta = keys.require("rope_theta", theta)?;
        let inner = self.factor(&mut keys)?;
        let factor = same(&keys, PARTIAL, inner, factor)?;
        let plain = plain(theta, self.rotated(&keys, factor)?);
        for key in self.ignored {
            keys.ignore(key);
        }
        let frequencies = match rope_type(&mut keys)?.as_str() {
            "default" => plain,
            "linear" => {
                let factor = keys.required_positive("factor")?;
                Frequencies(plain.0.into_iter().map(|f| f / factor).collect())
            }
            "llama3" => llama3(&mut keys, plain)?,
            other => {
                let known = "default, linear and llama3 are supported";
                return Err(keys.refuse("rope_type", format!("is '{other}'; {known}")));
            }
        };
        keys.finish()?;
        Ok((theta, frequencies.collect_f32()))
    }

    /// Rotated features of a head, of which `keys` say `factor`.
    fn rotated(self, keys: &Keys, factor: Option<f64>) -> Result<usize, Error> {
        let Some(default) = self.partial else { return Ok(self.head_dim) };
        let factor = factor.unwrap_or(default);
        let rotated = (self.head_dim as f64 * factor) as usize;
        if factor > 1.0 || rotated == 0 || !rotated.is_multiple_of(2) {
            let reason = format!(
                "is {factor}, which is {rotated} of a head's {} features; an even number of them is supported",
                self.head_dim
            );
            return Err(keys.refuse(PARTIAL, reason));
        }
        Ok(rotated)
    }
}

/// The one value of `key` that is stated `inside` the dictionary, `outside` of it or twice.
fn same(
    keys: &Keys,
    key: &str,
    inside: Option<f64>,
    outside: Option<f64>,
) -> Result<Option<f64>, Error> {
    match (inside, outside) {
        (Some(inside), Some(outside)) if inside != outside => {
            Err(keys.refuse(key, format!("is {inside}, but {outside} at the top level")))
        }
        _ => Ok(inside.or(outside)),
    }
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

struct Frequencies(Vec<f64>);

impl Frequencies {
    fn collect_f32(self) -> Vec<f32> {
        self.0.into_iter().map(|f| f as f32).collect()
    }
}

/// `theta^(-2i / rotated)`.
fn plain(theta: f64, rotated: usize) -> Frequencies {
    let exponent = |i: usize| -2.0 * i as f64 / rotated as f64;
    Frequencies((0..rotated / 2).map(|i| theta.powf(exponent(i))).collect())
}

/// Llama 3: frequencies whose wavelength exceeds the original context are divided by `factor`, short
/// ones kept, those between interpolated.
fn llama3(keys: &mut Keys, plain: Frequencies) -> Result<Frequencies, Error> {
    let factor = keys.required_positive("factor")?;
    let low = keys.required_positive("low_freq_factor")?;
    let high = keys.required_positive("high_freq_factor")?;
    let context = keys.required_positive("original_max_position_embeddings")?;
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
        Rope::whole(head_dim).read(&mut Config::open(dir.path()).unwrap()).unwrap()
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
