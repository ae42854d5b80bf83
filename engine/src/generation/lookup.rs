//! Drafts from a request's own history (prompt lookup).
//!
//! The places where the newest tokens occurred before are found through chains of n-grams with the
//! same hash, as compressors of the LZ77 family do: a token costs one insertion, a search looks at
//! no more than [`MOST_PLACES`] places, and neither depends on how long the history is.

use super::PromptLookup;

/// Places that a search looks at, newest first.
const MOST_PLACES: usize = 64;

/// Where each n-gram of a request's tokens ended. All memory is taken by [`Lookup::reserve`].
#[derive(Debug, Default)]
pub(super) struct Lookup {
    /// By hash, the newest place; 0 for none. As many as a power of two.
    newest: Vec<u32>,
    /// By place, an older one with the same hash; 0 for none.
    older: Vec<u32>,
}

impl Lookup {
    /// Takes memory for a history of `length` tokens.
    pub fn reserve(&mut self, length: usize) {
        let buckets = length.next_power_of_two().clamp(1 << 4, 1 << 16);
        self.newest.resize(buckets, 0);
        self.older.reserve_exact(length);
    }

    /// Takes in the places whose next token is known. `tokens` are those of the last call and more.
    pub fn extend(&mut self, tokens: &[i32], settings: PromptLookup) {
        if self.newest.is_empty() {
            return;
        }
        for place in self.older.len()..tokens.len() {
            let gram = place.checked_sub(settings.min_ngram).map(|start| &tokens[start..place]);
            let older = match gram {
                Some(gram) if !gram.is_empty() => {
                    let bucket = self.bucket(gram);
                    std::mem::replace(&mut self.newest[bucket], place as u32)
                }
                _ => 0,
            };
            self.older.push(older);
        }
    }

    /// The place in `tokens` after the longest of the newest n-grams that occurred before, the
    /// newest such place: what stood there may come again.
    pub fn find(&self, tokens: &[i32], settings: PromptLookup) -> Option<usize> {
        let PromptLookup { min_ngram, max_ngram, .. } = settings;
        let gram = tokens.get(tokens.len().checked_sub(min_ngram)?..)?;
        if self.newest.is_empty() || gram.is_empty() {
            return None;
        }
        let mut best = None;
        let mut longest = min_ngram - 1;
        let mut place = self.newest[self.bucket(gram)] as usize;
        for _ in 0..MOST_PLACES {
            if place == 0 || longest >= max_ngram {
                break;
            }
            let equal = common_suffix(&tokens[..place], tokens, max_ngram);
            if equal > longest {
                (best, longest) = (Some(place), equal);
            }
            place = self.older[place] as usize;
        }
        best
    }

    fn bucket(&self, gram: &[i32]) -> usize {
        let mix = |hash: u64, &token: &i32| {
            (hash.rotate_left(5) ^ u64::from(token as u32)).wrapping_mul(0x517c_c1b7_2722_0a95)
        };
        let hash = gram.iter().fold(0, mix);
        (hash >> 32) as usize & (self.newest.len() - 1)
    }
}

/// How many of the last tokens of both are the same, at most `most`.
fn common_suffix(a: &[i32], b: &[i32], most: usize) -> usize {
    a.iter().rev().zip(b.iter().rev()).take(most).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SETTINGS: PromptLookup = PromptLookup { max_drafts: 4, min_ngram: 2, max_ngram: 4 };

    fn indexed(tokens: &[i32], settings: PromptLookup) -> Lookup {
        let mut lookup = Lookup::default();
        lookup.reserve(tokens.len());
        // In two parts, as calls come.
        lookup.extend(&tokens[..tokens.len() / 2], settings);
        lookup.extend(tokens, settings);
        lookup
    }

    #[test]
    fn the_longest_and_then_the_newest_n_gram_counts() {
        let find = |tokens: &[i32]| indexed(tokens, SETTINGS).find(tokens, SETTINGS);
        // ...1 2 3 | 9 twice, with 0 in front the first time: three tokens are the same.
        assert_eq!(find(&[0, 2, 3, 9, 7, 2, 3, 8, 0, 2, 3]), Some(3));
        assert_eq!(find(&[4, 2, 3, 9, 7, 2, 3, 8, 0, 2, 3]), Some(7));
        // Control: one token is not enough.
        assert_eq!(find(&[4, 3, 9, 7, 3, 8, 0, 2, 3]), None);
        assert_eq!(find(&[5, 5, 5]), Some(2));
        assert_eq!((find(&[5, 5]), find(&[5]), find(&[])), (None, None, None));
    }

    proptest! {
        /// As a search of the whole history finds it.
        #[test]
        fn finds_what_a_full_search_finds(
            tokens in prop::collection::vec(0..4, 0..60),
            min_ngram in 1usize..4,
            more in 0usize..3,
        ) {
            let settings = PromptLookup { max_drafts: 4, min_ngram, max_ngram: min_ngram + more };
            let mut expected = None;
            let mut longest = min_ngram - 1;
            for place in (1..tokens.len()).rev() {
                let equal = common_suffix(&tokens[..place], &tokens, settings.max_ngram);
                if equal > longest {
                    (expected, longest) = (Some(place), equal);
                }
            }
            prop_assert_eq!(indexed(&tokens, settings).find(&tokens, settings), expected);
        }
    }
}
