//! Atomic files: written under another name, then renamed.

use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use crate::Error;

/// A folder for results.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
}

impl Folder {
    /// Checks before the work begins that results can be written there at the end. Leaves nothing
    /// behind.
    pub fn new(path: &Path) -> Result<Self, Error> {
        let folder = Self { path: path.to_owned() };
        if path.exists() && !path.is_dir() {
            let found = "a file";
            return Err(Error::unexpected("folder for results", found, "a folder").at(path));
        }
        folder.stage()?;
        Ok(folder)
    }

    /// A staging area for new files; they appear in the folder together.
    pub fn stage(&self) -> Result<Staged, Error> {
        let place = self.path.join(format!(".partial-{}", std::process::id()));
        fs::create_dir_all(&place).map_err(|source| failed(&place, source))?;
        Ok(Staged { folder: self.path.clone(), place, names: Vec::new() })
    }
}

/// Staged files of a folder. Dropping discards them.
pub struct Staged {
    folder: PathBuf,
    place: PathBuf,
    names: Vec<String>,
}

impl Staged {
    /// Writes one file.
    pub fn write(
        &mut self,
        name: &str,
        content: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
    ) -> Result<(), Error> {
        let written = create(&self.place.join(name), content);
        written.map_err(|source| failed(&self.folder.join(name), source))?;
        self.names.push(name.to_owned());
        Ok(())
    }

    /// Moves all staged files into the folder.
    pub fn publish(self) -> Result<(), Error> {
        for name in &self.names {
            let to = self.folder.join(name);
            fs::rename(self.place.join(name), &to).map_err(|source| failed(&to, source))?;
        }
        Ok(())
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        // A leftover is harmless; the folder itself is removed only if it is empty.
        let _ = fs::remove_dir_all(&self.place);
        let _ = fs::remove_dir(&self.folder);
    }
}

/// Checks before the work begins that a file can be written at the end. Leaves nothing behind.
pub fn check_place(path: &Path) -> Result<(), Error> {
    if path.is_dir() {
        return Err(failed(path, ErrorKind::IsADirectory.into()));
    }
    let partial = partial(path);
    File::create(&partial).map_err(|source| failed(path, source))?;
    fs::remove_file(&partial).map_err(|source| failed(path, source))
}

/// Writes one file atomically.
pub fn write_whole(
    path: &Path,
    content: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> Result<(), Error> {
    let partial = partial(path);
    let written = create(&partial, content).and_then(|()| fs::rename(&partial, path));
    written.map_err(|source| {
        let _ = fs::remove_file(&partial);
        failed(path, source)
    })
}

fn partial(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".partial-{}", std::process::id()));
    path.with_file_name(name)
}

fn create(
    path: &Path,
    content: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    content(&mut file)?;
    file.flush()
}

fn failed(path: &Path, source: io::Error) -> Error {
    Error::Write { path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &'static str) -> impl FnOnce(&mut BufWriter<File>) -> io::Result<()> {
        move |file| file.write_all(text.as_bytes())
    }

    fn names(path: &Path) -> Vec<String> {
        let name = |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string();
        let mut names: Vec<String> =
            fs::read_dir(path).unwrap().map(|entry| name(entry).unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn files_appear_together_and_replace_old_ones() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("deep/results");
        let folder = Folder::new(&path).unwrap();
        assert!(!path.exists(), "looking leaves nothing behind");
        for round in ["first", "second"] {
            let mut staged = folder.stage().unwrap();
            staged.write("a", text(round)).unwrap();
            staged.write("b", text("b")).unwrap();
            staged.publish().unwrap();
            assert_eq!(names(&path), ["a", "b"]);
            assert_eq!(fs::read_to_string(path.join("a")).unwrap(), round);
        }
    }

    #[test]
    fn a_failure_leaves_what_was_there() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("results");
        let fail = |_: &mut BufWriter<File>| Err(io::Error::other("no room"));
        {
            let mut staged = Folder::new(&path).unwrap().stage().unwrap();
            staged.write("a", text("half")).unwrap();
            let error = staged.write("b", fail).unwrap_err();
            assert!(error.to_string().contains("b: cannot be written: no room"));
            assert!(!error.is_bad_input());
        }
        assert!(!path.exists());

        let file = parent.path().join("labels.npy");
        write_whole(&file, text("old")).unwrap();
        write_whole(&file, fail).unwrap_err();
        assert_eq!(fs::read_to_string(&file).unwrap(), "old");
        assert_eq!(names(parent.path()), ["labels.npy"]);
    }

    #[test]
    fn a_place_that_cannot_be_is_found_out_at_once() {
        let parent = tempfile::tempdir().unwrap();
        let file = parent.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(Folder::new(&file).unwrap_err().is_bad_input());
        assert!(Folder::new(&file.join("below")).unwrap_err().is_bad_input());
        assert!(check_place(&file.join("below")).unwrap_err().is_bad_input());
        assert!(check_place(&parent.path().join("none/file")).unwrap_err().is_bad_input());
        assert!(check_place(parent.path()).unwrap_err().is_bad_input());
        check_place(&file).unwrap();
        assert_eq!(names(parent.path()), ["file"]);
    }
}
