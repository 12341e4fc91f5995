#![no_main]
//! Logs of decisions (CSV, Parquet, gzip, Open Bandit): any bytes are read or refused.

libfuzzer_sys::fuzz_target!(
    // The Parquet library panics on some damage, which is caught where it is read: only a panic
    // that comes through to here is one too many.
    init: std::panic::set_hook(Box::new(|_| {})),
    |bytes: &[u8]| {
        let folder = std::env::temp_dir().join(format!("cohort-fuzz-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a temporary folder");
        cohort_lab::boundaries::log(&folder, bytes);
    }
);
