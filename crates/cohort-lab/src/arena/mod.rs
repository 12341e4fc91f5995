//! `cohort arena`: all policies compared on published protocols.
//!
//! ```text
//! protocols (experiments/arena) × policies (the registry, and guests) → runs → ranks → one page
//! ```
//!
//! Every policy plays each protocol at its published parameters and at the best of one common tuning
//! budget, in the same worlds (seed, repetition) as all others. Tuning uses other repetitions.
//!
//! | file | question it answers |
//! | --- | --- |
//! | [`protocol`] | what is played? |
//! | [`entry`] | who plays, and with which parameters? |
//! | [`play`] | how is all of it run, with limits of time? |
//! | [`record`] | what is kept of a run? |
//! | [`ranking`] | who is better, over all protocols? |
//! | [`page`], [`pictures`], [`numbers`] | how is it shown: as a page, as pictures, as JSON? |

pub mod entry;
pub mod numbers;
pub mod page;
pub mod pictures;
pub mod play;
pub mod protocol;
pub mod ranking;
pub mod record;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use cohort::nearest;

use crate::Error;
use crate::figures::svg;
use crate::reproduce::Watcher;
use crate::reproduce::journal::Journal;
use crate::results::write_whole;
use crate::runner::Player;
use play::{ArenaContext, ProtocolResult};
use protocol::{FILES, Protocol};
use ranking::Standing;

/// The protocols and policies to run, and how.
pub struct Request {
    /// Few rounds, fewer users, one repetition, a smaller tuning budget.
    pub quick: bool,
    /// Only protocols whose name begins so; all but the largest if empty.
    pub only: Vec<String>,
    /// Only these policies; all if empty.
    pub policies: Vec<String>,
    /// Where the page goes.
    pub out: PathBuf,
    /// The folder of data sets.
    pub data: PathBuf,
    /// Another number of repetitions than the protocols'.
    pub reps: Option<usize>,
    /// How many threads to use.
    pub threads: usize,
    /// How many seconds of a processor one run of one policy may take.
    pub seconds: f64,
    /// How many values besides the published one are tuned among; by default four, quick two.
    pub tuned_values: Option<usize>,
    /// Whether runs in the journal that other versions of the program made serve as well.
    pub keep: bool,
    /// Policies that are not in the registry.
    pub guests: Vec<Arc<dyn Player>>,
}

/// The result.
pub struct Report {
    /// All participants.
    pub names: Vec<String>,
    /// Who of them is told what no policy can know.
    pub oracles: Vec<bool>,
    /// Every protocol that was played.
    pub played: Vec<ProtocolResult>,
    /// The standings at published parameters, and at tuned ones, best first.
    pub standings: [Vec<Standing>; 2],
    /// By how much mean ranks must differ to be told apart, of policies that played all protocols.
    pub critical: [Option<f64>; 2],
    /// Protocols that were left out, and why.
    pub left_out: Vec<(String, String)>,
    /// The page.
    pub page: PathBuf,
    /// Whether it was stopped before all was played.
    pub interrupted: bool,
}

/// Plays what is asked for and writes the page, the tables and the numbers.
pub fn arena(request: &Request, watcher: &dyn Watcher, stop: &AtomicBool) -> Result<Report, Error> {
    let entries = entry::entries(request)?;
    let (mut protocols, mut left_out) = (Vec::new(), Vec::new());
    for protocol in request.protocols()? {
        match protocol.environment(&request.data) {
            Ok(environment) => protocols.push((protocol, environment)),
            // Protocols whose data set is missing are skipped.
            Err(error) => left_out.push((protocol.name.clone(), error.to_string())),
        }
    }
    let work: u64 = protocols.iter().map(|(protocol, _)| protocol.work(&entries)).sum();
    watcher.planned(work);
    let journal = Journal::open(&request.out.join("journal.jsonl"))?;
    let workshop = ArenaContext { request, entries: &entries, watcher, stop, journal: &journal };
    let mut played = Vec::new();
    for (protocol, environment) in &protocols {
        watcher.begins(&protocol.name);
        match workshop.play(protocol, environment.as_ref())? {
            Some(outcome) => played.push(outcome),
            None => break,
        }
    }
    let interrupted = played.len() < protocols.len();
    let standings = [0, 1].map(|version| ranking::standings(&played, &entries, version));
    let critical = standings.each_ref().map(|standings| {
        let all = standings.iter().filter(|standing| standing.protocols == played.len()).count();
        ranking::critical_difference(all, played.len())
    });
    let names = entries.iter().map(|entry| entry.name.clone()).collect();
    let oracles = entries.iter().map(|entry| entry.oracle).collect();
    let report = Report {
        names,
        oracles,
        played,
        standings,
        critical,
        left_out,
        page: request.out.join("index.html"),
        interrupted,
    };
    write(request, &report)?;
    Ok(report)
}

impl Request {
    /// The tuning budget.
    pub fn values(&self) -> usize {
        let default = if self.quick { entry::QUICK_VALUES } else { entry::VALUES };
        self.tuned_values.unwrap_or(default)
    }

    fn protocols(&self) -> Result<Vec<Protocol>, Error> {
        for wanted in &self.only {
            if !FILES.iter().any(|(name, _)| name.starts_with(wanted.as_str())) {
                let names = || FILES.iter().map(|(name, _)| *name);
                let hint = nearest(wanted, names())
                    .map_or(String::new(), |name| format!(" (did you mean `{name}`?)"));
                let expected = format!("one of {}{hint}", names().collect::<Vec<_>>().join(", "));
                return Err(Error::unexpected("--only", format!("`{wanted}`"), expected));
            }
        }
        let mut protocols = Vec::new();
        for (name, text) in FILES {
            let mut protocol = Protocol::parse(name, text, self.quick)?;
            let named = self.only.iter().any(|wanted| name.starts_with(wanted.as_str()));
            if named || (self.only.is_empty() && !protocol.only_when_asked) {
                protocol.reps = self.reps.unwrap_or(protocol.reps);
                protocols.push(protocol);
            }
        }
        Ok(protocols)
    }
}

fn write(request: &Request, report: &Report) -> Result<(), Error> {
    let figures = request.out.join("figures");
    std::fs::create_dir_all(&figures)
        .map_err(|source| Error::Write { path: figures.clone(), source })?;
    let mut files = vec![
        ("index.html".to_owned(), page::html(request, report)),
        ("README.md".to_owned(), page::markdown(request, report)),
        ("leaderboard.json".to_owned(), numbers::leaderboard(request, report)),
        ("results.json".to_owned(), numbers::results(report)),
    ];
    for (place, name) in ["published", "tuned"].into_iter().enumerate() {
        let (standings, critical) = (&report.standings[place], report.critical[place]);
        let picture = pictures::ranks(standings, page::VERSIONS[place], critical);
        files.push((format!("figures/ranks-{name}.svg"), svg::write(&picture)));
    }
    for played in &report.played {
        let (picture, _) = pictures::curves(played, report).draw();
        files.push((format!("figures/{}.svg", played.protocol.name), svg::write(&picture)));
    }
    for (name, text) in files {
        write_whole(&request.out.join(name), |to| std::io::Write::write_all(to, text.as_bytes()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn request(quick: bool) -> Request {
        Request {
            quick,
            only: Vec::new(),
            policies: Vec::new(),
            out: PathBuf::new(),
            data: PathBuf::from("no such folder"),
            reps: None,
            threads: 2,
            seconds: 30.0,
            tuned_values: None,
            keep: false,
            guests: Vec::new(),
        }
    }

    /// Three policies in two protocols, one of which needs data that is not there: ranks, files, and
    /// the same numbers again.
    #[test]
    fn a_small_arena_is_played_ranked_and_written() {
        let folder = tempfile::tempdir().unwrap();
        let go = |name: &str| {
            let request = Request {
                only: vec!["clusters".into(), "fclub-yelp".into()],
                policies: ["random", "linucb-ind", "oracle"].map(str::to_owned).to_vec(),
                out: folder.path().join(name),
                ..request(true)
            };
            arena(&request, &(), &AtomicBool::new(false)).unwrap()
        };
        let (report, again) = (go("one"), go("two"));
        assert_eq!(report.left_out.len(), 2, "{:?}", report.left_out);
        assert!(report.left_out[0].1.contains("yelp_1000user_d10.npy"));
        let [published, tuned] = &report.standings;
        let names = |standings: &[Standing]| {
            standings.iter().map(|standing| standing.name.clone()).collect::<Vec<_>>()
        };
        assert_eq!(names(published), ["linucb-ind", "random"]);
        assert_eq!(published[0].mean_rank, 1.0);
        assert_eq!((published[0].win_rate, published[1].win_rate), (1.0, 0.0));
        // Tuned is never worse by much, and here better: exploration 1 is far too much.
        let regret = |report: &Report, version: usize| {
            report.played[0].results[1][version].complete().unwrap().regret()
        };
        assert!(regret(&report, 1) < regret(&report, 0));
        assert_eq!(names(tuned), names(published));
        assert_eq!(regret(&report, 1), regret(&again, 1));
        let read =
            |name: &str| std::fs::read_to_string(folder.path().join("one").join(name)).unwrap();
        assert!(read("index.html").contains("</html>") && read("index.html").contains("<svg"));
        assert!(read("README.md").contains("| linucb-ind |"));
        let numbers: serde_json::Value = serde_json::from_str(&read("results.json")).unwrap();
        assert_eq!(numbers["protocols"][0]["name"], "clusters");
        let board: serde_json::Value = serde_json::from_str(&read("leaderboard.json")).unwrap();
        assert_eq!((&board["mode"], &board["reps"]), (&"quick".into(), &1.into()));
        assert_eq!(board["standings"]["published"][0]["policy"], "linucb-ind");
        assert_eq!(board["protocols"][0]["published"][0]["relative"], 1.0);
        assert_eq!(board["left_out"][0]["protocol"], "fclub-yelp");
        assert!(read("figures/clusters.svg").contains("linucb-ind"));
        assert!(read("README.md").contains("](figures/ranks-tuned.svg)"));
    }

    /// What a run has done is not done again; a limit that leaves nobody is said; and who is too slow is
    /// not ranked.
    #[test]
    fn runs_are_kept_and_limits_hold() {
        let folder = tempfile::tempdir().unwrap();
        let go = |seconds: f64, policies: &[&str]| {
            let request = Request {
                only: vec!["alike".into()],
                policies: policies.iter().map(|name| (*name).to_owned()).collect(),
                out: folder.path().to_owned(),
                seconds,
                ..request(true)
            };
            arena(&request, &(), &AtomicBool::new(false)).unwrap()
        };
        let lines = || {
            let text = std::fs::read_to_string(folder.path().join("journal.jsonl")).unwrap();
            text.lines().count()
        };
        let none = go(0.0, &["random", "linucb-ind"]);
        assert!(none.standings[0].is_empty());
        assert!(none.played[0].results[1][0].reason().unwrap().contains("more than 0 s"));
        let (before, first) = (lines(), go(30.0, &["random", "linucb-ind"]));
        assert!(lines() > before);
        let (before, again) = (lines(), go(30.0, &["random", "linucb-ind"]));
        assert_eq!(lines(), before);
        let regrets = |report: &Report| {
            let place = report.names.iter().position(|name| name == "linucb-ind").unwrap();
            let of = |version: usize| report.played[0].results[place][version].complete().unwrap();
            [of(0).regrets.clone(), of(1).regrets.clone()]
        };
        assert_eq!(regrets(&first), regrets(&again));
        // One more policy: only its own runs are new.
        let more = go(30.0, &["random", "linucb-ind", "common"]);
        assert!(lines() > before && lines() <= before + 6, "{} after {before}", lines());
        assert_eq!(regrets(&more), regrets(&first));
    }

    #[test]
    fn what_is_not_there_is_refused_with_the_nearest_name() {
        let refused = |request: Request| {
            arena(&request, &(), &AtomicBool::new(false)).err().unwrap().to_string()
        };
        let said = refused(Request { only: vec!["clustres".into()], ..request(true) });
        assert!(said.contains("did you mean `clusters`"), "{said}");
        let said = refused(Request { policies: vec!["linucb".into()], ..request(true) });
        assert!(said.contains("did you mean"), "{said}");
    }
}
