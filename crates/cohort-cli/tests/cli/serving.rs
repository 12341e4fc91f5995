//! The service as a process of its own.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use serde_json::Value;

use crate::command::command;

/// `cohort serve …`, ended when dropped.
pub struct Serving {
    child: Child,
    /// Its address.
    pub url: String,
    /// Its output at start-up.
    pub said: String,
    /// Its working directory.
    pub folder: tempfile::TempDir,
}

impl Serving {
    /// Starts it with these flags; it prints this many lines.
    pub fn start(flags: &[&str], lines: usize) -> Self {
        Self::start_with(flags, lines, Stdio::inherit())
    }

    fn start_with(flags: &[&str], lines: usize, log: Stdio) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut child = command(&["serve", "--listen", "127.0.0.1:0", "--log-level", "error"])
            .args(flags)
            .current_dir(folder.path())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut said = String::new();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        for _ in 0..lines {
            out.read_line(&mut said).unwrap();
        }
        let url = said.split_whitespace().find(|word| word.starts_with("http")).unwrap().to_owned();
        Self { child, url, said, folder }
    }

    /// The same with what it logs; nothing of that is shown.
    pub fn start_logged(flags: &[&str], lines: usize) -> (Self, std::process::ChildStderr) {
        let mut serving = Self::start_with(flags, lines, Stdio::piped());
        let log = serving.child.stderr.take().unwrap();
        (serving, log)
    }

    /// Ends it, so that its output ends.
    pub fn end(mut self) -> tempfile::TempDir {
        let _ = self.child.kill();
        let _ = self.child.wait();
        std::mem::replace(&mut self.folder, tempfile::tempdir().unwrap())
    }

    /// Posts a body; returns the answer.
    pub fn post(&self, path: &str, body: &Value) -> Value {
        let sent = ureq::post(format!("{}{path}", self.url)).send_json(body);
        sent.unwrap().body_mut().read_json().unwrap()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
