//! What a partition tells whoever fits for all partitions of a cluster. Not a part of the interface: only nodes ask.

use std::sync::OnceLock;

use axum::body::Bytes;
use axum::extract::State;

use super::Shared;
use super::error::ApiError;
use super::path::Path;
use crate::engine::recent::Recent;
use crate::priority;
use crate::state::App;

/// The thread on which answers are worked out, for all partitions of this process. Others go first, but not everybody: one that
/// never came to it would keep the whole cluster from what users have in common.
fn thread() -> Option<&'static rayon::ThreadPool> {
    static THREAD: OnceLock<Option<rayon::ThreadPool>> = OnceLock::new();
    let start = || {
        let named = rayon::ThreadPoolBuilder::new().num_threads(1);
        let named = named.thread_name(|_| "statistics".to_owned());
        let steps_back = |_| priority::lower_priority(priority::LARGE_BODIES);
        named.start_handler(steps_back).build().ok()
    };
    THREAD.get_or_init(start).as_ref()
}

/// Answers a question about the users that are here.
pub(super) async fn answer(
    State(service): Shared,
    Path(app): Path<String>,
    question: Bytes,
) -> Result<Vec<u8>, ApiError> {
    let ask = move |app: &mut App, _: &Recent| match app.shared_fits() {
        Some(fits) => fits.answer(&question).map_err(|why| why.to_string()),
        None => Err("this app's model is fitted by each partition".to_owned()),
    };
    let job = crate::insight::inspect(&service.engine, &app, ask).await?;
    let job = job.map_err(|why| ApiError::new(422, "bad_question", why))?;
    let work = tokio::task::spawn_blocking(|| match thread() {
        Some(thread) => thread.install(job),
        None => job(),
    });
    let told = work.await.unwrap_or_default();
    match told.is_empty() {
        true => Err(ApiError::new(500, "bug", "what is known of users cannot be told")),
        false => Ok(told),
    }
}
