//! How is all that made for an app, from one short look at it?

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use cohort::insight::Position;
use cohort::population::Membership;

use super::average::{difference, interval, mean};
use super::inspect;
use super::labels::{Labels, letter};
use super::projection::Projection;
use super::view::{
    AppInsight, Average, CandidateView, CohortView, Curve, CurvePoint, Distinction, FeaturePart,
    Lift, MapPoint, MapView, MembershipView, PopulationView, ReasonsView, RecentDecision,
    UserInsight,
};
use crate::engine::explained;
use crate::engine::recent::{Reasons, Recent};
use crate::engine::refusal::Refusal;
use crate::engine::runtime::Handle;
use crate::state::{App, Counts, Moments, Outcomes, Status};

/// The most users on a map.
pub const SAMPLE: usize = 1500;
/// How long a look may take on the engine's thread: a fifth of a percent of it, at one look a second.
/// Users that do not fit are looked at the next time.
const LOOK: Duration = Duration::from_millis(2);
/// The most decisions in a list.
const RECENT: usize = 40;
/// Features by which a cohort is described.
const DISTINCTIONS: usize = 3;
/// Rates are told of two looks at most so far apart.
const RATE_SECONDS: f64 = 10.0;

/// What is remembered of an app between two looks.
#[derive(Default)]
pub struct Maker {
    /// Which app it has looked at.
    identity: Option<(u64, u64)>,
    ticks: u64,
    labels: Labels,
    projection: Option<Projection>,
    cohorts: usize,
    users: usize,
    /// What is known of where users are, by number.
    places: BTreeMap<usize, Place>,
    /// The user that the next look begins with.
    next: usize,
    before: Option<(Instant, u64, u64)>,
}

/// Where a user was when it was last looked at.
struct Place {
    user: String,
    estimate: Vec<f64>,
    colour: Option<usize>,
    share: f64,
    rewards: f64,
}

/// What a look brings back: copies, to work with in peace.
struct Seen {
    identity: (u64, u64),
    policy: String,
    dim: usize,
    feature_names: Vec<String>,
    users: usize,
    /// Numbers that users have, or had.
    numbers: usize,
    waiting: usize,
    counts: Counts,
    control_share: f64,
    now_ms: u64,
    outcomes: Outcomes,
    population: Option<Population>,
    /// Users' numbers, names and positions.
    places: Vec<(usize, String, Position)>,
    /// Numbers of which nothing is known, or nothing any more.
    unknown: Vec<usize>,
    /// The first user that was not looked at.
    next: usize,
    recent: Vec<RecentDecision>,
}

/// What is copied of a population.
struct Population {
    noise: f64,
    level: f64,
    /// Weight, spread and centre of each component; the first is the population at large.
    components: Vec<(f64, f64, Vec<f64>)>,
}

impl Maker {
    /// The app as it is now.
    pub async fn make(&mut self, engine: &Handle, app: &str) -> Result<AppInsight, Refusal> {
        let mut numbers = sample(self.users);
        self.places.retain(|user, _| numbers.binary_search(user).is_ok());
        let first = numbers.partition_point(|user| *user < self.next);
        numbers.rotate_left(first);
        let seen = inspect(engine, app, move |app, recent| see(app, recent, &numbers)).await?;
        if self.identity != Some(seen.identity) {
            // Another app of the same name: nothing of the one before is shown.
            *self = Self { identity: Some(seen.identity), ..Self::default() };
        }
        (self.users, self.next) = (seen.numbers, seen.next);
        Ok(self.describe(app, seen))
    }

    /// Labels of cohorts, for centres that were seen elsewhere.
    pub fn labels(&self) -> &Labels {
        &self.labels
    }

    fn describe(&mut self, app: &str, seen: Seen) -> AppInsight {
        let counts = seen.counts;
        let rewards = counts.rewards + counts.defaults;
        let (now, before) = (Instant::now(), self.before);
        self.before = Some((now, counts.decisions, rewards));
        let rate = |count: u64, of: fn(&(Instant, u64, u64)) -> u64| {
            let before = before.as_ref()?;
            let seconds = now.duration_since(before.0).as_secs_f64();
            let fresh = seconds > 0.0 && seconds <= RATE_SECONDS;
            fresh.then(|| count.saturating_sub(of(before)) as f64 / seconds)
        };
        self.ticks += 1;
        let centres: Vec<Vec<f64>> = seen.population.as_ref().map_or_else(Vec::new, cohort_centres);
        let labels = self.labels.follow(&centres);
        self.place(&seen, &labels);
        let map = self.map(&seen, labels.len());
        AppInsight {
            app: app.to_owned(),
            tick: self.ticks,
            at_ms: seen.now_ms,
            policy: seen.policy,
            dim: seen.dim,
            feature_names: seen.feature_names,
            users: seen.users,
            waiting: seen.waiting,
            decisions: counts.decisions,
            rewards,
            decisions_per_second: rate(counts.decisions, |before| before.1),
            rewards_per_second: rate(rewards, |before| before.2),
            curve: curve(&seen.outcomes, seen.control_share),
            population: seen.population.map(|found| found.view(&labels, seen.users)),
            map,
            recent: seen.recent,
        }
    }

    /// Remembers where the users are that were looked at, in the colours of now.
    fn place(&mut self, seen: &Seen, labels: &[usize]) {
        for number in &seen.unknown {
            self.places.remove(number);
        }
        for (number, user, at) in &seen.places {
            let membership = at.membership.filter(|found| found.component > 0);
            let place = Place {
                user: user.clone(),
                estimate: at.estimate.clone(),
                colour: membership.and_then(|found| labels.get(found.component - 1).copied()),
                share: at.membership.map_or(1.0, |found| found.share),
                rewards: at.rewards,
            };
            self.places.insert(*number, place);
        }
    }

    fn map(&mut self, seen: &Seen, cohorts: usize) -> MapView {
        let centres = seen.population.iter().flat_map(|found| found.components.iter().skip(1));
        let weighted: Vec<(f64, &[f64])> = match cohorts >= 3 {
            true => centres.map(|(_, _, centre)| (1.0, centre.as_slice())).collect(),
            false => self.places.values().map(|at| (1.0, at.estimate.as_slice())).collect(),
        };
        // With other cohorts the map begins anew, its longer side from left to right.
        let same = self.cohorts == cohorts;
        self.cohorts = cohorts;
        let before = self.projection.as_ref().filter(|_| same);
        let projection = Projection::of(weighted.into_iter(), seen.dim, before);
        let points = self.places.values().map(|at| {
            let [x, y] = projection.place(&at.estimate);
            MapPoint {
                user: at.user.clone(),
                x: rounded(x),
                y: rounded(y),
                colour: at.colour,
                share: rounded(at.share),
                rewards: at.rewards,
            }
        });
        let map = MapView { users: seen.users, sample: SAMPLE, points: points.collect() };
        self.projection = Some(projection);
        map
    }
}

/// Four digits: more than a screen shows, and half the bytes.
fn rounded(number: f64) -> f64 {
    (number * 1e4).round() / 1e4
}

/// The numbers of the users to show, of so many. Users are taken by a scrambled number below a bound
/// that only falls as users come: a sample that keeps most of itself.
fn sample(users: usize) -> Vec<usize> {
    if users <= SAMPLE {
        return (0..SAMPLE).collect();
    }
    let bound = (SAMPLE as f64 / users as f64 * f64::from(u32::MAX)) as u32;
    let scrambled = |user: &usize| (*user as u32).wrapping_mul(0x9E37_79B1) <= bound;
    (0..users).filter(scrambled).take(SAMPLE).collect()
}

/// On the engine's thread: copies only.
fn see(app: &mut App, recent: &Recent, numbers: &[usize]) -> Seen {
    let insight = app.insight();
    let population =
        insight.and_then(|insight| insight.population()).map(|population| Population {
            noise: population.noise.sqrt(),
            level: population.mean_level(),
            components: (population.components.iter().enumerate())
                .map(|(c, one)| (one.weight, population.spread(c).sqrt(), population.centre(c)))
                .collect(),
        });
    let started = Instant::now();
    let mut next = 0;
    let (mut found, mut unknown) = (Vec::new(), Vec::new());
    for user in numbers {
        if started.elapsed() > LOOK {
            next = *user;
            break;
        }
        match insight.and_then(|insight| insight.position(*user)) {
            Some(at) if at.rewards > 0.0 => found.push((*user, at)),
            _ => unknown.push(*user),
        }
    }
    let known = found.into_iter();
    let known = known.filter(|(user, _)| *user < app.users().len());
    let places = known.map(|(user, at)| (user, app.users().name(user).to_owned(), at)).collect();
    Seen {
        identity: app.identity(),
        policy: app.settings().policy.clone(),
        dim: app.settings().dim,
        feature_names: app.feature_names(),
        users: app.users().count(),
        numbers: app.users().len(),
        waiting: app.decisions().waiting(),
        counts: app.counts(),
        control_share: app.trial().control,
        now_ms: app.now_ms(),
        outcomes: app.outcomes().clone(),
        population,
        places,
        unknown,
        next,
        recent: recent.iter().take(RECENT).map(|reasons| listed(app, reasons)).collect(),
    }
}

/// A decision in a list.
fn listed(app: &App, reasons: &Reasons) -> RecentDecision {
    let status = app.decisions().get(&reasons.id).map(|found| found.status);
    let (status, reward) = match status {
        None => ("forgotten", None),
        Some(status) => told(status),
    };
    RecentDecision {
        decision_id: reasons.id.clone(),
        user: reasons.user.clone(),
        item: reasons.candidates.first().map(|first| first.item.clone()).unwrap_or_default(),
        probability: reasons.probability,
        control: reasons.control,
        decided_ms: reasons.at_ms,
        status: status.to_owned(),
        reward,
    }
}

/// A status as it is told, and what was learned.
pub fn told(status: Status) -> (&'static str, Option<f64>) {
    match status {
        Status::NotShown => ("not_shown", None),
        Status::Open => ("open", None),
        Status::Rewarded(reward) => ("rewarded", Some(reward)),
        Status::Expired(default) => ("expired", default),
    }
}

fn cohort_centres(population: &Population) -> Vec<Vec<f64>> {
    population.components.iter().skip(1).map(|(_, _, centre)| centre.clone()).collect()
}

impl Population {
    /// Σ_c π_c μ_c.
    fn average_user(&self) -> Vec<f64> {
        let mut average =
            vec![0.0; self.components.first().map_or(0, |(_, _, centre)| centre.len())];
        for (weight, _, centre) in &self.components {
            for (sum, value) in average.iter_mut().zip(centre) {
                *sum += weight * value;
            }
        }
        average
    }

    fn view(&self, labels: &[usize], users: usize) -> PopulationView {
        let average = self.average_user();
        let cohorts = self.components.iter().skip(1).zip(labels).enumerate();
        let mut cohorts: Vec<CohortView> = cohorts
            .map(|(number, ((weight, spread, centre), label))| {
                let differences = centre.iter().zip(&average).map(|(own, all)| own - all);
                let mut distinct: Vec<Distinction> = (differences.enumerate())
                    .map(|(feature, difference)| Distinction { feature, difference })
                    .collect();
                distinct.sort_by(|a, b| b.difference.abs().total_cmp(&a.difference.abs()));
                distinct.truncate(DISTINCTIONS);
                CohortView {
                    label: letter(*label),
                    colour: *label,
                    number,
                    share: *weight,
                    users: (weight * users as f64).round() as u64,
                    spread: *spread,
                    centre: centre.clone(),
                    distinct,
                }
            })
            .collect();
        cohorts.sort_by_key(|cohort| cohort.colour);
        let at_large = self.components.first().map_or(1.0, |(weight, _, _)| *weight);
        PopulationView { noise: self.noise, level: self.level, at_large, cohorts }
    }
}

fn average(of: &Moments) -> Average {
    let interval = interval(of);
    Average {
        count: of.count,
        mean: mean(of),
        low: interval.map(|found| found.low),
        high: interval.map(|found| found.high),
    }
}

/// The averages over time.
pub fn curve(outcomes: &Outcomes, control_share: f64) -> Curve {
    let (mut policy, mut control) = (Moments::default(), Moments::default());
    let points = outcomes.buckets().iter().map(|bucket| {
        policy = policy.with(&bucket.policy);
        control = control.with(&bucket.control);
        CurvePoint {
            until_ms: bucket.until_ms,
            rewards: policy.count + control.count,
            policy: average(&policy),
            control: average(&control),
        }
    });
    let points = points.collect();
    let lift = difference(&policy, &control).map(|found| Lift {
        difference: found.mean,
        low: found.low,
        high: found.high,
        verdict: match (found.low > 0.0, found.high < 0.0) {
            (true, _) => "better",
            (_, true) => "worse",
            _ => "unknown",
        }
        .to_owned(),
    });
    Curve { control_share, policy: average(&policy), control: average(&control), lift, points }
}

/// What is known of a user, and what the cohorts were when it was looked at.
pub async fn user(
    engine: &Handle,
    app: &str,
    user: &str,
    labels: &Labels,
) -> Result<Option<UserInsight>, Refusal> {
    let name = user.to_owned();
    let seen = inspect(engine, app, move |app, recent| {
        let number = app.users().find(&name)?;
        let mine = recent.iter().filter(|reasons| reasons.user == name);
        let recent: Vec<RecentDecision> = mine.map(|reasons| listed(app, reasons)).collect();
        let insight = app.insight();
        let user_summary = insight.and_then(|insight| insight.user_summary(number));
        let population = see_population(app);
        Some((user_summary, population, recent, app.feature_names()))
    });
    let Some((user_summary, population, recent, feature_names)) = seen.await? else {
        return Ok(None);
    };
    let centres = population.as_ref().map_or_else(Vec::new, cohort_centres);
    let user_summary = user_summary.map(|found| UserInsight {
        user: user.to_owned(),
        feature_names: Vec::new(),
        rewards: found.rewards,
        estimate: found.estimate,
        deviations: found.deviations,
        average_user: population.as_ref().map(Population::average_user).unwrap_or_default(),
        memberships: memberships(&found.memberships, &labels.of(&centres)),
        recent: Vec::new(),
    });
    let unknown = || UserInsight {
        user: user.to_owned(),
        feature_names: Vec::new(),
        rewards: 0.0,
        estimate: Vec::new(),
        deviations: Vec::new(),
        average_user: Vec::new(),
        memberships: Vec::new(),
        recent: Vec::new(),
    };
    Ok(Some(UserInsight { feature_names, recent, ..user_summary.unwrap_or_else(unknown) }))
}

fn see_population(app: &mut App) -> Option<Population> {
    see(app, &Recent::default(), &[]).population
}

/// Why a decision was made, if that is still known.
pub async fn reasons(
    engine: &Handle,
    app: &str,
    decision: &str,
    labels: &Labels,
) -> Result<Option<ReasonsView>, Refusal> {
    let id = decision.to_owned();
    let seen = inspect(engine, app, move |app, recent| {
        Some((recent.get(&id)?.clone(), see_population(app)))
    });
    let Some((found, population)) = seen.await? else { return Ok(None) };
    let centres = population.as_ref().map_or_else(Vec::new, cohort_centres);
    let candidates = found.candidates.into_iter().map(|candidate| CandidateView {
        item: candidate.item,
        expected: candidate.score.expected,
        bonus: candidate.score.bonus,
        score: candidate.score.total(),
        own: candidate.parts.map(|parts| parts.own),
        cohort: candidate.parts.map(|parts| parts.cohort),
        population: candidate.parts.map(|parts| parts.population),
        item_effect: (candidate.features.iter().find(|one| one.name == explained::ITEM))
            .map(|one| one.part),
        features: (candidate.features.into_iter())
            .map(|one| FeaturePart { name: one.name, part: one.part })
            .collect(),
    });
    Ok(Some(ReasonsView {
        control: found.control,
        candidates: candidates.collect(),
        more: found.more,
        memberships: memberships(&found.memberships, &labels.of(&centres)),
    }))
}

fn memberships(found: &[Membership], labels: &[usize]) -> Vec<MembershipView> {
    let view = |membership: &Membership| {
        let label = membership.component.checked_sub(1).and_then(|at| labels.get(at).copied());
        MembershipView { label: label.map(letter), colour: label, share: membership.share }
    };
    found.iter().map(view).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_of_many_users_is_bounded_and_sheds_rather_than_changes() {
        let (some, more) = (sample(100_000), sample(110_000));
        assert!((1400..=SAMPLE).contains(&some.len()), "{}", some.len());
        let kept = more.iter().filter(|user| some.contains(user)).count();
        assert!(kept as f64 > 0.85 * some.len() as f64, "{kept} of {} stay", some.len());
        assert_eq!(sample(10).len(), SAMPLE, "of few users all, and those that come next");
    }
}
