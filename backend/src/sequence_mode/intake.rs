//! What of a request the engine sees, read on Triton's thread (sequence mode §7).

use std::sync::Arc;

use tlaloc_engine::{Generation, Geometry, Refusal, SequenceId};
use tlaloc_pjrt::Client;
use triton_backend::{CorrelationId, DataType, ParameterValue, Request};

use crate::config::{Outputs, SequenceConfig};
use crate::gpu;

/// The outputs that a request is answered with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wants {
    /// Logits of the last token.
    pub logits: bool,
    /// KV pages held.
    pub pages: bool,
    /// The greedy next token, or the last of those given.
    pub next_token: bool,
    /// The tokens given.
    pub emitted: bool,
}

/// What was read of a request.
pub struct Parsed {
    /// The sequence; none for id 0.
    pub sequence: Option<SequenceId>,
    /// START.
    pub start: bool,
    /// END.
    pub end: bool,
    /// Its tokens, or why they are refused.
    pub tokens: Result<Vec<i32>, Refusal>,
    /// Its outputs.
    pub wants: Wants,
    /// How long it goes on by itself.
    pub generation: Option<Generation>,
}

/// Reads a request. `tokens` is an empty vector to fill, `bytes` is for use in between.
pub fn parse(
    request: &Request,
    config: &SequenceConfig,
    geometry: &Geometry,
    client: &Client,
    backend_batching: bool,
    tokens: Vec<i32>,
    bytes: &mut Vec<u8>,
) -> Parsed {
    let flags = request.flags();
    let sequence = match request.correlation_id() {
        CorrelationId::None => None,
        CorrelationId::Number(id) => Some(SequenceId::Number(id)),
        CorrelationId::Text(id) => Some(SequenceId::Text(Arc::from(id.as_str()))),
    };
    let mut generation = None;
    let tokens = read_tokens(request, &config.tokens, client, tokens, bytes).and_then(|tokens| {
        check_id(sequence.as_ref(), config)?;
        generation = read_generation(request, config, backend_batching)?;
        geometry.check_tokens(&tokens, flags.start, flags.end)?;
        Ok(tokens)
    });
    Parsed {
        sequence,
        start: flags.start,
        end: flags.end,
        tokens,
        wants: wants(request, &config.outputs),
        generation,
    }
}

fn wants(request: &Request, outputs: &Outputs) -> Wants {
    let mut wants = Wants::default();
    for name in request.requested_outputs().map(Some) {
        wants.logits |= name == outputs.logits.as_deref();
        wants.pages |= name == outputs.pages.as_deref();
        wants.next_token |= name == outputs.next_token.as_deref();
        wants.emitted |= name == outputs.emitted.as_deref();
    }
    wants
}

/// Triton writes a text id, behind 4 bytes of length, to the CORRID tensor of 8 bytes. A longer one
/// overruns the server's heap before the backend sees the request, so its client has to be told.
fn check_id(sequence: Option<&SequenceId>, config: &SequenceConfig) -> Result<(), Refusal> {
    match sequence {
        Some(SequenceId::Text(id)) if config.controls && id.len() > 4 => {
            Err(Refusal::Malformed(format!(
                "the text correlation id {id:?} is longer than the 4 bytes for which this model's \
                 CORRID control has room in Triton: use a number, or serve the model without \
                 control_input"
            )))
        }
        _ => Ok(()),
    }
}

/// The parameters `max_tokens` and `end_tokens`. Others are not ours.
fn read_generation(
    request: &Request,
    config: &SequenceConfig,
    backend_batching: bool,
) -> Result<Option<Generation>, Refusal> {
    let (mut max_tokens, mut end_tokens) = (0, Vec::new());
    for (name, value) in request.parameters() {
        let wrong =
            |what: String| Err(Refusal::Malformed(format!("request parameter '{name}' {what}")));
        match (name, numbers(&value).as_deref()) {
            ("max_tokens", Some([most])) => match usize::try_from(*most) {
                Ok(0) => {}
                Ok(_) if config.outputs.emitted.is_none() => {
                    return wrong(format!(
                        "is {value}, but the model has no tokens output: it answers with logits, \
                         one request per step"
                    ));
                }
                Ok(_) if !backend_batching => {
                    return wrong(format!(
                        "is {value}, but backend_batching is false: the backend then runs the \
                         batches that Triton forms, one request per step"
                    ));
                }
                Ok(most) => max_tokens = most,
                Err(_) => return wrong(format!("must not be negative, got {value}")),
            },
            ("max_tokens", _) => return wrong(format!("must be one whole number, got {value}")),
            // What is no token id never comes.
            ("end_tokens", Some(ids)) => {
                end_tokens.extend(ids.iter().filter_map(|id| i32::try_from(*id).ok()));
            }
            ("end_tokens", None) => return wrong(format!("must be whole numbers, got {value}")),
            _ => {}
        }
    }
    Ok((max_tokens > 0).then_some(Generation { max_tokens, end_tokens }))
}

/// A whole number, or text with comma-separated ones.
fn numbers(value: &ParameterValue<'_>) -> Option<Vec<i64>> {
    match value {
        ParameterValue::Int(number) => Some(vec![*number]),
        ParameterValue::String(text) => text
            .split(',')
            .map(str::trim)
            .filter(|item| !item.is_empty())
            .map(|item| item.parse().ok())
            .collect(),
        _ => None,
    }
}

fn read_tokens(
    request: &Request,
    name: &str,
    client: &Client,
    mut tokens: Vec<i32>,
    bytes: &mut Vec<u8>,
) -> Result<Vec<i32>, Refusal> {
    let input = request.input(name).map_err(|error| Refusal::Malformed(error.to_string()))?;
    let wrong = |what: String| {
        Refusal::Malformed(format!(
            "input '{name}' must be INT32 [1, n] with one sequence's tokens, got {what}"
        ))
    };
    if input.data_type() != DataType::Int32 {
        return Err(wrong(input.data_type().to_string()));
    }
    let [1, count] = input.shape() else {
        return Err(wrong(format!("shape {:?}", input.shape())));
    };
    gpu::read_input(&input, bytes, client)
        .map_err(|error| Refusal::Malformed(error.to_string()))?;
    let whole = usize::try_from(*count).ok().and_then(|count| count.checked_mul(4));
    if whole != Some(bytes.len()) {
        return Err(wrong(format!("{} bytes for {count} tokens", bytes.len())));
    }
    let values = bytes.chunks_exact(4).filter_map(|token| token.try_into().ok());
    tokens.extend(values.map(i32::from_le_bytes));
    Ok(tokens)
}
