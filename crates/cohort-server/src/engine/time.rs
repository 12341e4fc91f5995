//! What does time do? It ends windows, lets users be forgotten, and may be set.

use super::recent::Recent;
use super::{Answer, Engine, Refusal};
use crate::event::What;
use crate::journal::Group;
use crate::state::{App, Decision, Status};

/// What closing a window costs beside learning from it, in the unit of d².
const WINDOW_WORK: u64 = 200;

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

    /// Brings an app to the present: where windows have ended since, that is an event of its own. Where
    /// very many have, some are closed now and the others soon; whoever asks for one that has ended is
    /// told so meanwhile. Returns the time that the app's next event has.
    pub(super) fn advance(
        &mut self,
        now_ms: u64,
        app: &str,
        group: &mut Group,
    ) -> Result<u64, Refusal> {
        let known = self.app(app)?;
        let at_ms = now_ms.max(known.now_ms());
        let dim = known.settings().dim as u64;
        let most = self.limits.window_work / (dim * dim + WINDOW_WORK);
        if let Some((due_ms, id)) = known.decisions().part_due(at_ms, most as usize) {
            let decision = id.to_owned();
            self.is_behind = true;
            self.record(group, app, at_ms, What::WindowsEnded { due_ms, decision })?;
        } else if known.decisions().first_due(at_ms).is_some() {
            self.record(group, app, at_ms, What::TimePassed)?;
        }
        Ok(at_ms)
    }

    /// Brings an app to the present, however long that takes.
    pub(super) fn catch_up(
        &mut self,
        now_ms: u64,
        app: &str,
        group: &mut Group,
    ) -> Result<u64, Refusal> {
        let at_ms = self.advance(now_ms, app, group)?;
        if self.app(app)?.decisions().first_due(at_ms).is_some() {
            self.record(group, app, at_ms, What::TimePassed)?;
        }
        Ok(at_ms)
    }

    /// Whether windows have ended that are not closed, since this was last asked: time should pass again
    /// soon.
    pub fn is_behind(&mut self) -> bool {
        std::mem::take(&mut self.is_behind)
    }
}

/// What a decision is by then, although it may not have been closed yet; nothing if it is forgotten.
pub(super) fn status_at(app: &App, found: &Decision, at_ms: u64) -> Option<Status> {
    match found.status {
        status if app.decisions().due(found) > at_ms => Some(status),
        Status::Open => Some(Status::Expired(None)),
        Status::NotShown => None,
        // It is remembered for longer than it must be.
        closed => Some(closed),
    }
}
