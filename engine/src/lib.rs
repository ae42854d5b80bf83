//! Sequences, KV pages, batching and step packing of sequence mode.
//!
//! The engine is a state machine without threads, clock or I/O: the same arrivals, outcomes and
//! times give the same actions. Its owner drives it from one thread:
//!
//! ```text
//! push(arrival)                     a request, checked by intake
//! loop: match next(now)
//!         Run          → call(), pack(), execute, complete(outcome)
//!         Reply        → replies(): answer, report, release
//!         RestorePools → make zeroed pools, restored(result)
//!         WaitUntil(t) → wait until t or the next arrival
//!         Idle         → wait for the next arrival
//!         Stopped      → after stop(), when everything pushed is answered
//! ```
//!
//! Section names in the docs ("sequence mode §10") are those of the contract.
//!
//! | Module | What changes there |
//! |---|---|
//! | `settings` | how an instance is run |
//! | `geometry` | sizes of the model; which entry runs a call (§11.1) |
//! | `sequence` | what is known of a live sequence |
//! | `allocator`, `resources`, `state` | what sequences hold, and how it is handed out and freed |
//! | `queue` | when a batch starts and what is in it (§8) |
//! | `admission`, `reclaim` | whether a request may run (§10) |
//! | `schedule` | in which calls the requests of a batch run (§11) |
//! | `speculation` | models with a draft head: what a call gives, generations, chained steps (§15–17) |
//! | `packing` | what a call's integer inputs hold (artifact format §7.5) |
//! | `engine` | the state machine that joins them (§9, §14, §19) |
//! | `refusal`, `event` | what clients and operators read (§21) |
//! | `reason`, `counts` | what metrics count |

mod admission;
mod allocator;
mod counts;
mod engine;
mod event;
pub mod generation;
mod geometry;
mod packing;
mod queue;
mod reason;
mod reclaim;
mod refusal;
mod resources;
mod schedule;
mod sequence;
mod settings;
mod speculation;
mod state;
mod work;

pub use counts::Counts;
pub use engine::{Engine, Step};
pub use event::{Event, FreeCause, Level};
pub use geometry::{Drafts, EntryShape, Geometry, WindowedPools};
pub use packing::{StepInputs, StepSource, WindowInputs};
pub use reason::Reason;
pub use refusal::{Aftermath, Code, Exhausted, Holder, Refusal};
pub use resources::{Amounts, Resource};
pub use sequence::{LiveSequence, SequenceId};
pub use settings::{Batching, Settings};
pub use speculation::{RowResults, StepResults};
pub use tlaloc_artifact::EntryKind;
pub use work::{
    Arrival, BatchReport, Call, CallFailure, Generation, Outcome, Progress, Replies, Reply, Row,
    RowRef, Ticket, Times,
};

/// A time of the owner's monotonic clock, or a duration, in nanoseconds.
pub type Nanos = u64;
