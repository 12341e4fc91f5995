//! What the paper says of its experiments, sentence by sentence, and whether it held here.
//!
//! A claim has a rule that decides it from numbers. Nothing about its verdict is written down in
//! advance: neither the verdict nor the sentence that explains it.
//!
//! | file | which claims |
//! | --- | --- |
//! | `tally` | in how many settings does something hold? |
//! | `clustering` | Figure 1 |
//! | `personalization` | Figure 2 |
//! | `lastfm` | Figure 3 |
//! | `scaling` | the theorems |
//! | `runtime` | seconds |
//! | `own` | not of the paper: what this project says of its `cohort` policy |

mod clustering;
mod lastfm;
mod own;
mod personalization;
mod runtime;
mod scaling;
mod tally;

use std::fmt;

use serde::Serialize;

use super::evidence::{Evidence, Measured};

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
    /// Its experiment was not run.
    Unknown,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.pad(match self {
            Verdict::Reproduced => "reproduced",
            Verdict::Partly => "partly",
            Verdict::Not => "not",
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
}

/// Something the paper says.
pub struct Claim {
    /// A short name for links.
    pub id: &'static str,
    /// In the paper's words.
    pub statement: &'static str,
    /// Where it is said.
    pub place: &'static str,
    /// The study that decides it.
    pub study: &'static str,
    /// How it is decided.
    pub rule: &'static str,
    /// Decides it.
    check: fn(&Measured) -> Option<Finding>,
}

/// What came of a claim.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// Whether it held.
    pub verdict: Verdict,
    /// The numbers behind it, a line for each noise level where there are several.
    pub numbers: Vec<String>,
    /// Why, in one sentence.
    pub why: String,
}

/// A claim and what came of it.
pub struct Judged {
    /// The claim.
    pub claim: &'static Claim,
    /// What came of it.
    pub finding: Finding,
}

/// All claims, in the order of the report.
pub fn all() -> impl Iterator<Item = &'static Claim> {
    let groups = [
        clustering::CLAIMS,
        runtime::CLAIMS,
        personalization::CLAIMS,
        lastfm::CLAIMS,
        scaling::CLAIMS,
        own::CLAIMS,
    ];
    groups.into_iter().flatten()
}

/// Decides every claim.
pub fn judge(evidence: &Evidence) -> Vec<Judged> {
    all().map(|claim| Judged { claim, finding: find(claim, evidence) }).collect()
}

fn find(claim: &'static Claim, evidence: &Evidence) -> Finding {
    let unknown = |why: String| Finding { verdict: Verdict::Unknown, numbers: Vec::new(), why };
    let left_out = evidence.left_out.iter().find(|(name, ..)| name == claim.study);
    match (evidence.study(claim.study), left_out) {
        (Some(measured), _) => (claim.check)(measured).unwrap_or_else(|| {
            unknown(format!("this run of {} has too few settings or repetitions", claim.study))
        }),
        (None, Some((.., why))) => unknown(format!("no data: {why}")),
        (None, None) => unknown(format!("{} was not part of this run", claim.study)),
    }
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
