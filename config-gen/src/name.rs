//! Names of Triton models.

use std::fmt;
use std::str::FromStr;

use crate::Error;

/// A model name that keeps to `[A-Za-z0-9_][A-Za-z0-9_.-]*`, so that it names a directory and a URL
/// segment alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelName(String);

impl ModelName {
    /// A name from that of a checkpoint: the last component of its path, with `_` for what a model
    /// name cannot hold.
    ///
    /// # Errors
    /// [`Error::Name`] when nothing is left.
    pub fn derived(checkpoint: &str) -> Result<ModelName, Error> {
        let last = checkpoint.trim_end_matches('/').rsplit('/').next().unwrap_or_default().trim();
        let keep = |(index, c): (usize, char)| match c {
            c if c.is_ascii_alphanumeric() => c,
            '.' | '-' if index > 0 => c,
            _ => '_',
        };
        last.chars().enumerate().map(keep).collect::<String>().parse()
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ModelName {
    type Err = Error;

    fn from_str(name: &str) -> Result<ModelName, Error> {
        let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
        let valid = !name.is_empty() && !name.starts_with(['.', '-']) && name.chars().all(inner);
        if valid { Ok(ModelName(name.to_owned())) } else { Err(Error::Name(name.to_owned())) }
    }
}

impl fmt::Display for ModelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for name in ["a", "_", "0", "SmolLM2-135M-Instruct", "v1.0"] {
            assert_eq!(name.parse::<ModelName>().unwrap().as_str(), name);
        }
        for name in ["", ".", "..", "-a", ".a", "a/b", "a b", "é", "a\n"] {
            let error = name.parse::<ModelName>().unwrap_err();
            assert!(matches!(error, Error::Name(ref found) if found == name), "{name}");
        }
    }

    #[test]
    fn names_of_checkpoints() {
        for (checkpoint, name) in [
            ("HuggingFaceTB/SmolLM2-135M-Instruct", "SmolLM2-135M-Instruct"),
            ("tlaloc-reference-decode", "tlaloc-reference-decode"),
            ("/models/my model (1)/", "my_model__1_"),
            (".hidden", "_hidden"),
            ("-x", "_x"),
            ("Org/modèle", "mod_le"),
        ] {
            assert_eq!(ModelName::derived(checkpoint).unwrap().as_str(), name);
        }
        assert!(matches!(ModelName::derived("///"), Err(Error::Name(_))));
    }
}
