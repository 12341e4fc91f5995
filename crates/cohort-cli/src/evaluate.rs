//! `cohort evaluate`: off-policy evaluation by a log.

use std::path::PathBuf;

use clap::Args;
use cohort_lab::evaluate::estimators::Estimator;
use cohort_lab::evaluate::log::Log;
use cohort_lab::evaluate::target::TargetSpec;
use cohort_lab::evaluate::{Evaluation, evaluate, reading};
use serde_json::json;

use crate::failure::{Done, Failure, print};
use crate::summary_table::aligned;

const EXAMPLES: &str = "\
Examples:
  cohort evaluate log.parquet --policy random,linucb-ind,cohort
      the log of a service (GET /v1/apps/NAME/log), three policies
  cohort evaluate men.csv.gz --policy item=3 --estimator ips,snips
      an Open Bandit campaign, its item_context.csv beside it
  cohort evaluate log.csv --policy file=P.npy --json
      probabilities of your own, (rows, candidates)

docs/evaluate.md says what the estimators assume and what columns a log has.";

/// Estimate from a log what other policies would have earned, with intervals
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Evaluate {
    /// The log: CSV (plain or gzip), Parquet, or `.dsjson` of Vowpal Wabbit and Azure Personalizer
    log: PathBuf,
    /// The policies to evaluate: `logged`, `random`, `item=ID`, `file=P.npy`, or a learning policy
    /// [`cohort policies` lists them]
    #[arg(long, value_name = "NAME,…", default_value = "logged,random")]
    policy: String,
    /// The estimators: replay, ips, snips, dr
    #[arg(long, value_name = "NAME,…", default_value = "replay,ips,snips,dr")]
    estimator: String,
    /// A parameter of a learning policy; may be repeated
    #[arg(long, value_name = "POLICY.PARAM=VALUE")]
    set: Vec<String>,
    /// The seed of the draws of replay
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Print the estimates as JSON, and nothing else
    #[arg(long)]
    json: bool,
}

impl Evaluate {
    /// Reads, evaluates, prints.
    pub fn run(self) -> Result<Done, Failure> {
        let estimators = self.estimators()?;
        let wanted = self.wanted()?;
        let log = reading::read(&self.log)?;
        let targets = wanted.into_iter().map(|wanted| wanted.build(&log));
        let mut targets = targets.collect::<Result<Vec<_>, _>>()?;
        let evaluations = evaluate(&log, &mut targets, &estimators, self.seed)?;
        print(&if self.json {
            self.as_json(&log, &evaluations)
        } else {
            self.as_table(&log, &evaluations)
        })?;
        Ok(Done::Complete)
    }

    fn estimators(&self) -> Result<Vec<Estimator>, Failure> {
        let known = || Estimator::ALL.map(Estimator::name).join(", ");
        let find = |name: &str| {
            let found = Estimator::ALL.into_iter().find(|estimator| estimator.name() == name);
            found.ok_or_else(|| {
                Failure::bad_input(format!("--estimator {name}: expected some of {}", known()))
            })
        };
        self.estimator.split(',').map(str::trim).map(find).collect()
    }

    fn wanted(&self) -> Result<Vec<TargetSpec>, Failure> {
        let names: Vec<&str> = self.policy.split(',').map(str::trim).collect();
        let mut wanted =
            names.iter().map(|name| TargetSpec::parse(name)).collect::<Result<Vec<_>, _>>()?;
        for assignment in &self.set {
            let (target, value) = assignment.split_once('=').unwrap_or((assignment, ""));
            let (name, param) = target.split_once('.').unwrap_or((target, ""));
            let learner = names.iter().zip(&mut wanted).find(|(known, _)| **known == name);
            match learner {
                Some((_, TargetSpec::Learner(_, params))) => {
                    params.push((param.trim().to_owned(), value.trim().into()));
                }
                _ => {
                    return Err(Failure::bad_input(format!(
                        "--set {assignment}: expected POLICY.PARAM=VALUE of a policy in --policy \
                         that learns"
                    )));
                }
            }
        }
        Ok(wanted)
    }

    fn as_json(&self, log: &Log, evaluations: &[Evaluation]) -> String {
        let whole = json!({
            "log": self.log.display().to_string(),
            "rows": log.rows.len(),
            "unrewarded": log.unrewarded,
            "unknown_choices": log.unknown_choices,
            "items": log.items.len(),
            "users": log.users.len(),
            "policies": evaluations,
        });
        format!("{whole:#}\n")
    }

    fn as_table(&self, log: &Log, evaluations: &[Evaluation]) -> String {
        let unknown = match log.unknown_choices {
            0 => String::new(),
            count => format!(
                ", and {count} of which it is not known among how many items they were made"
            ),
        };
        let mut text = format!(
            "{}: {} decisions with a reward ({} without left out{}), {} items, {} users\n\n",
            self.log.display(),
            log.rows.len(),
            log.unrewarded,
            unknown,
            log.items.len(),
            log.users.len()
        );
        let header =
            ["policy", "estimator", "mean reward", "95 % interval", "rows", "effective rows"];
        let mut rows = vec![header.map(str::to_owned)];
        for evaluation in evaluations {
            for estimate in &evaluation.estimates {
                let number =
                    |value: Option<f64>| value.map_or("–".to_owned(), |v| format!("{v:.5}"));
                let effective = match (estimate.estimator, &evaluation.weights) {
                    (Estimator::Replay, _) | (_, None) => "–".to_owned(),
                    (_, Some(weights)) => format!("{:.1}", weights.effective_rows),
                };
                rows.push([
                    evaluation.policy.clone(),
                    estimate.estimator.to_string(),
                    number(estimate.value),
                    format!("{} to {}", number(estimate.low), number(estimate.high)),
                    estimate.rows.to_string(),
                    effective,
                ]);
            }
        }
        text += &aligned(&rows);
        for evaluation in evaluations {
            for warning in &evaluation.warnings {
                text += &format!("\nwarning: {}: {warning}", evaluation.policy);
            }
        }
        if !text.ends_with('\n') {
            text.push('\n');
        }
        text
    }
}
