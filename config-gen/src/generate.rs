//! `config.pbtxt` of generation mode: every tensor is a key of the request table or an output of the
//! reply table.

use tlaloc_artifact::Artifact;
use tlaloc_generation::options::{REPLIES, Reply, defaults, tensors};

use crate::options::{Dialect, GenerateOptions, Speculation};
use crate::pbtxt::{Pbtxt, optional, tensor};
use crate::{Error, InstanceGroup, ModelName};

const MODE: &str = "Generation mode: a request carries a prompt; the backend chooses the tokens that \
    follow, batches all requests, and sends text and tokens back in one response, or in many with \
    'stream'.";

/// Inputs that only a model with a tokenizer has.
const TEXT_PROMPTS: [&str; 2] = ["text_input", "messages"];

pub(crate) fn config(
    artifact: &Artifact,
    name: &ModelName,
    options: &GenerateOptions,
    instance_group: &InstanceGroup,
) -> Result<String, Error> {
    if let Some(checkpoint) = &options.checkpoint {
        checkpoint.check(artifact)?;
    }
    if options.scheduler.speculation == Some(Speculation::PromptLookup) {
        check_speculation(artifact)?;
    }
    let mut mode = MODE.to_owned();
    match &options.checkpoint {
        None => mode.push_str(" There is no tokenizer: prompts and outputs are token ids."),
        Some(checkpoint) => {
            let ids: Vec<_> = checkpoint.end_ids().iter().map(i32::to_string).collect();
            mode.push_str(&format!(" End tokens: {}.", ids.join(", ")));
        }
    }
    mode.push_str(&format!(
        " Defaults of a request: {}.",
        defaults(artifact.draft_tokens() > 0).join(", ")
    ));
    // A request is one prompt, whether its tensors have a batch dimension or not.
    let max_batch_size = match options.dialect {
        Dialect::TrtLlm => 1,
        Dialect::Vllm => 0,
    };
    let mut config = Pbtxt::new(artifact, name, &mode, max_batch_size);
    config.line("model_transaction_policy { decoupled: true }");
    let text = options.checkpoint.is_some();
    let inputs = tensors().filter(|input| text || !TEXT_PROMPTS.contains(&input.name));
    let inputs = inputs.map(|input| {
        // Of several kinds of prompt a request has one.
        let declare = if text || input.name != "input_ids" { optional } else { tensor };
        declare(input.name, input.data_type.config_name(), input.dims)
    });
    config.list("input", &inputs.collect::<Vec<_>>());
    let outputs = REPLIES.iter().filter(|spec| text || spec.reply != Reply::TextOutput);
    let outputs = outputs.map(|spec| {
        tensor(spec.tensor.name, spec.tensor.data_type.config_name(), spec.tensor.dims)
    });
    config.list("output", &outputs.collect::<Vec<_>>());
    config.instance_group(instance_group);
    let manifest = artifact.manifest_path().file_name().unwrap_or_default();
    config.parameter("serving_manifest", manifest.to_string_lossy());
    config.parameter("mode", "generate");
    for (key, value) in options.scheduler.parameters() {
        config.parameter(key, value);
    }
    config.page_parameters(artifact);
    config.parameter("max_context", artifact.max_context());
    config.window_parameters(artifact);
    Ok(config.finish())
}

/// Drafts need programs that verify them, and a state that can forget the wrong ones.
fn check_speculation(artifact: &Artifact) -> Result<(), Error> {
    let refuse = |reason| Error::Speculation { model: artifact.model_name().to_owned(), reason };
    if artifact.draft_tokens() > 0 {
        return Err(refuse(
            "it has a draft head, whose own drafts are verified in every step; leave it out",
        ));
    }
    if artifact.linear_state().is_some() {
        return Err(refuse(
            "its linear-attention state cannot go back behind a draft that was wrong; leave it out",
        ));
    }
    if !artifact.entries().iter().any(|entry| entry.logits_columns > 1) {
        return Err(refuse(
            "it has no verify entries; export it with --verify-chunk, or leave it out",
        ));
    }
    Ok(())
}
