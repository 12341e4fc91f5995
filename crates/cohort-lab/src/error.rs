//! What can go wrong in the lab, as sentences for people.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Everything that the lab refuses or fails at. Each message is one line: where, what was found,
/// what was expected, what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// What the learning library refuses.
    #[error(transparent)]
    Core(#[from] cohort::Error),
    /// Something wrong in what a file says.
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
        /// All there are.
        known: String,
    },
    /// Something has no key of that name.
    #[error("{of} has no key `{name}`{}; it has: {known}", hint(.nearest))]
    UnknownKey {
        /// What has not.
        of: String,
        /// The name found.
        name: String,
        /// The known name most like it, if any is.
        nearest: Option<&'static str>,
        /// All there are.
        known: String,
    },
    /// Something was found where something else was expected.
    #[error("{what}: found {found}, expected {expected}")]
    Unexpected {
        /// What or where.
        what: String,
        /// What was found.
        found: String,
        /// What was expected, and what to do.
        expected: String,
    },
    /// No threads to work with.
    #[error("threads cannot be started: {0}")]
    Threads(#[from] rayon::ThreadPoolBuildError),
    /// An experiment file that is not TOML.
    #[error("line {line}: {message}")]
    Toml {
        /// Where.
        line: usize,
        /// What is wrong.
        message: String,
    },
}

impl Error {
    /// Says in which file it is.
    pub(crate) fn at(self, path: &Path) -> Self {
        Error::In { path: path.to_owned(), source: Box::new(self) }
    }

    /// What was wrong with the settings of something that is no policy.
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

    /// Whether what was given is at fault, and not the machine it runs on.
    pub fn is_bad_input(&self) -> bool {
        match self {
            Error::Threads(_) => false,
            // A place that is not there was given; a disk that is full was not.
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
