//! The page in a real browser, driven as a person would: open it, create an app, watch the demo,
//! click a user, click a decision, switch the theme, narrow the window. Every number on it is compared
//! with the API. Pictures are left in `target/dashboard/`.
#![allow(missing_docs)]

#[path = "../../cohort-lab/tests/browser/mod.rs"]
mod browser;
mod nats;
mod nodes;
mod running;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use browser::Browser;
use running::Running;
use serde_json::{Value, json};

const TAB: &str = "\u{E004}";
const ENTER: &str = "\u{E007}";
const RIGHT: &str = "\u{E014}";

fn picture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/dashboard").join(format!("{name}.png"))
}

/// Every number on the page and where it is in the API, as (path, text, digits, scale); those of features are asked for by
/// themselves.
const NUMBERS: &str = "return [...document.querySelectorAll('main [data-api]')].filter(one => \
    one.closest('.features') === null).map(one => \
    [one.dataset.api, one.textContent, Number(one.dataset.digits), Number(one.dataset.scale)]);";

/// The same of the table of features.
const FEATURES: &str = "return [...document.querySelectorAll('.features [data-api]')].map(one => \
    [one.dataset.api, one.textContent, Number(one.dataset.digits), Number(one.dataset.scale)]);";

/// The value at a path such as `curve.policy.mean` or `map.points.length`.
fn at<'a>(api: &'a Value, path: &str) -> Option<std::borrow::Cow<'a, Value>> {
    use std::borrow::Cow;
    path.split('.').try_fold(Cow::Borrowed(api), |value, step| {
        if step == "length" {
            return Some(Cow::Owned(value.as_array()?.len().into()));
        }
        let Cow::Borrowed(value) = value else { return None };
        match step.parse::<usize>() {
            Ok(index) => value.get(index).map(Cow::Borrowed),
            Err(_) => value.get(step).map(Cow::Borrowed),
        }
    })
}

/// What on the page is not what the API says.
fn differences(page: &Value, api: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    for number in page.as_array().unwrap() {
        let (path, text) = (number[0].as_str().unwrap(), number[1].as_str().unwrap());
        let Some(expected) = at(api, path) else {
            wrong.push(format!("{path}: {text} is not in the API"));
            continue;
        };
        let plain = text.replace(',', "").replace('−', "-");
        let shown = plain.trim_end_matches(" %").trim_start_matches('+').parse::<f64>();
        let same = match (expected.as_f64(), shown) {
            (None, _) => text == "–",
            (Some(expected), Ok(shown)) => {
                let half = 0.5 * 10f64.powi(-number[2].as_i64().unwrap() as i32) + 1e-9;
                (shown - expected * number[3].as_f64().unwrap()).abs() <= half
            }
            _ => false,
        };
        if !same {
            wrong.push(format!("{path}: {text} is {expected} in the API"));
        }
    }
    wrong
}

/// The page and the API at the same moment say the same. The demo goes on meanwhile, so a moment is
/// looked for in which nothing changed between the two.
fn compare(browser: &Browser, service: &Running, api: &str, at_least: usize) {
    compare_with(browser, || service.get(api), at_least);
}

fn compare_with(browser: &Browser, api: impl Fn() -> Value, at_least: usize) {
    let started = Instant::now();
    loop {
        let page = browser.run(NUMBERS);
        let wrong = differences(&page, &api());
        let count = page.as_array().unwrap().len();
        if wrong.is_empty() && count >= at_least {
            return;
        }
        let waited = started.elapsed() < Duration::from_secs(30);
        assert!(waited, "{count} numbers, of which {wrong:#?}");
        std::thread::sleep(Duration::from_millis(70));
        // Pages that are not live are opened anew.
        if browser.run("return !document.querySelector('[data-tick]')") == true {
            browser.run("dispatchEvent(new HashChangeEvent('hashchange'))");
            browser.wait_for("the page", 10, "return document.querySelector('main h1') !== null");
        }
    }
}

/// The least contrast of any text with what is behind it (WCAG 2.1), and which text that is.
const CONTRAST: &str = r#"
    const parse = text => (text.match(/[\d.]+/g) ?? []).map(Number);
    const light = ([r, g, b]) => [r, g, b].map(v => v / 255)
        .map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
        .reduce((sum, v, k) => sum + v * [.2126, .7152, .0722][k], 0);
    const behind = one => {
        for (let at = one; at; at = at.parentElement) {
            const [r, g, b, a = 1] = parse(getComputedStyle(at).backgroundColor);
            if (a === 1) return [r, g, b];
        }
        return [255, 255, 255];
    };
    let least = [99, ''];
    for (const one of document.querySelectorAll('body *')) {
        const own = [...one.childNodes].some(node => node.nodeType === 3 && node.textContent.trim());
        const box = one.getBoundingClientRect();
        if (!own || !box.width || !box.height || one.closest('noscript, .skip, option')) continue;
        const style = getComputedStyle(one);
        const ink = parse(one instanceof SVGElement ? style.fill : style.color);
        const [a, b] = [light(ink), light(behind(one))];
        const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
        if (ratio < least[0]) least = [ratio, one.tagName + ': ' + one.textContent.slice(0, 40)];
    }
    return least;
"#;

fn check_contrast(browser: &Browser, what: &str) {
    let least = browser.run(CONTRAST);
    assert!(least[0].as_f64().unwrap() >= 4.5, "{what}: {least}");
}

fn theme(browser: &Browser, wanted: &str) {
    while browser.run("return document.documentElement.dataset.theme ?? ''") != wanted {
        browser.click("#theme");
    }
    // Dots glide, bars grow.
    std::thread::sleep(Duration::from_millis(900));
}

/// A picture of the whole page at a width, in both themes.
fn pictures(browser: &Browser, name: &str) {
    for (kind, width, height) in [("", 1400, 1000), ("-phone", 390, 844)] {
        browser.resize(width, height);
        for colours in ["light", "dark"] {
            theme(browser, colours);
            check_contrast(browser, &format!("{name}{kind} in {colours}"));
            browser.screenshot(&picture(&format!("{name}{kind}-{colours}")));
        }
        let fits = "return document.documentElement.scrollWidth <= innerWidth";
        assert_eq!(browser.run(fits), true, "{name}{kind}: the page is wider than the window");
    }
    browser.resize(1400, 1000);
}

#[test]
fn a_person_watches_cohorts_form_and_asks_why() {
    let service = Running::start_demo();
    let browser = Browser::start();
    browser.resize(1400, 1000);
    let started = Instant::now();
    browser.open(&service.url);

    // All apps; a new one.
    browser.wait_for(
        "the demo's app",
        20,
        "return document.querySelector('[data-app=demo]') !== null",
    );
    assert_eq!(browser.run("return document.getElementById('demo').hidden"), false, "it says so");
    browser.type_into("input[name=name]", "shop");
    browser.type_into("input[name=dim]", "3");
    browser.click("button.act");
    browser.wait_for(
        "the new app",
        10,
        "return document.querySelector('[data-app=shop]') !== null",
    );
    let said = browser.run("return document.querySelector('.said').textContent");
    assert!(said.as_str().unwrap().contains("ck_"), "its key is shown: {said}");
    assert_eq!(service.get("/v1/apps/shop")["control"], 0.1);
    browser.type_into("input[name=name]", "shop");
    browser.click("button.act");
    let refused = "return document.querySelector('.said.wrong')?.textContent";
    let refused = browser.wait_for("a refusal", 10, refused);
    assert!(refused.as_str().unwrap().contains("already an app"), "{refused}");
    pictures(&browser, "apps");

    // An app with nothing in it says so.
    browser.click("[data-app=shop] a");
    browser.wait_for("the empty app", 10, "return document.querySelector('[data-tick]') !== null");
    compare(&browser, &service, "/v1/apps/shop/insight", 8);
    browser.screenshot(&picture("empty-light"));

    // The demo: cohorts form within a minute of the first command.
    browser.open(&format!("{}/#/app/demo", service.url));
    let cohorts = "return document.querySelectorAll('.cohorts li').length >= 4";
    browser.wait_for("four cohorts", 60, cohorts);
    println!("four cohorts after {:.0} s", started.elapsed().as_secs_f64());
    assert!(started.elapsed() < Duration::from_secs(60), "within a minute");
    compare(&browser, &service, "/v1/apps/demo/insight", 25);
    while started.elapsed() < Duration::from_secs(50) {
        std::thread::sleep(Duration::from_millis(200));
    }
    pictures(&browser, "app");
    let dots = browser.run("return Number(document.querySelector('.map').dataset.dots)");
    assert!(dots.as_f64().unwrap() > 100.0, "{dots} users on the map");

    // By keyboard: everything that can be used can be reached, and a user opened from the map.
    browser.run("document.querySelector('.skip').focus()");
    let mut reached = Vec::new();
    for _ in 0..14 {
        browser.press(TAB);
        let focused = "const one = document.activeElement; const style = getComputedStyle(one); \
            return [one.tagName, one.textContent.trim().slice(0, 20), style.outlineStyle];";
        let focused = browser.run(focused);
        assert_ne!(focused[2], "none", "the focus is seen: {focused}");
        reached.push(focused[0].as_str().unwrap().to_owned());
        if focused[0] == "CANVAS" {
            break;
        }
    }
    assert_eq!(reached.last().map(String::as_str), Some("CANVAS"), "{reached:?}");
    assert!(reached.contains(&"BUTTON".to_owned()) && reached.contains(&"A".to_owned()));
    browser.press(RIGHT);
    browser.press(RIGHT);
    browser.press(ENTER);
    browser.wait_for("a user", 10, "return location.hash.includes('/user/')");

    // With the mouse: a user on the map.
    browser.open(&format!("{}/#/app/demo", service.url));
    browser.wait_for("the map", 10, "return document.querySelector('.map')?.dataset.dots > 0");
    std::thread::sleep(Duration::from_millis(900));
    let frame = browser.run(
        "const box = document.querySelector('canvas').getBoundingClientRect(); \
         return [box.left, box.top, box.width, box.height];",
    );
    let of = |k: usize| frame[k].as_f64().unwrap();
    let places =
        (1..19).flat_map(|x| (1..15).map(move |y| (f64::from(x) / 19.0, f64::from(y) / 15.0)));
    let hit = places.map(|(x, y)| (of(0) + x * of(2), of(1) + y * of(3))).find(|(x, y)| {
        browser.point_at(*x, *y);
        browser.run("return !document.querySelector('.tip').hidden") == true
    });
    let (x, y) = hit.expect("a user under the pointer somewhere");
    browser.click_at(x, y);
    let opened = "const title = document.querySelector('main h1')?.textContent ?? ''; \
        return title.startsWith('reader-') && title;";
    let user = browser.wait_for("a user", 10, opened);
    let user = user.as_str().unwrap();
    compare(&browser, &service, &format!("/v1/apps/demo/users/{user}"), 2);
    pictures(&browser, "user");

    // A decision, from the list of the newest.
    browser.open(&format!("{}/#/app/demo", service.url));
    browser.wait_for(
        "decisions",
        10,
        "return document.querySelector('tr[data-decision] a') !== null",
    );
    // The list stands still under the pointer, but may have moved on before that came there.
    let first = "const one = document.querySelector('tr[data-decision] a'); one?.scrollIntoView({block: 'center'}); \
        const box = one?.getBoundingClientRect(); return box && [box.left + 5, box.top + 5];";
    let is_open = || browser.run("return document.querySelector('.facts code') !== null") == true;
    for _ in 0..5 {
        let first = browser.run(first);
        if let (Some(x), Some(y)) = (first[0].as_f64(), first[1].as_f64()) {
            browser.click_at(x, y);
        }
        let clicked = std::time::Instant::now();
        while !is_open() && clicked.elapsed() < std::time::Duration::from_secs(3) {
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        if is_open() {
            break;
        }
    }
    browser.wait_for("a decision", 10, "return document.querySelector('.facts code')?.textContent");
    let id = browser.run("return document.querySelector('.facts code').textContent");
    compare(&browser, &service, &format!("/v1/apps/demo/decisions/{}", id.as_str().unwrap()), 20);
    pictures(&browser, "decision");

    // Nothing was asked of anybody else, and nothing went wrong unsaid.
    for message in browser.log("performance") {
        let json: Value = serde_json::from_str(&message).unwrap();
        if json["message"]["method"] == "Network.requestWillBeSent" {
            let url = json["message"]["params"]["request"]["url"].as_str().unwrap_or_default();
            let own = url.starts_with(&service.url);
            let local = ["data:", "chrome:"].iter().any(|scheme| url.starts_with(scheme));
            assert!(own || local, "{url}");
        }
    }
    let console: Vec<String> = browser
        .log("browser")
        .into_iter()
        // The refusal that was provoked above.
        .filter(|line| !line.contains("409"))
        .collect();
    assert!(console.is_empty(), "{console:?}");
}

/// Which features were seen, which collide and which matter, for everybody and for a user; and which made a decision what it is.
#[test]
fn features_of_an_app_that_takes_json_are_told_by_name() {
    let service = Running::start();
    let browser = Browser::start();
    browser.resize(1400, 1000);
    // Fewer coordinates than features, so that some collide.
    service.post("/v1/apps", json!({"name": "films", "features": "json", "dim": 6}));
    let genres = ["drama", "war", "comedy", "horror"];
    for step in 0..400 {
        let items: Vec<Value> = (0..4)
            .map(|at| {
                let (genre, year) = (genres[(step + at) % 4], 1950 + (7 * step + 13 * at) % 60);
                json!({"id": format!("film {}", (step + at) % 20),
                    "features": {"genre": genre, "year": year}})
            })
            .collect();
        let user = format!("user-{}", step % 20);
        let asked = json!({"user": user, "items": items, "context": {"device": "mobile"},
            "decision_id": format!("d{step}"), "explain": step == 399});
        let made = service.post("/v1/apps/films/decide", asked);
        let item = made["item"].as_str().unwrap();
        let reward = f64::from(u8::from(item.ends_with('4') || item.ends_with('8')));
        let body = json!({"decision_id": format!("d{step}"), "reward": reward});
        service.post("/v1/apps/films/reward", body);
    }
    let told = |api: &str| {
        browser.wait_for(
            "features",
            10,
            "return document.querySelectorAll('.features tbody tr').length >= 5",
        );
        let started = Instant::now();
        loop {
            let (page, said) = (browser.run(FEATURES), service.get(api));
            let wrong = differences(&page, &said);
            if wrong.is_empty() && page.as_array().unwrap().len() > 20 {
                let listed = said["features"].as_array().unwrap().len().min(30);
                let rows = "return document.querySelectorAll('.features tbody tr').length";
                assert_eq!(browser.run(rows), listed);
                assert!(said["colliding"].as_u64().unwrap() > 0);
                return;
            }
            assert!(started.elapsed() < Duration::from_secs(30), "{api}: {wrong:#?}");
            std::thread::sleep(Duration::from_millis(200));
        }
    };
    browser.open(&format!("{}/#/app/films", service.url));
    told("/v1/apps/films/features");
    let first = "return document.querySelector('.features tbody tr').innerText";
    let first = browser.run(first);
    assert!(
        first.as_str().unwrap().contains("item.") || first.as_str().unwrap().contains("context.")
    );
    pictures(&browser, "features");
    browser.open(&format!("{}/#/app/films/user/user-3", service.url));
    told("/v1/apps/films/users/user-3/features");
    browser.screenshot(&picture("user-features"));

    browser.open(&format!("{}/#/app/films/decision/d399", service.url));
    browser.wait_for("parts", 10, "return document.querySelector('.parts') !== null");
    compare(&browser, &service, "/v1/apps/films/decisions/d399", 20);
    let text = browser.run("return document.querySelector('.parts').innerText");
    let text = text.as_str().unwrap();
    assert!(text.contains("level") && text.contains("item.genre="), "{text}");
    pictures(&browser, "decision-features");
    assert!(browser.run("return document.querySelector('.key.item') !== null") == true);
    let reasons = &service.get("/v1/apps/films/decisions/d399")["reasons"];
    for candidate in reasons["candidates"].as_array().unwrap() {
        let parts = candidate["features"].as_array().unwrap();
        let sum: f64 = parts.iter().map(|part| part["part"].as_f64().unwrap()).sum();
        assert!((sum - candidate["expected"].as_f64().unwrap()).abs() < 1e-9, "{candidate}");
    }
    let console = browser.log("browser");
    assert!(console.is_empty(), "{console:?}");
}

#[test]
fn a_service_with_keys_asks_for_one() {
    let service = Running::start_with_key("a key of sixteen and more");
    let browser = Browser::start();
    browser.open(&service.url);
    browser.wait_for("a question", 10, "return document.querySelector('input[name=key]') !== null");
    browser.type_into("input[name=key]", "not the key, I fear");
    browser.click("button.act");
    let refused =
        "return document.querySelector('.said')?.textContent.includes('not the admin key')";
    browser.wait_for("a refusal", 10, refused);
    browser.type_into("input[name=key]", "a key of sixteen and more");
    browser.click("button.act");
    browser.wait_for("the apps", 10, "return document.querySelector('input[name=dim]') !== null");

    // The log is fetched with the key, which the browser would not send by itself.
    let app = serde_json::json!({"name": "shop", "dim": 2});
    let key = "a key of sixteen and more";
    assert_eq!(service.send_with_key("POST", "/v1/apps", &app, key).0, 201);
    browser.run("location.hash = '#/app/shop'");
    let link = "a[href='/v1/apps/shop/log.csv']";
    browser.wait_for("a link", 20, &format!("return document.querySelector(\"{link}\") !== null"));
    browser.run(
        "window.saved = []; HTMLAnchorElement.prototype.click = () => {}; \
         URL.createObjectURL = file => { file.text().then(text => window.saved.push(text)); return ''; }",
    );
    browser.run(&format!("document.querySelector(\"{link}\").dispatchEvent(new MouseEvent('click', {{bubbles: true, cancelable: true}}))"));
    browser.wait_for(
        "the log",
        20,
        "return window.saved.some(text => text.startsWith('decision_id'))",
    );
}

/// With 100,000 users a map still has 1,500 dots: what the browser draws does not grow with them.
/// The page that documents the interface: what it is filled in with can be sent as it is, and what
/// never ends cannot be sent.
#[test]
fn the_documentation_can_be_tried() {
    let service = Running::start();
    let browser = Browser::start();
    browser.open(&format!("{}/docs", service.url));
    browser.wait_for("the list", 10, "return document.querySelectorAll('details').length > 20");
    let send = |method: &str, path: &str, app: &str| {
        let script = format!(
            "const box = [...document.querySelectorAll('details')].find(box => \
                 box.querySelector('.method').textContent === '{method}' && \
                 box.querySelector('code').textContent === '{path}'); \
             box.open = true; \
             box.querySelectorAll('label input').forEach(input => {{ input.value = '{app}'; }}); \
             window.answer = box.querySelector('pre'); \
             box.querySelector('button').click();"
        );
        browser.run(&script);
        browser.wait_for("an answer", 10, "return window.answer.textContent !== ''");
        browser.run("return window.answer.textContent").as_str().unwrap().to_owned()
    };
    assert!(send("post", "/v1/apps", "").starts_with("201"));
    let before = service.get("/v1/apps/shop");
    assert!(send("post", "/v1/apps/{app}/decide", "shop").starts_with("200"));
    assert!(send("post", "/v1/apps/{app}/reward", "shop").contains("learned"));
    assert!(send("patch", "/v1/apps/{app}", "shop").starts_with("200"));
    let after = service.get("/v1/apps/shop");
    for setting in ["epsilon", "window_ms", "default_reward", "control", "params"] {
        assert_eq!(after[setting], before[setting], "{setting}");
    }
    let without_button = browser.run(
        "return [...document.querySelectorAll('details')].filter(box => \
             box.querySelector('button') === null).map(box => box.querySelector('code').textContent)",
    );
    assert_eq!(without_button, serde_json::json!(["/v1/apps/{app}/live"]));
}

#[test]
fn a_full_map_is_drawn_smoothly() {
    let service = Running::start();
    let browser = Browser::start();
    browser.resize(1400, 1000);
    browser.open(&service.url);
    browser.wait_for("the page", 10, "return document.querySelector('main h1') !== null");
    service.post("/v1/apps", serde_json::json!({"name": "shop", "dim": 2}));
    let asked =
        serde_json::json!({"user": "ann", "items": [{"id": "tea", "features": [0.1, 0.9]}]});
    service.post("/v1/apps/shop/decide", asked);
    compare(&browser, &service, "/v1/apps", 3);
    let frames = browser.run(
        "return import('/page/map.js').then(async ({ cohortMap }) => { \
           const map = cohortMap(() => {}); \
           document.getElementById('main').replaceChildren(map); \
           const dots = () => Array.from({ length: 1500 }, (_, k) => ({ user: `user-${k}`, \
             x: Math.random(), y: Math.random(), colour: k % 9, share: .9, rewards: k % 50 })); \
           const cohorts = Array.from({ length: 9 }, (_, k) => ({ colour: k, label: 'ABCDEFGHI'[k] })); \
           const gaps = []; \
           for (let tick = 0; tick < 3; tick++) { \
             map.show(dots(), cohorts); \
             let before = await new Promise(requestAnimationFrame); \
             for (let frame = 0; frame < 30; frame++) { \
               const now = await new Promise(requestAnimationFrame); \
               gaps.push(now - before); before = now; \
             } \
           } \
           return gaps.sort((a, b) => a - b); })",
    );
    let gaps = frames.as_array().unwrap();
    let median = gaps[gaps.len() / 2].as_f64().unwrap();
    println!("a full map: a frame every {median:.1} ms (median of {})", gaps.len());
    assert!(median < 50.0, "{median} ms between frames, drawn without a graphics card");
}

#[test]
fn a_cluster_is_on_the_page() {
    let servers = nats::Servers::start(1);
    let a = nodes::Node::start(nodes::config(&servers, "a", 4));
    let b = nodes::Node::start(nodes::config(&servers, "b", 4));
    b.wait_until_even(2);
    a.post("/v1/apps", &serde_json::json!({"name": "shop", "dim": 2}));
    for user in 0..20 {
        let decide = serde_json::json!({"user": format!("u{user}"), "items": nodes::items()});
        b.post("/v1/apps/shop/decide", &decide);
    }
    let browser = Browser::start();
    browser.resize(1400, 1000);
    browser.open(&a.url);
    let link = "return document.getElementById('cluster').hidden === false";
    browser.wait_for("a link to the cluster", 20, link);
    browser.click("#cluster");
    let rows = "return document.querySelectorAll('[data-partition]').length === 5 \
                && document.querySelectorAll('[data-node]').length === 2";
    browser.wait_for("all partitions", 20, rows);
    // Sizes are looked at every ten seconds.
    compare_with(&browser, || a.get("/v1/cluster"), 5 * 5 + 2);
    pictures(&browser, "cluster");
    drop(b);
    let alone = "return document.querySelectorAll('[data-node]').length === 1 \
                 && [...document.querySelectorAll('[data-partition] td:nth-child(2)')].every(one => one.textContent === 'a')";
    browser.wait_for("the other node's partitions", 30, alone);
}
