//! One snapshot under a name of its own, outside any service: written and read by whoever has
//! learned elsewhere.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

use super::Snapshots;
use super::disk::Folder;
use crate::bytes::{Malformed, Take};
use crate::snapshot::SnapshotError;

/// Where in a file the number of its event is: after the magic, the version, and the length and
/// the checksum of the first block.
const EVENT_AT: usize = 16 + 4 + 4 + 8;

/// Writes the state after event `event` to a file; it is there in full or not at all.
pub fn write(
    path: &Path,
    event: u64,
    state: &mut dyn FnMut(&mut dyn Write) -> std::io::Result<()>,
) -> Result<(), SnapshotError> {
    let fails = |why| SnapshotError::Write { name: path.display().to_string(), why };
    let (folder, name) = place(path).map_err(fails)?;
    Snapshots::new(folder).write_file(&name, event, state).map_err(fails)
}

/// Reads a file that [`write()`] or a service wrote.
pub fn read<T>(
    path: &Path,
    mut load: impl FnMut(&mut dyn Read) -> Result<T, Malformed>,
) -> Result<T, SnapshotError> {
    let mut read = || {
        let mut beginning = [0; EVENT_AT];
        let mut file = File::open(path)?;
        file.read_exact(&mut beginning)
            .map_err(|_| Malformed::odd("it does not begin as a snapshot does"))?;
        let event = file.take_u64()?;
        let (folder, name) = place(path)?;
        Snapshots::new(folder).load_file(&name, event, &mut load)
    };
    read().map_err(|why| SnapshotError::Damaged { name: path.display().to_string(), why })
}

fn place(path: &Path) -> std::io::Result<(Folder, String)> {
    let name = path.file_name().and_then(|name| name.to_str());
    let name = name.ok_or(std::io::ErrorKind::InvalidFilename)?.to_owned();
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    Ok((Folder::new(parent.unwrap_or(Path::new(".")))?, name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::Put;

    #[test]
    fn what_was_written_under_any_name_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/learned.cohort");
        write(&path, 107, &mut |out| out.put_str("state")).unwrap();
        assert_eq!(read(&path, |mut from| from.take_str()).unwrap(), "state");
        let mut bytes = std::fs::read(&path).unwrap();
        for at in [0, EVENT_AT, bytes.len() - 15] {
            bytes[at] ^= 1;
            std::fs::write(&path, &bytes).unwrap();
            let refused = read(&path, |mut from| from.take_str()).unwrap_err().to_string();
            assert!(refused.contains("learned.cohort is damaged"), "{refused}");
            bytes[at] ^= 1;
        }
        std::fs::write(&path, "short").unwrap();
        let refused = read(&path, |mut from| from.take_str()).unwrap_err().to_string();
        assert!(refused.contains("does not begin as a snapshot does"), "{refused}");
    }
}
