//! What does it know, why did it decide so, and does it help? For people: in the API and on the page.
//!
//! | file | question it answers |
//! | --- | --- |
//! | [`view`] | what is told? |
//! | [`average`] | how high are rewards, and how sure is that, however often one looks? |
//! | [`labels`] | which cohort is which, from one refit to the next? |
//! | [`projection`] | where are users in the plane? |
//! | [`maker`] | how is all that made for an app, from one short look at it? |
//! | [`hub`] | how do many pages share one answer? |
//!
//! The engine's thread is asked for a copy of some numbers and no more; everything else is done by
//! whoever asks.

pub mod average;
pub mod hub;
pub mod labels;
pub mod maker;
pub mod projection;
pub mod view;

use crate::engine::recent::Recent;
use crate::engine::refusal::Refusal;
use crate::engine::request::Request;
use crate::engine::runtime::Handle;
use crate::state::App;

/// Looks at an app on the engine's thread, briefly, and brings something back.
pub async fn inspect<T: Send + 'static>(
    engine: &Handle,
    app: &str,
    inspect: impl FnOnce(&mut App, &Recent) -> T + Send + 'static,
) -> Result<T, Refusal> {
    let (found, brought) = tokio::sync::oneshot::channel();
    let inspect = Box::new(move |app: &mut App, recent: &Recent| {
        // Whoever asked may have gone away.
        let _ = found.send(inspect(app, recent));
    });
    engine.ask(Request::Inspect { app: app.to_owned(), inspect }).await?;
    brought.await.map_err(|_| Refusal::Bug { why: "a look brought nothing back".to_owned() })
}
