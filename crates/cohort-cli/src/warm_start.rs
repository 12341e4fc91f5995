//! `cohort app warm-start`: an app learns from a log of Vowpal Wabbit or Azure Personalizer.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use clap::Args;
use cohort_lab::evaluate::reading::dsjson::{Interaction, read_each};
use serde_json::{Value, json};

use crate::connection::{Connection, escaped};
use crate::failure::{Done, Failure, print};

/// Decisions that are sent at once.
const AT_ONCE: usize = 500;

/// Which app, and from what.
#[derive(Args)]
pub struct WarmStart {
    name: String,
    /// The log: one decision a line, as JSON (`.dsjson`)
    log: PathBuf,
}

/// What came of it so far.
#[derive(Default)]
struct Sent {
    learned: u64,
    repeated: u64,
    without_reward: u64,
    refused: u64,
    /// The first that was refused, and why.
    first_refused: Option<String>,
    waiting: Vec<Value>,
    lines: Vec<usize>,
}

impl WarmStart {
    /// Sends the log and prints what was learned, as JSON.
    pub fn run(self, connection: &Connection) -> Result<Done, Failure> {
        let path = format!("/v1/apps/{}/history", escaped(&self.name));
        let mut sent = Sent::default();
        let mut failed = None;
        let read = read_each(open(&self.log)?, |decision| {
            if failed.is_none() {
                sent.add(decision);
                if sent.waiting.len() == AT_ONCE {
                    failed = sent.send(connection, &path).err();
                }
            }
            Ok(())
        });
        read.map_err(|why| Failure::bad_input(format!("{}: {why}", self.log.display())))?;
        if let Some(failed) = failed {
            return Err(failed);
        }
        sent.send(connection, &path)?;
        let mut said = json!({
            "learned": sent.learned,
            "learned_before": sent.repeated,
            "without_reward": sent.without_reward,
            "refused": sent.refused,
        });
        if let Some(why) = sent.first_refused {
            said["first_refused"] = why.into();
        }
        print(&format!("{said:#}\n"))?;
        Ok(Done::Complete)
    }
}

fn open(path: &Path) -> Result<BufReader<File>, Failure> {
    let file = File::open(path);
    let file = file.map_err(|why| Failure::bad_input(format!("{}: {why}", path.display())))?;
    Ok(BufReader::new(file))
}

impl Sent {
    fn add(&mut self, decision: Interaction) {
        let Some(reward) = decision.reward else {
            self.without_reward += 1;
            return;
        };
        let among = decision.actions.len();
        let Some((item, features)) = decision.actions.into_iter().nth(decision.chosen) else {
            return;
        };
        self.lines.push(decision.line);
        self.waiting.push(json!({
            "user": decision.user,
            "item": item,
            "features": features,
            "context": decision.context,
            "reward": reward,
            "probability": decision.probability.unwrap_or(1.0),
            "among": among,
            "decision_id": decision.event,
        }));
    }

    fn send(&mut self, connection: &Connection, path: &str) -> Result<(), Failure> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let decisions = std::mem::take(&mut self.waiting);
        let lines = std::mem::take(&mut self.lines);
        let said = connection.ask("POST", path, Some(json!({ "decisions": decisions })))?;
        self.learned += said["learned"].as_u64().unwrap_or(0);
        for other in said["others"].as_array().into_iter().flatten() {
            if other["outcome"] == "repeated" {
                self.repeated += 1;
                continue;
            }
            self.refused += 1;
            let at = other["at"].as_u64().unwrap_or(0) as usize;
            let why = other["error"]["message"].as_str().unwrap_or("no reason was given");
            let line = lines.get(at).copied().unwrap_or(0);
            self.first_refused.get_or_insert_with(|| format!("line {line}: {why}"));
        }
        Ok(())
    }
}
