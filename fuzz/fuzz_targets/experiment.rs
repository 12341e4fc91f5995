#![no_main]
//! Experiments from TOML: any text is read or refused.

libfuzzer_sys::fuzz_target!(|text: &str| {
    let _ = cohort_lab::experiment::Draft::parse(text);
});
