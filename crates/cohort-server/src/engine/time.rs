//! What does time do? It ends windows, lets users be forgotten, and may be set.

use super::recent::Recent;
use super::{Answer, Engine, Refusal};
use crate::event::What;
use crate::journal::Group;

impl Engine {
    /// Brings all apps to the present.
    pub(super) fn pass_time(&mut self, now_ms: u64, group: &mut Group) -> Result<Answer, Refusal> {
        self.for_all(group, |engine, app, group| {
            let at_ms = engine.advance(now_ms, app, group)?;
            engine.forget_the_unseen(at_ms, app, group)
        })
    }

    /// Tells all apps that the calendar was set: whatever waits for a moment waits as long as before.
    pub(super) fn step_clock(
        &mut self,
        now_ms: u64,
        by_ms: i64,
        group: &mut Group,
    ) -> Result<Answer, Refusal> {
        self.recent.values_mut().for_each(Recent::clock_stepped);
        self.for_all(group, |engine, app, group| {
            engine.record(group, app, now_ms, What::ClockStepped(by_ms))
        })
    }

    fn for_all(
        &mut self,
        group: &mut Group,
        mut work: impl FnMut(&mut Self, &str, &mut Group) -> Result<(), Refusal>,
    ) -> Result<Answer, Refusal> {
        let names: Vec<String> = self.state.apps().keys().cloned().collect();
        for app in names {
            // Of an app that is quarantined nothing more is said; the others go on.
            let _ = self.guarded(&app, group, |engine, group| {
                work(engine, &app, group).map(|()| Answer::Done)
            });
        }
        Ok(Answer::Done)
    }

    /// Brings an app to the present: where windows have ended since, that is an event of its own.
    /// Returns the time that the app's next event has.
    pub(super) fn advance(
        &mut self,
        now_ms: u64,
        app: &str,
        group: &mut Group,
    ) -> Result<u64, Refusal> {
        let known = self.app(app)?;
        let at_ms = now_ms.max(known.now_ms());
        if known.decisions().first_due(at_ms).is_some() {
            self.record(group, app, at_ms, What::TimePassed)?;
        }
        Ok(at_ms)
    }
}
