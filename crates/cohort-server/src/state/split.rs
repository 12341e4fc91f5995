//! How do users of one state go to partitions of a cluster, and how do those of several come together again?

use cohort::SharedFits;

use super::decisions::Decision;
use super::{App, Outcomes, State};
use crate::learning::Apprenticeship;

/// Why users cannot be taken apart, as a sentence.
pub type NotSplit = String;

impl State {
    /// Keeps some users, as if no other had ever come, before any event. What was counted of all stays where `counts` says so.
    pub fn keep_users(
        &mut self,
        keeps: impl Fn(&str, &str) -> bool,
        counts: bool,
    ) -> Result<(), NotSplit> {
        self.last_event = 0;
        for (name, app) in &mut self.apps {
            let whole = app.keep_users(|user| keeps(name, user), counts);
            whole.map_err(|why| format!("app `{name}`: {why}"))?;
        }
        Ok(())
    }

    /// Takes in the users of other states of the same apps, before any event. Returns the apps whose models cannot be put together, and
    /// begin anew.
    pub fn take_in(&mut self, mut others: Vec<Self>) -> Result<Vec<String>, NotSplit> {
        self.last_event = 0;
        let mut anew = Vec::new();
        for (name, app) in &mut self.apps {
            let parts = others.iter_mut().filter_map(|other| other.apps.remove(name)).collect();
            let learned = app.take_in(parts).map_err(|why| format!("app `{name}`: {why}"))?;
            if !learned {
                anew.push(name.clone());
            }
        }
        Ok(anew)
    }
}

impl App {
    /// What fits its model to users of all partitions of a cluster. Numbers that JSON becomes are scaled by what was seen
    /// here, and are not compared with others'.
    pub fn shared_fits(&mut self) -> Option<&mut dyn SharedFits> {
        if self.encoder.is_some() {
            return None;
        }
        self.policy.refits()?.shared()
    }

    fn keep_users(&mut self, keeps: impl Fn(&str) -> bool, counts: bool) -> Result<(), NotSplit> {
        let goes = |user: &&str| !user.is_empty() && !keeps(user);
        let gone: Vec<String> = self.users.iter().filter(goes).map(str::to_owned).collect();
        if !gone.is_empty() && !self.can_forget() {
            return Err(format!(
                "its policy `{}` cannot tell what it learned of one user from what it learned of others; change the policy, or leave the \
                 app where it is",
                self.settings.policy
            ));
        }
        for user in gone {
            self.remove_user(&user, |online, user| online.forget(user))?;
        }
        if !counts {
            self.counts = Default::default();
            self.outcomes = Outcomes::default();
            self.apprenticeship = Apprenticeship::default();
        }
        if let Some(fits) = self.shared_fits() {
            fits.count_own();
        }
        Ok(())
    }

    /// Takes in users of the same app elsewhere; whether what was learned of them could be.
    fn take_in(&mut self, others: Vec<Self>) -> Result<bool, NotSplit> {
        let mut seen = Vec::new();
        let mut buckets = self.outcomes.buckets().to_vec();
        let mut learned = true;
        for mut other in others {
            self.now_ms = self.now_ms.max(other.now_ms);
            self.learned_ms = self.learned_ms.max(other.learned_ms);
            let mut numbers = Vec::new();
            for number in 0..other.users.len() {
                let name = other.users.name(number);
                let new = if name.is_empty() { None } else { self.users.find_or_add(name) };
                numbers.push(new);
            }
            let known = |number: usize| numbers.get(number).copied().flatten();
            seen.extend(other.seen.iter().filter_map(|(user, at)| Some((at, known(user)?))));
            for found in other.decisions.iter() {
                let due_ms = other.decisions.due(found);
                let Some(user) = known(found.user as usize) else { continue };
                // An id that was used for users of two partitions: the first counts.
                if self.decisions.get(&found.made.id).is_none() {
                    let Decision { made, control, at_ms, status, .. } = found.clone();
                    let mut decision =
                        Decision::new(made, user as u32, control, at_ms, due_ms, status);
                    decision.gathered = found.gathered.clone();
                    decision.agreed = found.agreed;
                    decision.elsewhere = found.elsewhere;
                    self.decisions.insert(decision);
                }
            }
            self.counts.add(&other.counts);
            self.apprenticeship.add(&other.apprenticeship);
            // Weights of two models cannot be added: that of the one that saw more goes on.
            if other.imitator.seen() > self.imitator.seen() {
                self.imitator = other.imitator;
            }
            buckets.extend(other.outcomes.buckets());
            let shared = other.policy.saved().and_then(|saved| saved.share().ok());
            learned &= match (self.shared_fits(), shared) {
                (Some(fits), Some(shared)) => {
                    fits.take_in(shared, &mut |user| known(user)).map_err(|why| why.to_string())?;
                    true
                }
                _ => other.users.count() == 0,
            };
        }
        self.outcomes = Outcomes::merged(buckets);
        seen.sort_unstable();
        for (at_ms, user) in seen {
            self.seen.touch(user, at_ms);
        }
        Ok(learned)
    }
}

impl super::Counts {
    fn add(&mut self, other: &Self) {
        self.decisions += other.decisions;
        self.rewards += other.rewards;
        self.reward_sum += other.reward_sum;
        self.defaults += other.defaults;
        self.unrewarded += other.unrewarded;
    }
}

impl Apprenticeship {
    fn add(&mut self, other: &Self) {
        self.decisions += other.decisions;
        self.agreed += other.agreed;
        self.rewards += other.rewards;
        self.reward_sum += other.reward_sum;
        self.agreed_rewards += other.agreed_rewards;
        self.agreed_reward_sum += other.agreed_reward_sum;
    }
}
