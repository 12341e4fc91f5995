//! How does what was learned get out and in; what is in the log?

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use serde_json::{Value, json};
use xxhash_rust::xxh3::xxh3_64;

use super::error::DialectError;
use super::time::date;
use super::{Loop, Sent, bug};
use crate::auth::Scopes;
use crate::clock::{Clock, SystemClock};
use crate::engine::{Answer, Request};
use crate::event::time_of;
use crate::http::Service;
use crate::journal::{EventReader, JournalError};
use crate::state::{App, Model};

/// How a model begins; its checksum and the model follow.
const BEGINNING: &[u8; 16] = b"cohort model 1\n\0";

/// What was learned, as bytes that [`import`] takes, here or in another service.
pub async fn export(
    State(service): State<Arc<Service>>,
    asked: Loop<{ Scopes::READ }>,
) -> Result<impl IntoResponse, DialectError> {
    let (send, receive) = tokio::sync::oneshot::channel();
    let name = asked.app.clone();
    let look = move |app: &mut App, _: &crate::engine::recent::Recent| {
        // Whoever asked may have gone.
        let _ = send.send(app.freeze_model(&name));
    };
    let request = Request::Inspect { app: asked.app, inspect: Box::new(look) };
    let told = |why| DialectError::from_refusal(why, "ResourceNotFound");
    service.engine.ask(request).await.map_err(told)?;
    let frozen = receive.await.map_err(|_| bug())?.map_err(|_| {
        DialectError::bad("OperationNotAllowed", "what this app's policy learns cannot be kept")
    })?;
    let written = tokio::task::spawn_blocking(move || {
        let mut bytes = Vec::new();
        frozen.write(&mut bytes).map(|()| bytes)
    });
    let bytes = written.await.map_err(|_| bug())?.map_err(|_| bug())?;
    let mut model = BEGINNING.to_vec();
    model.extend_from_slice(&xxh3_64(&bytes).to_le_bytes());
    model.extend_from_slice(&bytes);
    Ok(([(header::CONTENT_TYPE, "application/octet-stream")], model))
}

/// Takes over what [`export`] gave: all that was learned here is given up for it.
pub async fn import(
    State(service): State<Arc<Service>>,
    asked: Loop<{ Scopes::ADMIN }>,
    sent: Sent,
) -> Result<StatusCode, DialectError> {
    const CODE: &str = "InvalidModelImportFormat";
    let (_, bytes) = sent.bytes(CODE)?;
    let checked = bytes.strip_prefix(BEGINNING).and_then(|rest| rest.split_first_chunk::<8>());
    let Some((checksum, model)) = checked else {
        let sentence = "this is no model that a cohort service exported; models of Azure Personalizer \
                        cannot be read: replay its logs (docs/from-personalizer.md)";
        return Err(DialectError::bad(CODE, sentence));
    };
    if u64::from_le_bytes(*checksum) != xxh3_64(model) {
        let sentence = "this model is damaged: its checksum is another";
        return Err(DialectError::bad("InvalidModelImportSignature", sentence));
    }
    service.replace_model(&asked, Some(model.to_vec()), CODE).await
}

/// Gives up all that was learned.
pub async fn reset(
    State(service): State<Arc<Service>>,
    asked: Loop<{ Scopes::ADMIN }>,
) -> Result<StatusCode, DialectError> {
    service.replace_model(&asked, None, "ModelResetFailed").await
}

/// Since when there is a model, and when it last learned.
pub async fn properties(
    State(service): State<Arc<Service>>,
    asked: Loop<{ Scopes::READ }>,
) -> Result<Json<Value>, DialectError> {
    let view = service.view(&asked.app).await?;
    let (created, modified) = (date(view.created_ms), date(view.learned_ms));
    Ok(Json(json!({"creationTime": created, "lastModifiedTime": modified})))
}

/// From when until when there is a log.
pub async fn log_properties(
    State(service): State<Arc<Service>>,
    asked: Loop<{ Scopes::READ }>,
) -> Result<Json<Value>, DialectError> {
    let created_ms = service.view(&asked.app).await?.created_ms;
    let kept_ms = service.log_begins().await?;
    let from_ms = kept_ms.map_or(created_ms, |kept_ms| kept_ms.max(created_ms));
    let range = json!({"from": date(from_ms), "to": date(SystemClock.now_ms())});
    Ok(Json(json!({"dateRange": range})))
}

/// When the first event of a journal happened.
fn first_time(journal: &dyn EventReader) -> Result<Option<u64>, JournalError> {
    let mut first = None;
    let read = journal.read(&mut |number, bytes| {
        let at_ms = time_of(bytes)
            .map_err(|why| JournalError::Damaged { event: number, what: why.to_string() })?;
        first = Some(at_ms);
        // No more is read.
        Err(JournalError::Failed("enough was read".to_owned()))
    });
    match (first, read) {
        (None, Err(why)) => Err(why),
        (first, _) => Ok(first),
    }
}

/// The log is what the service lives by: it goes with the app, or by the rules of its configuration.
pub async fn delete_logs(_: Loop<{ Scopes::ADMIN }>) -> DialectError {
    let sentence = "the log cannot be deleted by itself: delete the app, or let the service's \
                    configuration (journal_keep) shorten it";
    DialectError::bad("OperationNotAllowed", sentence)
}

/// Batches of the client library for .NET, in a format of its own.
pub async fn binary_logs(_: Loop<{ Scopes::DECIDE }>) -> DialectError {
    let sentence = "binary logs of local inference are not read here: call rank and reward";
    DialectError::bad("InvalidApiAccess", sentence)
}

impl Service {
    /// When the first event happened that is still in the log of all apps.
    async fn log_begins(&self) -> Result<Option<u64>, DialectError> {
        let journals = self.journals.clone();
        let read = tokio::task::spawn_blocking(move || {
            let begins = Self::readers(&journals).into_iter().map(first_time);
            begins.collect::<Result<Vec<_>, _>>()
        });
        let begins = read.await.map_err(|_| bug())?.map_err(|why| {
            DialectError::new(500, "InternalServerError", format!("the log is not read: {why}"))
        })?;
        Ok(begins.into_iter().flatten().min())
    }

    async fn replace_model(
        &self,
        asked: &Loop<{ Scopes::ADMIN }>,
        model: Option<Vec<u8>>,
        code: &'static str,
    ) -> Result<StatusCode, DialectError> {
        let what = if model.is_some() { "model imported" } else { "model reset" };
        // A large one is read beside the engine.
        let read = tokio::task::spawn_blocking(|| model.map(Model::read));
        let model = read.await.map_err(|_| bug())?;
        let request = Request::ReplaceModel { app: asked.app.clone(), model };
        match self.engine.ask(request).await {
            Ok(Answer::Done) => {
                asked.who.did(what, &asked.app, "by a client of Personalizer");
                Ok(StatusCode::NO_CONTENT)
            }
            Ok(_) => Err(bug()),
            Err(why) => Err(DialectError::from_refusal(why, code)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Event, What};
    use crate::journal::Visit;

    /// A journal whose beginning was removed: what is left, with its times.
    struct Left(Vec<u64>);

    impl EventReader for Left {
        fn read(&self, visit: &mut Visit) -> Result<u64, JournalError> {
            for (number, at_ms) in self.0.iter().enumerate() {
                assert_eq!(number, 0, "no more is read than is needed");
                let mut bytes = Vec::new();
                Event { app: "a".to_owned(), at_ms: *at_ms, what: What::TimePassed }
                    .encode(&mut bytes);
                visit(1000 + number as u64, &bytes)?;
            }
            Ok(0)
        }
    }

    #[test]
    fn a_log_begins_with_what_is_left_of_it() {
        assert_eq!(first_time(&Left(vec![500, 700])).unwrap(), Some(500));
        assert_eq!(first_time(&Left(Vec::new())).unwrap(), None);
    }
}
