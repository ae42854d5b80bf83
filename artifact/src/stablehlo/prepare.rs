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
    let mut edits: Vec<(Range<usize>, &str)> = Vec::new();
    // Whether the text has a module: the first of the two operations to come decides.
    let mut module = None;
    for token in tokens(text) {
        match token {
            Token::Word("module" | "builtin.module", _) => _ = module.get_or_insert(true),
            Token::Word("func.func", end) => {
                module.get_or_insert(false);
                edits.extend(hiding(Scanner { text, at: end }, entry).map(|range| (range, "")));
            }
            Token::Word(..) => {}
            Token::Symbol(_, _) if entry == "main" => {}
            Token::Symbol(name, range) if name == "main" => edits.push((range, RENAMED_MAIN)),
            Token::Symbol(name, range) if name == entry => edits.push((range, "@main")),
            Token::Symbol(..) => {}
        }
    }
    let body = edited(text, edits.iter().map(|(range, new)| (range.clone(), *new)));
    if module == Some(true) { body } else { format!("module @tlaloc_triton {{\n{body}\n}}\n") }
}

/// What is neither comment nor string nor punctuation.
enum Token<'a> {
    /// A symbol, without `@`, and where it stands.
    Symbol(String, Range<usize>),
    /// An identifier without a sigil, and where it ends.
    Word(&'a str, usize),
}

fn tokens(text: &str) -> impl Iterator<Item = Token<'_>> {
    let mut scanner = Scanner { text, at: 0 };
    std::iter::from_fn(move || {
        while let Some(byte) = scanner.peek() {
            let start = scanner.at;
            if byte == b'@' {
                if let Some(name) = scanner.symbol() {
                    return Some(Token::Symbol(name, start..scanner.at));
                }
            } else if super::is_identifier(byte) {
                return Some(Token::Word(scanner.identifier(), scanner.at));
            } else if !scanner.skip_comment_or_string() {
                scanner.at += 1;
                if matches!(byte, b'%' | b'#' | b'!' | b'^') {
                    scanner.identifier();
                }
            }
        }
        None
    })
}

/// Where the visibility of the function `entry` stands that hides it, if the scanner, behind a
/// `func.func`, is at its definition.
fn hiding(mut scanner: Scanner<'_>, entry: &str) -> Option<Range<usize>> {
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

impl Function {
    /// `text`, which the function was read from, with one more argument behind the others for each
    /// of these results, aliased to it: whoever donates a buffer for it chooses where the result is
    /// written. `None` where that cannot be: the text calls the function, or has aliased one of the
    /// results itself.
    pub fn with_places(&self, text: &str, results: &[usize]) -> Option<String> {
        let named =
            |token: &Token<'_>| matches!(token, Token::Symbol(name, _) if *name == self.name);
        let aliased = self.arguments.iter().any(|argument| argument.attribute(ALIASING).is_some());
        if aliased || tokens(text).filter(named).count() != 1 {
            return None;
        }
        let mut places = String::new();
        for result in results {
            let ty = &self.results.get(*result)?.ty.text;
            let separator = if self.arguments.is_empty() && places.is_empty() { "" } else { ", " };
            places +=
                &format!("{separator}%tlaloc_place_{result}: {ty} {{{ALIASING} = {result} : i32}}");
        }
        Some(edited(text, [(self.arguments_end..self.arguments_end, places.as_str())].into_iter()))
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
