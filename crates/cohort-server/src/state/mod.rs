//! What is known: the fold of all events, and nothing else.
//!
//! | file | question it answers |
//! | --- | --- |
//! | [`State`] | which apps are there, and what does an event change? |
//! | [`App`] | what does one app know? |
//! | `apply` | what does an event change in it? |
//! | [`Outcomes`] | what came of the policy's decisions, and of the control group's? |
//! | [`Names`] | which number does a user have? |
//! | [`Seen`] | who has not been seen for longest? |
//! | [`catalogue`] | which items of a catalogue are meant, and which are best? |
//! | [`Decisions`] | which decisions wait for a reward, and until when? |
//! | `sharded`, `sorted` | how can a snapshot hold a table while that changes? |
//! | `split` | how do users go to partitions of a cluster, and come together again? |
//! | `import` | what of a policy that was trained outside? |
//! | `model` | how does what was learned go to another app, or away? |
//! | `saved` | how does all this become a snapshot and come back? |
//!
//! `state ← apply(state, event)` reads no clock, draws no number at random and touches no disk, so
//! the same events give the same state, bit by bit, on a server, after a restart and in a
//! simulation. Apps do not know each other, so each can be folded apart.

mod app;
mod apply;
pub mod catalogue;
mod decisions;
mod import;
mod model;
mod names;
mod outcomes;
mod saved;
mod seen;
mod sharded;
mod sorted;
mod split;

use std::collections::{BTreeMap, BTreeSet};

pub use app::{App, Counts, Described, Items};
pub use catalogue::{Catalogue, Filter};
pub use decisions::{Decision, Decisions, Status};
pub use import::ImportError;
pub use model::Model;
pub use names::Names;
pub use outcomes::{Bucket, Moments, Outcomes};
pub use saved::FrozenState;
pub use seen::Seen;

use crate::event::{Event, What};
use crate::settings::BadSettings;

/// All that the service knows.
#[derive(Default)]
pub struct State {
    apps: BTreeMap<String, App>,
    /// Names of apps that were deleted and not created again.
    deleted: BTreeSet<String>,
    /// Apps that were deleted and are still in memory.
    gone: Vec<App>,
    /// The number of the last event in it.
    last_event: u64,
}

/// An event that cannot have happened to this state. The service checks before it writes, so this
/// is a journal from somewhere else, or a bug.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// There is no such app.
    #[error("there is no app `{0}`")]
    NoApp(String),
    /// There is already one.
    #[error("there is already an app `{0}`")]
    AppExists(String),
    /// Settings that this program does not accept.
    #[error("the settings of app `{app}` cannot be used: {why}")]
    Settings {
        /// The app.
        app: String,
        /// What is wrong with them.
        why: BadSettings,
    },
    /// Something in the event contradicts the state.
    #[error("app `{app}`: {what}")]
    Contradiction {
        /// The app.
        app: String,
        /// What is wrong.
        what: String,
    },
}

impl State {
    /// Changes the state by one event, the next in number. An event that does not fit changes
    /// nothing.
    pub fn apply(&mut self, event: Event) -> Result<(), ApplyError> {
        let Event { app: name, at_ms, what } = event;
        match what {
            What::Created(settings) => {
                if self.apps.contains_key(&name) {
                    return Err(ApplyError::AppExists(name));
                }
                let mut app = App::new(settings, at_ms)
                    .map_err(|why| ApplyError::Settings { app: name.clone(), why })?;
                app.born = self.last_event + 1;
                self.deleted.remove(&name);
                self.apps.insert(name, app);
            }
            What::Deleted => {
                let app = self.apps.remove(&name);
                self.gone.push(app.ok_or_else(|| ApplyError::NoApp(name.clone()))?);
                self.deleted.insert(name);
            }
            What::Rested => {}
            what => match self.apps.get_mut(&name) {
                Some(app) => app.apply(&name, at_ms, what)?,
                None => return Err(ApplyError::NoApp(name)),
            },
        }
        self.last_event += 1;
        Ok(())
    }

    /// One event happened to an app that is not looked at.
    pub(crate) fn pass_over(&mut self) {
        self.last_event += 1;
    }

    /// Apps that were deleted since this was last asked: to free the memory of one takes long, and is done
    /// where nobody waits.
    pub fn take_gone(&mut self) -> Vec<App> {
        std::mem::take(&mut self.gone)
    }

    /// The number of the last event in it.
    pub fn last_event(&self) -> u64 {
        self.last_event
    }

    /// All apps by name.
    pub fn apps(&self) -> &BTreeMap<String, App> {
        &self.apps
    }

    /// One app.
    pub fn app(&self, name: &str) -> Option<&App> {
        self.apps.get(name)
    }

    /// One app, for questions to its policy, which may keep caches.
    pub fn app_mut(&mut self, name: &str) -> Option<&mut App> {
        self.apps.get_mut(name)
    }

    /// Whether there was an app of that name and is none now.
    pub fn was_deleted(&self, name: &str) -> bool {
        self.deleted.contains(name)
    }
}
