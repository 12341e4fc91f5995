//! Time and memory of linucb-ind against the number of users, each size in a process of its own.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};

use super::{Effort, play};
use crate::forms::DIM;
use crate::machine::peak_bytes;
use crate::world::World;

/// The name of the section in the store.
pub const NAME: &str = "growth";

/// One size.
#[derive(Serialize, Deserialize)]
pub struct Measured {
    /// N.
    pub users: usize,
    /// The number of rounds.
    pub rounds: usize,
    /// Learning time.
    pub seconds: f64,
    /// The peak memory of the process beyond what it had before the policy was made: statistics,
    /// arms, rewards and everything else.
    pub bytes: f64,
}

/// V⁻¹ packed, θ̂ and ln det V of one user.
pub const STATISTICS_BYTES: f64 = ((DIM * (DIM + 1) / 2 + DIM + 1) * 8) as f64;

/// 100 rounds, d = 15, K = 25, all threads.
pub fn measure(effort: &Effort) -> anyhow::Result<Vec<Measured>> {
    let sizes = effort.or(&[100, 1_000, 10_000][..], &[100, 1_000, 10_000, 100_000, 1_000_000]);
    sizes
        .iter()
        .map(|users| {
            let own = std::env::current_exe()?;
            let output =
                Command::new(own).args(["growth-child", &users.to_string(), "100"]).output()?;
            if !output.status.success() {
                bail!("{users} users: {}", String::from_utf8_lossy(&output.stderr).trim());
            }
            let measured: Measured = serde_json::from_slice(&output.stdout)?;
            eprintln!(
                "N={users}: {:.3} s, {:.0} bytes a user",
                measured.seconds,
                measured.bytes / *users as f64
            );
            Ok(measured)
        })
        .collect()
}

/// Plays, and prints time and memory.
pub fn child(users: usize, rounds: usize) -> anyhow::Result<()> {
    let peak = || peak_bytes().context("this system does not tell the memory of a process");
    let mut world = World::new(users, DIM, 10, 1);
    let before = peak()?;
    let mut policy = {
        // Only oracles need the ground truth, which takes 120 MB for 10⁶ users.
        let problem =
            cohort::Problem { sigma: crate::world::NOISE, ..cohort::Problem::new(users, DIM) };
        cohort::registry::build("linucb-ind", &problem, [])?
    };
    let played = play(policy.as_mut(), &mut world, rounds, Duration::MAX);
    let measured = Measured { users, rounds, seconds: played.seconds, bytes: peak()? - before };
    println!("{}", serde_json::to_string(&measured)?);
    Ok(())
}
