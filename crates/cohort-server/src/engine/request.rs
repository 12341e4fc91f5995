//! What can be asked of the engine, and what it answers.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use cohort::{AskAll, Score};
use cohort_features::{Contribution, Features};

use super::Refusal;
pub use super::excluded::Excluded;
use super::history::PastDecision;
use super::items::{ListedItem, Registering};
pub use super::offer::{Offer, Pick, Slot};
use super::recent::Recent;
use super::slate::Filling;
use crate::event::{Decided, Event, Key, Ranking};
use crate::learning::{Apprenticeship, Learning};
use crate::settings::AppSettings;
use crate::state::{App, Counts, Described, Items, Model, Status};
use crate::trial::Trial;

/// A change of an app's settings and of its control group; all of it is done, or nothing.
pub type Change = Box<dyn FnOnce(&mut AppSettings, &mut Trial, &mut Learning) + Send>;

/// A look at an app and its newest decisions. It is had on the engine's thread: what takes long is
/// done with what it brings back.
pub type Inspection = Box<dyn FnOnce(&mut App, &Recent) + Send>;

/// Everything that can be asked.
pub enum Request {
    /// Look at an app; nothing changes.
    Inspect {
        /// The app.
        app: String,
        /// What is done with it.
        inspect: Inspection,
    },
    /// Make an app, with a first key if it shall have one.
    CreateApp {
        /// Its name.
        app: String,
        /// Its settings.
        settings: AppSettings,
        /// Its control group. (In a box: all other requests are smaller.)
        trial: Box<Trial>,
        /// How it learns.
        learning: Box<Learning>,
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
    /// Register items by JSON.
    DescribeItems {
        /// The app.
        app: String,
        /// Ids and features.
        items: Vec<(String, Features)>,
    },
    /// Register items, vectors or JSON, with attributes.
    RegisterItems {
        /// The app.
        app: String,
        /// The items.
        items: Vec<ListedItem>,
    },
    /// A part of a [`Request::RegisterItems`] with very many items: first all of them are checked, then registered.
    RegisterPart {
        /// The app.
        app: String,
        /// All items.
        put: Arc<Registering>,
        /// Those of this part.
        part: Range<usize>,
        /// Whether they are registered; checked if not.
        registers: bool,
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
        /// Whether the scores are wanted too.
        explain: bool,
    },
    /// A part of a [`Request::Decide`] for very many users: the candidates are shared with the other parts.
    DecidePart {
        /// The app.
        app: String,
        /// The candidates.
        offer: Arc<Offer>,
        /// The users of this part.
        users: Vec<ForUser>,
        /// Whether the scores are wanted too.
        explain: bool,
    },
    /// Decide for one user what to show in several places, nothing twice.
    Slate {
        /// The app.
        app: String,
        /// The user; the decision's id is that of the slate.
        user: ForUser,
        /// The places, the most important first.
        slots: Vec<Slot>,
        /// Whether the scores are wanted too.
        explain: bool,
    },
    /// A part of a [`Request::Slate`] that takes long: one place. All of them are written down with the last.
    SlatePart {
        /// The app.
        app: String,
        /// All places.
        filling: Arc<Filling>,
        /// The place of this part.
        at: usize,
    },
    /// Learn from decisions that were made elsewhere.
    History {
        /// The app.
        app: String,
        /// The decisions, in their order.
        decisions: Vec<PastDecision>,
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
    /// Give up all that was learned, or take over what another app has learned.
    ReplaceModel {
        /// The app.
        app: String,
        /// What that was.
        model: Option<Model>,
    },
    /// Forget all that is known of a user.
    ForgetUser {
        /// The app.
        app: String,
        /// The user's id.
        user: String,
    },
    /// What became of a decision.
    ShowDecision {
        /// The app.
        app: String,
        /// The decision's id.
        decision: String,
    },
    /// Look whether what users of all partitions of a cluster have in common is to be fitted, and do so.
    FitTogether {
        /// The app.
        app: String,
        /// Asks all partitions.
        ask: AskAll,
        /// When users are looked at for changes.
        next_look: Arc<Mutex<f64>>,
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
    /// Take over what a cluster's control stream says, up to an event of it.
    Follow {
        /// The number of the last of these events in the control stream.
        number: u64,
        /// What happened there, to any app.
        events: Vec<Event>,
    },
    /// A checksum of the state, all of it: two states with the same are the same, bit by bit.
    Digest,
    /// Close some of an app's windows that have ended.
    CloseWindows {
        /// The app.
        app: String,
    },
    /// Nothing but time.
    TimePasses,
    /// Nothing happened for long, and there is something to forget on disk.
    Rests,
    /// The calendar was set, and the time that comes with this is the new one.
    ClockSteps {
        /// By so many milliseconds.
        by_ms: i64,
    },
    /// Memory is scarce: those who were not seen for longest are retired, some at a time.
    MemoryLow {
        /// So many at most.
        most: usize,
    },
}

impl Request {
    /// The app whose policy it may ask or change; deleting, creating and listing ask none.
    pub fn works_on(&self) -> Option<&str> {
        match self {
            Self::Inspect { app, .. }
            | Self::ChangeApp { app, .. }
            | Self::AddKey { app, .. }
            | Self::RemoveKey { app, .. }
            | Self::PutItems { app, .. }
            | Self::DescribeItems { app, .. }
            | Self::RegisterItems { app, .. }
            | Self::RegisterPart { app, .. }
            | Self::RemoveItem { app, .. }
            | Self::Slate { app, .. }
            | Self::SlatePart { app, .. }
            | Self::History { app, .. }
            | Self::Decide { app, .. }
            | Self::DecidePart { app, .. }
            | Self::Activate { app, .. }
            | Self::Reward { app, .. }
            | Self::ReplaceModel { app, .. }
            | Self::ForgetUser { app, .. }
            | Self::CloseWindows { app }
            | Self::FitTogether { app, .. }
            | Self::Refitted { app, .. }
            | Self::RefitFailed { app, .. } => Some(app),
            Self::CreateApp { .. }
            | Self::DeleteApp { .. }
            | Self::ShowApp { .. }
            | Self::ListApps
            | Self::ListItems { .. }
            | Self::ShowDecision { .. }
            | Self::Follow { .. }
            | Self::Digest
            | Self::TimePasses
            | Self::Rests
            | Self::MemoryLow { .. }
            | Self::ClockSteps { .. } => None,
        }
    }

    /// The app that it is for, if it is for one.
    pub fn app(&self) -> Option<&str> {
        match self {
            Self::CreateApp { app, .. }
            | Self::DeleteApp { app }
            | Self::ShowApp { app }
            | Self::ListItems { app }
            | Self::ShowDecision { app, .. } => Some(app),
            request => request.works_on(),
        }
    }

    /// Whether it makes the service keep more than before: refused first where room becomes scarce.
    pub fn adds(&self) -> bool {
        matches!(
            self,
            Self::Decide { .. }
                | Self::DecidePart { .. }
                | Self::CreateApp { .. }
                | Self::PutItems { .. }
                | Self::DescribeItems { .. }
                | Self::RegisterItems { .. }
                | Self::RegisterPart { registers: false, .. }
                | Self::Slate { .. }
                | Self::SlatePart { .. }
                | Self::History { .. }
        )
    }

    /// Whether it ends what was begun, and is done even where requests wait that came before, or nobody waits for it.
    pub fn goes_on(&self) -> bool {
        matches!(self, Self::RegisterPart { registers: true, .. })
    }

    /// The app whose catalogue it chooses from, if it does.
    pub fn picks_in(&self) -> Option<&str> {
        let picks = |offer: &Offer| offer.pick.is_some();
        match self {
            Self::Decide { app, offer, .. } => picks(offer).then_some(app),
            Self::DecidePart { app, offer, .. } => picks(offer).then_some(app),
            Self::Slate { app, slots, .. } => {
                slots.iter().any(|slot| picks(&slot.offer)).then_some(app)
            }
            Self::SlatePart { app, filling, .. } => {
                filling.slots.iter().any(|slot| picks(&slot.offer)).then_some(app)
            }
            _ => None,
        }
        .map(String::as_str)
    }

    /// Whether it is written down, though it adds little.
    pub fn writes(&self) -> bool {
        matches!(
            self,
            Self::Reward { .. }
                | Self::Activate { .. }
                | Self::ChangeApp { .. }
                | Self::CloseWindows { .. }
                | Self::ReplaceModel { .. }
        )
    }

    /// Whether it changes what the [directory](crate::directory) lists.
    pub fn administers(&self) -> bool {
        matches!(
            self,
            Self::CreateApp { .. }
                | Self::ChangeApp { .. }
                | Self::DeleteApp { .. }
                | Self::AddKey { .. }
                | Self::RemoveKey { .. }
                | Self::Follow { .. }
        )
    }
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
    /// Some of it is done, and there is more.
    Behind,
    /// One app.
    App(Box<AppView>),
    /// All apps.
    Apps(Vec<AppView>),
    /// The catalogue: items that were registered as vectors, and by JSON. Whoever asked makes a list of them.
    Items(Items, Described),
    /// Decisions in the order of the users, or why there is none for one of them.
    Decided(Vec<Result<Made, Refusal>>),
    /// Outcomes in the order of the rewards.
    Rewarded(Vec<Result<RewardOutcome, Refusal>>),
    /// One decision.
    Decision(DecisionView),
    /// The last event, and the checksum of the state after it.
    Digest(u64, u64),
}

/// A decision as it is answered.
pub struct Made {
    /// The decision's id.
    pub id: String,
    /// The items' ids, the chosen one first.
    pub ranking: Ranking,
    /// With what probability the first was chosen.
    pub probability: f64,
    /// With what probability each was to be chosen, in the order of the ranking; on request, and not for a decision made before.
    pub probabilities: Option<Vec<f64>>,
    /// What the policy thought of each, in the order of the ranking; on request, and not for a
    /// decision that was made before.
    pub scores: Option<Vec<Score>>,
    /// Which features made the expected reward of each what it is, the largest parts first; where scores
    /// are wanted, of an app that takes JSON.
    pub parts: Option<Vec<Vec<Contribution>>>,
}

/// What a reward did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RewardOutcome {
    /// It was learned.
    Learned,
    /// It is in the log, and the app learns nothing (`logging_only`).
    Logged,
    /// It is kept, and learned with the others when the window ends.
    Gathered,
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
    /// How it learns.
    pub learning: Learning,
    /// What came of decisions that the policy only watched.
    pub apprenticeship: Apprenticeship,
    /// When it was created.
    pub created_ms: u64,
    /// When what it has learned last changed.
    pub learned_ms: u64,
    /// Its keys.
    pub keys: Vec<Key>,
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
