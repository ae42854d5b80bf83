//! Configs of multimodal models, read as their text decoders.

use crate::Error;
use crate::checkpoint::Config;
use crate::spec::{ModelSpec, RefusedToken};

/// Keys that name the placeholder of an input that a text decoder cannot take.
const PLACEHOLDERS: [&str; 4] =
    ["image_token_id", "image_token_index", "video_token_id", "audio_token_id"];

/// Reads the text decoder in `text_config`, whose `model_type` is `text_type`, by `read`. Of the top
/// level, the vision part and the keys in `ignored` are without effect on text; placeholder tokens
/// are refused by whoever serves the model.
pub(super) fn read(
    config: &mut Config,
    text_type: &str,
    ignored: &[&str],
    read: fn(&mut Config) -> Result<ModelSpec, Error>,
) -> Result<ModelSpec, Error> {
    config.ignore("vision_config");
    for key in ignored {
        config.ignore(key);
    }
    let tied = config.boolean("tie_word_embeddings")?;
    let text = config.nested("text_config")?;
    let mut text = config.require("text_config", text)?;
    text.only("model_type", text_type)?;
    text.unset("quantization_config")?;
    if let Some(tied) = tied {
        text.inherit("tie_word_embeddings", tied)?;
    }
    let mut spec = read(&mut text)?;
    text.finish()?;

    for config_key in PLACEHOLDERS {
        let Some(id) = config.whole(config_key)? else { continue };
        if id >= spec.vocab_size {
            let reason = format!("is {id}, beyond the vocabulary of {}", spec.vocab_size);
            return Err(config.refuse(config_key, reason));
        }
        if !spec.refused_tokens.iter().any(|token| token.id == id) {
            spec.refused_tokens.push(RefusedToken { id, config_key });
        }
    }
    spec.refused_tokens.sort();
    Ok(spec)
}
