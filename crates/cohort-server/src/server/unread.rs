//! Was the body of a request read to its end? A refusal is answered before the body has come; closing a connection
//! with bytes unread takes the answer back, so that its client sees a broken connection instead of it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};

use super::connections::Line;

/// A body that tells its connection if it was not read to its end.
pub(super) struct Watched {
    body: Incoming,
    is_read: bool,
    line: Arc<Line>,
}

impl Watched {
    pub(super) fn new(body: Incoming, line: Arc<Line>) -> Self {
        Self { body, is_read: false, line }
    }
}

impl Body for Watched {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        self.is_read |= matches!(polled, Poll::Ready(None | Some(Err(_))));
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if !self.is_read && !self.body.is_end_stream() {
            self.line.leave_unread();
        }
    }
}
