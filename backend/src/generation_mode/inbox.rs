//! The way of requests from Triton's threads to the instance thread.

use parking_lot::{Condvar, Mutex};

use super::job::Job;

/// What Triton's threads and the instance thread share.
#[derive(Default)]
pub struct Shared {
    /// What was taken over.
    pub inbox: Mutex<Inbox>,
    /// Told when the inbox has something to look at.
    pub arrived: Condvar,
}

/// Requests on their way to the instance thread, and what it is told.
#[derive(Default)]
pub struct Inbox {
    /// Those that it has not seen yet.
    pub requests: Vec<Incoming>,
    /// Requests that were taken over and not yet answered.
    pub inside: usize,
    /// What is inside is to be run to its end.
    pub stop: bool,
    /// The thread is gone after a panic: requests are refused.
    pub dead: bool,
}

/// A place among the requests inside, given back unless the request gets to the instance thread.
pub struct Place<'a>(pub &'a Shared);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut inbox = self.0.inbox.lock();
        inbox.inside = inbox.inside.saturating_sub(1);
    }
}

/// A checked request on its way to the instance thread.
pub struct Incoming {
    /// What becomes of it.
    pub job: Job,
    /// Its tokens.
    pub prompt: Vec<i32>,
    /// Most tokens to generate.
    pub max_tokens: usize,
}
