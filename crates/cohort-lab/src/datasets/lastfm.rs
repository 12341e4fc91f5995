//! HetRec 2011 Last.FM: 1,892 users, 17,632 artists, who listened to whom, and tags.
//!
//! As in the paper, after Gentile et al. 2014 and Cesa-Bianchi et al. 2013: tags are split into
//! atomic ones (`rock-and-roll` is `rock`, `and`, `roll`), and an artist has all atomic tags that
//! any user gave it. A user likes the artists it listened to.
//!
//! Artists that were tagged but are not in `artists.dat` are dropped. The ids in the files have
//! gaps, so users and artists are renumbered in the order of their ids.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::RawDataset;
use super::files::{find, lines, numbers};
use crate::Error;

/// The name of the data set's folder inside the folder of all data.
pub const FOLDER: &str = "hetrec2011-lastfm-2k";

/// Pairs of users, each in both directions.
const FRIENDS: &str = "user_friends.dat";

/// Where to get the data set, for error messages.
pub const HOW_TO_GET: &str = "get hetrec2011-lastfm-2k.zip from \
    https://grouplens.org/datasets/hetrec-2011/, unpack it into data/hetrec2011-lastfm-2k (or name \
    another folder with --data DIR or COHORT_DATA) and run this again";

/// The folder of the data set: `data/hetrec2011-lastfm-2k`, or `data` itself.
pub fn locate(data: &Path) -> Option<PathBuf> {
    [data.join(FOLDER), data.to_owned()]
        .into_iter()
        .find(|folder| find(folder, "user_artists.dat").is_some())
}

/// Reads the data set from its folder.
pub fn read(folder: &Path) -> Result<RawDataset, Error> {
    let rows = |name: &'static str| -> Result<_, Error> {
        Ok(lines(folder, name)?.into_iter().enumerate().map(move |(k, line)| (name, k, line)))
    };
    let mut artists = BTreeSet::new();
    for (name, k, line) in rows("artists.dat")? {
        let [artist] = numbers(folder, name, k, &line)?;
        artists.insert(artist);
    }
    let artists: BTreeMap<u32, u32> = artists.into_iter().zip(0..).collect();

    let mut liked: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    for (name, k, line) in rows("user_artists.dat")? {
        let [user, artist] = numbers(folder, name, k, &line)?;
        let item = artists.get(&artist).ok_or_else(|| {
            let what = format!("line {}", k + 2);
            Error::unexpected(what, format!("artist {artist}"), "one that artists.dat has")
                .at(&folder.join(name))
        })?;
        liked.entry(user).or_default().insert(*item);
    }

    let mut atoms: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    let mut vocabulary: BTreeMap<String, u32> = BTreeMap::new();
    for (name, k, line) in rows("tags.dat")? {
        let [tag] = numbers(folder, name, k, &line)?;
        let text = line.split_once('\t').map_or("", |(_, text)| text);
        let numbered = atomic(text).map(|atom| {
            let next = vocabulary.len() as u32;
            *vocabulary.entry(atom).or_insert(next)
        });
        atoms.insert(tag, numbered.collect());
    }

    let mut words = vec![BTreeMap::new(); artists.len()];
    for (name, k, line) in rows("user_taggedartists.dat")? {
        let [_user, artist, tag] = numbers(folder, name, k, &line)?;
        let Some(item) = artists.get(&artist) else { continue };
        for atom in atoms.get(&tag).into_iter().flatten() {
            *words[*item as usize].entry(*atom).or_insert(0.0) += 1.0;
        }
    }
    // Most uses need no friendships: the file may be missing.
    let mut friends = Vec::new();
    if find(folder, FRIENDS).is_some() {
        let places: BTreeMap<u32, usize> = liked.keys().copied().zip(0..).collect();
        for (name, k, line) in rows(FRIENDS)? {
            let [user, friend] = numbers(folder, name, k, &line)?;
            if let (Some(a), Some(b)) = (places.get(&user), places.get(&friend))
                && a < b
            {
                friends.push((*a, *b));
            }
        }
    }
    Ok(RawDataset {
        friends,
        liked: liked.into_values().map(|items| items.into_iter().collect()).collect(),
        words: words.into_iter().map(|counts| counts.into_iter().collect()).collect(),
        vocabulary: vocabulary.len(),
    })
}

/// The atomic tags of a tag: maximal runs of letters and digits, in lower case.
pub fn atomic(tag: &str) -> impl Iterator<Item = String> {
    tag.split(|c: char| !c.is_alphanumeric())
        .filter(|atom| !atom.is_empty())
        .map(|atom| atom.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_fall_into_atoms() {
        let atoms: Vec<String> = atomic("Rock-and_Roll '80s (Café)").collect();
        assert_eq!(atoms, ["rock", "and", "roll", "80s", "café"]);
    }

    #[test]
    fn users_and_artists_are_numbered_without_gaps() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            std::fs::write(folder.path().join(name), text).unwrap();
        };
        write("artists.dat", "id\tname\turl\tpictureURL\n9\tB \"x\"\tu\t\n3\tA\tu\tp\n");
        write("user_artists.dat", "userID\tartistID\tweight\r\n2\t9\t1\r\n7\t3\t4\r\n7\t9\t2\r\n");
        write("tags.dat", "tagID\ttagValue\r\n1\tdream-pop\r\n5\tpop\r\n");
        write(
            "user_taggedartists.dat",
            "userID\tartistID\ttagID\tday\tmonth\tyear\r\n2\t9\t1\t1\t1\t2009\r\n\
             7\t9\t5\t1\t1\t2009\r\n7\t1000\t5\t1\t1\t2009\r\n",
        );
        write("user_friends.dat", "userID\tfriendID\r\n2\t7\r\n7\t2\r\n7\t8\r\n");
        let tables = read(folder.path()).unwrap();
        assert_eq!(tables.liked, [vec![1], vec![0, 1]]);
        // Once each, and none with a user who listened to nothing.
        assert_eq!(tables.friends, [(0, 1)]);
        // Artist 3 has no tag; artist 9 has dream once, pop twice; artist 1000 does not exist.
        assert_eq!(tables.words, [vec![], vec![(0, 1.0), (1, 2.0)]]);
        assert_eq!(tables.vocabulary, 2);
    }
}
