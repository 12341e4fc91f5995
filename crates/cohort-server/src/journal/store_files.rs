//! A look at the store's own files before the store opens them.
//!
//! The store believes counts in some of its files before it has checked them, and asks for as much
//! memory as a damaged one says: the process would end without a word. What could lead it there is
//! looked at here first, and named.
//!
//! ```text
//! keyspaces/N/current    number of the version u64 · xxh3-128 of its file u128 · …
//! keyspaces/N/vNUMBER    an archive
//! keyspaces/N/tables/*   archives
//! archive = … · contents: "TOC!" · entries u32 · … · trailer: "SFA!" · … · where the contents are
//! ```

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_128;

/// Bytes of an archive's trailer, and where in it the place of the contents is.
const TRAILER_BYTES: u64 = 38;
const CONTENTS_AT: usize = 22;
/// An entry of the contents has no fewer bytes.
const LEAST_ENTRY_BYTES: u64 = 16;

/// Looks at the files of a store in a folder; says which is damaged, if one is.
pub fn check(store: &Path) -> io::Result<Result<(), String>> {
    for keyspace in files_in(&store.join("keyspaces"))? {
        if let Some(damaged) = damaged_version(&keyspace)? {
            return Ok(Err(format!("{} is damaged", damaged.display())));
        }
        for table in files_in(&keyspace.join("tables"))? {
            if has_absurd_contents(&table)? {
                return Ok(Err(format!("{} is damaged", table.display())));
            }
        }
    }
    Ok(Ok(()))
}

/// The file of the present version, if it is not what it was when it became that.
fn damaged_version(keyspace: &Path) -> io::Result<Option<PathBuf>> {
    let current = match std::fs::read(keyspace.join("current")) {
        Ok(current) => current,
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(why) => return Err(why),
    };
    let Some((number, rest)) = current.split_first_chunk::<8>() else {
        return Ok(Some(keyspace.join("current")));
    };
    let Some((sum, _)) = rest.split_first_chunk::<16>() else {
        return Ok(Some(keyspace.join("current")));
    };
    let version = keyspace.join(format!("v{}", u64::from_le_bytes(*number)));
    let is_whole =
        std::fs::read(&version).is_ok_and(|bytes| xxh3_128(&bytes) == u128::from_le_bytes(*sum));
    Ok((!is_whole).then_some(version))
}

/// Whether the contents of an archive claim more entries than they have bytes for. What is no whole
/// archive is the store's business: it knows which files it needs.
fn has_absurd_contents(archive: &Path) -> io::Result<bool> {
    let file = File::open(archive)?;
    let Some(end) = file.metadata()?.len().checked_sub(TRAILER_BYTES) else { return Ok(false) };
    let mut trailer = [0; TRAILER_BYTES as usize];
    file.read_exact_at(&mut trailer, end)?;
    let place = trailer[CONTENTS_AT..][..8].try_into().map_or(u64::MAX, u64::from_le_bytes);
    let mut head = [0; 8];
    if !trailer.starts_with(b"SFA!") || place.saturating_add(8) > end {
        return Ok(false);
    }
    file.read_exact_at(&mut head, place)?;
    let entries = head[4..].try_into().map_or(0, u32::from_le_bytes);
    Ok(head.starts_with(b"TOC!") && u64::from(entries) > (end - place) / LEAST_ENTRY_BYTES)
}

/// What is in a folder, nothing if there is none.
fn files_in(folder: &Path) -> io::Result<Vec<PathBuf>> {
    match std::fs::read_dir(folder) {
        Ok(entries) => entries.map(|entry| Ok(entry?.path())).collect(),
        Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(why) => Err(why),
    }
}
