//! Elements of BYTES tensors: each is its length as 4 bytes, little endian, and then as many bytes.

use crate::error::Error;

/// The elements of the BYTES tensor `name`, of which its shape says that there are `count`.
///
/// # Errors
/// [`Error::Strings`] where the bytes are not so many elements.
pub fn read_strings<'a>(name: &str, bytes: &'a [u8], count: usize) -> Result<Vec<&'a [u8]>, Error> {
    let wrong = |reason: String| Error::Strings { name: name.to_owned(), reason };
    let mut elements = Vec::new();
    let mut left = bytes;
    while let Some((length, rest)) = left.split_first_chunk::<4>() {
        let length = u32::from_le_bytes(*length) as usize;
        let Some((element, rest)) = rest.split_at_checked(length) else {
            let (index, left) = (elements.len(), rest.len());
            return Err(wrong(format!(
                "element {index} is said to have {length} bytes, of which there are {left}"
            )));
        };
        elements.push(element);
        left = rest;
    }
    if !left.is_empty() {
        return Err(wrong(format!("{} byte(s) are left behind its elements", left.len())));
    }
    if elements.len() != count {
        return Err(wrong(format!(
            "{} element(s) were sent, its shape has {count}",
            elements.len()
        )));
    }
    Ok(elements)
}

/// The bytes of a BYTES tensor of these elements, appended to `bytes`. An element cannot have more
/// than 4 GiB; what is beyond that is cut.
pub fn write_strings<'a>(elements: impl IntoIterator<Item = &'a [u8]>, bytes: &mut Vec<u8>) {
    for element in elements {
        let length = u32::try_from(element.len()).unwrap_or(u32::MAX);
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(&element[..length as usize]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_read_as_they_were_written() {
        let mut bytes = Vec::new();
        write_strings([b"ab".as_slice(), b"", "\u{1f600}".as_bytes()], &mut bytes);
        assert_eq!(bytes, b"\x02\0\0\0ab\0\0\0\0\x04\0\0\0\xf0\x9f\x98\x80");
        let read = read_strings("T", &bytes, 3).unwrap();
        assert_eq!(read, [b"ab".as_slice(), b"", "\u{1f600}".as_bytes()]);
        assert!(read_strings("T", &[], 0).unwrap().is_empty());
    }

    #[test]
    fn malformed_bytes_are_refused_by_name() {
        for (bytes, count, needle) in [
            (
                b"\x03\0\0\0ab".as_slice(),
                1,
                "element 0 is said to have 3 bytes, of which there are 2",
            ),
            (b"\xff\xff\xff\xff", 1, "element 0 is said to have 4294967295 bytes"),
            (b"\x01\0\0\0a\x01\0", 1, "2 byte(s) are left"),
            (b"\x01\0\0\0a", 2, "1 element(s) were sent, its shape has 2"),
            (b"", 1, "0 element(s) were sent"),
        ] {
            let error = read_strings("text_input", bytes, count).unwrap_err().to_string();
            assert!(error.contains("'text_input'") && error.contains(needle), "{error}");
        }
    }
}
