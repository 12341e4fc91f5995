//! Users and items of Yelp as published by the authors of LOCB: 10,000 items with vectors, and who
//! liked or disliked which.

use std::path::{Path, PathBuf};

use super::Dataset;
use crate::{Error, npy};

/// The name of the data set's folder inside the folder of all data.
pub const FOLDER: &str = "clustering-of-bandits";

const ENTRIES: &str = "yelp_2000users_10000items_entry.npy";
const ITEMS: &str = "yelp_10000items_2000users_features.npy";

/// Where to get the data set, for error messages.
pub const HOW_TO_GET: &str = "get yelp_2000users_10000items_entry.npy and \
    yelp_10000items_2000users_features.npy of https://github.com/banyikun/LOCB into \
    data/clustering-of-bandits (or name another folder with --data DIR or COHORT_DATA)";

/// The folder of the data set: `data/clustering-of-bandits`, or `data` itself.
pub fn locate(data: &Path) -> Option<PathBuf> {
    [data.join(FOLDER), data.to_owned()].into_iter().find(|folder| folder.join(ENTRIES).is_file())
}

/// Reads the data set from its folder; users who like nothing are dropped.
pub fn read(folder: &Path) -> Result<Dataset, Error> {
    let path = folder.join(ITEMS);
    let items = npy::read::<f64>(&path, &["items", "dim"])?;
    let dim = items.shape[1];
    let longest = |values: &[f64]| values.iter().map(|v| v * v).sum::<f64>().sqrt();
    let largest = items.values.chunks_exact(dim.max(1)).map(longest).fold(0.0, f64::max);
    if dim == 0 || largest == 0.0 {
        let error = Error::unexpected("items", "vectors of length 0", "vectors that differ");
        return Err(error.at(&path));
    }
    let path = folder.join(ENTRIES);
    let entries = npy::read::<i64>(&path, &["entries", "columns"])?;
    if entries.shape[1] != 3 {
        let found = format!("{} columns", entries.shape[1]);
        return Err(Error::unexpected("entries", found, "user, item, liked").at(&path));
    }
    let mut liked = std::collections::BTreeMap::<i64, std::collections::BTreeSet<u32>>::new();
    for (row, entry) in entries.values.chunks_exact(3).enumerate() {
        let item = u32::try_from(entry[1]).ok().filter(|item| (*item as usize) < items.shape[0]);
        let item = item.ok_or_else(|| {
            let expected = format!("one of {} items", items.shape[0]);
            Error::unexpected(format!("row {row}"), format!("item {}", entry[1]), expected)
                .at(&path)
        })?;
        if entry[2] > 0 {
            liked.entry(entry[0]).or_default().insert(item);
        }
    }
    Ok(Dataset {
        dim,
        // All divided by the longest, so that contexts have at most length 1.
        items: items.values.iter().map(|value| value / largest).collect(),
        liked: liked.into_values().map(|items| items.into_iter().collect()).collect(),
        friends: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_those_who_like_something() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| std::fs::File::create(folder.path().join(name)).unwrap();
        npy::write(&mut file(ITEMS), &[3, 2], &[3.0, 4.0, 1.0, 0.0, 0.0, 2.5]).unwrap();
        let rows = [7i64, 0, 1, 7, 2, -1, 4, 1, -1, 9, 2, 1, 9, 0, 1];
        npy::write(&mut file(ENTRIES), &[5, 3], &rows).unwrap();
        let catalogue = read(folder.path()).unwrap();
        assert_eq!(catalogue.liked, [vec![0], vec![0, 2]]);
        assert_eq!(catalogue.items, [0.6, 0.8, 0.2, 0.0, 0.0, 0.5]);

        npy::write(&mut file(ENTRIES), &[1, 3], &[1i64, 3, 1]).unwrap();
        let error = read(folder.path()).unwrap_err().to_string();
        assert!(error.contains("item 3") && error.contains("one of 3 items"), "{error}");
    }
}
