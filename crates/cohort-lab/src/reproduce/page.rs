//! The report: one page that opens offline. The claims first, then every figure.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::{Value, json};

use super::Request;
use super::claims::{ClaimResult, Verdict};
use super::evidence::{Evidence, Measured, SettingResult, Width};
use super::study::Kind;
use crate::figures::scale::short;
use crate::figures::svg::escape;
use crate::figures::{colours, style};

/// The look of pages.
pub(crate) const CSS: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// A figure that was drawn.
pub struct DrawnFigure {
    /// Its name in files.
    pub name: String,
    /// The picture.
    pub svg: String,
    /// How to read values off it.
    pub readings: Vec<Value>,
}

/// A study and its figures.
pub struct Section<'a> {
    /// What was measured.
    pub measured: &'a Measured,
    /// The figures.
    pub drawn: Vec<DrawnFigure>,
}

// Writing to a string cannot fail, so results of `write!` are dropped throughout.

/// The whole page.
pub fn write(
    request: &Request,
    sections: &[Section],
    claims: &[ClaimResult],
    left_out: &[(String, String, String)],
) -> String {
    let mut out = String::new();
    let _ = write!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src \
         'unsafe-inline'; script-src 'unsafe-inline'; img-src data:\">\n\
         <link rel=\"icon\" href=\"data:,\">\n\
         <title>Adaptive Clustering and Personalization, run again</title>\n\
         <style>\n{CSS}{}</style>\n</head>\n<body>\n",
        colour_rules()
    );
    write_head(&mut out, request, sections, left_out);
    out.push_str("<main>\n");
    write_claims(&mut out, request, claims);
    for section in sections {
        write_section(&mut out, request, section);
    }
    for (name, title, why) in left_out {
        let _ = writeln!(
            out,
            "<section id=\"{name}\"><h2>{}</h2><p class=\"banner\">Not run: {}.</p></section>",
            escape(title),
            escape(why)
        );
    }
    write_foot(&mut out, request);
    let _ = write!(
        out,
        "</main>\n<div id=\"tip\" role=\"status\" hidden></div>\n<script>\n{SCRIPT}</script>\n\
         </body>\n</html>\n"
    );
    out
}

/// What colours are on dark paper, and the keys beside values.
pub(crate) fn colour_rules() -> String {
    let mut rules = String::new();
    let mut dark = String::new();
    for colour in colours() {
        let (name, light, other) = (colour.name, colour.hex(), colour.dark_hex());
        let _ = writeln!(rules, ".b-{name} {{ background: {light}; }}");
        let _ = writeln!(
            dark,
            ".s-{name} {{ stroke: {other}; }} .f-{name} {{ fill: {other}; }} .b-{name} {{ \
             background: {other}; }}"
        );
    }
    format!("{rules}@media screen and (prefers-color-scheme: dark) {{\n{dark}}}\n")
}

fn write_head(
    out: &mut String,
    request: &Request,
    sections: &[Section],
    left_out: &[(String, String, String)],
) {
    out.push_str(
        "<header>\n<h1>Adaptive Clustering and Personalization in Multi-Agent Stochastic Linear \
         Bandits, run again</h1>\n<p class=\"lead\">Every figure of the paper by Ghosh, Sankararaman \
         and Ramchandran (Section 7, Appendix A), run again from its text, and a verdict on every \
         claim and every numbered statement, decided by rules in code. Policies appear twice: at the exploration of the \
         paper or the theory, and at the best of one common grid.</p>\n",
    );
    if request.quick {
        let _ = writeln!(
            out,
            "<p class=\"banner\"><b>Quick run.</b> Fewer repetitions and a smaller grid than the \
             paper's: intervals are wide and some verdicts may change. <code>cohort reproduce \
             --full</code> runs all of it.</p>"
        );
    }
    out.push_str("</header>\n<nav><ul>\n<li><a href=\"#claims\">Claims</a></li>\n");
    let names = sections.iter().map(|section| &section.measured.study.name);
    for name in names.chain(left_out.iter().map(|(name, ..)| name)) {
        let _ = writeln!(out, "<li><a href=\"#{name}\">{name}</a></li>");
    }
    out.push_str("</ul></nav>\n");
}

fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Reproduced => "reproduced",
        Verdict::Partly => "partly",
        Verdict::Not => "not",
        Verdict::NotReached | Verdict::Undecided | Verdict::Unknown => "unknown",
    }
}

fn write_claims(out: &mut String, request: &Request, claims: &[ClaimResult]) {
    out.push_str("<section id=\"claims\">\n<h2>What the paper says, and what held here</h2>\n");
    out.push_str("<ul class=\"score\">\n");
    for verdict in Verdict::ALL {
        let count = claims.iter().filter(|judged| judged.finding.verdict == verdict).count();
        if count > 0 {
            let _ = writeln!(
                out,
                "<li class=\"verdict {}\"><b>{count}</b>{verdict}{}</li>",
                class(verdict),
                if verdict == Verdict::Not { " reproduced" } else { "" }
            );
        }
    }
    out.push_str(
        "</ul>\n<div class=\"scroll\"><table class=\"claims\">\n<thead><tr><th>Verdict</th><th>The \
         paper</th><th>Here</th><th>Run it again</th></tr></thead>\n<tbody>\n",
    );
    for judged in claims {
        let ClaimResult { claim, finding, .. } = judged;
        let numbers: String =
            finding.numbers.iter().map(|line| format!("<li>{}</li>", escape(line))).collect();
        let _ = writeln!(
            out,
            "<tr id=\"claim-{}\"><td class=\"verdict {}\">{}</td><td><q>{}</q><span \
             class=\"place\">{}</span></td><td>{}{}<ul class=\"numbers\">{numbers}</ul><details>\
             <summary>rule</summary>{}.</details></td><td><a href=\"#{}\">{}</a><br><code>{}</code>\
             </td></tr>",
            claim.id,
            class(finding.verdict),
            finding.verdict,
            escape(claim.statement),
            escape(claim.place),
            escape(&finding.why),
            escape(&beside(judged)),
            escape(claim.rule),
            claim.study,
            claim.study,
            escape(&request.command(claim.study))
        );
    }
    out.push_str("</tbody>\n</table></div>\n</section>\n");
}

/// What stands beside a verdict: what tuning changes, where the statement applies, other readings.
pub fn beside(judged: &ClaimResult) -> String {
    let mut text = String::new();
    if let Some(tuned) = judged.finding.tuned {
        let _ = write!(text, " At tuned widths: {tuned}.");
    }
    if judged.applies.of > 0 {
        let _ = write!(text, " The statement {}.", judged.applies.text);
    }
    if let Some(under) = judged.under() {
        let _ = write!(text, " {under}");
    }
    text
}

/// A line a setting: what the probe answered, in the mean over repetitions.
fn write_probe(out: &mut String, measured: &Measured) {
    let Some(probe) = measured.study.probe else { return };
    out.push_str("<div class=\"scroll\"><table class=\"results\"><thead><tr>");
    let facets = measured.study.facets.iter().map(|facet| facet.label.as_str());
    for label in facets.chain(probe.columns.iter().copied()) {
        let _ = write!(out, "<th>{}</th>", escape(label));
    }
    out.push_str("</tr></thead><tbody>\n");
    for cell in &measured.cells {
        out.push_str("<tr>");
        for facet in &measured.study.facets {
            let value = cell.setting.text(&facet.key).unwrap_or_default();
            let _ = write!(out, "<td>{}</td>", escape(&value));
        }
        for column in 0..probe.columns.len() {
            let _ = write!(out, "<td>{}</td>", short(cell.value(column)));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
}

fn write_section(out: &mut String, request: &Request, section: &Section) {
    let study = &section.measured.study;
    let _ = writeln!(
        out,
        "<section id=\"{}\">\n<h2>{}</h2>\n<p>{}</p>",
        study.name,
        escape(&study.title),
        prose(&study.about)
    );
    for drawn in &section.drawn {
        write_figure(out, request, &study.name, drawn);
    }
    match study.kind {
        Kind::Curves | Kind::Ratio => write_results(out, section.measured),
        Kind::Choices | Kind::Probe => {
            match study.kind {
                Kind::Probe => write_probe(out, section.measured),
                // Under other readings verdicts are told, beside the claims.
                _ if study.readings.is_empty() => write_choices(out, section.measured),
                _ => {}
            }
            let command = escape(&request.command(&study.name));
            let links = match study.kind {
                Kind::Probe => answers_link(&study.name),
                _ => data_links(&study.name),
            };
            let _ = writeln!(out, "<p><code>{command}</code> {links}</p>");
        }
        Kind::Scaling | Kind::Runtime => {}
    }
    out.push_str("</section>\n");
}

/// Text in which `names` are set as such.
fn prose(text: &str) -> String {
    let mut parts = escape(text).split('`').map(str::to_owned).collect::<Vec<_>>();
    for name in parts.iter_mut().skip(1).step_by(2) {
        *name = format!("<code>{name}</code>");
    }
    parts.concat()
}

fn answers_link(study: &str) -> String {
    format!("<a href=\"data/{study}-repetitions.csv\">repetitions CSV</a>")
}

fn data_links(study: &str) -> String {
    let link = |file: String, text: &str| format!("<a href=\"{file}\">{text}</a>");
    [
        link(format!("data/{study}-curves.csv"), "curves CSV"),
        link(format!("data/{study}-curves.parquet"), "Parquet"),
        link(format!("data/{study}-repetitions.csv"), "repetitions CSV"),
        link(format!("data/{study}-repetitions.parquet"), "Parquet"),
        link(format!("times/{study}.csv"), "times CSV"),
    ]
    .join(" · ")
}

fn write_figure(out: &mut String, request: &Request, study: &str, drawn: &DrawnFigure) {
    let DrawnFigure { name, svg, readings } = drawn;
    // Inside a script element only `</` could end it.
    let readings = Value::Array(readings.clone()).to_string().replace("</", "<\\/");
    let single = if drawn.readings.len() == 1 { " single" } else { "" };
    let _ = writeln!(
        out,
        "<figure id=\"figure-{name}\">\n<div class=\"drawing{single}\">\n{svg}<script \
         type=\"application/json\">{readings}</script>\n</div>\n<figcaption><code>{}</code><span>\
         <a href=\"figures/{name}.svg\">SVG</a> · <a href=\"figures/{name}.png\">PNG</a> · {}</span>\
         </figcaption>\n</figure>",
        escape(&request.command(study)),
        data_links(study)
    );
}

/// Regret at the end of every policy in every setting, at both widths.
fn write_results(out: &mut String, measured: &Measured) {
    let Some(first) = measured.cells.first() else { return };
    let labels: Vec<&str> = first.all(Width::Paper).map(|played| played.label.as_str()).collect();
    let widths = measured.widths();
    out.push_str(
        "<details><summary>Regret at the end, all settings, at the paper's widths and (in the second \
         line) at tuned ones with the width chosen</summary>\n<div class=\"scroll\"><table \
         class=\"results\"><thead><tr>",
    );
    for facet in &measured.study.facets {
        let _ = write!(out, "<th>{}</th>", escape(facet.label.trim_end_matches(':')));
    }
    out.push_str("<th>width</th>");
    for label in &labels {
        let _ = write!(out, "<th>{}</th>", escape(label));
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for cell in &measured.cells {
        for &width in widths {
            write_result_row(out, measured, cell, width, &labels);
        }
    }
    out.push_str("</tbody></table></div></details>\n");
}

fn write_result_row(
    out: &mut String,
    measured: &Measured,
    cell: &SettingResult,
    width: Width,
    labels: &[&str],
) {
    let frame = |label: &str| label == "random" || label.starts_with("oracle");
    let least = (labels.iter().filter(|label| !frame(label)))
        .filter_map(|label| cell.regret(width, label))
        .fold(f64::INFINITY, f64::min);
    out.push_str("<tr>");
    for facet in &measured.study.facets {
        let _ =
            write!(out, "<td>{}</td>", escape(&cell.setting.text(&facet.key).unwrap_or_default()));
    }
    let _ = write!(out, "<td>{width}</td>");
    for label in labels {
        let Some(played) = cell.played(width, label) else {
            out.push_str("<td>–</td>");
            continue;
        };
        let end = played.end(0.0);
        let margin = match played.outcomes.len() {
            1 => String::new(),
            _ => format!(" ± {}", short(end.high - end.y)),
        };
        let chosen: Vec<String> = (played.chosen.iter())
            .map(|(name, value)| format!("{} {}", short_name(name), short(*value)))
            .collect();
        let chosen = if chosen.is_empty() {
            String::new()
        } else {
            format!(" <small>({})</small>", chosen.join(", "))
        };
        let best = if !frame(label) && end.y <= least { " class=\"least\"" } else { "" };
        let _ = write!(out, "<td{best}>{}{margin}{chosen}</td>", short(end.y));
    }
    out.push_str("</tr>\n");
}

fn short_name(param: &str) -> &str {
    match param {
        "exploration" => "×",
        "alpha2" => "α₂",
        "alpha_theta" => "α_θ",
        other => other,
    }
}

/// A line a setting: regret as a ratio to random's.
fn write_choices(out: &mut String, measured: &Measured) {
    let Some(first) = measured.cells.first() else { return };
    let labels: Vec<&str> = (first.all(Width::Paper).map(|played| played.label.as_str()))
        .filter(|label| *label != "random")
        .collect();
    out.push_str("<div class=\"scroll\"><table class=\"results\"><thead><tr>");
    for facet in &measured.study.facets {
        let _ = write!(out, "<th>{}</th>", escape(&facet.label));
    }
    for label in &labels {
        let name = style(label).colour.name;
        let _ = write!(out, "<th><span class=\"key b-{name}\"></span>{}</th>", escape(label));
    }
    out.push_str("</tr></thead><tbody>\n");
    for cell in &measured.cells {
        out.push_str("<tr>");
        for facet in &measured.study.facets {
            let value = cell.setting.text(&facet.key).unwrap_or_default();
            let _ = write!(out, "<td>{}</td>", escape(&value));
        }
        for label in &labels {
            let ratio = cell.compare(Width::Paper, label, "random").map(|pair| pair.ratio);
            let _ = write!(out, "<td>{}</td>", ratio.map_or("–".to_owned(), short));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
}

fn write_foot(out: &mut String, request: &Request) {
    let again = request.whole_command();
    let _ = writeln!(
        out,
        "<footer><p>Regret is the mean over users of what was lost against the best arm in \
         expectation, never from noisy rewards. Intervals are Student’s t over repetitions; policies \
         are compared repetition by repetition, in the same worlds. A claim counts as reproduced if it \
         held in at least 90 % of what its rule counts, as not reproduced up to 10 %.</p>\
         <p>The same seed gives the same bytes in <code>data/</code>; times are in \
         <code>times/</code>. All of it again: <code>{again}</code>. The experiments are \
         the files in <code>experiments/</code>.</p></footer>"
    );
}

/// The claims for other programs.
pub fn claims_json(request: &Request, evidence: &Evidence, claims: &[ClaimResult]) -> String {
    let reps: BTreeMap<&str, usize> = (evidence.studies.iter())
        .map(|measured| (measured.study.name.as_str(), measured.repetitions()))
        .collect();
    let claims: Vec<Value> = (claims.iter())
        .map(|judged| {
            let ClaimResult { claim, finding, applies, readings } = judged;
            let readings: Vec<Value> = (readings.iter())
                .map(|(reading, verdict)| json!({ "reading": reading, "verdict": verdict }))
                .collect();
            json!({
                "id": claim.id,
                "statement": claim.statement,
                "place": claim.place,
                "rule": claim.rule,
                "applies": applies,
                "verdict": finding.verdict,
                "verdict_tuned": finding.tuned,
                "readings": readings,
                "numbers": finding.numbers,
                "why": finding.why,
                "command": request.command(&judged.studies()),
            })
        })
        .collect();
    let modes: BTreeMap<&str, &str> = (evidence.studies.iter())
        .map(|Measured { study, .. }| {
            (study.name.as_str(), if study.quick { "quick" } else { "full" })
        })
        .collect();
    let absent: BTreeMap<&str, &[String]> = (evidence.studies.iter())
        .filter(|measured| !measured.absent.is_empty())
        .map(|measured| (measured.study.name.as_str(), measured.absent.as_slice()))
        .collect();
    let fewer: BTreeMap<&str, BTreeMap<&str, usize>> = (evidence.studies.iter())
        .map(|measured| (measured.study.name.as_str(), measured.fewer().into_iter().collect()))
        .filter(|(_, fewer): &(_, BTreeMap<_, _>)| !fewer.is_empty())
        .collect();
    let json = json!({
        "quick": request.quick,
        "mode": request.mode(),
        "modes": modes,
        "reps": reps,
        "fewer_reps": fewer,
        "absent": absent,
        "claims": claims,
    });
    format!("{json:#}\n")
}
