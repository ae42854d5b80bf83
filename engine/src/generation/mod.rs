//! Generation mode: prompts go in, tokens come out, and all requests share the machine.
//!
//! The [`Scheduler`] is a state machine like [`Engine`](crate::Engine), driven from one thread. Its
//! owner samples: the scheduler knows tokens, but neither logits nor texts.
//!
//! ```text
//! submit(submission)                a request, or why it is refused
//! loop: match next(now)
//!         Run          → call(), pack(), execute, sample each row, complete(outcome, verdicts)
//!         Move         → moves(): copy or zero rows of the pools, moved(result, nanos)
//!         RestorePools → make zeroed pools, restored(result)
//!         Ended        → ended(): answer requests that ended without a verdict
//!         Idle         → wait for the next submission
//!         Stopped      → after stop(), when every request has ended
//! ```
//!
//! It works in *rounds*. At the start of one it makes room for what the running requests will hold,
//! resumes and admits requests, and then runs at most two kinds of calls: decode calls, in which
//! every running request that has its prompt in takes part once, and prefill calls, whose token
//! columns are bounded. So a stream waits for at most one round between two of its tokens.
//!
//! A request's tokens, prompt and generated, are known here. Its newest token is not in the KV yet:
//! it is what the next call takes in. A preempted request therefore goes on exactly where it
//! stopped, from its tokens (recompute) or from its pages in host memory (swap).
//!
//! A model with a draft head proposes tokens in each call ([`Verdicts::propose`]). They stand behind
//! the request's tokens until its next call, a decode call that verifies them; a single token
//! without them is prefilled.
//!
//! | Module | What changes there |
//! |---|---|
//! | `settings` | how an instance is run |
//! | `submission`, `failure`, `event`, `counts` | what owners hand in and are told |
//! | `request`, `state` | what is known of requests |
//! | `line` | requests in the order in which they are served |
//! | `admission` | who gets pages, and who gives them up |
//! | `round` | in which calls the running requests run |
//! | `lookup`, `drafts` | drafts from a request's own history |
//! | `call`, `verdicts` | a call and what its owner made of it |
//! | `moves`, `costs` | rows of pools that are copied or zeroed, and what that costs |
//! | `scheduler` | the state machine that joins them |

mod admission;
mod call;
mod costs;
mod counts;
mod drafts;
mod event;
mod failure;
mod line;
mod lookup;
mod moves;
mod request;
mod round;
mod scheduler;
mod settings;
mod state;
mod submission;
mod verdicts;

pub use call::{Call, Row};
pub use counts::Counts;
pub use event::{Event, Preemption};
pub use failure::{End, Ended, Failure};
pub use moves::{MoveKind, MovedRows, Moves};
pub use request::{LiveRequest, Stage};
pub use scheduler::{Scheduler, Step};
pub use settings::{Policy, PromptLookup, Settings};
pub use submission::{Rejection, Submission};
pub use verdicts::Verdicts;
