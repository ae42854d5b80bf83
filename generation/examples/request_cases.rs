//! Prints the cases of every key of a request, for clients of a server:
//! `cargo run -p tlaloc-generation --example request_cases > tests/fixtures/generation/cases.json`

use tlaloc_generation::options::{ModelFacts, cases_json};

fn main() {
    // SmolLM2, exported with `--contexts 128`.
    print!(
        "{}",
        cases_json(&ModelFacts {
            vocab_size: 49152,
            max_context: 128,
            has_tokenizer: true,
            has_chat_template: true,
            greedy_only: false,
        })
    );
}
