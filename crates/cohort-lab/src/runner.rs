//! The runner: every policy in the world of every repetition, in parallel, with the same bits on
//! any number of threads.
//!
//! A task is one policy in one repetition. Tasks are handed out repetition by repetition to
//! workers, and each worker has a thread pool of its own, so that the parallel loops inside a
//! policy never pick up another task's work and learning time is measured correctly.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use cohort::cluster::partition;
use cohort::params::Settings;
use cohort::registry::PolicyInfo;
use cohort::{Arm, Order, Policy, Problem, Truth};

use crate::Error;
use crate::environment::{Environment, Feedback, Visitors, World};
use crate::seed::Seed;

/// What to run.
pub struct Plan {
    /// The environment.
    pub environment: Box<dyn Environment>,
    /// T, the number of rounds.
    pub rounds: usize,
    /// The number of repetitions, each in another world.
    pub repetitions: usize,
    /// The seed of all randomness.
    pub seed: u64,
    /// The number of threads.
    pub threads: usize,
    /// The policies of the registry that take part.
    pub contenders: Vec<Contender>,
    /// Policies outside the registry that take part, after the others in results.
    pub guests: Vec<Box<dyn Player>>,
    /// Whether to record the arms that were played.
    pub keep_arms: bool,
}

/// A participant: makes a fresh policy for every repetition.
pub trait Player: Send + Sync {
    /// Its name in results.
    fn label(&self) -> &str;

    /// The kind of policy, for error messages.
    fn kind(&self) -> &'static str;

    /// Makes a policy that has learned nothing.
    fn make(&self, problem: &Problem) -> Result<Box<dyn Policy>, Error>;
}

/// A participant from the registry.
#[derive(Debug)]
pub struct Contender {
    /// Its name in results; a policy may take part several times under several names.
    pub label: String,
    /// The policy.
    pub policy: &'static PolicyInfo,
    /// Its parameters.
    pub settings: Settings,
}

impl Player for Contender {
    fn label(&self) -> &str {
        &self.label
    }

    fn kind(&self) -> &'static str {
        self.policy.name
    }

    fn make(&self, problem: &Problem) -> Result<Box<dyn Policy>, Error> {
        Ok(self.policy.make(problem, &self.settings)?)
    }
}

/// One policy in one world: the unit of work.
#[derive(Clone, Copy)]
pub struct Task<'a> {
    /// The environment.
    pub environment: &'a dyn Environment,
    /// T as given to the policy.
    pub horizon: usize,
    /// The number of rounds played; fewer than the horizon to see how a policy begins.
    pub rounds: usize,
    /// The seed of the world.
    pub seed: Seed,
    /// The participant.
    pub player: &'a dyn Player,
    /// Whether to record the arms that were played.
    pub keep_arms: bool,
}

impl Plan {
    /// All participants, in the order of results.
    pub fn players(&self) -> impl Iterator<Item = &dyn Player> {
        let registered = self.contenders.iter().map(|contender| contender as &dyn Player);
        registered.chain(self.guests.iter().map(Box::as_ref))
    }

    fn task<'a>(&'a self, repetition: usize, player: &'a dyn Player) -> Task<'a> {
        Task {
            environment: self.environment.as_ref(),
            horizon: self.rounds,
            rounds: self.rounds,
            seed: Seed { seed: self.seed, repetition },
            player,
            keep_arms: self.keep_arms,
        }
    }
}

/// Receives progress. Policies do not know it.
pub trait Observer: Sync {
    /// One policy has finished a round in one repetition.
    fn round_done(&self) {}
}

/// The observer that does nothing.
impl Observer for () {}

/// The results of a plan.
#[derive(Debug)]
pub struct Runs {
    /// The repetitions that every policy has finished, in order.
    pub repetitions: Vec<Repetition>,
    /// Whether the run was stopped before all were complete.
    pub interrupted: bool,
}

/// One repetition.
#[derive(Debug)]
pub struct Repetition {
    /// Its number, from 0.
    pub number: usize,
    /// The run of each participant, in their order.
    pub runs: Vec<Run>,
}

/// One policy in one repetition.
#[derive(Debug)]
pub struct Run {
    /// The regret of every round, mean over users.
    pub regret: Vec<f64>,
    /// The reward of every round, mean over users.
    pub reward: Vec<f64>,
    /// The regret of every user over all rounds, visitors excluded.
    pub user_regret: Vec<f64>,
    /// The clusters found, at about a hundred rounds and at the last.
    pub checkpoints: Vec<Checkpoint>,
    /// The time the policy took to choose and learn.
    pub learning: Duration,
    /// The time the world took to draw contexts and rewards.
    pub environment: Duration,
    /// The arms played, round by round, where they were to be recorded.
    pub arms: Vec<Arm>,
    /// The size of the saved state, where the policy can be saved.
    pub state_bytes: Option<u64>,
}

/// The clusters after some round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Checkpoint {
    /// The number of rounds played.
    pub rounds: usize,
    /// The number of clusters, where the policy has any.
    pub clusters: Option<usize>,
    /// The adjusted Rand index with the true clusters.
    pub adjusted_rand: Option<f64>,
}

/// The most threads that are started, whatever a plan says.
const MOST_THREADS: usize = 1024;

/// The number of checkpoints of a run.
const CHECKPOINTS: usize = 100;

impl Run {
    /// Regret over all rounds.
    pub fn total_regret(&self) -> f64 {
        self.regret.iter().sum()
    }

    /// The clusters at the end.
    pub fn last_checkpoint(&self) -> Option<&Checkpoint> {
        self.checkpoints.last()
    }
}

/// Runs a plan until it is done or `stop` is set.
pub fn run(plan: &Plan, observer: &dyn Observer, stop: &AtomicBool) -> Result<Runs, Error> {
    check_that_all_can_start(plan)?;
    let players: Vec<&dyn Player> = plan.players().collect();
    let tasks = plan.repetitions * players.len();
    let threads = plan.threads.min(MOST_THREADS);
    let workers = threads.min(tasks).max(1);
    let threads_each = (threads / workers).max(1);

    let next = AtomicUsize::new(0);
    let runs: Mutex<BTreeMap<usize, Run>> = Mutex::default();
    let failed = AtomicBool::new(false);
    let halted = || stop.load(Ordering::Relaxed) || failed.load(Ordering::Relaxed);
    let work = || -> Result<(), Error> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads_each).build()?;
        pool.install(|| {
            loop {
                let task = next.fetch_add(1, Ordering::Relaxed);
                if task >= tasks || halted() {
                    return Ok(());
                }
                let (repetition, player) = (task / players.len(), task % players.len());
                let job = plan.task(repetition, players[player]);
                if let Some(run) = play(&job, observer, &halted)? {
                    runs.lock().unwrap_or_else(PoisonError::into_inner).insert(task, run);
                }
            }
        })
    };
    std::thread::scope(|scope| {
        let work = || work().inspect_err(|_| failed.store(true, Ordering::Relaxed));
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        let join = |worker: std::thread::ScopedJoinHandle<_>| match worker.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        workers.into_iter().map(join).collect::<Result<Vec<()>, Error>>()
    })?;

    let runs = runs.into_inner().unwrap_or_else(PoisonError::into_inner);
    let repetitions = complete_repetitions(runs, players.len());
    let interrupted = repetitions.len() < plan.repetitions;
    Ok(Runs { repetitions, interrupted })
}

/// Collects the runs of tasks into repetitions, where all are complete.
fn complete_repetitions(runs: BTreeMap<usize, Run>, players: usize) -> Vec<Repetition> {
    let mut repetitions: Vec<Repetition> = Vec::new();
    for (task, run) in runs {
        let number = task / players;
        match repetitions.last_mut().filter(|last| last.number == number) {
            Some(last) => last.runs.push(run),
            None => repetitions.push(Repetition { number, runs: vec![run] }),
        }
    }
    repetitions.retain(|repetition| repetition.runs.len() == players);
    repetitions
}

/// Makes every policy once, so that errors come now and not after hours of other runs.
fn check_that_all_can_start(plan: &Plan) -> Result<(), Error> {
    let world = plan.environment.world(Seed { seed: plan.seed, repetition: 0 })?;
    plan.players().try_for_each(|player| {
        make_policy(&plan.task(0, player), world.as_ref())?;
        Ok(())
    })
}

fn make_policy(task: &Task, world: &dyn World) -> Result<Box<dyn Policy>, Error> {
    let size = task.environment.size();
    let problem = Problem {
        users: size.users + world.visitors().map_or(0, |visitors| visitors.users.len()),
        dim: size.dim,
        rounds: Some(task.horizon),
        sigma: world.sigma(),
        seed: task.seed.for_policies(),
        truth: world.truth(),
        graph: world.graph(),
    };
    let mut policy = task.player.make(&problem)?;
    if policy.online().is_none() {
        let needs = |what| Err(cohort::Error::Needs { policy: task.player.kind(), what }.into());
        if world.own_offers() {
            return needs("one offer for all users, and here every user has its own");
        }
        if world.absences() {
            return needs("all users in every round, and here some stay away");
        }
    }
    Ok(policy)
}

/// After so many turns it is asked whether to go on.
const TURNS_BETWEEN_LOOKS: usize = 128;

/// Runs one task on the current rayon pool. `None` if it was stopped.
pub fn play(
    task: &Task,
    observer: &dyn Observer,
    halted: &dyn Fn() -> bool,
) -> Result<Option<Run>, Error> {
    let mut world = task.environment.world(task.seed)?;
    let mut policy = make_policy(task, world.as_ref())?;
    let one_by_one = world.own_offers() || world.absences();
    let order = if one_by_one { Order::OneByOne } else { policy.order() };
    let visitors = world.visitors().cloned();
    let ordinary = ordinary_users(task.environment.size().users, visitors.as_ref());
    let mut answers = RoundAnswers::new(ordinary.last().map_or(0, |last| last + 1));
    let mut run = Run {
        regret: Vec::new(),
        reward: Vec::new(),
        user_regret: vec![0.0; ordinary.len()],
        checkpoints: Vec::new(),
        learning: Duration::ZERO,
        environment: Duration::ZERO,
        arms: Vec::new(),
        state_bytes: None,
    };
    for round in 0..task.rounds {
        if halted() {
            return Ok(None);
        }
        let started = Instant::now();
        let mut learning = match &visitors {
            Some(visitors) => {
                serve_visitors(visitors, round, task, policy.as_mut(), world.as_mut())
            }
            None => Duration::ZERO,
        };
        world.start_round(round);
        let took = match order {
            Order::Together => Some(answers.play_together(policy.as_mut(), world.as_ref())),
            Order::OneByOne => answers.play_one_by_one(policy.as_mut(), world.as_ref(), halted),
        };
        let Some(took) = took else { return Ok(None) };
        learning += took;
        run.learning += learning;
        run.environment += started.elapsed() - learning;

        run.regret.push(mean(&answers.regrets, &ordinary));
        run.reward.push(mean(&answers.rewards, &ordinary));
        for (sum, user) in run.user_regret.iter_mut().zip(&ordinary) {
            *sum += answers.regrets[*user];
        }
        if task.keep_arms {
            run.arms.extend(ordinary.iter().map(|user| answers.arms[*user]));
        }
        if is_checkpoint(round, task.rounds) {
            run.checkpoints.push(checkpoint(policy.as_ref(), world.truth(), &ordinary, round + 1));
        }
        observer.round_done();
    }
    run.state_bytes = policy.saved().and_then(|saved| {
        let mut bytes = ByteCounter(0);
        saved.save(&mut bytes).ok().map(|()| bytes.0)
    });
    Ok(Some(run))
}

/// A writer that only counts bytes.
struct ByteCounter(u64);

impl std::io::Write for ByteCounter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Whether this round is a checkpoint: evenly spaced, the last one included.
fn is_checkpoint(round: usize, rounds: usize) -> bool {
    let before = |round: usize| round * CHECKPOINTS / rounds;
    before(round + 1) > before(round)
}

/// The numbers of the users whose regret counts: all but visitors.
fn ordinary_users(count: usize, visitors: Option<&Visitors>) -> Vec<usize> {
    let mut visits = visitors.map_or(&[][..], |visitors| &visitors.users).iter().peekable();
    let is_ordinary = |user: &usize| visits.next_if(|visitor| *visitor == user).is_none();
    (0..).filter(is_ordinary).take(count).collect()
}

/// The checkpoint of these users.
fn checkpoint(
    policy: &dyn Policy,
    truth: Option<Truth>,
    users: &[usize],
    rounds: usize,
) -> Checkpoint {
    let of_users = |labels: &[usize]| {
        // Users unknown to the policy are clusters of their own.
        let label = |user: &usize| labels.get(*user).copied().unwrap_or(labels.len() + user);
        let mut labels: Vec<usize> = users.iter().map(label).collect();
        partition::number_by_smallest_member(&mut labels);
        labels
    };
    let found = policy.clusters().map(|labels| of_users(&labels));
    let agreement = |labels: &Vec<usize>| {
        truth.map(|truth| partition::adjusted_rand(labels, &of_users(truth.clusters)))
    };
    Checkpoint {
        rounds,
        clusters: found.as_ref().map(|labels| partition::sizes(labels).len()),
        adjusted_rand: found.as_ref().and_then(agreement),
    }
}

/// Serves the visitors who come before a round: in rounds numbered after the last, so that the
/// others see the same as without them. Returns the learning time.
fn serve_visitors(
    visitors: &Visitors,
    round: usize,
    task: &Task,
    policy: &mut dyn Policy,
    world: &mut dyn World,
) -> Duration {
    let online = policy.online().expect("where users stay away policies have turns");
    let mut learning = Duration::ZERO;
    let users = visitors.of_round(round, task.rounds);
    let times = if users.is_empty() { 0 } else { visitors.rewards + 1 };
    for time in 0..times {
        world.start_round(task.horizon + round * times + time);
        let contexts = world.contexts();
        for user in users {
            let started = Instant::now();
            let arm = online.decide(*user, &contexts);
            if time < visitors.rewards {
                online.learn_one(*user, contexts.arm(arm), world.play(*user, arm).reward);
            }
            learning += started.elapsed();
        }
    }
    learning
}

/// The choices and rewards of all users in one round.
struct RoundAnswers {
    arms: Vec<Arm>,
    rewards: Vec<f64>,
    regrets: Vec<f64>,
}

impl RoundAnswers {
    fn new(users: usize) -> Self {
        Self { arms: vec![0; users], rewards: vec![0.0; users], regrets: vec![0.0; users] }
    }

    /// All users choose from what was learned before the round. Returns the learning time.
    fn play_together(&mut self, policy: &mut dyn Policy, world: &dyn World) -> Duration {
        let contexts = world.contexts();
        let started = Instant::now();
        policy.choose(&contexts, &mut self.arms);
        let choosing = started.elapsed();

        world.play_all(&self.arms, &mut self.rewards, &mut self.regrets);

        let started = Instant::now();
        policy.learn(&contexts, &self.arms, &self.rewards);
        choosing + started.elapsed()
    }

    /// Users are served in order, each update before the next choice. Returns the learning time;
    /// `None` if it was stopped, since a round of very many users is too long to wait for.
    fn play_one_by_one(
        &mut self,
        policy: &mut dyn Policy,
        world: &dyn World,
        halted: &dyn Fn() -> bool,
    ) -> Option<Duration> {
        let online = policy.online().expect("a policy that is served one by one has turns");
        let mut learning = Duration::ZERO;
        // Contexts are checked when made: once where all users have the same.
        let shared = (!world.own_offers()).then(|| world.contexts());
        for user in 0..self.arms.len() {
            if user % TURNS_BETWEEN_LOOKS == TURNS_BETWEEN_LOOKS - 1 && halted() {
                return None;
            }
            if world.is_absent(user) {
                (self.rewards[user], self.regrets[user]) = (0.0, 0.0);
                continue;
            }
            let contexts = shared.unwrap_or_else(|| world.contexts_for(user));
            let started = Instant::now();
            let arm = online.decide(user, &contexts);
            learning += started.elapsed();

            let Feedback { reward, regret } = world.play(user, arm);

            let started = Instant::now();
            online.learn_one(user, contexts.arm(arm), reward);
            learning += started.elapsed();
            (self.arms[user], self.rewards[user], self.regrets[user]) = (arm, reward, regret);
        }
        Some(learning)
    }
}

/// The mean over those users.
fn mean(numbers: &[f64], users: &[usize]) -> f64 {
    users.iter().map(|user| numbers[*user]).sum::<f64>() / users.len() as f64
}

#[cfg(test)]
mod tests;
