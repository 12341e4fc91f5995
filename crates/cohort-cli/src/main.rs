//! The program `cohort`; the code is in the library beside this file.

use std::process::ExitCode;

/// Requests are read, decided and answered on different threads: memory is often freed by another
/// thread than the one that allocated it, which this allocator handles well.
#[global_allocator]
static MEMORY: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    ExitCode::from(cohort_cli::run(std::env::args_os()))
}
