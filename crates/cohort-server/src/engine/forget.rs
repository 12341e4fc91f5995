//! Who is forgotten, and when? Users that were not seen for long, so that memory has an end, and
//! whoever is asked to be.
//!
//! A policy forgets a user's own statistics; what users have in common stays as it was fitted with
//! them, until the next fit. That it was forgotten is an event: replayed, the same users are gone.

use super::{Engine, Refusal};
use crate::event::What;
use crate::journal::Group;

/// Users of one app that are forgotten at once because of their age: nobody waits long for it.
const AT_ONCE: usize = 256;

impl Engine {
    pub(super) fn forget_user(
        &mut self,
        at_ms: u64,
        app: &str,
        user: String,
        group: &mut Group,
    ) -> Result<(), Refusal> {
        if !self.app_mut(app)?.can_forget() {
            let policy = self.app(app)?.settings().policy.clone();
            return Err(Refusal::CannotForget { policy });
        }
        self.record(group, app, at_ms, What::UserForgotten(user.clone()))?;
        if let Some(recent) = self.recent.get_mut(app) {
            recent.forget(&user);
        }
        Ok(())
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
        match self.forget_user(at_ms, app, longest, group) {
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
            if seen_ms.saturating_add(self.limits.user_age_ms) > at_ms {
                return Ok(());
            }
            let user = known.users().name(user).to_owned();
            match self.forget_user(at_ms, app, user, group) {
                Err(Refusal::CannotForget { .. }) => return Ok(()),
                done => done?,
            }
            metrics::counter!("cohort_users_forgotten_total", "why" => "age").increment(1);
        }
        Ok(())
    }
}
