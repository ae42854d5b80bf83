//! Generation mode without a server or a device: what a request says, how its next token is chosen
//! and how its tokens become text. Pure: no FFI, no threads, no clock.
//!
//! | Module | What changes there |
//! |---|---|
