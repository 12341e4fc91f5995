//! The outcome as one page that opens offline, as Markdown and as numbers.

use std::fmt::Write;

use serde_json::json;

use super::entry::Entry;
use super::play::{Complete, Played};
use super::ranking::Standing;
use super::{Report, Request};
use crate::figures::scale::short;
use crate::figures::svg::{self, escape};
use crate::figures::{Anchor, Colour, Figure, Panel, Picture, Point, Series, style};
use crate::reproduce::page::{CSS, colour_rules};
use crate::results::half_width_95;

/// Curves that a figure shows: the best, and a few that everybody knows.
const CURVES: usize = 7;

const VERSIONS: [&str; 2] = ["published parameters", "the best of a common tuning budget"];

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
    for (standings, version) in report.standings.iter().zip(VERSIONS) {
        let _ = write!(out, "<h3>At {version}</h3>\n{}", svg::write(&ranks(standings, version)));
        out.push_str(&table(&standing_rows(standings)));
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
        let (picture, _) = figure(played, report).draw();
        out.push_str(&svg::write(&picture));
        out.push_str(&table(&protocol_rows(played, report)));
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
    let quick = match request.quick {
        true => {
            "Quick run: fewer rounds, users and repetitions than the protocols', two values tuned. "
        }
        false => "",
    };
    let stopped = if report.interrupted { "Stopped before all was played. " } else { "" };
    format!(
        "{quick}{stopped}Every policy of the registry in every protocol, in the same worlds; regret is the mean over users. \
         A run that took more than {} s of one thread is left out. Ranks: 1 is best; where fewer policies play \
         (some need all users in every round), ranks are spread over all places. Relative: regret by \
         that of the best policy of the protocol, geometric mean. Oracles are told what no policy can know and \
         are not ranked. Bytes: what was learned, as it is kept.",
        request.seconds
    )
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
        "bytes",
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

fn protocol_rows(played: &Played, report: &Report) -> Rows {
    let head = vec![
        "policy",
        "regret, published",
        "relative",
        "regret, tuned",
        "relative",
        "tuned to",
        "seconds",
        "bytes",
    ];
    let names = &report.names;
    let best = |version: usize| {
        let regrets = played.results.iter().enumerate().filter(|(at, _)| !report.oracles[*at]);
        let regrets =
            regrets.filter_map(|(_, results)| Some(results[version].complete()?.regret()));
        regrets.fold(f64::INFINITY, f64::min)
    };
    let bests = [best(0), best(1)];
    let mut order: Vec<usize> = (0..names.len()).collect();
    let key = |at: usize| {
        let regret = |version: usize| played.results[at][version].complete().map(Complete::regret);
        regret(0).unwrap_or(f64::INFINITY)
    };
    order.sort_by(|a, b| key(*a).total_cmp(&key(*b)));
    let row = |at: usize| {
        let name = match report.oracles[at] {
            true => format!("{} (oracle)", names[at]),
            false => names[at].clone(),
        };
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

/// Regret over rounds of the best and of those that everybody knows, at both sets of parameters.
fn figure(played: &Played, report: &Report) -> Figure {
    let panel = |version: usize| {
        let mut order: Vec<usize> = (0..report.names.len())
            .filter(|at| played.results[*at][version].complete().is_some())
            .collect();
        let regret = |at: &usize| {
            played.results[*at][version].complete().map_or(f64::INFINITY, Complete::regret)
        };
        order.sort_by(|a, b| regret(a).total_cmp(&regret(b)));
        let known = ["cohort", "linucb-ind", "random"];
        let shown = order.iter().enumerate();
        let shown =
            shown.filter(|(k, at)| *k < CURVES || known.contains(&report.names[**at].as_str()));
        let series = shown.filter_map(|(_, at)| {
            let complete = played.results[*at][version].complete()?;
            let point = |(x, y): &(f64, f64)| Point { x: *x, y: *y, low: *y, high: *y };
            Some(Series {
                policy: report.names[*at].clone(),
                label: report.names[*at].clone(),
                points: complete.curve.iter().map(point).collect(),
                fit: None,
                may_leave: report.names[*at] == "random",
            })
        });
        Panel {
            title: VERSIONS[version].to_owned(),
            x_label: "rounds".to_owned(),
            y_label: "regret per user".to_owned(),
            series: series.collect(),
            ..Panel::default()
        }
    };
    let reps = played.protocol.reps;
    Figure {
        name: played.protocol.name.clone(),
        title: played.protocol.title.clone(),
        subtitle: format!(
            "the best {CURVES} and cohort, linucb-ind, random; mean of {reps} repetitions"
        ),
        columns: 2,
        panels: vec![panel(0), panel(1)],
    }
}

/// Mean ranks with their intervals over protocols, a row for each policy.
fn ranks(standings: &[Standing], version: &str) -> Picture {
    const ROW: f64 = 18.0;
    const LEFT: f64 = 150.0;
    const PLOT: f64 = 480.0;
    let (width, height) = (720.0, 62.0 + ROW * standings.len() as f64 + 26.0);
    let title = format!("Mean rank over protocols, {version}");
    let mut picture = Picture::new(width, height, title.clone());
    let paper = vec![(0.0, 0.0), (width, 0.0), (width, height), (0.0, height)];
    picture.area(paper, Colour::PAPER, 1.0);
    picture.write((16.0, 24.0), title, 16.0, Anchor::Start, true, Colour::INK);
    let note = "1 is best; bars are 95 % intervals over protocols";
    picture.write((16.0, 42.0), note, 11.5, Anchor::Start, false, Colour::MUTED);
    let most = (standings.len() as f64).max(2.0);
    let at = |rank: f64| LEFT + PLOT * (rank.clamp(1.0, most) - 1.0) / (most - 1.0);
    let bottom = 58.0 + ROW * standings.len() as f64;
    for tick in (1..=standings.len()).filter(|tick| *tick == 1 || tick.is_multiple_of(5)) {
        let x = at(tick as f64);
        picture.line(vec![(x, 54.0), (x, bottom)], Colour::GRID, 1.0, &[]);
        picture.write(
            (x, bottom + 16.0),
            tick.to_string(),
            11.0,
            Anchor::Middle,
            false,
            Colour::MUTED,
        );
    }
    for (row, standing) in standings.iter().enumerate() {
        let (y, style) = (66.0 + ROW * row as f64, style(&standing.name));
        picture.write(
            (LEFT - 12.0, y + 4.0),
            &*standing.name,
            11.0,
            Anchor::End,
            false,
            Colour::INK,
        );
        let half = standing.rank_half_width.unwrap_or(0.0);
        let ends = vec![(at(standing.mean_rank - half), y), (at(standing.mean_rank + half), y)];
        picture.line(ends, style.colour, 1.6, &[]);
        style.draw_mark(&mut picture, (at(standing.mean_rank), y), 4.0);
        let text = format!("{:.1}", standing.mean_rank);
        picture.write((LEFT + PLOT + 16.0, y + 4.0), text, 11.0, Anchor::Start, false, Colour::INK);
    }
    picture
}

/// The same in Markdown, for the repository.
pub fn markdown(request: &Request, report: &Report) -> String {
    let mut out = String::from("# The arena\n\n");
    let _ = writeln!(
        out,
        "{}\n\n[index.html](index.html) has the figures, [results.json](results.json) all numbers.\n",
        how(request, report)
    );
    for (standings, version) in report.standings.iter().zip(VERSIONS) {
        let _ = writeln!(out, "## Standings at {version}\n\n{}", pipes(&standing_rows(standings)));
    }
    for played in &report.played {
        let protocol = &played.protocol;
        let _ = writeln!(
            out,
            "## {}: {}\n\n{} N = {}, d = {}, T = {}, {} repetitions.\n\n{}",
            protocol.name,
            protocol.title,
            protocol.about,
            played.users,
            played.dim,
            protocol.rounds,
            protocol.reps,
            pipes(&protocol_rows(played, report))
        );
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

/// All numbers.
pub fn json(entries: &[Entry], report: &Report) -> String {
    let of = |complete: Option<&Complete>| {
        complete.map(|complete| {
            json!({
                "regrets": complete.regrets,
                "seconds": complete.seconds,
                "state_bytes": complete.state_bytes,
                "tuned_to": complete.set,
            })
        })
    };
    let protocols: Vec<_> = (report.played.iter())
        .map(|played| {
            let policies: serde_json::Map<String, serde_json::Value> = (entries.iter())
                .zip(&played.results)
                .map(|(entry, results)| {
                    let [published, tuned] = results.each_ref().map(|result| of(result.complete()));
                    let value =
                        json!({ "oracle": entry.oracle, "published": published, "tuned": tuned });
                    (entry.name.clone(), value)
                })
                .collect();
            json!({
                "name": played.protocol.name,
                "users": played.users,
                "dim": played.dim,
                "rounds": played.protocol.rounds,
                "reps": played.protocol.reps,
                "policies": policies,
            })
        })
        .collect();
    let text = serde_json::to_string_pretty(&json!({ "protocols": protocols }));
    text.unwrap_or_default() + "\n"
}
