//! `cohort insight`: what a running service has learned, and why it decided as it did.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::Value;

use crate::connection::{Connection, escaped};
use crate::failure::{Done, Failure, print};
use crate::summary_table::aligned;

/// Show what a running service has learned: an app, a user, a decision; or download its log
#[derive(Args)]
pub struct Insight {
    #[command(flatten)]
    connection: Connection,
    /// Print the service's whole answer as JSON
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: InsightCommand,
}

#[derive(Subcommand)]
enum InsightCommand {
    /// Rates, the average reward against the control group, the cohorts
    App { name: String },
    /// A user's estimate and cohorts
    User { name: String, user: String },
    /// A decision and why it was made
    Decision { name: String, decision: String },
    /// The decision log as a file, for `cohort evaluate`
    Log {
        name: String,
        /// The file; ends in .csv or .parquet
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
    },
}

impl Insight {
    /// Asks the service and prints.
    pub fn run(self) -> Result<Done, Failure> {
        let app = |name: &str| format!("/v1/apps/{}", escaped(name));
        let (path, table): (String, fn(&Value) -> String) = match &self.command {
            InsightCommand::App { name } => (format!("{}/insight", app(name)), app_table),
            InsightCommand::User { name, user } => {
                (format!("{}/users/{}", app(name), escaped(user)), user_table)
            }
            InsightCommand::Decision { name, decision } => {
                (format!("{}/decisions/{}", app(name), escaped(decision)), decision_table)
            }
            InsightCommand::Log { name, out } => {
                let kind = match out.extension().and_then(|ending| ending.to_str()) {
                    Some(kind @ ("csv" | "parquet")) => kind,
                    _ => {
                        let found = out.display();
                        let message =
                            format!("--out {found}: expected a name that ends in .csv or .parquet");
                        return Err(Failure::bad_input(message));
                    }
                };
                self.connection.download(&format!("{}/log.{kind}", app(name)), out)?;
                return Ok(Done::Complete);
            }
        };
        let said = self.connection.ask("GET", &path, None)?;
        print(&if self.json { format!("{said:#}\n") } else { table(&said) })?;
        Ok(Done::Complete)
    }
}

fn app_table(app: &Value) -> String {
    let curve = &app["curve"];
    let mut text = format!(
        "{}: policy {}, {} users, {} decisions, {} rewards\n\n",
        word(&app["app"]),
        word(&app["policy"]),
        app["users"],
        app["decisions"],
        app["rewards"]
    );
    let mut rows = vec![["group", "rewards", "average", "95 % at all times"].map(str::to_owned)];
    for group in ["policy", "control"] {
        let average = &curve[group];
        let between = format!("{} to {}", number(&average["low"]), number(&average["high"]));
        rows.push([
            group.to_owned(),
            average["count"].to_string(),
            number(&average["mean"]),
            between,
        ]);
    }
    text += &aligned(&rows);
    let lift = &curve["lift"];
    text += &match lift["verdict"].as_str() {
        None => "\nno lift can be told: there is no control group, or too few rewards\n".to_owned(),
        Some("unknown") => format!(
            "\nno lift shown: {} to {} does not exclude zero\n",
            number(&lift["low"]),
            number(&lift["high"])
        ),
        Some(verdict) => format!(
            "\n{verdict} than control by {} ({} to {})\n",
            number(&lift["difference"]),
            number(&lift["low"]),
            number(&lift["high"])
        ),
    };
    let mut rows =
        vec![["cohort", "share", "users", "differs from the average user in"].map(str::to_owned)];
    for cohort in list(&app["population"]["cohorts"]) {
        let distinct = list(&cohort["distinct"]).iter().map(|one| {
            let feature = one["feature"].as_u64().unwrap_or(0) as usize;
            format!("{} {}", feature_name(app, feature), number(&one["difference"]))
        });
        let distinct = distinct.collect::<Vec<_>>().join(", ");
        let share = percent(&cohort["share"]);
        rows.push([word(&cohort["label"]), share, cohort["users"].to_string(), distinct]);
    }
    if rows.len() > 1 {
        text += &format!("\n{}", aligned(&rows));
    }
    text
}

fn user_table(user: &Value) -> String {
    let mut text = format!("{}: {} rewards\n\n", word(&user["user"]), user["rewards"]);
    let mut rows = vec![["cohort", "probability"].map(str::to_owned)];
    for one in list(&user["memberships"]) {
        let label = one["label"].as_str().unwrap_or("none").to_owned();
        rows.push([label, percent(&one["share"])]);
    }
    text += &aligned(&rows);
    let mut rows = vec![["feature", "estimate", "± deviation", "average user"].map(str::to_owned)];
    for (at, estimate) in list(&user["estimate"]).iter().enumerate() {
        rows.push([
            feature_name(user, at),
            number(estimate),
            number(&user["deviations"][at]),
            number(&user["average_user"][at]),
        ]);
    }
    text + "\n" + &aligned(&rows)
}

fn decision_table(decision: &Value) -> String {
    let mut text = format!(
        "{} for {}, with probability {}, {}\n",
        word(&decision["ranking"][0]),
        word(&decision["user"]),
        number(&decision["probability"]),
        word(&decision["status"]),
    );
    if decision["control"] == true {
        text += "of the control group: chosen at random\n";
    }
    let columns =
        ["candidate", "population", "cohort", "own rewards", "expected", "bonus", "score"];
    let mut rows = vec![columns.map(str::to_owned)];
    for one in list(&decision["reasons"]["candidates"]) {
        let of = |part: &str| number(&one[part]);
        rows.push([
            word(&one["item"]),
            of("population"),
            of("cohort"),
            of("own"),
            of("expected"),
            of("bonus"),
            of("score"),
        ]);
    }
    match rows.len() {
        1 => text + "its reasons are not kept\n",
        _ => text + "\n" + &aligned(&rows),
    }
}

fn feature_name(of: &Value, feature: usize) -> String {
    of["feature_names"][feature]
        .as_str()
        .map_or_else(|| format!("feature {feature}"), str::to_owned)
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn word(value: &Value) -> String {
    value.as_str().unwrap_or("–").to_owned()
}

fn number(value: &Value) -> String {
    value.as_f64().map_or_else(|| "–".to_owned(), |number| format!("{number:.3}"))
}

fn percent(value: &Value) -> String {
    value.as_f64().map_or_else(|| "–".to_owned(), |share| format!("{:.1} %", 100.0 * share))
}
