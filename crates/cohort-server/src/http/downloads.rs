//! What is read from the journal on its way to whoever asked: who may read how much at once, and how slowly.
//!
//! Each reading takes a thread for as long as its reader does. An app may have as many as are left to others: one that takes
//! all it can get leaves some to the next, and that one to the one after.

use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Bytes;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use super::Service;
use super::error::ApiError;
use crate::export::Scratch;

/// Logs that may be read at once.
const MOST: usize = 16;
/// How much is sent at a time.
const CHUNK_BYTES: usize = 64 << 10;
/// How many of these may wait for a slow reader.
const CHUNKS_WAITING: usize = 8;

/// Who reads.
#[derive(Clone, Default)]
pub(super) struct Downloads(Arc<Mutex<HashMap<String, usize>>>);

/// The permission to read the journal once.
pub(super) struct Permit(Downloads, String);

impl Downloads {
    /// One more of an app, if it has fewer than are left.
    fn begin(&self, app: &str) -> Option<Permit> {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (theirs, all) = (held.get(app).copied().unwrap_or(0), held.values().sum::<usize>());
        if theirs >= MOST.saturating_sub(all) {
            return None;
        }
        held.insert(app.to_owned(), theirs + 1);
        Some(Permit(self.clone(), app.to_owned()))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let Self(Downloads(held), app) = self;
        let mut held = held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(theirs) = held.get_mut(app) {
            *theirs -= 1;
            if *theirs == 0 {
                held.remove(app);
            }
        }
    }
}

impl Service {
    /// The permission to read the journal for an app.
    pub(super) fn permit_to_read(&self, app: &str) -> Result<Permit, ApiError> {
        self.downloads.begin(app).ok_or_else(|| {
            let sentence = "as many logs are being read as may be at once; try again later";
            ApiError::later(503, "logs_busy", sentence, 10)
        })
    }

    /// Where decisions are put that wait while a log is read: a node of a cluster has no folder of its own.
    pub(super) fn scratch(&self) -> Scratch {
        match self.config.nats.is_empty() {
            true => Scratch {
                folder: self.config.data_dir.clone(),
                reserve: self.config.min_free_disk_bytes,
            },
            false => Scratch { folder: std::env::temp_dir(), reserve: 0 },
        }
    }

    /// Where what is read goes, and where it comes out.
    pub(super) fn chunks(&self) -> (Chunks, mpsc::Receiver<io::Result<Bytes>>) {
        let (chunks, received) = mpsc::channel(CHUNKS_WAITING + 1);
        let last = chunks.clone().try_reserve_owned().ok();
        let rate = self.config.min_download_bytes_per_second;
        let patience =
            (rate > 0).then(|| Duration::from_secs_f64(CHUNK_BYTES as f64 / rate as f64));
        let chunk = Vec::with_capacity(CHUNK_BYTES);
        let runtime = Handle::current();
        (Chunks { chunks, last, chunk, patience, is_over: false, runtime }, received)
    }
}

/// Bytes on their way to somebody who reads.
pub(super) struct Chunks {
    chunks: mpsc::Sender<io::Result<Bytes>>,
    /// A place for the error: a transfer that only ends looks complete to a reader who takes the rest later.
    last: Option<mpsc::OwnedPermit<io::Result<Bytes>>>,
    chunk: Vec<u8>,
    /// How long one may wait for its reader to take those before it.
    patience: Option<Duration>,
    /// Whether its reader has gone or was too slow: tables write what they have left when they are dropped.
    is_over: bool,
    runtime: Handle,
}

impl Chunks {
    /// Whether somebody reads them.
    pub(super) fn wanted(&self) -> impl Fn() -> bool + use<> {
        let chunks = self.chunks.downgrade();
        move || chunks.upgrade().is_some_and(|chunks| !chunks.is_closed())
    }

    fn send(&mut self, chunk: io::Result<Bytes>) -> io::Result<()> {
        let gone = || io::Error::new(io::ErrorKind::BrokenPipe, "nobody reads any more");
        if self.is_over {
            return Err(gone());
        }
        let sent = match self.patience {
            None => self.chunks.blocking_send(chunk).map_err(|_| gone()),
            // Others wait for this thread, too.
            Some(patience) => {
                let sent = async { tokio::time::timeout(patience, self.chunks.send(chunk)).await };
                match self.runtime.block_on(sent) {
                    Ok(sent) => sent.map_err(|_| gone()),
                    Err(_) => {
                        metrics::counter!("cohort_downloads_too_slow_total").increment(1);
                        let why = "it was read more slowly than min_download_bytes_per_second";
                        Err(io::Error::new(io::ErrorKind::TimedOut, why))
                    }
                }
            }
        };
        self.is_over = sent.is_err();
        sent
    }

    /// Breaks the transfer off: all clients notice one that is not ended as one that is complete.
    pub(super) fn fail(mut self, why: io::Error) {
        if let Some(last) = self.last.take() {
            last.send(Err(why));
        }
    }
}

impl Write for Chunks {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.chunk.extend_from_slice(bytes);
        if self.chunk.len() >= CHUNK_BYTES {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.chunk.is_empty() {
            return Ok(());
        }
        let chunk = std::mem::take(&mut self.chunk);
        self.send(Ok(chunk.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_app_that_takes_all_it_can_leaves_some_to_others() {
        let downloads = Downloads::default();
        let take_all = |app: &str| std::iter::from_fn(|| downloads.begin(app)).collect::<Vec<_>>();
        let shop = take_all("shop");
        assert_eq!(shop.len(), 8);
        let blog = take_all("blog");
        assert_eq!(blog.len(), 4);
        let (news, last) = (take_all("news"), take_all("last"));
        assert_eq!((news.len(), last.len()), (2, 1));
        assert!(take_all("late").len() == 1 && downloads.begin("shop").is_none());
        drop(blog);
        assert_eq!(take_all("blog").len(), 3, "less than before: there are others now");
        drop((shop, news, last));
        assert!(downloads.0.lock().unwrap().is_empty());
    }
}
