//! The claims of the paper, sentence by sentence and theorem by theorem, each with the rule that
//! decides it.
//!
//! A claim has a rule that decides it from numbers. Nothing about its verdict is written down in
//! advance: neither the verdict nor the sentence that explains it. A theorem is judged only where
//! what it asks for is so; what held at the paper's widths and at tuned ones are two verdicts.
//!
//! | file | which claims |
//! | --- | --- |
//! | `tally` | in how many settings does something hold? |
//! | [`applies`] | where is what a statement asks for so, and from which T on? |
//! | `clustering` | Figure 1 |
//! | `personalization` | Figure 2 |
//! | `lastfm` | Figure 3 |
//! | `scaling` | the theorems at the size of the simulations |
//! | `separable`, `inseparable`, `personal` | the theorems where they apply, user by user |
//! | `inside` | what the proofs rest on: OFUL, ALB-Norm, Shifted OFUL |
//! | `runtime` | seconds |
//! | `own` | not of the paper: what this project says of its `cohort` policy |

pub mod applies;
mod clustering;
mod inseparable;
mod inside;
mod lastfm;
mod own;
mod personal;
mod personalization;
mod runtime;
mod scaling;
mod separable;
mod tally;
mod users;

use std::fmt;

use serde::Serialize;

use super::evidence::{Evidence, Measured, SettingResult};
use super::study::{Facet, Kind};
use applies::{Applicability, ConditionCheck};

/// Whether a claim held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It held (almost) everywhere.
    Reproduced,
    /// It held in some settings.
    Partly,
    /// It held (almost) nowhere.
    Not,
    /// What it asks for is not so in any setting that was run.
    #[serde(rename = "not reached")]
    NotReached,
    /// Too few repetitions: the interval is too wide to say.
    Undecided,
    /// Its experiment was not run.
    Unknown,
}

impl Verdict {
    /// All of them, in the order in which they are counted.
    pub const ALL: [Verdict; 6] = [
        Verdict::Reproduced,
        Verdict::Partly,
        Verdict::Not,
        Verdict::NotReached,
        Verdict::Undecided,
        Verdict::Unknown,
    ];
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.pad(match self {
            Verdict::Reproduced => "reproduced",
            Verdict::Partly => "partly",
            Verdict::Not => "not",
            Verdict::NotReached => "not reached",
            Verdict::Undecided => "undecided",
            Verdict::Unknown => "not run",
        })
    }
}

/// A share of settings from which on a claim counts as reproduced, and one up to which as not.
const REPRODUCED: f64 = 0.9;
const NOT: f64 = 0.1;

impl Verdict {
    /// From the share of settings in which something held.
    fn of_share(share: f64) -> Self {
        match share {
            share if share >= REPRODUCED => Verdict::Reproduced,
            share if share <= NOT => Verdict::Not,
            _ => Verdict::Partly,
        }
    }

    fn of(holds: bool) -> Self {
        if holds { Verdict::Reproduced } else { Verdict::Not }
    }

    /// From what was decided of several things, each of which may be open.
    fn of_decided(decided: impl IntoIterator<Item = Option<bool>>) -> Self {
        let known: Vec<bool> = decided.into_iter().flatten().collect();
        let held = known.iter().filter(|held| **held).count();
        match known.len() {
            0 => Verdict::Undecided,
            all => Verdict::of_share(held as f64 / all as f64),
        }
    }
}

/// Something the paper says.
pub struct Claim {
    /// A short name for links.
    pub id: &'static str,
    /// In the paper's words.
    pub statement: &'static str,
    /// Where it is said.
    pub place: &'static str,
    /// The study that decides it, and which has its figure.
    pub study: &'static str,
    /// What it asks for in a setting; none for what was observed, not proved.
    needs: Option<fn(&Measured, &SettingResult) -> ConditionCheck>,
    /// How it is decided.
    pub rule: &'static str,
    /// Decides it.
    check: fn(&Measured) -> Option<Finding>,
}

/// The verdict on a claim.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// Whether it held, at the paper's widths.
    pub verdict: Verdict,
    /// Whether it held where every policy has its best width; none where nothing was tuned.
    pub tuned: Option<Verdict>,
    /// The numbers behind it, a line for each noise level where there are several.
    pub numbers: Vec<String>,
    /// Why, in one sentence.
    pub why: String,
}

impl Finding {
    /// From a line for every setting and the number of those in which something held; `why` is told
    /// `3 of 4`. None of no settings.
    fn counted(held: usize, numbers: Vec<String>, why: impl Fn(&str) -> String) -> Option<Self> {
        let all = numbers.len();
        (all > 0).then(|| Finding {
            verdict: Verdict::of_share(held as f64 / all as f64),
            tuned: None,
            why: why(&format!("{held} of {all}")),
            numbers,
        })
    }
}

/// A claim and its verdict.
pub struct ClaimResult {
    /// The claim.
    pub claim: &'static Claim,
    /// The result.
    pub finding: Finding,
    /// Where what it asks for is so.
    pub applies: Applicability,
    /// What came of it under other readings of the paper; none where it held, or where nothing is
    /// left open.
    pub readings: Vec<(String, Verdict)>,
}

impl ClaimResult {
    /// The studies that decide it, its readings included, as `--only` takes them.
    pub fn studies(&self) -> String {
        let own = std::iter::once(self.claim.study);
        let readings =
            if self.readings.is_empty() { &[][..] } else { other_readings(self.claim.study) };
        own.chain(readings.iter().copied()).collect::<Vec<_>>().join(",")
    }

    /// Under which readings it held, in one sentence; none where none were tried.
    pub fn under(&self) -> Option<String> {
        let held: Vec<&str> = (self.readings.iter())
            .filter(|(_, verdict)| *verdict == Verdict::Reproduced)
            .map(|(name, _)| name.as_str())
            .collect();
        match (self.readings.len(), held.as_slice()) {
            (0, _) => None,
            (all, []) => Some(format!("It holds under none of {all} readings.")),
            (all, held) => {
                let names = held.join("; ");
                Some(format!("It holds under {} of {all} readings: {names}.", held.len()))
            }
        }
    }
}

/// What the paper's own reading is called among the others.
const AS_CHOSEN: &str = "as chosen here";

/// The studies that have the claims of a study under other readings.
fn other_readings(study: &str) -> &'static [&'static str] {
    match study {
        "fig1" => &["readings-clustering", "readings-clusters"],
        "fig2" => &["readings-personal"],
        "fig3" => &["fig3-choices", "readings-lastfm"],
        _ => &[],
    }
}

/// The variants that keep what the algorithms throw away when they restart.
const WARM: [(&str, &str); 3] =
    [("sclb", "sclb-warm"), ("cmlb", "cmlb-warm"), ("pmlb", "pmlb-warm")];

/// Policies that are not the paper's with another δ than its own.
const OTHER_DELTA: [(&str, &str); 1] = [("linucb-ind", "linucb-ind @ δ = 0.05")];

/// All claims, in the order of the report.
pub fn all() -> impl Iterator<Item = &'static Claim> {
    let groups = [
        clustering::CLAIMS,
        runtime::CLAIMS,
        personalization::CLAIMS,
        lastfm::CLAIMS,
        scaling::CLAIMS,
        separable::CLAIMS,
        inseparable::CLAIMS,
        personal::CLAIMS,
        inside::CLAIMS,
        own::CLAIMS,
    ];
    groups.into_iter().flatten()
}

/// Decides every claim.
pub fn judge(evidence: &Evidence) -> Vec<ClaimResult> {
    all().map(|claim| decide(claim, evidence)).collect()
}

fn decide(claim: &'static Claim, evidence: &Evidence) -> ClaimResult {
    let nothing = |verdict, why: String| {
        let finding = Finding { verdict, tuned: None, numbers: Vec::new(), why };
        ClaimResult { claim, finding, applies: Applicability::unknown(), readings: Vec::new() }
    };
    let unknown = |why| nothing(Verdict::Unknown, why);
    let left_out = evidence.left_out.iter().find(|(name, ..)| name == claim.study);
    let measured = match (evidence.study(claim.study), left_out) {
        (Some(measured), _) => measured,
        (None, Some((.., why))) => return unknown(format!("{}: {why}", claim.study)),
        (None, None) => return unknown(format!("{} was not part of this run", claim.study)),
    };
    if measured.repetitions() < 2 {
        let why = "One repetition gives no interval and no verdict.".to_owned();
        return nothing(Verdict::Undecided, why);
    }
    let (applies, finding) = match claim.needs {
        None => (Applicability::always(), (claim.check)(measured)),
        Some(needs) => where_it_applies(claim, measured, needs),
    };
    let Some(finding) = finding else {
        return unknown(format!("this run of {} has too few settings", claim.study));
    };
    let readings = match (finding.verdict, claim.needs) {
        (Verdict::Reproduced, _) => Vec::new(),
        // What was observed may have been so in some settings, which the paper does not name.
        (_, None) => {
            let mut readings = in_some_settings(claim, measured);
            readings.extend(under_readings(claim, evidence));
            readings
        }
        (_, Some(_)) => under_readings(claim, evidence),
    };
    ClaimResult { claim, finding, applies, readings }
}

/// Judges a statement where what it asks for is so; elsewhere its numbers are told, and no verdict.
fn where_it_applies(
    claim: &Claim,
    measured: &Measured,
    needs: fn(&Measured, &SettingResult) -> ConditionCheck,
) -> (Applicability, Option<Finding>) {
    let needed: Vec<ConditionCheck> =
        measured.cells.iter().map(|cell| needs(measured, cell)).collect();
    let applies = Applicability::of(measured, &needed);
    let mut holds = needed.iter().map(|needed| needed.holds);
    let inside = measured.only(|_| holds.next().unwrap_or(false));
    let judged = match applies.settings {
        0 => None,
        _ => (claim.check)(&inside),
    };
    let finding = judged.or_else(|| {
        let finding = (claim.check)(measured)?;
        Some(Finding { verdict: Verdict::NotReached, tuned: None, ..finding })
    });
    (applies, finding)
}

/// A claim about a figure with every value of what varies in it by itself (noise, N, L, z are lost with
/// the paper's images), and with variants that restart nothing.
fn in_some_settings(claim: &Claim, measured: &Measured) -> Vec<(String, Verdict)> {
    if !["fig1", "fig2", "fig3", "scaling-separation"].contains(&claim.study) {
        return Vec::new();
    }
    // What the claim itself goes along.
    let own = match (claim.id, measured.study.kind) {
        ("imbalance", _) => Some("imbalance"),
        ("more-users", _) => Some("users"),
        (_, Kind::Scaling) => measured.study.axis().map(|facet| facet.key.as_str()),
        _ => None,
    };
    let mut found = Vec::new();
    for facet in measured.study.facets.iter().filter(|facet| Some(facet.key.as_str()) != own) {
        let values = measured.values(&facet.key);
        for value in values.iter().filter(|_| values.len() > 1) {
            let here = measured.only(|cell| cell.setting.text(&facet.key).as_ref() == Some(value));
            if let Some(finding) = (claim.check)(&here) {
                let is = if facet.label.ends_with(':') { "" } else { " =" };
                found.push((format!("{}{is} {value} alone", facet.label), finding.verdict));
            }
        }
    }
    let policies = &measured.study.draft.policies;
    if WARM.iter().any(|(_, warm)| policies.iter().any(|policy| policy.label() == *warm))
        && let Some(finding) = (claim.check)(&measured.replaced(&WARM))
    {
        found.push(("nothing restarted (the warm variants)".to_owned(), finding.verdict));
    }
    found
}

fn under_readings(claim: &Claim, evidence: &Evidence) -> Vec<(String, Verdict)> {
    let mut found: Vec<(String, Verdict)> = Vec::new();
    for name in other_readings(claim.study) {
        let study = evidence.study(name).filter(|measured| measured.repetitions() >= 2);
        let Some(measured) = study else { continue };
        if measured.study.readings.is_empty() {
            found.extend(under_choices(claim, evidence, measured));
            continue;
        }
        let mut judge = |name: &str, measured: &Measured| {
            if let Some(finding) = (claim.check)(measured) {
                found.push((name.to_owned(), finding.verdict));
            }
        };
        // Where readings are of the data as well, what was chosen is one of those.
        if other_readings(claim.study).first() == Some(name) {
            judge(AS_CHOSEN, &measured.under(None));
        }
        for reading in &measured.study.readings {
            judge(reading, &measured.under(Some(reading)));
        }
        if measured.study.readings.iter().any(|reading| OTHER_DELTA[0].1.ends_with(reading)) {
            let other = measured.replaced(&OTHER_DELTA);
            judge("δ = 0.05 for linucb-ind alone", &other.under(None));
        }
    }
    found
}

/// Where readings are of the data and not of the policies: every combination of the facets that the
/// claim's own study does not vary is one.
fn under_choices(
    claim: &Claim,
    evidence: &Evidence,
    measured: &Measured,
) -> Vec<(String, Verdict)> {
    let own = evidence.study(claim.study).map_or(&[][..], |own| &own.study.facets);
    let varied = |key: &str| own.iter().any(|facet| facet.key == key);
    let choices: Vec<&Facet> =
        measured.study.facets.iter().filter(|facet| !varied(&facet.key)).collect();
    let name = |cell: &SettingResult| -> String {
        let each = choices.iter().filter_map(|facet| {
            Some(format!("{} {}", facet.label, cell.setting.text(&facet.key)?))
        });
        each.collect::<Vec<_>>().join(", ")
    };
    let mut names: Vec<String> = measured.cells.iter().map(name).collect();
    names.sort();
    names.dedup();
    let under = |reading: String| {
        let finding = (claim.check)(&measured.only(|cell| name(cell) == reading))?;
        Some((reading, finding.verdict))
    };
    names.into_iter().filter_map(under).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_claim_has_a_name_of_its_own_and_a_study_that_exists() {
        let claims: Vec<_> = all().collect();
        for (k, claim) in claims.iter().enumerate() {
            assert!(claims[..k].iter().all(|other| other.id != claim.id), "{}", claim.id);
            let known = super::super::study::FILES.iter().any(|(name, _)| *name == claim.study);
            assert!(known, "{}: no study {}", claim.id, claim.study);
        }
    }
}
