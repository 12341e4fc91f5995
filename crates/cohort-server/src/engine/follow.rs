//! What does a partition take over from its cluster? Apps, keys, catalogues and what users have in common come from the
//! control stream. A partition writes down in its own journal what it takes over, so that its journal alone gives its
//! state; every frame says up to which event of the control stream it had come.

use std::sync::{Arc, Mutex};

use super::{Answer, Engine, Refusal};
use crate::event::{Event, What};
use crate::journal::Group;

/// Growth of the rewards of a partition that whoever fits for all is told of.
const TELLING_GROWTH: f64 = 1.02;

impl Engine {
    /// A partition of a cluster, which had come so far. `fits` says whether it fits what users have in common by
    /// itself, or takes it over too.
    pub fn in_cluster(self, followed: u64, fits: bool) -> Self {
        Self { followed, fits, ..self }
    }

    /// Up to which event of the control stream it has come.
    pub fn followed(&self) -> u64 {
        self.followed
    }

    /// Whether the model of an app is fitted here. Numbers that JSON becomes are scaled by what each partition has
    /// seen, and so are not compared across partitions.
    pub(super) fn fits_here(&mut self, app: &str) -> Result<bool, Refusal> {
        Ok(self.fits || self.app_mut(app)?.shared_fits().is_none())
    }

    /// Says how many rewards an app has, where that is worth a look of whoever fits for all partitions.
    pub(super) fn tell_rewards(&mut self, app: &str) -> Result<(), Refusal> {
        let rewards = self.app_mut(app)?.shared_fits().map_or(0.0, |fits| fits.rewards());
        let told = self.refits.told.get(app).copied().unwrap_or(0.0);
        if rewards < told || rewards > told && rewards >= told * TELLING_GROWTH {
            self.refits.told.insert(app.to_owned(), rewards);
            self.refits.to_tell.push((app.to_owned(), rewards));
        }
        Ok(())
    }

    /// Has the model of an app fitted for all partitions, if that is due and nobody is at it.
    pub(super) fn fit_together(
        &mut self,
        app: &str,
        ask: cohort::AskAll,
        next_look: Arc<Mutex<f64>>,
    ) -> Result<Answer, Refusal> {
        if self.refits.under_way.contains_key(app) {
            return Err(Refusal::Overloaded);
        }
        let job = self.app_mut(app)?.shared_fits().map(|fits| fits.ask_others(ask, next_look));
        if let Some(job) = job {
            self.begin_refit(app, job);
        }
        Ok(Answer::Done)
    }

    pub(super) fn follow(
        &mut self,
        now_ms: u64,
        number: u64,
        events: Vec<Event>,
        group: &mut Group,
    ) -> Result<Answer, Refusal> {
        if number <= self.followed {
            return Ok(Answer::Done);
        }
        // Frames that hold these events say so.
        self.followed = number;
        group.set_control(number);
        for event in events {
            let app = event.app.clone();
            let followed = match event.what {
                What::Created(_) | What::Deleted => {
                    self.follow_one(now_ms, event, group).map(|()| Answer::Done)
                }
                _ => self.guarded(&app, group, |engine, group| {
                    engine.follow_one(now_ms, event, group).map(|()| Answer::Done)
                }),
            };
            if let Err(why) = followed {
                tracing::error!(app, %why, "what the control stream says cannot be followed");
            }
        }
        Ok(Answer::Done)
    }

    fn follow_one(&mut self, now_ms: u64, event: Event, group: &mut Group) -> Result<(), Refusal> {
        let Event { app, at_ms, what } = event;
        let at_ms = match &what {
            What::Created(_) => at_ms,
            What::Deleted => now_ms.max(self.app(&app)?.now_ms()),
            // What has ended by now is learned by the settings, and with the model, of before.
            What::Changed(_)
            | What::TrialSet(_)
            | What::LearningSet(_)
            | What::ModelReplaced(_) => self.catch_up(now_ms, &app, group)?,
            What::Refitted(_) if self.fits_here(&app)? => return Ok(()),
            // Of users and of time the control stream says nothing that concerns others.
            What::TimePassed
            | What::WindowsEnded { .. }
            | What::ClockStepped(_)
            | What::UserForgotten(_)
            | What::CaughtUp
            | What::Decided(_)
            | What::DecidedInTrial(_)
            | What::Watched { .. }
            | What::DecidedElsewhere(_)
            | What::Imitated { .. }
            | What::Activated(_)
            | What::Rewarded { .. } => return Ok(()),
            _ => self.advance(now_ms, &app, group)?,
        };
        let (ends, forgets) =
            (matches!(what, What::Deleted), matches!(what, What::ModelReplaced(_)));
        self.record(group, &app, at_ms, what)?;
        if ends || forgets {
            self.refits.under_way.remove(&app);
            self.recent.remove(&app);
        }
        if ends {
            self.troubles.forget(&app);
            self.refits.put_off.remove(&app);
            self.refits.told.remove(&app);
        }
        Ok(())
    }
}
