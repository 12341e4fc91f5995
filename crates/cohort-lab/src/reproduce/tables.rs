//! The numbers behind the figures, as columns for CSV and Parquet. Nothing here depends on the
//! clock: the same seed gives the same bytes. Times are in a table of their own.

use super::evidence::{Measured, PolicyResult};
use super::job::points;
use crate::results::columns::{Column, Table};

/// One row a point of a curve: setting, width, policy, round, mean and interval.
pub fn curves(measured: &Measured) -> Table<'_> {
    by_played(measured, |cell_columns, cell, played| {
        let curve = played.curve(cell.rounds, None);
        let rows = curve.len();
        let mut columns = cell_columns(rows);
        let rounds = points(cell.rounds).take(rows).map(|round| round as i64).collect();
        columns.push(("round", Column::Int(rounds)));
        columns.push(("regret_mean", Column::Real(curve.iter().map(|p| p.y).collect())));
        columns.push(("regret_low", Column::Real(curve.iter().map(|p| p.low).collect())));
        columns.push(("regret_high", Column::Real(curve.iter().map(|p| p.high).collect())));
        columns
    })
}

/// One row a repetition: regret at the end, clusters found, what tuning had chosen.
pub fn repetitions(measured: &Measured) -> Table<'_> {
    by_played(measured, |cell_columns, _, played| {
        let rows = played.outcomes.len();
        let mut columns = cell_columns(rows);
        columns.push(("repetition", Column::Int((1..=rows as i64).collect())));
        columns.push(("regret", Column::Real(played.totals())));
        let clusters = played.outcomes.iter().map(|o| o.clusters.map(|count| count as i64));
        columns.push(("clusters", Column::MaybeInt(clusters.collect())));
        let rand = played.outcomes.iter().map(|outcome| outcome.adjusted_rand);
        columns.push(("adjusted_rand", Column::MaybeReal(rand.collect())));
        for param in TUNED {
            let value = played.chosen.iter().find(|(name, _)| name == param).map(|(_, v)| *v);
            columns.push((tuned_name(param), Column::MaybeReal(vec![value; rows])));
        }
        columns
    })
}

/// One row a repetition of a probe: what it answered.
pub fn answers(measured: &Measured) -> Table<'_> {
    let columns = measured.study.probe.map_or(&[][..], |probe| probe.columns);
    let chunks = (measured.cells.iter())
        .map(|cell| {
            let rows = cell.values.len();
            let mut chunk: Columns = (cell.setting.values.iter())
                .map(|(key, value)| (column_name(key), setting_column(value, rows)))
                .collect();
            chunk.push(("repetition", Column::Int((1..=rows as i64).collect())));
            for (at, column) in columns.iter().enumerate() {
                let values = cell.values.iter().map(|values| values[at]).collect();
                chunk.push((column, Column::Real(values)));
            }
            chunk
        })
        .collect();
    Table { chunks }
}

/// One row a policy: regret at the end, mean over users and its interval, the median user, the user
/// at nine tenths and the worst of all repetitions, those of the smallest and the largest cluster and the nearest and
/// the farthest quarter from the average (ε_i) where users differ so, what tuning had chosen.
pub fn ends(measured: &Measured) -> Table<'_> {
    by_played(measured, |cell_columns, cell, played| {
        let mut columns = cell_columns(1);
        let end = played.end(0.0);
        let real = |value: f64| Column::Real(vec![value]);
        columns.push(("repetitions", Column::Int(vec![played.outcomes.len() as i64])));
        columns.push(("regret_mean", real(end.y)));
        columns.push(("regret_low", real(end.low)));
        columns.push(("regret_high", real(end.high)));
        for (name, share) in [("median_user", 0.5), ("ninetieth_user", 0.9), ("worst_user", 1.0)] {
            columns.push((name, Column::MaybeReal(vec![played.of_users(share)])));
        }
        let clusters = played.by_cluster_size(&cell.people);
        let quarters = played.by_epsilon(&cell.people);
        for (name, value) in [
            ("smallest_cluster", clusters.map(|[smallest, _]| smallest)),
            ("largest_cluster", clusters.map(|[_, largest]| largest)),
            ("nearest_quarter", quarters.map(|[(_, nearest), _]| nearest)),
            ("farthest_quarter", quarters.map(|[_, (_, farthest)]| farthest)),
        ] {
            columns.push((name, Column::MaybeReal(vec![value])));
        }
        for param in TUNED {
            let value = played.chosen.iter().find(|(name, _)| name == param).map(|(_, v)| *v);
            columns.push((tuned_name(param), Column::MaybeReal(vec![value])));
        }
        columns
    })
}

/// One row a repetition: what learning took. Differs from run to run.
pub fn times(measured: &Measured) -> Table<'_> {
    by_played(measured, |cell_columns, _, played| {
        let rows = played.outcomes.len();
        let mut columns = cell_columns(rows);
        columns.push(("repetition", Column::Int((1..=rows as i64).collect())));
        let seconds = played.outcomes.iter().map(|outcome| outcome.seconds);
        columns.push(("learning_seconds", Column::Real(seconds.collect())));
        columns
    })
}

/// What may be tuned.
const TUNED: [&str; 3] = ["exploration", "alpha2", "alpha_theta"];

fn tuned_name(param: &str) -> &'static str {
    match param {
        "exploration" => "tuned_exploration",
        "alpha2" => "tuned_alpha2",
        _ => "tuned_alpha_theta",
    }
}

type Columns<'a> = Vec<(&'static str, Column<'a>)>;

/// A chunk for every policy at every width in every setting, the setting's columns first.
fn by_played<'a>(
    measured: &'a Measured,
    chunk: impl Fn(
        &dyn Fn(usize) -> Columns<'a>,
        &'a super::evidence::SettingResult,
        &'a PolicyResult,
    ) -> Columns<'a>,
) -> Table<'a> {
    let mut chunks = Vec::new();
    for cell in &measured.cells {
        for played in &cell.results {
            let first = |rows: usize| -> Columns<'a> {
                let mut columns: Columns<'a> = (cell.setting.values.iter())
                    .map(|(key, value)| (column_name(key), setting_column(value, rows)))
                    .collect();
                let width = match played.width {
                    super::evidence::Width::Paper => "paper",
                    super::evidence::Width::Tuned => "tuned",
                };
                columns.push(("width", Column::Text(width, rows)));
                columns.push(("policy", Column::Text(&played.label, rows)));
                columns
            };
            chunks.push(chunk(&first, cell, played));
        }
    }
    Table { chunks }
}

fn setting_column(value: &cohort::params::Value, rows: usize) -> Column<'_> {
    match value {
        cohort::params::Value::Real(number) => Column::Real(vec![*number; rows]),
        cohort::params::Value::Text(text) => Column::Text(text, rows),
    }
}

/// Tables name their columns once and for all.
fn column_name(key: &str) -> &'static str {
    const KEYS: [&str; 17] = [
        "clusters",
        "dim",
        "psi",
        "delta",
        "horizon",
        "norm",
        "epsilon",
        "noise",
        "imbalance",
        "users",
        "unit_ball",
        "spread",
        "offer",
        "untagged",
        "centring",
        "rows",
        "spacing",
    ];
    KEYS.into_iter().find(|known| *known == key).unwrap_or("rounds")
}
