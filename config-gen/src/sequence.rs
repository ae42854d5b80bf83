//! `config.pbtxt` of sequence mode (sequence mode §2).

use tlaloc_artifact::Artifact;

use crate::pbtxt::{Pbtxt, quoted};
use crate::{Error, InstanceGroup, ModelName, SequenceOptions};

const MODE: &str = "Sequence mode: a request carries token ids of one sequence, named by its \
    correlation id, with START on its first request and END on its last. The backend keeps the \
    sequence's KV pages, batches the steps of all sequences and answers with what follows the last \
    token sent.";

pub(crate) fn config(
    artifact: &Artifact,
    name: &ModelName,
    options: &SequenceOptions,
    instance_group: &InstanceGroup,
) -> Result<String, Error> {
    let speculative = artifact.draft_tokens() > 0;
    if options.decoupled && !speculative {
        return Err(Error::Decoupled {
            model: artifact.model_name().to_owned(),
            version: artifact.version().manifest_name(),
        });
    }
    let batch = artifact.max_decode_batch();
    let mut config = Pbtxt::new(artifact, name, MODE, batch);
    config.list(
        "input",
        &["{ name: \"TOKENS\" data_type: TYPE_INT32 dims: [ -1 ] allow_ragged_batch: true }"
            .into()],
    );
    if options.decoupled {
        config.line("model_transaction_policy { decoupled: true }");
    }
    let answer = if speculative {
        "{ name: \"NEXT_TOKENS\" data_type: TYPE_INT32 dims: [ -1 ] }".to_owned()
    } else {
        format!("{{ name: \"LOGITS\" data_type: TYPE_FP32 dims: [ {} ] }}", artifact.vocab_size())
    };
    config.list(
        "output",
        &[
            answer,
            "{ name: \"KV_PAGES\" data_type: TYPE_INT32 dims: [ 2 ] }".to_owned(),
            "{ name: \"NEXT_TOKEN\" data_type: TYPE_INT32 dims: [ 1 ] }".to_owned(),
        ],
    );
    config.line("sequence_batching {");
    config.line(format_args!("  max_sequence_idle_microseconds: {}", options.max_sequence_idle));
    let flag = |name, kind| control(name, kind, "int32_false_true: [ 0, 1 ]");
    let controls = [
        flag("START", "CONTROL_SEQUENCE_START"),
        flag("END", "CONTROL_SEQUENCE_END"),
        control("CORRID", "CONTROL_SEQUENCE_CORRID", "data_type: TYPE_UINT64"),
    ];
    config.line(format_args!("  control_input [\n    {}\n  ]", controls.join(",\n    ")));
    config.line("  oldest {");
    let candidates = max_candidate_sequences(artifact);
    config.line(format_args!("    max_candidate_sequences: {candidates}"));
    config.line(format_args!("    preferred_batch_size: [ {batch} ]"));
    config.line(format_args!("    max_queue_delay_microseconds: {}", options.max_queue_delay));
    config.line("  }\n}");
    config.instance_group(instance_group);
    let manifest = artifact.manifest_path().file_name().unwrap_or_default();
    config.parameter("serving_manifest", manifest.to_string_lossy());
    config.page_parameters(artifact);
    config.parameter("max_context", artifact.max_context());
    config.window_parameters(artifact);
    Ok(config.finish())
}

fn control(name: &str, kind: &str, value: &str) -> String {
    format!("{{ name: {} control [ {{ kind: {kind} {value} }} ] }}", quoted(name))
}

/// Sequences that can be live at once: each takes at least one page of every class (page 0 serves
/// padding) and, with linear-attention state, its state slots.
fn max_candidate_sequences(artifact: &Artifact) -> usize {
    let windowed = artifact.windowed().map_or(usize::MAX, |windowed| windowed.num_blocks);
    let pages = artifact.num_blocks().min(windowed).saturating_sub(1).max(1);
    let slots_each = match artifact.draft_tokens() {
        0 => 1,
        drafts => drafts + 2,
    };
    artifact.linear_state().map_or(pages, |state| pages.min(state.num_slots / slots_each))
}
