//! What is to fail, and when.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use tlaloc_pjrt_sys as sys;
use tlaloc_pjrt_sys::PJRT_Error_Code;

use crate::functions::{self, Function};

/// How a call goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It returns this error and does nothing.
    Refuse(PJRT_Error_Code),
    /// It succeeds, does nothing and returns nothing.
    Null,
    /// It runs, its results are destroyed, and it returns an error.
    Lose,
    /// It succeeds, and its event comes with this error.
    Fail(PJRT_Error_Code),
    /// It sleeps first.
    Delay(Duration),
}

/// Which calls meet a fault.
#[derive(Debug, Clone, Copy, PartialEq)]
enum When {
    Always,
    At(u64),
    From(u64),
    /// Of so many in a hundred, drawn by the seed.
    Chance(f64),
}

impl When {
    fn meets(self, seed: u64, function: &str, call: u64) -> bool {
        match self {
            When::Always => true,
            When::At(at) => at == call,
            When::From(first) => call >= first,
            When::Chance(percent) => draw(seed, function, call) * 100.0 < percent,
        }
    }
}

/// A number in [0, 1) that depends on nothing else: threads that call different functions do not
/// change each other's faults.
fn draw(seed: u64, function: &str, call: u64) -> f64 {
    let mut state = seed;
    for word in function.bytes().map(u64::from).chain([call]) {
        // SplitMix64.
        state = (state ^ word).wrapping_add(0x9e37_79b9_7f4a_7c15);
        state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        state ^= state >> 31;
    }
    (state >> 11) as f64 / (1_u64 << 53) as f64
}

/// A line of the plan.
#[derive(Debug, Clone, PartialEq)]
enum Line {
    Fault { function: Function, fault: Fault, when: When },
    Edit(Edit),
    Seed(u64),
    Report(PathBuf),
}

/// What is changed in a table that is handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Edit {
    /// The function is null.
    Hide(Function),
    /// There is no extension.
    HideExtensions,
    /// The plugin says that it has this version.
    ApiVersion(i32, i32),
    /// The table says that it has so many bytes.
    StructSize(usize),
}

/// The plan file as last read, and the calls since it changed.
pub(crate) struct Plan {
    path: Option<PathBuf>,
    text: String,
    lines: Result<Vec<Line>, String>,
    calls: BTreeMap<&'static str, u64>,
    injected: u64,
}

impl Plan {
    pub(crate) fn new(path: Option<PathBuf>) -> Self {
        Self {
            path,
            text: String::new(),
            lines: Ok(Vec::new()),
            calls: BTreeMap::new(),
            injected: 0,
        }
    }

    /// Counts a call and returns the faults it meets, in the order of the plan.
    pub(crate) fn call(&mut self, function: &'static str) -> Result<Vec<Fault>, String> {
        self.read();
        let count = self.calls.entry(function).or_default();
        *count += 1;
        let lines = self.lines.as_ref()?;
        let seed = lines.iter().find_map(|line| match line {
            Line::Seed(seed) => Some(*seed),
            _ => None,
        });
        let seed = seed.unwrap_or_default();
        let faults = lines.iter().filter_map(|line| match line {
            Line::Fault { function: of, fault, when }
                if of.name == function && when.meets(seed, function, *count) =>
            {
                Some(*fault)
            }
            _ => None,
        });
        let faults: Vec<Fault> = faults.collect();
        self.injected += faults.len() as u64;
        Ok(faults)
    }

    /// How a table that is handed out now is changed.
    pub(crate) fn edits(&mut self) -> Result<Vec<Edit>, String> {
        self.read();
        let edits = self.lines.as_ref()?.iter().filter_map(|line| match line {
            Line::Edit(edit) => Some(*edit),
            _ => None,
        });
        Ok(edits.collect())
    }

    /// Where to report to, the calls and how many faults they met since the plan changed.
    pub(crate) fn report(&self) -> Option<(PathBuf, &BTreeMap<&'static str, u64>, u64)> {
        let path = self.lines.as_ref().ok()?.iter().find_map(|line| match line {
            Line::Report(path) => Some(path.clone()),
            _ => None,
        })?;
        Some((path, &self.calls, self.injected))
    }

    fn read(&mut self) {
        let text = self.path.as_ref().and_then(|path| std::fs::read_to_string(path).ok());
        let text = text.unwrap_or_default();
        if text != self.text {
            self.lines = parse(&text);
            self.text = text;
            self.calls.clear();
            self.injected = 0;
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
    match words.as_slice() {
        ["hide", "extensions"] => return Some(Line::Edit(Edit::HideExtensions)),
        ["hide", function] => return Some(Line::Edit(Edit::Hide(functions::named(function)?))),
        ["api-version", version] => {
            let (major, minor) = version.split_once('.')?;
            return Some(Line::Edit(Edit::ApiVersion(major.parse().ok()?, minor.parse().ok()?)));
        }
        ["struct-size", bytes] => return Some(Line::Edit(Edit::StructSize(bytes.parse().ok()?))),
        ["seed", seed] => return Some(Line::Seed(seed.parse().ok()?)),
        ["report", path] => return Some(Line::Report(PathBuf::from(path))),
        _ => {}
    }
    let (words, when) = match words.as_slice() {
        [words @ .., "at", n] => (words, When::At(n.parse().ok()?)),
        [words @ .., "from", n] => (words, When::From(n.parse().ok()?)),
        [words @ .., "chance", percent] => {
            (words, When::Chance(percent.strip_suffix('%')?.parse().ok()?))
        }
        words => (words, When::Always),
    };
    let (function, fault) = words.split_first()?;
    let function = functions::named(function)?;
    let fault = match fault {
        ["refuse"] => Fault::Refuse(sys::PJRT_Error_Code_INTERNAL),
        ["refuse", code] => Fault::Refuse(named_code(code)?),
        ["fail"] => Fault::Fail(sys::PJRT_Error_Code_INTERNAL),
        ["fail", code] => Fault::Fail(named_code(code)?),
        ["null"] => Fault::Null,
        ["lose"] => Fault::Lose,
        ["delay", ms] => Fault::Delay(Duration::from_millis(ms.parse().ok()?)),
        _ => return None,
    };
    function.can(fault).then_some(Line::Fault { function, fault, when })
}

/// The codes that a plan may name.
fn named_code(name: &str) -> Option<PJRT_Error_Code> {
    Some(match name {
        "CANCELLED" => sys::PJRT_Error_Code_CANCELLED,
        "UNKNOWN" => sys::PJRT_Error_Code_UNKNOWN,
        "INVALID_ARGUMENT" => sys::PJRT_Error_Code_INVALID_ARGUMENT,
        "DEADLINE_EXCEEDED" => sys::PJRT_Error_Code_DEADLINE_EXCEEDED,
        "NOT_FOUND" => sys::PJRT_Error_Code_NOT_FOUND,
        "RESOURCE_EXHAUSTED" => sys::PJRT_Error_Code_RESOURCE_EXHAUSTED,
        "FAILED_PRECONDITION" => sys::PJRT_Error_Code_FAILED_PRECONDITION,
        "ABORTED" => sys::PJRT_Error_Code_ABORTED,
        "UNIMPLEMENTED" => sys::PJRT_Error_Code_UNIMPLEMENTED,
        "INTERNAL" => sys::PJRT_Error_Code_INTERNAL,
        "UNAVAILABLE" => sys::PJRT_Error_Code_UNAVAILABLE,
        "DATA_LOSS" => sys::PJRT_Error_Code_DATA_LOSS,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXECUTE: &str = "PJRT_LoadedExecutable_Execute";
    const REFUSE: Fault = Fault::Refuse(sys::PJRT_Error_Code_INTERNAL);

    #[test]
    fn calls_are_counted_by_function_since_the_plan_changed() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut plan = Plan::new(Some(file.path().to_owned()));
        assert_eq!(plan.call(EXECUTE), Ok(vec![]));
        let text = "# two faults\n\nexecute refuse at 2\n execute delay 7 \nreport /r\n";
        std::fs::write(file.path(), text).unwrap();
        let delay = Fault::Delay(Duration::from_millis(7));
        assert_eq!(plan.call(EXECUTE), Ok(vec![delay]));
        assert_eq!(plan.call("PJRT_Client_Compile"), Ok(vec![]));
        assert_eq!(plan.call(EXECUTE), Ok(vec![REFUSE, delay]));
        assert_eq!(plan.call(EXECUTE), Ok(vec![delay]));
        let calls = BTreeMap::from([(EXECUTE, 3), ("PJRT_Client_Compile", 1)]);
        assert_eq!(plan.report(), Some((PathBuf::from("/r"), &calls, 4)));
        let text =
            "execute lose from 2\nhide PJRT_Client_Compile\napi-version 0.9\nhide extensions";
        std::fs::write(file.path(), text).unwrap();
        let met: Vec<_> = (0..3).map(|_| plan.call(EXECUTE).unwrap().len()).collect();
        assert_eq!(met, [0, 1, 1]);
        let hidden = Edit::Hide(functions::named("compile").unwrap());
        let edits = vec![hidden, Edit::ApiVersion(0, 9), Edit::HideExtensions];
        assert_eq!(plan.edits(), Ok(edits));
        assert_eq!(plan.report(), None);
    }

    #[test]
    fn a_seed_draws_the_same_calls_again() {
        let drawn = |seed| {
            let met = |call| When::Chance(25.0).meets(seed, EXECUTE, call);
            (1..=2000).filter(|call| met(*call)).collect::<Vec<_>>()
        };
        assert_eq!(drawn(7), drawn(7));
        assert_ne!(drawn(7), drawn(8));
        // Five standard deviations of a binomial distribution.
        assert!((404..=596).contains(&drawn(7).len()), "{}", drawn(7).len());
        assert!(
            !When::Chance(0.0).meets(7, EXECUTE, 1) && When::Chance(100.0).meets(7, EXECUTE, 1)
        );
    }

    #[test]
    fn codes_and_functions_are_named_as_the_header_does() {
        let line =
            parse_line("PJRT_Buffer_ReadyEvent fail RESOURCE_EXHAUSTED chance 0.5%").unwrap();
        let expected = Line::Fault {
            function: functions::named("PJRT_Buffer_ReadyEvent").unwrap(),
            fault: Fault::Fail(sys::PJRT_Error_Code_RESOURCE_EXHAUSTED),
            when: When::Chance(0.5),
        };
        assert_eq!(line, expected);
    }

    #[test]
    fn lines_that_are_not_understood_are_errors() {
        for line in [
            "execute",
            "execute explode",
            "compile lose",
            "compile fail",
            "PJRT_Event_Await null",
            "PJRT_Error_Message refuse",
            "hide views",
            "hide compile at 1",
            "read refuse at x",
            "read refuse SOMETIMES",
            "read refuse chance 5",
            "api-version 1",
        ] {
            assert_eq!(parse(line), Err(format!("plan line not understood: {line}")));
        }
    }
}
