//! Errors of the lab, as sentences for people.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Everything that the lab refuses or fails at. Each message is one line: where, what was found,
/// what was expected, what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An error of the learning library.
    #[error(transparent)]
    Core(#[from] cohort::Error),
    /// An error in the content of a file.
    #[error("{}: {source}", path.display())]
    In {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: Box<Error>,
    },
    /// A file could not be read.
    #[error("{}: cannot be read: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file or folder could not be written.
    #[error("{}: cannot be written: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// There is no environment of that name.
    #[error("there is no environment `{name}`{}; there are: {known}", hint(.nearest))]
    UnknownEnvironment {
        /// The name asked for.
        name: String,
        /// The known name most like it, if any is.
        nearest: Option<&'static str>,
        /// All known names.
        known: String,
    },
    /// An unknown key.
    #[error("{of} has no key `{name}`{}; it has: {known}", hint(.nearest))]
    UnknownKey {
        /// What the key was given to.
        of: String,
        /// The name found.
        name: String,
        /// The known name most like it, if any is.
        nearest: Option<&'static str>,
        /// All known keys.
        known: String,
    },
    /// A value other than expected.
    #[error("{what}: found {found}, expected {expected}")]
    Unexpected {
        /// Which value.
        what: String,
        /// What was found.
        found: String,
        /// The expected value, and what to do.
        expected: String,
    },
    /// Threads could not be started.
    #[error("threads cannot be started: {0}")]
    Threads(#[from] rayon::ThreadPoolBuildError),
    /// An experiment file that is not TOML.
    #[error("line {line}: {message}")]
    Toml {
        /// The line.
        line: usize,
        /// What is wrong.
        message: String,
    },
}

impl Error {
    /// Adds the file in which it occurred.
    pub(crate) fn at(self, path: &Path) -> Self {
        Error::In { path: path.to_owned(), source: Box::new(self) }
    }

    /// An error in the settings of something other than a policy.
    pub(crate) fn of(what: impl Into<String>, error: cohort::Error) -> Self {
        match error {
            cohort::Error::UnknownParam { name, nearest, known, .. } => {
                Error::UnknownKey { of: what.into(), name, nearest, known }
            }
            error => error.into(),
        }
    }

    pub(crate) fn unexpected(
        what: impl Into<String>,
        found: impl Into<String>,
        expected: impl Into<String>,
    ) -> Self {
        Error::Unexpected { what: what.into(), found: found.into(), expected: expected.into() }
    }

    /// Whether the input is at fault, and not the machine.
    pub fn is_bad_input(&self) -> bool {
        match self {
            Error::Threads(_) => false,
            // A folder that does not exist was named by the user; a full disk was not.
            Error::Write { source, .. } => matches!(
                source.kind(),
                ErrorKind::NotFound
                    | ErrorKind::NotADirectory
                    | ErrorKind::IsADirectory
                    | ErrorKind::PermissionDenied
            ),
            Error::In { source, .. } => source.is_bad_input(),
            _ => true,
        }
    }
}

fn hint(nearest: &Option<&'static str>) -> String {
    nearest.map_or(String::new(), |name| format!(" (did you mean `{name}`?)"))
}
