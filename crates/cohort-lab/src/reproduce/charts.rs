//! From evidence to figures.

use super::evidence::{Measured, PolicyResult, SettingResult, Width};
use super::fit::{self, Slope};
use super::study::{Facet, Kind};
use crate::figures::scale::{short, short_or_dash};
use crate::figures::{Figure, Panel, Point, Series};

/// All figures of a study.
pub fn figures(measured: &Measured) -> Vec<Figure> {
    match measured.study.kind {
        Kind::Curves | Kind::Ratio => curves(measured),
        Kind::Scaling => vec![scaling(measured)],
        Kind::Runtime => vec![runtime(measured)],
        Kind::Choices | Kind::Probe => Vec::new(),
    }
}

/// How a figure was made, in a line.
fn subtitle(measured: &Measured, width: Option<Width>) -> String {
    let band = match measured.repetitions() {
        1 => "one repetition, no band".to_owned(),
        reps => format!("mean of {reps} repetitions{}, 95 % bands", measured.exceptions()),
    };
    let width = match width {
        Some(Width::Paper) => "exploration as in the paper or the theory; ",
        Some(Width::Tuned) => "every policy at its best exploration from one common grid; ",
        None => "",
    };
    let quick = if measured.study.quick { "QUICK RUN, smaller than the paper's: " } else { "" };
    format!("{quick}{width}{band}")
}

/// The first facet makes figures (if there are three), the others rows and columns.
fn curves(measured: &Measured) -> Vec<Figure> {
    let study = &measured.study;
    let (pages, panels): (Option<&Facet>, &[Facet]) = match study.facets.as_slice() {
        [page, rest @ ..] if rest.len() >= 2 => (Some(page), rest),
        all => (None, all),
    };
    // A facet that has one value makes no columns: the one before it does.
    let mut lengths = panels.iter().rev().map(|facet| facet.values().len());
    let columns = lengths.find(|length| *length > 1).unwrap_or(1);
    let values = pages.map_or(vec![None], |page| {
        measured.values(&page.key).into_iter().map(Some).collect::<Vec<_>>()
    });
    let mut figures = Vec::new();
    for value in &values {
        for &width in measured.widths() {
            let cells = measured.cells.iter().filter(|cell| match (pages, value) {
                (Some(page), Some(value)) => cell.setting.text(&page.key).as_ref() == Some(value),
                _ => true,
            });
            let (mut name, mut title) = (study.name.clone(), study.title.clone());
            if let (Some(page), Some(value)) = (pages, value) {
                name = format!("{name}-{}-{value}", page.key);
                title = format!("{title}, {} = {value}", page.label);
            }
            figures.push(Figure {
                name: format!("{name}-{width}"),
                title,
                subtitle: subtitle(measured, Some(width)),
                columns,
                panels: cells.map(|cell| curve_panel(cell, panels, width, study.kind)).collect(),
            });
        }
    }
    figures
}

fn curve_panel(cell: &SettingResult, facets: &[Facet], width: Width, kind: Kind) -> Panel {
    let random = cell.played(Width::Paper, "random");
    let by = random.filter(|_| kind == Kind::Ratio);
    let series = (cell.all(width))
        .filter(|played| by.is_none() || played.label != "random")
        .map(|played| curve(played, cell.rounds, by))
        .collect();
    let y_label = match kind {
        Kind::Ratio => "regret / regret of random",
        _ => "regret per user (reward)",
    };
    Panel {
        title: title(cell, facets),
        x_label: "rounds".to_owned(),
        y_label: y_label.to_owned(),
        series,
        ..Panel::default()
    }
}

fn curve(played: &PolicyResult, rounds: usize, by: Option<&PolicyResult>) -> Series {
    let mut points = played.curve(rounds, by);
    if by.is_none() {
        points.insert(0, Point { x: 0.0, y: 0.0, low: 0.0, high: 0.0 });
    }
    let end = short_or_dash(points.last().map(|point| point.y));
    Series {
        policy: played.label.clone(),
        label: format!("{} {end}", played.label),
        points,
        fit: None,
        may_leave: played.label == "random",
    }
}

fn title(cell: &SettingResult, facets: &[Facet]) -> String {
    let part = |facet: &Facet| {
        let value = cell.setting.text(&facet.key).unwrap_or_default();
        match facet.label.strip_suffix(':') {
            Some(label) => match value.as_str() {
                "true" => label.to_owned(),
                "false" => format!("not {label}"),
                value => format!("{label} {value}"),
            },
            None => format!("{} = {value}", facet.label),
        }
    };
    facets.iter().map(part).collect::<Vec<_>>().join(", ")
}

/// The axis of a scaling study at a setting: ε where that is what is looked at, else the facet.
pub fn axis_value(measured: &Measured, cell: &SettingResult) -> Option<f64> {
    let axis = measured.study.axis()?;
    let value = cell.setting.number(&axis.key);
    if axis.key == "spread" { cell.heterogeneity.or(value) } else { value }
}

/// The exponent of every policy at a noise level.
pub fn slopes(measured: &Measured, noise: &str) -> Vec<(String, Slope)> {
    let cells: Vec<&SettingResult> = measured.with("noise", noise).collect();
    let Some(first) = cells.first() else { return Vec::new() };
    (first.all(Width::Paper))
        .filter_map(|played| {
            let (xs, numbers) = along(measured, &cells, &played.label);
            Some((played.label.clone(), fit::slope(&xs, &numbers)?))
        })
        .collect()
}

fn along(measured: &Measured, cells: &[&SettingResult], label: &str) -> (Vec<f64>, Vec<Vec<f64>>) {
    (cells.iter())
        .filter_map(|cell| {
            let played = cell.played(Width::Paper, label)?;
            Some((axis_value(measured, cell)?, played.totals()))
        })
        .unzip()
}

fn scaling(measured: &Measured) -> Figure {
    let study = &measured.study;
    let panels: Vec<Panel> = (measured.values("noise").iter())
        .map(|noise| {
            let cells: Vec<&SettingResult> = measured.with("noise", noise).collect();
            let series = (slopes(measured, noise).into_iter())
                .map(|(label, slope)| {
                    let (xs, numbers) = along(measured, &cells, &label);
                    let margin = slope.margin.map_or(String::new(), |m| format!(" ± {m:.2}"));
                    let exponent = format!("{:.2}", slope.fit.slope).replace('-', "−");
                    Series {
                        label: format!("{label} {exponent}{margin}"),
                        policy: label,
                        points: fit::means(&xs, &numbers),
                        fit: Some(slope.fit),
                        may_leave: false,
                    }
                })
                .collect();
            let guide = |theorem: &super::study::Theorem| {
                let exponent = short(theorem.exponent);
                (theorem.exponent, format!("{}: slope {exponent}", theorem.place))
            };
            Panel {
                title: format!("noise σ = {noise}"),
                x_label: study.axis().map_or(String::new(), |axis| axis.label.clone()),
                y_label: "regret per user after T rounds".to_owned(),
                log: true,
                series,
                guide: study.theorem.as_ref().map(guide),
            }
        })
        .collect();
    Figure {
        name: study.name.clone(),
        title: study.title.clone(),
        subtitle: format!("{}; fitted exponents beside the names", subtitle(measured, None)),
        columns: panels.len(),
        panels,
    }
}

fn runtime(measured: &Measured) -> Figure {
    let study = &measured.study;
    let labels: Vec<String> = (measured.cells.first())
        .map(|cell| cell.all(Width::Paper).map(|played| played.label.clone()).collect())
        .unwrap_or_default();
    let series = (labels.into_iter())
        .map(|label| {
            let points: Vec<Point> = (measured.cells.iter())
                .filter_map(|cell| {
                    let seconds = cell.played(Width::Paper, &label)?.seconds();
                    let x = axis_value(measured, cell)?;
                    Some(Point { x, y: seconds, low: seconds, high: seconds })
                })
                .collect();
            let end = short_or_dash(points.last().map(|point| point.y));
            let label_text = format!("{label} {end} s");
            Series { policy: label, label: label_text, points, fit: None, may_leave: false }
        })
        .collect();
    let rounds = measured.cells.first().map_or(0, |cell| cell.rounds);
    let mode = if measured.study.quick { "QUICK RUN, smaller than the paper's: " } else { "" };
    Figure {
        name: study.name.clone(),
        title: study.title.clone(),
        subtitle: format!("{mode}fastest repetition, {rounds} rounds, one thread"),
        columns: 1,
        panels: vec![Panel {
            title: "learning time".to_owned(),
            x_label: "users N".to_owned(),
            y_label: "seconds".to_owned(),
            log: true,
            series,
            guide: None,
        }],
    }
}
