//! The control stream, which every node follows: apps, keys, catalogues and what users have in common. It is the journal
//! of a partition without users; its owner decides what is asked of apps.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::journal::read;
use super::log::{Bounds, Log, frames, insist};
use super::nats::{Nats, NatsLog};
use super::record::Frame;
use crate::event::Event;
use crate::journal::{JournalError, frame};

/// The stream.
pub const CONTROL: &str = "control";
/// Bytes of the newest frames that are kept for partitions to follow.
const KEPT_BYTES: usize = 32 << 20;
/// How long is waited before the stream is asked again.
const RETRY: Duration = Duration::from_millis(200);

/// Events that were written together.
#[derive(Clone, Debug)]
pub struct ControlFrame {
    /// The number of the first.
    pub first: u64,
    /// The number of the last.
    pub last: u64,
    /// The events, as bytes.
    events: Arc<Vec<Vec<u8>>>,
}

impl ControlFrame {
    /// From a frame of the stream.
    fn of(found: Frame) -> Result<Option<Self>, JournalError> {
        let Frame { first, events: count, bytes, .. } = found;
        let mut events = Vec::new();
        frame::read(first, &bytes, first, &mut |_, bytes| {
            events.push(bytes.to_vec());
            Ok(())
        })?;
        let last = first + u64::from(count) - 1;
        Ok((count > 0).then_some(Self { first, last, events: Arc::new(events) }))
    }

    /// The events, as far as they can be read.
    pub fn events(&self) -> Result<Vec<Event>, JournalError> {
        let read = |(number, bytes): (u64, &Vec<u8>)| {
            let what = |why: crate::bytes::Malformed| why.to_string();
            Event::decode(bytes)
                .map_err(|why| JournalError::Damaged { event: number, what: what(why) })
        };
        (self.first..).zip(self.events.iter()).map(read).collect()
    }
}

/// What this node has seen of the control stream. Clones are the same.
#[derive(Clone)]
pub struct ControlFeed {
    log: NatsLog,
    kept: Arc<Mutex<VecDeque<ControlFrame>>>,
    last: watch::Sender<u64>,
    /// The sequence after the last frame that was seen.
    next: Arc<AtomicU64>,
    /// When the last look at the stream began. One looks at a time.
    looked: Arc<Mutex<Option<Instant>>>,
}

impl ControlFeed {
    /// Of a cluster, whose stream is there.
    pub fn new(nats: &Nats) -> Self {
        let log = nats.log(CONTROL);
        Self {
            log,
            kept: Arc::default(),
            last: watch::Sender::new(0),
            next: Arc::default(),
            looked: Arc::default(),
        }
    }

    fn kept(&self) -> MutexGuard<'_, VecDeque<ControlFrame>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last event that was seen, from now on.
    pub fn last(&self) -> watch::Receiver<u64> {
        self.last.subscribe()
    }

    /// The frames after an event, from memory where they are there. Blocks.
    pub fn after(&self, event: u64) -> Result<Vec<ControlFrame>, JournalError> {
        {
            let kept = self.kept();
            if kept.front().is_some_and(|front| front.first <= event + 1) {
                return Ok(kept.iter().filter(|frame| frame.last > event).cloned().collect());
            }
        }
        self.read_after(event)
    }

    /// The frames after an event, from the stream. Blocks.
    pub fn read_after(&self, event: u64) -> Result<Vec<ControlFrame>, JournalError> {
        let Bounds { last, .. } = insist(&self.log, |log| log.bounds())?;
        let mut frames = Vec::new();
        read(&self.log, event + 1, last, &mut |_, found| {
            frames.extend(ControlFrame::of(found)?.filter(|frame| frame.last > event));
            Ok(())
        })?;
        Ok(frames)
    }

    /// Knows all that was in the stream at some moment, and perhaps more. Blocks. Those who wait for each other
    /// share one look at the stream.
    pub fn catch_up(&self, moment: Instant) -> Result<(), JournalError> {
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        if looked.is_some_and(|began| began >= moment) {
            return Ok(());
        }
        let began = Instant::now();
        self.look()?;
        *looked = Some(began);
        Ok(())
    }

    /// Looks for more, and remembers it. Blocks; one at a time.
    fn look(&self) -> Result<(), JournalError> {
        let Bounds { last, .. } = insist(&self.log, |log| log.bounds())?;
        let from = self.next.load(Ordering::Relaxed);
        if last < from {
            return Ok(());
        }
        let (mut found, mut next) = (Vec::new(), from);
        frames(&self.log, from, last, &mut |sequence, one| {
            found.extend(ControlFrame::of(one)?);
            next = sequence + 1;
            Ok(())
        })?;
        self.next.store(next, Ordering::Relaxed);
        let Some(newest) = found.last().map(|frame| frame.last) else { return Ok(()) };
        let mut kept = self.kept();
        kept.extend(found);
        let bytes = |frame: &ControlFrame| frame.events.iter().map(Vec::len).sum::<usize>();
        let mut total: usize = kept.iter().map(bytes).sum();
        while total > KEPT_BYTES && kept.len() > 1 {
            total -= kept.pop_front().as_ref().map_or(0, bytes);
        }
        drop(kept);
        self.last.send_replace(newest);
        Ok(())
    }

    /// Where the stream ends now: from there on it is followed. Blocks.
    pub fn begin(&self) -> Result<u64, JournalError> {
        let bounds = insist(&self.log, |log| log.bounds())?;
        let tail = super::log::tail(&self.log, bounds)?;
        self.next.store(bounds.last + 1, Ordering::Relaxed);
        self.last.send_replace(tail.event);
        Ok(tail.event)
    }

    /// Follows the stream for ever. Messages on its subject say that there may be more: what counts is the stream.
    pub async fn run(self, nats: Nats) {
        use futures_util::StreamExt;
        let subject = nats.subject(CONTROL);
        let mut hints = nats.client().subscribe(subject).await.ok();
        loop {
            let hint = async {
                match &mut hints {
                    Some(hints) => {
                        let _ = hints.next().await;
                    }
                    None => std::future::pending().await,
                }
            };
            let hinted = tokio::time::timeout(RETRY * 5, hint).await.is_ok();
            let before = *self.last.borrow();
            // A message is seen before it is acknowledged: it may take a moment until it stands.
            let attempts: u32 = if hinted { 6 } else { 1 };
            for attempt in 0..attempts {
                let feed = self.clone();
                let looked =
                    tokio::task::spawn_blocking(move || feed.catch_up(Instant::now())).await;
                if let Ok(Err(why)) = looked {
                    tracing::warn!(%why, "the control stream could not be read; it is tried again");
                }
                if *self.last.borrow() > before {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(2 << attempt)).await;
            }
        }
    }
}
