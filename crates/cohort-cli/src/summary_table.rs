//! The summary as a table, one line per policy.

use cohort_lab::experiment::Experiment;
use cohort_lab::results::{PolicySummary, Summary};

/// The policy that others are compared with.
const REFERENCE: &str = "linucb-ind";

/// The settings of the run, and the results of each policy.
pub fn summary_table(experiment: &Experiment, summary: &Summary) -> String {
    let reference = reference_regret(experiment, summary);
    let header = [
        "policy",
        "mean regret",
        "95 % interval",
        &format!("× {REFERENCE}"),
        "clusters found",
        "adj. Rand",
        "user-rounds/s",
    ]
    .map(str::to_owned);
    let mut rows = vec![header];
    rows.extend(summary.policies.iter().map(|policy| row(policy, reference)));
    format!("{}\n\n{}", title(experiment, summary), aligned(&rows))
}

fn title(experiment: &Experiment, summary: &Summary) -> String {
    let size = experiment.plan.environment.size();
    format!(
        "{}: {} users, {} rounds, {} arms in R^{}, {} repetition{}, seed {}",
        experiment.environment.name,
        summary.users,
        summary.rounds,
        size.arms,
        size.dim,
        summary.reps,
        if summary.reps == 1 { "" } else { "s" },
        summary.seed,
    )
}

/// The regret of the policy labelled `linucb-ind`, or of the first of that name.
fn reference_regret(experiment: &Experiment, summary: &Summary) -> Option<f64> {
    let contenders = &experiment.plan.contenders;
    let labelled = contenders.iter().position(|contender| contender.label == REFERENCE);
    let named = || contenders.iter().position(|contender| contender.policy.name == REFERENCE);
    Some(summary.policies[labelled.or_else(named)?].regret_mean)
}

fn row(policy: &PolicySummary, reference: Option<f64>) -> [String; 7] {
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "–".to_owned());
    let clusters = mean(policy.clusters.iter().map(|count| count.map(|count| count as f64)));
    [
        policy.name.clone(),
        format!("{:.2}", policy.regret_mean),
        or_none(policy.regret_ci95.map(|half| format!("± {half:.2}"))),
        or_none(reference.map(|reference| format!("{:.2}", policy.regret_mean / reference))),
        or_none(clusters.map(|clusters| format!("{clusters:.1}"))),
        or_none(mean(policy.adjusted_rand.iter().copied()).map(|index| format!("{index:.2}"))),
        with_unit(policy.user_rounds_per_second),
    ]
}

/// The mean of the present values, if there are any.
fn mean(values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let values: Vec<f64> = values.flatten().collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

fn with_unit(rate: f64) -> String {
    match rate {
        1e9.. => format!("{:.1} G", rate / 1e9),
        1e6.. => format!("{:.1} M", rate / 1e6),
        1e3.. => format!("{:.1} k", rate / 1e3),
        _ => format!("{rate:.1}"),
    }
}

/// Aligns the first column to the left and the others to the right.
pub fn aligned<const COLUMNS: usize>(rows: &[[String; COLUMNS]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: [usize; COLUMNS] = std::array::from_fn(|column| width(column).unwrap_or(0));
    let mut text = String::new();
    for row in rows {
        text += &format!("{:<width$}", row[0], width = widths[0]);
        for (cell, width) in row.iter().zip(widths).skip(1) {
            text += &format!("  {cell:>width$}");
        }
        text.push('\n');
    }
    text
}
