//! Memory that becomes scarce, in a process of its own, with the allocator of the `cohort` command.
#![allow(missing_docs)]

mod running;

use std::alloc::{GlobalAlloc, Layout};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use cohort_server::settings::AppSettings;
use mimalloc::MiMalloc;
use running::Running;
use serde_json::{Value, json};

/// Counts what is in use, whenever the allocator gives what is not back to the machine.
struct Counting;

static IN_USE: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to mimalloc as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        IN_USE.fetch_add(layout.size(), Relaxed);
        // SAFETY: the caller keeps what `alloc` asks for.
        unsafe { MiMalloc.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: it was allocated above, with this layout.
        unsafe { MiMalloc.dealloc(memory, layout) }
    }
}

#[global_allocator]
static MEMORY: Counting = Counting;

/// One measures at a time.
static ALONE: Mutex<()> = Mutex::new(());

const DIM: usize = 48;
/// What users may take beside what the process has anyway.
const FOR_USERS: u64 = 40 << 20;

fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = text.split_whitespace().nth(1).unwrap().parse().unwrap();
    pages * page_bytes()
}

fn page_bytes() -> u64 {
    // What statm counts in.
    let text = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("KernelPageSize:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<u64>().unwrap() * 1024
}

/// Ten rewards of each of some users, in one request.
fn history(from: usize, users: usize) -> Value {
    let reward = |n: usize| {
        let features: Vec<u8> = (0..DIM).map(|at| u8::from((n + at).is_multiple_of(7))).collect();
        let user = format!("user-{}", from + n % users);
        json!({"user": user, "item": "a", "features": features, "reward": n % 3})
    };
    json!({"decisions": (0..10 * users).map(reward).collect::<Vec<_>>()})
}

/// Users take memory until there is too little; those who go for it give it back, so that the others are served again.
#[test]
#[ignore = "takes a minute: run it with --ignored"]
fn a_service_whose_memory_is_low_serves_again_once_some_users_went() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    // Decisions are forgotten at once, so that what is learned of users is nearly all that there is.
    let app = json!({"name": "shop", "dim": DIM, "window_ms": 100, "params": {"refit_ratio": 10}});
    // What a service takes whose caches are full, and that knows little.
    let other = Running::start();
    other.post("/v1/apps", app.clone());
    for users in (0..2500).step_by(100) {
        other.post("/v1/apps/shop/history", history(users, 100));
    }
    let most = resident() + FOR_USERS;
    drop(other);
    let service = Running::start_with(|config| config.max_memory_bytes = most);
    assert_eq!(service.send("POST", "/v1/apps", &app).0, 201);
    let (began, mut users) = (Instant::now(), 0);
    let mut taken_at = began;
    // What takes memory for a moment is no user.
    while taken_at.elapsed() < Duration::from_secs(4) {
        let (status, said) = service.send("POST", "/v1/apps/shop/history", &history(users, 100));
        match status {
            200 => (users, taken_at) = (users + 100, Instant::now()),
            // Where memory became scarce between the parts of a request, some of it was done.
            503 if said["error"]["code"] == "memory_low" || said["error"]["code"] == "in_doubt" => {
                std::thread::sleep(Duration::from_millis(100));
            }
            _ => panic!("{status} {said}"),
        }
        assert!(users < 60_000 && began.elapsed() < Duration::from_secs(240), "{users} users fit");
    }
    let full = resident();
    let items = json!([{"id": "a", "features": vec![1.0; DIM]}]);
    let decide = json!({"user": "new", "items": items});
    while service.send("POST", "/v1/apps/shop/decide", &decide).0 != 200 {
        assert!(began.elapsed() < Duration::from_secs(480), "decisions are refused for ever");
        std::thread::sleep(Duration::from_millis(200));
    }
    let left = service.send("GET", "/v1/apps/shop", &Value::Null).1["users"].as_u64().unwrap();
    let now = resident();
    println!("{users} users took {full} bytes of {most}; {left} are left with {now}");
    assert!(now < most, "{now} bytes of {most}");
    assert!(
        left < users as u64 && left > users as u64 * 6 / 10,
        "{left} of {users} users are left"
    );
}

/// Half of the users are retired, some of whom have few rewards and others many: half of what all took is free.
#[test]
fn users_who_go_give_their_memory_back() {
    const USERS: usize = 20_000;
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut policy = AppSettings::new(DIM).build().unwrap();
    let online = policy.online().unwrap();
    let before = IN_USE.load(Relaxed);
    for turn in 0..40 {
        // Users of even numbers are kept as rows, others as sums.
        for user in (0..USERS).filter(|user| turn < 20 || user % 2 == 1) {
            online.learn_one(user, &[(turn + user % 5) as f64; DIM], 1.0);
        }
    }
    let all = IN_USE.load(Relaxed) - before;
    (0..USERS / 2).for_each(|user| assert!(online.retire(user)));
    let left = IN_USE.load(Relaxed) - before;
    assert!(left < all * 6 / 10, "{left} bytes of {all} are left of half of the users");
}
