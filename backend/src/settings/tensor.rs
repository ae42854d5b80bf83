//! Which mode serves a model, and the settings of tensor mode.

use serde_json::Value;

use super::{
    ARGUMENTS, ARTIFACT, BOUNDED_MANIFEST, ENTRY, Error, GROUP_BY_SHAPE, GenerationSettings,
    MODEL_PLUGIN, RESULTS, SERVING_MANIFEST, Setting, Written, ZERO_COPY, parameter, trimmed,
};

/// How a model is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mode {
    /// `bounded_manifest`, the value of which is here: a program with axes of bounded size.
    Bounded(String),
    /// `serving_manifest`: a language model that clients drive token by token.
    Sequence,
    /// `serving_manifest` with `mode` `generate`: a language model that generates.
    Generate,
    /// Neither: one StableHLO function.
    Tensor,
}

impl Mode {
    /// The mode that a model's parameters choose (tensor mode §3).
    ///
    /// # Errors
    /// [`Error::Combined`] for parameters of two modes.
    pub fn of(config: &Value) -> Result<Mode, Error> {
        let given = |setting: &Setting| parameter(config, setting.key).and_then(trimmed).is_some();
        let only = |manifest: &Setting, others: &[&Setting]| match others
            .iter()
            .find(|other| given(other))
        {
            Some(other) => Err(Error::Combined { manifest: manifest.key, other: other.key }),
            None => Ok(()),
        };
        if let Some(manifest) = parameter(config, BOUNDED_MANIFEST.key).and_then(trimmed) {
            let others = [&SERVING_MANIFEST, &ARTIFACT, &ENTRY, &ARGUMENTS, &RESULTS];
            only(&BOUNDED_MANIFEST, &others)?;
            Ok(Mode::Bounded(manifest))
        } else if given(&SERVING_MANIFEST) {
            only(&SERVING_MANIFEST, &[&ARTIFACT, &ENTRY, &ARGUMENTS, &RESULTS])?;
            Ok(match GenerationSettings::chosen(config)? {
                true => Mode::Generate,
                false => Mode::Sequence,
            })
        } else {
            Ok(Mode::Tensor)
        }
    }
}

/// Settings that a model of any mode may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommonSettings {
    /// `zero_copy`.
    pub zero_copy: bool,
    /// `group_by_shape`.
    pub group_by_shape: bool,
    /// `pjrt_plugin_path`.
    pub plugin_path: Option<String>,
}

impl CommonSettings {
    /// Reads them from a model's configuration.
    ///
    /// # Errors
    /// [`Error::Value`].
    pub fn read(config: &Value) -> Result<Self, Error> {
        Ok(CommonSettings {
            zero_copy: Written::parameter(config, &ZERO_COPY).flag(&ZERO_COPY)?,
            group_by_shape: Written::parameter(config, &GROUP_BY_SHAPE).flag(&GROUP_BY_SHAPE)?,
            plugin_path: parameter(config, MODEL_PLUGIN.key).and_then(trimmed),
        })
    }
}

/// Settings of a tensor-mode model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorSettings {
    /// `artifact`: files in the version directory, at least one.
    pub artifacts: Vec<String>,
    /// `entry`.
    pub entry: Option<String>,
    /// `arguments`, as written.
    pub arguments: Option<String>,
    /// `results`, as written.
    pub results: Option<String>,
}

impl TensorSettings {
    /// Reads them from a model's configuration.
    ///
    /// # Errors
    /// [`Error::NoArtifact`].
    pub fn read(config: &Value) -> Result<Self, Error> {
        let text = |setting: &Setting| parameter(config, setting.key).and_then(trimmed);
        let artifacts: Vec<String> =
            text(&ARTIFACT).iter().flat_map(|list| list.split(',')).filter_map(trimmed).collect();
        if artifacts.is_empty() {
            return Err(Error::NoArtifact);
        }
        Ok(TensorSettings {
            artifacts,
            entry: text(&ENTRY),
            arguments: text(&ARGUMENTS),
            results: text(&RESULTS),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn config(parameters: &[(&str, &str)]) -> Value {
        let written: serde_json::Map<_, _> = parameters
            .iter()
            .map(|(key, value)| ((*key).to_owned(), json!({ "string_value": value })))
            .collect();
        json!({ "parameters": written })
    }

    #[test]
    fn a_model_is_of_one_mode() {
        let of = |parameters: &[(&str, &str)]| Mode::of(&config(parameters));
        assert_eq!(of(&[("artifact", "a.mlir")]), Ok(Mode::Tensor));
        assert_eq!(of(&[]), Ok(Mode::Tensor));
        assert_eq!(of(&[("serving_manifest", " ")]), Ok(Mode::Tensor));
        assert_eq!(of(&[("serving_manifest", "m.json")]), Ok(Mode::Sequence));
        let mode = |mode| of(&[("serving_manifest", "m.json"), ("mode", mode)]);
        assert_eq!((mode("sequence"), mode("generate")), (Ok(Mode::Sequence), Ok(Mode::Generate)));
        let error = mode("generation").unwrap_err().to_string();
        assert!(error.contains("the 'mode' parameter must be sequence or generate"), "{error}");
        assert_eq!(of(&[("bounded_manifest", " m.json ")]), Ok(Mode::Bounded("m.json".into())));
        for other in ["artifact", "entry", "arguments", "results", "serving_manifest"] {
            let error = of(&[("bounded_manifest", "m"), (other, "x")]).unwrap_err().to_string();
            let expected =
                format!("'bounded_manifest' parameter cannot be combined with '{other}'");
            assert!(error.contains(&expected), "{error}");
        }
        for other in ["artifact", "entry", "arguments", "results"] {
            let error = of(&[("serving_manifest", "m"), (other, "x")]).unwrap_err().to_string();
            assert!(error.contains(&format!("cannot be combined with '{other}'")), "{error}");
        }
    }

    #[test]
    fn artifacts_are_a_list() {
        let read = |artifact| TensorSettings::read(&config(&[("artifact", artifact)]));
        assert_eq!(read(" a.mlir, ,b.mlir,").unwrap().artifacts, ["a.mlir", "b.mlir"]);
        for none in ["", " ", ", ,"] {
            let error = read(none).unwrap_err();
            assert!(error.to_string().contains("has no 'artifact' parameter"), "{error}");
        }
    }

    #[test]
    fn switches_are_true_or_false() {
        let read = |key, value| CommonSettings::read(&config(&[(key, value)]));
        assert!(!read("zero_copy", "false").unwrap().zero_copy);
        let defaults = read("group_by_shape", "true").unwrap();
        assert!(defaults.zero_copy && defaults.group_by_shape);
        for key in ["zero_copy", "group_by_shape"] {
            let error = read(key, "yes").unwrap_err().to_string();
            let expected = format!("the '{key}' parameter must be true or false, got 'yes'");
            assert_eq!(error, expected);
        }
    }
}
