//! All results, by study, setting, width and policy, and comparisons between policies.

use std::fmt;
use std::sync::Arc;

use super::job::JobOutcome;
use super::study::{Setting, Study, UNDER, label_under};
use crate::figures::Point;
use crate::results::half_width_95;

/// Which exploration a policy had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Width {
    /// That of the paper or of the theory.
    Paper,
    /// The best of one grid for all, chosen on other repetitions.
    Tuned,
}

impl fmt::Display for Width {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Width::Paper => "paper",
            Width::Tuned => "tuned",
        })
    }
}

/// All studies that were run, and why others were not.
pub struct Evidence {
    /// What was measured.
    pub studies: Vec<Measured>,
    /// Studies that could not be run: name, title and why, in one line.
    pub left_out: Vec<(String, String, String)>,
}

/// One study and what came of it.
pub struct Measured {
    /// The study.
    pub study: Arc<Study>,
    /// Its settings, in their order.
    pub cells: Vec<SettingResult>,
    /// Policies of the study that are not there yet.
    pub absent: Vec<String>,
}

/// The results in one setting.
#[derive(Clone)]
pub struct SettingResult {
    /// The values of the facets.
    pub setting: Setting,
    /// N.
    pub users: usize,
    /// d.
    pub dim: usize,
    /// K.
    pub arms: usize,
    /// T.
    pub rounds: usize,
    /// Who the users of every repetition are, where that is known.
    pub people: Vec<UserTruth>,
    /// What a probe answered in every repetition.
    pub values: Vec<Vec<f64>>,
    /// The mean over users and repetitions of ‖θ_i − θ̄‖, where users have a θ.
    pub heterogeneity: Option<f64>,
    /// What came of every policy at every width.
    pub results: Vec<PolicyResult>,
}

/// The true parameters of the users of one repetition.
#[derive(Clone, Debug, Default)]
pub struct UserTruth {
    /// ε_i = ‖θ_i − θ̄‖ of every user.
    pub epsilons: Vec<f64>,
    /// The cluster of every user.
    pub clusters: Vec<usize>,
    /// p of every cluster.
    pub shares: Vec<f64>,
    /// Δ of every cluster.
    pub separations: Vec<f64>,
    /// How far apart any two clusters are at the most.
    pub diameter: f64,
}

impl UserTruth {
    /// From the vectors of all users and their clusters.
    pub fn new(thetas: &[&[f64]], clusters: &[usize]) -> Self {
        let users = thetas.len().max(1) as f64;
        let dim = thetas.first().map_or(0, |theta| theta.len());
        let mean: Vec<f64> =
            (0..dim).map(|k| thetas.iter().map(|theta| theta[k]).sum::<f64>() / users).collect();
        let apart = |a: &[f64], b: &[f64]| {
            a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
        };
        let count = clusters.iter().max().map_or(0, |last| last + 1);
        let mut sizes = vec![0.0; count];
        let mut first: Vec<Option<&[f64]>> = vec![None; count];
        for (theta, cluster) in thetas.iter().zip(clusters) {
            sizes[*cluster] += 1.0;
            first[*cluster].get_or_insert(theta);
        }
        // As many clusters as users are users: nobody asks how far apart those are.
        let centres: Vec<&[f64]> =
            if count == thetas.len() { Vec::new() } else { first.into_iter().flatten().collect() };
        let mut separations = vec![f64::INFINITY; centres.len()];
        let mut diameter: f64 = 0.0;
        for i in 0..centres.len() {
            for j in 0..i {
                let distance = apart(centres[i], centres[j]);
                separations[i] = separations[i].min(distance);
                separations[j] = separations[j].min(distance);
                diameter = diameter.max(distance);
            }
        }
        Self {
            epsilons: thetas.iter().map(|theta| apart(theta, &mean)).collect(),
            clusters: clusters.to_vec(),
            shares: sizes.iter().map(|size| size / users).collect(),
            separations,
            diameter,
        }
    }

    /// The share of the smallest cluster.
    pub fn smallest_share(&self) -> f64 {
        self.shares.iter().copied().filter(|share| *share > 0.0).fold(1.0, f64::min)
    }
}

/// One policy at one width.
#[derive(Clone)]
pub struct PolicyResult {
    /// Its name.
    pub label: String,
    /// At which width.
    pub width: Width,
    /// What was chosen by tuning: parameter and value.
    pub chosen: Vec<(String, f64)>,
    /// What came of every repetition.
    pub outcomes: Vec<JobOutcome>,
}

/// How one policy's regret compares with another's in the same worlds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// Ratio of the means.
    pub ratio: f64,
    /// Whether it is lower, beyond what repetitions vary.
    pub lower: bool,
    /// Whether it is higher, beyond what repetitions vary.
    pub higher: bool,
}

impl Evidence {
    /// The study of that name, if it was run.
    pub fn study(&self, name: &str) -> Option<&Measured> {
        self.studies.iter().find(|measured| measured.study.name == name)
    }
}

impl Measured {
    /// The different values of a facet, in their order.
    pub fn values(&self, key: &str) -> Vec<String> {
        let mut values = Vec::new();
        for value in self.cells.iter().filter_map(|cell| cell.setting.text(key)) {
            if !values.contains(&value) {
                values.push(value);
            }
        }
        values
    }

    /// The settings in which a facet has a value.
    pub fn with<'a>(
        &'a self,
        key: &'a str,
        value: &'a str,
    ) -> impl Iterator<Item = &'a SettingResult> {
        self.cells.iter().filter(move |cell| cell.setting.text(key).as_deref() == Some(value))
    }

    /// The same study with those settings only.
    pub fn only(&self, mut keep: impl FnMut(&SettingResult) -> bool) -> Measured {
        let cells = self.cells.iter().filter(|cell| keep(cell)).cloned().collect();
        Measured { study: self.study.clone(), cells, absent: self.absent.clone() }
    }

    /// The same study under another reading of the paper: policies that have a form under it in
    /// that form, the others as they are.
    pub fn under(&self, reading: Option<&str>) -> Measured {
        let mut all = self.only(|_| true);
        for cell in &mut all.cells {
            let played = std::mem::take(&mut cell.results);
            let other = |label: &str| reading.map(|reading| label_under(label, reading));
            for one in played.iter().filter(|one| !one.label.contains(UNDER)) {
                let form = other(&one.label).and_then(|wanted| {
                    played.iter().find(|form| form.label == wanted && form.width == one.width)
                });
                let form = form.unwrap_or(one).clone();
                cell.results.push(PolicyResult { label: one.label.clone(), ..form });
            }
        }
        all
    }

    /// The same study with other policies in the place of some: `(place, policy)`.
    pub fn replaced(&self, pairs: &[(&str, &str)]) -> Measured {
        let mut all = self.only(|_| true);
        for cell in &mut all.cells {
            let other = |one: &PolicyResult| {
                let (_, wanted) = pairs.iter().find(|(place, _)| *place == one.label)?;
                let form = self.cells.iter().find(|own| own.setting == cell.setting)?;
                form.results.iter().find(|form| form.label == *wanted && form.width == one.width)
            };
            let replaced = cell.results.iter().map(|one| match other(one) {
                Some(form) => PolicyResult { label: one.label.clone(), ..form.clone() },
                None => one.clone(),
            });
            cell.results = replaced.collect();
        }
        all
    }

    /// How many repetitions there are; of a run that is not complete, those of most policies.
    pub fn repetitions(&self) -> usize {
        let played = |cell: &SettingResult| {
            let of_policies = cell.results.iter().map(|played| played.outcomes.len()).max();
            of_policies.unwrap_or(cell.values.len())
        };
        self.cells.iter().map(played).min().unwrap_or(0)
    }

    /// Policies that have fewer repetitions than others, and how many.
    pub fn fewer(&self) -> Vec<(&str, usize)> {
        let (most, first) = (self.repetitions(), self.cells.first());
        let all = first.into_iter().flat_map(|cell| &cell.results);
        let mut fewer: Vec<(&str, usize)> = (all.filter(|played| played.outcomes.len() < most))
            .map(|played| (played.label.as_str(), played.outcomes.len()))
            .collect();
        fewer.dedup();
        fewer
    }

    /// ` (cohort 5, 12 others 10)`: who has fewer repetitions; nothing where all have as many.
    pub fn exceptions(&self) -> String {
        let mut groups: Vec<(usize, Vec<&str>)> = Vec::new();
        for (label, count) in self.fewer() {
            match groups.iter_mut().find(|(of, _)| *of == count) {
                Some((_, labels)) => labels.push(label),
                None => groups.push((count, vec![label])),
            }
        }
        let named = |(count, labels): &(usize, Vec<&str>)| match labels.len() {
            1..=3 => format!("{} {count}", labels.join(" and ")),
            many => format!("{many} others {count}"),
        };
        let groups: Vec<String> = groups.iter().map(named).collect();
        if groups.is_empty() { String::new() } else { format!(" ({})", groups.join(", ")) }
    }

    /// Whether policies were also run at tuned widths.
    pub fn widths(&self) -> &'static [Width] {
        let tuned =
            |cell: &SettingResult| cell.results.iter().any(|played| played.width == Width::Tuned);
        if self.cells.iter().any(tuned) { &[Width::Paper, Width::Tuned] } else { &[Width::Paper] }
    }
}

impl SettingResult {
    /// A policy at a width; what has no width of its own is the same at all.
    pub fn played(&self, width: Width, label: &str) -> Option<&PolicyResult> {
        let find = |width| {
            self.results.iter().find(|played| played.label == label && played.width == width)
        };
        find(width).or_else(|| find(Width::Paper))
    }

    /// All policies at a width, in the order of the study.
    pub fn all(&self, width: Width) -> impl Iterator<Item = &PolicyResult> {
        let first = self.results.iter().filter(|played| played.width == Width::Paper);
        first.filter_map(move |played| self.played(width, &played.label))
    }

    /// The mean of a column of the probe over repetitions.
    pub fn value(&self, column: usize) -> f64 {
        let column = self.values.iter().map(|values| values[column]);
        column.sum::<f64>() / self.values.len() as f64
    }

    /// The mean of a policy's regret.
    pub fn regret(&self, width: Width, label: &str) -> Option<f64> {
        self.played(width, label).map(PolicyResult::mean)
    }

    /// Compares two policies repetition by repetition: they met the same worlds.
    pub fn compare(&self, width: Width, ours: &str, theirs: &str) -> Option<Comparison> {
        let (ours, theirs) = (self.played(width, ours)?, self.played(width, theirs)?);
        let differences: Vec<f64> = (ours.outcomes.iter().zip(&theirs.outcomes))
            .map(|(ours, theirs)| ours.total() - theirs.total())
            .collect();
        let mean = differences.iter().sum::<f64>() / differences.len() as f64;
        let margin = half_width_95(&differences).unwrap_or(0.0);
        // Over the repetitions that both have.
        let sum = |played: &PolicyResult| {
            played.outcomes.iter().take(differences.len()).map(JobOutcome::total).sum::<f64>()
        };
        Some(Comparison {
            ratio: sum(ours) / sum(theirs),
            lower: mean + margin < 0.0,
            higher: mean - margin > 0.0,
        })
    }
}

impl PolicyResult {
    /// The regret of every repetition.
    pub fn totals(&self) -> Vec<f64> {
        self.outcomes.iter().map(JobOutcome::total).collect()
    }

    /// Its mean.
    pub fn mean(&self) -> f64 {
        self.totals().iter().sum::<f64>() / self.outcomes.len() as f64
    }

    /// A quantile of the regret of all users of all repetitions: ½ is the median user, 1 the worst.
    /// None where the regret of single users is not kept.
    pub fn of_users(&self, share: f64) -> Option<f64> {
        let mut all: Vec<f32> =
            self.outcomes.iter().flat_map(|outcome| outcome.users.iter().copied()).collect();
        all.sort_by(f32::total_cmp);
        let at = (share * all.len().saturating_sub(1) as f64).round() as usize;
        all.get(at).map(|regret| f64::from(*regret))
    }

    /// Mean ε_i and mean regret of the quarter of users nearest to the average, and of the farthest.
    pub fn by_epsilon(&self, people: &[UserTruth]) -> Option<[(f64, f64); 2]> {
        let mut pairs: Vec<(f64, f64)> = (self.outcomes.iter().zip(people))
            .flat_map(|(outcome, people)| people.epsilons.iter().copied().zip(&outcome.users))
            .map(|(epsilon, regret)| (epsilon, f64::from(*regret)))
            .collect();
        pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
        let quarter = pairs.len() / 4;
        let mean = |part: &[(f64, f64)]| {
            let sum = part.iter().fold((0.0, 0.0), |sum, pair| (sum.0 + pair.0, sum.1 + pair.1));
            (sum.0 / quarter as f64, sum.1 / quarter as f64)
        };
        let (near, far) = (&pairs[..quarter], &pairs[pairs.len() - quarter..]);
        (quarter > 0).then(|| [mean(near), mean(far)])
    }

    /// Mean regret of users of the smallest cluster, and of the largest; none where users are not in clusters.
    pub fn by_cluster_size(&self, people: &[UserTruth]) -> Option<[f64; 2]> {
        let mut sums = [(0.0, 0usize); 2];
        for (outcome, people) in self.outcomes.iter().zip(people) {
            let ends = [people.smallest_share(), people.shares.iter().copied().fold(0.0, f64::max)];
            if people.shares.len() < 2 || people.shares.len() == people.clusters.len() {
                return None;
            }
            for (regret, cluster) in outcome.users.iter().zip(&people.clusters) {
                for (sum, end) in sums.iter_mut().zip(ends) {
                    if people.shares[*cluster] == end {
                        *sum = (sum.0 + f64::from(*regret), sum.1 + 1);
                    }
                }
            }
        }
        let all = sums.iter().all(|(_, count)| *count > 0);
        all.then(|| sums.map(|(sum, count)| sum / count as f64))
    }

    /// The fastest repetition.
    pub fn seconds(&self) -> f64 {
        self.outcomes.iter().map(|outcome| outcome.seconds).fold(f64::INFINITY, f64::min)
    }

    /// The curve with its 95 % band, divided by another policy's where one is given.
    pub fn curve(&self, rounds: usize, by: Option<&PolicyResult>) -> Vec<Point> {
        let at = |k: usize| -> Vec<f64> {
            (self.outcomes.iter().enumerate())
                .take(by.map_or(usize::MAX, |by| by.outcomes.len()))
                .map(|(rep, outcome)| {
                    outcome.regret[k] / by.map_or(1.0, |by| by.outcomes[rep].regret[k])
                })
                .collect()
        };
        (super::job::points(rounds).enumerate())
            .filter(|(k, _)| self.outcomes.iter().all(|outcome| outcome.regret.len() > *k))
            .map(|(k, round)| point(round as f64, &at(k)))
            .filter(|point| point.y.is_finite())
            .collect()
    }

    /// Regret at the end as one point.
    pub fn end(&self, x: f64) -> Point {
        point(x, &self.totals())
    }
}

/// A mean with its interval.
pub fn point(x: f64, numbers: &[f64]) -> Point {
    let y = numbers.iter().sum::<f64>() / numbers.len() as f64;
    let margin = half_width_95(numbers).unwrap_or(0.0);
    Point { x, y, low: y - margin, high: y + margin }
}
