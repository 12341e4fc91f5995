//! MovieLens (ml-latest-small): who liked which film.
//!
//! A film's words are its genres and the atomic tags that users gave it. A user likes a film that
//! it rated 4 or more. Users who like nothing are dropped.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::RawDataset;
use super::files::find;
use super::lastfm::atomic;
use crate::Error;

/// The folder names of the data set inside the folder of all data.
pub const FOLDERS: [&str; 2] = ["movielens-latest-small", "ml-latest-small"];

/// Where to get the data set, for error messages.
pub const HOW_TO_GET: &str = "get ml-latest-small.zip from \
    https://grouplens.org/datasets/movielens/, unpack it into data/ml-latest-small (or name another \
    folder with --data DIR or COHORT_DATA) and run this again";

/// The least rating of a liked film.
const LIKED: f64 = 4.0;

/// The folder of the data set: one of its usual names, or `data` itself.
pub fn locate(data: &Path) -> Option<PathBuf> {
    let inside = FOLDERS.iter().map(|name| data.join(name));
    inside.chain([data.to_owned()]).find(|folder| find(folder, "ratings.csv").is_some())
}

/// Reads the data set from its folder.
pub fn read(folder: &Path) -> Result<RawDataset, Error> {
    let mut vocabulary: BTreeMap<String, u32> = BTreeMap::new();
    let mut number = |word: String| {
        let next = vocabulary.len() as u32;
        *vocabulary.entry(word).or_insert(next)
    };
    let mut films: BTreeMap<u32, BTreeMap<u32, f64>> = BTreeMap::new();
    for [film, _title, genres] in records(folder, "movies.csv")? {
        let genres = genres.split('|').filter(|genre| !genre.starts_with('('));
        let words = genres.map(|genre| (number(genre.to_lowercase()), 1.0)).collect();
        films.insert(id(folder, "movies.csv", &film)?, words);
    }
    if find(folder, "tags.csv").is_some() {
        for [_user, film, tag] in records(folder, "tags.csv")? {
            let Some(words) = films.get_mut(&id(folder, "tags.csv", &film)?) else { continue };
            for atom in atomic(&tag) {
                *words.entry(number(atom)).or_insert(0.0) += 1.0;
            }
        }
    }
    let numbers: BTreeMap<u32, u32> = films.keys().copied().zip(0..).collect();
    let mut liked: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    for [user, film, rating] in records(folder, "ratings.csv")? {
        let Some(item) = numbers.get(&id(folder, "ratings.csv", &film)?) else { continue };
        if rating.parse::<f64>().is_ok_and(|rating| rating >= LIKED) {
            liked.entry(id(folder, "ratings.csv", &user)?).or_default().insert(*item);
        }
    }
    Ok(RawDataset {
        liked: liked.into_values().map(|items| items.into_iter().collect()).collect(),
        words: films.into_values().map(|counts| counts.into_iter().collect()).collect(),
        vocabulary: vocabulary.len(),
        friends: Vec::new(),
    })
}

/// The first three columns of a CSV file with a header.
fn records(folder: &Path, name: &str) -> Result<Vec<[String; 3]>, Error> {
    let lines = super::files::lines(folder, name)?.join("\n");
    let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(lines.as_bytes());
    let record = |(k, record): (usize, Result<csv::StringRecord, csv::Error>)| {
        let wrong = |found: String| {
            Error::unexpected(format!("row {}", k + 1), found, "comma-separated columns")
                .at(&folder.join(name))
        };
        let record = record.map_err(|error| wrong(error.to_string()))?;
        match (record.get(0), record.get(1), record.get(2)) {
            (Some(a), Some(b), Some(c)) => Ok([a, b, c].map(str::to_owned)),
            _ => Err(wrong(format!("{} columns", record.len()))),
        }
    };
    reader.records().enumerate().map(record).collect()
}

fn id(folder: &Path, name: &str, text: &str) -> Result<u32, Error> {
    text.parse().map_err(|_| {
        Error::unexpected("an id", format!("`{text}`"), "a whole number").at(&folder.join(name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn genres_and_tags_are_words_and_four_stars_are_liked() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            std::fs::write(folder.path().join(name), text).unwrap();
        };
        write(
            "movies.csv",
            "movieId,title,genres\n5,\"Up, up\",Drama|War\n9,B,(no genres listed)\n",
        );
        write("tags.csv", "userId,movieId,tag,timestamp\n1,9,war-time,0\n");
        write("ratings.csv", "userId,movieId,rating,timestamp\n1,5,3.5,0\n4,9,4.0,0\n4,5,5.0,0\n");
        let tables = read(folder.path()).unwrap();
        assert_eq!(tables.words, [vec![(0, 1.0), (1, 1.0)], vec![(1, 1.0), (2, 1.0)]]);
        assert_eq!(tables.liked, [vec![0, 1]]);
    }
}
