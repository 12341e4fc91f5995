//! The decision log as a file, while the service runs.

use std::io::{self, Write};

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures_util::{StreamExt, stream};
use tokio::sync::mpsc;

use super::access::Client;
use super::apps::unexpected;
use super::error::{ApiError, ErrorBody};
use super::{Service, Shared};
use crate::auth::Scopes;
use crate::engine::{Answer, Request};
use crate::export::{Format, export, rows};
use crate::journal::JournalError;

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
        let app = rows::App { name: name.clone(), settings, learning, scratch: self.scratch() };
        let permit = self.permit_to_read(&name)?;
        let (mut to, received) = self.chunks();
        let journals = self.journals.clone();
        tokio::task::spawn_blocking(move || {
            let _permit = permit;
            let wanted = to.wanted();
            let done = export(&Self::readers(&journals), &app, format, &mut to, &wanted)
                .and_then(|left_out| Ok(to.flush().map(|()| left_out)?));
            if let Err(why) = whole(done) {
                tracing::warn!(%why, app = name, "the log was not exported in full");
                to.fail(why);
            }
        });
        let ending = if format == Format::Csv { "csv" } else { "parquet" };
        let disposition = format!("attachment; filename=\"{}.{ending}\"", view.name);
        let headers =
            [(header::CONTENT_TYPE, kind.to_owned()), (header::CONTENT_DISPOSITION, disposition)];
        Ok((headers, body_of(Bytes::new(), received)).into_response())
    }
}

/// What begins with these bytes and goes on as it is read.
pub(super) fn body_of(first: Bytes, received: mpsc::Receiver<io::Result<Bytes>>) -> Body {
    let first = stream::iter((!first.is_empty()).then_some(Ok(first)));
    let next =
        stream::unfold(received, async |mut received| Some((received.recv().await?, received)));
    Body::from_stream(first.chain(next))
}

/// Whether all events were there to be read.
pub(super) fn whole(done: Result<u64, JournalError>) -> io::Result<()> {
    match done {
        Ok(0) => Ok(()),
        Ok(left_out) => {
            metrics::counter!("cohort_log_events_removed_total").increment(left_out);
            let why = format!("{left_out} events were removed by retention before they were read");
            Err(io::Error::new(io::ErrorKind::StaleNetworkFileHandle, why))
        }
        Err(why) => Err(io::Error::other(why.to_string())),
    }
}
