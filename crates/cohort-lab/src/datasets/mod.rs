//! Public data sets: items as vectors, and which users liked them.
//!
//! | file | question it answers |
//! | --- | --- |
//! | [`files`] | how are their files read, whatever their line ends, encoding and compression? |
//! | [`lastfm`] | who listened to whom? (HetRec 2011 Last.FM) |
//! | [`locb`] | who liked which item of Yelp? (as LOCB's authors publish it) |
//! | [`movielens`] | who liked which film? (MovieLens, small) |
//! | [`features`] | how do words become vectors, and which choices are there? |
//! | [`synthetic`] | what if no data set is at hand? |
//! | [`components`] | which directions matter most in a large sparse matrix? |

pub mod components;
pub mod features;
pub mod files;
pub mod lastfm;
pub mod locb;
pub mod movielens;
pub mod synthetic;

use std::path::{Path, PathBuf};

pub use features::{Centring, Choices, Rows, Untagged};

/// The default folder of data sets.
pub const DEFAULT_FOLDER: &str = "data";
/// The environment variable that names another folder.
pub const FOLDER_VARIABLE: &str = "COHORT_DATA";

/// A raw data set, before tags become vectors.
#[derive(Clone, Debug, PartialEq)]
pub struct RawDataset {
    /// For every user, the items it liked, ascending.
    pub liked: Vec<Vec<u32>>,
    /// For every item, its words and their counts, ascending by word.
    pub words: Vec<Vec<(u32, f64)>>,
    /// The number of different words.
    pub vocabulary: usize,
    /// Pairs of users who are friends, where known.
    pub friends: Vec<(usize, usize)>,
}

/// A data set: users, items as vectors, and who likes what.
#[derive(Clone, Debug, PartialEq)]
pub struct Dataset {
    /// The dimension of the items' vectors.
    pub dim: usize,
    /// The items' vectors, row by row.
    pub items: Vec<f64>,
    /// For every user, the items it likes, ascending and not empty.
    pub liked: Vec<Vec<u32>>,
    /// Pairs of users who are friends, where known.
    pub friends: Vec<(usize, usize)>,
}

impl Dataset {
    /// The number of items.
    pub fn len(&self) -> usize {
        self.items.len() / self.dim
    }

    /// Whether there are no items.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The vector of an item.
    pub fn item(&self, item: u32) -> &[f64] {
        &self.items[item as usize * self.dim..][..self.dim]
    }

    /// Whether a user likes an item.
    pub fn likes(&self, user: usize, item: u32) -> bool {
        self.liked[user].binary_search(&item).is_ok()
    }
}

/// The given folder, else that of the environment variable, else `data/`.
pub fn folder(given: Option<&Path>) -> PathBuf {
    let named = || std::env::var_os(FOLDER_VARIABLE).filter(|name| !name.is_empty());
    given
        .map(Path::to_owned)
        .or_else(|| named().map(PathBuf::from))
        .unwrap_or_else(|| PathBuf::from(DEFAULT_FOLDER))
}
