//! Counts: in how many settings something holds, by noise and width.

use super::super::evidence::{Measured, SettingResult, Width};
use super::{Finding, Verdict};
use crate::figures::scale::short;

/// How often something held.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Count {
    /// In so many settings.
    pub held: usize,
    /// Of so many.
    pub all: usize,
}

impl Count {
    fn add(&mut self, holds: bool) {
        self.held += usize::from(holds);
        self.all += 1;
    }

    fn plus(self, other: Count) -> Count {
        Count { held: self.held + other.held, all: self.all + other.all }
    }

    /// From 0 to 1.
    pub fn share(self) -> f64 {
        self.held as f64 / self.all.max(1) as f64
    }
}

impl std::fmt::Display for Count {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "{} of {}", self.held, self.all)
    }
}

/// Counts by noise and width, and the corresponding ratios of regret.
pub struct Tally {
    /// Noise level, width, count, and the ratios met.
    rows: Vec<(String, Width, Count, Vec<f64>)>,
    widths: &'static [Width],
}

/// Counts over all settings: `test` says for one setting and width which ratios of regret it
/// looked at and whether what is claimed holds for each.
pub fn tally(
    measured: &Measured,
    test: impl Fn(&SettingResult, Width) -> Option<Vec<(f64, bool)>>,
) -> Option<Tally> {
    let widths = measured.widths();
    let mut rows = Vec::new();
    for noise in measured.values("noise") {
        for &width in widths {
            let (mut count, mut ratios) = (Count::default(), Vec::new());
            for cell in measured.with("noise", &noise) {
                for (ratio, holds) in test(cell, width).into_iter().flatten() {
                    count.add(holds);
                    ratios.push(ratio);
                }
            }
            rows.push((noise.clone(), width, count, ratios));
        }
    }
    let any = rows.iter().any(|(_, _, count, _)| count.all > 0);
    any.then_some(Tally { rows, widths })
}

impl Tally {
    /// The count at a width, over all noise levels.
    pub fn at(&self, width: Width) -> Count {
        let rows = self.rows.iter().filter(|row| row.1 == width);
        rows.fold(Count::default(), |sum, row| sum.plus(row.2))
    }

    /// The median ratio at a width.
    pub fn median(&self, width: Width) -> f64 {
        let rows = self.rows.iter().filter(|row| row.1 == width);
        median(rows.flat_map(|row| row.3.iter().copied()).collect())
    }

    /// A line for each noise level.
    pub fn numbers(&self, ratio: &str) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        for rows in self.rows.chunks(self.widths.len()) {
            let part = |(_, width, count, ratios): &(String, Width, Count, Vec<f64>)| {
                let median = short(median(ratios.clone()));
                format!("{width} width {count} (median {ratio} {median})")
            };
            let parts: Vec<String> = rows.iter().map(part).collect();
            lines.push(format!("noise {}: {}", rows[0].0, parts.join(", ")));
        }
        lines
    }

    /// `12 of 27 cases at the paper's widths and 3 of 27 at tuned ones`: settings, or pairs in them, as the rule counts
    pub fn sentence(&self) -> String {
        let paper = format!("{} cases at the paper's widths", self.at(Width::Paper));
        match self.widths {
            [_, _] => format!("{paper} and {} at tuned widths", self.at(Width::Tuned)),
            _ => paper,
        }
    }

    /// The whole finding, with a last part of the sentence.
    pub fn finding(&self, ratio: &str, what: &str, because: &str) -> Finding {
        let sentence = self.sentence();
        let why = match because {
            "" => format!("{what} in {sentence}."),
            because => format!("{what} in {sentence}; {because}."),
        };
        let verdict = |width| Verdict::of_share(self.at(width).share());
        Finding {
            verdict: verdict(Width::Paper),
            tuned: self.widths.contains(&Width::Tuned).then(|| verdict(Width::Tuned)),
            numbers: self.numbers(ratio),
            why,
        }
    }
}

/// The middle of some numbers; not a number of none.
pub fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    match numbers.len() {
        0 => f64::NAN,
        count if count % 2 == 1 => numbers[count / 2],
        count => (numbers[count / 2 - 1] + numbers[count / 2]) / 2.0,
    }
}

/// The median over all settings of one policy's regret divided by another's.
pub fn median_ratio(measured: &Measured, width: Width, ours: &str, theirs: &str) -> f64 {
    let ratios = measured.cells.iter().filter_map(|cell| cell.compare(width, ours, theirs));
    median(ratios.map(|comparison| comparison.ratio).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(vec![]).is_nan());
    }
}
