//! How long is a partition of so many users not served when its owner dies, and how does that grow?

use std::time::{Duration, Instant};

use crate::client::{Connection, post, send};
use crate::nats::Servers;
use crate::{Running, ask, figures, json, wait_until_served};

const DIM: usize = 15;
/// Rewards of every user.
const REWARDS: usize = 2;

/// Users of one app who decided and answered.
async fn teach(address: &str, users: usize) {
    let app = format!(r#"{{"name":"load","dim":{DIM},"window_ms":86400000}}"#);
    ask(address, "POST", "/v1/apps", &app, 201).await;
    let mut connection = Connection::open(address).await;
    for turn in 0..REWARDS {
        for first in (0..users).step_by(2000) {
            let some = first..(first + 2000).min(users);
            let row = |by: usize| -> Vec<String> {
                (0..DIM)
                    .map(|j| format!("{:.3}", ((first + turn * 7 + by * j) as f64).sin()))
                    .collect()
            };
            let ids: Vec<String> = some.clone().map(|n| format!("{turn}-{n}")).collect();
            let each: Vec<String> = some
                .zip(&ids)
                .map(|(n, id)| format!(r#"{{"user":"user-{n}","decision_id":"{id}"}}"#))
                .collect();
            let body = format!(
                r#"{{"items":[{{"id":"a","features":[{}]}},{{"id":"b","features":[{}]}}],"users":[{}]}}"#,
                row(1).join(","),
                row(2).join(","),
                each.join(",")
            );
            let status = connection.ask(&post("/v1/apps/load/decide-batch", &body)).await;
            assert_eq!(status, 200, "{}", connection.answer());
            let rewards: Vec<String> = ids
                .iter()
                .enumerate()
                .map(|(at, id)| {
                    format!(r#"{{"decision_id":"{id}","reward":{:.2}}}"#, (at as f64).sin())
                })
                .collect();
            let body = format!(r#"{{"rewards":[{}]}}"#, rewards.join(","));
            let status = connection.ask(&post("/v1/apps/load/rewards", &body)).await;
            assert_eq!(status, 200, "{}", connection.answer());
        }
    }
}

/// Lets the owner of the only partition die, with these many users, one after the other.
pub async fn measure(sizes: &[usize]) {
    let mut figures = Vec::new();
    for users in sizes {
        let servers = crate::aside(|| Servers::start(1));
        let mut a = Running::node(&servers, "a", 1);
        wait_until_served(&a.address, 1).await;
        let b = Running::node(&servers, "b", 1);
        wait_until_served(&b.address, 2).await;
        teach(&a.address, *users).await;
        let mut b = Some(b);
        let status = json(&ask(&a.address, "GET", "/v1/cluster", "", 200).await);
        let owner = status["owners"][0]["owner"].as_str().unwrap_or_default().to_owned();
        let bytes = status["owners"][0]["bytes"].as_f64().unwrap_or_default();
        // Whoever owns the users dies; the other takes over.
        let mut survivor = match owner.as_str() {
            "a" => {
                a.kill();
                b.take().expect("there are two")
            }
            _ => {
                b.take().expect("there are two").kill();
                a
            }
        };
        let died = Instant::now();
        let body = format!(
            r#"{{"user":"user-1","items":[{{"id":"a","features":[{}]}}]}}"#,
            vec!["0.1"; DIM].join(",")
        );
        loop {
            let mut connection = Connection::open(&survivor.address).await;
            if connection.ask(&post("/v1/apps/load/decide", &body)).await == 200 {
                break;
            }
            assert!(died.elapsed() < Duration::from_secs(300), "{}", connection.answer());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let unserved = died.elapsed().as_secs_f64();
        let mut connection = Connection::open(&survivor.address).await;
        assert_eq!(connection.ask(&send("GET", "/metrics", "")).await, 200);
        let text = connection.answer();
        let last = text
            .lines()
            .filter(|line| line.starts_with("cohort_cluster_take_over_seconds_sum"))
            .find_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
        println!(
            "{users} users: unserved {unserved:.2} s, all take-overs of that node {last:?} s, stream {bytes} bytes"
        );
        figures.push((*users, unserved));
        survivor.kill();
    }
    for (users, unserved) in figures {
        let section = format!("take over of {users} users");
        figures::keep_in("cluster", &section, &[("seconds_not_served", unserved, "")]);
    }
}
