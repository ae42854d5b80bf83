//! Bytes behind the characters that byte-level vocabularies write them with.

use std::str;

/// The byte that a character of a byte-level vocabulary stands for. Printable bytes of Latin-1
/// stand for themselves; the 68 others, in order, are the characters from U+0100.
fn byte_of(character: char) -> Option<u8> {
    match u32::from(character) {
        code @ (0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff) => u8::try_from(code).ok(),
        code @ 0x100..=0x143 => match (code - 0x100) as u8 {
            below @ 0..=0x20 => Some(below),
            middle @ 0x21..=0x42 => Some(middle - 0x21 + 0x7f),
            _ => Some(0xad),
        },
        _ => None,
    }
}

/// UTF-8 that comes byte by byte. Wrong bytes become U+FFFD, as `String::from_utf8_lossy` puts it.
#[derive(Clone, Debug, Default)]
pub(super) struct Utf8 {
    /// A character's bytes, as long as others may follow. Three at most between calls.
    begun: Vec<u8>,
}

impl Utf8 {
    /// Takes in a token, answers the characters that are complete.
    pub(super) fn push(&mut self, token: &str) -> String {
        let start = self.begun.len();
        for character in token.chars() {
            let Some(byte) = byte_of(character) else {
                // A token that is not written in bytes (an added one) is text.
                self.begun.truncate(start);
                self.begun.extend_from_slice(token.as_bytes());
                break;
            };
            self.begun.push(byte);
        }
        self.take(false)
    }

    /// What no byte can follow any more.
    pub(super) fn finish(&mut self) -> String {
        self.take(true)
    }

    fn take(&mut self, last: bool) -> String {
        let mut text = String::new();
        let mut begun = 0;
        for chunk in self.begun.utf8_chunks() {
            text.push_str(chunk.valid());
            begun += chunk.valid().len();
            let invalid = chunk.invalid();
            let may_go_on = begun + invalid.len() == self.begun.len()
                && str::from_utf8(invalid).is_err_and(|error| error.error_len().is_none());
            if may_go_on && !last {
                break;
            }
            if !invalid.is_empty() {
                text.push(char::REPLACEMENT_CHARACTER);
            }
            begun += invalid.len();
        }
        self.begun.drain(..begun);
        text
    }
}
