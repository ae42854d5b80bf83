//! What a request says, read and checked on Triton's thread: nothing of the request's memory is used
//! afterwards, and what is wrong is refused before anything is queued.

use std::hash::{BuildHasher, RandomState};

use tlaloc_engine::{Geometry, Nanos};
use tlaloc_generation::options::{GenerationRequest, Given, Prompt, Source, Value};
use tlaloc_pjrt::Client;
use triton_backend::{DataType, Error, Input, ParameterValue, Request, read_strings};

use super::GenerationModel;
use super::job::Plan;
use crate::gpu;

/// Parameters that are for the server's front ends.
const FRONT_END_PREFIX: &str = "triton_";

/// Reads a request.
///
/// # Errors
/// What is wrong with it, for the client.
pub fn read(
    request: &Request,
    model: &GenerationModel,
    geometry: &Geometry,
    client: &Client,
    at: Nanos,
) -> Result<Plan, Error> {
    let refused = |error: &dyn std::fmt::Display| {
        Error::invalid_argument(format!("model '{}': {error}", model.name))
    };
    let given = given(request, client).map_err(|error| match error {
        // Where the tensor is, or what the server said, is no flaw of the client's.
        Error::InputMemory { .. } | Error::Call { .. } => error,
        error => refused(&error),
    })?;
    let read = GenerationRequest::read(&given, &model.facts).map_err(|error| refused(&error))?;
    let GenerationRequest { prompt, options, wants } = read;
    if options.stream && !model.config.decoupled {
        return Err(refused(
            &"'stream' is true, but the model is served with one response to a request: send false, \
              or declare model_transaction_policy { decoupled: true }",
        ));
    }
    let words = || {
        let words = model.words.as_ref();
        words.ok_or_else(|| refused(&"it has no tokenizer; send 'input_ids'"))
    };
    let echo = !options.exclude_input_in_output;
    let (tokens, text) = match prompt {
        Prompt::Ids(ids) => (ids, None),
        Prompt::Text(text) => {
            let words = words()?;
            let encoded = words.tokenizer.encode_prompt(
                &text,
                options.add_special_tokens,
                model.facts.max_context,
            );
            (encoded.map_err(|error| refused(&error))?, Some(text))
        }
        Prompt::Messages(messages) => {
            let words = words()?;
            let text = words.render(&messages).map_err(|error| refused(&error))?;
            let encoded = words.tokenizer.encode_prompt(&text, false, model.facts.max_context);
            (encoded.map_err(|error| refused(&error))?, Some(text))
        }
    };
    geometry.check_tokens(&tokens, false, false).map_err(|refusal| refused(&refusal))?;
    let max_tokens =
        options.max_tokens_after(tokens.len(), &model.facts).map_err(|error| refused(&error))?;
    let end_ids = options.end_ids(&model.end_ids);
    let mut bad_words = Vec::new();
    for word in &options.bad_words {
        let spellings = words()?.tokenizer.encode_bad_word(word);
        bad_words.extend(spellings.map_err(|error| refused(&error))?);
    }
    // The hasher's keys are random.
    let seed = options.seed.unwrap_or_else(|| RandomState::new().hash_one(0));
    let sampling = options.sampling(seed, bad_words, &end_ids);
    let requested = |name: &str| request.wants(name);
    let outputs = model
        .config
        .outputs
        .iter()
        .enumerate()
        .filter(|(_, output)| wants.has(output.reply) && requested(output.reply.name()));
    let outputs: Vec<usize> = outputs.map(|(index, _)| index).collect();
    let timeout = options.timeout.map(|timeout| Nanos::try_from(timeout.as_nanos()));
    let timeout = timeout.map(|nanos| nanos.unwrap_or(Nanos::MAX));
    Ok(Plan {
        prompt_text: text.filter(|_| echo),
        prompt_ids: echo.then(|| tokens.clone()),
        prompt: tokens,
        max_tokens,
        end_ids,
        sampling,
        outputs,
        timeout,
        at,
        options,
    })
}

/// Every input and parameter of a request, copied.
fn given(request: &Request, client: &Client) -> Result<Vec<Given>, Error> {
    let mut given = Vec::new();
    let mut bytes = Vec::new();
    for input in request.inputs() {
        let input = input?;
        given.push(Given::new(Source::Tensor, input.name(), tensor(&input, client, &mut bytes)?));
    }
    for (name, value) in request.parameters() {
        if name.starts_with(FRONT_END_PREFIX) {
            continue;
        }
        let value = match value {
            ParameterValue::String(text) => Value::text(text),
            ParameterValue::Int(number) => Value::Integers(vec![number.into()]),
            ParameterValue::Bool(flag) => Value::Flags(vec![flag]),
            ParameterValue::Double(number) => Value::Numbers(vec![number]),
            _ => Value::Other { data_type: "an unknown type".to_owned(), count: 1 },
        };
        given.push(Given::new(Source::Parameter, name, value));
    }
    // Triton keeps it apart from the other parameters.
    if let Some(timeout) = request.timeout() {
        let microseconds = i128::try_from(timeout.as_micros()).unwrap_or(i128::MAX);
        let value = Value::Integers(vec![microseconds]);
        given.push(Given::new(Source::Parameter, "timeout", value));
    }
    Ok(given)
}

/// The elements of an input, whatever its shape.
fn tensor(input: &Input<'_>, client: &Client, bytes: &mut Vec<u8>) -> Result<Value, Error> {
    let name = input.name();
    let wrong = |reason: String| Error::invalid_argument(format!("input '{name}' {reason}"));
    let count = input.elements().ok_or_else(|| wrong(format!("has shape {:?}", input.shape())))?;
    // Without elements there is nothing to read, and clients leave the shape out.
    if count == 0 || input.shape().is_empty() && input.byte_size() == 0 {
        return Ok(Value::Strings(Vec::new()));
    }
    GenerationRequest::check_one_row(name, input.shape())
        .map_err(|error| Error::invalid_argument(error.to_string()))?;
    gpu::read_input(input, bytes, client)?;
    let value = match input.data_type() {
        DataType::Bytes => {
            let strings = read_strings(name, bytes, count)?;
            Value::Strings(strings.into_iter().map(<[u8]>::to_vec).collect())
        }
        DataType::Bool => Value::Flags(bytes.iter().map(|byte| *byte != 0).collect()),
        DataType::Int8 => integers(bytes, i8::from_le_bytes),
        DataType::Int16 => integers(bytes, i16::from_le_bytes),
        DataType::Int32 => integers(bytes, i32::from_le_bytes),
        DataType::Int64 => integers(bytes, i64::from_le_bytes),
        DataType::Uint8 => integers(bytes, u8::from_le_bytes),
        DataType::Uint16 => integers(bytes, u16::from_le_bytes),
        DataType::Uint32 => integers(bytes, u32::from_le_bytes),
        DataType::Uint64 => integers(bytes, u64::from_le_bytes),
        DataType::Fp32 => {
            let numbers = bytes.as_chunks().0.iter();
            Value::Numbers(numbers.map(|bytes| f32::from_le_bytes(*bytes).into()).collect())
        }
        DataType::Fp64 => {
            let numbers = bytes.as_chunks().0.iter();
            Value::Numbers(numbers.map(|bytes| f64::from_le_bytes(*bytes)).collect())
        }
        other @ (DataType::Fp16 | DataType::Bf16) => {
            return Ok(Value::Other { data_type: other.to_string(), count });
        }
    };
    if value.count() != count {
        let (found, shape) = (bytes.len(), input.shape());
        return Err(wrong(format!("has {found} bytes, which are not {shape:?} of its type")));
    }
    Ok(value)
}

fn integers<const N: usize, T: Into<i128>>(bytes: &[u8], read: fn([u8; N]) -> T) -> Value {
    Value::Integers(bytes.as_chunks().0.iter().map(|bytes| read(*bytes).into()).collect())
}
