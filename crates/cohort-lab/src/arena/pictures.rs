//! The outcome as pictures: regret over rounds, a figure for each protocol, and mean ranks over all of
//! them with the critical difference.

use super::Report;
use super::page::VERSIONS;
use super::play::{Complete, ProtocolResult};
use super::ranking::Standing;
use crate::figures::{Anchor, Colour, Figure, Panel, Picture, Point, Series, style};
use crate::results::half_width_95;

/// Curves that a figure shows: the best, and a few that everybody knows.
const CURVES: usize = 7;

/// Regret over rounds of the best and of those that everybody knows, at both sets of parameters.
pub fn curves(played: &ProtocolResult, report: &Report) -> Figure {
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
            let mut points: Vec<Point> = (complete.curve.iter())
                .map(|(x, y)| Point { x: *x, y: *y, low: *y, high: *y })
                .collect();
            // The interval is that of the whole regret, at the end.
            if let (Some(last), Some(half)) = (points.last_mut(), half_width_95(&complete.regrets))
            {
                (last.low, last.high) = (last.y - half, last.y + half);
            }
            Some(Series {
                policy: report.names[*at].clone(),
                label: report.names[*at].clone(),
                points,
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
pub fn ranks(standings: &[Standing], version: &str, critical: Option<f64>) -> Picture {
    const ROW: f64 = 18.0;
    const LEFT: f64 = 150.0;
    const PLOT: f64 = 480.0;
    let (width, height) = (720.0, 62.0 + ROW * standings.len() as f64 + 26.0);
    let title = format!("Mean rank over protocols, {version}");
    let mut picture = Picture::new(width, height, title.clone());
    let paper = vec![(0.0, 0.0), (width, 0.0), (width, height), (0.0, height)];
    picture.area(paper, Colour::PAPER, 1.0);
    picture.write((16.0, 24.0), title, 16.0, Anchor::Start, true, Colour::INK);
    let note = match critical {
        Some(difference) => format!(
            "1 is best; bars: 95 % over protocols; dashed: the first and the critical difference, \
             {difference:.1}"
        ),
        None => "1 is best; bars are 95 % intervals over protocols".to_owned(),
    };
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
    if let (Some(difference), Some(first)) = (critical, standings.first()) {
        let x = at(first.mean_rank + difference);
        picture.line(vec![(x, 54.0), (x, bottom)], Colour::MUTED, 1.2, &[5.0, 4.0]);
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
