//! What can be asked of the engine, and what it answers.

use cohort::Judgement;

use super::Refusal;
use super::recent::Recent;
use crate::event::{Decided, Key, Ranking};
use crate::settings::AppSettings;
use crate::state::{App, Counts, Status};
use crate::trial::Trial;

/// A change of an app's settings and of its control group; all of it is done, or nothing.
pub type Change = Box<dyn FnOnce(&mut AppSettings, &mut Trial) + Send>;

/// A look at an app and its newest decisions. It is had on the engine's thread: what takes long is
/// done with what it brings back.
pub type Look = Box<dyn FnOnce(&mut App, &Recent) + Send>;

/// Everything that can be asked.
pub enum Request {
    /// Look at an app; nothing changes.
    Look {
        /// The app.
        app: String,
        /// What is done with it.
        look: Look,
    },
    /// Make an app, with a first key if it shall have one.
    CreateApp {
        /// Its name.
        app: String,
        /// Its settings.
        settings: AppSettings,
        /// Its control group. (In a box: all other requests are smaller.)
        trial: Box<Trial>,
        /// Its first key.
        key: Option<Key>,
    },
    /// Change some of its settings.
    ChangeApp {
        /// The app.
        app: String,
        /// What to change.
        change: Change,
    },
    /// Delete it with all it learned.
    DeleteApp {
        /// The app.
        app: String,
    },
    /// What is there to know of it.
    ShowApp {
        /// The app.
        app: String,
    },
    /// The same of all apps.
    ListApps,
    /// Add a key.
    AddKey {
        /// The app.
        app: String,
        /// The key.
        key: Key,
    },
    /// Remove a key.
    RemoveKey {
        /// The app.
        app: String,
        /// The key's id.
        key: String,
    },
    /// Register items with their features.
    PutItems {
        /// The app.
        app: String,
        /// Ids and features.
        items: Vec<(String, Vec<f64>)>,
    },
    /// Forget an item.
    RemoveItem {
        /// The app.
        app: String,
        /// The item's id.
        item: String,
    },
    /// The ids of all registered items.
    ListItems {
        /// The app.
        app: String,
    },
    /// Decide for one user or more among the same candidates.
    Decide {
        /// The app.
        app: String,
        /// The candidates.
        offer: Offer,
        /// The users.
        users: Vec<ForUser>,
        /// Whether the judgements are wanted too.
        explain: bool,
    },
    /// A decision was shown.
    Activate {
        /// The app.
        app: String,
        /// The decision's id.
        decision: String,
    },
    /// Rewards for decisions, each with an outcome of its own.
    Reward {
        /// The app.
        app: String,
        /// Decision ids and rewards.
        rewards: Vec<(String, f64)>,
    },
    /// What became of a decision.
    ShowDecision {
        /// The app.
        app: String,
        /// The decision's id.
        decision: String,
    },
    /// A [`super::Refit`] is done.
    Refitted {
        /// The app.
        app: String,
        /// The refit's number.
        ticket: u64,
        /// What was found.
        found: Vec<u8>,
    },
    /// A [`super::Refit`] failed.
    RefitFailed {
        /// The app.
        app: String,
        /// The refit's number.
        ticket: u64,
    },
    /// Nothing but time.
    TimePasses,
}

impl Request {
    /// Whether it changes what the [directory](crate::directory) lists.
    pub fn administers(&self) -> bool {
        matches!(
            self,
            Self::CreateApp { .. }
                | Self::ChangeApp { .. }
                | Self::DeleteApp { .. }
                | Self::AddKey { .. }
                | Self::RemoveKey { .. }
        )
    }
}

/// Candidates: ids and, row by row, features.
#[derive(Clone, Debug, Default)]
pub struct Offer {
    /// The items' ids.
    pub ids: Vec<String>,
    /// Their features where they were sent; `None` means the catalogue has them.
    pub features: Vec<Option<Vec<f64>>>,
}

/// One user to decide for.
#[derive(Clone, Debug)]
pub struct ForUser {
    /// The user's id.
    pub user: String,
    /// The id that the decision shall have; one is made up if it has none.
    pub decision: Option<String>,
    /// Whether the user sees it at once.
    pub shown: bool,
}

/// Everything that can be answered.
pub enum Answer {
    /// It is done.
    Done,
    /// One app.
    App(Box<AppView>),
    /// All apps.
    Apps(Vec<AppView>),
    /// Items' ids.
    Items(Vec<String>),
    /// Decisions in the order of the users, or why there is none for one of them.
    Decided(Vec<Result<Made, Refusal>>),
    /// Outcomes in the order of the rewards.
    Rewarded(Vec<Result<RewardOutcome, Refusal>>),
    /// One decision.
    Decision(DecisionView),
}

/// A decision as it is answered.
pub struct Made {
    /// The decision's id.
    pub id: String,
    /// The items' ids, the chosen one first.
    pub ranking: Ranking,
    /// With what probability the first was chosen.
    pub probability: f64,
    /// What the policy thought of each, in the order of the ranking; on request, and not for a
    /// decision that was made before.
    pub judgements: Option<Vec<Judgement>>,
}

/// What a reward did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RewardOutcome {
    /// It was learned.
    Learned,
    /// The decision had its reward already, which stays.
    Repeated {
        /// That reward.
        first: f64,
    },
}

/// What there is to know of an app.
#[derive(Clone, Debug)]
pub struct AppView {
    /// Its name.
    pub name: String,
    /// Its settings.
    pub settings: AppSettings,
    /// Its control group.
    pub trial: Trial,
    /// When it was created.
    pub created_ms: u64,
    /// The ids of its keys.
    pub keys: Vec<String>,
    /// How many users it has met.
    pub users: usize,
    /// How many items are registered.
    pub items: usize,
    /// How many decisions wait.
    pub waiting: usize,
    /// How often what happened.
    pub counts: Counts,
}

/// What there is to know of a decision.
#[derive(Clone, Debug)]
pub struct DecisionView {
    /// As it was made; without context once it is closed.
    pub made: Decided,
    /// When it was made.
    pub at_ms: u64,
    /// Whether it is of the control group.
    pub control: bool,
    /// What became of it.
    pub status: Status,
}
