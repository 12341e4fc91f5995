#![no_main]
//! Logs of decisions (CSV, Parquet, gzip, Open Bandit): any bytes are read or refused.

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let folder = std::env::temp_dir().join(format!("cohort-fuzz-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    cohort_lab::boundaries::log(&folder, bytes);
});
