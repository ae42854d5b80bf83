//! Settings of generation mode.

use serde_json::Value;

use super::{
    Error, ExecutionSettings, Kind, MODEL_PLUGIN, SERVING_MANIFEST, Scope, Setting, Written,
    parameter, trimmed,
};

const MODES: &[&str] = &["sequence", "generate"];
const POLICIES: &[&str] = &["guaranteed_no_evict", "max_utilization"];
const SPECULATIONS: &[&str] = &["none", "prompt_lookup"];

/// How a serving artifact is served.
pub const MODE: Setting = Setting {
    key: "mode",
    scope: Scope::Model,
    kind: Kind::Choice(MODES),
    default: "sequence",
    meaning: "with `serving_manifest`: whether clients drive every token of a sequence, or the server \
              generates",
};
/// Bound of the queue.
pub const MAX_QUEUE_SIZE: Setting = Setting {
    key: "max_queue_size",
    scope: Scope::Model,
    kind: Kind::Count(1, 1_000_000),
    default: "1024",
    meaning: "generation mode: requests of an instance that may wait to run; others are refused as \
              UNAVAILABLE",
};
/// Bound of the requests that run.
pub const MAX_RUNNING: Setting = Setting {
    key: "max_running",
    scope: Scope::Model,
    kind: Kind::Count(1, 1_000_000),
    default: "",
    meaning: "generation mode: requests of an instance that run at once; without it four times the \
              largest decode batch",
};
/// How much of prompts comes between two tokens of a stream.
pub const MAX_PREFILL_TOKENS: Setting = Setting {
    key: "max_prefill_tokens_per_step",
    scope: Scope::Model,
    kind: Kind::Count(1, 1_000_000_000),
    default: "512",
    meaning: "generation mode: prompt tokens, with padding, that are taken in between two tokens of \
              the running streams; larger: prompts start sooner, streams pause longer",
};
/// What a request reserves.
pub const SCHEDULER_POLICY: Setting = Setting {
    key: "batch_scheduler_policy",
    scope: Scope::Model,
    kind: Kind::Choice(POLICIES),
    default: "guaranteed_no_evict",
    meaning: "generation mode: whether a request reserves all KV pages that it may come to need, or \
              grows page by page and may be preempted",
};
/// Host memory for preempted requests.
pub const SWAP_SPACE: Setting = Setting {
    key: "swap_space_mib",
    scope: Scope::Model,
    kind: Kind::Count(0, 1 << 24),
    default: "1024",
    meaning: "generation mode with `max_utilization`: MiB of host memory of an instance for the KV \
              pages of preempted requests; 0: they are computed again",
};
/// Whether tokens are drafted.
pub const SPECULATION: Setting = Setting {
    key: "speculation",
    scope: Scope::Model,
    kind: Kind::Choice(SPECULATIONS),
    default: "none",
    meaning: "generation mode: whether tokens are drafted from a request's own history and verified \
              several at once; needs an artifact with verify entries, and none with a draft head, \
              which drafts by itself",
};
/// Drafts of a call.
pub const LOOKUP_MAX_DRAFTS: Setting = Setting {
    key: "prompt_lookup_max_drafts",
    scope: Scope::Model,
    kind: Kind::Count(1, 1024),
    default: "8",
    meaning: "with `prompt_lookup`: drafts of a request in a call at most, as far as the artifact's \
              verify entries take them",
};
/// Shortest match.
pub const LOOKUP_MIN_NGRAM: Setting = Setting {
    key: "prompt_lookup_min_ngram",
    scope: Scope::Model,
    kind: Kind::Count(1, 64),
    default: "2",
    meaning: "with `prompt_lookup`: newest tokens that must occur earlier in the history",
};
/// Longest match.
pub const LOOKUP_MAX_NGRAM: Setting = Setting {
    key: "prompt_lookup_max_ngram",
    scope: Scope::Model,
    kind: Kind::Count(1, 64),
    default: "4",
    meaning: "with `prompt_lookup`: newest tokens that are compared; of several places the one where \
              most are equal is used",
};

/// Whether and how tokens are drafted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speculation {
    /// They are not.
    None,
    /// From the request's own history.
    PromptLookup {
        /// `prompt_lookup_max_drafts`.
        max_drafts: usize,
        /// `prompt_lookup_min_ngram`.
        min_ngram: usize,
        /// `prompt_lookup_max_ngram`.
        max_ngram: usize,
    },
}

/// Settings of one generation-mode model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GenerationSettings {
    /// `serving_manifest`, relative to the version directory.
    pub serving_manifest: String,
    /// `pjrt_plugin_path`.
    pub plugin_path: Option<String>,
    /// How its calls are executed.
    pub execution: ExecutionSettings,
    /// `max_queue_size`.
    pub max_queue_size: usize,
    /// `max_running`.
    pub max_running: Option<usize>,
    /// `max_prefill_tokens_per_step`.
    pub max_prefill_tokens_per_step: usize,
    /// `batch_scheduler_policy` is `max_utilization`.
    pub max_utilization: bool,
    /// `swap_space_mib`.
    pub swap_space_mib: usize,
    /// `speculation`.
    pub speculation: Speculation,
}

impl GenerationSettings {
    /// Whether the parameters choose generation mode.
    ///
    /// # Errors
    /// [`Error::Value`].
    pub(super) fn chosen(config: &Value) -> Result<bool, Error> {
        Ok(Written::parameter(config, &MODE).choice(&MODE)? == 1)
    }

    /// Reads them from a model's configuration.
    ///
    /// # Errors
    /// [`Error::Value`], [`Error::Together`].
    pub fn read(config: &Value) -> Result<Self, Error> {
        let text = |setting: &Setting| parameter(config, setting.key).and_then(trimmed);
        let count = |setting: &Setting| Written::parameter(config, setting).count(setting);
        let choice = |setting: &Setting| Written::parameter(config, setting).choice(setting);
        let max_running = match parameter(config, MAX_RUNNING.key) {
            Some(_) => Some(count(&MAX_RUNNING)?),
            None => None,
        };
        let (max_drafts, min_ngram, max_ngram) =
            (count(&LOOKUP_MAX_DRAFTS)?, count(&LOOKUP_MIN_NGRAM)?, count(&LOOKUP_MAX_NGRAM)?);
        if min_ngram > max_ngram {
            return Err(Error::Together {
                first: LOOKUP_MIN_NGRAM.key,
                first_value: min_ngram.to_string(),
                second: LOOKUP_MAX_NGRAM.key,
                second_value: max_ngram.to_string(),
                reason: "the first must not exceed the second",
            });
        }
        Ok(GenerationSettings {
            serving_manifest: text(&SERVING_MANIFEST).unwrap_or_default(),
            plugin_path: text(&MODEL_PLUGIN),
            execution: ExecutionSettings::read(config)?,
            max_queue_size: count(&MAX_QUEUE_SIZE)?,
            max_running,
            max_prefill_tokens_per_step: count(&MAX_PREFILL_TOKENS)?,
            max_utilization: choice(&SCHEDULER_POLICY)? == 1,
            swap_space_mib: count(&SWAP_SPACE)?,
            speculation: match choice(&SPECULATION)? {
                0 => Speculation::None,
                _ => Speculation::PromptLookup { max_drafts, min_ngram, max_ngram },
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(parameters: &[(&str, &str)]) -> Result<GenerationSettings, Error> {
        let written: serde_json::Map<_, _> = parameters
            .iter()
            .map(|(key, value)| ((*key).to_owned(), json!({ "string_value": value })))
            .collect();
        GenerationSettings::read(&json!({ "parameters": written }))
    }

    #[test]
    fn the_defaults_are_the_documented_ones() {
        assert_eq!(
            read(&[("serving_manifest", "m.json")]).unwrap(),
            GenerationSettings {
                serving_manifest: "m.json".into(),
                plugin_path: None,
                execution: ExecutionSettings {
                    donate_kv_pools: true,
                    pack_step_inputs: true,
                    overlap_logits_copy: true,
                },
                max_queue_size: 1024,
                max_running: None,
                max_prefill_tokens_per_step: 512,
                max_utilization: false,
                swap_space_mib: 1024,
                speculation: Speculation::None,
            }
        );
    }

    #[test]
    fn values_outside_their_range_are_refused_by_name() {
        for (key, value, fine) in [
            ("max_queue_size", "0", "1"),
            ("max_running", "", "7"),
            ("max_running", "many", "1000000"),
            ("max_prefill_tokens_per_step", "0", "1"),
            ("batch_scheduler_policy", "static_batch", "max_utilization"),
            ("swap_space_mib", "-1", "0"),
            ("speculation", "medusa", "prompt_lookup"),
            ("prompt_lookup_max_drafts", "0", "1024"),
            ("prompt_lookup_min_ngram", "65", "1"),
            ("prompt_lookup_max_ngram", "x", "64"),
        ] {
            let error = read(&[(key, value)]).unwrap_err().to_string();
            assert!(error.contains(&format!("the '{key}' parameter must be")), "{error}");
            assert!(error.ends_with(&format!("got '{value}'")), "{error}");
            assert!(read(&[(key, fine)]).is_ok(), "{key}={fine}");
        }
        let error = read(&[("prompt_lookup_min_ngram", "5")]).unwrap_err().to_string();
        assert!(error.contains("is 5, but 'prompt_lookup_max_ngram' is 4"), "{error}");
    }
}
