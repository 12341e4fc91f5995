#![no_main]
//! Data sets of others (Last.FM, MovieLens): any files are read or refused.

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let folder = std::env::temp_dir().join(format!("cohort-fuzz-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    cohort_lab::boundaries::dataset(&folder, bytes);
});
