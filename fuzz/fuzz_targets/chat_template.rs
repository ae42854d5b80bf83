#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| tlaloc_fuzz_targets::chat_template(data));
