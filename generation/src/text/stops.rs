//! Stop strings in a text that comes in pieces.

use std::cmp::Reverse;

/// Strings that end a reply. The one that is complete first in the text ends it, however the text
/// is cut into pieces; of two that end with the same character, the longer.
///
/// A string is followed as Knuth, Morris and Pratt do: a byte is looked at once for each.
#[derive(Clone, Debug, Default)]
pub struct StopStrings {
    strings: Vec<StopString>,
    included: bool,
    /// Text that may be the start of a stop string.
    held: String,
    ended: bool,
}

#[derive(Clone, Debug)]
struct StopString {
    bytes: Vec<u8>,
    /// For each of its beginnings, how long the longest shorter one is that ends it.
    shorter: Vec<usize>,
    /// How much of it the text ends with.
    matched: usize,
}

impl StopStrings {
    /// `included`: the string that ends a reply is part of it. An empty string never ends one.
    pub fn new<S: AsRef<str>>(strings: &[S], included: bool) -> StopStrings {
        let strings = strings.iter().map(|string| StopString::new(string.as_ref()));
        StopStrings { strings: strings.collect(), included, ..StopStrings::default() }
    }

    /// Takes in a piece of text and adds to `text` what is certain now. The place of the string
    /// that ended the reply with this piece, if one did; nothing comes after it.
    ///
    /// With `may_end` false a string that is complete in this piece does not count.
    pub(super) fn push(&mut self, piece: &str, may_end: bool, text: &mut String) -> Option<usize> {
        if self.ended {
            return None;
        }
        let before = self.held.len();
        self.held.push_str(piece);
        for (index, &byte) in piece.as_bytes().iter().enumerate() {
            let strings = self.strings.iter_mut().enumerate();
            let complete = strings.filter_map(|(place, string)| Some((place, string.next(byte)?)));
            let longest = complete.min_by_key(|&(_, length)| Reverse(length));
            if let Some((place, length)) = longest.filter(|_| may_end) {
                let end = before + index + 1;
                text.push_str(&self.held[..if self.included { end } else { end - length }]);
                self.held.clear();
                self.ended = true;
                return Some(place);
            }
        }
        // What is part of the reply either way does not wait.
        let begun = self.strings.iter().map(|string| string.matched).max().unwrap_or_default();
        let certain = if self.included { self.held.len() } else { self.held.len() - begun };
        text.push_str(&self.held[..certain]);
        self.held.drain(..certain);
        None
    }

    /// Adds what was held back: no more text comes.
    pub(super) fn finish(&mut self, text: &mut String) {
        text.push_str(&self.held);
        self.held.clear();
        self.ended = true;
    }
}

impl StopString {
    fn new(string: &str) -> StopString {
        let bytes = string.as_bytes().to_vec();
        let mut new = StopString { shorter: vec![0; bytes.len()], bytes, matched: 0 };
        for index in 1..new.bytes.len() {
            new.next(new.bytes[index]);
            new.shorter[index] = new.matched;
        }
        new.matched = 0;
        new
    }

    /// Takes in a byte of the text; the string's length if it is complete with it.
    fn next(&mut self, byte: u8) -> Option<usize> {
        loop {
            if self.bytes.get(self.matched) == Some(&byte) {
                self.matched += 1;
                break;
            }
            match self.matched.checked_sub(1) {
                None => return None,
                Some(last) => self.matched = self.shorter[last],
            }
        }
        let complete = self.matched == self.bytes.len();
        if complete {
            self.matched = self.shorter[self.matched - 1];
        }
        complete.then_some(self.bytes.len())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::StopStrings;

    /// The reply to a text in pieces, and which string ended it after how many pieces.
    fn reply(strings: &[&str], included: bool, pieces: &[&str]) -> (String, Option<usize>) {
        let (mut stops, mut text) = (StopStrings::new(strings, included), String::new());
        let ends = pieces.iter().map(|piece| stops.push(piece, true, &mut text));
        let end = ends.fold(None, |end, next| end.or(next));
        stops.finish(&mut text);
        (text, end)
    }

    /// The same by looking through the whole text.
    fn expected(strings: &[String], included: bool, text: &str) -> (String, Option<usize>) {
        for end in (1..=text.len()).filter(|&end| text.is_char_boundary(end)) {
            let ends = |string: &&String| !string.is_empty() && text[..end].ends_with(*string);
            if let Some(longest) = strings.iter().filter(ends).map(String::len).max() {
                let place = strings.iter().position(|s| s.len() == longest && ends(&s));
                let cut = if included { end } else { end - longest };
                return (text[..cut].to_owned(), place);
            }
        }
        (text.to_owned(), None)
    }

    #[test]
    fn tensorrtllm_backend_128_a_stop_string_need_not_end_with_a_token() {
        for pieces in [
            &["one ST", "OP two"][..], // over a border
            &["one STOP two"],         // within a piece
            &["one ", "STOP", " two"], // a piece
            &["o", "ne", " S", "T", "O", "P"],
            &["one STOP two STOP"], // twice
            &["one S", "TO", "P two", " STOP"],
        ] {
            assert_eq!(reply(&["STOP"], false, pieces), ("one ".into(), Some(0)), "{pieces:?}");
            assert_eq!(reply(&["STOP"], true, pieces), ("one STOP".into(), Some(0)));
        }
        assert_eq!(reply(&["STOP"], false, &["STOP"]), (String::new(), Some(0)), "at the start");
        assert_eq!(reply(&["STOP"], false, &["STO", "RY S"]), ("STORY S".into(), None));
        assert_eq!(reply(&["x", "日本"], false, &["a日", "日本語"]), ("a日".into(), Some(1)));
        assert_eq!(reply(&["aab"], false, &["aaa", "ab"]), ("aa".into(), Some(0)));
        assert_eq!(reply(&["b", "aab"], false, &["caab"]), ("c".into(), Some(1)), "the longer");
        assert_eq!(reply(&["abcd", "bc"], false, &["abcd"]), ("a".into(), Some(1)), "the first");
        assert_eq!(reply(&[""], false, &["ab"]), ("ab".into(), None));
    }

    #[test]
    fn only_the_beginning_of_a_stop_string_is_held_back() {
        let (mut stops, mut text) = (StopStrings::new(&["\n\nUser:"], false), String::new());
        for (piece, so_far) in [
            ("Hello", "Hello"),
            (".\n", "Hello."),
            ("\nUs", "Hello."),
            ("ing it", "Hello.\n\nUsing it"),
            ("\n\n\n", "Hello.\n\nUsing it\n"),
        ] {
            assert_eq!(stops.push(piece, true, &mut text), None);
            assert_eq!(text, so_far);
        }
        let (mut stops, mut text) = (StopStrings::new(&["STOP"], true), String::new());
        stops.push("a ST", true, &mut text);
        assert_eq!(text, "a ST", "it is part of the reply either way");
    }

    #[test]
    fn a_string_counts_where_its_last_character_may_end_the_reply() {
        let (mut stops, mut text) = (StopStrings::new(&["aba"], false), String::new());
        assert_eq!(stops.push("xaba", false, &mut text), None);
        assert_eq!(stops.push("ba", true, &mut text), Some(0));
        assert_eq!(text, "xab");
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(
            text in "[abé日]{0,40}",
            strings in prop::collection::vec("[abé日]{0,4}", 0..4),
            borders in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
            included in any::<bool>(),
        ) {
            let characters: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
            let at = |border: &prop::sample::Index| match characters.len() {
                0 => 0,
                count => characters[border.index(count)],
            };
            let mut borders: Vec<usize> = borders.iter().map(at).collect();
            borders.extend([0, text.len()]);
            borders.sort_unstable();
            let pieces: Vec<&str> = borders.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect();
            let strings_of: Vec<&str> = strings.iter().map(String::as_str).collect();
            let found = reply(&strings_of, included, &pieces);
            prop_assert_eq!(found, expected(&strings, included, &text));
        }

        #[test]
        fn nothing_is_let_out_that_a_stop_string_takes_back(
            text in "[ab]{0,40}",
            strings in prop::collection::vec("[ab]{1,5}", 1..4),
        ) {
            let strings: Vec<&str> = strings.iter().map(String::as_str).collect();
            let (whole, _) = reply(&strings, false, &[&text]);
            let (mut stops, mut so_far) = (StopStrings::new(&strings, false), String::new());
            for piece in text.split_inclusive("") {
                stops.push(piece, true, &mut so_far);
                prop_assert!(whole.starts_with(&so_far), "{} in {}", so_far, whole);
            }
        }
    }
}
