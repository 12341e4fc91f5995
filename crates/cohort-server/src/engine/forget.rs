//! Who is forgotten, and when? Users that were not seen for long, so that memory has an end, and
//! whoever is asked to be.
//!
//! Whoever was not seen for long is retired: nothing tells any more who it was, and what it taught goes on
//! telling what users have in common. Of whoever is asked to be forgotten statistics go, too; what users have
//! in common stays as it was fitted with them, until the next fit. Both are events: replayed, the same users
//! are gone.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{Answer, Engine, Refusal};
use crate::event::What;
use crate::journal::Group;

/// Users of one app that are forgotten at once because of their age, or of all because memory is scarce: nobody
/// waits long for it.
pub(crate) const AT_ONCE: usize = 256;

impl Engine {
    /// Whether users or apps went since this was last asked: something of them is still on disk.
    pub fn has_erased(&mut self) -> bool {
        std::mem::take(&mut self.has_erased)
    }

    /// Forgets whoever is asked to be. Of a user that is not known any more, be it retired, gone with a model or forgotten
    /// before, the log may still have decisions, and the state keeps no names to tell that from one that never came: the
    /// event is written for any name, and nothing that was decided for it before is told after it.
    pub(super) fn forget_user(
        &mut self,
        at_ms: u64,
        app: &str,
        user: String,
        group: &mut Group,
    ) -> Result<(), Refusal> {
        match self.app(app)?.users().find(&user) {
            Some(_) => self.let_user_go(at_ms, app, user, What::UserForgotten, group),
            None => self.record(group, app, at_ms, What::UserForgotten(user)),
        }
    }

    fn let_user_go(
        &mut self,
        at_ms: u64,
        app: &str,
        user: String,
        how: fn(String) -> What,
        group: &mut Group,
    ) -> Result<(), Refusal> {
        if !self.app_mut(app)?.can_forget() {
            let policy = self.app(app)?.settings().policy.clone();
            return Err(Refusal::CannotForget { policy });
        }
        self.record(group, app, at_ms, how(user.clone()))?;
        if let Some(recent) = self.recent.get_mut(app) {
            recent.forget(&user);
        }
        Ok(())
    }

    /// So much of the time may be a jump of the calendar: nobody is forgotten for it.
    pub fn doubt_ages(&mut self, doubted_ms: u64) {
        self.doubted_ms = doubted_ms;
    }

    /// Retires those who were not seen for longest, of all apps that can forget, because memory is scarce.
    pub(super) fn retire_unseen(
        &mut self,
        now_ms: u64,
        most: usize,
        group: &mut Group,
    ) -> Result<Answer, Refusal> {
        let names: Vec<String> = self.state.apps().keys().cloned().collect();
        let mut longest: BinaryHeap<Reverse<(u64, String)>> = BinaryHeap::new();
        for app in names {
            if self.troubles.quarantine(&app).is_none() && self.app_mut(&app)?.can_forget() {
                longest.extend(self.longest_unseen_of(app));
            }
        }
        let mut retired = 0;
        while retired < most.min(AT_ONCE)
            && let Some(Reverse((_, app))) = longest.pop()
        {
            let done = self.guarded(&app, group, |engine, group| {
                let at_ms = engine.advance(now_ms, &app, group)?;
                let known = engine.app(&app)?;
                let unseen =
                    known.seen().longest_unseen().map(|(user, _)| known.users().name(user));
                if let Some(user) = unseen.map(str::to_owned) {
                    engine.let_user_go(at_ms, &app, user, What::UserRetired, group)?;
                }
                Ok(Answer::Done)
            });
            // An app that is quarantined keeps its users; the others go on.
            if done.is_ok() {
                retired += 1;
                longest.extend(self.longest_unseen_of(app));
            }
        }
        metrics::counter!("cohort_users_forgotten_total", "why" => "memory")
            .increment(retired as u64);
        Ok(Answer::Done)
    }

    /// When whoever of an app was not seen for longest was seen, so that the longest of all can be found.
    fn longest_unseen_of(&self, app: String) -> Option<Reverse<(u64, String)>> {
        let (_, seen_ms) = self.app(&app).ok()?.seen().longest_unseen()?;
        Some(Reverse((seen_ms, app)))
    }

    /// Makes room for a user that is new, where there are as many as may be: whoever was not seen for
    /// longest goes.
    pub(super) fn make_room_for(
        &mut self,
        at_ms: u64,
        app: &str,
        user: &str,
        group: &mut Group,
    ) -> Result<(), Refusal> {
        let known = self.app(app)?;
        if known.users().count() < self.limits.users || known.users().find(user).is_some() {
            return Ok(());
        }
        let limit = self.limits.users;
        let longest = known.seen().longest_unseen().map(|(user, _)| known.users().name(user));
        let Some(longest) = longest.map(str::to_owned) else {
            return Err(Refusal::TooManyUsers { limit });
        };
        match self.let_user_go(at_ms, app, longest, What::UserRetired, group) {
            Err(Refusal::CannotForget { .. }) => Err(Refusal::TooManyUsers { limit }),
            done => {
                metrics::counter!("cohort_users_forgotten_total", "why" => "room").increment(1);
                done
            }
        }
    }

    /// Forgets those who were not seen for longer than they may, some at a time.
    pub(super) fn forget_the_unseen(
        &mut self,
        at_ms: u64,
        app: &str,
        group: &mut Group,
    ) -> Result<(), Refusal> {
        if self.limits.user_age_ms == 0 {
            return Ok(());
        }
        for _ in 0..AT_ONCE {
            let known = self.app(app)?;
            let Some((user, seen_ms)) = known.seen().longest_unseen() else { return Ok(()) };
            if seen_ms.saturating_add(self.limits.user_age_ms + self.doubted_ms) > at_ms {
                return Ok(());
            }
            let user = known.users().name(user).to_owned();
            match self.let_user_go(at_ms, app, user, What::UserRetired, group) {
                Err(Refusal::CannotForget { .. }) => return Ok(()),
                done => done?,
            }
            metrics::counter!("cohort_users_forgotten_total", "why" => "age").increment(1);
        }
        Ok(())
    }
}
