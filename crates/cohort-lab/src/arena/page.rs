//! The results as one page that opens offline, and as Markdown.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::pictures::{curves, ranks};
use super::play::{Complete, ProtocolResult};
use super::ranking::{Standing, order};
use super::{Report, Request};
use crate::figures::scale::short;
use crate::figures::svg::{self, escape};
use crate::reproduce::page::{CSS, colour_rules};
use crate::results::half_width_95;

pub(super) const VERSIONS: [&str; 2] =
    ["published parameters", "the best of a common tuning budget"];

// Writing to a string cannot fail, so results of `write!` are dropped throughout.

/// The page.
pub fn html(request: &Request, report: &Report) -> String {
    let mut out = String::new();
    let _ = write!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src \
         'unsafe-inline'; img-src data:\">\n<link rel=\"icon\" href=\"data:,\">\n\
         <title>The arena of collaborative bandits</title>\n<style>\n{CSS}{}</style>\n</head>\n\
         <body>\n<header>\n<h1>The arena of collaborative bandits</h1>\n<p class=\"lead\">{}</p>\n\
         </header>\n<nav><ul>\n<li><a href=\"#standings\">Standings</a></li>\n",
        colour_rules(),
        escape(&how(request, report))
    );
    for played in &report.played {
        let name = &played.protocol.name;
        let _ = writeln!(out, "<li><a href=\"#{name}\">{name}</a></li>");
    }
    out.push_str("</ul></nav>\n<main>\n<section id=\"standings\">\n<h2>Standings</h2>\n");
    for (place, version) in versions(request) {
        let standings = &report.standings[place];
        let picture = ranks(standings, version, report.critical[place]);
        let _ = write!(out, "<h3>At {version}</h3>\n{}", svg::write(&picture));
        out.push_str(&table(&standing_rows(standings)));
        let _ = writeln!(out, "<h3>Who is first, at {version}</h3>");
        out.push_str(&table(&winner_rows(report, place)));
    }
    out.push_str("</section>\n");
    for played in &report.played {
        let protocol = &played.protocol;
        let _ = write!(
            out,
            "<section id=\"{}\">\n<h2>{}</h2>\n<p>{} N = {}, d = {}, T = {}, {} repetitions.</p>\n",
            protocol.name,
            escape(&protocol.title),
            escape(&protocol.about),
            played.users,
            played.dim,
            protocol.rounds,
            protocol.reps
        );
        let (picture, _) = curves(played, report).draw();
        out.push_str(&svg::write(&picture));
        out.push_str(&table(&protocol_rows(played, report)));
        for line in absent(played, report) {
            let _ = writeln!(out, "<p>{}</p>", escape(&line));
        }
        out.push_str(&table(&source_rows(played)));
        out.push_str("</section>\n");
    }
    for (name, why) in &report.left_out {
        let (name, why) = (escape(name), escape(why));
        let _ = writeln!(out, "<p class=\"banner\">{name} was not played: {why}.</p>");
    }
    out.push_str("</main>\n</body>\n</html>\n");
    out
}

/// How it was made, in a few sentences.
fn how(request: &Request, report: &Report) -> String {
    let quick = if request.quick {
        "Quick run: fewer rounds, users and repetitions than the protocols'. "
    } else {
        ""
    };
    let stopped = if report.interrupted { "Stopped before all was played. " } else { "" };
    let who = if request.policies.is_empty() {
        "Every policy of the registry"
    } else {
        "Some policies of the registry"
    };
    let tuned = match request.values() {
        0 => "Nothing was tuned.".to_owned(),
        values => format!(
            "Tuned: the best of these and of {values} more values of one parameter, by one run in another world."
        ),
    };
    format!(
        "{quick}{stopped}{who} in every protocol, in the same worlds; regret is the mean over users, \
         ± half of the 95 % interval over repetitions. Published: parameters as the authors publish them. {tuned} A policy that took more than {} s of a \
         processor for one run of a protocol is left out of that protocol. Ranks: 1 is best; where fewer policies play (some \
         need all users in every round), ranks are spread over all places. Relative: regret by that of the best policy of \
         the protocol, geometric mean. Oracles are told what no policy can know and are not ranked. Seconds: of a \
         processor, to choose and learn. Memory: bytes of what was learned, as it is kept.",
        request.seconds
    )
}

/// Published parameters, and tuned ones where anything was tuned.
fn versions(request: &Request) -> impl Iterator<Item = (usize, &'static str)> {
    let count = if request.values() == 0 { 1 } else { VERSIONS.len() };
    VERSIONS.into_iter().enumerate().take(count)
}

/// Who is first where, and what `cohort` has there.
fn winner_rows(report: &Report, version: usize) -> Rows {
    let head = vec!["protocol", "first", "second", "third", "cohort is", "its regret by the best"];
    let row = |played: &ProtocolResult| {
        let all = order(played, &report.oracles, version);
        let name = |place: usize| {
            all.get(place).map_or(String::new(), |(at, _)| report.names[*at].clone())
        };
        let own = all.iter().position(|(at, _)| report.names[*at] == "cohort");
        let relative = |place: usize| all[place].1.regret() / all[0].1.regret();
        let (place, relative) = match own {
            Some(place) => (format!("{} of {}", place + 1, all.len()), relative(place)),
            None => ("—".to_owned(), f64::NAN),
        };
        let relative = if relative.is_nan() { "—".to_owned() } else { format!("{relative:.2}") };
        vec![played.protocol.name.clone(), name(0), name(1), name(2), place, relative]
    };
    (head, report.played.iter().map(row).collect())
}

type Rows = (Vec<&'static str>, Vec<Vec<String>>);

fn standing_rows(standings: &[Standing]) -> Rows {
    let head = vec![
        "policy",
        "protocols",
        "mean rank",
        "wins",
        "relative",
        "worst case",
        "where",
        "seconds",
        "memory",
    ];
    let row = |standing: &Standing| {
        let half = standing.rank_half_width.map_or(String::new(), |half| format!(" ± {half:.1}"));
        vec![
            standing.name.clone(),
            standing.protocols.to_string(),
            format!("{:.1}{half}", standing.mean_rank),
            format!("{:.0} %", 100.0 * standing.win_rate),
            format!("{:.2}", standing.relative),
            format!("{:.2}", standing.worst.0),
            standing.worst.1.clone(),
            short(standing.seconds),
            bytes(standing.state_bytes),
        ]
    };
    (head, standings.iter().map(row).collect())
}

fn bytes(count: Option<u64>) -> String {
    match count {
        None => "—".to_owned(),
        Some(count) if count < 10_000 => count.to_string(),
        Some(count) if count < 10_000_000 => format!("{} k", count / 1000),
        Some(count) => format!("{} M", count / 1_000_000),
    }
}

fn with_interval(complete: &Complete) -> String {
    let half = half_width_95(&complete.regrets)
        .map_or(String::new(), |half| format!(" ± {}", short(half)));
    format!("{}{half}", short(complete.regret()))
}

fn protocol_rows(played: &ProtocolResult, report: &Report) -> Rows {
    let head = vec![
        "policy",
        "regret, published",
        "relative",
        "regret, tuned",
        "relative",
        "tuned to",
        "seconds",
        "memory",
    ];
    let names = &report.names;
    let best = |version: usize| {
        let regrets = played.results.iter().enumerate().filter(|(at, _)| !report.oracles[*at]);
        let regrets =
            regrets.filter_map(|(_, results)| Some(results[version].complete()?.regret()));
        regrets.fold(f64::INFINITY, f64::min)
    };
    let bests = [best(0), best(1)];
    let mut order: Vec<usize> =
        (0..names.len()).filter(|at| played.results[*at][0].complete().is_some()).collect();
    let key = |at: usize| {
        let regret = |version: usize| played.results[at][version].complete().map(Complete::regret);
        regret(0).unwrap_or(f64::INFINITY)
    };
    order.sort_by(|a, b| key(*a).total_cmp(&key(*b)));
    let row = |at: usize| {
        let name =
            if report.oracles[at] { format!("{} (oracle)", names[at]) } else { names[at].clone() };
        let mut row = vec![name];
        for (results, best) in played.results[at].iter().zip(bests) {
            match results {
                super::play::EntryOutcome::Complete(complete) => {
                    row.push(with_interval(complete));
                    row.push(format!("{:.2}", complete.regret() / best));
                }
                super::play::EntryOutcome::Not(why) => row.extend([why.clone(), String::new()]),
            }
        }
        let tuned = played.results[at][1].complete();
        row.push(tuned.and_then(|tuned| tuned.set.clone()).unwrap_or_default());
        let published = played.results[at][0].complete();
        row.push(published.map_or(String::new(), |published| short(published.seconds)));
        row.push(published.map_or(String::new(), |published| bytes(published.state_bytes)));
        row
    };
    (head, order.into_iter().map(row).collect())
}

/// Who did not play, a sentence for each reason.
fn absent(played: &ProtocolResult, report: &Report) -> Vec<String> {
    let mut reasons: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (name, results) in report.names.iter().zip(&played.results) {
        if let Some(why) = results[0].reason() {
            let why = why.replace(&format!("policy `{name}` "), "");
            reasons.entry(why).or_default().push(name);
        }
    }
    let sentence =
        |(why, names): (String, Vec<&str>)| format!("Not here: {} ({why}).", names.join(", "));
    reasons.into_iter().map(sentence).collect()
}

/// Every parameter of a protocol, and where it comes from.
fn source_rows(played: &ProtocolResult) -> Rows {
    let rows = played.protocol.sources.iter().map(|source| source.to_vec());
    (vec!["parameter", "value", "source"], rows.collect())
}

fn table((head, rows): &Rows) -> String {
    let mut out = String::from("<div class=\"wide\"><table>\n<thead><tr>");
    head.iter().for_each(|cell| out.push_str(&format!("<th>{}</th>", escape(cell))));
    out.push_str("</tr></thead>\n<tbody>\n");
    for row in rows {
        out.push_str("<tr>");
        row.iter().for_each(|cell| out.push_str(&format!("<td>{}</td>", escape(cell))));
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody>\n</table></div>\n");
    out
}

/// The same in Markdown, for the repository.
pub fn markdown(request: &Request, report: &Report) -> String {
    let mut out = String::from("# The arena\n\n");
    let _ = writeln!(
        out,
        "{}\n\n[index.html](index.html) has all of it on one page, [leaderboard.json](leaderboard.json) the standings, \
         [results.json](results.json) all numbers.\n",
        how(request, report)
    );
    for (place, version) in versions(request) {
        let standings = &report.standings[place];
        let _ = writeln!(out, "## Standings at {version}\n\n{}", pipes(&standing_rows(standings)));
        let name = ["published", "tuned"][place];
        let _ = writeln!(out, "![Mean ranks at {version}](figures/ranks-{name}.svg)\n");
        let rows = winner_rows(report, place);
        let _ = writeln!(out, "### Who is first, at {version}\n\n{}", pipes(&rows));
    }
    for played in &report.played {
        let protocol = &played.protocol;
        let _ = writeln!(
            out,
            "## {}: {}\n\n{} N = {}, d = {}, T = {}, {} repetitions.\n\n![Regret over rounds](figures/{}.svg)\n\n{}",
            protocol.name,
            protocol.title,
            protocol.about,
            played.users,
            played.dim,
            protocol.rounds,
            protocol.reps,
            protocol.name,
            pipes(&protocol_rows(played, report))
        );
        for line in absent(played, report) {
            let _ = writeln!(out, "{line}\n");
        }
        out.push_str(&pipes(&source_rows(played)));
        out.push('\n');
    }
    for (name, why) in &report.left_out {
        let _ = writeln!(out, "{name} was not played: {why}.\n");
    }
    out.truncate(out.trim_end().len());
    out.push('\n');
    out
}

fn pipes((head, rows): &Rows) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let head: Vec<String> = head.iter().map(|cell| (*cell).to_owned()).collect();
    let mut out = line(&head) + &line(&vec!["---".to_owned(); head.len()]);
    rows.iter().for_each(|row| out.push_str(&line(row)));
    out
}
