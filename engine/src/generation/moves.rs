//! Rows of the pools that are copied to or from host memory, or zeroed.

use super::request::RequestKey;
use crate::Resource;
use crate::resources::Held;

/// What is done with rows of the pools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveKind {
    /// Device rows are copied to host rows.
    Out,
    /// Host rows are copied to device rows.
    In,
    /// Device rows are zeroed.
    Scrub,
}

/// What is to be done now. A row is one page of every pool of its class, or one state slot of every
/// linear-attention pool.
#[derive(Clone, Copy, Debug)]
pub struct Moves<'a> {
    /// What is done.
    pub kind: MoveKind,
    pub(super) device: &'a Held,
    pub(super) host: &'a Held,
}

/// The rows of one class, one after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MovedRows<'a> {
    /// Pages or state slots.
    pub device: &'a [usize],
    /// Rows of host memory, as many; none to zero.
    pub host: &'a [usize],
}

impl<'a> Moves<'a> {
    /// The rows of a class.
    pub fn rows(&self, resource: Resource) -> MovedRows<'a> {
        MovedRows { device: self.device.of(resource), host: self.host.of(resource) }
    }
}

/// Moves that are asked for, with whose they are.
#[derive(Debug)]
pub(super) struct Moving {
    pub kind: MoveKind,
    pub requests: Vec<RequestKey>,
    pub device: Held,
    pub host: Held,
}

impl Moving {
    pub fn new(kind: MoveKind) -> Moving {
        Moving { kind, requests: Vec::new(), device: Held::default(), host: Held::default() }
    }

    /// Rows of every class.
    pub fn rows(&self) -> usize {
        self.device.amounts().sum()
    }

    /// Adds a request: as many of what it holds on the device as it has host rows.
    pub fn add(&mut self, request: RequestKey, device: &Held, host: &Held) {
        self.requests.push(request);
        let rows = host.amounts();
        self.device.extend(device, rows);
        self.host.extend(host, rows);
    }
}
