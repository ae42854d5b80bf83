//! The tables as text.

use std::fmt::Write as _;

use super::key::Key;
use super::reply::REPLIES;
use super::request::GREEDY;
use super::table::TABLE;

/// The table of keys as Markdown, for `docs/generation.md`.
pub fn request_markdown() -> String {
    let mut text = String::from(
        "| key | other names | where | type | range | default | meaning |\n|---|---|---|---|---|---|---|\n",
    );
    for key in TABLE.iter().filter(|key| !key.is_refused()) {
        let others: Vec<_> = key.aliases.iter().map(|name| format!("`{name}`")).collect();
        let default = match key.default {
            "" => "none".to_owned(),
            value => format!("`{value}`"),
        };
        let _ = writeln!(
            text,
            "| `{}` | {} | {} | {} | {} | {default} | {} |",
            key.name,
            others.join(", "),
            key.place,
            tensor(key),
            key.range(None),
            key.meaning
        );
    }
    text.push_str(
        "\nAccepted only with the value that changes nothing, and refused with any other:\n\n\
         | key | other names | where | type | accepted | why |\n|---|---|---|---|---|---|\n",
    );
    for key in TABLE.iter().filter(|key| key.is_refused()) {
        let others: Vec<_> = key.aliases.iter().map(|name| format!("`{name}`")).collect();
        let _ = writeln!(
            text,
            "| `{}` | {} | {} | {} | {} | {} |",
            key.name,
            others.join(", "),
            key.place,
            tensor(key),
            key.range(None),
            key.meaning
        );
    }
    text
}

/// The table of outputs as Markdown, for `docs/generation.md`.
pub fn reply_markdown() -> String {
    let mut text =
        String::from("| output | type | responses that have it | meaning |\n|---|---|---|---|\n");
    for spec in REPLIES {
        let _ = writeln!(
            text,
            "| `{}` | {} {:?} | {} | {} |",
            spec.tensor.name,
            spec.tensor.data_type.wire_name(),
            spec.tensor.dims,
            spec.when,
            spec.meaning
        );
    }
    text
}

/// Keys and defaults, one pair a line; with `greedy_only` those of models whose programs choose the
/// tokens.
pub fn defaults(greedy_only: bool) -> Vec<String> {
    let with_default = TABLE.iter().filter(|key| !key.default.is_empty());
    with_default
        .map(|key| match key.name {
            "temperature" if greedy_only => format!("{} = {GREEDY:?}", key.name),
            name => format!("{name} = {}", key.default),
        })
        .collect()
}

fn tensor(key: &Key) -> String {
    let Some(tensor) = key.tensors().next() else { return String::new() };
    format!("{} {:?}", tensor.data_type.wire_name(), tensor.dims)
}
