//! The regret curves of an experiment, as one figure.

use crate::experiment::Experiment;
use crate::figures::scale::short;
use crate::figures::{Figure, Panel, Point, Series};
use crate::reproduce::evidence::{PolicyResult, Width};
use crate::reproduce::job::JobOutcome;
use crate::runner::Runs;

/// The regret of every policy against rounds, mean over repetitions with 95 % bands.
pub fn chart(experiment: &Experiment, runs: &Runs) -> Figure {
    let plan = &experiment.plan;
    let size = plan.environment.size();
    let curve = |(at, label): (usize, &str)| {
        let outcomes = runs.repetitions.iter().map(|rep| JobOutcome::of(&rep.runs[at])).collect();
        let label = label.to_owned();
        let played = PolicyResult { label, width: Width::Paper, chosen: Vec::new(), outcomes };
        let mut points = vec![Point { x: 0.0, y: 0.0, low: 0.0, high: 0.0 }];
        points.extend(played.curve(plan.rounds, None));
        let end = points.last().map_or(0.0, |point| point.y);
        Series {
            label: format!("{} {}", played.label, short(end)),
            may_leave: played.label == "random",
            policy: played.label,
            points,
            fit: None,
        }
    };
    let bands = match runs.repetitions.len() {
        1 => "one repetition".to_owned(),
        reps => format!("mean of {reps} repetitions, 95 % bands"),
    };
    Figure {
        name: "regret".to_owned(),
        title: format!("{}, {} users", experiment.environment.name, size.users),
        subtitle: format!("{} arms in R^{}; {bands}", size.arms, size.dim),
        columns: 1,
        panels: vec![Panel {
            x_label: "rounds".to_owned(),
            y_label: "regret per user (reward)".to_owned(),
            series: plan.players().map(|player| player.label()).enumerate().map(curve).collect(),
            ..Panel::default()
        }],
    }
}
