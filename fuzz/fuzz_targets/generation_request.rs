#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| tlaloc_fuzz_targets::generation_request(data));
