//! Files that are whole or not there: written under another name, then renamed.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::Error;

/// A folder for results.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
}

impl Folder {
    /// Finds out before the work begins whether results can be written there at the end. Leaves
    /// nothing behind.
    pub fn new(path: &Path) -> Result<Self, Error> {
        let folder = Self { path: path.to_owned() };
        if path.exists() && !path.is_dir() {
            let found = "a file";
            return Err(Error::unexpected("folder for results", found, "a folder").at(path));
        }
        folder.stage()?;
        Ok(folder)
    }

    /// A place for new files; they appear in the folder when all are there.
    pub fn stage(&self) -> Result<Staged, Error> {
        let place = self.path.join(format!(".partial-{}", std::process::id()));
        fs::create_dir_all(&place).map_err(|source| failed(&place, source))?;
        Ok(Staged { folder: self.path.clone(), place, names: Default::default() })
    }
}

/// New files of a folder, not yet in it. Dropped, they are gone.
pub struct Staged {
    folder: PathBuf,
    place: PathBuf,
    names: std::cell::RefCell<Vec<String>>,
}

impl Staged {
    /// Writes one file.
    pub fn write(
        &self,
        name: &str,
        content: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
    ) -> Result<(), Error> {
        let written = create(&self.place.join(name), content);
        written.map_err(|source| failed(&self.folder.join(name), source))?;
        self.names.borrow_mut().push(name.to_owned());
        Ok(())
    }

    /// All files are there: they take their places.
    pub fn publish(self) -> Result<(), Error> {
        for name in self.names.borrow().iter() {
            let to = self.folder.join(name);
            fs::rename(self.place.join(name), &to).map_err(|source| failed(&to, source))?;
        }
        Ok(())
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        // Whatever cannot be removed hurts nobody; the folder itself goes only if it is empty.
        let _ = fs::remove_dir_all(&self.place);
        let _ = fs::remove_dir(&self.folder);
    }
}

/// Writes one file, whole or not at all.
pub fn write_whole(
    path: &Path,
    content: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> Result<(), Error> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".partial-{}", std::process::id()));
    let partial = path.with_file_name(name);
    let written = create(&partial, content).and_then(|()| fs::rename(&partial, path));
    written.map_err(|source| {
        let _ = fs::remove_file(&partial);
        failed(path, source)
    })
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
