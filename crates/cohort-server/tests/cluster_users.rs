//! What users of all partitions have in common, and users that move between a single service and a cluster, on a real NATS server.
#![allow(missing_docs)]

mod nats;
mod nodes;
mod running;

use std::time::{Duration, Instant};

use cohort_server::cluster::journal::StreamJournal;
use cohort_server::cluster::members::{Bucket, Shape};
use cohort_server::cluster::moving::{export, import};
use cohort_server::cluster::objects::{ObjectFolder, open_store};
use cohort_server::cluster::replica::fold;
use cohort_server::cluster::server::ClusterServer;
use cohort_server::config::Config;
use cohort_server::engine::recovery::recover;
use cohort_server::journal::segments::SegmentJournal;
use cohort_server::journal::{Group, Journal};
use cohort_server::snapshot::Snapshots;
use cohort_server::snapshot::disk::MemoryFolder;
use nats::Servers;
use nodes::{Node, config, items};
use running::Running;
use serde_json::{Value, json};

/// The `turn`-th answer of users of two kinds: what is asked, and what the chosen item is worth to its user.
fn offer(user: usize, turn: usize) -> Value {
    let of = |by: f64| ((user * 31 + turn * 17) as f64 * by).sin();
    let item = |at: usize| json!({"id": at.to_string(), "features": [of(0.7 + at as f64), of(1.3 * at as f64 + 0.1)]});
    json!((0..4).map(item).collect::<Vec<_>>())
}

fn worth(user: usize, features: &Value) -> f64 {
    let kind = if user.is_multiple_of(2) { 1.0 } else { -1.0 };
    let x = |at: usize| features[at].as_f64().unwrap();
    kind * (x(0) - 0.5 * x(1)) + 0.05 * (x(0) * 37.0 + x(1) * 91.0).sin()
}

/// Users decide and answer; `post` asks somebody.
fn teach(users: usize, turns: std::ops::Range<usize>, mut post: impl FnMut(&str, &Value) -> Value) {
    for turn in turns {
        for user in 0..users {
            let offered = offer(user, turn);
            let decide = json!({"user": format!("u{user}"), "items": offered});
            let said = post("/v1/apps/shop/decide", &decide);
            let chosen: usize = said["item"].as_str().unwrap().parse().unwrap();
            let reward = worth(user, &offered[chosen]["features"]);
            post(
                "/v1/apps/shop/reward",
                &json!({"decision_id": said["decision_id"], "reward": reward}),
            );
        }
    }
}

#[test]
fn one_population_is_fitted_to_users_of_all_partitions_and_comes_back_as_it_was() {
    const PARTITIONS: u32 = 4;
    let servers = Servers::start(1);
    let a = Node::start(config(&servers, "a", PARTITIONS));
    let b = Node::start(config(&servers, "b", PARTITIONS));
    b.wait_until_even(2);
    a.post("/v1/apps", &json!({"name": "shop", "dim": 2, "window_ms": 86_400_000}));
    let mut turn = 0;
    teach(40, 0..25, |path, body| {
        turn += 1;
        [&a, &b][turn % 2].post(path, body)
    });
    // Partitions have ten users each, of two kinds: alone none would find them so soon.
    let started = Instant::now();
    while a.get("/v1/apps/shop/insight")["population"]["cohorts"].as_array().map_or(0, Vec::len)
        != 2
    {
        assert!(started.elapsed() < Duration::from_secs(30), "{}", a.get("/v1/apps/shop/insight"));
        std::thread::sleep(Duration::from_millis(200));
    }
    drop((a, b));
    let nats = servers.connect();
    let shape = Shape { partitions: PARTITIONS, replicas: 1 };
    let store = open_store(&nats, 1).unwrap();
    let mut weights = Vec::new();
    for partition in 0..=PARTITIONS {
        let name = shape.name_of(partition);
        let snapshots = Snapshots::new(ObjectFolder::new(&nats, store.clone(), &name));
        let (mut short, _) = fold(nats.log(&name), &snapshots).unwrap();
        let (mut whole, _) =
            fold(nats.log(&name), &Snapshots::new(MemoryFolder::default())).unwrap();
        assert_eq!(short.state.digest().unwrap(), whole.state.digest().unwrap(), "{name}");
        let app = whole.state.app("shop").unwrap();
        let population = app.insight().unwrap().population().unwrap();
        weights.push(population.components.iter().map(|one| one.weight).collect::<Vec<_>>());
    }
    assert!(weights.iter().all(|found| *found == weights[0]), "{weights:?}");
    assert_eq!(weights[0].len(), 3);
}

fn counted(app: &Value) -> (u64, u64, f64) {
    let sum = app["reward_sum"].as_f64().unwrap();
    (app["users"].as_u64().unwrap(), app["rewards"].as_u64().unwrap(), (sum * 1e9).round())
}

#[test]
fn a_folder_moves_into_a_cluster_and_back() {
    let folder = tempfile::tempdir().unwrap();
    let here = |name: &str| folder.path().join(name);
    let servers = Servers::start(1);
    let single = Running::start_with(|config| config.data_dir = here("data"));
    single.post(
        "/v1/apps",
        json!({"name": "shop", "dim": 2, "window_ms": 86_400_000, "control": 0.1}),
    );
    teach(30, 0..12, |path, body| single.post(path, body.clone()));
    single.post(
        "/v1/apps/shop/decide",
        json!({"user": "u3", "items": items(), "decision_id": "waits"}),
    );
    let before = counted(&single.get("/v1/apps/shop"));
    let about = single.get("/v1/apps/shop/users/u3");
    drop(single);
    let moving = |data: &str| Config { data_dir: here(data), ..config(&servers, "mover", 3) };
    assert!(import(&moving("nothing")).unwrap_err().to_string().contains("data folder"));
    // What an import that was broken off leaves behind: no node takes partitions without users for new ones.
    let nats = servers.connect();
    let bucket = Bucket::open(&nats, 1).unwrap();
    nats.wait(bucket.set_importing(true)).unwrap();
    let refused = ClusterServer::open(config(&servers, "a", 3)).err().map(|why| why.to_string());
    assert!(refused.is_some_and(|why| why.contains("run it again")));
    assert!(export(&moving("half")).unwrap_err().to_string().contains("run it again"));
    let moved = import(&moving("data")).unwrap();
    assert_eq!((moved.apps, moved.users, moved.partitions), (1, 30, 3));
    let node = Node::start(config(&servers, "a", 64));
    node.wait_until_even(1);
    assert_eq!(node.get("/v1/cluster")["partitions"], 3);
    assert_eq!(counted(&node.get("/v1/apps/shop")), before);
    let there = node.get("/v1/apps/shop/users/u3");
    assert_eq!(there["rewards"], about["rewards"]);
    let near =
        |one: &Value, other: &Value| (one.as_f64().unwrap() - other.as_f64().unwrap()).abs() < 1e-9;
    for at in 0..2 {
        let estimate = |of: &Value| of["estimate"][at].clone();
        assert!(near(&estimate(&there), &estimate(&about)), "{there} against {about}");
    }
    // What waited is rewarded, and more is learned.
    let reward = json!({"decision_id": "waits", "user": "u3", "reward": 0.5});
    assert_eq!(node.post("/v1/apps/shop/reward", &reward)["outcome"], "learned");
    teach(30, 12..14, |path, body| node.post(path, body));
    let during = counted(&node.get("/v1/apps/shop"));
    assert_eq!((during.0, during.1), (30, before.1 + 61));
    assert!(export(&moving("back")).unwrap_err().to_string().contains("stop all nodes"));
    assert!(import(&moving("data")).unwrap_err().to_string().contains("stop all nodes"));
    drop(node);
    assert!(import(&moving("data")).unwrap_err().to_string().contains("has messages"));
    let moved = export(&moving("back")).unwrap();
    assert_eq!((moved.apps, moved.users, moved.anew), (1, 30, vec![]));
    assert!(export(&moving("back")).is_err(), "the folder is not empty");
    let single = Running::start_with(|config| config.data_dir = here("back"));
    assert_eq!(counted(&single.get("/v1/apps/shop")), during);
    teach(31, 14..16, |path, body| single.post(path, body.clone()));
    assert_eq!(counted(&single.get("/v1/apps/shop")).0, 31);
}

/// One partition: its stream with the events of a single service gives that service's state, bit by bit.
#[test]
fn the_events_of_a_single_service_in_a_stream_give_its_state() {
    let folder = tempfile::tempdir().unwrap();
    let single = Running::start_with(|config| config.data_dir = folder.path().into());
    single.post("/v1/apps", json!({"name": "shop", "dim": 2, "window_ms": 60_000, "control": 0.1}));
    teach(20, 0..15, |path, body| single.post(path, body.clone()));
    drop(single);
    let embedded = SegmentJournal::open(&folder.path().join("journal")).unwrap();
    let mut expected = recover(&embedded, &Snapshots::new(MemoryFolder::default())).unwrap().state;
    assert!(expected.app("shop").unwrap().insight().unwrap().population().is_some(), "it refitted");
    let servers = Servers::start(1);
    let nats = servers.connect();
    let log = nats.open_log("p0", 1).unwrap();
    let mut stream = StreamJournal::open(log.clone(), 1, "a", 0).unwrap();
    let mut group = Group::default();
    let mut groups = Vec::new();
    embedded
        .read(1, &mut |number, bytes| {
            group.push(|out| out.extend(bytes));
            if number % 7 == 0 {
                groups.push(std::mem::take(&mut group));
            }
            Ok(())
        })
        .unwrap();
    groups.push(group);
    for group in groups.iter().filter(|group| group.events() > 0) {
        stream.append(group).unwrap();
        stream.sync().unwrap();
    }
    let (mut folded, _) = fold(log, &Snapshots::new(MemoryFolder::default())).unwrap();
    assert_eq!(folded.state.last_event(), expected.last_event());
    assert_eq!(folded.state.digest().unwrap(), expected.digest().unwrap());
}
