//! The runner with policies made for these tests.

use std::sync::Arc;

use cohort::registry;
use cohort::{Contexts, OnlinePolicy, Score};

use super::*;
use crate::experiment::Draft;

/// `clustered` with these flags.
fn plan(policies: &str, run: &[(&str, f64)], options: &[(&str, f64)]) -> Plan {
    let mut draft = Draft::default();
    draft.set_policies(policies);
    draft.run.extend(run.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())));
    draft.options.extend(options.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())));
    draft.resolve().unwrap().plan
}

fn go(plan: &Plan) -> Runs {
    run(plan, &(), &AtomicBool::new(false)).unwrap()
}

/// The part of a run that must not depend on the machine.
type OfRun = (usize, Vec<f64>, Vec<Checkpoint>, Vec<Arm>);

fn outcome(runs: &Runs) -> Vec<OfRun> {
    let of = |rep: &Repetition| {
        let of =
            |run: &Run| (rep.number, run.regret.clone(), run.checkpoints.clone(), run.arms.clone());
        rep.runs.iter().map(of).collect::<Vec<_>>()
    };
    runs.repetitions.iter().flat_map(of).collect()
}

#[test]
fn results_are_the_same_bits_on_any_number_of_threads() {
    let names: Vec<&str> = registry::POLICIES.iter().map(|info| info.name).collect();
    let with_threads = |threads| {
        let run = [("rounds", 40.0), ("reps", 2.0), ("threads", threads)];
        let mut plan = plan(&names.join(","), &run, &[("users", 30.0), ("dim", 4.0)]);
        plan.keep_arms = true;
        outcome(&go(&plan))
    };
    let alone = with_threads(1.0);
    assert_eq!(alone.len(), 2 * names.len());
    assert!(alone == with_threads(2.0) && alone == with_threads(7.0));
}

/// Enough users that the loops inside one policy are split, too.
#[test]
fn one_policy_on_several_threads_gives_the_same_bits() {
    let with_threads = |threads| {
        let run = [("rounds", 8.0), ("reps", 1.0), ("threads", threads)];
        outcome(&go(&plan("linucb-ind", &run, &[("users", 5000.0), ("dim", 3.0)])))
    };
    assert!(with_threads(1.0) == with_threads(4.0));
}

#[test]
fn every_policy_sees_the_same_world_in_a_repetition_and_another_in_the_next() {
    let run = [("rounds", 50.0), ("reps", 2.0)];
    let runs = go(&plan("random,linucb-ind,twin=linucb-ind", &run, &[]));
    for rep in &runs.repetitions {
        assert_eq!(rep.runs[1].regret, rep.runs[2].regret);
        assert_ne!(rep.runs[0].regret, rep.runs[1].regret);
    }
    assert_ne!(runs.repetitions[0].runs[1].regret, runs.repetitions[1].runs[1].regret);
    assert!(!runs.interrupted);
}

#[test]
fn checkpoints_are_evenly_spaced_and_the_last_round_is_one() {
    for rounds in [1, 7, 100, 101, 250, 1000, 12_345] {
        let at: Vec<usize> = (0..rounds).filter(|round| is_checkpoint(*round, rounds)).collect();
        assert_eq!(at.len(), rounds.min(CHECKPOINTS));
        assert_eq!(at.last(), Some(&(rounds - 1)));
        let gaps: Vec<usize> = at.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let (most, least) = (gaps.iter().max(), gaps.iter().min());
        assert!(most.unwrap_or(&0) - least.unwrap_or(&0) <= 1, "{rounds} rounds");
    }
}

/// An observer that stops the run after so many rounds.
struct StopAfter<'a> {
    rounds: usize,
    seen: AtomicUsize,
    stop: &'a AtomicBool,
}

impl Observer for StopAfter<'_> {
    fn round_done(&self) {
        if self.seen.fetch_add(1, Ordering::Relaxed) + 1 == self.rounds {
            self.stop.store(true, Ordering::Relaxed);
        }
    }
}

#[test]
fn stopping_keeps_the_repetitions_that_are_complete() {
    let run_params = [("rounds", 30.0), ("reps", 5.0), ("threads", 1.0)];
    let plan = plan("random,linucb-ind", &run_params, &[]);
    let whole = outcome(&go(&plan));
    // Two repetitions are 120 rounds; the third has come to its second policy.
    for (rounds, complete) in [(1, 0), (59, 0), (60, 1), (170, 2)] {
        let stop = AtomicBool::new(false);
        let observer = StopAfter { rounds, seen: AtomicUsize::new(0), stop: &stop };
        let runs = run(&plan, &observer, &stop).unwrap();
        assert!(runs.interrupted);
        assert_eq!(runs.repetitions.len(), complete, "stopped after {rounds} rounds");
        assert!(outcome(&runs) == whole[..2 * complete]);
    }
}

/// A policy that records its calls.
struct Diary {
    order: Order,
    pages: Arc<Mutex<Vec<String>>>,
}

impl Diary {
    fn note(&self, page: String) {
        self.pages.lock().unwrap().push(page);
    }
}

impl Policy for Diary {
    fn choose(&mut self, _contexts: &Contexts, arms: &mut [Arm]) {
        self.note(format!("choose for {}", arms.len()));
        arms.fill(1);
    }

    fn learn(&mut self, _contexts: &Contexts, arms: &[Arm], rewards: &[f64]) {
        assert!(arms.iter().all(|arm| *arm == 1) && arms.len() == rewards.len());
        self.note(format!("learn from {}", rewards.len()));
    }

    fn online(&mut self) -> Option<&mut dyn OnlinePolicy> {
        Some(self)
    }

    fn order(&self) -> Order {
        self.order
    }
}

impl OnlinePolicy for Diary {
    fn decide(&mut self, user: usize, _contexts: &Contexts) -> Arm {
        self.note(format!("decide for {user}"));
        0
    }

    fn score(&mut self, user: usize, _contexts: &Contexts, _scores: &mut [Score]) {
        self.note(format!("score for {user}"));
    }

    fn learn_one(&mut self, user: usize, _context: &[f64], _reward: f64) {
        self.note(format!("learn from {user}"));
    }
}

#[test]
fn policies_are_run_in_the_order_they_are_defined_for() {
    let environment = plan("random", &[], &[("users", 2.0)]).environment;
    let mut world = environment.world(Seed { seed: 1, repetition: 0 }).unwrap();
    world.start_round(0);
    let pages = |order| {
        let pages = Arc::new(Mutex::new(Vec::new()));
        let mut diary = Diary { order, pages: Arc::clone(&pages) };
        let mut answers = RoundAnswers::new(2);
        match order {
            Order::Together => answers.play_together(&mut diary, world.as_ref()),
            Order::OneByOne => {
                answers.play_one_by_one(&mut diary, world.as_ref(), &|| false).unwrap()
            }
        };
        let pages = pages.lock().unwrap();
        (pages.clone(), answers)
    };
    let (together, answers) = pages(Order::Together);
    assert_eq!(together, ["choose for 2", "learn from 2"]);
    assert_eq!(answers.arms, [1, 1]);
    let regret = mean(&answers.regrets, &[0, 1]);
    assert_eq!(regret, (world.play(0, 1).regret + world.play(1, 1).regret) / 2.0);

    let (one_by_one, answers) = pages(Order::OneByOne);
    assert_eq!(one_by_one, ["decide for 0", "learn from 0", "decide for 1", "learn from 1"]);
    assert_eq!(answers.arms, [0, 0]);
    assert_eq!(answers.rewards, [world.play(0, 0).reward, world.play(1, 0).reward]);
}

/// Two users and three visitors who answer once.
#[test]
fn visitors_are_decided_for_and_answer_as_often_as_was_said() {
    let pages = |when: &str, rewards: f64| {
        let options = [("users", 2.0), ("visitors", 3.0), ("visitor_rewards", rewards)];
        let mut draft = Draft::default();
        draft.options.extend(options.map(|(name, value)| (name.to_owned(), value.into())));
        draft.options.insert("visitors_when".to_owned(), when.into());
        let plan = draft.resolve().unwrap().plan;
        let mut world = plan.environment.world(Seed { seed: 1, repetition: 0 }).unwrap();
        let player = plan.players().next().unwrap();
        let task = Task { rounds: 3, horizon: 3, ..plan.task(0, player) };
        let pages = Arc::new(Mutex::new(Vec::new()));
        let mut diary = Diary { order: Order::Together, pages: Arc::clone(&pages) };
        let visitors = world.visitors().unwrap().clone();
        let rounds = (0..3).map(|round| {
            serve_visitors(&visitors, round, &task, &mut diary, world.as_mut());
            std::mem::take(&mut *pages.lock().unwrap()).join(", ")
        });
        rounds.collect::<Vec<_>>()
    };
    assert_eq!(pages("before", 0.0), ["decide for 0, decide for 1, decide for 2", "", ""]);
    assert_eq!(pages("after", 0.0), ["decide for 2", "decide for 3", "decide for 4"]);
    assert_eq!(pages("between", 1.0)[0], "decide for 1, learn from 1, decide for 1");
}

/// A policy without collaboration is not affected by visitors.
#[test]
fn regret_is_that_of_the_users_who_stay() {
    let run = [("rounds", 40.0), ("reps", 1.0)];
    let regret = |visitors: f64, rewards: f64| {
        let options = [
            ("users", 12.0),
            ("visitors", visitors),
            ("visitor_rewards", rewards),
            ("clusters", 3.0),
        ];
        let mut plan = plan("linucb-ind,oracle-centres,club", &run, &options);
        plan.keep_arms = true;
        outcome(&go(&plan))
    };
    let alone = regret(0.0, 0.0);
    for rewards in [0.0, 2.0] {
        let visited = regret(30.0, rewards);
        assert!(alone[..2] == visited[..2]);
        assert_eq!(alone[2].3.len(), visited[2].3.len());
    }
}

#[test]
fn a_policy_that_cannot_start_is_refused_before_anybody_plays() {
    static REFUSES: PolicyInfo = PolicyInfo {
        name: "refuses",
        summary: "",
        reference: "",
        params: &[],
        build: |_, _| Err(cohort::Error::Needs { policy: "refuses", what: "something else" }),
    };
    let mut plan = plan("random", &[], &[]);
    let settings = REFUSES.check([]).unwrap();
    plan.contenders.push(Contender { label: "refuses".into(), policy: &REFUSES, settings });
    let stop = AtomicBool::new(false);
    let observer = StopAfter { rounds: 1, seen: AtomicUsize::new(0), stop: &stop };
    let error = run(&plan, &observer, &stop).unwrap_err();
    assert_eq!(error.to_string(), "policy `refuses` needs something else");
    assert_eq!(observer.seen.load(Ordering::Relaxed), 0);
}

#[test]
fn a_guest_plays_after_the_others_and_as_they_do() {
    struct Guest(Contender);

    impl Player for Guest {
        fn label(&self) -> &str {
            "guest"
        }

        fn kind(&self) -> &'static str {
            "guest"
        }

        fn make(&self, problem: &Problem) -> Result<Box<dyn Policy>, Error> {
            self.0.make(problem)
        }
    }

    let run = [("rounds", 30.0), ("reps", 2.0)];
    let mut plan = plan("linucb-ind,random", &run, &[("users", 5.0)]);
    let registered = registry::info("linucb-ind").unwrap();
    let settings = registered.check([]).unwrap();
    let host = Contender { label: String::new(), policy: registered, settings };
    plan.guests.push(Box::new(Guest(host)));
    assert_eq!(plan.players().map(Player::label).collect::<Vec<_>>()[2], "guest");
    for repetition in go(&plan).repetitions {
        let [host, random, guest] = &repetition.runs[..] else { panic!("three play") };
        assert_eq!(host.regret, guest.regret);
        assert_eq!(host.reward, guest.reward);
        assert_ne!(host.reward, random.reward);
    }
}

/// With absences a policy may know fewer users than there are, after any round.
#[test]
fn users_whom_no_policy_has_met_are_alone() {
    let mut draft = Draft::default();
    let names: Vec<&str> = registry::POLICIES.iter().map(|info| info.name).collect();
    let rounds_only = |name: &&str| {
        let made = registry::build(name, &cohort::Problem::new(0, 3), []);
        made.is_ok_and(|mut policy| policy.online().is_some())
    };
    draft.set_policies(&names.into_iter().filter(rounds_only).collect::<Vec<_>>().join(","));
    draft.run.extend(
        [("rounds", 4.0), ("reps", 1.0)].map(|(name, value)| (name.to_owned(), value.into())),
    );
    draft.options.insert("users".to_owned(), 60.0.into());
    draft.options.insert("dim".to_owned(), 3.0.into());
    draft.options.insert("activity".to_owned(), "zipf".into());
    let runs = go(&draft.resolve().unwrap().plan);
    assert_eq!(runs.repetitions.len(), 1);
}

/// With very many users one round can take longer than anybody waits.
#[test]
fn a_long_round_can_be_stopped_before_its_end() {
    let users = 3 * TURNS_BETWEEN_LOOKS;
    let environment = plan("random", &[], &[("users", users as f64)]).environment;
    let mut world = environment.world(Seed { seed: 1, repetition: 0 }).unwrap();
    world.start_round(0);
    let pages = Arc::new(Mutex::new(Vec::new()));
    let mut diary = Diary { order: Order::OneByOne, pages: Arc::clone(&pages) };
    let looks = AtomicUsize::new(0);
    let second_look = || looks.fetch_add(1, Ordering::Relaxed) == 1;
    let took = RoundAnswers::new(users).play_one_by_one(&mut diary, world.as_ref(), &second_look);
    assert!(took.is_none());
    // Two pages a turn.
    assert_eq!(pages.lock().unwrap().len(), 2 * (2 * TURNS_BETWEEN_LOOKS - 1));
}
