//! Every setting of the backend in one table: parsing, defaults, range checks and
//! `docs/configuration.md` come from it.

mod generation;
mod tensor;

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::Value;
use thiserror::Error;

pub use generation::{GenerationSettings, Speculation};
pub use tensor::{CommonSettings, Mode, TensorSettings};

/// Where a setting is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// `--backend-config=tlaloc,<key>=<value>`, or the environment variable named here.
    Server(Option<&'static str>),
    /// `parameters` of `config.pbtxt`.
    Model,
}

/// What a value may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Exactly `true` or `false`.
    Flag,
    /// A number above 0 and up to 1.
    Fraction,
    /// A path.
    Path,
    /// Text of a form described here.
    Text(&'static str),
    /// A whole number of microseconds from 0 up to this.
    Microseconds(u64),
    /// A whole number of MiB from 0 up to this.
    Mebibytes(u64),
    /// A whole number from the first to the second.
    Count(u64, u64),
    /// One of these words.
    Choice(&'static [&'static str]),
}

impl Kind {
    fn range(self) -> String {
        match self {
            Kind::Flag => "`true` or `false`".into(),
            Kind::Fraction => "above 0, at most 1".into(),
            Kind::Path => "a path".into(),
            Kind::Text(form) => form.into(),
            Kind::Microseconds(most) | Kind::Mebibytes(most) => {
                format!("a whole number, 0 to {most}")
            }
            Kind::Count(least, most) => format!("a whole number, {least} to {most}"),
            Kind::Choice(words) => {
                let words = words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>();
                words.join(" or ")
            }
        }
    }
}

/// One setting.
#[derive(Debug)]
pub struct Setting {
    /// The key as written.
    pub key: &'static str,
    /// Where it is written.
    pub scope: Scope,
    /// What its value may be.
    pub kind: Kind,
    /// The value when absent; empty for none.
    pub default: &'static str,
    /// What it does, for the docs.
    pub meaning: &'static str,
}

/// The PJRT plugin that serves every model without its own.
pub const PJRT_PLUGIN: Setting = Setting {
    key: "pjrt-plugin-path",
    scope: Scope::Server(Some("TLALOC_PJRT_PLUGIN_PATH")),
    kind: Kind::Path,
    default: "",
    meaning: "the PJRT plugin library that runs the models",
};
/// Share of device memory that a GPU client may take.
pub const MEMORY_FRACTION: Setting = Setting {
    key: "memory-fraction",
    scope: Scope::Server(Some("TLALOC_PJRT_MEMORY_FRACTION")),
    kind: Kind::Fraction,
    default: "0.3",
    meaning: "share of a GPU's memory that a client may take; CPU plugins ignore it",
};
/// Whether a GPU client takes its share at once.
pub const PREALLOCATE: Setting = Setting {
    key: "preallocate",
    scope: Scope::Server(Some("TLALOC_PJRT_PREALLOCATE")),
    kind: Kind::Flag,
    default: "false",
    meaning: "whether a GPU client takes its whole share at once; CPU plugins ignore it",
};
/// Folder of the compile cache.
pub const COMPILE_CACHE: Setting = Setting {
    key: "compile-cache-dir",
    scope: Scope::Server(Some("TLALOC_COMPILE_CACHE_DIR")),
    kind: Kind::Path,
    default: "",
    meaning: "folder where compiled programs are kept between loads; none: every load compiles",
};
/// The most that the compile cache may take.
pub const COMPILE_CACHE_MAX: Setting = Setting {
    key: "compile-cache-max-mib",
    scope: Scope::Server(Some("TLALOC_COMPILE_CACHE_MAX_MIB")),
    kind: Kind::Mebibytes(1 << 40),
    default: "10240",
    meaning: "MiB that the compile cache may take, 0 for any number; beyond it the programs used \
              longest ago are removed",
};
/// Whether verify steps are launched before the ones before them are read.
pub const CHAIN_STEPS: Setting = Setting {
    key: "chain-steps",
    scope: Scope::Server(Some("TLALOC_CHAIN_STEPS")),
    kind: Kind::Choice(&["0", "1"]),
    default: "1",
    meaning: "whether a generation of a model with a draft head launches its next step before this one \
              is read; `0` turns that off",
};
/// The manifest of a sequence-mode model.
pub const SERVING_MANIFEST: Setting = Setting {
    key: "serving_manifest",
    scope: Scope::Model,
    kind: Kind::Path,
    default: "",
    meaning: "manifest of a serving artifact, inside the version directory; chooses sequence mode, or \
              generation mode with `mode`",
};
/// The manifest of a bounded-mode model.
pub const BOUNDED_MANIFEST: Setting = Setting {
    key: "bounded_manifest",
    scope: Scope::Model,
    kind: Kind::Path,
    default: "",
    meaning: "manifest of a bounded artifact, inside the version directory; chooses bounded mode",
};
/// The StableHLO files of a tensor-mode model.
pub const ARTIFACT: Setting = Setting {
    key: "artifact",
    scope: Scope::Model,
    kind: Kind::Text("paths, separated by commas"),
    default: "",
    meaning: "tensor mode: StableHLO files in the version directory, one for each shape",
};
/// The function of a tensor-mode model.
pub const ENTRY: Setting = Setting {
    key: "entry",
    scope: Scope::Model,
    kind: Kind::Text("a function's name"),
    default: "",
    meaning: "tensor mode: the function to serve; without it `main`, or else the first one",
};
/// Where the arguments of a tensor-mode model come from.
pub const ARGUMENTS: Setting = Setting {
    key: "arguments",
    scope: Scope::Model,
    kind: Kind::Text("`input:<name>`, `weight:<file>` or `state:<name>`, separated by commas"),
    default: "",
    meaning: "tensor mode: where each argument comes from; without it the inputs in their order",
};
/// Where the results of a tensor-mode model go.
pub const RESULTS: Setting = Setting {
    key: "results",
    scope: Scope::Model,
    kind: Kind::Text("`output:<name>` or `state:<name>`, separated by commas"),
    default: "",
    meaning: "tensor mode: where each result goes; without it the outputs in their order",
};
/// Whether tensors are passed without a copy through the host.
pub const ZERO_COPY: Setting = Setting {
    key: "zero_copy",
    scope: Scope::Model,
    kind: Kind::Flag,
    default: "true",
    meaning: "whether the device reads a request's tensors where they lie, if it can",
};
/// Whether a batch is grouped by the shape of its rows.
pub const GROUP_BY_SHAPE: Setting = Setting {
    key: "group_by_shape",
    scope: Scope::Model,
    kind: Kind::Flag,
    default: "true",
    meaning: "tensor mode: whether requests of one shape share an execution wherever they stand in \
              a batch; `false` joins only consecutive ones",
};
/// The PJRT plugin of one model.
pub const MODEL_PLUGIN: Setting = Setting {
    key: "pjrt_plugin_path",
    scope: Scope::Model,
    kind: Kind::Path,
    default: "",
    meaning: "the PJRT plugin library for this model alone; beats the server's",
};
/// Whether executions are handed the KV pools to update in place.
pub const DONATE_KV_POOLS: Setting = Setting {
    key: "donate_kv_pools",
    scope: Scope::Model,
    kind: Kind::Flag,
    default: "true",
    meaning: "whether an execution is handed the KV pools to update in place; `false` copies them \
              on every step and is for comparison only",
};
/// Whether step inputs are written where the device reads them.
pub const PACK_STEP_INPUTS: Setting = Setting {
    key: "pack_step_inputs",
    scope: Scope::Model,
    kind: Kind::Flag,
    default: "true",
    meaning: "whether a step's integer inputs are written to memory that the device reads in \
              place; `false` uploads each",
};
/// Whether logits are asked for before the execution has finished.
pub const OVERLAP_LOGITS_COPY: Setting = Setting {
    key: "overlap_logits_copy",
    scope: Scope::Model,
    kind: Kind::Flag,
    default: "true",
    meaning: "whether the copy of the logits is queued behind a running execution, where logits \
              cannot be read in place",
};
/// Whether the backend forms batches itself.
pub const BACKEND_BATCHING: Setting = Setting {
    key: "backend_batching",
    scope: Scope::Model,
    kind: Kind::Flag,
    default: "true",
    meaning: "whether the backend batches the steps of concurrent sequences itself; `false` runs \
              the batches that Triton's sequence batcher forms",
};
/// How long a batch waits for the sequences of the previous one.
pub const COHORT_WAIT: Setting = Setting {
    key: "cohort_wait_microseconds",
    scope: Scope::Model,
    kind: Kind::Microseconds(10_000_000),
    default: "20000",
    meaning: "how long a batch waits for the sequences that decoded in the previous one",
};
/// How long a prompt waits for others to share its prefill call.
pub const PROMPT_WAIT: Setting = Setting {
    key: "prompt_wait_microseconds",
    scope: Scope::Model,
    kind: Kind::Microseconds(10_000_000),
    default: "2000",
    meaning: "how long a prompt waits for other prompts that could share its prefill call",
};

/// Every setting, in the order of the docs.
pub const TABLE: &[&Setting] = &[
    &PJRT_PLUGIN,
    &MEMORY_FRACTION,
    &PREALLOCATE,
    &COMPILE_CACHE,
    &COMPILE_CACHE_MAX,
    &CHAIN_STEPS,
    &SERVING_MANIFEST,
    &generation::MODE,
    &BOUNDED_MANIFEST,
    &ARTIFACT,
    &ENTRY,
    &ARGUMENTS,
    &RESULTS,
    &ZERO_COPY,
    &GROUP_BY_SHAPE,
    &MODEL_PLUGIN,
    &DONATE_KV_POOLS,
    &PACK_STEP_INPUTS,
    &OVERLAP_LOGITS_COPY,
    &BACKEND_BATCHING,
    &COHORT_WAIT,
    &PROMPT_WAIT,
    &generation::MAX_QUEUE_SIZE,
    &generation::MAX_RUNNING,
    &generation::MAX_PREFILL_TOKENS,
    &generation::SCHEDULER_POLICY,
    &generation::SWAP_SPACE,
    &generation::SPECULATION,
    &generation::LOOKUP_MAX_DRAFTS,
    &generation::LOOKUP_MIN_NGRAM,
    &generation::LOOKUP_MAX_NGRAM,
];

/// Keys that Triton itself adds to every backend's command-line settings.
const TRITONS_OWN: [&str; 4] = [
    "auto-complete-config",
    "backend-directory",
    "min-compute-capability",
    "default-max-batch-size",
];

/// A setting that is not as it should be.
#[derive(Debug, Error, PartialEq)]
pub enum Error {
    /// The value is outside the range of the table: correct it where `origin` says.
    #[error("the '{key}' {origin} must be {range}, got '{value}'")]
    Value {
        /// Where the value was written.
        origin: &'static str,
        /// The key as written there.
        key: String,
        /// What it may be.
        range: String,
        /// What it was.
        value: String,
    },
    /// `--backend-config=tlaloc,<key>=` with a key that is not in the table: correct or drop it.
    #[error("--backend-config=tlaloc,{key}=… is not a setting of this backend; it has {known}")]
    Unknown {
        /// The key as written.
        key: String,
        /// The keys that exist.
        known: String,
    },
    /// Two settings that do not go together: correct one of them.
    #[error("the '{first}' parameter is {first_value}, but '{second}' is {second_value}: {reason}")]
    Together {
        /// The first key.
        first: &'static str,
        /// Its value.
        first_value: String,
        /// The second key.
        second: &'static str,
        /// Its value.
        second_value: String,
        /// What is needed.
        reason: &'static str,
    },
    /// Parameters of two modes: keep those of one.
    #[error("the '{manifest}' parameter cannot be combined with '{other}'; keep one of them")]
    Combined {
        /// The parameter that chooses a mode.
        manifest: &'static str,
        /// The parameter of another one.
        other: &'static str,
    },
    /// `config.pbtxt` names no program: name one.
    #[error(
        "config.pbtxt has no 'artifact' parameter; it names the StableHLO files to serve, or \
         'serving_manifest' or 'bounded_manifest' a manifest"
    )]
    NoArtifact,
}

/// Settings of the server, read once when the backend is initialised.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerSettings {
    /// `pjrt-plugin-path` of the command line; the environment is read at each model load.
    pub plugin_path: Option<String>,
    /// `memory-fraction`.
    pub memory_fraction: f32,
    /// `preallocate`.
    pub preallocate: bool,
    /// `compile-cache-dir`.
    pub compile_cache: Option<String>,
    /// `compile-cache-max-mib` in bytes; none for no bound.
    pub compile_cache_max: Option<u64>,
    /// `chain-steps`.
    pub chain_steps: bool,
}

impl ServerSettings {
    /// Reads the command-line settings that Triton hands over as JSON
    /// (`{"cmdline": {"key": "value"}}`), falling back to `environment`.
    pub fn read(
        config: &Value,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, Error> {
        let command_line = config.get("cmdline").and_then(Value::as_object);
        for key in command_line.into_iter().flat_map(|map| map.keys()) {
            let ours = TABLE.iter().any(|s| matches!(s.scope, Scope::Server(_)) && s.key == key);
            if !ours && !TRITONS_OWN.contains(&key.as_str()) {
                let known: Vec<&str> = TABLE
                    .iter()
                    .filter(|s| matches!(s.scope, Scope::Server(_)))
                    .map(|s| s.key)
                    .collect();
                return Err(Error::Unknown { key: key.clone(), known: known.join(", ") });
            }
        }
        let value = |setting: &Setting| -> Written {
            let written = command_line.and_then(|map| map.get(setting.key)).and_then(Value::as_str);
            if let Some(value) = written {
                return Written::new("setting", setting.key, value);
            }
            let Scope::Server(Some(variable)) = setting.scope else { return Written::absent() };
            match environment(variable).filter(|value| !value.is_empty()) {
                Some(value) => Written::new("environment variable", variable, &value),
                None => Written::absent(),
            }
        };
        Ok(ServerSettings {
            plugin_path: command_line
                .and_then(|map| map.get(PJRT_PLUGIN.key))
                .and_then(Value::as_str)
                .and_then(trimmed),
            memory_fraction: value(&MEMORY_FRACTION).fraction(&MEMORY_FRACTION)?,
            preallocate: value(&PREALLOCATE).flag(&PREALLOCATE)?,
            compile_cache: value(&COMPILE_CACHE).value.as_deref().and_then(trimmed),
            compile_cache_max: value(&COMPILE_CACHE_MAX).bytes(&COMPILE_CACHE_MAX)?,
            chain_steps: value(&CHAIN_STEPS).choice(&CHAIN_STEPS)? == 1,
        })
    }
}

/// How the calls of a language model are executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExecutionSettings {
    /// `donate_kv_pools`.
    pub donate_kv_pools: bool,
    /// `pack_step_inputs`.
    pub pack_step_inputs: bool,
    /// `overlap_logits_copy`.
    pub overlap_logits_copy: bool,
}

impl ExecutionSettings {
    fn read(config: &Value) -> Result<Self, Error> {
        let flag = |setting: &Setting| Written::parameter(config, setting).flag(setting);
        Ok(ExecutionSettings {
            donate_kv_pools: flag(&DONATE_KV_POOLS)?,
            pack_step_inputs: flag(&PACK_STEP_INPUTS)?,
            overlap_logits_copy: flag(&OVERLAP_LOGITS_COPY)?,
        })
    }
}

/// Settings of one sequence-mode model, from the `parameters` of its configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelSettings {
    /// `serving_manifest`, relative to the version directory.
    pub serving_manifest: String,
    /// `pjrt_plugin_path`.
    pub plugin_path: Option<String>,
    /// How its calls are executed.
    pub execution: ExecutionSettings,
    /// `backend_batching`.
    pub backend_batching: bool,
    /// `cohort_wait_microseconds`.
    pub cohort_wait: Duration,
    /// `prompt_wait_microseconds`.
    pub prompt_wait: Duration,
}

impl ModelSettings {
    /// Reads the `parameters` of a model configuration as Triton's JSON gives them
    /// (`{"key": {"string_value": "value"}}`). Other parameters are for clients and ignored.
    pub fn read(config: &Value) -> Result<Self, Error> {
        let text = |key: &str| parameter(config, key);
        let value = |setting: &Setting| Written::parameter(config, setting);
        Ok(ModelSettings {
            serving_manifest: text(SERVING_MANIFEST.key).and_then(trimmed).unwrap_or_default(),
            plugin_path: text(MODEL_PLUGIN.key).and_then(trimmed),
            execution: ExecutionSettings::read(config)?,
            backend_batching: value(&BACKEND_BATCHING).flag(&BACKEND_BATCHING)?,
            cohort_wait: value(&COHORT_WAIT).microseconds(&COHORT_WAIT)?,
            prompt_wait: value(&PROMPT_WAIT).microseconds(&PROMPT_WAIT)?,
        })
    }
}

/// The text of a model parameter; Triton's JSON has `{"key": {"string_value": "value"}}`.
fn parameter<'a>(config: &'a Value, key: &str) -> Option<&'a str> {
    config.get("parameters")?.get(key)?.get("string_value").and_then(Value::as_str)
}

/// A value with the place where it was written, or nothing.
struct Written {
    origin: &'static str,
    key: String,
    value: Option<String>,
}

impl Written {
    fn new(origin: &'static str, key: &str, value: &str) -> Self {
        Written { origin, key: key.to_owned(), value: Some(value.to_owned()) }
    }

    fn parameter(config: &Value, setting: &Setting) -> Self {
        match parameter(config, setting.key) {
            Some(value) => Written::new("parameter", setting.key, value),
            None => Written::absent(),
        }
    }

    fn absent() -> Self {
        Written { origin: "setting", key: String::new(), value: None }
    }

    fn parse<T>(self, setting: &Setting, read: impl Fn(&str) -> Option<T>) -> Result<T, Error> {
        let text = self.value.as_deref().unwrap_or(setting.default);
        read(text).ok_or_else(|| Error::Value {
            origin: self.origin,
            key: self.key,
            range: setting.kind.range().replace('`', ""),
            value: text.to_owned(),
        })
    }

    fn flag(self, setting: &Setting) -> Result<bool, Error> {
        self.parse(setting, |text| text.parse().ok())
    }

    fn fraction(self, setting: &Setting) -> Result<f32, Error> {
        self.parse(setting, |text| text.parse().ok().filter(|value| *value > 0.0 && *value <= 1.0))
    }

    fn count(self, setting: &Setting) -> Result<usize, Error> {
        self.parse(setting, |text| {
            let Kind::Count(least, most) = setting.kind else { return None };
            let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            let value: u64 = digits.then(|| text.parse().ok()).flatten()?;
            (least..=most).contains(&value).then(|| usize::try_from(value).ok()).flatten()
        })
    }

    /// The index of the word.
    fn choice(self, setting: &Setting) -> Result<usize, Error> {
        self.parse(setting, |text| {
            let Kind::Choice(words) = setting.kind else { return None };
            words.iter().position(|word| *word == text)
        })
    }

    fn microseconds(self, setting: &Setting) -> Result<Duration, Error> {
        self.parse(setting, |text| {
            let Kind::Microseconds(most) = setting.kind else { return None };
            whole(text, most).map(Duration::from_micros)
        })
    }

    /// MiB in bytes; none for 0.
    fn bytes(self, setting: &Setting) -> Result<Option<u64>, Error> {
        self.parse(setting, |text| {
            let Kind::Mebibytes(most) = setting.kind else { return None };
            whole(text, most).map(|mib| (mib > 0).then_some(mib << 20))
        })
    }
}

/// A whole number from 0 up to `most`.
fn whole(text: &str, most: u64) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let value: u64 = digits.then(|| text.parse().ok()).flatten()?;
    (value <= most).then_some(value)
}

fn trimmed(text: &str) -> Option<String> {
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// The table as Markdown, for `docs/configuration.md`.
pub fn markdown() -> String {
    let mut text = String::new();
    let mut section = |title: &str, columns: &str, rows: &dyn Fn(&mut String)| {
        let _ = writeln!(text, "### {title}\n\n{columns}");
        let width = columns.matches('|').count() - 1;
        let _ = writeln!(text, "|{}", "---|".repeat(width));
        rows(&mut text);
        text.push('\n');
    };
    let default = |setting: &Setting| match setting.default {
        "" => "none".to_owned(),
        value => format!("`{value}`"),
    };
    section(
        "Server: `--backend-config=tlaloc,<key>=<value>`",
        "| key | environment variable | default | range | meaning |",
        &|text| {
            for setting in TABLE {
                let Scope::Server(variable) = setting.scope else { continue };
                let _ = writeln!(
                    text,
                    "| `{}` | {} | {} | {} | {} |",
                    setting.key,
                    variable.map_or("none".to_owned(), |name| format!("`{name}`")),
                    default(setting),
                    setting.kind.range(),
                    setting.meaning
                );
            }
        },
    );
    section(
        "Model: `parameters` of `config.pbtxt`",
        "| key | default | range | meaning |",
        &|text| {
            for setting in TABLE.iter().filter(|setting| setting.scope == Scope::Model) {
                let _ = writeln!(
                    text,
                    "| `{}` | {} | {} | {} |",
                    setting.key,
                    default(setting),
                    setting.kind.range(),
                    setting.meaning
                );
            }
        },
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn model(parameters: Value) -> Result<ModelSettings, Error> {
        let mut written = serde_json::Map::new();
        for (key, value) in parameters.as_object().unwrap() {
            written.insert(key.clone(), json!({ "string_value": value }));
        }
        ModelSettings::read(&json!({ "parameters": written }))
    }

    #[test]
    fn model_defaults_are_the_documented_ones() {
        let read = model(json!({"serving_manifest": "tlaloc-serving.json", "kv_block_size": "x"}));
        assert_eq!(
            read.unwrap(),
            ModelSettings {
                serving_manifest: "tlaloc-serving.json".into(),
                plugin_path: None,
                execution: ExecutionSettings {
                    donate_kv_pools: true,
                    pack_step_inputs: true,
                    overlap_logits_copy: true,
                },
                backend_batching: true,
                cohort_wait: Duration::from_millis(20),
                prompt_wait: Duration::from_millis(2),
            }
        );
    }

    #[test]
    fn values_outside_their_range_are_refused_by_name() {
        for (key, value, fine) in [
            ("donate_kv_pools", "yes", "false"),
            ("donate_kv_pools", "True", "true"),
            ("pack_step_inputs", "", "true"),
            ("overlap_logits_copy", "1", "false"),
            ("backend_batching", " true", "true"),
            ("cohort_wait_microseconds", "10000001", "10000000"),
            ("cohort_wait_microseconds", "-1", "0"),
            ("prompt_wait_microseconds", "+5", "5"),
            ("prompt_wait_microseconds", "2.5", "2"),
            ("prompt_wait_microseconds", "99999999999999999999", "9"),
        ] {
            let error = model(json!({"serving_manifest": "m", key: value})).unwrap_err();
            let text = error.to_string();
            assert!(text.contains(&format!("the '{key}' parameter must be")), "{text}");
            assert!(text.ends_with(&format!("got '{value}'")), "{text}");
            assert!(model(json!({"serving_manifest": "m", key: fine})).is_ok(), "{key}={fine}");
        }
    }

    #[test]
    fn the_command_line_beats_the_environment() {
        let environment = |name: &str| match name {
            "TLALOC_PJRT_MEMORY_FRACTION" => Some("0.5".to_owned()),
            "TLALOC_PJRT_PREALLOCATE" => Some(String::new()),
            "TLALOC_CHAIN_STEPS" => Some("0".to_owned()),
            _ => None,
        };
        let read = ServerSettings::read(&json!({}), environment).unwrap();
        assert_eq!((read.memory_fraction, read.preallocate), (0.5, false));
        assert!(!read.chain_steps);
        let config = json!({"cmdline": {
            "memory-fraction": "0.25", "preallocate": "true", "pjrt-plugin-path": " /p.so ",
            "default-max-batch-size": "4"
        }});
        let read = ServerSettings::read(&config, environment).unwrap();
        assert_eq!((read.memory_fraction, read.preallocate), (0.25, true));
        assert_eq!(read.compile_cache_max, Some(10 << 30));
        assert_eq!(read.plugin_path.as_deref(), Some("/p.so"));
    }

    #[test]
    fn server_settings_are_checked_by_name() {
        for (key, value) in [
            ("memory-fraction", "0"),
            ("memory-fraction", "1.5"),
            ("preallocate", "on"),
            ("chain-steps", "false"),
            ("compile-cache-max-mib", "1.5"),
            ("compile-cache-max-mib", "1099511627777"),
        ] {
            let config = json!({ "cmdline": { key: value } });
            let error = ServerSettings::read(&config, |_| None).unwrap_err().to_string();
            assert!(error.contains(&format!("'{key}' setting must be")), "{error}");
        }
        let config = json!({"cmdline": {"memory_fraction": "0.5"}});
        let error = ServerSettings::read(&config, |_| None).unwrap_err().to_string();
        assert!(error.contains("tlaloc,memory_fraction=") && error.contains("memory-fraction"));
    }

    #[test]
    fn the_docs_hold_this_table() {
        let docs = std::fs::read_to_string("../docs/configuration.md").unwrap();
        assert!(docs.contains(&markdown()), "docs/configuration.md should hold:\n{}", markdown());
    }
}
