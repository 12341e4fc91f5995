//! Every place where bytes from outside come in, as a function that takes any bytes and must not
//! panic. The fuzz targets and the property tests of the ordinary suite call the same ones.

use crate::config::Config;
use crate::event::Event;
use crate::journal::frame;
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
