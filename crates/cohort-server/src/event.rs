//! What happened: the events that the journal keeps and the state is folded from.
//!
//! One event is one change of one app at one time. Its layout is `app, at_ms, tag, …`; a tag's
//! layout never changes once released: a change is a new tag, so that old journals stay readable.

mod parts;

use cohort_features::{EncoderSettings, Features, Seen};

use crate::bytes::{Malformed, Put, Take};
use crate::imitation::Rival;
use crate::learning::Learning;
use crate::settings::AppSettings;
use crate::trial::{Trial, TrialDecision};
pub use parts::{CatalogueDecision, Decided, Key, PastDecided, Ranking};

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
    /// Something had been chosen elsewhere; its reward follows.
    DecidedElsewhere(PastDecided),
    /// The control group was set.
    TrialSet(Trial),
    /// How the app learns was set.
    LearningSet(Learning),
    /// The decision was taken for the policy, which only watches; written by earlier versions.
    Watched {
        /// The decision's id.
        decision: String,
        /// Whether the policy would have chosen the same.
        agreed: bool,
    },
    /// The decision was taken for an apprentice, which learns to choose the same.
    Imitated {
        /// The decision's id.
        decision: String,
        /// Whether the apprentice would have chosen the same.
        agreed: bool,
        /// What it would have chosen rather of all else, if there was anything else.
        rival: Option<Rival>,
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
    /// All that was known of a user was forgotten, because that was asked for; or there was nothing in the state any more,
    /// and what the log has of it is not told from then on.
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
            What::Imitated { decision, agreed, rival } => {
                out.put_u8(LEARNING_TAG + 4)?;
                out.put_str(decision)?;
                out.put_u8((*agreed).into())?;
                out.put_u8(rival.is_some().into())?;
                let Some(Rival { item, context }) = rival else { return Ok(()) };
                out.put_str(item)?;
                out.put_numbers(context)
            }
            What::DecidedElsewhere(PastDecided { made, among }) => {
                out.put_u8(LEARNING_TAG + 5)?;
                made.write(out)?;
                // Among none: it is not known among how many.
                out.put_u64(among.unwrap_or(0))
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
            tag if tag == LEARNING_TAG + 4 => What::Imitated {
                decision: from.take_str()?,
                agreed: from.take_bool()?,
                rival: match from.take_bool()? {
                    true => {
                        Some(Rival { item: from.take_str()?, context: from.take_numbers()?.into() })
                    }
                    false => None,
                },
            },
            tag if tag == LEARNING_TAG + 5 => What::DecidedElsewhere(PastDecided {
                made: Decided::read(from)?,
                among: Some(from.take_u64()?).filter(|among| *among > 0),
            }),
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
        let what = What::Imitated { decision: "d".to_owned(), agreed: true, rival: None };
        let event = Event { app: String::new(), at_ms: 7, what };
        let alone = [0, 7, 0, 0, 0, 0, 0, 0, 0, 52, 1, b'd', 1, 0];
        assert_eq!(Event::decode(&alone).unwrap(), event);
        let rival = Some(Rival { item: "tea".to_owned(), context: Box::new([1.0]) });
        let what = What::Imitated { decision: "d".to_owned(), agreed: false, rival };
        let event = Event { app: String::new(), at_ms: 7, what };
        let mut imitated =
            vec![0, 7, 0, 0, 0, 0, 0, 0, 0, 52, 1, b'd', 0, 1, 3, b't', b'e', b'a', 1];
        imitated.extend(1f64.to_le_bytes());
        assert_eq!(Event::decode(&imitated).unwrap(), event);
        let mut bytes = Vec::new();
        event.encode(&mut bytes);
        assert_eq!(bytes, imitated);
        let made = Decided {
            id: "d".to_owned(),
            user: "u".to_owned(),
            ranking: Ranking::new(["a"]),
            context: Box::new([]),
            probability: 0.25,
            shown: true,
        };
        let what = What::DecidedElsewhere(PastDecided { made, among: Some(4) });
        let event = Event { app: String::new(), at_ms: 7, what };
        let mut past = vec![0, 7, 0, 0, 0, 0, 0, 0, 0, 53, 1, b'd', 1, b'u', 2, 1, b'a', 0];
        past.extend(0.25f64.to_le_bytes());
        past.extend([1, 4, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(Event::decode(&past).unwrap(), event);
        let mut bytes = Vec::new();
        event.encode(&mut bytes);
        assert_eq!(bytes, past);
        let rested = [0, 7, 0, 0, 0, 0, 0, 0, 0, 19];
        let event = Event { app: String::new(), at_ms: 7, what: What::Rested };
        assert_eq!(Event::decode(&rested).unwrap(), event);
    }
}
