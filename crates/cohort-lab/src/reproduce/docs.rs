//! The outcome for readers of the repository: a page in Markdown, its figures, and the small tables
//! behind them. Nothing in it depends on the clock or on the machine but what is about time: the
//! study of run time, and `times.csv`.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use super::claims::{ClaimResult, Verdict};
use super::evidence::{Evidence, Measured, Width};
use super::page::Section;
use super::study::{Kind, UNDER};
use super::{Request, page, put, tables};
use crate::Error;
use crate::figures::scale::short;
use crate::results::columns::write_csv;
use crate::results::write_whole;

/// How the page is called, so that it is shown with the folder.
pub const PAGE: &str = "README.md";

/// The results of some first repetitions, for a test that runs them again.
pub const SLICE: &str = "slice.csv";

/// Numbered statements that no run decides, and where what there is to say of them is said.
const NOT_RUN: &str = "\n## Numbered statements that ask for no run\n\n\
| statement | what there is to say |\n| --- | --- |\n\
| Definition 1 (α-separable), Definition 2 (ε common representation), Definitions 3 to 5 (shifted OFUL, its regrets) | words; used as printed |\n\
| Remark 2: the separation 5/(NT)^α is a weak condition | arithmetic: 0.5 for N = 100, T = 1000 and the simulations' α = 0.2, where two centres on the unit sphere are at most 2 apart; 0.05 asks for NT = 10¹⁰ |\n\
| Remark 6: the rate of Theorem 2 is worse than √(T/N) | arithmetic: true for every α < 1/2 |\n\
| Remark 9: the leading term of Theorem 3 is ε_i·√(dT) | [epsilon](#epsilon), [theorem-3-rounds](#theorem-3-rounds) |\n\
| Remark 10: for ε_i of order 1 agents learn alone, with √(dT) | [pmlb-high-spread](#pmlb-high-spread), [personal-rounds](#personal-rounds) |\n";

/// Why the letter of PMLB loses: what readers of this page alone must know of the last appendix.
const SHIFTED: &str = "\n## Shifted OFUL: the step that does not hold\n\n\
The last appendix (called I here; its statements go on in the numbering of the whole paper) is to show that PMLB may subtract ⟨X, θ̂*⟩ from the \
rewards and let each user's OFUL choose: \"shifts can not reduce the regret\". [Proposition 1](#proposition-1) says \
R ≤ R^(Γ) + Σ⟨X − β*, Γ⟩. Its inequality (a) has max(f + g) ≤ max f + g at the maximiser of f, which is ≥; the definition's θ* − Γ is written as \
θ* + Γ; and the last line is read in the other direction. What follows from the definitions is R ≤ R^(Γ) + Σ⟨β* − X, Γ⟩, the second sum with the \
opposite sign ([shift-mended](#shift-mended)). It is the regret of X measured by Γ and grows as fast as T, so that \
[Corollary 3](#corollary-3), [Corollary 4](#corollary-4), [Lemma 7](#lemma-7), and with them Theorem 3 and \
[Corollary 1](#corollary-1), have nothing to stand on. [Lemma 6](#lemma-6) fails by itself: it bounds a probability by a smaller one.\n\n\
The smallest counterexample has one dimension, two arms and no noise: arms 1 and −1, θ* = 1, Γ = 1 + ψ. Arm 1 is the best for θ* and for Γ in every \
round; the shifted OFUL plays arm 1 once (a tie), is given −ψ, and plays −1 for ever.\n\n\
| after | R | R^(Γ) | right-hand side as printed | with the sign mended |\n| --- | --- | --- | --- | --- |\n\
| 2 rounds | 2 | 2ψ | −2 | 2ψ + 2(1 + ψ) |\n\
| T rounds | 2(T − 1) | 2ψ | 2ψ − 2(1 + ψ)(T − 1) | 2ψ + 2(1 + ψ)(T − 1) |\n\n\
What is true instead: an OFUL that is given Y − ⟨X, Γ⟩ and adds ⟨x, Γ⟩ back when it chooses has OFUL's bound, \
R_T ≤ 2Σβ_t‖X_t‖_{V⁻¹}, with ‖θ* − Γ‖ in the place of ‖θ*‖ ([shift-compensated](#shift-compensated); the policy `pmlb-compensated` runs it with ALB-Norm's epochs). \
So the rate is Õ((σ√d + ε_i)·√(dT)), not Theorem 3's Õ(ε_i√(dT)). Line by line: [paper.md](../paper.md#shifted-oful-why-the-letter-of-pmlb-loses). \
The two rounds of the table are a unit test (`cargo test -p cohort-lab shifted`); random contexts are the study [probe-shifted](#study-probe-shifted), \
`cohort reproduce --only probe-shifted --full`.\n";

// Writing to a string cannot fail, so results of `write!` are dropped throughout.

/// Writes the whole folder; what another run left there under other names stays.
pub fn write(
    folder: &Path,
    request: &Request,
    sections: &[Section],
    evidence: &Evidence,
    claims: &[ClaimResult],
) -> Result<(), Error> {
    // Where the data sets were is of no interest to anybody else.
    let request = &Request { data: PathBuf::from("DIR"), ..request.clone() };
    let (figures, data) = (folder.join("figures"), folder.join("data"));
    for folder in [&figures, &data] {
        std::fs::create_dir_all(folder)
            .map_err(|source| Error::Write { path: folder.clone(), source })?;
    }
    for section in sections {
        for drawn in &section.drawn {
            put(&figures, &format!("{}.svg", drawn.name), drawn.svg.as_bytes())?;
        }
        let name = &section.measured.study.name;
        let table = match section.measured.study.probe {
            Some(_) => tables::answers(section.measured),
            None => tables::ends(section.measured),
        };
        write_whole(&data.join(format!("{name}.csv")), |file| write_csv(file, &table))?;
    }
    put(folder, "claims.json", page::claims_json(request, evidence, claims).as_bytes())?;
    put(folder, SLICE, slice(evidence).as_bytes())?;
    write_whole(&folder.join("times.csv"), |file| times(file, evidence))?;
    put(folder, "machine.txt", machine(request).as_bytes())?;
    put(folder, PAGE, markdown(request, sections, evidence, claims).as_bytes())
}

/// One line a policy: its regret in the first repetition of a study's first setting, all digits.
/// `cohort` is not among them: it is this project's own, and changes. Nor are other readings.
fn slice(evidence: &Evidence) -> String {
    let mut text = String::from("study,policy,regret\n");
    for measured in &evidence.studies {
        let Some(cell) = measured.cells.first() else { continue };
        let untuned = (cell.results.iter())
            .filter(|played| played.width == Width::Paper && played.chosen.is_empty())
            .filter(|played| !played.label.starts_with("cohort") && !played.label.contains(UNDER));
        for played in untuned {
            if let Some(first) = played.outcomes.first() {
                let _ =
                    writeln!(text, "{},{},{}", measured.study.name, played.label, first.total());
            }
        }
    }
    text
}

/// What learning took, by study and policy, all repetitions together. Names of readings have commas.
fn times(to: &mut impl std::io::Write, evidence: &Evidence) -> std::io::Result<()> {
    let mut csv = csv::Writer::from_writer(to);
    csv.write_record(["study", "policy", "runs", "learning_seconds"])?;
    for measured in &evidence.studies {
        let mut all: std::collections::BTreeMap<&str, (usize, f64)> = Default::default();
        for played in measured.cells.iter().flat_map(|cell| &cell.results) {
            let sum = all.entry(&played.label).or_default();
            sum.0 += played.outcomes.len();
            sum.1 += played.outcomes.iter().map(|outcome| outcome.seconds).sum::<f64>();
        }
        for (policy, (runs, seconds)) in all {
            let (runs, seconds) = (runs.to_string(), format!("{seconds:.3}"));
            csv.write_record([measured.study.name.as_str(), policy, &runs, &seconds])?;
        }
    }
    csv.flush()
}

/// `17 reproduced, 9 partly, …`
pub fn score(claims: &[ClaimResult]) -> String {
    let parts: Vec<String> = (Verdict::ALL.iter())
        .filter_map(|verdict| {
            let count = claims.iter().filter(|judged| judged.finding.verdict == *verdict).count();
            let name = if *verdict == Verdict::Not {
                "not reproduced".into()
            } else {
                verdict.to_string()
            };
            (count > 0).then(|| format!("{count} {name}"))
        })
        .collect();
    parts.join(", ")
}

fn markdown(
    request: &Request,
    sections: &[Section],
    evidence: &Evidence,
    claims: &[ClaimResult],
) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "# The paper, run again\n\n*Adaptive Clustering and Personalization in Multi-Agent Stochastic \
         Linear Bandits* (Ghosh, Sankararaman, Ramchandran): every claim, every numbered statement, every \
         figure, decided by rules in code. **{}.**\n",
        score(claims)
    );
    let _ = writeln!(
        out,
        "This page was made by `{} --docs docs/reproduction --data DIR` (mode: {}); DIR is the folder of Last.FM and \
         MovieLens. The same repetitions give the same files, byte for byte, but for times. How many repetitions \
         every study has, and of which size it is, is in the table [how it was run](#how-it-was-run).\n",
        request.whole_command(),
        request.mode(),
    );
    if request.quick {
        out.push_str(
            "**This is a quick run**: fewer repetitions and a smaller grid than the paper's, wide intervals. \
             Verdicts may change with the full one.\n\n",
        );
    }
    if request.so_far {
        out.push_str(
            "**This is what there was of the run when the page was made** (`--so-far`): studies and policies that \
             were not complete are named in that table.\n\n",
        );
    }
    out.push_str(
        "How to read it: *reproduced* is 90 % or more of what the rule counts, *not* is 10 % or less, *partly* is \
         between; *not reached* says that what the statement asks for was so in no setting that could be run. \
         Verdicts are of the paper's own widths; what tuning changes stands beside (– where nothing is tuned). *Readings* counts \
         under how many other readings of the paper a claim that did not hold does hold (– where it held, or where nothing is left open). \
         *Applies* says where what a theorem asks for is so (– for what was observed, not proved); a statement that is not reached with the \
         simulations' numbers may have a second row from a study with few dimensions and many rounds, where it applies. What we chose where the paper \
         leaves something open, and why: [paper.md](../paper.md). For other programs: [claims.json](claims.json).\n\n",
    );
    write_summary(&mut out, claims);
    write_extent(&mut out, request, evidence);
    out.push_str("\n## Claim by claim\n");
    for judged in claims {
        write_claim(&mut out, request, judged);
    }
    out.push_str(SHIFTED);
    out.push_str(NOT_RUN);
    out.push_str("\n## Study by study\n");
    for section in sections {
        write_study(&mut out, request, section);
    }
    for (name, title, why) in &evidence.left_out {
        let _ = writeln!(out, "\n### {name}: {}\n\nNot run: {}.", line(title), line(why));
    }
    out
}

/// Text for a cell of a table, or a line.
fn line(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ").replace('<', "&lt;")
}

fn write_summary(out: &mut String, claims: &[ClaimResult]) {
    out.push_str(
        "| claim | where | verdict | tuned | readings | applies |\n| --- | --- | --- | --- | --- | --- |\n",
    );
    for ClaimResult { claim, finding, applies, readings } in claims {
        let tuned = finding.tuned.map_or("–".to_owned(), |verdict| verdict.to_string());
        let applies = match applies.of {
            0 => "–".to_owned(),
            _ => line(&applies.text),
        };
        let _ = writeln!(
            out,
            "| [{id}](#{id}) | {} | **{}** | {tuned} | {} | {applies} |",
            line(claim.place),
            finding.verdict,
            match readings.iter().filter(|(_, verdict)| *verdict == Verdict::Reproduced).count() {
                _ if readings.is_empty() => "–".to_owned(),
                held => format!("{held} of {}", readings.len()),
            },
            id = claim.id
        );
    }
}

/// A line a study: how much of it was run.
fn write_extent(out: &mut String, request: &Request, evidence: &Evidence) {
    out.push_str(
        "\n## How it was run\n\nRepetitions as the study's file asks for them, unless it says otherwise: 30 as in the paper, 200 for \
         OFUL's coverage; the paper does not say how many there are of real data, which have 4 with its 10,000 rounds (fig3, cohort-lastfm, cohort-movielens) and 2 to \
         4 with 1,000 rounds under other readings; running times 3. What learning took, on which \
         machine: [times.csv](times.csv), [machine.txt](machine.txt).\n\n\
         | study | size | settings | repetitions | not there |\n| --- | --- | --- | --- | --- |\n",
    );
    for measured in &evidence.studies {
        let Measured { study, cells, absent } = measured;
        let size = if study.quick { "quick" } else { "full" };
        let (there, asked) = (measured.repetitions(), study.repetitions());
        let mut repetitions = there.to_string();
        if there < asked {
            let _ = write!(repetitions, " of {asked}");
        }
        repetitions.push_str(&measured.exceptions());
        let absent = if absent.is_empty() { "–".to_owned() } else { absent.join(", ") };
        let name = &study.name;
        let _ = writeln!(out, "| {name} | {size} | {} | {repetitions} | {absent} |", cells.len());
    }
    for (name, _, why) in &evidence.left_out {
        let size = if request.is_quick(name) { "quick" } else { "full" };
        let _ = writeln!(out, "| {name} | {size} | – | 0 | {} |", line(why));
    }
}

/// What it was run on.
fn machine(request: &Request) -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split(": ").nth(1));
    format!(
        "processor: {}\narchitecture: {}, {}\nthreads: {}\nprogram: cohort {}\n",
        model.unwrap_or("not known"),
        std::env::consts::ARCH,
        std::env::consts::OS,
        request.threads,
        env!("CARGO_PKG_VERSION")
    )
}

fn write_claim(out: &mut String, request: &Request, judged: &ClaimResult) {
    let ClaimResult { claim, finding, .. } = judged;
    let _ = writeln!(
        out,
        "\n### {}\n\n> {} ({})\n\n**{}.** {}{}\n",
        claim.id,
        line(claim.statement),
        line(claim.place),
        finding.verdict,
        line(&finding.why),
        line(&page::beside(judged))
    );
    for number in &finding.numbers {
        let _ = writeln!(out, "- {}", line(number));
    }
    if !judged.readings.is_empty() {
        let each: Vec<String> = (judged.readings.iter())
            .map(|(reading, verdict)| format!("{}: {verdict}", line(reading)))
            .collect();
        let _ = writeln!(out, "- readings: {}", each.join("; "));
    }
    let _ = writeln!(
        out,
        "\nRule: {}. Study: [{study}](#study-{study}). Again: `{}`",
        line(claim.rule),
        request.command(&judged.studies()),
        study = claim.study
    );
}

/// A line a setting: regret as a ratio to random's.
fn write_choices(out: &mut String, measured: &Measured) {
    let Some(first) = measured.cells.first() else { return };
    let labels: Vec<&str> = (first.all(Width::Paper).map(|played| played.label.as_str()))
        .filter(|label| *label != "random")
        .collect();
    let facets = measured.study.facets.iter().map(|facet| line(&facet.label));
    let head: Vec<String> = facets.chain(labels.iter().map(|label| (*label).to_owned())).collect();
    let _ = writeln!(out, "| {} |\n|{}", head.join(" | "), " --- |".repeat(head.len()));
    for cell in &measured.cells {
        let setting = (measured.study.facets.iter())
            .map(|facet| cell.setting.text(&facet.key).unwrap_or_default());
        let ratios = labels.iter().map(|label| {
            let pair = cell.compare(Width::Paper, label, "random");
            pair.map_or("–".to_owned(), |pair| short(pair.ratio))
        });
        let _ = writeln!(out, "| {} |", setting.chain(ratios).collect::<Vec<_>>().join(" | "));
    }
    out.push('\n');
}

fn write_study(out: &mut String, request: &Request, section: &Section) {
    let Measured { study, cells, absent } = section.measured;
    let _ = writeln!(
        out,
        "\n<a id=\"study-{name}\"></a>\n\n### {name}: {}\n\n{}\n",
        line(&study.title),
        line(&study.about),
        name = study.name
    );
    if !absent.is_empty() {
        let _ = writeln!(out, "Not there yet: {}.\n", absent.join(", "));
    }
    for drawn in &section.drawn {
        let _ = writeln!(out, "![{}](figures/{}.svg)\n", line(&study.title), drawn.name);
    }
    if study.kind == Kind::Choices && study.readings.is_empty() {
        write_choices(out, section.measured);
    }
    if let (Kind::Probe, Some(probe)) = (study.kind, study.probe) {
        let facets = study.facets.iter().map(|facet| line(&facet.label));
        let columns = probe.columns.iter().map(|column| line(column));
        let head: Vec<String> = facets.chain(columns).collect();
        let _ = writeln!(out, "| {} |\n|{}", head.join(" | "), " --- |".repeat(head.len()));
        for cell in cells {
            let settings =
                study.facets.iter().map(|facet| cell.setting.text(&facet.key).unwrap_or_default());
            let values = (0..probe.columns.len()).map(|column| short(cell.value(column)));
            let row: Vec<String> = settings.chain(values).collect();
            let _ = writeln!(out, "| {} |", row.join(" | "));
        }
        out.push('\n');
    }
    let _ = writeln!(
        out,
        "Numbers: [data/{name}.csv](data/{name}.csv). Again: `{}`",
        request.command(&study.name),
        name = study.name
    );
}
