//! Every place where bytes from outside come in, as a function that takes any bytes and must not
//! panic. The fuzz targets and the property tests of the ordinary suite call the same ones.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::config::Config;
use crate::event::Event;
use crate::journal::segments::SegmentJournal;
use crate::journal::{Journal, frame};
use crate::server::Server;
use crate::snapshot::Snapshots;
use crate::snapshot::disk::{Disk, MemoryFolder};
use crate::state::State;

pub use crate::http::http_body;

/// One group of a journal, and the events in it; what can be read can be applied or is refused.
pub fn journal_frame(bytes: &[u8]) {
    let mut state = State::default();
    let _ = frame::read(1, bytes, 1, &mut |_, bytes| {
        if let Ok(event) = Event::decode(bytes) {
            let _ = state.apply(small(event));
        }
        Ok(())
    });
}

/// Events one after the other, each with a length of one byte: reaches what a checksum would
/// keep a fuzzer from. An event that is read is written as the same bytes.
pub fn event(bytes: &[u8]) {
    let mut state = State::default();
    let mut rest = bytes;
    while let Some((len, after)) = rest.split_first() {
        let Some((event, after)) = after.split_at_checked((*len).into()) else { break };
        rest = after;
        if let Ok(event) = Event::decode(event) {
            let mut written = Vec::new();
            event.encode(&mut written);
            assert_eq!(Event::decode(&written).ok().as_ref(), Some(&event));
            let _ = state.apply(small(event));
        }
    }
    // A state that cannot be read back is not written in the first place.
    let mut saved = Vec::new();
    if state.save(&mut saved).is_ok() {
        let again = State::load(&mut saved.as_slice());
        assert_eq!(again.map(|state| state.last_event()).ok(), Some(state.last_event()));
    }
}

/// A snapshot file, and past its checksums the state in it.
pub fn snapshot(bytes: &[u8]) {
    let folder = MemoryFolder::default();
    let written = folder.create("00000000000000000001.snapshot");
    let _ = written.and_then(|mut file| file.write_all(bytes));
    let _ = Snapshots::new(folder).newest(State::load, |_| {});
    let _ = State::load(&mut &bytes[..]);
}

/// A segment of the journal as it is found at a start: its head, its mark, its records and what is behind them. What can be opened
/// can be read, and is found again as it was left.
pub fn segment(bytes: &[u8]) {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let memory = Path::new("/dev/shm");
    let root = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let folder = root.join(format!("cohort-segment-{}-{count}", std::process::id()));
    let file = folder.join("segments/00000000000000000001.segment");
    std::fs::create_dir_all(folder.join("segments"))
        .and_then(|()| std::fs::write(file, bytes))
        .expect("a folder that can be written");
    let mut found = Vec::new();
    for _ in 0..2 {
        if let Ok(journal) = SegmentJournal::open(&folder) {
            let mut events = 0;
            let read = journal.read(1, &mut |_, bytes| {
                let _ = Event::decode(bytes);
                events += 1;
                Ok(())
            });
            assert!(read.is_ok() && events == journal.last(), "{read:?} {events}");
            found.push(events);
        }
    }
    let _ = std::fs::remove_dir_all(&folder);
    assert!(found.is_empty() || found.len() == 2 && found[0] == found[1], "{found:?}");
}

/// A configuration file.
pub fn config(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = Config::from_text("fuzz.toml", text);
    }
}

/// The same event with a dimension that memory can hold: the service limits it before it writes.
fn small(mut event: Event) -> Event {
    use crate::event::What;
    if let What::Created(settings) | What::Changed(settings) = &mut event.what {
        settings.dim = settings.dim.min(64);
    }
    event
}

/// A service that is sent bodies of any bytes, over HTTP, for as long as the process lives: what
/// gets through to the engine is decided, learned and written down.
pub struct Asked(BufReader<TcpStream>);

/// What is asked; the first byte says which.
const ASKED: [(&str, &str); 8] = [
    ("POST", "/v1/apps"),
    ("PATCH", "/v1/apps/shop"),
    ("PUT", "/v1/apps/shop/items"),
    ("POST", "/v1/apps/shop/decide"),
    ("POST", "/v1/apps/shop/decide-batch"),
    ("POST", "/v1/apps/shop/activate"),
    ("POST", "/v1/apps/shop/reward"),
    ("POST", "/v1/apps/shop/rewards"),
];

impl Asked {
    /// A service that keeps its data in this folder, with an app of two features.
    pub fn start(folder: &Path) -> Self {
        let config = Config {
            data_dir: folder.into(),
            listen: "127.0.0.1:0".to_owned(),
            durability: "interval".to_owned(),
            log_level: "error".to_owned(),
            max_dim: 8,
            ..Config::default()
        };
        let server = Server::open(config).expect("a folder that can be written");
        let address = server.address();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let served =
                runtime.map(|runtime| runtime.block_on(server.serve(std::future::pending())));
            served.expect("a runtime").expect("it serves");
        });
        let stream = TcpStream::connect(address).expect("a service that listens");
        stream.set_nodelay(true).expect("a socket option");
        let mut asked = Self(BufReader::new(stream));
        let made = asked.send(0, br#"{"name":"shop","dim":2}"#);
        assert!(made == 201 || made == 409, "{made}");
        asked
    }

    /// Asks what the first byte says with the others as the body. Whatever they are, the answer is
    /// a success or a refusal with a code and a sentence. Returns its status.
    pub fn ask(&mut self, bytes: &[u8]) -> u16 {
        match bytes.split_first() {
            Some((what, body)) => self.send(*what, body),
            None => 0,
        }
    }

    fn send(&mut self, what: u8, body: &[u8]) -> u16 {
        let (method, path) = ASKED[usize::from(what) % ASKED.len()];
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n",
            body.len()
        );
        let sent = self.0.get_mut().write_all(&[head.as_bytes(), body].concat());
        sent.expect("a service that reads");
        let (status, said) = self.answer();
        if status >= 400 {
            let said: serde_json::Value = serde_json::from_slice(&said).expect("JSON");
            let word = |name: &str| said["error"][name].as_str().unwrap_or_default();
            assert!(!word("code").is_empty() && !word("message").is_empty(), "{status} {said}");
            assert!(status < 500, "{method} {path}: {status} {said}");
        }
        status
    }

    fn answer(&mut self) -> (u16, Vec<u8>) {
        let (mut status, mut length) = (None, 0);
        loop {
            let mut line = String::new();
            self.0.read_line(&mut line).expect("a service that answers");
            assert!(!line.is_empty(), "the service went away");
            match line.trim_end().split_once(' ') {
                None => break,
                Some(("HTTP/1.1", rest)) => status = rest.get(..3).and_then(|s| s.parse().ok()),
                Some((name, value)) if name.eq_ignore_ascii_case("content-length:") => {
                    length = value.parse().expect("a length");
                }
                Some(_) => {}
            }
        }
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).expect("as long as it says");
        (status.expect("a status"), body)
    }
}
