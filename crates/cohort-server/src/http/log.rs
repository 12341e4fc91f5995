//! The decision log as a file, while the service runs.

use std::io::{self, Write};

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use super::access::Client;
use super::apps::unexpected;
use super::error::{ApiError, ErrorBody};
use super::{Service, Shared};
use crate::auth::Scopes;
use crate::engine::{Answer, Request};
use crate::export::{Format, export, rows};

/// How much is sent at a time.
const CHUNK_BYTES: usize = 64 << 10;
/// How many of these may wait for a slow reader.
const CHUNKS_WAITING: usize = 8;

/// Every decision with its context, propensity and reward, as CSV. Where retention removes events before they are read the
/// transfer is broken off after the last row: it is never taken for complete.
#[utoipa::path(get, path = "/v1/apps/{app}/log.csv", tag = "insight", params(("app" = String, Path)),
    responses((status = 200, content_type = "text/csv", body = String),
        (status = "4XX", body = ErrorBody)))]
pub async fn csv(
    State(service): Shared,
    Client(app, _): Client<{ Scopes::READ }>,
) -> Result<Response, ApiError> {
    service.export(app, Format::Csv, "text/csv; charset=utf-8").await
}

/// Every decision with its context, propensity and reward, as Parquet. Where retention removes events before they are read
/// the transfer is broken off after the last byte, as that of CSV.
#[utoipa::path(get, path = "/v1/apps/{app}/log.parquet", tag = "insight",
    params(("app" = String, Path)), responses(
    (status = 200, content_type = "application/vnd.apache.parquet", body = Vec<u8>),
    (status = "4XX", body = ErrorBody)))]
pub async fn parquet(
    State(service): Shared,
    Client(app, _): Client<{ Scopes::READ }>,
) -> Result<Response, ApiError> {
    service.export(app, Format::Parquet, "application/vnd.apache.parquet").await
}

impl Service {
    /// The permission to read the journal, which takes a thread as long as the reader does.
    pub(super) fn permit_to_read(&self) -> Result<OwnedSemaphorePermit, ApiError> {
        self.exports.clone().try_acquire_owned().map_err(|_| {
            let sentence = "as many logs are being read as may be at once; try again later";
            ApiError::later(503, "logs_busy", sentence, 10)
        })
    }

    async fn export(
        &self,
        name: String,
        format: Format,
        kind: &'static str,
    ) -> Result<Response, ApiError> {
        let Answer::App(view) = self.engine.ask(Request::ShowApp { app: name.clone() }).await?
        else {
            return Err(unexpected());
        };
        let (settings, learning) = (view.settings, view.learning);
        let app = rows::App { name: name.clone(), settings, learning };
        let permit = self.permit_to_read()?;
        let (chunks, received) = mpsc::channel(CHUNKS_WAITING);
        let journals = self.journals.clone();
        tokio::task::spawn_blocking(move || {
            let _permit = permit;
            let mut to = Chunks { chunks, chunk: Vec::with_capacity(CHUNK_BYTES) };
            let done = export(&Self::readers(&journals), app, format, &mut to)
                .and_then(|left_out| Ok(to.flush().map(|()| left_out)?));
            let why = match done {
                Ok(0) => return,
                Ok(left_out) => {
                    metrics::counter!("cohort_log_events_removed_total").increment(left_out);
                    format!("{left_out} events were removed by retention before they were read")
                }
                Err(why) => why.to_string(),
            };
            // All clients notice a transfer that is not ended as one that is complete.
            tracing::warn!(why, app = name, "the log was not exported in full");
            to.fail(&why);
        });
        let ending = if format == Format::Csv { "csv" } else { "parquet" };
        let disposition = format!("attachment; filename=\"{}.{ending}\"", view.name);
        let headers =
            [(header::CONTENT_TYPE, kind.to_owned()), (header::CONTENT_DISPOSITION, disposition)];
        let body =
            stream::unfold(received, async |mut received| Some((received.recv().await?, received)));
        Ok((headers, Body::from_stream(body)).into_response())
    }
}

/// Bytes on their way to somebody who reads.
struct Chunks {
    chunks: mpsc::Sender<Result<Bytes, io::Error>>,
    chunk: Vec<u8>,
}

impl Chunks {
    fn send(&self, chunk: Result<Bytes, io::Error>) -> io::Result<()> {
        let gone = |_| io::Error::new(io::ErrorKind::BrokenPipe, "nobody reads any more");
        self.chunks.blocking_send(chunk).map_err(gone)
    }

    fn fail(&self, why: &str) {
        let _ = self.send(Err(io::Error::other(why.to_owned())));
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
