//! The claim about run time.

use super::super::evidence::{Measured, Width};
use super::tally::median;
use super::{Claim, Finding, Verdict};
use crate::figures::scale::short;

pub(super) const CLAIMS: &[Claim] = &[Claim {
    id: "faster",
    statement: "Since SCLB only clusters users logarithmically many number of times, its run-time is \
                faster compared to CLUB.",
    place: "Section 7.1",
    study: "runtime",
    needs: None,
    rule: "sclb takes fewer seconds of learning than club, counted over N",
    check: faster,
}];

fn faster(measured: &Measured) -> Option<Finding> {
    let mut ratios = Vec::new();
    let mut lines = Vec::new();
    for cell in &measured.cells {
        let seconds = |label| cell.played(Width::Paper, label).map(|played| played.seconds());
        let (sclb, club) = (seconds("sclb")?, seconds("club")?);
        ratios.push(club / sclb);
        lines.push(format!("N = {}: sclb {} s, club {} s", cell.users, short(sclb), short(club)));
    }
    let held = ratios.iter().filter(|ratio| **ratio > 1.0).count();
    let all = ratios.len();
    (all > 0).then(|| Finding {
        verdict: Verdict::of_share(held as f64 / all as f64),
        tuned: None,
        numbers: lines,
        why: format!(
            "sclb is faster at {held} of {all} sizes; club takes ×{} its time in the median, both in \
             this program's own implementation.",
            short(median(ratios))
        ),
    })
}
