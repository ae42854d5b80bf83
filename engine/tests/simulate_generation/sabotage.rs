//! Faults put between the scheduler and what checks it, to show that the checks see them.

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sabotage {
    /// An end is dropped.
    DropEnd,
    /// A page comes back from host memory as another one.
    OtherPage,
    /// Pages are not zeroed.
    NoScrub,
    /// The device forgets what it holds.
    ForgetfulDevice,
    /// A draft that is wrong is taken.
    WrongDraft,
    /// The scheduler believes that a failed execution worked.
    HiddenFailure,
    /// The scheduler is told of a later time than it is.
    FastClock,
}

impl Sabotage {
    pub const ALL: [Sabotage; 7] = [
        Sabotage::DropEnd,
        Sabotage::OtherPage,
        Sabotage::NoScrub,
        Sabotage::ForgetfulDevice,
        Sabotage::WrongDraft,
        Sabotage::HiddenFailure,
        Sabotage::FastClock,
    ];
}
