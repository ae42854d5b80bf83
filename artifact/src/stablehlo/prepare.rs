//! What a compiler needs of a text besides its functions (tensor mode §6.2).

use std::ops::Range;

use super::{Function, Scanner};

/// What a function named `main` is called when another one becomes the entry.
const RENAMED_MAIN: &str = "@tlaloc_renamed_main";
const ALIASING: &str = "tf.aliasing_output";

/// The text in which the function `entry` is the public `@main` of a module, as XLA wants it.
///
/// Where `entry` is another function, it and `@main` are renamed with all their uses; a name that
/// only begins with one of theirs is left alone, and so are comments and strings. A text without a
/// module of its own gets one.
pub fn prepare(text: &str, entry: &str) -> String {
    let mut scanner = Scanner { text, at: 0 };
    let mut edits: Vec<(Range<usize>, &str)> = Vec::new();
    // Whether the text has a module: the first of the two operations to come decides.
    let mut module = None;
    let renamed = |name: &str| match name {
        _ if entry == "main" => None,
        "main" => Some(RENAMED_MAIN),
        name if name == entry => Some("@main"),
        _ => None,
    };
    while let Some(byte) = scanner.peek() {
        let start = scanner.at;
        if byte == b'@' {
            let name = scanner.symbol();
            if let Some(new) = name.as_deref().and_then(renamed) {
                edits.push((start..scanner.at, new));
            }
        } else if scanner.skip_comment_or_string() {
        } else if !super::is_identifier(byte) {
            scanner.at += 1;
            if matches!(byte, b'%' | b'#' | b'!' | b'^') {
                scanner.identifier();
            }
        } else {
            match scanner.identifier() {
                "module" | "builtin.module" => _ = module.get_or_insert(true),
                "func.func" => {
                    module.get_or_insert(false);
                    edits.extend(hiding(&scanner, entry).map(|range| (range, "")));
                }
                _ => {}
            }
        }
    }
    let body = edited(text, edits.iter().map(|(range, new)| (range.clone(), *new)));
    if module == Some(true) { body } else { format!("module @tlaloc_triton {{\n{body}\n}}\n") }
}

/// Where the visibility of the function `entry` stands that hides it, if the scanner, behind a
/// `func.func`, is at its definition.
fn hiding(scanner: &Scanner<'_>, entry: &str) -> Option<Range<usize>> {
    let mut scanner = Scanner { text: scanner.text, at: scanner.at };
    let mut hidden = None;
    loop {
        scanner.skip_blank();
        let start = scanner.at;
        match scanner.identifier() {
            "private" | "nested" => hidden = Some(start..scanner.at),
            "public" => {}
            _ => break,
        }
    }
    hidden.filter(|_| scanner.symbol().as_deref() == Some(entry))
}

impl Function {
    /// `text`, which the function was read from, with `{tf.aliasing_output = N : i32}` on the
    /// argument of each `(argument, result N)`; `None` where they all have it. With the attribute a
    /// result is written over its donated argument.
    ///
    /// # Errors
    /// An argument that is aliased to another result, and that result as written.
    pub fn with_aliases(
        &self,
        text: &str,
        pairs: &[(usize, usize)],
    ) -> Result<Option<String>, (usize, String)> {
        let mut insertions = Vec::new();
        for &(index, result) in pairs {
            let Some(argument) = self.arguments.get(index) else { continue };
            let aliased = argument.attribute(ALIASING);
            match aliased.map(|value| value.split(':').next().unwrap_or_default().trim()) {
                None => {
                    insertions.push(argument.insertion(&format!("{ALIASING} = {result} : i32")))
                }
                Some(value) if value == result.to_string() => {}
                Some(value) => return Err((index, value.to_owned())),
            }
        }
        if insertions.is_empty() {
            return Ok(None);
        }
        // Arguments stand in the text in their order, whatever the order of the pairs.
        insertions.sort_unstable_by_key(|(at, _)| *at);
        let edits = insertions.iter().map(|(at, attribute)| (*at..*at, attribute.as_str()));
        Ok(Some(edited(text, edits)))
    }
}

/// The text with each range, in order, replaced.
fn edited<'a>(text: &str, edits: impl Iterator<Item = (Range<usize>, &'a str)>) -> String {
    let mut result = String::with_capacity(text.len() + 64);
    let mut copied = 0;
    for (range, new) in edits {
        result.push_str(text.get(copied..range.start).unwrap_or_default());
        result.push_str(new);
        copied = range.end;
    }
    result.push_str(text.get(copied..).unwrap_or_default());
    result
}
