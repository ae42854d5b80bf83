//! Files of the compile cache.

use sha2::{Digest as _, Sha256};
use tlaloc_pjrt::program_in;

const MAGIC: &[u8] = b"tlaloc compiled program 2\n";
const KEY: [u8; 32] = *b"the key of one program, 32 bytes";

/// A file that is found under a key. Only what was written for it, whole, holds a program.
pub fn compile_cache(data: &[u8]) {
    if let Ok(program) = program_in(data, &KEY) {
        assert_eq!(data, written(&KEY, program));
    }
}

fn written(key: &[u8; 32], program: &[u8]) -> Vec<u8> {
    let sum = Sha256::new().chain_update(key).chain_update(program).finalize();
    [MAGIC, key, &sum, program].concat()
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let good = written(&KEY, b"code");
    program_in(&good, &KEY).unwrap();
    vec![good, written(&[0; 32], b"of another key"), written(&KEY, b""), MAGIC.to_vec()]
}
