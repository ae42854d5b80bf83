//! The decoders of the tokenizers library, token by token.
//!
//! The library decodes a whole reply at once. Each of its decoders is a stage here that passes on
//! what no later token can change, so that the pieces, put together, are what the library makes of
//! the whole, at a cost that does not grow with the reply.

use std::sync::Arc;

use tokenizers::{Decoder as _, DecoderWrapper};

use super::byte_level::Utf8;

/// The stages of a tokenizer, before the first token.
#[derive(Debug)]
pub(super) struct Decoder(Vec<Stage>);

/// The stages of a reply.
#[derive(Debug)]
pub(super) struct State(Vec<Stage>);

#[derive(Clone, Debug)]
enum Stage {
    /// The library's decoder, for each token by itself; it may treat the first one differently.
    Each {
        decoder: Arc<DecoderWrapper>,
        first: bool,
    },
    /// As `Each`, but it is the last token that is different.
    EachButLast {
        decoder: Arc<DecoderWrapper>,
        last: Option<String>,
    },
    /// The library's decoder, for each run of byte tokens: one wrong byte changes the whole run.
    ByteRuns {
        decoder: Arc<DecoderWrapper>,
        run: Vec<String>,
    },
    ByteLevel(Utf8),
    /// Drops up to so many of these characters at the start of the reply.
    Strip {
        content: char,
        left: usize,
    },
    /// Without a decoder the library puts spaces between tokens.
    Spaces {
        first: bool,
    },
}

impl Decoder {
    /// The name of a decoder that cannot be streamed, if it holds one.
    pub(super) fn of(decoder: Option<&DecoderWrapper>) -> Result<Decoder, String> {
        let mut stages = Vec::new();
        match decoder {
            None => stages.push(Stage::Spaces { first: true }),
            Some(decoder) => add(decoder, &mut stages, &mut false)?,
        }
        Ok(Decoder(stages))
    }

    pub(super) fn start(&self) -> State {
        State(self.0.clone())
    }
}

/// Adds the stages of a decoder. `joined`: an earlier one makes one token of all.
fn add(decoder: &DecoderWrapper, stages: &mut Vec<Stage>, joined: &mut bool) -> Result<(), String> {
    let shared = || Arc::new(decoder.clone());
    let stage = match decoder {
        DecoderWrapper::Sequence(sequence) => {
            let mut parts = sequence.get_decoders().iter();
            return parts.try_for_each(|part| add(part, stages, joined));
        }
        DecoderWrapper::Fuse(_) => {
            *joined = true;
            return Ok(());
        }
        DecoderWrapper::Strip(strip) if strip.stop > 0 => {
            return Err("Strip at the end of a text".into());
        }
        DecoderWrapper::Strip(strip) if *joined => {
            Stage::Strip { content: strip.content, left: strip.start }
        }
        DecoderWrapper::CTC(_) => return Err("CTC".into()),
        other if *joined => return Err(format!("{} after Fuse or ByteLevel", name(other))),
        DecoderWrapper::ByteLevel(_) => {
            *joined = true;
            Stage::ByteLevel(Utf8::default())
        }
        DecoderWrapper::ByteFallback(_) => Stage::ByteRuns { decoder: shared(), run: Vec::new() },
        DecoderWrapper::BPE(_) => Stage::EachButLast { decoder: shared(), last: None },
        DecoderWrapper::Replace(_)
        | DecoderWrapper::Metaspace(_)
        | DecoderWrapper::WordPiece(_)
        | DecoderWrapper::Strip(_) => Stage::Each { decoder: shared(), first: true },
    };
    stages.push(stage);
    Ok(())
}

fn name(decoder: &DecoderWrapper) -> &'static str {
    match decoder {
        DecoderWrapper::BPE(_) => "BPEDecoder",
        DecoderWrapper::ByteLevel(_) => "ByteLevel",
        DecoderWrapper::WordPiece(_) => "WordPiece",
        DecoderWrapper::Metaspace(_) => "Metaspace",
        DecoderWrapper::CTC(_) => "CTC",
        DecoderWrapper::Sequence(_) => "Sequence",
        DecoderWrapper::Replace(_) => "Replace",
        DecoderWrapper::Fuse(_) => "Fuse",
        DecoderWrapper::Strip(_) => "Strip",
        DecoderWrapper::ByteFallback(_) => "ByteFallback",
    }
}

impl State {
    /// Takes in a token's name and adds the text that is certain now.
    pub(super) fn push(&mut self, token: String, text: &mut String) -> Result<(), String> {
        feed(&mut self.0, token, text)
    }

    /// Adds the rest. The state is used up.
    pub(super) fn finish(&mut self, text: &mut String) -> Result<(), String> {
        let mut stages = self.0.as_mut_slice();
        while let Some((stage, rest)) = stages.split_first_mut() {
            for token in stage.finish()? {
                feed(rest, token, text)?;
            }
            stages = rest;
        }
        Ok(())
    }
}

fn feed(stages: &mut [Stage], token: String, text: &mut String) -> Result<(), String> {
    let Some((stage, rest)) = stages.split_first_mut() else {
        text.push_str(&token);
        return Ok(());
    };
    match stage {
        Stage::Each { decoder, first } => {
            // The library tells the first token by its place in the list.
            let before = (!std::mem::take(first)).then(String::new);
            let decoded = decode(decoder, before.into_iter().chain([token]).collect())?.pop();
            feed(rest, decoded.unwrap_or_default(), text)
        }
        Stage::EachButLast { decoder, last } => match last.replace(token) {
            None => Ok(()),
            Some(before) => {
                let decoded = decode(decoder, vec![before, String::new()])?;
                feed(rest, decoded.into_iter().next().unwrap_or_default(), text)
            }
        },
        Stage::ByteRuns { decoder, run } => {
            if is_byte(&token) {
                run.push(token);
                return Ok(());
            }
            if !run.is_empty() {
                for token in decode(decoder, std::mem::take(run))? {
                    feed(rest, token, text)?;
                }
            }
            feed(rest, token, text)
        }
        Stage::ByteLevel(utf8) => feed(rest, utf8.push(&token), text),
        Stage::Strip { content, left } => {
            let mut kept = token.as_str();
            while *left > 0 && !kept.is_empty() {
                match kept.strip_prefix(*content) {
                    Some(stripped) => (kept, *left) = (stripped, *left - 1),
                    None => *left = 0,
                }
            }
            feed(rest, kept.to_owned(), text)
        }
        Stage::Spaces { first } => {
            let space = if std::mem::take(first) { "" } else { " " };
            feed(rest, format!("{space}{token}"), text)
        }
    }
}

impl Stage {
    /// What the stage held back.
    fn finish(&mut self) -> Result<Vec<String>, String> {
        match self {
            Stage::Each { .. } | Stage::Strip { .. } | Stage::Spaces { .. } => Ok(Vec::new()),
            Stage::EachButLast { decoder, last } => match last.take() {
                Some(token) => decode(decoder, vec![token]),
                None => Ok(Vec::new()),
            },
            Stage::ByteRuns { run, .. } if run.is_empty() => Ok(Vec::new()),
            Stage::ByteRuns { decoder, run } => decode(decoder, std::mem::take(run)),
            Stage::ByteLevel(utf8) => Ok(vec![utf8.finish()]),
        }
    }
}

fn decode(decoder: &DecoderWrapper, tokens: Vec<String>) -> Result<Vec<String>, String> {
    decoder.decode_chain(tokens).map_err(|error| error.to_string())
}

/// Whether a token stands for one byte, as `<0x0A>` does.
fn is_byte(token: &str) -> bool {
    let digits = token.strip_prefix("<0x").and_then(|rest| rest.strip_suffix('>'));
    digits.is_some_and(|digits| digits.len() == 2 && u8::from_str_radix(digits, 16).is_ok())
}
