//! cmlb: rounds of individual learning against rounds of collaborative learning.

use cohort::{Contexts, policies::cmlb::explore_rounds};
use serde::{Deserialize, Serialize};

use super::{Effort, build, on_threads};
use crate::race::seconds;
use crate::world::World;

/// The name of the section in the store.
pub const NAME: &str = "phases";

/// One run.
#[derive(Serialize, Deserialize)]
pub struct Measured {
    /// N.
    pub users: usize,
    /// The number of clusters found.
    pub clusters: usize,
    /// The median time of a round of individual learning, in seconds.
    pub individual_seconds: f64,
    /// The median time of a round of collaborative learning, in seconds.
    pub collaborative_seconds: f64,
}

/// One thread, N = 10,000, 10 clusters, d = 15, K = 25.
pub fn measure(effort: &Effort) -> anyhow::Result<Measured> {
    let (users, dim, clusters, rounds) = (effort.or(1_000, 10_000), 15, 10, 400);
    let mut world = World::new(users, dim, clusters, 1);
    // A γ between the spread within clusters and the distance between them; everything else by
    // default.
    let mut policy = build("cmlb", &world, rounds, &[("gamma", 0.5)])?;
    let individual = explore_rounds(0.2, dim, users, rounds, 0.2, 0.4, 1.0);
    let mut taken = [Vec::new(), Vec::new()];
    on_threads(1, || {
        let (mut arms, mut rewards) = (vec![0; users], vec![0.0; users]);
        for t in 0..rounds {
            let round = world.round();
            let contexts = Contexts::new(&round.contexts, dim).expect("whole and finite");
            let mut elapsed = seconds(|| policy.choose(&contexts, &mut arms));
            for (user, reward) in rewards.iter_mut().enumerate() {
                *reward = round.reward(user, world.clusters[user], arms[user]);
            }
            elapsed += seconds(|| policy.learn(&contexts, &arms, &rewards));
            // A round's learning may be done when the next one chooses, and MAXIMAL-CLUSTER runs
            // between the phases: the rounds beside the change count for neither.
            if t + 1 < individual {
                taken[0].push(elapsed);
            } else if t > individual + 1 {
                taken[1].push(elapsed);
            }
        }
    });
    let found =
        policy.clusters().map_or(0, |labels| labels.iter().max().map_or(0, |most| most + 1));
    let [individual_seconds, collaborative_seconds] = taken.map(median);
    Ok(Measured { users, clusters: found, individual_seconds, collaborative_seconds })
}

fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    seconds[seconds.len() / 2]
}
