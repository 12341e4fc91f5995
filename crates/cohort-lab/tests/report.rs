//! The report, whole: every study at a size that takes seconds, on a small data set in the format
//! of Last.FM; read as HTML and looked at in a real browser.

mod browser;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};

use browser::Browser;
use cohort_lab::datasets::synthetic::write_lastfm;
use cohort_lab::reproduce::study::{FILES, Study};
use cohort_lab::reproduce::{Halt, Report, Request, Watcher, claims, reproduce_studies};

/// Every study, made as small as it can be and still be drawn and judged.
fn small_studies() -> Vec<Study> {
    (FILES.iter())
        .map(|(name, text)| {
            let mut table: toml::Table = text.parse().unwrap();
            table.remove("quick");
            table.insert("reps".into(), 2.into());
            table.insert("rounds".into(), 60.into());
            if let Some(tuning) = table.get_mut("tuning") {
                tuning["rounds"] = 20.into();
                tuning["reps"] = 1.into();
                tuning["widths"] = vec![0.1, 1.0].into();
            }
            // As many clusters as users must stay what it is: nobody is like anybody.
            let env = table.get_mut("env").and_then(toml::Value::as_table_mut);
            if let Some(users) = env.and_then(|env| env.get_mut("users")) {
                *users = 20.into();
            }
            if let Some(readings) = table.get_mut("reading").and_then(toml::Value::as_array_mut) {
                readings.truncate(2);
            }
            let facets = table.get_mut("facet").and_then(toml::Value::as_array_mut);
            for facet in facets.into_iter().flatten() {
                facet.as_table_mut().unwrap().remove("quick");
                let one_will_do =
                    ["theory", "personal", "readings"].iter().any(|first| name.starts_with(first));
                let values = match facet["key"].as_str().unwrap() {
                    "noise" if one_will_do => toml::Value::from(vec![0.5]),
                    "imbalance" if one_will_do => vec![0].into(),
                    "noise" => toml::Value::from(vec![0.1, 1.0]),
                    "users" => vec![10, 24].into(),
                    "rounds" => vec![40, 80].into(),
                    "spread" | "spacing" => vec![0.01, 1.0].into(),
                    "clusters" => vec![4, 20].into(),
                    "imbalance" => vec![0, 2].into(),
                    "horizon" => vec![400, 1600].into(),
                    _ => continue,
                };
                facet["values"] = values;
            }
            let policies = table.get_mut("policy").and_then(toml::Value::as_array_mut);
            for policy in policies.into_iter().flatten() {
                if let Some(tune) = policy.get_mut("tune").and_then(toml::Value::as_table_mut) {
                    tune.iter_mut().for_each(|(_, grid)| *grid = vec![0.3, 1.0].into());
                }
            }
            let study = Study::parse(name, &table.to_string(), false).unwrap();
            Study { quick: true, ..study }
        })
        .collect()
}

fn request(out: &Path, data: &Path) -> Request {
    Request {
        quick: true,
        quick_for: Vec::new(),
        so_far: false,
        only: Vec::new(),
        out: out.to_owned(),
        data: data.to_owned(),
        seed: None,
        reps: None,
        threads: 2,
        docs: Some(out.join("docs")),
        without: Vec::new(),
    }
}

fn run(out: &Path, data: &Path, watcher: &dyn Watcher, stop: &AtomicBool) -> Result<Report, Halt> {
    reproduce_studies(&request(out, data), small_studies(), watcher, stop)
}

fn whole(out: &Path, data: &Path) -> Report {
    match run(out, data, &(), &AtomicBool::new(false)) {
        Ok(report) => report,
        Err(Halt::Failed(error)) => panic!("{error}"),
        Err(Halt::Stopped) => panic!("nobody asked to stop"),
    }
}

/// A report that several tests look at.
fn shared() -> &'static Path {
    static REPORT: OnceLock<tempfile::TempDir> = OnceLock::new();
    REPORT
        .get_or_init(|| {
            let folder = tempfile::tempdir().unwrap();
            write_lastfm(&folder.path().join("sets"), 40, 80, 1).unwrap();
            write_movielens(&folder.path().join("sets/ml-latest-small")).unwrap();
            whole(folder.path(), &folder.path().join("sets"));
            folder
        })
        .path()
}

/// Eighty films of three genres each, and forty users who like six of them.
fn write_movielens(folder: &Path) -> std::io::Result<()> {
    let mut films = String::from("movieId,title,genres\n");
    for film in 0..80 {
        let genre = |k: usize| (film * (2 * k + 3) + k * k) % 40;
        films += &format!("{film},Film {film},g{}|g{}|g{}\n", genre(0), genre(1), genre(2));
    }
    let mut ratings = String::from("userId,movieId,rating,timestamp\n");
    for user in 0..40 {
        for k in 0..6 {
            ratings += &format!("{user},{},5.0,0\n", (user * 7 + k * 13) % 80);
        }
    }
    std::fs::create_dir_all(folder)?;
    std::fs::write(folder.join("movies.csv"), films)?;
    std::fs::write(folder.join("ratings.csv"), ratings)
}

fn files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files: Vec<_> = (std::fs::read_dir(folder).unwrap())
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.file_name().unwrap().into(), std::fs::read(&path).unwrap()))
        .collect();
    files.sort();
    files
}

#[test]
fn every_figure_and_every_claim_is_there_and_the_page_is_html() {
    let folder = shared();
    let page = std::fs::read_to_string(folder.join("index.html")).unwrap();
    check_html(&page);
    for claim in claims::all() {
        assert!(page.contains(&format!("id=\"claim-{}\"", claim.id)), "{}", claim.id);
    }
    for (name, _) in FILES {
        assert!(page.contains(&format!("<section id=\"{name}\">")), "{name}");
    }
    let drawn: Vec<PathBuf> = files(&folder.join("figures")).into_iter().map(|(n, _)| n).collect();
    let expected = [
        "fig1-noise-0.1-paper",
        "fig1-noise-0.1-tuned",
        "fig1-noise-1-paper",
        "fig1-noise-1-tuned",
        "fig2-noise-0.1-paper",
        "fig2-noise-0.1-tuned",
        "fig2-noise-1-paper",
        "fig2-noise-1-tuned",
        "fig3-paper",
        "scaling-users",
        "scaling-rounds",
        "scaling-separation",
        "scaling-heterogeneity",
        "scaling-personal",
        "personal-users",
        "personal-identical",
        "theory-separable-users",
        "theory-separable-rounds",
        "theory-inseparable-users",
        "theory-inseparable-rounds",
        "theory-close",
        "theory-shares",
        "theory-gap",
        "runtime",
        "cohort-clusters-paper",
        "cohort-clusters-tuned",
        "cohort-mixture-paper",
        "cohort-mixture-tuned",
        "cohort-ablations-paper",
        "cohort-lastfm-paper",
        "cohort-lastfm-tuned",
        "cohort-movielens-paper",
        "cohort-movielens-tuned",
    ];
    for name in expected {
        assert!(page.contains(&format!("id=\"figure-{name}\"")), "{name} is not on the page");
        for kind in ["svg", "png"] {
            assert!(drawn.contains(&PathBuf::from(format!("{name}.{kind}"))), "{name}.{kind}");
        }
    }
    assert_eq!(drawn.len(), 2 * expected.len(), "{drawn:?}");
    assert!(page.matches("QUICK RUN").count() >= expected.len(), "every figure says so");
    assert!(page.matches("cohort reproduce --only").count() >= expected.len());
}

#[test]
fn no_verdict_is_missing_when_everything_was_run() {
    let text = std::fs::read_to_string(shared().join("claims.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    for claim in json["claims"].as_array().unwrap() {
        assert_ne!(claim["verdict"], "unknown", "{claim:#}");
        assert!(claim["why"].as_str().unwrap().ends_with('.'), "{claim:#}");
        assert!(!claim["why"].as_str().unwrap().contains("NaN"), "{claim:#}");
        for key in ["applies", "verdict_tuned", "readings"] {
            assert!(claim.get(key).is_some(), "{key} is missing in {claim:#}");
        }
    }
    assert_eq!(json["mode"], "quick");
    assert_eq!(json["reps"]["fig1"], 2);
    // What was not reproduced of Figure 1 was tried under every reading.
    let of_fig1 = json["claims"]
        .as_array()
        .unwrap()
        .iter()
        .find(|claim| claim["id"] == "superior" && claim["verdict"] != "reproduced");
    if let Some(claim) = of_fig1 {
        // Two values each of noise, z and N alone, nothing restarted, as chosen, two readings, two L.
        assert_eq!(claim["readings"].as_array().unwrap().len(), 12, "{claim:#}");
        assert!(
            claim["command"].as_str().unwrap().contains("fig1,readings-clustering"),
            "{claim:#}"
        );
        assert!(claim["verdict_tuned"].is_string(), "{claim:#}");
    }
}

#[test]
fn the_page_for_the_repository_has_every_claim_every_study_and_no_path_of_this_machine() {
    let folder = shared().join("docs");
    let page = std::fs::read_to_string(folder.join("README.md")).unwrap();
    for claim in claims::all() {
        assert!(page.contains(&format!("\n### {}\n", claim.id)), "{}", claim.id);
    }
    for (name, _) in FILES {
        assert!(page.contains(&format!("\n### {name}: ")), "{name}");
        assert!(folder.join("data").join(format!("{name}.csv")).exists(), "{name}");
    }
    for figure in page.split("](figures/").skip(1) {
        let name = figure.split(')').next().unwrap();
        assert!(folder.join("figures").join(name).exists(), "{name}");
    }
    let json = std::fs::read_to_string(folder.join("claims.json")).unwrap();
    let here = shared().to_string_lossy();
    assert!(!page.contains(&*here) && !json.contains(&*here), "a path of this machine");
    let slice = std::fs::read_to_string(folder.join("slice.csv")).unwrap();
    assert!(slice.contains("\nfig1,sclb,") && !slice.contains(",cohort"), "{slice}");
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let again = tempfile::tempdir().unwrap();
    whole(again.path(), &shared().join("sets"));
    // All tables and figures, to the byte, but for those of the study of run time.
    for (folder, least) in [("data", 4 * 8), ("docs/data", 30), ("docs/figures", 30)] {
        let (first, second) = (files(&shared().join(folder)), files(&again.path().join(folder)));
        assert!(second.len() >= least && first.len() == second.len(), "{folder}");
        for ((name, one), (same, other)) in first.iter().zip(&second) {
            let timed = folder != "data" && name.to_string_lossy().starts_with("runtime");
            assert!(name == same && (timed || one == other), "{folder}/{} differs", name.display());
        }
    }
    // The page and the claims, but for the one about run time and the score that counts it.
    let page = |folder: &Path| {
        let text = std::fs::read_to_string(folder.join("docs/README.md")).unwrap();
        let (before, rest) = text.split_once("\n### faster\n").unwrap();
        let after = rest.split_once("\n### ").unwrap().1;
        let counts = |line: &&str| !line.starts_with("*Adaptive") && !line.contains("(#faster)");
        format!("{before}\n### {after}").lines().filter(counts).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(page(shared()), page(again.path()));
    let claims = |folder: &Path| {
        let text = std::fs::read_to_string(folder.join("docs/claims.json")).unwrap();
        let mut json: serde_json::Value = serde_json::from_str(&text).unwrap();
        json["claims"].as_array_mut().unwrap().retain(|claim| claim["id"] != "faster");
        json
    };
    assert_eq!(claims(shared()), claims(again.path()));
}

#[test]
fn one_repetition_gives_no_verdict() {
    let out = tempfile::tempdir().unwrap();
    let mut studies = small_studies();
    studies.retain(|study| study.name == "scaling-users");
    studies[0].draft.run.insert("reps".to_owned(), cohort::params::Value::Real(1.0));
    let request = request(out.path(), out.path());
    let Ok(report) = reproduce_studies(&request, studies, &(), &AtomicBool::new(false)) else {
        panic!("one repetition can be run")
    };
    let mut judged = report.claims.iter().filter(|judged| judged.claim.study == "scaling-users");
    assert!(judged.all(|judged| judged.finding.verdict == claims::Verdict::Undecided
        && judged.finding.why.starts_with("One repetition")));
}

#[test]
fn without_data_the_report_says_how_to_get_it_in_one_line() {
    let (out, empty) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let studies = small_studies().into_iter().filter(|study| study.name.starts_with("fig3"));
    let request = request(out.path(), empty.path());
    let report = reproduce_studies(&request, studies.collect(), &(), &AtomicBool::new(false));
    let Ok(report) = report else { panic!("a missing data set is no failure") };
    assert_eq!(report.left_out.len(), 2);
    assert!(report.left_out[0].2.contains("grouplens.org"));
    let page = std::fs::read_to_string(report.page).unwrap();
    check_html(&page);
    assert!(page.contains("Not run: get hetrec2011-lastfm-2k.zip"));
}

/// Stops after some jobs, then goes on.
#[test]
fn an_interrupted_run_goes_on_where_it_stopped() {
    struct Impatient<'a>(&'a AtomicBool, Mutex<usize>);
    impl Watcher for Impatient<'_> {
        fn done(&self, _work: u64) {
            let mut left = self.1.lock().unwrap();
            *left = left.saturating_sub(1);
            self.0.store(*left == 0, Ordering::Relaxed);
        }
    }
    struct Counter(AtomicU64);
    impl Watcher for Counter {
        fn begins(&self, _what: &str) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let data = shared().join("sets");
    let stop = AtomicBool::new(false);
    let halted = run(folder.path(), &data, &Impatient(&stop, Mutex::new(300)), &stop);
    assert!(matches!(halted, Err(Halt::Stopped)));
    let journal = folder.path().join("journal.jsonl");
    let kept = std::fs::read_to_string(&journal).unwrap();
    assert!(kept.lines().count() > 200, "{} jobs kept", kept.lines().count());

    // What there is can be shown: nothing is run, and what is not there is named.
    let so_far = || {
        let request = Request { so_far: true, ..request(folder.path(), &data) };
        match reproduce_studies(&request, small_studies(), &(), &AtomicBool::new(false)) {
            Ok(report) => report,
            Err(_) => panic!("what there is can always be shown"),
        }
    };
    let report = so_far();
    let left_out: Vec<&str> = report.left_out.iter().map(|(name, ..)| name.as_str()).collect();
    assert!(left_out.contains(&"cohort-movielens"), "{left_out:?}");
    let page = std::fs::read_to_string(folder.path().join("docs/README.md")).unwrap();
    assert!(
        page.contains("| cohort-movielens | quick | – | 0 | none of its repetitions"),
        "{page}"
    );
    assert_eq!(std::fs::read_to_string(&journal).unwrap(), kept);

    let counter = Counter(AtomicU64::new(0));
    let Ok(_) = run(folder.path(), &data, &counter, &AtomicBool::new(false)) else {
        panic!("the second run goes on to the end")
    };
    assert!(std::fs::read_to_string(&journal).unwrap().starts_with(&kept), "nothing is run twice");
    for name in ["fig1-repetitions.csv", "fig2-curves.csv", "fig2-curves.parquet"] {
        let read = |folder: &Path| std::fs::read(folder.join("data").join(name)).unwrap();
        assert!(read(folder.path()) == read(shared()), "{name} differs");
    }
    // Of a whole run, what there is is all of it.
    assert!(so_far().left_out.is_empty());
    let tables = |folder: &Path| files(&folder.join("docs/data"));
    let timed = |name: &PathBuf| name.starts_with("runtime.csv");
    for (of_half, of_whole) in tables(folder.path()).iter().zip(&tables(shared())) {
        assert!(timed(&of_half.0) || of_half == of_whole, "{:?} differs", of_half.0);
    }
}

#[test]
fn in_a_browser_values_show_under_the_pointer_and_nothing_is_fetched() {
    let browser = Browser::start();
    browser.open(&format!("file://{}", shared().join("index.html").display()));
    assert!(browser.run("return document.title").as_str().unwrap().contains("run again"));
    let hidden = || browser.run("return document.getElementById('tip').hidden").as_bool().unwrap();
    assert!(hidden(), "no value before the pointer is on a figure");

    for figure in ["fig1-noise-0.1-paper", "fig3-paper", "scaling-users", "runtime"] {
        // The middle of the figure's first panel, scrolled into view.
        let place = browser.run(&format!(
            "const d = document.getElementById('figure-{figure}').querySelector('.drawing');\
             d.scrollIntoView({{block: 'center', behavior: 'instant'}});\
             const svg = d.querySelector('svg');\
             const [x0, y0, x1, y1] = JSON.parse(d.querySelector('script').textContent)[0].frame;\
             const p = new DOMPoint((x0 + x1) / 2, (y0 + y1) / 2)\
               .matrixTransform(svg.getScreenCTM());\
             return [p.x, p.y];"
        ));
        browser.point_at(place[0].as_f64().unwrap(), place[1].as_f64().unwrap());
        let shown = browser.run("return document.getElementById('tip').innerText");
        let shown = shown.as_str().unwrap();
        assert!(!hidden(), "{figure}: nothing shows");
        assert!(shown.contains("linucb-ind"), "{figure}: {shown}");
        let values = shown.lines().filter(|line| line.chars().any(|c| c.is_ascii_digit())).count();
        assert!(values >= 5, "{figure}: {shown}");
    }

    let fetched = browser.run("return performance.getEntriesByType('resource').length");
    assert_eq!(fetched, 0, "the page fetches nothing");
    for message in browser.log("performance") {
        let json: serde_json::Value = serde_json::from_str(&message).unwrap();
        if json["message"]["method"] == "Network.requestWillBeSent" {
            let url = json["message"]["params"]["request"]["url"].as_str().unwrap_or_default();
            // The browser's own empty tab (chrome://) is not on the network either.
            let local = ["file:", "data:", "chrome:"].iter().any(|scheme| url.starts_with(scheme));
            assert!(local, "{url}");
        }
    }
    let console = browser.log("browser");
    assert!(console.is_empty(), "{console:?}");
}

/// Every element is closed where HTML wants it closed, in order, and attributes are quoted.
fn check_html(page: &str) {
    const VOID: [&str; 4] = ["meta", "link", "br", "!doctype"];
    let mut open: Vec<&str> = Vec::new();
    let mut rest = page;
    while let Some(at) = rest.find('<') {
        assert!(!rest[..at].contains('>'), "a stray `>` in {:?}", &rest[..at.min(80)]);
        rest = &rest[at + 1..];
        let end = rest.find('>').expect("every tag ends");
        let tag = &rest[..end];
        rest = &rest[end + 1..];
        assert_eq!(tag.matches('"').count() % 2, 0, "quotes in <{tag}>");
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "closed by </{name}>");
            continue;
        }
        let name = tag.split([' ', '\n', '/']).next().unwrap();
        if VOID.contains(&name) || tag.ends_with('/') {
            continue;
        }
        open.push(name);
        if name == "script" || name == "style" {
            let end = rest.find(&format!("</{name}>")).expect("raw text ends");
            rest = &rest[end..];
        }
    }
    assert!(open.is_empty(), "left open: {open:?}");
}
