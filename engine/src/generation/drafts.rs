//! Drafts for a verify call.

use super::request::RequestKey;
use super::state::State;
use crate::Amounts;

impl State {
    /// Gives drafts to requests that decode, and returns the entry that verifies them: one call for
    /// all of `rows` in place of their decode calls. None, and no drafts, when too few rows have
    /// some to make up for what the others cost in it, or no entry takes all rows.
    pub fn draft(&mut self, rows: &[RequestKey]) -> Option<usize> {
        self.lookup?;
        let (batch, _) = self.geometry.max_verify()?;
        if rows.is_empty() || rows.len() > batch {
            return None;
        }
        let mut drafted = 0;
        for &key in rows {
            drafted += usize::from(self.draft_one(key) > 0);
        }
        let entry = if drafted > 0 && 2 * drafted >= rows.len() {
            let drafts = rows.iter().map(|key| self.requests[*key].drafts).max().unwrap_or(0);
            let reach = |key: &RequestKey| {
                let request = &self.requests[*key];
                request.computed + 1 + request.drafts
            };
            let context = rows.iter().map(reach).max().unwrap_or(0);
            self.geometry.choose_verify(rows.len(), context, 1 + drafts)
        } else {
            None
        };
        if entry.is_none() {
            rows.iter().for_each(|key| self.requests[*key].forget_drafts());
        }
        entry
    }

    /// Gives a request drafts; returns how many.
    fn draft_one(&mut self, key: RequestKey) -> usize {
        let Some(lookup) = self.lookup else { return 0 };
        let request = &mut self.requests[key];
        if !request.decodes() {
            return 0;
        }
        let Some(place) = request.lookup.find(&request.tokens, lookup) else { return 0 };
        let start = request.computed;
        let mut drafts = lookup
            .max_drafts
            .min(request.remaining() - 1)
            .min(self.geometry.ring_room(start).saturating_sub(1))
            .min(self.geometry.max_context() - start - 1);
        let needs = Amounts::lacking(start + 1 + drafts, &request.held, &self.geometry);
        if self.resources.short_of(needs).is_none() {
            self.resources.take(needs, &mut request.held);
        } else {
            // Nobody is preempted for drafts: they go where there is room already.
            let room = request.held.pages.len() * self.geometry.block_size();
            drafts = drafts.min(room - start - 1);
            let needs = Amounts::lacking(start + 1 + drafts, &request.held, &self.geometry);
            if needs.sum() > 0 {
                drafts = 0;
            }
        }
        // What stood there goes on into the drafts themselves where it reaches the end.
        for next in place..place + drafts {
            request.tokens.push(request.tokens[next]);
        }
        request.drafts = drafts;
        drafts
    }
}
