//! What does the split over partitions and nodes cost in regret? The same stream of users, offers and noise goes to the
//! embedded service and to a cluster.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

use crate::client::{Connection, post};
use crate::nats::Servers;
use crate::{Running, ask, figures, wait_until_served};

const DIM: usize = 8;
const ARMS: usize = 20;
const NOISE: f64 = 0.3;
/// Users who come at the same time.
const TOGETHER: usize = 5;

/// Users of so many kinds, and rewards of all of them.
pub struct World {
    pub users: usize,
    pub kinds: usize,
    pub rewards: usize,
}

/// A standard normal number (Box and Muller).
fn normal(rng: &mut ChaCha8Rng) -> f64 {
    let (u, v) = (rng.random_range(f64::EPSILON..1.0), rng.random_range(0.0..1.0));
    (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}

fn unit(rng: &mut ChaCha8Rng) -> Vec<f64> {
    let x: Vec<f64> = (0..DIM).map(|_| normal(rng)).collect();
    let length = x.iter().map(|x: &f64| x * x).sum::<f64>().sqrt();
    x.iter().map(|x| x / length).collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn body(answer: &str) -> Value {
    crate::json(answer)
}

/// The regret of all that users are given at an address, asked at all of these in turn.
async fn play(world: &World, app: &str, addresses: &[String], seed: u64) -> f64 {
    let create = json!({"name": app, "dim": DIM, "window_ms": 86_400_000});
    ask(&addresses[0], "POST", "/v1/apps", &create.to_string(), 201).await;
    let mut connections = Vec::new();
    for address in addresses {
        connections.push(Connection::open(address).await);
    }
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let tastes: Vec<Vec<f64>> = (0..world.kinds).map(|_| unit(&mut rng)).collect();
    let own = |rng: &mut ChaCha8Rng, user: usize| -> Vec<f64> {
        tastes[user % world.kinds].iter().zip(unit(rng)).map(|(t, o)| t + 0.2 * o).collect()
    };
    let users: Vec<Vec<f64>> = (0..world.users).map(|user| own(&mut rng, user)).collect();
    let items: Vec<Vec<f64>> = (0..200).map(|_| unit(&mut rng)).collect();
    let mut regret = 0.0;
    for round in 0..world.rewards / TOGETHER {
        let connection = &mut connections[round % addresses.len()];
        let offered: Vec<usize> = (0..ARMS).map(|_| rng.random_range(0..items.len())).collect();
        let some: Vec<(usize, f64)> =
            (0..TOGETHER).map(|_| (rng.random_range(0..world.users), normal(&mut rng))).collect();
        let listed = offered.iter().enumerate();
        let listed =
            listed.map(|(at, item)| json!({"id": at.to_string(), "features": items[*item]}));
        let asked = some.iter().enumerate().map(|(at, (user, _))| {
            json!({"user": format!("user-{user}"), "decision_id": format!("{app}-{round}-{at}")})
        });
        let batch = json!({
            "items": listed.collect::<Vec<_>>(), "users": asked.collect::<Vec<_>>()
        });
        let path = format!("/v1/apps/{app}/decide-batch");
        let status = connection.ask(&post(&path, &batch.to_string())).await;
        assert_eq!(status, 200, "{}", connection.answer());
        let decisions = body(&connection.answer())["decisions"].take();
        let mut rewards = Vec::new();
        for (at, (user, noise)) in some.iter().enumerate() {
            let item = decisions[at]["item"].as_str().and_then(|item| item.parse::<usize>().ok());
            let worth: Vec<f64> =
                offered.iter().map(|item| dot(&items[*item], &users[*user])).collect();
            let chosen = worth[item.expect("a decision")];
            regret += worth.iter().copied().fold(f64::NEG_INFINITY, f64::max) - chosen;
            let reward = chosen + NOISE * noise;
            rewards.push(json!({"decision_id": decisions[at]["decision_id"], "user": format!("user-{user}"), "reward": reward}));
        }
        let path = format!("/v1/apps/{app}/rewards");
        let status = connection.ask(&post(&path, &json!({"rewards": rewards}).to_string())).await;
        assert_eq!(status, 200, "{}", connection.answer());
    }
    regret
}

/// Plays so many streams at a cluster of nodes and at the embedded service.
pub async fn measure(world: &World, seeds: usize, partitions: usize, nodes: usize) {
    let folder = tempfile::tempdir_in(".").expect("a folder");
    let servers = crate::aside(|| Servers::start(1));
    let embedded = Running::embedded(folder.path());
    let cluster: Vec<Running> =
        (0..nodes).map(|node| Running::node(&servers, &format!("n{node}"), partitions)).collect();
    wait_until_served(&cluster[0].address, nodes).await;
    let addresses: Vec<String> = cluster.iter().map(|node| node.address.clone()).collect();
    let mut ratios = Vec::new();
    for seed in 0..seeds as u64 {
        let app = format!("world{seed}");
        let one = play(world, &app, std::slice::from_ref(&embedded.address), seed).await;
        let several = play(world, &app, &addresses, seed).await;
        println!("seed {seed}: regret of one process {one:.1}, of the cluster {several:.1}");
        ratios.push(several / one);
    }
    let n = ratios.len() as f64;
    let mean = ratios.iter().sum::<f64>() / n;
    let squares: f64 = ratios.iter().map(|ratio| (ratio - mean).powi(2)).sum();
    let error = (squares / (n - 1.0).max(1.0) / n).sqrt();
    let World { users, kinds, rewards } = world;
    let section = format!(
        "regret of {partitions} partitions on {nodes} nodes, {users} users of {kinds} kinds, {rewards} rewards"
    );
    figures::keep_in(
        "cluster",
        &section,
        &[
            ("streams", n, ""),
            ("regret_against_one_process", mean, "at most 1.03"),
            ("standard_error_of_that", error, ""),
        ],
    );
}
