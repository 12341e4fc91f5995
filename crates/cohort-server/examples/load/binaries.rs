//! Two builds of the command: how large they are, and what decides and rewards they answer in a second.

use std::process::Command;

use super::client::{self, Connection, Workload, closed_loop};
use super::{
    DECIDE_CLIENTS, DIM, REWARD_CLIENTS, Running, USERS, decides_to, figures, prepare_rewards,
    refits, start,
};

/// Turns of each, in alternating order.
const TURNS: usize = 10;
const SECONDS: f64 = 1.0;
/// Decisions to be rewarded: more than can be in the time.
const PREPARED: usize = 900_000;

/// A service of one of them.
struct Service {
    _process: Running,
    address: String,
    decide: Workload,
    reward: Workload,
    decides: Vec<f64>,
    rewards: Vec<f64>,
}

impl Service {
    async fn open(binary: &str, folder: &std::path::Path) -> Self {
        let mut command = Command::new(binary);
        command.args(["serve", "--listen", "127.0.0.1:0", "--log-level", "error", "--data-dir"]);
        let (process, address) = start(command.arg(folder));
        let mut admin = Connection::open(&address).await;
        let app = format!(r#"{{"name":"load","dim":{DIM},"window_ms":20000}}"#);
        assert_eq!(admin.ask(&client::post("/v1/apps", &app)).await, 201);
        refits::teach(&address, "load", USERS, 5).await;
        let reward = prepare_rewards(&address, PREPARED).await;
        let decide = decides_to("/v1/apps/load/decide");
        let (decides, rewards) = (Vec::new(), Vec::new());
        Self { _process: process, address, decide, reward, decides, rewards }
    }

    async fn take_a_turn(&mut self) {
        let decide = closed_loop(&self.address, DECIDE_CLIENTS, SECONDS, &self.decide).await;
        self.decides.push(decide.rate);
        let reward = closed_loop(&self.address, REWARD_CLIENTS, SECONDS, &self.reward).await;
        self.rewards.push(reward.rate);
    }
}

pub async fn measure(one: &str, other: &str) {
    let folder = tempfile::tempdir_in(".").expect("a folder");
    let mut services = [
        Service::open(one, &folder.path().join("one")).await,
        Service::open(other, &folder.path().join("other")).await,
    ];
    for turn in 0..TURNS {
        for at in [turn % 2, (turn + 1) % 2] {
            services[at].take_a_turn().await;
        }
    }
    let [first, second] = &services;
    let megabytes =
        |path: &str| std::fs::metadata(path).map_or(f64::NAN, |found| found.len() as f64 / 1e6);
    let (decides, rewards) = (
        (median(&first.decides), median(&second.decides)),
        (median(&first.rewards), median(&second.rewards)),
    );
    figures::keep(
        "binaries",
        &[
            ("first_megabytes", megabytes(one), ""),
            ("second_megabytes", megabytes(other), ""),
            ("decides_per_second_of_the_first", decides.0, ""),
            ("decides_per_second_of_the_second", decides.1, ""),
            ("decides_second_against_first", decides.1 / decides.0, ""),
            ("rewards_per_second_of_the_first", rewards.0, ""),
            ("rewards_per_second_of_the_second", rewards.1, ""),
            ("rewards_second_against_first", rewards.1 / rewards.0, ""),
        ],
    );
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}
