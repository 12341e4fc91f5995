//! Round-by-round results as columns. Rounds and repetitions are numbered from 1; a table has one
//! chunk per policy.

use super::columns::{Column, Table};
use super::summary::rate;
use crate::runner::{Checkpoint, Run, Runs};

/// The regret of every round, and of all rounds up to it.
pub fn regret<'a>(labels: &[&'a str], runs: &Runs) -> Table<'a> {
    by_policy(labels, runs, |label, runs| {
        let rounds = |(_, run): &(i64, &Run)| run.regret.len();
        let rows = runs.iter().map(rounds).sum();
        let mut cumulative = Vec::with_capacity(rows);
        for (_, run) in runs {
            cumulative.extend(run.regret.iter().scan(0.0, |sum, regret| {
                *sum += regret;
                Some(*sum)
            }));
        }
        let number = |(number, run): &(i64, &Run)| std::iter::repeat_n(*number, run.regret.len());
        vec![
            ("policy", Column::Text(label, rows)),
            ("repetition", Column::Int(runs.iter().flat_map(number).collect())),
            ("round", Column::Int(runs.iter().flat_map(|run| 1..=rounds(run) as i64).collect())),
            (
                "regret",
                Column::Real(runs.iter().flat_map(|(_, run)| run.regret.iter().copied()).collect()),
            ),
            ("cumulative_regret", Column::Real(cumulative)),
        ]
    })
}

/// The clusters found at every checkpoint.
pub fn clusters<'a>(labels: &[&'a str], runs: &Runs) -> Table<'a> {
    by_policy(labels, runs, |label, runs| {
        let rows: Vec<(i64, &Checkpoint)> = runs
            .iter()
            .flat_map(|(number, run)| run.checkpoints.iter().map(|point| (*number, point)))
            .collect();
        let found = |point: &Checkpoint| point.clusters.map(|clusters| clusters as i64);
        vec![
            ("policy", Column::Text(label, rows.len())),
            ("repetition", Column::Int(rows.iter().map(|(number, _)| *number).collect())),
            ("round", Column::Int(rows.iter().map(|(_, point)| point.rounds as i64).collect())),
            ("clusters", Column::MaybeInt(rows.iter().map(|(_, point)| found(point)).collect())),
            (
                "adjusted_rand",
                Column::MaybeReal(rows.iter().map(|(_, point)| point.adjusted_rand).collect()),
            ),
        ]
    })
}

/// The times of every run.
pub fn timing<'a>(labels: &[&'a str], users: usize, runs: &Runs) -> Table<'a> {
    by_policy(labels, runs, |label, runs| {
        let real =
            |of: &dyn Fn(&Run) -> f64| Column::Real(runs.iter().map(|(_, run)| of(run)).collect());
        vec![
            ("policy", Column::Text(label, runs.len())),
            ("repetition", Column::Int(runs.iter().map(|(number, _)| *number).collect())),
            ("learning_seconds", real(&|run| run.learning.as_secs_f64())),
            ("environment_seconds", real(&|run| run.environment.as_secs_f64())),
            (
                "user_rounds_per_second",
                real(&|run| rate(users * run.regret.len(), run.learning.as_secs_f64())),
            ),
        ]
    })
}

fn by_policy<'a>(
    labels: &[&'a str],
    runs: &Runs,
    chunk: impl Fn(&'a str, &[(i64, &Run)]) -> Vec<(&'static str, Column<'a>)>,
) -> Table<'a> {
    let of_policy = |(at, label): (usize, &&'a str)| {
        let runs: Vec<(i64, &Run)> =
            runs.repetitions.iter().map(|rep| (rep.number as i64 + 1, &rep.runs[at])).collect();
        chunk(label, &runs)
    };
    Table { chunks: labels.iter().enumerate().map(of_policy).collect() }
}
