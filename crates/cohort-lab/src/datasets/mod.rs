//! Real users: public data sets as catalogues of items that users liked or did not.
//!
//! | file | question it answers |
//! | --- | --- |
//! | [`files`] | how are their files read, whatever their line ends, encoding and packing? |
//! | [`lastfm`] | who listened to whom? (HetRec 2011 Last.FM) |
//! | [`locb`] | who liked which item of Yelp? (as LOCB's authors publish it) |
//! | [`movielens`] | who liked which film? (MovieLens, small) |
//! | [`features`] | how do words become vectors, and which choices are there? |
//! | [`synthetic`] | what if one has none of them? |
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

/// Where data sets are looked for unless a folder is given.
pub const DEFAULT_FOLDER: &str = "data";
/// The environment variable that names another folder.
pub const FOLDER_VARIABLE: &str = "COHORT_DATA";

/// A data set before words become vectors.
#[derive(Clone, Debug, PartialEq)]
pub struct Tables {
    /// For every user, the items it liked, ascending.
    pub liked: Vec<Vec<u32>>,
    /// For every item, the words said of it and how often, ascending by word.
    pub words: Vec<Vec<(u32, f64)>>,
    /// How many different words there are.
    pub vocabulary: usize,
    /// Pairs of users who are friends, where that is known.
    pub friends: Vec<(usize, usize)>,
}

/// Users, items as vectors, and who likes what: all that a world of it needs.
#[derive(Clone, Debug, PartialEq)]
pub struct Catalogue {
    /// The dimension of the items' vectors.
    pub dim: usize,
    /// The items' vectors, row by row.
    pub items: Vec<f64>,
    /// For every user, the items it likes, ascending. No user is without.
    pub liked: Vec<Vec<u32>>,
    /// Pairs of users who are friends, where that is known.
    pub friends: Vec<(usize, usize)>,
}

impl Catalogue {
    /// How many items there are.
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

/// The folder given, else the one of the environment variable, else `data/`.
pub fn folder(given: Option<&Path>) -> PathBuf {
    let named = || std::env::var_os(FOLDER_VARIABLE).filter(|name| !name.is_empty());
    given
        .map(Path::to_owned)
        .or_else(|| named().map(PathBuf::from))
        .unwrap_or_else(|| PathBuf::from(DEFAULT_FOLDER))
}
