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
    "cache_implementation",
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
    "output_router_logits",
    "pad_token_id",
    "pretraining_tp",
    "resid_pdrop",
    "return_dict",
    "router_aux_loss_coef",
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
    /// Whether this is a model's config, where bookkeeping keys are allowed.
    model: bool,
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
        Keys::parse(path, &text)
    }

    /// Reads the `text` of a `config.json`, which stands at `path`.
    ///
    /// # Errors
    /// When it is not a JSON object.
    pub fn parse(path: PathBuf, text: &[u8]) -> Result<Config, Error> {
        match serde_json::from_slice(text) {
            Ok(Value::Object(values)) => {
                Ok(Keys { path, prefix: String::new(), model: true, values })
            }
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
        self.take_as(key, "a positive integer", |v| as_whole(v).filter(|&n| n >= 1))
    }

    /// Takes a whole number from 0 on.
    ///
    /// # Errors
    /// When the value is anything else.
    pub fn whole(&mut self, key: &str) -> Result<Option<usize>, Error> {
        self.take_as(key, "a whole number", as_whole)
    }

    /// Takes a count that must be there.
    ///
    /// # Errors
    /// When it is missing or anything else.
    pub fn required_count(&mut self, key: &str) -> Result<usize, Error> {
        let value = self.count(key)?;
        self.require(key, value)
    }

    /// Takes a number above zero that must be there.
    ///
    /// # Errors
    /// When it is missing or anything else.
    pub fn required_positive(&mut self, key: &str) -> Result<f64, Error> {
        let value = self.positive(key)?;
        self.require(key, value)
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
        Ok(values.map(|values| Keys { path, prefix, model: false, values }))
    }

    /// Takes an object that is the config of a model by itself.
    ///
    /// # Errors
    /// When the value is anything else.
    pub fn nested(&mut self, key: &str) -> Result<Option<Config>, Error> {
        Ok(self.object(key)?.map(|keys| Keys { model: true, ..keys }))
    }

    /// Takes a list of texts.
    ///
    /// # Errors
    /// When the value is anything else.
    pub fn texts(&mut self, key: &str) -> Result<Option<Vec<String>>, Error> {
        self.list(key, "a list of texts", |v| v.as_str().map(str::to_owned))
    }

    /// Takes a list of numbers.
    ///
    /// # Errors
    /// When the value is anything else.
    pub fn numbers(&mut self, key: &str) -> Result<Option<Vec<f64>>, Error> {
        self.list(key, "a list of numbers", Value::as_f64)
    }

    /// Takes a list of whole numbers from 0 on.
    ///
    /// # Errors
    /// When the value is anything else.
    pub fn wholes(&mut self, key: &str) -> Result<Option<Vec<usize>>, Error> {
        self.list(key, "a list of whole numbers", as_whole)
    }

    fn list<T>(
        &mut self,
        key: &str,
        what: &str,
        convert: impl Fn(&Value) -> Option<T>,
    ) -> Result<Option<Vec<T>>, Error> {
        self.take_as(key, what, |list| list.as_array()?.iter().map(convert).collect())
    }

    /// `value`, or a refusal that names the missing `key`.
    ///
    /// # Errors
    /// When `value` is `None`.
    pub fn require<T>(&self, key: &str, value: Option<T>) -> Result<T, Error> {
        value.ok_or_else(|| self.refuse(key, "is missing"))
    }

    /// Refuses a config without `key`, which may be null. For keys whose absence the reference
    /// takes for a value of its own, and null for none.
    ///
    /// # Errors
    /// When it is absent.
    pub fn stated(&self, key: &str) -> Result<(), Error> {
        match self.values.contains_key(key) {
            true => Ok(()),
            false => Err(self.refuse(key, "is missing; null stands for none")),
        }
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

    /// Takes `key`, which may only be absent or null.
    ///
    /// # Errors
    /// When it has a value.
    pub fn unset(&mut self, key: &str) -> Result<(), Error> {
        match self.take(key) {
            Some(value) => Err(self.refuse(key, format!("is {value}; only null is supported"))),
            None => Ok(()),
        }
    }

    /// Takes `key`, whose value is without effect.
    pub fn ignore(&mut self, key: &str) {
        self.take(key);
    }

    /// Gives `key` the value that it has in the config around this one.
    ///
    /// # Errors
    /// When it has another one here.
    pub fn inherit(&mut self, key: &str, outer: impl Into<Value>) -> Result<(), Error> {
        let outer = outer.into();
        match self.values.get(key).filter(|value| !value.is_null()) {
            Some(own) if !equal(own, &outer) => {
                Err(self.refuse(key, format!("is {own}, but {outer} at the top level")))
            }
            _ => {
                self.values.insert(key.to_owned(), outer);
                Ok(())
            }
        }
    }

    /// Refuses any key that was not taken and is not known to be without effect.
    ///
    /// # Errors
    /// For the first such key, in alphabetical order.
    pub fn finish(self) -> Result<(), Error> {
        let ignored = |key: &str| self.model && IGNORED.contains(&key);
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

/// A whole number that fits 32 bits.
fn as_whole(value: &Value) -> Option<usize> {
    value.as_u64().filter(|&n| n <= u64::from(u32::MAX)).map(|n| n as usize)
}

/// Equality of JSON values, with `1` equal to `1.0`.
fn equal(a: &Value, b: &Value) -> bool {
    match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => a == b,
        _ => a == b,
    }
}
