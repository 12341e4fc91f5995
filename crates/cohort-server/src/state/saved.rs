//! How the state becomes a stream and comes back, bit by bit.
//!
//! The stream is that of one snapshot version; what it is made of is versioned by the snapshot,
//! policies carry versions of their own. Damage was found out before a byte arrives here, so what
//! is checked is that the stream makes sense.

use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::sync::Arc;

use cohort::Frozen;
use cohort_features::{Encoder, EncoderSettings, Features, ItemEffects};

use super::State;
use super::app::{App, Counts, Described, Items};
use super::catalogue::Attributes;
use super::decisions::{Decision, DecisionList, Status};
use super::names::NameList;
use super::outcomes::Outcomes;
use super::seen::Seen;
use crate::bytes::{Malformed, Put, Take};
use crate::event::{Decided, Key};
use crate::imitation::Imitator;
use crate::learning::{Apprenticeship, Learning};
use crate::settings::AppSettings;
use crate::trial::Trial;

/// Before the end of an app: its trial follows. An app from before there were trials has none.
const TRIAL_OF_APP: u32 = 0x0A99_7219;
/// Before the end of an app: what its keys open and until when. An app from before there were scopes
/// does without.
const TERMS_OF_KEYS: u32 = 0x0A99_5C0B;
/// Before the end of an app: when its users were last seen. Those of an app from before that was kept
/// were seen when it last did anything.
const USERS_SEEN: u32 = 0x0A99_5EE2;
/// Before the end of an app: how it learns, and what is known of decisions besides. An app from before
/// there were other ways does without.
const LEARNING_OF_APP: u32 = 0x0A99_1EA4;
/// Before the end of an app: what it has learned of the choices of others. An app that is no apprentice has nothing.
const IMITATOR_OF_APP: u32 = 0x0A99_1417;
/// Before the end of an app: when what it has learned last changed.
const LEARNED_OF_APP: u32 = 0x0A99_1EA7;
/// Before the end of an app: how often its catalogue changed, and attributes of its items. An app without
/// items has none.
const CATALOGUE_OF_APP: u32 = 0x0A99_CA7A;
/// Before the end of an app: how JSON becomes vectors, and items that were registered by it. An app of
/// vectors has none.
const FEATURES_OF_APP: u32 = 0x0A99_FEA7;
/// Before the end of an app: effects of its items. An app without has none.
const EFFECTS_OF_APP: u32 = 0x0A99_EFFE;
/// Before the end of an app: effects of its items for cohorts. An app without has none.
const EFFECTS_OF_COHORTS: u32 = 0x0A99_EFC0;
/// Before the end of an app: how far effects of its items are shrunk. An app of an earlier version has none.
const EFFECTS_SHRUNK: u32 = 0x0A99_EF5A;
/// Before the end of an app: the vectors that users have answered to. An app of an earlier version has none.
const EFFECTS_OF_VECTORS: u32 = 0x0A99_EFEC;
/// Before the end of an app: how well rewards were foretold. An app of an earlier version has none.
const EFFECTS_OF_LEVEL: u32 = 0x0A99_EFED;
/// Added to a decision's status where it is of the control group.
const OF_CONTROL: u8 = 4;
/// Likewise where it was made elsewhere, before.
const OF_ELSEWHERE: u8 = 8;
/// After every app: that reader and writer agree where it ends.
const END_OF_APP: u32 = 0x0A99_0E4D;

/// A state at one moment, to be written while the state goes on: nearly all of it is shared with
/// the state, and copied only where that changes.
pub struct FrozenState {
    pub(super) last_event: u64,
    pub(super) deleted: BTreeSet<String>,
    pub(super) apps: Vec<(String, FrozenApp)>,
}

pub(super) struct FrozenApp {
    settings: AppSettings,
    created_ms: u64,
    learned_ms: u64,
    now_ms: u64,
    pub(super) keys: Vec<Key>,
    users: NameList,
    seen: Seen,
    pub(super) items: Arc<Items>,
    pub(super) described: Arc<Described>,
    catalogue_version: u64,
    pub(super) attributes: Arc<Attributes>,
    encoder: Option<Encoder>,
    effects: ItemEffects,
    pub(super) decisions: DecisionList,
    counts: Counts,
    policy: Frozen,
    trial: Trial,
    outcomes: Outcomes,
    pub(super) learning: Learning,
    apprenticeship: Apprenticeship,
    imitator: Imitator,
}

impl State {
    /// Whether the policies of all apps can be kept in a snapshot. Without snapshots a restart
    /// reads the whole journal, to the same state.
    pub fn can_be_saved(&mut self) -> bool {
        self.apps.values_mut().all(App::can_be_saved)
    }

    /// The state as it is now, to be written later and elsewhere.
    pub fn freeze(&mut self) -> io::Result<FrozenState> {
        self.freeze_without(&BTreeSet::new())
    }

    /// The same without some apps.
    pub fn freeze_without(&mut self, left_out: &BTreeSet<String>) -> io::Result<FrozenState> {
        let apps = self.apps.iter_mut().filter(|(name, _)| !left_out.contains(*name));
        let apps = apps.map(|(name, app)| Ok((name.clone(), app.freeze()?)));
        Ok(FrozenState {
            apps: apps.collect::<io::Result<_>>()?,
            last_event: self.last_event,
            deleted: self.deleted.clone(),
        })
    }

    /// Writes everything. Only caches of policies may change.
    pub fn save(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.freeze()?.write(out)
    }

    /// A checksum of what [`State::save`] writes.
    pub fn digest(&mut self) -> io::Result<u64> {
        struct Sum(xxhash_rust::xxh3::Xxh3);
        impl Write for Sum {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0.update(bytes);
                Ok(bytes.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut sum = Sum(xxhash_rust::xxh3::Xxh3::new());
        self.save(&mut sum)?;
        Ok(sum.0.digest())
    }

    /// Reads what [`State::save`] wrote.
    pub fn load(from: &mut dyn Read) -> Result<Self, Malformed> {
        Self::load_apps(from, |_| true)
    }

    /// The same, and keeps only some apps: of the others one at a time is in memory.
    pub fn load_apps(
        mut from: &mut dyn Read,
        keeps: impl Fn(&str) -> bool,
    ) -> Result<Self, Malformed> {
        let mut state = Self { last_event: from.take_u64()?, ..Self::default() };
        for _ in 0..from.take_len()? {
            state.deleted.insert(from.take_str()?);
        }
        for _ in 0..from.take_len()? {
            let name = from.take_str()?;
            let mut app = App::load(&mut from)?;
            let mut mark = from.take_u32()?;
            if mark == TRIAL_OF_APP {
                app.trial = Trial::read(&mut from)?;
                app.outcomes = Outcomes::load(&mut from)?;
                mark = from.take_u32()?;
            }
            if mark == TERMS_OF_KEYS {
                app.keys.iter_mut().try_for_each(|key| key.read_terms(&mut from))?;
                mark = from.take_u32()?;
            }
            if mark == USERS_SEEN {
                app.seen = Seen::load(&mut from, app.users.len())?;
                mark = from.take_u32()?;
            }
            if mark == LEARNING_OF_APP {
                app.load_learning(&mut from)?;
                mark = from.take_u32()?;
            }
            if mark == IMITATOR_OF_APP {
                app.imitator = Imitator::read(&mut from)?;
                mark = from.take_u32()?;
            }
            if mark == LEARNED_OF_APP {
                app.learned_ms = from.take_u64()?;
                mark = from.take_u32()?;
            }
            if mark == CATALOGUE_OF_APP {
                app.catalogue.version = from.take_u64()?;
                app.catalogue.attributes = Arc::new(load_described(&mut from)?);
                mark = from.take_u32()?;
            }
            if mark == FEATURES_OF_APP {
                let settings = EncoderSettings::read(&mut from)?;
                let mut encoder = Encoder::new(app.settings.dim, settings.clone());
                encoder.load(&mut from)?;
                app.encoder = Some(encoder);
                app.settings.features = Some(settings);
                app.described = Arc::new(load_described(&mut from)?);
                mark = from.take_u32()?;
            }
            if mark == EFFECTS_OF_APP {
                app.effects = ItemEffects::load(&mut from)?;
                mark = from.take_u32()?;
            }
            if mark == EFFECTS_OF_COHORTS {
                app.effects.load_cohorts(&mut from)?;
                mark = from.take_u32()?;
            }
            if mark == EFFECTS_SHRUNK {
                app.effects.load_shrinkage(&mut from)?;
                mark = from.take_u32()?;
            }
            if mark == EFFECTS_OF_VECTORS {
                app.effects.load_vectors(&mut from)?;
                mark = from.take_u32()?;
            }
            if mark == EFFECTS_OF_LEVEL {
                app.effects.load_level(&mut from)?;
                mark = from.take_u32()?;
            }
            if mark != END_OF_APP {
                return Err(Malformed::odd(format!("app `{name}` does not end where it should")));
            }
            if keeps(&name) {
                state.apps.insert(name, app);
            }
        }
        Ok(state)
    }
}

impl FrozenState {
    /// Takes in the apps of a state of the same moment that are not in it.
    pub(crate) fn take_in(&mut self, mut other: State) -> io::Result<()> {
        self.apps.extend(other.freeze()?.apps);
        self.apps.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(())
    }

    /// Writes everything.
    pub fn write(self, mut out: &mut dyn Write) -> io::Result<()> {
        out.put_u64(self.last_event)?;
        out.put_len(self.deleted.len())?;
        for name in &self.deleted {
            out.put_str(name)?;
        }
        out.put_len(self.apps.len())?;
        for (name, app) in self.apps {
            out.put_str(&name)?;
            app.write(&mut out)?;
            out.put_u32(END_OF_APP)?;
        }
        Ok(())
    }
}

impl FrozenApp {
    fn write(self, mut out: &mut dyn Write) -> io::Result<()> {
        self.settings.write(out)?;
        out.put_u64(self.created_ms)?;
        out.put_u64(self.now_ms)?;
        out.put_len(self.keys.len())?;
        for key in &self.keys {
            key.write(out)?;
        }
        out.put_u64(self.users.len() as u64)?;
        for user in self.users.iter() {
            out.put_bytes(user)?;
        }
        out.put_u64(self.items.len() as u64)?;
        for (id, features) in self.items.iter() {
            out.put_str(id)?;
            out.put_numbers(features)?;
        }
        let decisions = self.decisions.sorted();
        out.put_u64(decisions.len() as u64)?;
        for (due_ms, decision) in &decisions {
            decision.save(*due_ms, out)?;
        }
        self.counts.save(out)?;
        (self.policy)(&mut out)?;
        out.put_u32(TRIAL_OF_APP)?;
        self.trial.write(&mut out)?;
        self.outcomes.save(&mut out)?;
        out.put_u32(TERMS_OF_KEYS)?;
        self.keys.iter().try_for_each(|key| key.write_terms(&mut out))?;
        out.put_u32(USERS_SEEN)?;
        self.seen.save(&mut out)?;
        out.put_u32(LEARNING_OF_APP)?;
        self.learning.write(&mut out)?;
        self.apprenticeship.write(&mut out)?;
        let more = |(_, one): &&(u64, &Decision)| one.agreed.is_some() || !one.gathered.is_empty();
        let more: Vec<_> = decisions.iter().filter(more).collect();
        out.put_len(more.len())?;
        for (_, decision) in more {
            out.put_str(&decision.made.id)?;
            out.put_u8(decision.agreed.map_or(2, u8::from))?;
            out.put_numbers(&decision.gathered)?;
        }
        if self.imitator.seen() > 0 {
            out.put_u32(IMITATOR_OF_APP)?;
            self.imitator.write(&mut out)?;
        }
        if self.learned_ms != self.created_ms {
            out.put_u32(LEARNED_OF_APP)?;
            out.put_u64(self.learned_ms)?;
        }
        if self.catalogue_version > 0 {
            out.put_u32(CATALOGUE_OF_APP)?;
            out.put_u64(self.catalogue_version)?;
            save_described(&self.attributes, &mut out)?;
        }
        let Some(encoder) = &self.encoder else { return Ok(()) };
        out.put_u32(FEATURES_OF_APP)?;
        encoder.settings().write(&mut out)?;
        encoder.save(&mut out)?;
        save_described(&self.described, &mut out)?;
        if !self.effects.is_empty() {
            out.put_u32(EFFECTS_OF_APP)?;
            self.effects.save(&mut out)?;
        }
        if self.effects.has_cohorts() {
            out.put_u32(EFFECTS_OF_COHORTS)?;
            self.effects.save_cohorts(&mut out)?;
        }
        if self.effects.has_shrinkage() {
            out.put_u32(EFFECTS_SHRUNK)?;
            self.effects.save_shrinkage(&mut out)?;
        }
        if self.effects.has_vectors() {
            out.put_u32(EFFECTS_OF_VECTORS)?;
            self.effects.save_vectors(&mut out)?;
        }
        if self.effects.has_level() {
            out.put_u32(EFFECTS_OF_LEVEL)?;
            self.effects.save_level(&mut out)?;
        }
        Ok(())
    }
}

impl App {
    pub(super) fn freeze(&mut self) -> io::Result<FrozenApp> {
        let policy = match self.policy.saved() {
            Some(policy) => policy.freeze()?,
            None => return Err(io::ErrorKind::Unsupported.into()),
        };
        Ok(FrozenApp {
            settings: self.settings.clone(),
            created_ms: self.created_ms,
            learned_ms: self.learned_ms,
            now_ms: self.now_ms,
            keys: self.keys.clone(),
            users: self.users.list(),
            seen: self.seen.clone(),
            items: self.items.clone(),
            described: self.described.clone(),
            catalogue_version: self.catalogue.version,
            attributes: self.catalogue.attributes.clone(),
            encoder: self.encoder.clone(),
            effects: self.effects.clone(),
            decisions: self.decisions.list(),
            counts: self.counts,
            policy,
            trial: self.trial.clone(),
            outcomes: self.outcomes.clone(),
            learning: self.learning.clone(),
            apprenticeship: self.apprenticeship,
            imitator: self.imitator.clone(),
        })
    }

    fn load_learning(&mut self, mut from: &mut dyn Read) -> Result<(), Malformed> {
        self.learning = Learning::read(from)?;
        self.apprenticeship = Apprenticeship::read(from)?;
        for _ in 0..from.take_len()? {
            let (id, agreed) = (from.take_str()?, from.take_u8()?);
            if agreed < 2 {
                self.decisions.set_agreed(&id, agreed == 1);
            }
            for reward in from.take_numbers()? {
                self.decisions.gather(&id, reward);
            }
        }
        Ok(())
    }

    fn load(mut from: &mut dyn Read) -> Result<Self, Malformed> {
        let settings = AppSettings::read(from)?;
        let created_ms = from.take_u64()?;
        let mut app = App::new(settings, created_ms)
            .map_err(|why| Malformed::odd(format!("settings that cannot be used: {why}")))?;
        app.now_ms = from.take_u64()?;
        for _ in 0..from.take_len()? {
            app.keys.push(Key::read(from)?);
        }
        for number in 0..from.take_u64()? {
            let user = from.take_str()?;
            if user.is_empty() {
                app.users.add_hole();
                continue;
            }
            // Numbers that are free come after all that are not, as long as this goes on.
            if app.users.append(&user) != Some(number as usize) {
                return Err(Malformed::odd(format!("user `{user}` is there twice")));
            }
            app.seen.touch(number as usize, app.now_ms);
        }
        let mut items = Items::new();
        for _ in 0..from.take_u64()? {
            items.insert(from.take_str()?.into(), from.take_numbers()?.into());
        }
        app.items = Arc::new(items);
        for _ in 0..from.take_u64()? {
            app.decisions.insert(Decision::load(from, app.users.len())?);
        }
        app.counts = Counts::load(from)?;
        let odd = |why: cohort::Error| Malformed::odd(why.to_string());
        match app.policy.saved() {
            Some(policy) => policy.load(&mut from).map_err(odd)?,
            None => return Err(Malformed::odd("a policy that cannot be kept in a snapshot")),
        }
        Ok(app)
    }
}

fn save_described(described: &Described, mut out: &mut dyn Write) -> io::Result<()> {
    out.put_u64(described.len() as u64)?;
    for (id, features) in described.iter() {
        out.put_str(id)?;
        features.write(&mut out)?;
    }
    Ok(())
}

fn load_described(mut from: &mut dyn Read) -> Result<Described, Malformed> {
    let mut described = Described::new();
    for _ in 0..from.take_u64()? {
        let id = from.take_str()?;
        described.insert(id.into(), Arc::new(Features::read(&mut from)?));
    }
    Ok(described)
}

impl Decision {
    fn save(&self, due_ms: u64, out: &mut dyn Write) -> io::Result<()> {
        self.made.write(out)?;
        out.put_u32(self.user)?;
        out.put_u64(self.at_ms)?;
        out.put_u64(due_ms)?;
        let group = if self.control { OF_CONTROL } else { 0 };
        let group = group + if self.elsewhere { OF_ELSEWHERE } else { 0 };
        match self.status {
            Status::NotShown => out.put_u8(group),
            Status::Open => out.put_u8(group + 1),
            Status::Rewarded(reward) => {
                out.put_u8(group + 2)?;
                out.put_f64(reward)
            }
            Status::Expired(default) => {
                out.put_u8(group + 3)?;
                out.put_option(default)
            }
        }
    }

    fn load(mut from: &mut dyn Read, users: usize) -> Result<Self, Malformed> {
        let made = Decided::read(from)?;
        let (user, at_ms, due_ms) = (from.take_u32()?, from.take_u64()?, from.take_u64()?);
        if user as usize >= users {
            return Err(Malformed::odd(format!("a decision for user {user} of {users}")));
        }
        let kind = from.take_u8()?;
        let (control, elsewhere) = (kind & OF_CONTROL > 0, kind & OF_ELSEWHERE > 0);
        let status = match kind & !(OF_CONTROL | OF_ELSEWHERE) {
            0 => Status::NotShown,
            1 => Status::Open,
            2 => Status::Rewarded(from.take_f64()?),
            3 => Status::Expired(from.take_option()?),
            other => return Err(Malformed::odd(format!("a decision of the status {other}"))),
        };
        let mut decision = Self::new(made, user, control, at_ms, due_ms, status);
        decision.elsewhere = elsewhere;
        Ok(decision)
    }
}

impl Counts {
    fn save(&self, out: &mut dyn Write) -> io::Result<()> {
        out.put_u64(self.decisions)?;
        out.put_u64(self.rewards)?;
        out.put_f64(self.reward_sum)?;
        out.put_u64(self.defaults)?;
        out.put_u64(self.unrewarded)
    }

    fn load(mut from: &mut dyn Read) -> Result<Self, Malformed> {
        Ok(Self {
            decisions: from.take_u64()?,
            rewards: from.take_u64()?,
            reward_sum: from.take_f64()?,
            defaults: from.take_u64()?,
            unrewarded: from.take_u64()?,
        })
    }
}
