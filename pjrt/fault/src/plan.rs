//! What is to fail, and when.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

/// A function that can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Function {
    Compile,
    Upload,
    Read,
    Execute,
}

/// How a call goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    Refuse,
    Lose,
    Fail,
    Delay(Duration),
}

/// An entry of the table that is null.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hidden {
    Views,
    Pointers,
    MemoryStats,
}

#[derive(Debug, PartialEq)]
enum Line {
    Fault { function: Function, fault: Fault, at: Option<u64> },
    Hide(Hidden),
}

/// The plan file as last read, and the calls since it changed.
pub(crate) struct Plan {
    path: Option<PathBuf>,
    text: String,
    lines: Result<Vec<Line>, String>,
    calls: HashMap<Function, u64>,
}

impl Plan {
    pub(crate) fn new(path: Option<PathBuf>) -> Self {
        Self { path, text: String::new(), lines: Ok(Vec::new()), calls: HashMap::new() }
    }

    /// Counts a call and returns the faults it meets, in the order of the plan.
    pub(crate) fn call(&mut self, function: Function) -> Result<Vec<Fault>, String> {
        self.read();
        let count = self.calls.entry(function).or_default();
        *count += 1;
        let faults = self.lines.as_ref()?.iter().filter_map(|line| match line {
            Line::Fault { function: of, fault, at }
                if *of == function && at.is_none_or(|at| at == *count) =>
            {
                Some(*fault)
            }
            _ => None,
        });
        Ok(faults.collect())
    }

    /// The entries to hide.
    pub(crate) fn hidden(&mut self) -> Result<Vec<Hidden>, String> {
        self.read();
        let hidden = self.lines.as_ref()?.iter().filter_map(|line| match line {
            Line::Hide(hidden) => Some(*hidden),
            Line::Fault { .. } => None,
        });
        Ok(hidden.collect())
    }

    fn read(&mut self) {
        let text = self.path.as_ref().and_then(|path| std::fs::read_to_string(path).ok());
        let text = text.unwrap_or_default();
        if text != self.text {
            self.lines = parse(&text);
            self.text = text;
            self.calls.clear();
        }
    }
}

fn parse(text: &str) -> Result<Vec<Line>, String> {
    text.lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| parse_line(line).ok_or_else(|| format!("plan line not understood: {line}")))
        .collect()
}

fn parse_line(line: &str) -> Option<Line> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let (words, at) = match words.as_slice() {
        [words @ .., "at", n] => (words, Some(n.parse().ok()?)),
        words => (words, None),
    };
    let (function, fault) = match words {
        ["compile", "refuse"] => (Function::Compile, Fault::Refuse),
        ["upload", "refuse"] => (Function::Upload, Fault::Refuse),
        ["read", "refuse"] => (Function::Read, Fault::Refuse),
        ["execute", "refuse"] => (Function::Execute, Fault::Refuse),
        ["execute", "lose"] => (Function::Execute, Fault::Lose),
        ["execute", "fail"] => (Function::Execute, Fault::Fail),
        ["execute", "delay", ms] => {
            (Function::Execute, Fault::Delay(Duration::from_millis(ms.parse().ok()?)))
        }
        ["hide", "views"] if at.is_none() => return Some(Line::Hide(Hidden::Views)),
        ["hide", "pointers"] if at.is_none() => return Some(Line::Hide(Hidden::Pointers)),
        ["hide", "memory-stats"] if at.is_none() => return Some(Line::Hide(Hidden::MemoryStats)),
        _ => return None,
    };
    Some(Line::Fault { function, fault, at })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_by_function_since_the_plan_changed() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut plan = Plan::new(Some(file.path().to_owned()));
        assert_eq!(plan.call(Function::Execute), Ok(vec![]));
        std::fs::write(file.path(), "# two faults\n\nexecute refuse at 2\n execute delay 7 \n")
            .unwrap();
        let delay = Fault::Delay(Duration::from_millis(7));
        assert_eq!(plan.call(Function::Execute), Ok(vec![delay]));
        assert_eq!(plan.call(Function::Compile), Ok(vec![]));
        assert_eq!(plan.call(Function::Execute), Ok(vec![Fault::Refuse, delay]));
        assert_eq!(plan.call(Function::Execute), Ok(vec![delay]));
        std::fs::write(file.path(), "execute lose at 1\nhide views").unwrap();
        assert_eq!(plan.call(Function::Execute), Ok(vec![Fault::Lose]));
        assert_eq!(plan.hidden(), Ok(vec![Hidden::Views]));
    }

    #[test]
    fn lines_that_are_not_understood_are_errors() {
        for line in
            ["execute", "execute explode", "compile lose", "hide views at 1", "read refuse at x"]
        {
            assert_eq!(parse(line), Err(format!("plan line not understood: {line}")));
        }
    }
}
