//! A service whose disk, memory, snapshots or refits fail for a while, asked over HTTP.

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

use super::*;
use crate::engine::Request;
use crate::engine::runtime::Options;
use crate::journal::memory::{MemoryDisk, MemoryJournal};
use crate::settings::AppSettings;
use crate::snapshot::disk::MemoryFolder;
use crate::state::State;

/// A service that is stopped when dropped.
struct Served {
    url: String,
    agent: ureq::Agent,
    engine: Handle,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
    _folder: tempfile::TempDir,
}

impl Served {
    /// With a configuration, and whatever else is changed in it.
    fn start(configure: impl FnOnce(&mut Config), change: impl FnOnce(&mut Server)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (listen, data_dir) = ("127.0.0.1:0".to_owned(), folder.path().into());
        let mut config = Config { data_dir, listen, shutdown_ms: 500, ..Config::default() };
        configure(&mut config);
        let mut server = Server::open(config).unwrap();
        change(&mut server);
        let (url, engine) = (format!("http://{}", server.address()), server.engine());
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let thread = std::thread::spawn(move || {
            let stopped = async { stopped.await.unwrap_or_default() };
            request_threads().unwrap().block_on(server.serve(stopped)).unwrap();
        });
        let asking = ureq::Agent::config_builder().http_status_as_error(false).build();
        let agent = ureq::Agent::new_with_config(asking);
        let (stop, thread) = (Some(stop), Some(thread));
        Self { url, agent, engine, stop, thread, _folder: folder }
    }

    fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        let asked = self.agent.post(format!("{}{path}", self.url));
        let mut said =
            asked.header("content-type", "application/json").send(body.to_string()).unwrap();
        let text = said.body_mut().read_to_string().unwrap();
        (said.status().as_u16(), serde_json::from_str(&text).unwrap_or(Value::Null))
    }

    fn get(&self, path: &str) -> (u16, String) {
        let mut said = self.agent.get(format!("{}{path}", self.url)).call().unwrap();
        (said.status().as_u16(), said.body_mut().read_to_string().unwrap())
    }

    fn decide(&self, user: usize) -> (u16, Value) {
        let items =
            json!([{"id": "a", "features": [1.0, 0.0]}, {"id": "b", "features": [0.0, 1.0]}]);
        self.post("/v1/apps/shop/decide", &json!({"user": format!("u{user}"), "items": items}))
    }

    /// What a decision for a new user is answered with.
    fn code(&self) -> String {
        let (status, said) = self.decide(1_000_000);
        match status {
            200 => "decided".to_owned(),
            _ => said["error"]["code"].as_str().unwrap_or_default().to_owned(),
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        drop(self.stop.take());
        self.agent = ureq::Agent::new_with_defaults();
        self.thread.take().map(std::thread::JoinHandle::join);
    }
}

fn wait_until(what: &str, done: impl Fn() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Room that is said.
struct Told {
    free: AtomicU64,
    /// What a user takes of memory.
    each: u64,
    engine: Handle,
}

impl Room for Told {
    fn free_bytes(&self) -> Option<u64> {
        Some(self.free.load(Ordering::Relaxed))
    }

    fn resident_bytes(&self) -> Option<u64> {
        Some(self.engine.users() * self.each)
    }
}

fn with_room(each: u64, configure: impl FnOnce(&mut Config)) -> (Served, Arc<Told>) {
    let mut told = None;
    let served = Served::start(configure, |server| {
        let (free, engine) = (AtomicU64::new(1 << 40), server.engine());
        let room = Arc::new(Told { free, each, engine });
        told = Some(room.clone());
        server.room = room;
    });
    assert_eq!(served.post("/v1/apps", &json!({"name": "shop", "dim": 2})).0, 201);
    (served, told.unwrap())
}

#[test]
fn a_disk_that_has_room_again_takes_all_work_again() {
    let (served, room) = with_room(0, |config| config.min_free_disk_bytes = 1000);
    let (_, made) = served.decide(1);
    let reward = json!({"decision_id": made["decision_id"], "reward": 1.0});
    room.free.store(999, Ordering::Relaxed);
    wait_until("decisions are taken", || served.code() == "disk_low");
    assert_eq!(served.post("/v1/apps/shop/reward", &reward).0, 200, "rewards still are");
    room.free.store(499, Ordering::Relaxed);
    wait_until("rewards are taken", || served.post("/v1/apps/shop/reward", &reward).0 == 503);
    assert_eq!(served.get("/healthz").0, 200, "nothing has failed");
    room.free.store(2000, Ordering::Relaxed);
    wait_until("work is refused although there is room", || served.code() == "decided");
    assert_eq!(served.post("/v1/apps/shop/reward", &reward).0, 200);
}

/// Memory that users take comes back without anybody's help: the longest unseen go.
#[test]
fn where_memory_is_low_the_longest_unseen_users_go_until_there_is_room_again() {
    let (served, _) = with_room(1000, |config| config.max_memory_bytes = 100_000);
    (0..100).for_each(|user| assert_eq!(served.decide(user).0, 200, "{user}"));
    // One more than there is memory for.
    assert_eq!(served.decide(100).0, 200);
    wait_until("decisions are taken", || served.code() == "memory_low");
    wait_until("decisions are refused for ever", || served.code() == "decided");
    let known = |user: usize| served.get(&format!("/v1/apps/shop/users/u{user}")).0 == 200;
    assert!(!known(0) && known(100), "the longest unseen went, the others did not");
    let left = (0..=100).filter(|user| known(*user)).count();
    assert!((50..96).contains(&left), "{left} users are left");
    let (_, metrics) = served.get("/metrics");
    assert!(metrics.contains("cohort_users_forgotten_total{why=\"memory\"}"), "{metrics}");
}

#[test]
fn apps_that_are_deleted_have_no_metrics() {
    let (served, _) = with_room(0, |_| {});
    let series = "cohort_app_users{app=\"shop\"}";
    wait_until("the app is not counted", || served.get("/metrics").1.contains(series));
    let deleted = served.agent.delete(format!("{}/v1/apps/shop", served.url)).call().unwrap();
    assert_eq!(deleted.status().as_u16(), 204);
    let (_, metrics) = served.get("/metrics");
    assert!(!metrics.contains("app=\"shop\""), "{metrics}");
}

/// A service with snapshots in memory, one every 200 ms where something happened.
fn with_snapshots(folder: &MemoryFolder) -> Served {
    let folder = folder.clone();
    Served::start(|_| {}, |server| replace(server, Snapshots::new(folder), |_| {}))
}

/// Has a server run another engine.
fn replace(server: &mut Server, snapshots: Snapshots<MemoryFolder>, change: fn(&mut Engine)) {
    let rng = ChaCha12Rng::from_seed([1; 32]);
    let mut engine = Engine::new(State::default(), server.config.limits(), rng);
    change(&mut engine);
    let journal = Box::new(MemoryJournal::open(&MemoryDisk::default()).unwrap());
    let interval = Duration::from_millis(200);
    let options = Options { snapshot_interval: interval, ..server.config.options() };
    let clock = Box::new(SystemClock);
    let other = Runtime::start(engine, journal, snapshots, clock, options).unwrap();
    std::mem::replace(&mut server.runtime, other).stop();
}

fn count(folder: &MemoryFolder, text: &str) -> usize {
    let mut found = 0;
    folder.damage(|_, bytes| {
        found += usize::from(bytes.windows(text.len()).any(|part| part == text.as_bytes()));
    });
    found
}

fn failures(served: &Served) -> u64 {
    let (_, metrics) = served.get("/metrics");
    let name = "cohort_snapshot_failures_total ";
    let value = metrics.lines().find_map(|line| line.strip_prefix(name));
    value.expect("it is there from the start").parse().unwrap()
}

#[test]
fn a_snapshot_that_failed_is_written_later_although_nothing_happens() {
    let folder = MemoryFolder::default();
    let served = with_snapshots(&folder);
    let before = failures(&served);
    served.post("/v1/apps", &json!({"name": "first-app", "dim": 2}));
    // At the start two are written, whatever happens: wait until that is over.
    wait_until("no snapshot", || count(&folder, "first-app") == 2);
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(served.get("/healthz").0, 200);
    folder.fail_after(Some(0));
    served.post("/v1/apps", &json!({"name": "second-app", "dim": 2}));
    wait_until("it is well without snapshots", || served.get("/healthz").0 == 503);
    assert!(failures(&served) > before);
    let (_, said) = served.get("/healthz");
    assert!(said.contains("snapshot could not be written") && said.contains("injected"), "{said}");
    folder.fail_after(None);
    wait_until("it never becomes well again", || served.get("/healthz").0 == 200);
    assert!(count(&folder, "second-app") > 0, "and the snapshot is there");
}

#[test]
fn a_snapshot_waits_for_room_on_the_disk_and_says_so_while_all_else_goes_on() {
    let folder = MemoryFolder::default();
    let served = with_snapshots(&folder);
    served.post("/v1/apps", &json!({"name": "first-app", "dim": 2}));
    wait_until("no snapshot", || count(&folder, "first-app") == 2);
    std::thread::sleep(Duration::from_secs(1));
    // Two are there; a third one has no room.
    let mut bytes = 0;
    folder.damage(|_, file| bytes += file.len() as u64);
    folder.set_room(Some(bytes + 10));
    served.post("/v1/apps", &json!({"name": "second-app", "dim": 2}));
    wait_until("nothing is said", || served.get("/healthz").1.contains("waits for room"));
    assert_eq!(served.get("/healthz").0, 200, "nothing has failed");
    assert_eq!(count(&folder, "second-app"), 0);
    assert!(served.get("/metrics").1.contains("cohort_snapshots_without_room_total"));
    folder.set_room(None);
    wait_until("no snapshot although there is room", || count(&folder, "second-app") > 0);
    wait_until("it waits for ever", || !served.get("/healthz").1.contains("waits for room"));
}

#[test]
fn whoever_went_is_gone_from_snapshots_although_some_of_them_fail() {
    let folder = MemoryFolder::default();
    let served = with_snapshots(&folder);
    served.post("/v1/apps", &json!({"name": "shop", "dim": 2}));
    assert_eq!(served.decide(4711).0, 200);
    wait_until("no snapshot", || count(&folder, "u4711") == 2);
    std::thread::sleep(Duration::from_secs(1));
    folder.fail_after(Some(0));
    let before = failures(&served);
    let user = format!("{}/v1/apps/shop/users/u4711", served.url);
    assert_eq!(served.agent.delete(user).call().unwrap().status().as_u16(), 204);
    wait_until("no snapshot fails", || failures(&served) >= before + 3);
    assert_eq!(count(&folder, "u4711"), 2);
    folder.fail_after(None);
    wait_until("the user is still there", || count(&folder, "u4711") == 0);
}

#[test]
fn a_refit_that_fails_is_told_by_healthz_with_the_reason() {
    let served = Served::start(
        |_| {},
        |server| {
            replace(server, Snapshots::new(MemoryFolder::default()), |engine| {
                let (app, settings) = ("shop".to_owned(), AppSettings::new(2));
                let (trial, learning) = Default::default();
                let create = Request::CreateApp { app, settings, trial, learning, key: None };
                engine.handle(1, create, &mut crate::journal::Group::default()).map(drop).unwrap();
                engine.begin_refit("shop", Box::new(|| panic!("a bug, made for this test")));
            });
        },
    );
    wait_until("it is well", || served.get("/healthz").0 == 503);
    let (_, said) = served.get("/healthz");
    assert!(said.contains("unwell") && said.contains("app `shop` could not be fitted"), "{said}");
    assert_eq!(served.decide(1).0, 200, "decisions go on");
    assert!(served.engine.failure().is_none());
}
