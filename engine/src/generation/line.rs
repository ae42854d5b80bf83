//! Requests in the order in which they are served.

use std::collections::BTreeMap;

use super::request::{Rank, RequestKey};

/// Requests that wait, ascending by rank.
#[derive(Debug, Default)]
pub(super) struct Line(BTreeMap<Rank, RequestKey>);

impl Line {
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn insert(&mut self, rank: Rank, key: RequestKey) {
        self.0.insert(rank, key);
    }

    pub fn first(&self) -> Option<RequestKey> {
        self.0.values().next().copied()
    }

    pub fn remove(&mut self, rank: Rank) {
        self.0.remove(&rank);
    }

    pub fn iter(&self) -> impl Iterator<Item = RequestKey> {
        self.0.values().copied()
    }
}

/// Requests that run, in order of submission.
#[derive(Debug, Default)]
pub(super) struct Running(Vec<(u64, RequestKey)>);

impl Running {
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn insert(&mut self, rank: Rank, key: RequestKey) {
        let at = self.0.partition_point(|(order, _)| *order < rank.order);
        self.0.insert(at, (rank.order, key));
    }

    pub fn remove(&mut self, rank: Rank) {
        if let Ok(at) = self.0.binary_search_by_key(&rank.order, |(order, _)| *order) {
            self.0.remove(at);
        }
    }

    pub fn pop(&mut self) -> Option<RequestKey> {
        self.0.pop().map(|(_, key)| key)
    }

    /// Oldest first.
    pub fn iter(&self) -> impl Iterator<Item = RequestKey> {
        self.0.iter().map(|(_, key)| *key)
    }
}
