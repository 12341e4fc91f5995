//! Why could the service not start, or go on?

use crate::engine::recovery::RecoveryError;
use crate::journal::JournalError;

/// Why the service could not start or go on.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {why}")]
    Listen {
        /// The address.
        address: String,
        /// Why not.
        why: std::io::Error,
    },
    /// The data folder cannot be used.
    #[error("the data folder {folder} cannot be used: {why}")]
    Folder {
        /// The folder.
        folder: String,
        /// Why not.
        why: std::io::Error,
    },
    /// Somebody else uses the data folder.
    #[error(
        "another process serves the data folder {folder}: stop that one, or set data_dir to another \
         folder"
    )]
    Served {
        /// The folder.
        folder: String,
    },
    /// The journal cannot be opened.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The state does not come back.
    #[error(transparent)]
    Recovery(#[from] RecoveryError),
    /// The certificate or its key cannot be used.
    #[error("{key} {file} cannot be used: {why}; expected {expected}")]
    Tls {
        /// The key of the configuration: which of both.
        key: &'static str,
        /// The file.
        file: String,
        /// Why not.
        why: String,
        /// What it should be.
        expected: &'static str,
    },
    /// The engine or its journal failed while it served.
    #[error(
        "the service cannot go on: {why}; what was acknowledged is safe: start it again, which reads \
         what is really on the disk"
    )]
    Ended {
        /// What failed.
        why: String,
    },
    /// The cluster cannot be used.
    #[error("{why}")]
    Cluster {
        /// Why not.
        why: String,
    },
    /// The machine fails.
    #[error("the machine refuses what the service needs: {0}")]
    Machine(std::io::Error),
}
