//! A cluster of nodes in this process on a real NATS server: any node answers any request, partitions move when nodes come
//! and go, and nothing that was acknowledged is lost by that.
#![allow(missing_docs)]

mod nats;
mod nodes;

use std::time::{Duration, Instant};

use cohort_server::cluster::front::partition_of;
use cohort_server::cluster::members::Shape;
use cohort_server::cluster::objects::{ObjectFolder, open_store};
use cohort_server::cluster::replica::fold;
use cohort_server::cluster::server::ClusterServer;
use cohort_server::config::Config;
use cohort_server::snapshot::Snapshots;
use cohort_server::snapshot::disk::MemoryFolder;
use nats::Servers;
use nodes::{Node, config, items};
use serde_json::{Value, json};

#[test]
fn any_node_answers_any_request_while_nodes_come_and_go() {
    const PARTITIONS: u32 = 6;
    let servers = Servers::start(1);
    let a = Node::start(config(&servers, "a", PARTITIONS));
    a.wait_until_even(1);
    let b = Node::start(config(&servers, "b", PARTITIONS));
    b.wait_until_even(2);
    // Made at one node, it is there at the other, which is asked at once.
    a.post("/v1/apps", &json!({"name": "shop", "dim": 2, "window_ms": 86_400_000}));
    assert_eq!(a.send("PUT", "/v1/apps/shop/items", &json!({"items": items()})).0 / 100, 2);
    a.post("/v1/apps", &json!({"name": "probe", "dim": 2}));
    let nodes = [&a, &b];
    for turn in 0..24 {
        let (here, there) = (nodes[turn % 2], nodes[(turn + 1) % 2]);
        let app = format!("/v1/apps/new{turn}");
        here.post("/v1/apps", &json!({"name": format!("new{turn}"), "dim": 2}));
        there.post(&format!("{app}/decide"), &json!({"user": "u", "items": items()}));
        let features = json!([{"id": "new", "features": [0.5, 0.5]}]);
        let put = here.send("PUT", &format!("{app}/items"), &json!({"items": features}));
        assert_eq!(put.0 / 100, 2, "{put:?}");
        let offered = json!({"user": "u", "items": [{"id": "new"}]});
        there.post(&format!("{app}/decide"), &offered);
        assert_eq!(here.send("DELETE", &app, &Value::Null).0 / 100, 2);
    }
    let mut made = Vec::new();
    for turn in 0..60 {
        let node = nodes[turn % 2];
        let offered =
            if turn % 3 == 0 { json!([{"id": "tea"}, {"id": "coffee"}]) } else { items() };
        let said = node.post(
            "/v1/apps/shop/decide",
            &json!({"user": format!("u{}", turn % 20), "items": offered}),
        );
        made.push((said["decision_id"].as_str().unwrap().to_owned(), turn));
    }
    // A decision is found from either node, and its reward counts once.
    for (id, turn) in &made {
        let node = nodes[(turn + 1) % 2];
        assert_eq!(node.get(&format!("/v1/apps/shop/decisions/{id}"))["status"], "open");
        let said =
            node.post("/v1/apps/shop/reward", &json!({"decision_id": id, "reward": *turn as f64}));
        assert_eq!(said["outcome"], "learned");
        let again =
            nodes[turn % 2].post("/v1/apps/shop/reward", &json!({"decision_id": id, "reward": 5}));
        assert_eq!(
            (&again["outcome"], again["reward"].as_f64()),
            (&json!("repeated"), Some(*turn as f64))
        );
    }
    // Ids of the client's own: with the user, and without.
    for turn in 0..12 {
        let (id, user) = (format!("mine {turn}/é"), format!("u{turn}"));
        let decide = json!({"user": user, "items": items(), "decision_id": id});
        let first = nodes[turn % 2].post("/v1/apps/shop/decide", &decide);
        let again = nodes[(turn + 1) % 2].post("/v1/apps/shop/decide", &decide);
        assert_eq!(first["item"], again["item"]);
        let mut reward = json!({"decision_id": id, "reward": 1});
        if turn % 2 == 0 {
            reward["user"] = user.into();
        }
        assert_eq!(nodes[turn % 2].post("/v1/apps/shop/reward", &reward)["outcome"], "learned");
    }
    let unknown = json!({"decision_id": "nobody made it", "reward": 1});
    assert_eq!(a.send("POST", "/v1/apps/shop/reward", &unknown).0, 404);
    // Batches are split and put together in order.
    let users: Vec<Value> = (0..15)
        .map(|user| json!({"user": format!("u{user}"), "decision_id": format!("b{user}")}))
        .collect();
    let batch = b.post("/v1/apps/shop/decide-batch", &json!({"users": users, "items": items()}));
    let ids: Vec<&str> = batch["decisions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["decision_id"].as_str().unwrap())
        .collect();
    assert_eq!(ids, (0..15).map(|user| format!("b{user}")).collect::<Vec<_>>());
    let rewards: Vec<Value> =
        (0..15).map(|user| json!({"decision_id": format!("b{user}"), "reward": user})).collect();
    let outcomes = a.post("/v1/apps/shop/rewards", &json!({"rewards": rewards}));
    let learned: Vec<f64> = outcomes["outcomes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["reward"].as_f64().unwrap())
        .collect();
    assert_eq!(learned, (0..15).map(f64::from).collect::<Vec<_>>());
    // Counts are gathered from all partitions.
    let expected =
        (60 + 12 + 15, 20, (0..60).sum::<i32>() as f64 + 12.0 + (0..15).sum::<i32>() as f64);
    let counted = |app: &Value| {
        (
            app["rewards"].as_u64().unwrap(),
            app["users"].as_u64().unwrap(),
            app["reward_sum"].as_f64().unwrap(),
        )
    };
    for node in nodes {
        assert_eq!(counted(&node.get("/v1/apps/shop")), expected);
        assert_eq!(counted(&node.get("/v1/apps")["apps"][1]), expected);
        let insight = node.get("/v1/apps/shop/insight");
        assert_eq!((insight["users"].as_u64(), insight["rewards"].as_u64()), (Some(20), Some(87)));
        assert_eq!(insight["curve"]["policy"]["count"].as_u64(), Some(87));
        assert_eq!(node.get("/v1/apps/shop/users/u3")["user"], "u3");
        let (status, log) = node.send("GET", "/v1/apps/shop/log.csv", &Value::Null);
        assert_eq!((status, log.as_str().unwrap().lines().count()), (200, 88));
    }
    // Several places at once, and decisions of the past.
    let slots = json!([{"id": "top"}, {"id": "side"}]);
    for (turn, id) in [None, Some("mine")].into_iter().enumerate() {
        let mut slate = json!({"user": "u5", "slots": slots, "items": items()});
        if let Some(id) = id {
            slate["slate_id"] = id.into();
        }
        let said = nodes[turn].post("/v1/apps/probe/slate", &slate);
        let shown: Vec<&str> = said["slots"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["item"].as_str().unwrap())
            .collect();
        assert!(shown.len() == 2 && shown[0] != shown[1], "{said}");
        let rewards = json!([{"slot": "top", "reward": 1}, {"slot": "side", "reward": 0.5}]);
        let rewards = json!({"slate_id": said["slate_id"], "rewards": rewards});
        let outcomes = nodes[1 - turn].post("/v1/apps/probe/slate-rewards", &rewards);
        assert_eq!(outcomes["outcomes"][1]["outcome"], "learned", "{outcomes}");
    }
    let past: Vec<Value> = (0..20)
        .map(|at| json!({"user": format!("p{at}"), "item": "tea", "features": [0.9, 0.1], "reward": 1, "decision_id": format!("past-{}", at / 2)}))
        .collect();
    let said = a.post("/v1/apps/probe/history", &json!({"decisions": past}));
    let others = said["others"].as_array().unwrap();
    // An id that two users have is noticed where they are in one partition.
    assert_eq!(said["learned"].as_u64().unwrap() as usize + others.len(), 20, "{said}");
    assert!(others.iter().all(|other| other["at"].as_u64().unwrap() % 2 == 1), "{said}");
    // Errors are those of the service.
    assert_eq!(b.send("POST", "/v1/apps/shop/decide", &json!({"items": items()})).0, 400);
    assert_eq!(
        b.send("POST", "/v1/apps/nothing/decide", &json!({"user": "x", "items": items()})).0,
        404
    );
    assert_eq!(a.send("PATCH", "/v1/apps/shop", &json!({"epsilon": 0.25})).0, 200);
    assert_eq!(b.get("/v1/apps/shop")["epsilon"], 0.25);
    // A node leaves: the other serves all, with nothing lost.
    drop(b);
    a.wait_until_even(1);
    assert_eq!(counted(&a.get("/v1/apps/shop")), expected);
    assert_eq!(a.get("/v1/apps/shop")["epsilon"], 0.25);
    let c = Node::start(config(&servers, "c", PARTITIONS));
    c.wait_until_even(2);
    // One that drains gives everything up and still answers.
    a.post("/v1/cluster/drain", &json!({"node": "a"}));
    let started = Instant::now();
    while a.get("/v1/cluster")["nodes"][0]["owns"] != 0 {
        assert!(started.elapsed() < Duration::from_secs(30));
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(counted(&a.get("/v1/apps/shop")), expected);
    drop((a, c));
    // From snapshots and streams, and from streams alone, the same states come back.
    let nats = servers.connect();
    let shape = Shape { partitions: PARTITIONS, replicas: 1 };
    let store = open_store(&nats, 1).unwrap();
    let mut users = 0;
    for partition in 0..PARTITIONS {
        let name = shape.name_of(partition);
        let snapshots = Snapshots::new(ObjectFolder::new(&nats, store.clone(), &name));
        let (mut short, _) = fold(nats.log(&name), &snapshots).unwrap();
        let (mut whole, _) =
            fold(nats.log(&name), &Snapshots::new(MemoryFolder::default())).unwrap();
        assert!(short.snapshot_event > 0 && whole.snapshot_event == 0);
        assert_eq!(short.state.digest().unwrap(), whole.state.digest().unwrap());
        let app = whole.state.app("shop").unwrap();
        assert!(app.users().iter().all(|user| partition_of("shop", user, PARTITIONS) == partition));
        users += app.users().count();
    }
    assert_eq!(users, 20);
}

#[test]
fn servers_that_do_not_sync_are_refused_unless_that_is_said_to_be_enough() {
    let servers = Servers::start_with(1, false);
    let refused = ClusterServer::open(config(&servers, "a", 2))
        .err()
        .map(|why| why.to_string())
        .unwrap_or_default();
    assert!(refused.contains("sync_interval: always"), "{refused}");
    let told = Config { durability: "replicated".to_owned(), ..config(&servers, "a", 2) };
    assert!(ClusterServer::open(told).is_ok());
    let nobody = Config { nats: "nats://127.0.0.1:1".to_owned(), ..config(&servers, "a", 2) };
    let refused = ClusterServer::open(nobody).err().map(|why| why.to_string()).unwrap_or_default();
    assert!(refused.contains("can be reached"), "{refused}");
}
