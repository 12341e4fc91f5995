//! A disk that loses what was not synced, and fails when told to: see `forgetful.c`.

mod faults;
mod full;

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Copies of all files as they were when last synced.
pub struct Power {
    folder: tempfile::TempDir,
    library: PathBuf,
}

impl Power {
    /// Builds the library that makes them.
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let library = folder.path().join("forgetful.so");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/power/forgetful.c");
        let mut compiler = Command::new("cc");
        compiler.args(["-O2", "-shared", "-fPIC", "-o"]).arg(&library).arg(&source);
        let built = compiler.status().unwrap_or_else(|why| {
            panic!("`cc` is needed to simulate losses of power, and cannot be run ({why}): scripts/install-test-tools installs gcc")
        });
        assert!(
            built.success(),
            "{}: cc cannot build it (it needs gcc and the headers of glibc)",
            source.display()
        );
        fs::create_dir(folder.path().join("shadow")).unwrap();
        Self { folder, library }
    }

    /// Another disk that is made by the same library.
    pub fn another(&self) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("shadow")).unwrap();
        Self { folder, library: self.library.clone() }
    }

    fn shadow(&self) -> PathBuf {
        self.folder.path().join("shadow")
    }

    /// Runs a command on this disk.
    pub fn give(&self, command: &mut Command, root: &Path) {
        command
            .env("LD_PRELOAD", &self.library)
            .env("FORGETFUL_ROOT", fs::canonicalize(root).unwrap())
            .env("FORGETFUL_SHADOW", self.shadow());
    }

    /// Lets so many calls fail with an error, from one on.
    pub fn fail(&self, command: &mut Command, error: i32, step: u64, count: u64) {
        command.env("FORGETFUL_FAIL", format!("{error} {step} {count}"));
    }

    /// Has the calls counted that could fail with an error.
    pub fn count(&self, command: &mut Command, error: i32) {
        fs::write(self.steps(), [0; 8]).unwrap();
        self.fail(command, error, 0, 0);
        command.env("FORGETFUL_STEPS", self.steps());
    }

    /// How many there were.
    pub fn counted(&self) -> u64 {
        u64::from_ne_bytes(fs::read(self.steps()).unwrap().try_into().unwrap())
    }

    /// Lets the disk be full for a command while [`Power::set_full`] says so.
    pub fn may_be_full(&self, command: &mut Command) {
        self.set_full(false);
        command.env("FORGETFUL_FULL", self.folder.path().join("full"));
    }

    /// Whether the disk is full now.
    pub fn set_full(&self, full: bool) {
        let mut options = fs::OpenOptions::new();
        let file = options.create(true).truncate(false).write(true);
        let mut file = file.open(self.folder.path().join("full")).unwrap();
        file.write_all(&[u8::from(full)]).unwrap();
    }

    fn steps(&self) -> PathBuf {
        self.folder.path().join("steps")
    }

    /// Takes a folder as it is for what was synced.
    pub fn adopt(&self, root: &Path) {
        fs::remove_dir_all(self.shadow()).unwrap();
        fs::create_dir(self.shadow()).unwrap();
        self.adopt_below(root, "");
    }

    fn adopt_below(&self, folder: &Path, prefix: &str) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = format!("{prefix}{}", path.file_name().unwrap().to_str().unwrap());
            let target = if path.is_dir() {
                self.adopt_below(&path, &format!("{name}%"));
                "D".to_owned()
            } else {
                let inode = fs::metadata(&path).unwrap().ino().to_string();
                copy(&path, &self.shadow().join(format!("inode-{inode}"))).unwrap();
                inode
            };
            std::os::unix::fs::symlink(target, self.shadow().join(format!("link-{name}"))).unwrap();
        }
    }

    /// Simulates a loss of power: what was not synced is gone from the folder.
    pub fn lose(&self, root: &Path) {
        let kept = self.folder.path().join("kept");
        fs::rename(self.shadow(), &kept).unwrap();
        for entry in fs::read_dir(root).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }.unwrap();
        }
        for entry in fs::read_dir(&kept).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            let Some(path) = name.strip_prefix("link-").map(|path| path.replace('%', "/")) else {
                continue;
            };
            let (target, to) = (fs::read_link(entry.path()).unwrap(), root.join(&path));
            if target == Path::new("D") {
                fs::create_dir_all(&to).unwrap();
                continue;
            }
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            // A file whose name was synced and whose bytes were not is empty.
            let bytes = kept.join(format!("inode-{}", target.display()));
            if bytes.exists() { copy(&bytes, &to) } else { File::create(&to).map(drop) }.unwrap();
        }
        fs::rename(kept, self.shadow()).unwrap();
        self.adopt(root);
    }
}

/// Copies a file, leaving holes where it has zeros: the journal writes zeros in advance.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let (mut from, mut to) = (File::open(from)?, File::create(to)?);
    to.set_len(from.metadata()?.len())?;
    let mut buffer = vec![0; 1 << 16];
    loop {
        let count = from.read(&mut buffer)?;
        if count == 0 {
            return Ok(());
        }
        if buffer[..count].iter().all(|byte| *byte == 0) {
            to.seek(SeekFrom::Current(count as i64))?;
        } else {
            to.write_all(&buffer[..count])?;
        }
    }
}
