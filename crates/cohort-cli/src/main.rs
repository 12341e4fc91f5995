//! The program `cohort`; all of it is in the library beside this file.

use std::process::ExitCode;

/// Requests are read by some threads, decided by another and answered by a third: memory that one
/// thread takes and another gives back is what this allocator is made for.
#[global_allocator]
static MEMORY: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    ExitCode::from(cohort_cli::run(std::env::args_os()))
}
