//! How long may a client be silent? A stream that ends when its client takes too long for its first
//! byte, for the head of a request, or for anything while no request is under way; and when it does
//! not take what it asked for. A client that was answered before it had sent all of its request may send the rest, for a
//! while, which is thrown away: so it gets to see the answer.
//!
//! While a request is under way its own limit counts (`request_timeout_ms`), and nothing is expected
//! of the client.

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use super::connections::Line;

/// How long is waited.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// For the first byte of a connection.
    pub first_byte: Duration,
    /// For the head of a request, from its first byte to its last.
    pub head: Duration,
    /// For the next request, and for a reader to take something of an answer.
    pub idle: Duration,
}

/// How long the rest of a request that was answered is thrown away: in all, and without a byte.
const LINGER: Duration = Duration::from_secs(10);
const LINGER_SILENT: Duration = Duration::from_secs(2);

/// A stream with limits on silence.
pub(super) struct Timed<S> {
    stream: S,
    line: Arc<Line>,
    patience: Patience,
    /// When something last moved in either direction.
    moved: Instant,
    /// When the first byte of a head came, and how many requests there were before it.
    head_began: Option<(Instant, u64)>,
    heard: bool,
    /// When the end of our side was told to a client that still sends.
    said_end: Option<Instant>,
    alarm: Pin<Box<Sleep>>,
}

impl<S> Timed<S> {
    pub(super) fn new(stream: S, line: Arc<Line>, patience: Patience) -> Self {
        let now = Instant::now();
        let alarm = Box::pin(sleep_until(now + patience.first_byte));
        Self {
            stream,
            line,
            patience,
            moved: now,
            head_began: None,
            heard: false,
            said_end: None,
            alarm,
        }
    }

    /// When waiting for bytes of the client ends; never while a request is under way.
    fn read_deadline(&mut self) -> Option<Instant> {
        if self.line.is_busy() {
            return None;
        }
        // A head that is complete has begun a request.
        self.head_began = self.head_began.filter(|(_, begun)| *begun == self.line.begun());
        Some(match (self.heard, self.head_began) {
            (false, _) => self.moved + self.patience.first_byte,
            (true, Some((began, _))) if self.line.reads_heads() => began + self.patience.head,
            (true, _) => self.moved + self.patience.idle,
        })
    }

    /// Wakes the task when the deadline is there. Says whether it is.
    fn is_over(&mut self, deadline: Instant, cx: &mut Context) -> bool {
        if deadline <= Instant::now() {
            return true;
        }
        if self.alarm.deadline() != deadline {
            self.alarm.as_mut().reset(deadline);
        }
        self.alarm.as_mut().poll(cx).is_ready()
    }

    fn moved(&mut self) {
        self.moved = Instant::now();
        self.line.moved();
    }
}

fn too_slow(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, what.to_owned())
}

impl<S: AsyncRead + Unpin> AsyncRead for Timed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context,
        buffer: &mut ReadBuf,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        if let Poll::Ready(read) = Pin::new(&mut self.stream).poll_read(cx, buffer) {
            if buffer.filled().len() > before {
                self.moved();
                self.heard = true;
                let begun = self.line.begun();
                if !self.line.is_busy() && self.head_began.is_none_or(|(_, before)| before != begun)
                {
                    self.head_began = Some((self.moved, begun));
                }
            }
            return Poll::Ready(read);
        }
        match self.read_deadline() {
            Some(deadline) if self.is_over(deadline, cx) => {
                metrics::counter!("cohort_connections_ended_total", "why" => "silent").increment(1);
                Poll::Ready(Err(too_slow("the client was silent for too long")))
            }
            _ => Poll::Pending,
        }
    }
}

impl<S: AsyncWrite + Unpin> Timed<S> {
    fn poll_written<T>(
        &mut self,
        cx: &mut Context,
        write: impl FnOnce(Pin<&mut S>, &mut Context) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if let Poll::Ready(written) = write(Pin::new(&mut self.stream), cx) {
            self.moved();
            return Poll::Ready(written);
        }
        let deadline = self.moved + self.patience.idle;
        if self.is_over(deadline, cx) {
            metrics::counter!("cohort_connections_ended_total", "why" => "unread").increment(1);
            return Poll::Ready(Err(too_slow("the client does not read its answer")));
        }
        Poll::Pending
    }
}

impl<S: AsyncRead + Unpin> Timed<S> {
    /// Throws away what still comes of a request that was answered, since `since`.
    fn poll_linger(&mut self, since: Instant, cx: &mut Context) -> Poll<()> {
        let mut thrown = [MaybeUninit::uninit(); 16 << 10];
        loop {
            let mut buffer = ReadBuf::uninit(&mut thrown);
            let silent = self.moved.max(since) + LINGER_SILENT;
            if self.is_over(silent.min(since + LINGER), cx) {
                return Poll::Ready(());
            }
            match Pin::new(&mut self.stream).poll_read(cx, &mut buffer) {
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => self.moved(),
                Poll::Ready(_) => return Poll::Ready(()),
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Timed<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_written(cx, |stream, cx| stream.poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context,
        bytes: &[io::IoSlice],
    ) -> Poll<io::Result<usize>> {
        self.poll_written(cx, |stream, cx| stream.poll_write_vectored(cx, bytes))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context) -> Poll<io::Result<()>> {
        let since = match self.said_end {
            Some(since) => since,
            None => {
                ready!(Pin::new(&mut self.stream).poll_shutdown(cx))?;
                *self.said_end.insert(Instant::now())
            }
        };
        match self.line.is_unread() {
            true => self.poll_linger(since, cx).map(Ok),
            false => Poll::Ready(Ok(())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    const PATIENCE: Patience = Patience {
        first_byte: Duration::from_secs(5),
        head: Duration::from_secs(10),
        idle: Duration::from_secs(60),
    };

    /// Time in these tests is that of tokio's paused clock.
    fn with_clock(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(test);
    }

    /// Reads once; after how many seconds that ended, and whether with bytes.
    async fn read(timed: &mut Timed<tokio::io::DuplexStream>) -> (u64, bool) {
        let (began, mut byte) = (Instant::now(), [0]);
        let read = timed.read(&mut byte).await;
        (began.elapsed().as_secs(), read.is_ok_and(|bytes| bytes == 1))
    }

    #[test]
    fn silence_before_the_first_byte_in_a_head_and_between_requests_has_limits_of_its_own() {
        with_clock(async {
            let (_client, server) = duplex(64);
            let mut timed = Timed::new(server, Arc::default(), PATIENCE);
            assert_eq!(read(&mut timed).await, (5, false));

            let (mut client, server) = duplex(64);
            let line = Arc::<Line>::default();
            let mut timed = Timed::new(server, line.clone(), PATIENCE);
            client.write_all(b"G").await.unwrap();
            assert_eq!(read(&mut timed).await, (0, true));
            // One byte every six seconds does not make a head in ten.
            tokio::time::sleep(Duration::from_secs(6)).await;
            client.write_all(b"E").await.unwrap();
            assert_eq!(read(&mut timed).await, (0, true));
            assert_eq!(read(&mut timed).await, (4, false));

            let (mut client, server) = duplex(64);
            let mut timed = Timed::new(server, line.clone(), PATIENCE);
            client.write_all(b"G").await.unwrap();
            assert_eq!(read(&mut timed).await, (0, true));
            let request = line.begin(false);
            let patient = tokio::time::timeout(Duration::from_secs(500), read(&mut timed)).await;
            assert!(patient.is_err(), "a request under way has its own limit");
            drop(request);
            timed.moved();
            assert_eq!(read(&mut timed).await, (60, false));
        });
    }

    #[test]
    fn a_client_that_does_not_read_is_left() {
        with_clock(async {
            let (_client, server) = duplex(8);
            let line = Arc::<Line>::default();
            let mut timed = Timed::new(server, line.clone(), PATIENCE);
            let _request = line.begin(false);
            timed.write_all(b"12345678").await.unwrap();
            let began = Instant::now();
            assert!(timed.write_all(b"9").await.is_err());
            assert_eq!(began.elapsed().as_secs(), 60);
        });
    }

    /// What is left of a request that was answered is thrown away while it comes, but not for ever.
    #[test]
    fn a_client_that_still_sends_may_end_before_its_connection_does() {
        with_clock(async {
            let closes = async |leaves_unread: bool, sends: u64| {
                let (mut client, server) = duplex(64);
                let line = Arc::<Line>::default();
                if leaves_unread {
                    line.leave_unread();
                }
                let mut timed = Timed::new(server, line, PATIENCE);
                let sending = tokio::spawn(async move {
                    for _ in 0..sends {
                        client.write_all(&[0; 640]).await?;
                        tokio::time::sleep(Duration::from_secs(1)).await;
                    }
                    std::future::pending::<io::Result<()>>().await
                });
                let began = Instant::now();
                timed.shutdown().await.unwrap();
                sending.abort();
                began.elapsed().as_secs()
            };
            assert_eq!(closes(false, 5).await, 0, "all was read");
            assert_eq!(closes(true, 0).await, 2, "nothing more comes");
            assert_eq!(closes(true, 4).await, 5, "the last byte came after three seconds");
            assert_eq!(closes(true, 100).await, 10, "it never ends");
            let (client, server) = duplex(64);
            let line = Arc::<Line>::default();
            line.leave_unread();
            drop(client);
            let began = Instant::now();
            Timed::new(server, line, PATIENCE).shutdown().await.unwrap();
            assert_eq!(began.elapsed().as_secs(), 0, "the client has gone");
        });
    }
}
