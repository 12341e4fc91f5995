#![no_main]
//! Arrays from files: any bytes are read or refused.

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let file = std::env::temp_dir().join(format!("cohort-fuzz-{}.npy", std::process::id()));
    std::fs::write(&file, bytes).expect("a temporary file");
    let _ = cohort_lab::npy::read::<f64>(&file, &["rounds", "users"]);
    let _ = cohort_lab::npy::read::<i64>(&file, &["users"]);
});
