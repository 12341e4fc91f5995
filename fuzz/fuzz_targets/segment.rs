#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| cohort_server::boundaries::segment(bytes));
