//! A disk that loses what was not synced: see `forgetful.c`.

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
    /// Builds the library that makes them. `None` where there is no C compiler.
    pub fn new() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let library = folder.path().join("forgetful.so");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/power/forgetful.c");
        let mut compiler = Command::new("cc");
        compiler.args(["-O2", "-shared", "-fPIC", "-o"]).arg(&library).arg(source);
        let built = compiler.status().ok()?;
        assert!(built.success(), "the library does not compile");
        fs::create_dir(folder.path().join("shadow")).unwrap();
        Some(Self { folder, library })
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

    /// Lets calls fail with an error from one on.
    pub fn fail(&self, command: &mut Command, error: i32, step: u64) {
        command.env("FORGETFUL_FAIL", format!("{error} {step}"));
    }

    /// Simulates a loss of power: what was not synced is gone from the folder.
    pub fn lose(&self, root: &Path) {
        let kept = self.folder.path().join("kept");
        fs::rename(self.shadow(), &kept).unwrap();
        fs::create_dir(self.shadow()).unwrap();
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
                std::os::unix::fs::symlink("D", self.shadow().join(&name)).unwrap();
                continue;
            }
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            // A file whose name was synced and whose bytes were not is empty.
            let bytes = kept.join(format!("inode-{}", target.display()));
            if bytes.exists() { copy(&bytes, &to) } else { File::create(&to).map(drop) }.unwrap();
            let inode = fs::metadata(&to).unwrap().ino();
            copy(&to, &self.shadow().join(format!("inode-{inode}"))).unwrap();
            std::os::unix::fs::symlink(inode.to_string(), self.shadow().join(&name)).unwrap();
        }
        fs::remove_dir_all(kept).unwrap();
    }
}

/// Copies a file, leaving holes where it has zeros: the store preallocates its log.
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
