//! Whether streams go on: what comes between two tokens of a request that runs.

use std::collections::BTreeMap;

use tlaloc_engine::{EntryKind, EntryShape};

use crate::support::check;

/// What has run since a request's last token.
#[derive(Debug, Default)]
struct Since {
    /// Token columns of each prefill call.
    prefills: Vec<usize>,
    /// How often each other request was in a decode call.
    others: BTreeMap<u64, usize>,
}

/// The streams that go on.
#[derive(Debug, Default)]
pub struct Gaps(BTreeMap<u64, Since>);

impl Gaps {
    /// A call ran. Between two tokens of a request nobody decodes more than twice (late in one
    /// round, early in the next), and prefill calls keep to the budget or there is only one.
    pub fn call(&mut self, shape: &EntryShape, rows: &[u64], budget: usize) -> Result<(), String> {
        let prefill = shape.kind == EntryKind::Prefill && !shape.verifies();
        for (ticket, since) in &mut self.0 {
            if prefill {
                since.prefills.push(shape.batch * shape.tokens);
                let columns: usize = since.prefills.iter().sum();
                let bounded = since.prefills.len() == 1 || columns <= budget;
                check(bounded, || format!("request {ticket} waits for prefills: {since:?}"))?;
            } else if !rows.contains(ticket) {
                for row in rows {
                    let times = since.others.entry(*row).or_default();
                    *times += 1;
                    let fair = *times <= 2;
                    check(fair, || format!("request {ticket} waits for request {row}"))?;
                }
            }
        }
        Ok(())
    }

    /// A request got a token and goes on.
    pub fn token(&mut self, ticket: u64) {
        self.0.insert(ticket, Since::default());
    }

    /// A request does not run any more.
    pub fn stops(&mut self, ticket: u64) {
        self.0.remove(&ticket);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::entries;

    #[test]
    fn a_gap_that_is_too_long_is_seen() {
        let shapes = entries(4, &[16], &[2], &[1], &[8]);
        let (decode, prefill) = (&shapes[0], &shapes[1]);
        let mut gaps = Gaps::default();
        gaps.token(1);
        assert!(gaps.call(decode, &[2], 8).is_ok() && gaps.call(prefill, &[3], 8).is_ok());
        assert!(gaps.call(decode, &[2], 8).is_ok());
        assert!(gaps.call(decode, &[2], 8).is_err(), "request 2 has three tokens");
        gaps.token(1);
        assert!(gaps.call(prefill, &[3], 8).is_ok());
        assert!(gaps.call(prefill, &[3], 8).is_err(), "16 columns, 8 are allowed");
    }
}
