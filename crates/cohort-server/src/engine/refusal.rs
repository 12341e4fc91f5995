//! What is refused: a code for programs, a status for HTTP, a sentence for people that says what
//! to do.

use crate::settings::BadSettings;

/// Why a request was not done. Nothing has changed where one is returned.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// No app of that name.
    #[error("there is no app `{app}`; create it first")]
    AppUnknown {
        /// The name.
        app: String,
    },
    /// It was there once.
    #[error("the app `{app}` was deleted with all it had learned")]
    AppDeleted {
        /// The name.
        app: String,
    },
    /// The name is taken.
    #[error("there is already an app `{app}`; change it, or delete it first")]
    AppExists {
        /// The name.
        app: String,
    },
    /// No key of that id.
    #[error("the app has no key `{key}`")]
    KeyUnknown {
        /// The id.
        key: String,
    },
    /// Settings that cannot be used.
    #[error(transparent)]
    Settings(#[from] BadSettings),
    /// An item without features that is not in the catalogue.
    #[error("the item `{item}` is not in the catalogue; send its features or register it first")]
    ItemUnknown {
        /// Its id.
        item: String,
    },
    /// A filter that no item matches, or exclusions of all that do.
    #[error(
        "no item of the catalogue (it has {items}) matches the filter and is not excluded: there is nothing to \
         show"
    )]
    NothingMatches {
        /// How many items there are.
        items: usize,
    },
    /// A choice from the catalogue by an app that shows the caller's own choice.
    #[error(
        "this app shows what its caller would show, the first of the candidates (its mode is `apprentice` or \
         `logging_only`): list candidates, or change the mode to `online`"
    )]
    NothingToWatch,
    /// A slate that cannot be filled.
    #[error(
        "the slots from `{slot}` on cannot all be filled without showing an item twice: offer more items, or exclude \
         fewer"
    )]
    SlateImpossible {
        /// The first slot that cannot be filled.
        slot: String,
    },
    /// JSON for an app of vectors.
    #[error(
        "this app's features are vectors; JSON, a context and features of users are for apps that were \
         created with `\"features\": \"json\"`"
    )]
    NotJson,
    /// More interactions than are worked out.
    #[error(transparent)]
    TooManyPairs(#[from] cohort_features::TooManyPairs),
    /// Not as many features as the app has.
    #[error("the item `{item}` has {found} features; this app's items have {dim}")]
    WrongDim {
        /// Its id.
        item: String,
        /// How many it has.
        found: usize,
        /// How many it should have.
        dim: usize,
    },
    /// A feature that would spoil the model.
    #[error(
        "the item `{item}` has the feature {feature}; features are from -1e4 to 1e4: scale them"
    )]
    BadFeature {
        /// Its id.
        item: String,
        /// The feature.
        feature: f64,
    },
    /// A reward that would spoil the model.
    #[error("the reward is {reward}; rewards are from -1e6 to 1e6")]
    BadReward {
        /// The reward.
        reward: f64,
    },
    /// The id belongs to a decision for another user.
    #[error("the decision id `{decision}` was used for another user; use a new one")]
    DecisionReused {
        /// The id.
        decision: String,
    },
    /// No decision of that id, or none any more.
    #[error("there is no decision `{decision}`; it was never made or is forgotten")]
    DecisionUnknown {
        /// The id.
        decision: String,
    },
    /// It was never activated.
    #[error("the decision `{decision}` was not shown yet; activate it before its reward")]
    NotShown {
        /// The id.
        decision: String,
    },
    /// Its window has ended.
    #[error("the window of decision `{decision}` has ended; the reward was not learned")]
    Late {
        /// The id.
        decision: String,
    },
    /// More than a limit allows, until something is removed.
    #[error("no more than {limit} {what} are allowed here")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many there may be.
        limit: usize,
    },
    /// More decisions wait than may; they end with their windows.
    #[error("{limit} decisions wait for their reward; send rewards or shorten the window")]
    TooManyWaiting {
        /// How many there may be.
        limit: usize,
    },
    /// Decisions that are remembered take more memory than they may.
    #[error("decisions of this app take {limit} bytes, as much as they may; shorten the window")]
    TooMuchRemembered {
        /// How much they may take.
        limit: usize,
    },
    /// More work than one request may bring.
    #[error(
        "{users} users × {items} candidates × {dim}² is more work than one request may bring \
         ({limit}, max_work): ask for fewer users at once, or offer fewer candidates"
    )]
    TooMuchWork {
        /// How many users.
        users: usize,
        /// How many candidates.
        items: usize,
        /// How many features.
        dim: usize,
        /// How much there may be.
        limit: u64,
    },
    /// More exclusions, over all places of a slate, than one request may bring.
    #[error(
        "{places} places that leave out {found} ids together are more work than one request may bring: {limit} ids \
         may be (max_work); exclude fewer, or filter"
    )]
    TooMuchExcluded {
        /// How many places.
        places: usize,
        /// How many ids, those that all share for each of them.
        found: usize,
        /// How many there may be.
        limit: u64,
    },
    /// More bytes than one request may bring about.
    #[error(
        "some {found} bytes would be {what} for this one request, and {limit} may be: ask for fewer \
         users at once, offer fewer candidates, or do without explanations and log_candidates"
    )]
    TooLarge {
        /// The code.
        code: &'static str,
        /// What would be done with them.
        what: &'static str,
        /// How many.
        found: usize,
        /// How many there may be.
        limit: usize,
    },
    /// A model that is none, or another app's.
    #[error("{why}")]
    BadModel {
        /// What is wrong with it.
        why: String,
    },
    /// The policy keeps what it knows of users for ever.
    #[error(
        "the policy `{policy}` cannot forget a user; `cohort` can: delete the app, or change over to \
         an app with that policy"
    )]
    CannotForget {
        /// The policy.
        policy: String,
    },
    /// As many users as may be, of a policy that cannot forget any.
    #[error("the app has {limit} users (max_users), and its policy cannot forget any of them")]
    TooManyUsers {
        /// How many there may be.
        limit: usize,
    },
    /// There is little room left.
    #[error(
        "there is little {what} left, and {refused} is refused until there is more; whoever runs the \
         service is told by its metrics"
    )]
    Scarce {
        /// The code.
        code: &'static str,
        /// Of what.
        what: &'static str,
        /// What is refused.
        refused: &'static str,
    },
    /// More requests wait than may.
    #[error("the service is at its limit; try again in a moment")]
    Overloaded,
    /// The journal cannot be written: nothing can be promised any more.
    #[error("the journal failed ({why}); nothing is taken until the service is restarted")]
    JournalFailed {
        /// What it says.
        why: String,
    },
    /// It is going down.
    #[error("the service is shutting down; try again when it is back")]
    ShuttingDown,
    /// Some parts of a large request were done, or may have been, and the rest was not.
    #[error(
        "only a part of this request was done, and then it was refused: {why}. Ask again with the same decision ids; a \
         reward of an app that gathers rewards would count twice, so ask for its decisions first"
    )]
    PartlyDone {
        /// Why the rest was refused.
        why: String,
    },
    /// The app's policy stopped at a bug.
    #[error(
        "the app `{app}` is quarantined: its policy stopped at a bug ({why}). Other apps go on, and \
         nothing acknowledged is lost: a restart brings it back as it was before; tell whoever runs \
         this service"
    )]
    Quarantined {
        /// The app.
        app: String,
        /// What it said.
        why: String,
    },
    /// What was checked did not hold.
    #[error("this is a bug in the service: {why}")]
    Bug {
        /// What did not hold.
        why: String,
    },
}

impl Refusal {
    /// The code for programs. It never changes once released.
    pub fn code(&self) -> &'static str {
        match self {
            Self::AppUnknown { .. } => "app_unknown",
            Self::AppDeleted { .. } => "app_deleted",
            Self::AppExists { .. } => "app_exists",
            Self::KeyUnknown { .. } => "key_unknown",
            Self::Settings(_) => "bad_settings",
            Self::ItemUnknown { .. } => "item_unknown",
            Self::NothingMatches { .. } => "nothing_matches",
            Self::NothingToWatch => "nothing_to_watch",
            Self::SlateImpossible { .. } => "slate_impossible",
            Self::NotJson => "not_json_app",
            Self::TooManyPairs(_) => "too_many_interactions",
            Self::WrongDim { .. } => "wrong_dim",
            Self::BadFeature { .. } => "bad_feature",
            Self::BadReward { .. } => "bad_reward",
            Self::DecisionReused { .. } => "decision_reused",
            Self::DecisionUnknown { .. } => "decision_unknown",
            Self::NotShown { .. } => "not_shown",
            Self::Late { .. } => "late",
            Self::TooMany { .. } => "too_many",
            Self::TooManyWaiting { .. } => "too_many_waiting",
            Self::TooMuchRemembered { .. } => "too_much_remembered",
            Self::TooMuchWork { .. } | Self::TooMuchExcluded { .. } => "too_much_work",
            Self::TooLarge { code, .. } => code,
            Self::BadModel { .. } => "bad_model",
            Self::CannotForget { .. } => "cannot_forget",
            Self::TooManyUsers { .. } => "too_many_users",
            Self::Scarce { code, .. } => code,
            Self::Overloaded => "overloaded",
            Self::JournalFailed { .. } => "journal_failed",
            Self::ShuttingDown => "shutting_down",
            Self::PartlyDone { .. } => "in_doubt",
            Self::Quarantined { .. } => "app_quarantined",
            Self::Bug { .. } => "bug",
        }
    }

    /// The HTTP status.
    pub fn status(&self) -> u16 {
        match self {
            Self::AppUnknown { .. } | Self::KeyUnknown { .. } | Self::DecisionUnknown { .. } => 404,
            Self::AppDeleted { .. } | Self::Late { .. } => 410,
            Self::AppExists { .. } | Self::DecisionReused { .. } | Self::NotShown { .. } => 409,
            Self::Settings(_)
            | Self::ItemUnknown { .. }
            | Self::NotJson
            | Self::NothingMatches { .. }
            | Self::NothingToWatch
            | Self::SlateImpossible { .. }
            | Self::TooManyPairs(_)
            | Self::WrongDim { .. }
            | Self::BadFeature { .. }
            | Self::BadReward { .. }
            | Self::TooMany { .. }
            | Self::BadModel { .. }
            | Self::TooMuchWork { .. }
            | Self::TooMuchExcluded { .. }
            | Self::TooLarge { .. }
            | Self::CannotForget { .. } => 422,
            Self::TooManyWaiting { .. }
            | Self::TooMuchRemembered { .. }
            | Self::TooManyUsers { .. } => 429,
            Self::Scarce { .. }
            | Self::Overloaded
            | Self::JournalFailed { .. }
            | Self::PartlyDone { .. }
            | Self::ShuttingDown => 503,
            Self::Quarantined { .. } | Self::Bug { .. } => 500,
        }
    }

    /// After how many seconds trying again makes sense, if it does.
    pub fn retry_after_seconds(&self) -> Option<u64> {
        match self {
            Self::Overloaded | Self::PartlyDone { .. } => Some(1),
            Self::ShuttingDown | Self::TooManyWaiting { .. } | Self::TooMuchRemembered { .. } => {
                Some(5)
            }
            Self::JournalFailed { .. } | Self::Scarce { .. } => Some(30),
            _ => None,
        }
    }
}
