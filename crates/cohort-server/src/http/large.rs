//! Where is JSON of megabytes read and written? Not where all others are served: that takes tens of milliseconds, and
//! there are only as many threads for requests as the machine has cores. One thread of low priority does it, one
//! body after the other; whoever sends or asks for much waits for others who do.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use axum::body::{BodyDataStream, Bytes};
use axum::extract::Request;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::{Json, RequestExt};
use futures_util::StreamExt;
use http_body_util::LengthLimitError;
use serde::Serialize;
use tokio::sync::oneshot;

use super::error::ApiError;
use crate::priority;

/// Bodies up to this size are read where they arrive.
pub(super) const SMALL_BYTES: usize = 64 << 10;
/// Bodies that are larger may take this much memory together until they have been read.
const MOST_BYTES: usize = 512 << 20;

type Job = Box<dyn FnOnce() + Send>;

/// Does something on the thread for large bodies, unless nobody waits for it any more when its turn comes.
pub(super) async fn apart<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ApiError> {
    static THREAD: OnceLock<Option<mpsc::Sender<Job>>> = OnceLock::new();
    let (reply, answer) = oneshot::channel();
    let job: Job = Box::new(move || {
        if !reply.is_closed() {
            // Whoever asked may have gone meanwhile.
            let _ = reply.send(work());
        }
    });
    match THREAD.get_or_init(start) {
        Some(thread) => {
            if let Err(mpsc::SendError(job)) = thread.send(job) {
                job();
            }
        }
        // A machine that has no thread left has this one.
        None => job(),
    }
    answer
        .await
        .map_err(|_| ApiError::new(500, "bug", "this is a bug in the service; its log says more"))
}

fn start() -> Option<mpsc::Sender<Job>> {
    let (sender, jobs) = mpsc::channel::<Job>();
    let work = move || {
        priority::lower_priority(priority::LARGE_BODIES);
        for job in jobs {
            // A panic is a bug: it is logged, answered, and the next job is done.
            let _ = catch_unwind(AssertUnwindSafe(job));
        }
    };
    let started = std::thread::Builder::new().name("large bodies".to_owned()).spawn(work);
    started.ok().map(|_| sender)
}

/// JSON as an answer; where it is long it is written apart.
pub(super) async fn answer<T: Serialize + Send + 'static>(
    is_large: bool,
    body: impl FnOnce() -> T + Send + 'static,
) -> Result<Response, ApiError> {
    if !is_large {
        return Ok(Json(body()).into_response());
    }
    let written = apart(move || serde_json::to_vec(&body())).await?;
    let written = written.map_err(|why| ApiError::new(500, "bug", why.to_string()))?;
    Ok(([(header::CONTENT_TYPE, "application/json")], written).into_response())
}

/// A body, and its part of the memory that large ones may take.
pub(crate) struct Received {
    pub bytes: Bytes,
    _counted: Counted,
}

/// Bytes of large bodies that have come and were not read yet.
static RECEIVED: AtomicUsize = AtomicUsize::new(0);

#[derive(Default)]
struct Counted(usize);

impl Counted {
    /// Takes more, unless there is too much already.
    fn add(&mut self, bytes: usize) -> bool {
        self.0 += bytes;
        RECEIVED.fetch_add(bytes, Ordering::Relaxed) + bytes <= MOST_BYTES
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        RECEIVED.fetch_sub(self.0, Ordering::Relaxed);
    }
}

/// The body of a request, up to the largest that is allowed, as long as there is memory for it.
pub(crate) async fn receive(request: Request) -> Result<Received, ApiError> {
    let mut stream = request.into_limited_body().into_data_stream();
    let mut first = next(&mut stream).await?;
    let Some(second) = next(&mut stream).await? else {
        return Ok(Received {
            bytes: first.take().unwrap_or_default(),
            _counted: Counted::default(),
        });
    };
    let mut bytes = Vec::from(first.unwrap_or_default());
    let (mut counted, mut piece) = (Counted::default(), Some(second));
    while let Some(more) = piece {
        bytes.extend_from_slice(&more);
        if bytes.len() > SMALL_BYTES && !counted.add(bytes.len() - counted.0) {
            let sentence = "too many large bodies are being received";
            return Err(ApiError::later(503, "overloaded", sentence, 1));
        }
        piece = next(&mut stream).await?;
    }
    Ok(Received { bytes: bytes.into(), _counted: counted })
}

async fn next(stream: &mut BodyDataStream) -> Result<Option<Bytes>, ApiError> {
    let found = stream.next().await.transpose();
    found.map_err(|why| match is_too_long(&why) {
        true => ApiError::new(413, "body_too_large", "the body is larger than body_bytes"),
        false => ApiError::new(400, "body_unreadable", "the body could not be read to its end"),
    })
}

fn is_too_long(why: &(dyn std::error::Error + 'static)) -> bool {
    why.is::<LengthLimitError>() || why.source().is_some_and(is_too_long)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn what_is_large_is_done_elsewhere_one_after_the_other_and_not_for_nobody() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let here = std::thread::current().id();
            assert_ne!(apart(|| std::thread::current().id()).await.unwrap(), here);
            // While one is done here, another is asked for and given up, and a third panics.
            let slow = tokio::spawn(apart(|| std::thread::sleep(Duration::from_millis(200))));
            tokio::time::sleep(Duration::from_millis(50)).await;
            let (told, heard) = std::sync::mpsc::channel::<()>();
            let given_up = apart(move || told.send(()));
            assert!(tokio::time::timeout(Duration::from_millis(50), given_up).await.is_err());
            let began = Instant::now();
            assert!(
                apart(|| panic!("a bug, made for this test"))
                    .await
                    .is_err_and(|why| why.status() == 500)
            );
            assert!(began.elapsed() < Duration::from_secs(100));
            slow.await.unwrap().unwrap();
            assert!(heard.recv().is_err(), "it was done for nobody");
            assert_eq!(apart(|| 7).await.unwrap(), 7);
        });
    }

    #[test]
    fn large_bodies_take_a_bounded_part_of_memory() {
        let mut first = Counted::default();
        assert!(first.add(MOST_BYTES - (1 << 20)));
        let mut second = Counted::default();
        assert!(!second.add(2 << 20), "more than there may be");
        drop(second);
        drop(first);
        assert!(Counted::default().add(2 << 20));
    }
}
