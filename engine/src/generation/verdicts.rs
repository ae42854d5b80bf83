//! What the owner made of the rows of a call.

/// One verdict for each row of a call, in row order. The memory is used again.
#[derive(Clone, Debug, Default)]
pub struct Verdicts {
    verdicts: Vec<Verdict>,
    /// Of each row its tokens, and drafts after them.
    tokens: Vec<i32>,
}

#[derive(Clone, Copy, Debug)]
enum Verdict {
    None,
    Tokens { tokens: usize, drafts: usize, finished: bool },
    Failed,
}

/// What became of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sampled<'a> {
    /// Nothing was sampled.
    Nothing,
    /// These tokens come next, and perhaps these after them.
    Tokens { tokens: &'a [i32], drafts: &'a [i32], finished: bool },
    /// The row is of no use.
    Failed,
}

impl Verdicts {
    /// None yet.
    pub fn new() -> Verdicts {
        Verdicts::default()
    }

    /// None again.
    pub fn clear(&mut self) {
        self.verdicts.clear();
        self.tokens.clear();
    }

    /// Of a row that does not sample.
    pub fn push_none(&mut self) {
        self.verdicts.push(Verdict::None);
    }

    /// Of a row that samples: the tokens that come next, at least one. All but the last are the
    /// row's drafts, each of which was drawn. With `finished` the request ends with them; it also
    /// ends with the last of the tokens that it asked for.
    pub fn push_tokens(&mut self, tokens: &[i32], finished: bool) {
        self.tokens.extend_from_slice(tokens);
        self.verdicts.push(Verdict::Tokens { tokens: tokens.len(), drafts: 0, finished });
    }

    /// Of the same row, if the model has a draft head: what that proposes for the tokens after
    /// those, [`Geometry::draft_tokens`](crate::Geometry::draft_tokens) of them. Without them the
    /// request's next token is taken in alone.
    pub fn propose(&mut self, proposed: &[i32]) {
        if let Some(Verdict::Tokens { drafts, .. }) = self.verdicts.last_mut() {
            *drafts += proposed.len();
            self.tokens.extend_from_slice(proposed);
        }
    }

    /// Of a row whose logits are not finite or which could not be sampled: the request ends, and
    /// what it held is zeroed before anyone else gets it.
    pub fn push_failed(&mut self) {
        self.verdicts.push(Verdict::Failed);
    }

    /// In row order. Rows that were forgotten sampled nothing.
    pub(super) fn iter(&self) -> impl Iterator<Item = Sampled<'_>> {
        let mut start = 0;
        let given = self.verdicts.iter().map(move |verdict| match *verdict {
            Verdict::None => Sampled::Nothing,
            Verdict::Failed => Sampled::Failed,
            Verdict::Tokens { tokens, drafts, finished } => {
                let (tokens, drafts) = self.tokens[start..start + tokens + drafts].split_at(tokens);
                start += tokens.len() + drafts.len();
                Sampled::Tokens { tokens, drafts, finished }
            }
        });
        given.chain(std::iter::repeat(Sampled::Nothing))
    }
}
