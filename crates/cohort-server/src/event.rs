//! What happened: the events that the journal keeps and the state is folded from.
//!
//! One event is one change of one app at one time. Its layout is `app, at_ms, tag, …`; a tag's
//! layout never changes once released: a change is a new tag, so that old journals stay readable.

use cohort_features::{EncoderSettings, Features, Seen};

use crate::auth::{KeyHash, Scopes};
use crate::bytes::{Malformed, Put, Take};
use crate::learning::Learning;
use crate::settings::AppSettings;
use crate::trial::{Trial, TrialDecision};

/// The tag of [`What::UserForgotten`].
const FORGOTTEN: u8 = 16;

/// One change of one app.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// The app it happened to.
    pub app: String,
    /// When, in milliseconds since 1970 by the service's clock; never less than in the app's
    /// events before it, unless the clock was set.
    pub at_ms: u64,
    /// What.
    pub what: What,
}

/// Every kind of change.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// The app was created.
    Created(AppSettings),
    /// Its settings were changed to these.
    Changed(AppSettings),
    /// It was deleted, with all it had learned.
    Deleted,
    /// A key was added.
    KeyAdded(Key),
    /// The key of this id was removed.
    KeyRemoved(String),
    /// An item was registered in the catalogue, or its features were replaced.
    ItemPut(String, Vec<f64>),
    /// The app takes JSON, encoded with these settings.
    FeaturesSet(EncoderSettings),
    /// Features were seen for the first time, or numbers of them were measured.
    FeaturesSeen(Seen),
    /// An item was registered in the catalogue by JSON, or its features were replaced.
    ItemDescribed(String, Features),
    /// An item of the catalogue got attributes to be filtered by.
    ItemAttributes(String, Features),
    /// An item was taken from the catalogue.
    ItemRemoved(String),
    /// Something was chosen for a user.
    Decided(Decided),
    /// The same in an app with a control group, or that keeps all candidates.
    DecidedInTrial(TrialDecision),
    /// Something was chosen from the catalogue.
    DecidedFromCatalogue(CatalogueDecision),
    /// The control group was set.
    TrialSet(Trial),
    /// How the app learns was set.
    LearningSet(Learning),
    /// The decision was taken for the policy, which only watches.
    Watched {
        /// The decision's id.
        decision: String,
        /// Whether the policy would have chosen the same.
        agreed: bool,
    },
    /// All that the policy had learned was given up, or replaced by what another app had learned.
    ModelReplaced(Option<Vec<u8>>),
    /// A decision made as "not shown yet" was shown.
    Activated(String),
    /// A user answered.
    Rewarded {
        /// The decision's id.
        decision: String,
        /// The answer.
        reward: f64,
    },
    /// The policy did what was due and takes long: it looked afresh at what users have in common.
    CaughtUp,
    /// The same, done beside decisions: what was found, as the policy writes it.
    Refitted(Vec<u8>),
    /// Time went on: every window that had ended by then is closed.
    TimePassed,
    /// The same for many windows, a part of them: those that end before a decision, in the order in which
    /// they are due, and its own.
    WindowsEnded {
        /// When the status of the last of them ended.
        due_ms: u64,
        /// Its decision.
        decision: String,
    },
    /// All that was known of a user was forgotten: it had not come for long, or should be.
    UserForgotten(String),
    /// A user that did not come for long was let go; what it taught of users in general stays.
    UserRetired(String),
    /// Nothing, of no app: so that there is something new in the next snapshot and file of the journal, and
    /// what was forgotten before goes from the disk.
    Rested,
    /// The calendar was set by so many milliseconds: the time of this event is the new one, which may
    /// be before that of events before it, and all windows end as much later or earlier.
    ClockStepped(i64),
}

/// A key by which clients of an app are known.
#[derive(Clone, Debug, PartialEq)]
pub struct Key {
    /// Its public name.
    pub id: String,
    /// What is kept of its secret.
    pub hash: KeyHash,
    /// What it opens.
    pub scopes: Scopes,
    /// When it ends, in milliseconds since 1970; never if `None`.
    pub expires_ms: Option<u64>,
}

/// One decision as it was answered.
#[derive(Clone, Debug, PartialEq)]
pub struct Decided {
    /// Its id, the client's or the service's.
    pub id: String,
    /// The user's id.
    pub user: String,
    /// The items' ids, the chosen one first.
    pub ranking: Ranking,
    /// The features of the chosen item.
    pub context: Box<[f64]>,
    /// With what probability the chosen item was chosen.
    pub probability: f64,
    /// Whether the user has seen it; if not, it waits for its activation.
    pub shown: bool,
}

/// A decision among items of the catalogue: the ranking has the best of them.
#[derive(Clone, Debug, PartialEq)]
pub struct CatalogueDecision {
    /// The decision; its candidates are those of the ranking.
    pub decision: TrialDecision,
    /// How often the catalogue had changed before.
    pub version: u64,
    /// How many items could have been chosen.
    pub among: u64,
}

/// Item ids in their order, in one piece of memory: a service keeps many of these.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ranking(Box<[u8]>);

impl Ranking {
    /// From ids in order.
    pub fn new<'a>(ids: impl IntoIterator<Item = &'a str>) -> Self {
        let mut bytes = Vec::new();
        for id in ids {
            bytes.put_str(id).expect("memory takes all bytes");
        }
        Self(bytes.into())
    }

    /// The ids in order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        let mut rest = &self.0[..];
        std::iter::from_fn(move || {
            let len = rest.take_len().ok()?;
            let (id, after) = rest.split_at_checked(len)?;
            rest = after;
            std::str::from_utf8(id).ok()
        })
    }

    /// The chosen item's.
    pub fn first(&self) -> &str {
        self.iter().next().unwrap_or_default()
    }

    /// As it is kept.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// From bytes as they are kept, if they are a ranking of one item or more.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, Malformed> {
        let mut rest = bytes.as_slice();
        if rest.is_empty() {
            return Err(Malformed::odd("a ranking of nothing"));
        }
        while !rest.is_empty() {
            rest.take_str()?;
        }
        Ok(Self(bytes.into()))
    }
}

/// The kinds of events that trials add.
const TRIAL_TAG: u8 = 32;
/// The kinds of events that ways of learning add.
const LEARNING_TAG: u8 = 48;
/// Those that JSON features add.
const FEATURES_TAG: u8 = 64;
/// Those that choosing from the catalogue adds.
const CATALOGUE_TAG: u8 = 80;

impl Event {
    /// Appends the event's bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.write(out).expect("memory takes all bytes");
    }

    fn write(&self, out: &mut Vec<u8>) -> std::io::Result<()> {
        out.put_str(&self.app)?;
        out.put_u64(self.at_ms)?;
        match &self.what {
            What::Created(settings) => {
                out.put_u8(1)?;
                settings.write(out)
            }
            What::Changed(settings) => {
                out.put_u8(2)?;
                settings.write(out)
            }
            What::Deleted => out.put_u8(3),
            What::KeyAdded(key) if key.is_of_old() => {
                out.put_u8(4)?;
                key.write(out)
            }
            What::KeyAdded(key) => {
                out.put_u8(15)?;
                key.write(out)?;
                key.write_terms(out)
            }
            What::KeyRemoved(id) => {
                out.put_u8(5)?;
                out.put_str(id)
            }
            What::ItemPut(id, features) => {
                out.put_u8(6)?;
                out.put_str(id)?;
                out.put_numbers(features)
            }
            What::ItemRemoved(id) => {
                out.put_u8(7)?;
                out.put_str(id)
            }
            What::Decided(decided) => {
                out.put_u8(8)?;
                decided.write(out)
            }
            What::Activated(decision) => {
                out.put_u8(9)?;
                out.put_str(decision)
            }
            What::Rewarded { decision, reward } => {
                out.put_u8(10)?;
                out.put_str(decision)?;
                out.put_f64(*reward)
            }
            What::TimePassed => out.put_u8(11),
            What::CaughtUp => out.put_u8(12),
            What::Refitted(found) => {
                out.put_u8(13)?;
                out.put_bytes(found)
            }
            What::WindowsEnded { due_ms, decision } => {
                out.put_u8(17)?;
                out.put_u64(*due_ms)?;
                out.put_str(decision)
            }
            What::UserForgotten(user) => {
                out.put_u8(FORGOTTEN)?;
                out.put_str(user)
            }
            What::UserRetired(user) => {
                out.put_u8(18)?;
                out.put_str(user)
            }
            What::Rested => out.put_u8(19),
            What::ClockStepped(by_ms) => {
                out.put_u8(14)?;
                out.put_u64(by_ms.cast_unsigned())
            }
            What::DecidedInTrial(decided) => {
                out.put_u8(TRIAL_TAG)?;
                decided.write(out)
            }
            What::TrialSet(trial) => {
                out.put_u8(TRIAL_TAG + 1)?;
                trial.write(out)
            }
            What::LearningSet(learning) => {
                out.put_u8(LEARNING_TAG)?;
                learning.write(out)
            }
            What::Watched { decision, agreed } => {
                out.put_u8(LEARNING_TAG + 1)?;
                out.put_str(decision)?;
                out.put_u8((*agreed).into())
            }
            What::ModelReplaced(None) => out.put_u8(LEARNING_TAG + 2),
            What::ModelReplaced(Some(model)) => {
                out.put_u8(LEARNING_TAG + 3)?;
                out.put_bytes(model)
            }
            What::FeaturesSet(settings) => {
                out.put_u8(FEATURES_TAG)?;
                settings.write(out)
            }
            What::FeaturesSeen(seen) => {
                out.put_u8(FEATURES_TAG + 1)?;
                seen.write(out)
            }
            What::ItemDescribed(id, features) => {
                out.put_u8(FEATURES_TAG + 2)?;
                out.put_str(id)?;
                features.write(out)
            }
            What::DecidedFromCatalogue(CatalogueDecision { decision, version, among }) => {
                out.put_u8(CATALOGUE_TAG)?;
                decision.write(out)?;
                out.put_u64(*version)?;
                out.put_u64(*among)
            }
            What::ItemAttributes(id, features) => {
                out.put_u8(CATALOGUE_TAG + 1)?;
                out.put_str(id)?;
                features.write(out)
            }
        }
    }

    /// Reads one event, which must fill the bytes exactly.
    pub fn decode(mut bytes: &[u8]) -> Result<Self, Malformed> {
        let from = &mut bytes;
        let (app, at_ms) = (from.take_str()?, from.take_u64()?);
        let what = match from.take_u8()? {
            1 => What::Created(AppSettings::read(from)?),
            2 => What::Changed(AppSettings::read(from)?),
            3 => What::Deleted,
            4 => What::KeyAdded(Key::read(from)?),
            5 => What::KeyRemoved(from.take_str()?),
            6 => What::ItemPut(from.take_str()?, from.take_numbers()?),
            7 => What::ItemRemoved(from.take_str()?),
            8 => What::Decided(Decided::read(from)?),
            9 => What::Activated(from.take_str()?),
            10 => What::Rewarded { decision: from.take_str()?, reward: from.take_f64()? },
            11 => What::TimePassed,
            12 => What::CaughtUp,
            13 => What::Refitted(from.take_bytes()?),
            15 => {
                let mut key = Key::read(from)?;
                key.read_terms(from)?;
                What::KeyAdded(key)
            }
            FORGOTTEN => What::UserForgotten(from.take_str()?),
            17 => What::WindowsEnded { due_ms: from.take_u64()?, decision: from.take_str()? },
            18 => What::UserRetired(from.take_str()?),
            19 => What::Rested,
            14 => What::ClockStepped(from.take_u64()?.cast_signed()),
            TRIAL_TAG => What::DecidedInTrial(TrialDecision::read(from)?),
            tag if tag == TRIAL_TAG + 1 => What::TrialSet(Trial::read(from)?),
            LEARNING_TAG => What::LearningSet(Learning::read(from)?),
            tag if tag == LEARNING_TAG + 1 => {
                What::Watched { decision: from.take_str()?, agreed: from.take_bool()? }
            }
            tag if tag == LEARNING_TAG + 2 => What::ModelReplaced(None),
            tag if tag == LEARNING_TAG + 3 => What::ModelReplaced(Some(from.take_bytes()?)),
            FEATURES_TAG => What::FeaturesSet(EncoderSettings::read(from)?),
            tag if tag == FEATURES_TAG + 1 => What::FeaturesSeen(Seen::read(from)?),
            tag if tag == FEATURES_TAG + 2 => {
                What::ItemDescribed(from.take_str()?, Features::read(from)?)
            }
            CATALOGUE_TAG => What::DecidedFromCatalogue(CatalogueDecision {
                decision: TrialDecision::read(from)?,
                version: from.take_u64()?,
                among: from.take_u64()?,
            }),
            tag if tag == CATALOGUE_TAG + 1 => {
                What::ItemAttributes(from.take_str()?, Features::read(from)?)
            }
            tag => return Err(Malformed::odd(format!("an event of the unknown kind {tag}"))),
        };
        match bytes.len() {
            0 => Ok(Self { app, at_ms, what }),
            rest => Err(Malformed::odd(format!("{rest} bytes after the end of an event"))),
        }
    }
}

/// Which app an event is of, and whether it is its creation, without reading more of it.
pub fn peek(mut bytes: &[u8]) -> Result<(String, bool), Malformed> {
    let from = &mut bytes;
    let (app, _) = (from.take_str()?, from.take_u64()?);
    Ok((app, from.take_u8()? == 1))
}

/// Whom an event forgets, if it does, without reading more of others.
pub fn forgotten_in(mut bytes: &[u8]) -> Result<Option<String>, Malformed> {
    let from = &mut bytes;
    from.take_str()?;
    from.take_u64()?;
    match from.take_u8()? {
        FORGOTTEN => from.take_str().map(Some),
        _ => Ok(None),
    }
}

/// When an event happened, without reading more of it.
pub fn time_of(mut bytes: &[u8]) -> Result<u64, Malformed> {
    let from = &mut bytes;
    from.take_str()?;
    from.take_u64()
}

impl Key {
    /// A key that opens what keys opened before there were scopes, for ever.
    pub fn of_old(id: String, hash: KeyHash) -> Self {
        Self { id, hash, scopes: Scopes::OF_OLD, expires_ms: None }
    }

    fn is_of_old(&self) -> bool {
        self.scopes == Scopes::OF_OLD && self.expires_ms.is_none()
    }

    /// Writes what it opens and until when.
    pub fn write_terms(&self, out: &mut dyn std::io::Write) -> std::io::Result<()> {
        out.put_u8(self.scopes.bits())?;
        out.put_u64(self.expires_ms.unwrap_or(u64::MAX))
    }

    /// Reads what it opens and until when.
    pub fn read_terms(&mut self, mut from: &mut dyn std::io::Read) -> Result<(), Malformed> {
        let bits = from.take_u8()?;
        self.scopes = Scopes::from_bits(bits)
            .ok_or_else(|| Malformed::odd(format!("a key with the scopes {bits}")))?;
        self.expires_ms = Some(from.take_u64()?).filter(|at| *at != u64::MAX);
        Ok(())
    }

    /// Writes its id and its hash.
    pub fn write(&self, out: &mut dyn std::io::Write) -> std::io::Result<()> {
        out.put_str(&self.id)?;
        out.write_all(self.hash.as_bytes())
    }

    /// Reads its id and its hash.
    pub fn read(mut from: &mut dyn std::io::Read) -> Result<Self, Malformed> {
        Ok(Self::of_old(from.take_str()?, KeyHash::from_bytes(from.take_array()?)))
    }
}

impl Decided {
    /// Writes it.
    pub fn write(&self, out: &mut dyn std::io::Write) -> std::io::Result<()> {
        out.put_str(&self.id)?;
        out.put_str(&self.user)?;
        out.put_bytes(self.ranking.as_bytes())?;
        out.put_numbers(&self.context)?;
        out.put_f64(self.probability)?;
        out.put_u8(self.shown.into())
    }

    /// Reads it.
    pub fn read(mut from: &mut dyn std::io::Read) -> Result<Self, Malformed> {
        Ok(Self {
            id: from.take_str()?,
            user: from.take_str()?,
            ranking: Ranking::from_bytes(from.take_bytes()?)?,
            context: from.take_numbers()?.into(),
            probability: from.take_f64()?,
            shown: from.take_bool()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of kinds that no folder of `tests/compat` has, as they were first written.
    #[test]
    fn kinds_that_came_later_are_read_as_they_were_written() {
        let event =
            Event { app: "a".to_owned(), at_ms: 7, what: What::UserRetired("zoë".to_owned()) };
        let mut bytes = Vec::new();
        event.encode(&mut bytes);
        let kept = [1, b'a', 7, 0, 0, 0, 0, 0, 0, 0, 18, 4, b'z', b'o', 195, 171];
        assert_eq!(bytes, kept);
        assert_eq!(Event::decode(&kept).unwrap(), event);
        let rested = [0, 7, 0, 0, 0, 0, 0, 0, 0, 19];
        let event = Event { app: String::new(), at_ms: 7, what: What::Rested };
        assert_eq!(Event::decode(&rested).unwrap(), event);
    }
}
