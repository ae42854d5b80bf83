//! Generation mode without a server or a device: what a request says, how its next token is chosen
//! and how its tokens become text. Pure: no FFI, no threads, no clock.
//!
//! | Module | What changes there |
//! |---|---|
//! | [`checkpoint`] | files of a checkpoint in a version directory |
//! | [`options`] | keys, ranges and defaults of requests; outputs of responses |
//! | [`sampler`] | how the next token is chosen from a row of logits |
//! | [`template`] | chat templates: a conversation to a prompt |
//! | [`text`] | tokens and text: the tokenizer, text while tokens come, stop strings |

pub mod checkpoint;
pub mod options;
pub mod sampler;
pub mod template;
pub mod text;
