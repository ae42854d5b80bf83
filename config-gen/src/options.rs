//! How a model is to be served.

use std::str::FromStr;

use crate::Error;

/// Everything that the artifact itself does not say.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Who keeps the sequences' KV pages.
    pub kv_mode: KvMode,
    /// Where instances run.
    pub instance_group: InstanceGroup,
}

/// Who keeps the sequences' KV pages.
#[derive(Clone, Debug)]
pub enum KvMode {
    /// The backend: a request is one step of a sequence.
    Sequence(SequenceOptions),
    /// The client: a request fills block tables and slot mappings itself.
    Client,
}

impl Default for KvMode {
    fn default() -> Self {
        KvMode::Sequence(SequenceOptions::default())
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
