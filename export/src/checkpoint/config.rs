//! `config.json`, read key by key so that what nobody read is known.

use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::Error;

/// Keys that never change what a trained model computes, whatever their value: bookkeeping,
/// tokenizer hints, training and generation defaults, and how a library should run the model.
const IGNORED: &[&str] = &[
    "_attn_implementation_autoset",
    "_name_or_path",
    "attention_dropout",
    "bos_token_id",
    "dtype",
    "eos_token_id",
    "hidden_dropout",
    "initializer_range",
    "is_llama_config",
    "max_length",
    "mlp_dropout",
    "name_or_path",
    "output_attentions",
    "output_hidden_states",
    "pad_token_id",
    "pretraining_tp",
    "resid_pdrop",
    "return_dict",
    "tokenizer_class",
    "torch_dtype",
    "torchscript",
    "transformers.js_config",
    "transformers_version",
    "unk_token_id",
    "use_cache",
];

/// The keys of a JSON object, each taken once.
#[derive(Clone, Debug)]
pub struct Keys {
    path: PathBuf,
    /// Names the object in messages: empty for the config itself, else `rope_scaling.` and the like.
    prefix: String,
    values: Map<String, Value>,
}

/// The top level of a `config.json`.
pub type Config = Keys;

impl Keys {
    /// Reads `config.json` of the checkpoint folder `dir`.
    ///
    /// # Errors
    /// When the file cannot be read or is not a JSON object.
    pub fn open(dir: &Path) -> Result<Config, Error> {
        let path = dir.join("config.json");
        let text =
            fs::read(&path).map_err(|source| Error::Unreadable { path: path.clone(), source })?;
        match serde_json::from_slice(&text) {
            Ok(Value::Object(values)) => Ok(Keys { path, prefix: String::new(), values }),
            Ok(_) => Err(Error::Malformed { path, reason: "is not a JSON object".to_owned() }),
            Err(e) => Err(Error::Malformed { path, reason: format!("is not valid JSON: {e}") }),
        }
    }

    /// An [`Error::Config`] about `key`.
    pub fn refuse(&self, key: &str, reason: impl Display) -> Error {
        Error::Config {
            path: self.path.clone(),
            key: format!("{}{key}", self.prefix),
            reason: reason.to_string(),
        }
    }

    /// Takes `key`; null counts as absent.
    fn take(&mut self, key: &str) -> Option<Value> {
        self.values.remove(key).filter(|value| !value.is_null())
    }

    fn take_as<T>(
        &mut self,
        key: &str,
        what: &str,
        convert: impl FnOnce(&Value) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let Some(value) = self.take(key) else { return Ok(None) };
        match convert(&value) {
            Some(converted) => Ok(Some(converted)),
            None => Err(self.refuse(key, format!("is {value}, expected {what}"))),
        }
    }

    /// Takes a count, at least 1.
    ///
    /// # Errors
    /// When the value is anything else.
    pub fn count(&mut self, key: &str) -> Result<Option<usize>, Error> {
        let convert = |v: &Value| v.as_u64().filter(|n| (1..=u64::from(u32::MAX)).contains(n));
        Ok(self.take_as(key, "a positive integer", convert)?.map(|n| n as usize))
    }

    /// Takes a number above zero.
    ///
    /// # Errors
    /// When the value is anything else.
    pub fn positive(&mut self, key: &str) -> Result<Option<f64>, Error> {
        let convert = |v: &Value| v.as_f64().filter(|n| *n > 0.0 && n.is_finite());
        self.take_as(key, "a number above 0", convert)
    }

    /// Takes a boolean.
    ///
    /// # Errors
    /// When the value is anything else.
    pub fn boolean(&mut self, key: &str) -> Result<Option<bool>, Error> {
        self.take_as(key, "true or false", Value::as_bool)
    }

    /// Takes a text.
    ///
    /// # Errors
    /// When the value is anything else.
    pub fn text(&mut self, key: &str) -> Result<Option<String>, Error> {
        self.take_as(key, "a text", |v| v.as_str().map(str::to_owned))
    }

    /// Takes an object.
    ///
    /// # Errors
    /// When the value is anything else.
    pub fn object(&mut self, key: &str) -> Result<Option<Keys>, Error> {
        let (path, prefix) = (self.path.clone(), format!("{}{key}.", self.prefix));
        let values = self.take_as(key, "an object", |v| v.as_object().cloned())?;
        Ok(values.map(|values| Keys { path, prefix, values }))
    }

    /// `value`, or a refusal that names the missing `key`.
    ///
    /// # Errors
    /// When `value` is `None`.
    pub fn require<T>(&self, key: &str, value: Option<T>) -> Result<T, Error> {
        value.ok_or_else(|| self.refuse(key, "is missing"))
    }

    /// Takes `key`, which may only be absent or equal to `only`: any other value would change the
    /// computation in a way that the family does not know.
    ///
    /// # Errors
    /// When it has another value.
    pub fn only(&mut self, key: &str, only: impl Into<Value>) -> Result<(), Error> {
        let only = only.into();
        match self.take(key) {
            Some(value) if !equal(&value, &only) => {
                Err(self.refuse(key, format!("is {value}; only {only} is supported")))
            }
            _ => Ok(()),
        }
    }

    /// Refuses any key that was not taken and is not known to be without effect.
    ///
    /// # Errors
    /// For the first such key, in alphabetical order.
    pub fn finish(self) -> Result<(), Error> {
        let ignored = |key: &str| self.prefix.is_empty() && IGNORED.contains(&key);
        let mut rest: Vec<_> = self.values.keys().filter(|key| !ignored(key)).collect();
        rest.sort();
        match rest.first() {
            Some(key) => {
                Err(self.refuse(key, "is not a known key, and may change what the model computes"))
            }
            None => Ok(()),
        }
    }
}

/// Equality of JSON values, with `1` equal to `1.0`.
fn equal(a: &Value, b: &Value) -> bool {
    match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => a == b,
        _ => a == b,
    }
}
