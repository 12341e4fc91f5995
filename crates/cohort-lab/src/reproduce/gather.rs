//! From studies to evidence: places are made, parameters tuned, everything run.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use cohort::params::Value;
use cohort::registry;

use super::evidence::{Cell, Evidence, Measured, Played, Width};
use super::job::{Job, Outcome, Place, describe, fnv};
use super::study::{Kind, Setting, Study};
use super::workers::{Halt, Workshop};
use crate::experiment::{Draft, PolicyDraft};
use crate::runner::Contender;
use crate::seed::Seed;
use crate::{Error, datasets, environments};

/// Repetitions from here on are for tuning: no figure shows them.
const TUNING_REPETITIONS: usize = 1_000_000;

/// The parameter that scales a policy's exploration.
const WIDTH: &str = "exploration";

/// A setting, ready to be played in.
struct Stage {
    study: Arc<Study>,
    setting: Setting,
    draft: Draft,
    place: Arc<Place>,
    rounds: usize,
    reps: usize,
    seed: u64,
}

/// A policy that may be tuned, with all it may be tuned to.
struct Entry {
    policy: PolicyDraft,
    /// Combinations of parameters to choose from as the paper does it; one if it does not.
    paper: Vec<Params>,
    /// The same for the fair comparison; none where that is the same or makes no sense.
    fair: Vec<Params>,
}

type Params = Vec<(String, f64)>;

/// A study with everything that is to be run for it.
struct Prepared {
    study: Arc<Study>,
    stages: Vec<Stage>,
    entries: Vec<Vec<Entry>>,
}

/// Runs all studies.
pub fn gather(
    studies: Vec<Study>,
    workshop: &Workshop,
    data: &Path,
    seed: Option<u64>,
) -> Result<Evidence, Halt> {
    let mut evidence = Evidence { studies: Vec::new(), left_out: Vec::new() };
    let mut places = Places { data, made: BTreeMap::new() };
    let mut prepared = Vec::new();
    for study in studies {
        match places.missing(&study) {
            Some(why) => evidence.left_out.push((study.name, study.title, why)),
            None => prepared.push(Prepared::new(Arc::new(study), &mut places, seed)?),
        }
    }
    let work = prepared.iter().map(Prepared::work).sum::<Result<u64, Error>>()?;
    workshop.watcher.planned(work);
    for study in prepared {
        let cells = study.run(workshop)?;
        evidence.studies.push(Measured { study: study.study, cells });
    }
    Ok(evidence)
}

impl Prepared {
    fn new(study: Arc<Study>, places: &mut Places, seed: Option<u64>) -> Result<Self, Error> {
        let stages: Vec<Stage> = (study.settings().into_iter())
            .map(|setting| Stage::new(study.clone(), setting, places, seed))
            .collect::<Result<_, Error>>()?;
        let entries = stages.iter().map(Stage::entries).collect::<Result<_, Error>>()?;
        Ok(Self { study, stages, entries })
    }

    /// How much there is to do. What tuning will choose does not change it.
    fn work(&self) -> Result<u64, Error> {
        let mut work: u64 = self.trials()?.iter().map(Job::work).sum();
        for (stage, entries) in self.stages.iter().zip(&self.entries) {
            for entry in entries {
                for first in [entry.paper.first(), entry.fair.first()].into_iter().flatten() {
                    work += stage.jobs(&entry.policy, first)?.iter().map(Job::work).sum::<u64>();
                }
            }
        }
        Ok(work)
    }

    /// What is tuned: all candidates of all policies of all settings.
    fn trials(&self) -> Result<Vec<Job>, Error> {
        let mut trials = Vec::new();
        for (stage, entries) in self.stages.iter().zip(&self.entries) {
            for entry in entries {
                for candidates in [&entry.paper, &entry.fair] {
                    if candidates.len() > 1 {
                        for params in candidates {
                            trials.extend(stage.trials(&entry.policy, params)?);
                        }
                    }
                }
            }
        }
        Ok(trials)
    }

    fn run(&self, workshop: &Workshop) -> Result<Vec<Cell>, Halt> {
        let tuning = format!("{}: tuning", self.study.name);
        let mut scores = workshop.outcomes(&tuning, &self.trials()?)?.into_iter();
        let mut jobs = Vec::new();
        let mut shown: Vec<Vec<(String, Width, Params)>> = Vec::new();
        for (stage, entries) in self.stages.iter().zip(&self.entries) {
            let mut of_stage = Vec::new();
            for entry in entries {
                for (width, candidates) in
                    [(Width::Paper, &entry.paper), (Width::Tuned, &entry.fair)]
                {
                    let chosen = match candidates.as_slice() {
                        [] => continue,
                        [only] => only.clone(),
                        several => stage.best(several, &mut scores),
                    };
                    jobs.extend(stage.jobs(&entry.policy, &chosen)?);
                    of_stage.push((entry.policy.label().to_owned(), width, chosen));
                }
            }
            shown.push(of_stage);
        }
        let mut outcomes = workshop.outcomes(&self.study.name, &jobs)?.into_iter();
        (self.stages.iter().zip(shown))
            .map(|(stage, shown)| {
                let results = (shown.into_iter())
                    .map(|(label, width, chosen)| {
                        let outcomes = outcomes.by_ref().take(stage.reps).collect();
                        Played { label, width, chosen, outcomes }
                    })
                    .collect();
                Ok(stage.cell(results)?)
            })
            .collect()
    }
}

impl Stage {
    fn new(
        study: Arc<Study>,
        setting: Setting,
        places: &mut Places,
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
    fn entries(&self) -> Result<Vec<Entry>, Error> {
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
                (Some(_), Some(grid)) => (combinations(grid), Vec::new()),
                (Some(tuning), None) if scales => {
                    let widths = tuning.widths.iter();
                    (
                        vec![Vec::new()],
                        widths.map(|width| vec![(WIDTH.to_owned(), *width)]).collect(),
                    )
                }
                _ => (vec![Vec::new()], Vec::new()),
            };
            entries.push(Entry { policy: policy.clone(), paper, fair });
        }
        Ok(entries)
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
        Ok(made.turns().is_some())
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
    fn trials(&self, policy: &PolicyDraft, params: &Params) -> Result<Vec<Job>, Error> {
        let Some(tuning) = &self.study.tuning else { return Ok(Vec::new()) };
        let first = Job {
            place: self.place.clone(),
            contender: self.contender(policy, params)?,
            horizon: self.rounds,
            rounds: tuning.rounds.min(self.rounds),
            seed: self.seed,
            repetition: TUNING_REPETITIONS,
            alone: false,
        };
        let repetition = |k| TUNING_REPETITIONS + k;
        Ok((0..tuning.reps).map(|k| Job { repetition: repetition(k), ..first.clone() }).collect())
    }

    /// The candidate with the least regret, the first of equals.
    fn best(&self, candidates: &[Params], scores: &mut impl Iterator<Item = Outcome>) -> Params {
        let reps = self.study.tuning.as_ref().map_or(0, |tuning| tuning.reps);
        let mut best: Option<(f64, &Params)> = None;
        for params in candidates {
            let regret: f64 = scores.by_ref().take(reps).map(|outcome| outcome.total()).sum();
            if best.is_none_or(|(least, _)| regret < least) {
                best = Some((regret, params));
            }
        }
        best.map(|(_, params)| params.clone()).unwrap_or_default()
    }

    fn cell(&self, results: Vec<Played>) -> Result<Cell, Error> {
        let size = self.place.environment.size();
        Ok(Cell {
            setting: self.setting.clone(),
            users: size.users,
            dim: size.dim,
            rounds: self.rounds,
            heterogeneity: self.heterogeneity()?,
            results,
        })
    }

    /// Mean of ‖θ_i − θ̄‖ over users and repetitions; only asked for where it is an axis.
    fn heterogeneity(&self) -> Result<Option<f64>, Error> {
        if self.setting.number("spread").is_none() {
            return Ok(None);
        }
        let dim = self.place.environment.size().dim;
        let mut sum = 0.0;
        for repetition in 0..self.reps {
            let world = self.place.environment.world(Seed { seed: self.seed, repetition })?;
            let Some(truth) = world.truth() else { return Ok(None) };
            let users: Vec<&[f64]> = truth.thetas.chunks_exact(dim).collect();
            let mean: Vec<f64> = (0..dim)
                .map(|k| users.iter().map(|theta| theta[k]).sum::<f64>() / users.len() as f64)
                .collect();
            let away = |theta: &&[f64]| {
                theta.iter().zip(&mean).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
            };
            sum += users.iter().map(away).sum::<f64>() / users.len() as f64;
        }
        Ok(Some(sum / self.reps as f64))
    }
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

/// Environments, each made once.
struct Places<'a> {
    data: &'a Path,
    made: BTreeMap<String, Arc<Place>>,
}

impl Places<'_> {
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

    fn place(&mut self, draft: &Draft) -> Result<Arc<Place>, Error> {
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
        let place = Arc::new(Place { environment, description: description.clone(), users });
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
