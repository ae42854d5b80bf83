//! Function signatures of StableHLO text.
//!
//! Reads only as much of the text as signatures need: `func.func` operations, wherever they stand,
//! with the types and attributes of their arguments and results. Bodies are skipped over, comments
//! and strings respected. Reading never panics, whatever the text.

mod prepare;

use std::ops::Range;

use crate::{DType, Tensor};

pub use prepare::prepare;

/// The functions of a text, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// Every `func.func`, nested modules included.
    pub functions: Vec<Function>,
}

/// One `func.func`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Symbol without `@`.
    pub name: String,
    /// Whether it can be called from outside: neither `private` nor `nested`.
    pub public: bool,
    /// Arguments in order.
    pub arguments: Vec<Value>,
    /// Results in order.
    pub results: Vec<Value>,
    /// Byte offset of the parenthesis behind the arguments.
    arguments_end: usize,
}

/// One argument or result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// Its type.
    pub ty: Type,
    /// Its attributes in order.
    pub attributes: Vec<Attribute>,
    /// Where another attribute would be written.
    insertion: Insertion,
}

/// One attribute: `name = value`, or a bare `name`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute {
    /// Name, as in `tf.aliasing_output`.
    pub name: String,
    /// Text of the value, as in `1 : i32`; empty for a bare name.
    pub value: String,
}

/// A type as written, and what it means if it is a ranked tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Type {
    /// The type's text.
    pub text: String,
    /// Dims of a ranked tensor, `None` for a dynamic one. Empty for a scalar, and for a type that is
    /// no ranked tensor.
    pub dims: Vec<Option<usize>>,
    /// Element type; `None` when the type is no ranked tensor of a supported element type.
    pub dtype: Option<DType>,
}

/// The byte offset at which an attribute goes, and the text around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Insertion {
    /// There is no dictionary: ` {…}` after the type.
    NewDictionary(usize),
    /// After the opening brace of an empty dictionary.
    Only(usize),
    /// After the opening brace, before other attributes.
    First(usize),
}

/// A signature that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct SyntaxError {
    /// Line of the signature, from 1.
    pub line: usize,
    /// What is wrong.
    pub reason: String,
}

/// Whether `bytes` are MLIR bytecode, which this module does not read.
pub fn is_bytecode(bytes: &[u8]) -> bool {
    bytes.starts_with(b"ML\xefR")
}

/// Whether a body calls one of the project's CUDA kernels (artifact format §13).
pub fn calls_kernels(text: &str) -> bool {
    text.contains("stablehlo.custom_call @tlaloc_")
}

impl Module {
    /// Reads the signatures of `text`.
    ///
    /// # Errors
    /// The first signature whose name or brackets are malformed. Unsupported types are no error.
    pub fn parse(text: &str) -> Result<Module, SyntaxError> {
        let mut scanner = Scanner { text, at: 0 };
        let mut functions = Vec::new();
        while let Some(start) = scanner.next_function() {
            let function = scanner.function().ok_or_else(|| SyntaxError {
                line: 1 + text.get(..start).map_or(0, |before| before.matches('\n').count()),
                reason: "the signature of this func.func is malformed".to_owned(),
            })?;
            functions.push(function);
        }
        Ok(Module { functions })
    }

    /// The function named `name`, without `@`.
    pub fn function(&self, name: &str) -> Option<&Function> {
        self.functions.iter().find(|f| f.name == name)
    }

    /// The names of all functions, as in `@a, @b`.
    pub fn names(&self) -> String {
        let names: Vec<_> = self.functions.iter().map(|f| format!("@{}", f.name)).collect();
        names.join(", ")
    }
}

impl Value {
    /// The value of the attribute `name`.
    pub fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|a| a.name == name).map(|a| a.value.as_str())
    }

    /// The byte offset in the parsed text, and the text to insert there, for one more attribute.
    pub(crate) fn insertion(&self, attribute: &str) -> (usize, String) {
        match self.insertion {
            Insertion::NewDictionary(at) => (at, format!(" {{{attribute}}}")),
            Insertion::Only(at) => (at, attribute.to_owned()),
            Insertion::First(at) => (at, format!("{attribute}, ")),
        }
    }
}

impl Type {
    /// Reads a type from its text.
    pub fn parse(text: &str) -> Type {
        let text = text.trim();
        let (dims, dtype) = ranked(text).unwrap_or_default();
        Type { text: text.to_owned(), dims, dtype }
    }

    /// The tensor, if all dims are static, the element type is supported and its size is sane.
    pub fn tensor(&self) -> Option<Tensor> {
        let dims = self.dims.iter().copied().collect::<Option<Vec<_>>>()?;
        Tensor::new(self.dtype?, dims)
    }
}

/// Dims and element type of `tensor<…>`; `None` when it is not a ranked tensor.
fn ranked(text: &str) -> Option<(Vec<Option<usize>>, Option<DType>)> {
    let inside = text.strip_prefix("tensor")?.trim_start().strip_prefix('<')?.strip_suffix('>')?;
    // An encoding follows a comma outside any brackets.
    let mut element = split_top_level(inside, ',').next()?.trim();
    let mut dims = Vec::new();
    loop {
        let digits = element.len() - element.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let length = if element.starts_with('?') { 1 } else { digits };
        let (dim, rest) = element.split_at_checked(length)?;
        match rest.trim_start().strip_prefix('x') {
            Some(rest) if length > 0 => {
                dims.push(if dim == "?" { None } else { Some(dim.parse().ok()?) });
                element = rest.trim_start();
            }
            _ if element.starts_with('*') || length > 0 => return None,
            _ => return Some((dims, DType::parse(element))),
        }
    }
}

/// Splits `text` at each `separator` outside brackets and strings.
fn split_top_level(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let mut scanner = Scanner { text, at: 0 };
    let mut done = false;
    std::iter::from_fn(move || {
        if done {
            return None;
        }
        let start = scanner.at;
        let end = scanner.find_top_level(&[separator as u8]).unwrap_or(text.len());
        done = end == text.len();
        scanner.at = end + 1;
        text.get(start..end)
    })
}

/// A position in a text.
struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scanner<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn slice(&self, range: Range<usize>) -> &'a str {
        self.text.get(range).unwrap_or_default()
    }

    /// Steps over a comment or a string, if one starts here. A string ends at its closing quote or
    /// at the end of the line.
    fn skip_comment_or_string(&mut self) -> bool {
        let bytes = self.text.as_bytes();
        match self.peek() {
            Some(b'/') if bytes.get(self.at + 1) == Some(&b'/') => {
                self.at += self.rest().find('\n').unwrap_or(self.rest().len());
                true
            }
            Some(b'"') => {
                self.at += 1;
                while let Some(byte) = self.peek() {
                    self.at += 1;
                    match byte {
                        b'\\' if self.peek() != Some(b'\n') => self.at += 1,
                        b'"' | b'\n' => break,
                        _ => {}
                    }
                }
                self.at = self.at.min(bytes.len());
                true
            }
            _ => false,
        }
    }

    /// Steps over white space and comments.
    fn skip_blank(&mut self) {
        while let Some(byte) = self.peek() {
            let comment = byte == b'/' && self.rest().starts_with("//");
            if comment {
                self.skip_comment_or_string();
            } else if byte.is_ascii_whitespace() {
                self.at += 1;
            } else {
                break;
            }
        }
    }

    /// Steps over `token`, after white space, if it comes next.
    fn eat(&mut self, token: &str) -> bool {
        self.skip_blank();
        let found = self.rest().starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    /// The identifier here; empty if there is none.
    fn identifier(&mut self) -> &'a str {
        let start = self.at;
        while self.peek().is_some_and(is_identifier) {
            self.at += 1;
        }
        self.slice(start..self.at)
    }

    /// Moves past the next `func.func` and returns where it stands.
    fn next_function(&mut self) -> Option<usize> {
        while let Some(byte) = self.peek() {
            if self.skip_comment_or_string() {
                continue;
            }
            let start = self.at;
            if is_identifier(byte) {
                if self.identifier() == "func.func" {
                    return Some(start);
                }
            } else {
                self.at += 1;
                // `@func.func` is a symbol, not an operation.
                if matches!(byte, b'@' | b'%' | b'#' | b'!' | b'^') {
                    self.identifier();
                }
            }
        }
        None
    }

    /// The rest of a signature, after `func.func`. `None` when it is malformed.
    fn function(&mut self) -> Option<Function> {
        let mut public = true;
        loop {
            self.skip_blank();
            match self.identifier() {
                "private" | "nested" => public = false,
                "public" => {}
                _ => break,
            }
        }
        let name = self.symbol()?;
        if !self.eat("(") {
            return None;
        }
        let arguments = self.values()?;
        let arguments_end = self.at - 1;
        let results = match self.eat("->") {
            false => Vec::new(),
            true if self.eat("(") => self.values()?,
            true => {
                let ty = self.bare_type()?;
                let insertion = Insertion::NewDictionary(self.at);
                vec![Value { ty, attributes: Vec::new(), insertion }]
            }
        };
        Some(Function { name, public, arguments, results, arguments_end })
    }

    /// `@name` or `@"name"`.
    fn symbol(&mut self) -> Option<String> {
        if !self.eat("@") {
            return None;
        }
        let start = self.at;
        let name = if self.skip_comment_or_string() {
            self.slice(start..self.at).strip_prefix('"')?.strip_suffix('"')?
        } else {
            self.identifier()
        };
        (!name.is_empty()).then(|| name.to_owned())
    }

    /// The values up to the closing parenthesis, which is consumed.
    fn values(&mut self) -> Option<Vec<Value>> {
        let mut values = Vec::new();
        loop {
            self.skip_blank();
            if values.is_empty() && self.eat(")") {
                return Some(values);
            }
            let start = self.at;
            let end = self.find_top_level(b",)")?;
            values.push(self.value(start..end)?);
            self.at = end + 1;
            if self.text.as_bytes().get(end) == Some(&b')') {
                return Some(values);
            }
        }
    }

    /// One value of a list: `%name: type {attributes} loc(…)`, of which only the type must be there.
    fn value(&self, range: Range<usize>) -> Option<Value> {
        let mut item = Scanner { text: self.slice(0..range.end), at: range.start };
        if item.eat("%") {
            item.at = item.find_top_level(b":")? + 1;
        }
        let ty = item.bare_type()?;
        let type_end = item.at;
        let (mut attributes, mut insertion) = (Vec::new(), Insertion::NewDictionary(type_end));
        if item.eat("{") {
            let start = item.at;
            let end = item.find_top_level(b"}")?;
            let text = item.slice(start..end);
            for attribute in split_top_level(text, ',') {
                let name = split_top_level(attribute, '=').next().unwrap_or_default();
                let value = attribute.get(name.len() + 1..).unwrap_or_default().trim();
                let name = uncommented(name).trim_matches('"');
                if !name.is_empty() {
                    attributes.push(Attribute { name: name.to_owned(), value: value.to_owned() });
                }
            }
            insertion = match attributes.is_empty() {
                true => Insertion::Only(start),
                false => Insertion::First(start),
            };
        }
        Some(Value { ty, attributes, insertion })
    }

    /// A type that ends where its brackets do: `tensor<…>`, `!dialect.type<…>`, `i32`, `(…) -> …`.
    fn bare_type(&mut self) -> Option<Type> {
        self.skip_blank();
        let start = self.at;
        // Arguments of a function type.
        while self.peek() == Some(b'(') {
            self.at += 1;
            self.at = self.find_top_level(b")")? + 1;
            if !self.eat("->") {
                return Some(Type::parse(self.slice(start..self.at)));
            }
            self.skip_blank();
        }
        if self.peek() == Some(b'!') {
            self.at += 1;
        }
        let name = self.identifier();
        let after_name = self.at;
        self.skip_blank();
        match self.peek() {
            Some(b'<') => {
                self.at += 1;
                self.at = self.find_top_level(b">")? + 1;
            }
            _ if name.is_empty() => return None,
            _ => self.at = after_name,
        }
        Some(Type::parse(self.slice(start..self.at)))
    }

    /// Where the first of `stops` stands outside brackets, comments and strings, from here on. Leaves
    /// the position at the stop. `None`, at the end of the text, when there is none or brackets do
    /// not match.
    fn find_top_level(&mut self, stops: &[u8]) -> Option<usize> {
        let mut open: Vec<u8> = Vec::new();
        while let Some(byte) = self.peek() {
            if self.skip_comment_or_string() {
                continue;
            }
            if open.is_empty() && stops.contains(&byte) {
                return Some(self.at);
            }
            match byte {
                b'-' if self.rest().starts_with("->") => self.at += 1,
                b'(' => open.push(b')'),
                b'[' => open.push(b']'),
                b'{' => open.push(b'}'),
                b'<' => open.push(b'>'),
                b')' | b']' | b'}' | b'>' if open.pop() != Some(byte) => {
                    self.at = self.text.len();
                    return None;
                }
                _ => {}
            }
            self.at += 1;
        }
        None
    }
}

/// The characters of identifiers in MLIR.
fn is_identifier(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'.')
}

/// `text` without leading comments and surrounding white space.
fn uncommented(text: &str) -> &str {
    let mut scanner = Scanner { text, at: 0 };
    scanner.skip_blank();
    scanner.rest().trim_end()
}
