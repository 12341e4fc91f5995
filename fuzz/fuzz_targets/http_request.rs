#![no_main]
//! Requests to a running service: any body is taken, or refused with a code and a sentence.

use std::sync::{LazyLock, Mutex};

use cohort_server::boundaries::Asked;

static ASKED: LazyLock<Mutex<Asked>> = LazyLock::new(|| {
    let folder = std::env::temp_dir().join(format!("cohort-fuzz-{}", std::process::id()));
    Mutex::new(Asked::start(&folder))
});

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    ASKED.lock().expect("nobody panicked").ask(bytes);
});
