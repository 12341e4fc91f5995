//! Exit codes: 0 done, 1 failed, 2 bad input, 130 interrupted.

use std::io::{ErrorKind, Write};

/// The outcome of a command that did not fail.
pub enum Done {
    /// Everything is done.
    Complete,
    /// It was interrupted.
    Interrupted,
}

/// The reason why a command failed, on one line.
pub struct Failure {
    message: String,
    bad_input: bool,
}

impl Failure {
    /// A failure that is not the input's fault.
    pub fn failed(message: impl Into<String>) -> Self {
        Self { message: message.into(), bad_input: false }
    }

    /// A failure that is the input's fault.
    pub fn bad_input(message: impl Into<String>) -> Self {
        Self { message: message.into(), bad_input: true }
    }
}

impl From<cohort_lab::Error> for Failure {
    fn from(error: cohort_lab::Error) -> Self {
        Self { message: error.to_string(), bad_input: error.is_bad_input() }
    }
}

impl From<cohort::Error> for Failure {
    fn from(error: cohort::Error) -> Self {
        Self::bad_input(error.to_string())
    }
}

impl From<clap::Error> for Failure {
    /// Clap's message without the usage, on one line.
    fn from(error: clap::Error) -> Self {
        let text = error.render().to_string();
        let said = text.split("\nUsage:").next().unwrap_or_default();
        let said = said.split("\nFor more information").next().unwrap_or_default();
        let lines = said.lines().map(str::trim).filter(|line| !line.is_empty());
        let message = lines.collect::<Vec<_>>().join("; ").replace(":; ", ": ");
        Self::bad_input(message.strip_prefix("error: ").unwrap_or(&message))
    }
}

/// Prints the error, if there is one; returns the exit code.
pub fn exit_code(done: Result<Done, Failure>) -> u8 {
    match done {
        Ok(Done::Complete) => 0,
        Ok(Done::Interrupted) => 130,
        Err(failure) => {
            let line = failure.message.lines().collect::<Vec<_>>().join(" ");
            eprintln!("error: {line}");
            if failure.bad_input { 2 } else { 1 }
        }
    }
}

/// Prints on standard output. A closed pipe (`… | head`) is not an error.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Failure {
            message: format!("standard output: cannot be written: {error}"),
            bad_input: false,
        }),
        _ => Ok(()),
    }
}
