//! How a model is to be served.

use std::str::FromStr;

use crate::{Checkpoint, Error};

/// Everything that the artifact itself does not say.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// What a request is.
    pub mode: Mode,
    /// Where instances run.
    pub instance_group: InstanceGroup,
}

/// What a request is.
#[derive(Clone, Debug)]
pub enum Mode {
    /// One step of a sequence, whose KV pages the backend keeps.
    Sequence(SequenceOptions),
    /// One execution: the client keeps the KV pages, and fills block tables and slot mappings.
    Client,
    /// A prompt, to be continued by the backend.
    Generate(GenerateOptions),
}

impl Default for Mode {
    fn default() -> Self {
        Mode::Sequence(SequenceOptions::default())
    }
}

/// What only generation mode has.
#[derive(Clone, Debug, Default)]
pub struct GenerateOptions {
    /// Tokenizer, chat template and end tokens; none: prompts and outputs are token ids alone.
    pub checkpoint: Option<Checkpoint>,
    /// Shapes of the tensors.
    pub dialect: Dialect,
    /// The scheduler's parameters, where they are not the backend's defaults.
    pub scheduler: SchedulerOptions,
}

/// Whose clients the model is for: tensors have the same names in both, but not the same ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// TensorRT-LLM's: a batch dimension of 1 in front. Triton's front end for OpenAI's API sends
    /// this to every backend but vLLM's.
    #[default]
    TrtLlm,
    /// vLLM's: no batch dimension.
    Vllm,
}

/// Parameters of the scheduler; none stands for the backend's default.
#[derive(Clone, Debug, Default)]
pub struct SchedulerOptions {
    /// Requests that may wait.
    pub max_queue_size: Option<u32>,
    /// Requests that run at once.
    pub max_running: Option<u32>,
    /// Prompt tokens that are taken in between two tokens of the running streams.
    pub max_prefill_tokens_per_step: Option<u32>,
    /// What a request reserves.
    pub policy: Option<Policy>,
    /// MiB of host memory for the KV pages of preempted requests.
    pub swap_space_mib: Option<u32>,
    /// Whether tokens are drafted.
    pub speculation: Option<Speculation>,
}

/// What a request reserves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// All KV pages that it may come to need.
    GuaranteedNoEvict,
    /// A page more than its prompt; it may be preempted.
    MaxUtilization,
}

/// Whether tokens are drafted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speculation {
    /// They are not.
    None,
    /// From a request's own history; needs verify entries.
    PromptLookup,
}

impl SchedulerOptions {
    /// The model's parameters.
    pub(crate) fn parameters(&self) -> impl Iterator<Item = (&'static str, String)> {
        let number = |value: Option<u32>| value.map(|value| value.to_string());
        let policy = self.policy.map(|policy| match policy {
            Policy::GuaranteedNoEvict => "guaranteed_no_evict".to_owned(),
            Policy::MaxUtilization => "max_utilization".to_owned(),
        });
        let speculation = self.speculation.map(|speculation| match speculation {
            Speculation::None => "none".to_owned(),
            Speculation::PromptLookup => "prompt_lookup".to_owned(),
        });
        [
            ("max_queue_size", number(self.max_queue_size)),
            ("max_running", number(self.max_running)),
            ("max_prefill_tokens_per_step", number(self.max_prefill_tokens_per_step)),
            ("batch_scheduler_policy", policy),
            ("swap_space_mib", number(self.swap_space_mib)),
            ("speculation", speculation),
        ]
        .into_iter()
        .filter_map(|(key, value)| Some((key, value?)))
    }
}

/// What only sequence mode has.
#[derive(Clone, Debug)]
pub struct SequenceOptions {
    /// Microseconds after which Triton ends a silent sequence.
    pub max_sequence_idle: u64,
    /// Microseconds that Triton holds requests back to form a batch.
    pub max_queue_delay: u64,
    /// Whether a request may have several responses; only for speculative models.
    pub decoupled: bool,
}

impl SequenceOptions {
    /// A minute.
    pub const MAX_SEQUENCE_IDLE: u64 = 60_000_000;
    /// None: the backend forms batches itself.
    pub const MAX_QUEUE_DELAY: u64 = 0;
}

impl Default for SequenceOptions {
    fn default() -> Self {
        SequenceOptions {
            max_sequence_idle: Self::MAX_SEQUENCE_IDLE,
            max_queue_delay: Self::MAX_QUEUE_DELAY,
            decoupled: false,
        }
    }
}

/// Where instances run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum InstanceGroup {
    /// Where the backend decides; one instance. Fits machines with and without GPUs.
    #[default]
    Model,
    /// On the CPU; one instance.
    Cpu,
    /// On these GPUs; one instance on each.
    Gpu(Vec<u32>),
}

impl FromStr for InstanceGroup {
    type Err = Error;

    /// `model`, `cpu`, or `gpu:` with comma-separated, different GPU numbers.
    fn from_str(text: &str) -> Result<InstanceGroup, Error> {
        let unknown = || Error::InstanceGroup(text.to_owned());
        match text {
            "model" => return Ok(InstanceGroup::Model),
            "cpu" => return Ok(InstanceGroup::Cpu),
            _ => {}
        }
        let mut gpus = Vec::new();
        for number in text.strip_prefix("gpu:").ok_or_else(unknown)?.split(',') {
            let gpu = number.parse().map_err(|_| unknown())?;
            if gpus.contains(&gpu) {
                return Err(unknown());
            }
            gpus.push(gpu);
        }
        Ok(InstanceGroup::Gpu(gpus))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instance_groups() {
        assert_eq!("model".parse::<InstanceGroup>().unwrap(), InstanceGroup::Model);
        assert_eq!("cpu".parse::<InstanceGroup>().unwrap(), InstanceGroup::Cpu);
        assert_eq!("gpu:0,1".parse::<InstanceGroup>().unwrap(), InstanceGroup::Gpu(vec![0, 1]));
        for text in ["", "gpu", "gpu:", "gpu:0,", "gpu:-1", "gpu:0,0", "gpu:a", "GPU:0", "tpu:0"] {
            let error = text.parse::<InstanceGroup>().unwrap_err();
            assert!(matches!(error, Error::InstanceGroup(ref found) if found == text), "{text}");
        }
    }
}
