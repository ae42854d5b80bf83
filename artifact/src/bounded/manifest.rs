//! `tlaloc-bounded.json` as it stands on disk. Field order here is the order written. Other than in
//! the serving manifest, unknown keys are refused at every level.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

/// File name of the manifest inside a bounded artifact.
pub const MANIFEST_FILE: &str = "tlaloc-bounded.json";

/// The only version there is.
pub const SCHEMA_VERSION: &str = "tlaloc-bounded-v1";

/// Size of each bound, by its name.
pub type Sizes = BTreeMap<String, i64>;

/// The whole manifest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Manifest {
    /// [`SCHEMA_VERSION`].
    pub schema_version: String,
    /// Name of the program.
    pub name: String,
    /// The axes of bounded size.
    pub bounds: Vec<Bound>,
    /// What surrounds a request's values in a larger bucket.
    pub padding: Padding,
    /// Arguments in order.
    pub inputs: Vec<Tensor>,
    /// Results in order.
    pub outputs: Vec<Tensor>,
    /// One per combination of buckets.
    pub entries: Vec<Entry>,
    /// What the exporter found of padded results.
    pub padding_check: PaddingCheck,
}

/// An axis of bounded size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Bound {
    /// Its name.
    pub name: String,
    /// The largest size.
    pub max: i64,
    /// The sizes that programs were compiled for, ascending; the last is `max`.
    pub buckets: Vec<i64>,
}

/// What surrounds a request's values in a larger bucket.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Padding {
    /// The value of every element there.
    pub value: f64,
}

/// One argument or result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Tensor {
    /// Its name.
    pub name: String,
    /// `DATA`, `VALID_MASK` or `VALID_LENGTH`.
    pub role: String,
    /// `f32` or `i32`.
    pub dtype: String,
    /// Axes, outermost first.
    pub axes: Vec<Axis>,
    /// The bound that a mask or a length tells the real size of.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub bound: Option<String>,
}

/// One axis: exactly one of the two is there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Axis {
    /// A fixed size.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub size: Option<i64>,
    /// The name of a bound.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub bound: Option<String>,
}

/// One compiled program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Entry {
    /// Its name in logs.
    pub id: String,
    /// The bucket of every bound.
    #[serde(deserialize_with = "each_once")]
    pub sizes: Sizes,
    /// Function to run.
    pub entry_point: String,
    /// Body file, relative to the manifest.
    pub body_path: String,
    /// Lowercase hex SHA-256 of the body. Not read.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub body_hash: Option<String>,
    /// Program description, relative to the manifest. Not read.
    pub program_path: String,
}

/// What the exporter found when it compared padded results with exact ones.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PaddingCheck {
    /// The sizes compared. Not read.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub sizes: Option<Vec<Sizes>>,
    /// The largest difference, relative to `max(1, max |exact|)`.
    pub max_difference: f64,
    /// The largest difference allowed.
    pub tolerance: f64,
}

/// A key that may be absent, but not null.
fn present<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    value: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(value).map(Some)
}

/// Sizes, of which none is written twice; serde keeps the last of those.
fn each_once<'de, D: Deserializer<'de>>(value: D) -> Result<Sizes, D::Error> {
    struct EachOnce;

    impl<'de> Visitor<'de> for EachOnce {
        type Value = Sizes;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a size for each bound")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Sizes, A::Error> {
            let mut sizes = Sizes::new();
            while let Some((name, size)) = map.next_entry()? {
                if sizes.contains_key(&name) {
                    return Err(A::Error::custom(format!("duplicate field `{name}`")));
                }
                sizes.insert(name, size);
            }
            Ok(sizes)
        }
    }

    value.deserialize_map(EachOnce)
}
