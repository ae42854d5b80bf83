//! Model families: how each one's checkpoints spell a [`ModelSpec`].
//!
//! A family is a config reader and a table of tensor names, nothing else.

mod decoder;
mod gemma;
mod llama;
mod mistral;
mod moe;
mod muse_glimmer;
mod nested;
mod qwen;
mod qwen_next;
mod rope;
mod source;

use std::collections::BTreeMap;

use crate::Error;
use crate::checkpoint::{Config, StoredTensor, StoredWeight, Tensors};
use crate::slots::{ModelWeights, WeightSlot};
use crate::spec::{ModelSpec, Role};
use source::Source;

/// One family of checkpoints.
pub struct Family {
    /// `model_type` in `config.json`.
    model_type: &'static str,
    /// The only entry that `architectures` may have.
    architecture: &'static str,
    /// Reads the whole config.
    read: fn(&mut Config) -> Result<ModelSpec, Error>,
    /// Where the checkpoint keeps a weight.
    source: fn(&ModelSpec, Role, &Tensors) -> Source,
    /// Whether a tensor is without effect on text: a leftover that follows from the config, or of
    /// another part of the model.
    ignorable: fn(&str) -> bool,
}

const FAMILIES: &[Family] = &[
    llama::FAMILY,
    mistral::FAMILY,
    qwen::QWEN2,
    qwen::QWEN3,
    qwen::QWEN3_MOE,
    qwen_next::QWEN3_NEXT,
    qwen_next::QWEN3_5_TEXT,
    qwen_next::QWEN3_5,
    qwen_next::QWEN3_5_MOE_TEXT,
    qwen_next::QWEN3_5_MOE,
    gemma::GEMMA2,
    gemma::GEMMA3_TEXT,
    gemma::GEMMA3,
    muse_glimmer::FAMILY,
];

/// The weights of a model, each in its file, of the right shape.
pub type Weights = BTreeMap<Role, StoredWeight>;

/// Reads a checkpoint's config.
///
/// # Errors
/// When the family is unknown, or any key asks for something that is not computed.
pub fn read(mut config: Config) -> Result<(&'static Family, ModelSpec), Error> {
    let model_type = config.text("model_type")?;
    let model_type = config.require("model_type", model_type)?;
    let family = FAMILIES.iter().find(|f| f.model_type == model_type).ok_or_else(|| {
        let known: Vec<_> = FAMILIES.iter().map(|f| f.model_type).collect();
        config.refuse("model_type", format!("is '{model_type}'; known are {}", known.join(", ")))
    })?;
    config.only("architectures", vec![family.architecture])?;
    config.unset("quantization_config")?;
    let spec = (family.read)(&mut config)?;
    config.finish()?;
    Ok((family, spec))
}

impl Family {
    /// Finds every weight that `slots` hold among a checkpoint's tensors.
    ///
    /// # Errors
    /// When a tensor is missing, unknown, of another shape or of an unknown element type, or when a
    /// model with a tied head comes with a head that differs from its embedding.
    pub fn weights(
        &self,
        spec: &ModelSpec,
        slots: &ModelWeights<WeightSlot>,
        mut tensors: Tensors,
    ) -> Result<Weights, Error> {
        let mut weights = Weights::new();
        for part in slots.iter().flat_map(|slot| &slot.parts) {
            // A quantised projection has its codes in one slot and its scales in another.
            if weights.contains_key(&part.role) {
                continue;
            }
            let source = (self.source)(spec, part.role, &tensors);
            weights.insert(part.role, source.find(&mut tensors, &part.dims)?);
        }
        if spec.head.tied {
            let source = (self.source)(spec, Role::Head, &tensors);
            if let Some(embedding) = weights.get(&Role::Embedding)
                && tensors.has(&source.tensor)
            {
                let head = source.find(&mut tensors, &embedding.dims)?;
                require_equal(&head.tensor, &embedding.tensor)?;
            }
        }
        tensors.finish(self.ignorable)?;
        Ok(weights)
    }
}

/// Refuses `head` unless it holds the values of `embedding`, which has the same shape.
fn require_equal(head: &StoredTensor, embedding: &StoredTensor) -> Result<(), Error> {
    const CHUNK: usize = 1 << 20;
    let (head_type, embedding_type) = (head.stored()?, embedding.stored()?);
    let elements = head.elements();
    let (mut a, mut b) = (Vec::new(), Vec::new());
    for first in (0..elements).step_by(CHUNK) {
        let count = CHUNK.min(elements - first);
        a.resize(count * head_type.size(), 0);
        b.resize(count * embedding_type.size(), 0);
        head.read(first, &mut a)?;
        embedding.read(first, &mut b)?;
        let values = a.chunks_exact(head_type.size()).map(|x| head_type.value(x));
        let expected = b.chunks_exact(embedding_type.size()).map(|x| embedding_type.value(x));
        if values.zip(expected).any(|(x, y)| x.to_bits() != y.to_bits()) {
            return Err(head.refuse(format!(
                "differs from '{}', though the config ties them (tie_word_embeddings)",
                embedding.name()
            )));
        }
    }
    Ok(())
}
