//! What does the journal say of each decision? A decision becomes a row once it is known what came
//! of it: its reward came, or its window ended. Those still open come last.

use std::collections::{BTreeSet, HashMap};
use std::io;

use super::Table;
use super::aside::{Aside, Kept, Scratch};
use crate::bytes::Malformed;
use crate::event::{CatalogueDecision, Decided, Event, What, forgotten_in, peek};
use crate::journal::{EventReader, JournalError};
use crate::learning::{Aggregation, Learning};
use crate::settings::AppSettings;
use crate::trial::TrialDecision;

/// One decision and what came of it.
#[derive(Clone, Debug, PartialEq)]
pub struct ExportRow {
    /// As it was made.
    pub made: Decided,
    /// When.
    pub decided_ms: u64,
    /// Whether it is of the control group.
    pub control: bool,
    /// The features of all candidates, where they were kept.
    pub features: Box<[f64]>,
    /// Where it was chosen from the catalogue: how often that had changed before, and how many items could
    /// have been chosen. Of a decision that was made elsewhere, 0 and that number; 0 where it is not known.
    pub catalogue: Option<(u64, u64)>,
    /// What became of it.
    pub status: &'static str,
    /// What was learned, if anything.
    pub reward: Option<f64>,
}

impl ExportRow {
    /// How much memory it takes, roughly.
    pub fn bytes(&self) -> usize {
        let Decided { id, user, ranking, context, .. } = &self.made;
        size_of::<Self>()
            + id.len()
            + user.len()
            + ranking.as_bytes().len()
            + size_of_val(&context[..])
            + size_of_val(&self.features[..])
    }
}

/// Whose log it is.
#[derive(Clone)]
pub struct App {
    /// Its name.
    pub name: String,
    /// Its settings, for a journal that no longer holds how they came about.
    pub settings: AppSettings,
    /// How it learns, likewise.
    pub learning: Learning,
    /// Where decisions that wait are put when they are many.
    pub scratch: Scratch,
}

/// Decisions that wait, and when they no longer do.
struct Waiting<'a> {
    app: App,
    /// Of this user alone.
    only: Option<&'a str>,
    /// Who was forgotten, and by which event the last time: nothing that was decided before is told.
    forgotten: HashMap<String, u64>,
    /// Whether the features of all candidates are told.
    keeps_features: bool,
    by_id: HashMap<String, Waits>,
    aside: Aside,
    due: BTreeSet<(u64, String)>,
    /// Rewards that become one when the window ends.
    gathered: HashMap<String, Vec<f64>>,
}

/// One of these decisions.
struct Waits {
    user: Box<str>,
    decided_ms: u64,
    due_ms: u64,
    status: &'static str,
    row: Kept,
}

/// Whether anybody still waits for what is read.
pub(crate) type Wanted<'a> = &'a dyn Fn() -> bool;

/// Reads journals from their beginnings and hands on every decision of the app, unless its user was forgotten since.
/// Returns how many events were removed from the journals before their turn came.
pub(crate) fn fold(
    journals: &[&dyn EventReader],
    app: &App,
    table: &mut dyn Table,
    wanted: Wanted,
) -> Result<u64, JournalError> {
    fold_all(journals, app, None, table, wanted)
}

/// The same of the decisions for one user.
pub(crate) fn of_user(
    journals: &[&dyn EventReader],
    app: &App,
    user: &str,
    table: &mut dyn Table,
    wanted: Wanted,
) -> Result<u64, JournalError> {
    fold_all(journals, app, Some(user), table, wanted)
}

fn fold_all(
    journals: &[&dyn EventReader],
    app: &App,
    only: Option<&str>,
    table: &mut dyn Table,
    wanted: Wanted,
) -> Result<u64, JournalError> {
    let mut left_out = 0;
    for journal in journals {
        left_out += fold_one(*journal, app.clone(), only, table, wanted)?;
    }
    table.finish()?;
    Ok(left_out)
}

/// After how many events somebody is looked for who waits.
const LOOKED_FOR_AFTER: u64 = 256;

fn fold_one(
    journal: &dyn EventReader,
    app: App,
    only: Option<&str>,
    table: &mut dyn Table,
    wanted: Wanted,
) -> Result<u64, JournalError> {
    let damaged =
        |number, why: Malformed| JournalError::Damaged { event: number, what: why.to_string() };
    let go_on = |number: u64| match number.is_multiple_of(LOOKED_FOR_AFTER) && !wanted() {
        true => Err(io::Error::new(io::ErrorKind::BrokenPipe, "nobody waits for it any more")),
        false => Ok(()),
    };
    // What an app of the same name did before this one was created is not its log, and neither is what was decided for
    // whoever was forgotten since.
    let (mut created, mut last, mut forgotten) = (0, 0, HashMap::new());
    journal.read(&mut |number, bytes| {
        go_on(number)?;
        last = number;
        let (name, creates) = peek(bytes).map_err(|why| damaged(number, why))?;
        if name != app.name {
            return Ok(());
        }
        if creates {
            created = number;
        }
        if let Some(user) = forgotten_in(bytes).map_err(|why| damaged(number, why))? {
            forgotten.insert(user, number);
        }
        Ok(())
    })?;
    let keeps_features = table.wants_features();
    let (by_id, due, gathered) = Default::default();
    let aside = Aside::new(app.scratch.clone());
    let mut waiting = Waiting { app, only, forgotten, keeps_features, by_id, aside, due, gathered };
    let (mut next, mut missed) = (None, 0);
    let left_out = journal.read(&mut |number, bytes| {
        go_on(number)?;
        if let Some(next) = next.replace(number + 1)
            && next < number
        {
            missed += number - next;
            waiting.lose_sight();
        }
        let (name, _) = peek(bytes).map_err(|why| damaged(number, why))?;
        // Who is forgotten by an event after `last` was not when this began.
        if number < created || number > last || name != waiting.app.name {
            return Ok(());
        }
        waiting.take(number, Event::decode(bytes).map_err(|why| damaged(number, why))?, table)
    })?;
    if left_out > missed {
        // The end was removed as well.
        waiting.lose_sight();
    }
    let mut open: Vec<(u64, String)> =
        waiting.by_id.iter().map(|(id, waits)| (waits.decided_ms, id.clone())).collect();
    open.sort_unstable();
    for (at, (_, id)) in (0..).zip(open) {
        go_on(at)?;
        if let Some(row) = waiting.remove(&id)? {
            table.add(row)?;
        }
    }
    Ok(left_out)
}

impl ExportRow {
    /// How many items could have been chosen; `None` where that is not known. Versions before did not write down among how
    /// many items decisions of the past were made: one candidate that was not certain.
    pub fn choices(&self) -> Option<u64> {
        let ranked = self.made.ranking.iter().count() as u64;
        match self.catalogue {
            Some((_, among)) => Some(among.max(ranked)).filter(|_| among > 0),
            None => Some(ranked).filter(|_| ranked > 1 || self.made.probability >= 1.0),
        }
    }
}

impl Waiting<'_> {
    fn take(
        &mut self,
        number: u64,
        event: Event,
        table: &mut dyn Table,
    ) -> Result<(), JournalError> {
        let at_ms = event.at_ms;
        match event.what {
            What::Created(settings) | What::Changed(settings) => self.app.settings = settings,
            What::Decided(made) => {
                let decision = TrialDecision { made, control: false, candidates: Box::default() };
                self.decided((number, at_ms), decision, None)?;
            }
            What::DecidedInTrial(decision) => self.decided((number, at_ms), decision, None)?,
            What::DecidedFromCatalogue(CatalogueDecision { decision, version, among }) => {
                self.decided((number, at_ms), decision, Some((version, among)))?;
            }
            What::DecidedElsewhere(past) => {
                // Of no catalogue of this service. Among none: it is not known among how many.
                let among = past.among.unwrap_or(0);
                let made = past.made;
                let decision = TrialDecision { made, control: false, candidates: Box::default() };
                self.decided((number, at_ms), decision, Some((0, among)))?;
            }
            What::Activated(id) => {
                let due_ms = at_ms.saturating_add(self.app.settings.window_ms);
                if let Some(waits) = self.by_id.get_mut(&id) {
                    waits.status = "open";
                    if !self.app.learning.wait_from_decision {
                        self.due.remove(&(waits.due_ms, id.clone()));
                        waits.due_ms = due_ms;
                        self.due.insert((due_ms, id));
                    }
                }
            }
            What::LearningSet(learning) => self.app.learning = learning,
            What::Rewarded { decision, reward } => {
                if self.app.learning.aggregation != Aggregation::Earliest {
                    if self.by_id.contains_key(&decision) {
                        self.gathered.entry(decision).or_default().push(reward);
                    }
                } else if let Some(row) = self.remove(&decision)? {
                    let before = self.gathered.remove(&decision);
                    let first = before.and_then(|rewards| rewards.first().copied());
                    let reward = Some(first.unwrap_or(reward));
                    table.add(ExportRow { status: "rewarded", reward, ..row })?;
                }
            }
            What::TimePassed => self.end_windows(at_ms, |_| true, table)?,
            What::WindowsEnded { due_ms, decision } => {
                let last = (due_ms, decision);
                self.end_windows(due_ms, |due| *due <= last, table)?;
            }
            What::UserForgotten(user) | What::UserRetired(user) => {
                // What waits is not learned any more. What was closed before is told as it was of whoever was retired.
                let theirs = self.by_id.iter().filter(|(_, waits)| *waits.user == *user);
                let theirs: Vec<String> = theirs.map(|(id, _)| id.clone()).collect();
                for id in theirs {
                    if let Some(waits) = self.by_id.remove(&id) {
                        self.due.remove(&(waits.due_ms, id));
                        self.aside.discard(waits.row);
                    }
                }
            }
            What::ClockStepped(by_ms) => {
                for (due_ms, id) in std::mem::take(&mut self.due) {
                    let due_ms = due_ms.saturating_add_signed(by_ms);
                    if let Some(waits) = self.by_id.get_mut(&id) {
                        waits.due_ms = due_ms;
                    }
                    self.due.insert((due_ms, id));
                }
            }
            What::Deleted => self.lose_sight(),
            _ => {}
        }
        Ok(())
    }

    /// Events are not there: what became of those that wait may be among them, so nothing is said of them.
    fn lose_sight(&mut self) {
        self.by_id.drain().for_each(|(_, waits)| self.aside.discard(waits.row));
        self.due.clear();
        self.gathered.clear();
    }

    fn decided(
        &mut self,
        (number, at_ms): (u64, u64),
        TrialDecision { made, control, candidates }: TrialDecision,
        catalogue: Option<(u64, u64)>,
    ) -> io::Result<()> {
        let is_forgotten = self.forgotten.get(&made.user).is_some_and(|by| number < *by);
        if is_forgotten || self.only.is_some_and(|only| only != made.user) {
            return Ok(());
        }
        let features = if self.keeps_features { candidates } else { Box::default() };
        let status = if made.shown { "open" } else { "not_shown" };
        let (decided_ms, reward) = (at_ms, None);
        let due_ms = at_ms.saturating_add(self.app.settings.window_ms);
        let (id, user) = (made.id.clone(), made.user.as_str().into());
        let row = ExportRow { made, decided_ms, control, features, catalogue, status, reward };
        let row = self.aside.put(row)?;
        self.due.insert((due_ms, id.clone()));
        let waits = Waits { user, decided_ms, due_ms, status, row };
        if let Some(before) = self.by_id.insert(id, waits) {
            self.aside.discard(before.row);
        }
        Ok(())
    }

    fn remove(&mut self, id: &str) -> io::Result<Option<ExportRow>> {
        let Some(Waits { due_ms, status, row, .. }) = self.by_id.remove(id) else {
            return Ok(None);
        };
        self.due.remove(&(due_ms, id.to_owned()));
        let row = self.aside.take(row)?;
        Ok(Some(ExportRow { status, ..row }))
    }

    /// What waits and is due becomes a row, as long as it is `wanted`.
    fn end_windows(
        &mut self,
        now_ms: u64,
        wanted: impl Fn(&(u64, String)) -> bool,
        table: &mut dyn Table,
    ) -> Result<(), JournalError> {
        while let Some(due) = self.due.first().filter(|due| due.0 <= now_ms && wanted(due)) {
            let id = due.1.clone();
            let Some(row) = self.remove(&id)? else { break };
            let gathered = self.gathered.remove(&id).unwrap_or_default();
            let reward = self.app.learning.aggregation.of(&gathered);
            if reward.is_some() {
                table.add(ExportRow { status: "rewarded", reward, ..row })?;
                continue;
            }
            let reward = self.app.settings.default_reward.filter(|_| row.status == "open");
            table.add(ExportRow { status: "expired", reward, ..row })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Ranking;
    use crate::journal::Visit;

    /// Events by their numbers, and how many are said to be missing.
    struct Numbered(Vec<(u64, What)>, u64);

    impl EventReader for Numbered {
        fn read(&self, visit: &mut Visit) -> Result<u64, JournalError> {
            for (number, what) in &self.0 {
                let event = Event { app: "shop".to_owned(), at_ms: *number, what: what.clone() };
                let mut bytes = Vec::new();
                event.encode(&mut bytes);
                visit(*number, &bytes)?;
            }
            Ok(self.1)
        }
    }

    fn decided(number: u64) -> (u64, What) {
        let made = Decided {
            id: format!("d{number}"),
            user: "ann".to_owned(),
            ranking: Ranking::new(["tea", "coffee"]),
            context: Box::new([1.0]),
            probability: 1.0,
            shown: true,
        };
        (number, What::Decided(made))
    }

    fn rewarded(number: u64, decision: &str) -> (u64, What) {
        (number, What::Rewarded { decision: decision.to_owned(), reward: 1.0 })
    }

    fn app() -> App {
        let (settings, learning) = (AppSettings::new(1), Learning::default());
        let scratch = Scratch { folder: std::env::temp_dir(), reserve: 0 };
        App { name: "shop".to_owned(), settings, learning, scratch }
    }

    #[derive(Default)]
    struct Collected(Vec<ExportRow>);

    impl Table for Collected {
        fn add(&mut self, row: ExportRow) -> io::Result<()> {
            self.0.push(row);
            Ok(())
        }

        fn finish(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn told(events: Vec<(u64, What)>, missing: u64) -> (Vec<(String, &'static str)>, u64) {
        let app = app();
        let mut theirs = Collected::default();
        let left_out =
            of_user(&[&Numbered(events, missing)], &app, "ann", &mut theirs, &|| true).unwrap();
        (theirs.0.into_iter().map(|row| (row.made.id, row.status)).collect(), left_out)
    }

    fn row(id: &str, status: &'static str) -> (String, &'static str) {
        (id.to_owned(), status)
    }

    #[test]
    fn nothing_is_told_of_decisions_whose_end_may_have_been_removed() {
        let whole = vec![decided(5), decided(6), rewarded(7, "d5"), decided(8)];
        let all = vec![row("d5", "rewarded"), row("d6", "open"), row("d8", "open")];
        assert_eq!(told(whole.clone(), 0), (all, 0));
        // Event 7 is gone: whether `d5` and `d6` were rewarded is not known.
        let holed = whole.iter().filter(|(number, _)| *number != 7).cloned().collect();
        assert_eq!(told(holed, 1), (vec![row("d8", "open")], 1));
        // A reward after the hole belongs to a decision that is not told of any more.
        let late = vec![decided(5), rewarded(9, "d5"), decided(10)];
        assert_eq!(told(late, 3), (vec![row("d10", "open")], 3));
        // The end is gone.
        assert_eq!(told(whole, 2), (vec![row("d5", "rewarded")], 2));
    }

    #[test]
    fn nothing_is_told_of_what_was_decided_before_a_user_was_forgotten() {
        let forgotten = |number| (number, What::UserForgotten("ann".to_owned()));
        let mut events = vec![decided(5), rewarded(6, "d5"), decided(7), forgotten(8)];
        assert_eq!(told(events.clone(), 0), (vec![], 0));
        // Somebody of the same name comes; a reward of before says nothing of her.
        events.extend([rewarded(9, "d7"), decided(10), rewarded(11, "d10"), decided(12)]);
        let hers = vec![row("d10", "rewarded"), row("d12", "open")];
        assert_eq!(told(events.clone(), 0), (hers.clone(), 0));
        // Twice, and somebody else in the whole log.
        let (number, What::Decided(of_eve)) = decided(13) else { panic!("another event") };
        events.push((number, What::Decided(Decided { user: "eve".to_owned(), ..of_eve })));
        events.push(forgotten(14));
        assert_eq!(told(events.clone(), 0), (vec![], 0));
        let mut all = Collected::default();
        fold(&[&Numbered(events, 0)], &app(), &mut all, &|| true).unwrap();
        let all: Vec<String> = all.0.into_iter().map(|row| row.made.id).collect();
        assert_eq!(all, ["d13"]);
        // Whoever is retired goes on being in the log.
        let retired = (7, What::UserRetired("ann".to_owned()));
        let events = vec![decided(5), rewarded(6, "d5"), retired];
        assert_eq!(told(events, 0), (vec![row("d5", "rewarded")], 0));
    }

    #[test]
    fn reading_ends_when_nobody_waits_for_it() {
        let visited = std::cell::Cell::new(0);
        let events = (1..10_000).map(|number| rewarded(number, "none")).collect();
        let wanted = || {
            visited.set(visited.get() + 1);
            visited.get() < 3
        };
        let read = fold(&[&Numbered(events, 0)], &app(), &mut Collected::default(), &wanted);
        assert!(matches!(read, Err(JournalError::Store { .. })), "{read:?}");
        assert_eq!(visited.get(), 3);
    }
}
