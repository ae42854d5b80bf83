//! From values as sent to a draft of the request.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::Value as Json;

use super::draft::Draft;
use super::error::Error;
use super::key::{
    Key, Kind, LogProbabilities, MAX_BIAS, MAX_LOGPROBS, MAX_STRING_BYTES, MAX_STRINGS, Neutral,
};
use super::model::ModelFacts;
use super::table::{self, find};
use super::value::{Given, Source, Value, short};
use crate::template::{Messages, MessagesError};

/// Reads every given value.
pub(super) fn read(given: &[Given], model: &ModelFacts) -> Result<Draft, Error> {
    let mut reader = Reader { model, draft: Draft::default(), seen: Vec::new() };
    for given in given {
        reader.take(given)?;
    }
    Ok(reader.draft)
}

struct Reader<'a> {
    model: &'a ModelFacts,
    draft: Draft,
    seen: Vec<(&'static Key, Given)>,
}

impl Reader<'_> {
    fn take(&mut self, given: &Given) -> Result<(), Error> {
        let key = find(&given.key).ok_or_else(|| Error::Unknown {
            source_kind: given.source,
            key: short(given.key.clone()),
            nearest: table::nearest(&given.key),
        })?;
        if !key.place.allows(given.source) {
            return Err(Error::Misplaced {
                key: given.key.clone(),
                source_kind: given.source,
                places: key.place.to_string(),
            });
        }
        if given.value.count() == 0 {
            return Ok(());
        }
        let reading = Reading { key, given, model: self.model };
        if matches!(key.kind, Kind::SamplingParameters) {
            for member in reading.sampling_parameters()? {
                self.take(&member)?;
            }
        } else {
            reading.apply(&mut self.draft)?;
        }
        match self.seen.iter().find(|(seen, _)| std::ptr::eq(*seen, key)) {
            None => self.seen.push((key, given.clone())),
            Some((_, first)) => reading.check_same(first)?,
        }
        Ok(())
    }
}

/// The members of a JSON object, each name once.
struct Members(Vec<(String, Json)>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Members;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let (mut members, mut seen) = (Vec::new(), HashSet::new());
                while let Some((name, value)) = map.next_entry::<String, Json>()? {
                    if !seen.insert(name.clone()) {
                        return Err(A::Error::custom(format!("{:?} twice", short(name))));
                    }
                    members.push((name, value));
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Object)
    }
}

/// One value on its way into the draft.
struct Reading<'a> {
    key: &'static Key,
    given: &'a Given,
    model: &'a ModelFacts,
}

impl Reading<'_> {
    /// Puts the value into `draft`.
    fn apply(&self, draft: &mut Draft) -> Result<(), Error> {
        match &self.key.kind {
            Kind::Flag(set) => set(draft, self.flag()?),
            Kind::Integer { least, most, set, .. } => {
                set(draft, self.integer(*least, most.of(self.model))?);
            }
            Kind::Number { range, set } => {
                // Rounded as a tensor of FP32 would have it, so that both ways are one value.
                let number = self.number()? as f32;
                if !range.holds(number) {
                    return Err(self.range());
                }
                set(draft, number);
            }
            Kind::Text(set) => set(draft, self.text()?),
            Kind::Strings(set) => set(draft, self.strings()?),
            Kind::Tokens(set) => set(draft, self.tokens()?),
            Kind::Bias(set) => set(draft, self.bias()?),
            Kind::LogProbabilities(set) => set(draft, self.log_probabilities()?),
            Kind::Messages(set) => set(draft, self.messages()?),
            Kind::SamplingParameters => {}
            Kind::Only { neutral, reason, .. } => self.check_neutral(*neutral, reason)?,
        }
        Ok(())
    }

    /// Two values of one key must mean the same.
    fn check_same(&self, first: &Given) -> Result<(), Error> {
        let alone = |given| {
            let mut draft = Draft::default();
            Reading { key: self.key, given, model: self.model }.apply(&mut draft)?;
            Ok(draft)
        };
        // Of `sampling_parameters` each member was compared by itself.
        if alone(first)? == alone(self.given)? {
            return Ok(());
        }
        Err(Error::Conflict {
            first_source: first.source,
            first: first.key.clone(),
            first_value: first.value.to_string(),
            second_source: self.given.source,
            second: self.given.key.clone(),
            second_value: self.given.value.to_string(),
        })
    }

    fn flag(&self) -> Result<bool, Error> {
        match &self.given.value {
            Value::Flags(flags) if flags.len() == 1 => Ok(flags[0]),
            _ => Err(self.wrong_type()),
        }
    }

    /// The value; of the JSON of `sampling_parameters` a number may be written as text, which
    /// vLLM's backend takes and genai-perf sends.
    fn numeric(&self) -> Cow<'_, Value> {
        if let (Source::SamplingParameters, Value::Strings(strings)) =
            (self.given.source, &self.given.value)
            && let [text] = strings.as_slice()
            && let Ok(number) = serde_json::from_slice::<serde_json::Number>(text)
            && let Some(value) = Value::from_json(&number.into())
        {
            return Cow::Owned(value);
        }
        Cow::Borrowed(&self.given.value)
    }

    /// A whole number, which may come as a number that is exactly one.
    fn integer(&self, least: i128, most: i128) -> Result<i128, Error> {
        let integer = match &*self.numeric() {
            Value::Integers(integers) if integers.len() == 1 => integers[0],
            Value::Numbers(numbers) if numbers.len() == 1 => {
                let number = numbers[0];
                // Beyond these, an FP64 may stand for another whole number.
                if number.fract() != 0.0 || number.abs() > 2f64.powi(53) {
                    return Err(self.range());
                }
                number as i128
            }
            _ => return Err(self.wrong_type()),
        };
        if integer < least || integer > most { Err(self.range()) } else { Ok(integer) }
    }

    fn number(&self) -> Result<f64, Error> {
        match &*self.numeric() {
            Value::Integers(integers) if integers.len() == 1 => Ok(integers[0] as f64),
            Value::Numbers(numbers) if numbers.len() == 1 => Ok(numbers[0]),
            _ => Err(self.wrong_type()),
        }
    }

    fn text(&self) -> Result<String, Error> {
        match &self.given.value {
            Value::Strings(strings) if strings.len() == 1 => self.utf8(&strings[0]),
            _ => Err(self.wrong_type()),
        }
    }

    fn utf8(&self, bytes: &[u8]) -> Result<String, Error> {
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(text.to_owned()),
            Err(error) => Err(Error::Type {
                source_kind: self.given.source,
                key: self.given.key.clone(),
                found: format!(
                    "bytes that are not UTF-8 from byte {}: {}",
                    error.valid_up_to(),
                    self.given.value
                ),
                expected: format!("{} in UTF-8", self.key.range(Some(self.model))),
            }),
        }
    }

    fn strings(&self) -> Result<Vec<String>, Error> {
        let Value::Strings(strings) = &self.given.value else { return Err(self.wrong_type()) };
        let mut kept = Vec::new();
        for bytes in strings.iter().filter(|bytes| !bytes.is_empty()) {
            if bytes.len() > MAX_STRING_BYTES {
                return Err(self.outside(format!("one of {} bytes", bytes.len())));
            }
            kept.push(self.utf8(bytes)?);
        }
        if kept.len() > MAX_STRINGS {
            return Err(self.outside(format!("{} of them", kept.len())));
        }
        Ok(kept)
    }

    fn tokens(&self) -> Result<Vec<i32>, Error> {
        let Value::Integers(ids) = &self.given.value else { return Err(self.wrong_type()) };
        ids.iter().enumerate().map(|(at, id)| self.token(*id, || format!("{id} at {at}"))).collect()
    }

    fn token(&self, id: i128, found: impl FnOnce() -> String) -> Result<i32, Error> {
        let known = i32::try_from(id)
            .ok()
            .filter(|id| usize::try_from(*id).is_ok_and(|id| id < self.model.vocab_size));
        known.ok_or_else(|| self.outside(found()))
    }

    /// The members of an object of JSON, or of the JSON that a string holds.
    fn members(&self) -> Result<Vec<(String, Json)>, Error> {
        match &self.given.value {
            Value::Json(Json::Object(members)) => Ok(members.clone().into_iter().collect()),
            Value::Strings(strings) if strings.len() == 1 => {
                let text = self.utf8(&strings[0])?;
                let members = serde_json::from_str::<Members>(&text);
                members.map(|members| members.0).map_err(|error| Error::Type {
                    source_kind: self.given.source,
                    key: self.given.key.clone(),
                    found: match error.is_data() {
                        true => format!("{}: {error}", self.given.value),
                        false => format!("{}, which is not JSON: {error}", self.given.value),
                    },
                    expected: self.key.range(Some(self.model)),
                })
            }
            _ => Err(self.wrong_type()),
        }
    }

    fn bias(&self) -> Result<Vec<(i32, f32)>, Error> {
        let members = self.members()?;
        let mut biases = Vec::with_capacity(members.len());
        for (id, bias) in &members {
            let found = || short(format!("{id:?}: {bias}"));
            let token = id.parse().map_err(|_| self.outside(found()))?;
            let token = self.token(token, found)?;
            let bias = bias.as_f64().map(|bias| bias as f32);
            let bias = bias.filter(|bias| bias.abs() <= MAX_BIAS);
            biases.push((token, bias.ok_or_else(|| self.outside(found()))?));
        }
        biases.sort_by_key(|(token, _)| *token);
        // "7" and "07" are one token.
        if let Some(pair) = biases.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(self.outside(format!("token {} twice", pair[0].0)));
        }
        Ok(biases)
    }

    fn log_probabilities(&self) -> Result<LogProbabilities, Error> {
        match &self.given.value {
            Value::Flags(flags) if flags.len() == 1 => Ok(LogProbabilities::Wanted(flags[0])),
            _ => self.integer(0, MAX_LOGPROBS).map(|count| LogProbabilities::Top(count as usize)),
        }
    }

    fn messages(&self) -> Result<Messages, Error> {
        let text = match &self.given.value {
            Value::Json(json) => json.to_string(),
            _ => self.text()?,
        };
        Messages::parse(&text).map_err(|error| match error {
            MessagesError::NotJson { .. } => Error::Type {
                source_kind: self.given.source,
                key: self.given.key.clone(),
                found: format!("{}, {error}", self.given.value),
                expected: self.key.range(Some(self.model)),
            },
            error => self.outside(error.to_string()),
        })
    }

    /// The keys in `sampling_parameters`.
    fn sampling_parameters(&self) -> Result<Vec<Given>, Error> {
        let members = self.members()?;
        // A key that is null is left out, but must still be one.
        if let Some((key, _)) = members.iter().find(|(key, _)| find(key).is_none()) {
            return Err(Error::Unknown {
                source_kind: Source::SamplingParameters,
                key: short(key.clone()),
                nearest: table::nearest(key),
            });
        }
        let given = |(key, json): (String, Json)| {
            Some(Given::new(Source::SamplingParameters, key, Value::from_json(&json)?))
        };
        Ok(members.into_iter().filter_map(given).collect())
    }

    fn check_neutral(&self, neutral: Neutral, reason: &'static str) -> Result<(), Error> {
        let found = match &*self.numeric() {
            Value::Flags(flags) if flags.len() == 1 => Neutral::Flag(flags[0]),
            Value::Integers(integers) if integers.len() == 1 => Neutral::Number(integers[0] as f64),
            Value::Numbers(numbers) if numbers.len() == 1 => Neutral::Number(numbers[0]),
            _ => Neutral::None,
        };
        if found == neutral && neutral != Neutral::None {
            return Ok(());
        }
        let remedy = match neutral {
            Neutral::None => "leave it out".to_owned(),
            _ => format!("leave it out or send {}", self.key.range(None)),
        };
        Err(Error::Unsupported {
            source_kind: self.given.source,
            key: self.given.key.clone(),
            found: self.given.value.to_string(),
            reason,
            remedy,
        })
    }

    fn wrong_type(&self) -> Error {
        let kind = match &self.given.value {
            Value::Flags(_) => "flag",
            Value::Integers(_) => "whole number",
            Value::Numbers(_) => "number",
            Value::Strings(_) => "string",
            Value::Json(_) => "JSON value",
            Value::Other { .. } => "tensor",
        };
        let found = match self.given.value.count() {
            1 => format!("the {kind} {}", self.given.value),
            count => format!("{count} {kind}s: {}", self.given.value),
        };
        Error::Type {
            source_kind: self.given.source,
            key: self.given.key.clone(),
            found,
            expected: self.key.range(Some(self.model)),
        }
    }

    fn range(&self) -> Error {
        self.outside(self.given.value.to_string())
    }

    fn outside(&self, found: String) -> Error {
        Error::Range {
            source_kind: self.given.source,
            key: self.given.key.clone(),
            found,
            expected: self.key.range(Some(self.model)),
        }
    }
}
