//! What is refused, and in which words?

/// Objects inside objects.
pub(crate) const MAX_DEPTH: usize = 8;
/// Features of one object; a list of numbers counts as one.
pub(crate) const MAX_FEATURES: usize = 1024;
/// Bytes of a name with all that it is inside of.
pub(crate) const MAX_NAME: usize = 512;
/// Bytes of a word.
pub(crate) const MAX_WORD: usize = 1024;
/// Numbers of a list.
pub(crate) const MAX_LIST: usize = 4096;
/// The largest magnitude: squares of it can be summed.
pub(crate) const MAX_NUMBER: f64 = 1e30;

/// Why JSON is not taken as features.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Unreadable {
    /// Deeper than is read.
    #[error("`{name}`: objects inside objects are read {MAX_DEPTH} deep; put it further up")]
    Deep {
        /// The object.
        name: String,
    },
    /// More than are read.
    #[error("more than {MAX_FEATURES} features in one object; send fewer, or a list of numbers")]
    Many,
    /// A name twice in one object.
    #[error("`{name}` is there twice in one object; which one is meant?")]
    Twice {
        /// The name.
        name: String,
    },
    /// A name or a word that is too long.
    #[error("`{name}…`: names are read to {MAX_NAME} bytes, words to {MAX_WORD}")]
    Long {
        /// How it begins.
        name: String,
    },
    /// A number that cannot be used.
    #[error(
        "`{name}` is {found}: numbers are finite and within ±{MAX_NUMBER:e}; null says that one is missing"
    )]
    Number {
        /// Its name.
        name: String,
        /// As it was found.
        found: String,
    },
    /// A list of something else.
    #[error("`{name}`: a list has words only (a set), or numbers only, at most {MAX_LIST} of them")]
    List {
        /// Its name.
        name: String,
    },
}
