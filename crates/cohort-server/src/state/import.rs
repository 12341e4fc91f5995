//! An app that has learned elsewhere: a policy trained outside the service, in a state that the
//! service can start from, and the way back.

use super::{App, State};
use crate::settings::{AppSettings, BadSettings};

/// Why what was learned elsewhere cannot be taken over.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// Settings that no app can have.
    #[error(transparent)]
    Settings(#[from] BadSettings),
    /// Bytes that do not fit the policy.
    #[error(transparent)]
    Learned(#[from] cohort::Error),
    /// Users that are not all different.
    #[error("user `{0}` is there twice")]
    Twice(String),
}

impl State {
    /// A state of one app whose policy has learned `learned` of `users`, before any event.
    pub fn with_app<'a>(
        name: &str,
        settings: AppSettings,
        at_ms: u64,
        users: impl IntoIterator<Item = &'a str>,
        mut learned: &[u8],
    ) -> Result<Self, ImportError> {
        let mut app = App::new(settings, at_ms)?;
        for (number, user) in users.into_iter().enumerate() {
            // A user that was forgotten has left its number.
            if user.is_empty() {
                app.users.add_hole();
                continue;
            }
            if app.users.append(user) != Some(number) {
                return Err(ImportError::Twice(user.to_owned()));
            }
            app.seen.touch(number, at_ms);
        }
        let fixed = BadSettings::Fixed(app.settings.policy.clone());
        app.online().saved().ok_or(fixed)?.load(&mut learned)?;
        let mut state = State::default();
        state.apps.insert(name.to_owned(), app);
        Ok(state)
    }
}

impl App {
    /// What its policy has learned; `None` where that cannot be kept.
    pub fn learned(&mut self) -> Option<Vec<u8>> {
        let mut learned = Vec::new();
        self.online().saved()?.save(&mut learned).ok()?;
        Some(learned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cohort::Contexts;

    #[test]
    fn what_was_learned_elsewhere_comes_back_out_of_a_state() {
        let settings = AppSettings { policy: "linucb-ind".to_owned(), ..AppSettings::new(2) };
        let mut policy = settings.build().unwrap();
        let online = policy.online().unwrap();
        online.learn_one(1, Contexts::new(&[0.5, 0.25], 2).unwrap().arm(0), 1.0);
        let mut learned = Vec::new();
        online.saved().unwrap().save(&mut learned).unwrap();

        let with = |users: &[&str], learned: &[u8]| {
            State::with_app("shop", settings.clone(), 5, users.iter().copied(), learned)
        };
        let mut state = with(&["ann", "bob"], &learned).unwrap();
        let mut bytes = Vec::new();
        state.save(&mut bytes).unwrap();
        let mut state = State::load(&mut bytes.as_slice()).unwrap();
        let app = state.app_mut("shop").unwrap();
        assert_eq!(app.users().iter().collect::<Vec<_>>(), ["ann", "bob"]);
        assert_eq!(app.learned().unwrap(), learned);

        assert!(with(&["ann", "ann"], &learned).is_err_and(|why| why.to_string().contains("ann")));
        assert!(with(&[], &learned[..9]).is_err_and(|why| why.to_string().contains("saved state")));
    }
}
