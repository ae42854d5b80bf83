//! Manifests as JSON.

use std::path::Path;

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::Error;

/// What is made of a key that an object has more than once.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum RepeatedKeys {
    /// The last one counts.
    LastCounts,
    /// The manifest is refused.
    Refused,
}

/// Reads a manifest whose `schemaVersion` is one of `known`; returns which. The version comes first:
/// fields of an unknown one mean nothing.
pub(crate) fn versioned<T: DeserializeOwned>(
    path: &Path,
    bytes: &[u8],
    known: &[&str],
    repeated: RepeatedKeys,
) -> Result<(usize, T), Error> {
    let manifest = || path.to_owned();
    let json: Value = serde_json::from_slice(bytes)
        .map_err(|source| Error::Json { manifest: manifest(), source })?;
    let version = match json.get("schemaVersion") {
        Some(Value::String(name)) => {
            known.iter().position(|known| known == name).ok_or_else(|| Error::Model {
                manifest: manifest(),
                reason: format!(
                    "schemaVersion is '{name}', but this reader knows {}",
                    known.join(", ")
                ),
            })?
        }
        found => {
            let found = found.map_or("missing".to_owned(), Value::to_string);
            return Err(Error::Field {
                manifest: manifest(),
                field: "schemaVersion".to_owned(),
                reason: format!("is {found}, expected a string"),
            });
        }
    };
    let typed = match repeated {
        RepeatedKeys::LastCounts => serde_path_to_error::deserialize(json),
        RepeatedKeys::Refused => {
            serde_path_to_error::deserialize(&mut serde_json::Deserializer::from_slice(bytes))
        }
    };
    let typed = typed.map_err(|error| {
        let field = match error.path().to_string() {
            root if root == "." => "the manifest".to_owned(),
            field => field,
        };
        Error::Field { manifest: manifest(), field, reason: error.into_inner().to_string() }
    })?;
    Ok((version, typed))
}
