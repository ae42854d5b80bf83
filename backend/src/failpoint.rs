//! For tests alone: an instance thread that dies, which nothing that a client, file or plugin does can
//! bring about.

/// The environment variable that names a model: the thread of each of its instances panics in its first
/// execution.
const VARIABLE: &str = "TLALOC_TEST_INSTANCE_PANIC";

/// Whether the instance threads of this model are to panic.
pub fn instance_panics(model: &str) -> bool {
    std::env::var(VARIABLE).is_ok_and(|named| named == model)
}

/// Panics.
pub fn panic() {
    std::panic::resume_unwind(Box::new(VARIABLE));
}
