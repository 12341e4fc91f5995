//! A synthetic data set in the format of Last.FM: users of a few tastes, artists of a few genres,
//! tags that name them.

use std::fmt::Write;
use std::path::Path;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::lastfm;
use crate::Error;

/// The number of tastes and genres.
const GENRES: u32 = 5;
/// The number of words in tags: every genre has a few of these.
const WORDS: u32 = 40;

/// Writes the files into the folder of the data set inside `data`. As in the real one, ids have
/// gaps, line ends and encodings differ from file to file, some artists have no tag and some tagged
/// artists do not exist.
pub fn write_lastfm(data: &Path, users: u32, artists: u32, seed: u64) -> Result<(), Error> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut artist_rows = String::from("id\tname\turl\tpictureURL\n");
    let mut listened = String::from("userID\tartistID\tweight\r\n");
    let mut tagged = String::from("userID\tartistID\ttagID\tday\tmonth\tyear\r\n");
    let mut tags = String::from("tagID\ttagValue\r\n");
    for artist in 0..artists {
        // Writing to a string cannot fail.
        let _ = writeln!(artist_rows, "{}\tThe \"{artist}\"\thttp://example.org\t", 3 * artist + 1);
    }
    for tag in 0..WORDS {
        let _ = write!(tags, "{}\tCafé-{tag} w{}\r\n", 2 * tag + 5, tag % 7);
    }
    for user in 0..users {
        let taste = user % GENRES;
        for _ in 0..12 {
            let own_genre = rng.random_bool(0.8);
            let artist = if own_genre {
                rng.random_range(0..artists / GENRES) * GENRES + taste
            } else {
                rng.random_range(0..artists)
            };
            let _ = write!(listened, "{}\t{}\t{}\r\n", user + 2, 3 * artist + 1, artist + 1);
            // The last artists have no tags; some tags are for artists that do not exist.
            let tagged_artist = if artist + 4 < artists { 3 * artist + 1 } else { 3 * artist + 2 };
            let word = rng.random_range(0..WORDS / GENRES) * GENRES + artist % GENRES;
            let _ =
                write!(tagged, "{}\t{tagged_artist}\t{}\t1\t4\t2009\r\n", user + 2, 2 * word + 5);
        }
    }
    let folder = data.join(lastfm::FOLDER);
    let latin = |text: &str| text.chars().map(|c| c as u8).collect::<Vec<u8>>();
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.join(name);
        std::fs::write(&path, bytes).map_err(|source| Error::Write { path, source })
    };
    std::fs::create_dir_all(&folder)
        .map_err(|source| Error::Write { path: folder.clone(), source })?;
    write("artists.dat", artist_rows.as_bytes())?;
    write("tags.dat", &latin(&tags))?;
    write("user_artists.dat", listened.as_bytes())?;
    write("user_taggedartists.dat", tagged.as_bytes())
}
