//! A file of the compile cache: what it is for, and the program.

use sha2::{Digest as _, Sha256};

use crate::plugin::Digest;

/// Start of every file; a change of the format changes it.
pub(super) const MAGIC: &[u8] = b"tlaloc compiled program 2\n";
const DIGEST: usize = size_of::<Digest>();

/// Why a file is of no use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// It is not what was written: cut off, or changed since.
    #[error("it is damaged")]
    Damaged,
    /// It is whole, but was written for another key and renamed or copied since.
    #[error("it is another program's, plugin's or machine's")]
    Foreign,
}

/// All but the program: the start, the key, and the SHA-256 of key and program.
pub(super) fn header(key: &Digest, program: &[u8]) -> Vec<u8> {
    [MAGIC, key, &checksum(key, program)].concat()
}

/// The program in a file of the compile cache that was written for `key`.
///
/// # Errors
/// The file is of no use.
pub fn program_in<'a>(file: &'a [u8], key: &Digest) -> Result<&'a [u8], Unusable> {
    let damaged = Unusable::Damaged;
    let rest = file.strip_prefix(MAGIC).ok_or(damaged)?;
    let (found, rest) = rest.split_first_chunk::<DIGEST>().ok_or(damaged)?;
    let (sum, program) = rest.split_first_chunk::<DIGEST>().ok_or(damaged)?;
    if *sum != checksum(found, program) {
        return Err(damaged);
    }
    if found != key {
        return Err(Unusable::Foreign);
    }
    Ok(program)
}

fn checksum(key: &Digest, program: &[u8]) -> Digest {
    Sha256::new().chain_update(key).chain_update(program).finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_file_of_its_key_holds_a_program() {
        let key = [7; DIGEST];
        let mut file = header(&key, b"code");
        file.extend(b"code");
        assert_eq!(program_in(&file, &key), Ok(&b"code"[..]));
        assert_eq!(program_in(&file, &[8; DIGEST]), Err(Unusable::Foreign));
        for cut in 0..file.len() {
            assert_eq!(program_in(&file[..cut], &key), Err(Unusable::Damaged), "cut at {cut}");
            let mut flipped = file.clone();
            flipped[cut] ^= 1;
            assert_eq!(program_in(&flipped, &key), Err(Unusable::Damaged), "flipped at {cut}");
        }
    }
}
