//! Runs the studies: environments are built, parameters tuned, all jobs run, results collected.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use cohort::params::Value;
use cohort::registry;

use super::evidence::{Evidence, Measured, PolicyResult, SettingResult, UserTruth, Width};
use super::job::{CachedWork, EnvironmentKey, Inquiry, Job, JobOutcome, describe, fnv};
use super::so_far::{Coverage, trim};
use super::study::{Kind, Setting, Study};
use super::tuning::{Candidates, Params, TuningStep, choose};
use super::workers::{Halt, WorkerContext};
use crate::experiment::{Draft, PolicyDraft};
use crate::runner::Contender;
use crate::seed::Seed;
use crate::{Error, datasets, environments};

/// Repetitions from here on are for tuning: no figure shows them.
const TUNING_REPETITIONS: usize = 1_000_000;

/// The parameter that scales a policy's exploration.
const WIDTH: &str = "exploration";

/// Why a study is not in a report of what there is.
const NOTHING_YET: &str = "none of its repetitions is complete yet";

/// A setting, ready to be played in.
struct Stage {
    study: Arc<Study>,
    setting: Setting,
    draft: Draft,
    place: Arc<EnvironmentKey>,
    rounds: usize,
    reps: usize,
    seed: u64,
}

/// A policy with the parameter values it is tuned over.
struct TunedPolicy {
    policy: PolicyDraft,
    /// Combinations of parameters to choose from as the paper does it; one if it does not.
    paper: Vec<Params>,
    /// The same for the fair comparison; none where that is the same or makes no sense.
    fair: Vec<Params>,
}

/// A study with all of its runs.
struct PreparedStudy {
    study: Arc<Study>,
    stages: Vec<Stage>,
    entries: Vec<Vec<TunedPolicy>>,
}

/// Runs all studies.
pub fn gather(
    studies: Vec<Study>,
    workshop: &WorkerContext,
    data: &Path,
    seed: Option<u64>,
) -> Result<Evidence, Halt> {
    let mut evidence = Evidence { studies: Vec::new(), left_out: Vec::new() };
    let mut places = EnvironmentCache { data, made: BTreeMap::new() };
    let mut prepared = Vec::new();
    for study in studies {
        match places.missing(&study) {
            Some(why) => evidence.left_out.push((study.name, study.title, why)),
            None => prepared.push(PreparedStudy::new(Arc::new(study), &mut places, seed)?),
        }
    }
    let work = prepared.iter().map(PreparedStudy::work).sum::<Result<u64, Error>>()?;
    workshop.watcher.planned(work);
    for study in prepared {
        workshop.watcher.study(&study.study.name, study.work()?);
        let measured = match study.study.probe {
            Some(_) => ask(&study.study, workshop, seed)?,
            None => study.run(workshop)?,
        };
        match measured {
            Some(measured) => evidence.studies.push(measured),
            None => {
                let Study { name, title, .. } = study.study.as_ref();
                evidence.left_out.push((name.clone(), title.clone(), NOTHING_YET.to_owned()));
            }
        }
    }
    Ok(evidence)
}

impl PreparedStudy {
    fn new(
        study: Arc<Study>,
        places: &mut EnvironmentCache,
        seed: Option<u64>,
    ) -> Result<Self, Error> {
        if study.probe.is_some() {
            return Ok(Self { study, stages: Vec::new(), entries: Vec::new() });
        }
        let stages: Vec<Stage> = (study.settings().into_iter())
            .map(|setting| Stage::new(study.clone(), setting, places, seed))
            .collect::<Result<_, Error>>()?;
        let entries = stages.iter().map(Stage::entries).collect::<Result<_, Error>>()?;
        Ok(Self { study, stages, entries })
    }

    /// How much there is to do. What tuning will choose does not change it.
    fn work(&self) -> Result<u64, Error> {
        if self.study.probe.is_some() {
            return Ok(inquiries(&self.study, None)?.iter().map(Inquiry::work).sum());
        }
        let mut work = 0;
        for (stage, entries) in self.stages.iter().zip(&self.entries) {
            for entry in entries {
                for candidates in [&entry.paper, &entry.fair] {
                    if let Some(first) = candidates.first() {
                        let jobs = stage.jobs(&entry.policy, first)?;
                        work += jobs.iter().map(Job::work).sum::<u64>();
                        let rungs = super::tuning::rungs(stage.study.tuning.as_ref());
                        work += jobs.first().map_or(0, |job| {
                            super::tuning::work(&rungs, candidates.len(), job.work(), stage.rounds)
                        });
                    }
                }
            }
        }
        Ok(work)
    }

    /// Runs all of it; none where nothing is to be run and nothing is there.
    fn run(&self, workshop: &WorkerContext) -> Result<Option<Measured>, Halt> {
        let mut all = Vec::new();
        for (at, entries) in self.entries.iter().enumerate() {
            for entry in entries {
                for (width, params) in [(Width::Paper, &entry.paper), (Width::Tuned, &entry.fair)] {
                    if !params.is_empty() {
                        all.push((at, width, &entry.policy, Candidates::new(params.clone())));
                    }
                }
            }
        }
        // All policies of all settings go through a rung together, so that no core waits.
        let what = format!("{}: tuning", self.study.name);
        for rung in super::tuning::rungs(self.study.tuning.as_ref()) {
            let mut trials = Vec::new();
            for (at, _, policy, candidates) in &all {
                for params in candidates.left() {
                    trials.extend(self.stages[*at].trials(policy, params, &rung)?);
                }
            }
            if trials.is_empty() {
                continue;
            }
            let mut outcomes = workshop.outcomes(&what, &trials)?.into_iter();
            for (_, _, _, candidates) in &mut all {
                let count = candidates.left().count() * rung.repetitions.len();
                let regrets: Vec<Option<f64>> = (outcomes.by_ref().take(count))
                    .map(|outcome| outcome.map(|outcome| outcome.total()))
                    .collect();
                match regrets.into_iter().collect::<Option<Vec<f64>>>() {
                    Some(regrets) => choose(candidates, &rung, &mut regrets.into_iter()),
                    None => candidates.give_up(),
                }
            }
        }
        let mut jobs = Vec::new();
        for (at, _, policy, candidates) in &all {
            if let Some(params) = candidates.first() {
                jobs.extend(self.stages[*at].jobs(policy, params)?);
            }
        }
        let mut outcomes = workshop.outcomes(&self.study.name, &jobs)?.into_iter();
        let mut results: Vec<Vec<PolicyResult>> = self.stages.iter().map(|_| Vec::new()).collect();
        for (at, width, policy, candidates) in all {
            let chosen = candidates.first().cloned();
            let count = chosen.as_ref().map_or(0, |_| self.stages[at].reps);
            let of_policy: Vec<Option<JobOutcome>> = outcomes.by_ref().take(count).collect();
            let outcomes = of_policy.into_iter().map_while(|outcome| outcome).collect();
            let (label, chosen) = (policy.label().to_owned(), chosen.unwrap_or_default());
            results[at].push(PolicyResult { label, width, chosen, outcomes });
        }
        let Some(Coverage { repetitions, absent }) = trim(&mut results) else { return Ok(None) };
        let cells = (self.stages.iter().zip(results))
            .map(|(stage, results)| stage.cell(results, repetitions))
            .collect::<Result<_, Error>>()?;
        Ok(Some(Measured { study: self.study.clone(), cells, absent }))
    }
}

/// What a policy had in the first repetition of a study's first setting, run once more; none where
/// the study has no such policy, or tunes it.
pub fn again(
    study: Study,
    policy: &str,
    data: &Path,
    seed: Option<u64>,
) -> Result<Option<JobOutcome>, Error> {
    let Some(setting) = study.settings().into_iter().next() else { return Ok(None) };
    let mut places = EnvironmentCache { data, made: BTreeMap::new() };
    let stage = Stage::new(Arc::new(study), setting, &mut places, seed)?;
    let entries = stage.entries()?;
    let entry = entries.iter().find(|entry| entry.policy.label() == policy);
    match entry.map(|entry| (&entry.policy, entry.paper.as_slice())) {
        Some((policy, [only])) => match stage.jobs(policy, only)?.first() {
            Some(job) => job.run(&|| false),
            None => Ok(None),
        },
        _ => Ok(None),
    }
}

/// Every repetition of a probe in every setting.
fn inquiries(study: &Study, seed: Option<u64>) -> Result<Vec<Inquiry>, Error> {
    let probe = study.probe.ok_or_else(|| Error::unexpected("kind", "probe", "a probe"))?;
    let mut all = Vec::new();
    for setting in study.settings() {
        let run = study.draft_of(&setting).run;
        let count = |name: &str, default: usize| match run.get(name) {
            Some(Value::Real(number)) => *number as usize,
            _ => default,
        };
        let seed = seed.unwrap_or(count("seed", 7) as u64);
        for repetition in 0..count("reps", 1) {
            let rounds = count("rounds", crate::experiment::DEFAULT_ROUNDS);
            all.push(Inquiry { probe, setting: setting.clone(), rounds, seed, repetition });
        }
    }
    Ok(all)
}

/// Asks a probe in every setting; none where nothing is to be run and nothing is there.
fn ask(
    study: &Arc<Study>,
    workshop: &WorkerContext,
    seed: Option<u64>,
) -> Result<Option<Measured>, Halt> {
    let asked = inquiries(study, seed)?;
    let mut cells: Vec<SettingResult> = Vec::new();
    for (inquiry, outcome) in asked.iter().zip(workshop.outcomes(&study.name, &asked)?) {
        match cells.last_mut().filter(|cell| cell.setting == inquiry.setting) {
            Some(cell) => cell.values.extend(outcome.map(|outcome| outcome.values)),
            None => cells.push(SettingResult {
                setting: inquiry.setting.clone(),
                users: 0,
                dim: 0,
                arms: 0,
                rounds: inquiry.rounds,
                people: Vec::new(),
                values: outcome.map(|outcome| outcome.values).into_iter().collect(),
                heterogeneity: None,
                results: Vec::new(),
            }),
        }
    }
    let repetitions = cells.iter().map(|cell| cell.values.len()).min().unwrap_or(0);
    cells.iter_mut().for_each(|cell| cell.values.truncate(repetitions));
    let measured = Measured { study: study.clone(), cells, absent: Vec::new() };
    Ok((repetitions > 0).then_some(measured))
}

impl Stage {
    fn new(
        study: Arc<Study>,
        setting: Setting,
        places: &mut EnvironmentCache,
        seed: Option<u64>,
    ) -> Result<Self, Error> {
        let draft = study.draft_of(&setting);
        let place = places.place(&draft)?;
        let count = |name: &str, default: usize| match draft.run.get(name) {
            Some(Value::Real(number)) => *number as usize,
            _ => default,
        };
        let (rounds, reps) = (count("rounds", crate::experiment::DEFAULT_ROUNDS), count("reps", 1));
        let seed = seed.unwrap_or(count("seed", 7) as u64);
        Ok(Self { study, setting, place, rounds, reps, seed, draft })
    }

    /// Who plays here, and what may be tuned.
    fn entries(&self) -> Result<Vec<TunedPolicy>, Error> {
        let mut entries = Vec::new();
        for policy in &self.draft.policies {
            if !self.can_play(policy)? {
                continue;
            }
            let info = registry::info(&policy.name)?;
            let scales = info.params.iter().copied().flatten().any(|param| param.name == WIDTH);
            let tuning = self.study.tuning.as_ref().filter(|tuning| tuning.reps > 0);
            let (paper, fair) = match (tuning, self.study.tuned.get(policy.label())) {
                // The paper's own grid has the width in it: the fair comparison is the same.
                (Some(_), Some(grid)) => (self.thinned(combinations(grid)), Vec::new()),
                (Some(tuning), None) if scales => {
                    let widths = tuning.widths.iter();
                    let widths = widths.map(|width| vec![(WIDTH.to_owned(), *width)]).collect();
                    (vec![Vec::new()], self.thinned(widths))
                }
                _ => (vec![Vec::new()], Vec::new()),
            };
            entries.push(TunedPolicy { policy: policy.clone(), paper, fair });
        }
        Ok(entries)
    }

    /// Fewer candidates with `--quick`; of a few, every second.
    fn thinned(&self, candidates: Vec<Params>) -> Vec<Params> {
        let step =
            if candidates.len() < 10 { self.study.thinned.min(2) } else { self.study.thinned };
        candidates.into_iter().step_by(step).collect()
    }

    /// Policies that choose for all users at once cannot take offers that differ.
    fn can_play(&self, policy: &PolicyDraft) -> Result<bool, Error> {
        let world = self.place.environment.world(Seed { seed: self.seed, repetition: 0 })?;
        if !world.own_offers() {
            return Ok(true);
        }
        let size = self.place.environment.size();
        let problem = cohort::Problem { rounds: Some(1), ..cohort::Problem::new(2, size.dim) };
        let mut made = registry::build(&policy.name, &problem, policy.params.clone())?;
        Ok(made.online().is_some())
    }

    fn contender(&self, policy: &PolicyDraft, params: &Params) -> Result<Arc<Contender>, Error> {
        let info = registry::info(&policy.name)?;
        let mut all = policy.params.clone();
        all.extend(params.iter().map(|(name, value)| (name.clone(), Value::Real(*value))));
        let settings = info.check(all)?;
        Ok(Arc::new(Contender { label: policy.label().to_owned(), policy: info, settings }))
    }

    fn jobs(&self, policy: &PolicyDraft, params: &Params) -> Result<Vec<Job>, Error> {
        let first = Job {
            place: self.place.clone(),
            contender: self.contender(policy, params)?,
            horizon: self.rounds,
            rounds: self.rounds,
            seed: self.seed,
            repetition: 0,
            alone: self.study.kind == Kind::Runtime,
        };
        Ok((0..self.reps).map(|repetition| Job { repetition, ..first.clone() }).collect())
    }

    /// The first rounds of other repetitions.
    fn trials(
        &self,
        policy: &PolicyDraft,
        params: &Params,
        rung: &TuningStep,
    ) -> Result<Vec<Job>, Error> {
        let first = Job {
            place: self.place.clone(),
            contender: self.contender(policy, params)?,
            horizon: self.rounds,
            rounds: rung.rounds.min(self.rounds),
            seed: self.seed,
            repetition: TUNING_REPETITIONS,
            alone: false,
        };
        let of = |k| Job { repetition: TUNING_REPETITIONS + k, ..first.clone() };
        Ok(rung.repetitions.clone().map(of).collect())
    }

    fn cell(&self, results: Vec<PolicyResult>, repetitions: usize) -> Result<SettingResult, Error> {
        let size = self.place.environment.size();
        let people = self.people(repetitions)?;
        Ok(SettingResult {
            setting: self.setting.clone(),
            users: size.users,
            dim: size.dim,
            arms: size.arms,
            rounds: self.rounds,
            heterogeneity: self.setting.number("spread").and(heterogeneity(&people)),
            people,
            values: Vec::new(),
            results,
        })
    }

    /// Who the users of every repetition are, where the environment tells.
    fn people(&self, repetitions: usize) -> Result<Vec<UserTruth>, Error> {
        let dim = self.place.environment.size().dim;
        let mut people = Vec::new();
        for repetition in 0..repetitions {
            let world = self.place.environment.world(Seed { seed: self.seed, repetition })?;
            let Some(truth) = world.truth() else { return Ok(Vec::new()) };
            let users: Vec<&[f64]> = truth.thetas.chunks_exact(dim).collect();
            people.push(UserTruth::new(&users, truth.clusters));
        }
        Ok(people)
    }
}

/// Mean of ε_i over users and repetitions.
fn heterogeneity(people: &[UserTruth]) -> Option<f64> {
    let mean = |numbers: &[f64]| numbers.iter().sum::<f64>() / numbers.len() as f64;
    let each: Vec<f64> = people.iter().map(|people| mean(&people.epsilons)).collect();
    (!each.is_empty()).then(|| mean(&each))
}

/// Every combination of a grid.
fn combinations(grid: &[(String, Vec<f64>)]) -> Vec<Params> {
    let mut all = vec![Vec::new()];
    for (name, values) in grid {
        all = (all.iter())
            .flat_map(|params: &Params| {
                values.iter().map(|value| {
                    let mut params = params.clone();
                    params.push((name.clone(), *value));
                    params
                })
            })
            .collect();
    }
    all
}

/// A cache of environments, each built once.
struct EnvironmentCache<'a> {
    data: &'a Path,
    made: BTreeMap<String, Arc<EnvironmentKey>>,
}

impl EnvironmentCache<'_> {
    /// Why a study cannot be run, if it cannot.
    fn missing(&self, study: &Study) -> Option<String> {
        match study.draft.environment.as_deref() {
            Some("lastfm") if datasets::lastfm::locate(self.data).is_none() => {
                Some(datasets::lastfm::HOW_TO_GET.to_owned())
            }
            Some("movielens") if datasets::movielens::locate(self.data).is_none() => {
                Some(datasets::movielens::HOW_TO_GET.to_owned())
            }
            _ => None,
        }
    }

    fn place(&mut self, draft: &Draft) -> Result<Arc<EnvironmentKey>, Error> {
        let name = draft.environment.as_deref().unwrap_or(environments::ENVIRONMENTS[0].name);
        let info = environments::info(name)?;
        let mut options = draft.options.clone();
        let files = match name {
            "lastfm" => datasets::lastfm::locate(self.data),
            "movielens" => datasets::movielens::locate(self.data),
            _ => None,
        };
        if files.is_some() {
            let folder = self.data.to_string_lossy().into_owned();
            options.insert("data".into(), Value::Text(folder));
        }
        let settings = info.check(options)?;
        // Where the files are does not matter, only what they hold.
        let described: String = (describe(&settings).split(';'))
            .filter(|entry| !entry.starts_with("data="))
            .collect::<Vec<_>>()
            .join(";");
        let held = files.map_or(Ok(String::new()), |folder| content(&folder))?;
        let description = format!("{name}:{described}{held}");
        if let Some(place) = self.made.get(&description) {
            return Ok(place.clone());
        }
        let environment = (info.build)(&settings)?;
        let users = environment.size().users;
        let place =
            Arc::new(EnvironmentKey { environment, description: description.clone(), users });
        self.made.insert(description, place.clone());
        Ok(place)
    }
}

/// A number for what the files of a folder hold.
fn content(folder: &Path) -> Result<String, Error> {
    let failed = |source| Error::Read { path: folder.to_owned(), source };
    let entries: Result<Vec<_>, _> = std::fs::read_dir(folder).map_err(failed)?.collect();
    let mut paths: Vec<_> = entries.map_err(failed)?.iter().map(|entry| entry.path()).collect();
    paths.retain(|path| path.is_file());
    paths.sort();
    let mut bytes = Vec::new();
    for path in paths {
        bytes.extend(std::fs::read(&path).map_err(failed)?);
    }
    Ok(format!("{:032x}", fnv(&bytes)))
}
