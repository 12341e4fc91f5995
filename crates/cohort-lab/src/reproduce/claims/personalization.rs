//! Claims about Figure 2.

use super::super::evidence::{Measured, SettingResult, Width};
use super::tally::{Tally, median, tally};
use super::{Claim, Finding};
use crate::figures::scale::short;

/// Regret of less than this share of another's is much lower.
const MUCH_LOWER: f64 = 0.75;
/// Regret up to so many times another's is comparable.
const COMPARABLE: f64 = 1.25;

pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        id: "pmlb-low-spread",
        statement: "When σ is low, in which case every user is close to the average, the regret of \
                    PMLB is much lower compared to the baselines.",
        place: "Section 7.1",
        study: "fig2",
        needs: None,
        rule: "at the smallest spread, pmlb has at most 0.75 times the regret of linucb-ind, counted \
               over settings",
        check: low_spread,
    },
    Claim {
        id: "pmlb-high-spread",
        statement: "When σ is large, i.e., there is no structure to exploit, the regret of PMLB is \
                    comparable to the baselines.",
        place: "Section 7.1",
        study: "fig2",
        needs: None,
        rule: "at the largest spread, pmlb has at most 1.25 times the regret of linucb-ind, counted \
               over settings",
        check: high_spread,
    },
    Claim {
        id: "pmlb-adapts",
        statement: "PMLB adapts to the available structure.",
        place: "Section 7.1",
        study: "fig2",
        needs: None,
        rule: "pmlb's regret as a ratio to linucb-ind's is lower at the smallest spread than at the \
               largest, counted over noise levels and scalings",
        check: adapts,
    },
    Claim {
        id: "pmlb-superior",
        statement: "We observe similar [superior] performance in the personalization framework also.",
        place: "Section 2.1",
        study: "fig2",
        needs: None,
        rule: "pmlb has less regret than linucb-ind (paired 95 % interval), counted over settings",
        check: superior,
    },
];

fn variants(measured: &Measured, spread: &str) -> String {
    let ratio = |ours: &str| {
        let cells = measured.with("spread", spread);
        let ratios = cells.filter_map(|cell| cell.compare(Width::Paper, ours, "linucb-ind"));
        short(median(ratios.map(|pair| pair.ratio).collect()))
    };
    format!(
        "median regret against linucb-ind at s = {spread}: pmlb ×{}, pmlb-compensated ×{}, pmlb-warm \
         ×{}, common ×{}",
        ratio("pmlb"),
        ratio("pmlb-compensated"),
        ratio("pmlb-warm"),
        ratio("common")
    )
}

/// The letter chooses arms for θ_i − θ̂*, not for θ_i: what adding θ̂* back changes.
fn why_the_letter(measured: &Measured, spread: &str) -> String {
    let ratios = measured
        .with("spread", spread)
        .filter_map(|cell| cell.compare(Width::Paper, "pmlb", "pmlb-compensated"));
    let ratio = median(ratios.map(|pair| pair.ratio).collect());
    format!(
        "the letter picks the arm that is best for θ_i − θ̂* and so has ×{} the regret of \
         pmlb-compensated, which adds θ̂* back when choosing; {}",
        short(ratio),
        variants(measured, spread)
    )
}

fn at_spread(measured: &Measured, spread: &str, most: f64) -> Option<Tally> {
    tally(measured, |cell: &SettingResult, width| {
        if cell.setting.text("spread").as_deref() != Some(spread) {
            return None;
        }
        let pair = cell.compare(width, "pmlb", "linucb-ind")?;
        Some(vec![(pair.ratio, pair.ratio <= most)])
    })
}

fn low_spread(measured: &Measured) -> Option<Finding> {
    let spreads = measured.values("spread");
    let least = spreads.first()?;
    let tally = at_spread(measured, least, MUCH_LOWER)?;
    let what = format!("At s = {least} pmlb is much lower than linucb-ind");
    Some(tally.finding("pmlb/linucb-ind", &what, &why_the_letter(measured, least)))
}

fn high_spread(measured: &Measured) -> Option<Finding> {
    let spreads = measured.values("spread");
    let most = spreads.last()?;
    let tally = at_spread(measured, most, COMPARABLE)?;
    let what = format!("At s = {most} pmlb is comparable to linucb-ind");
    Some(tally.finding("pmlb/linucb-ind", &what, &variants(measured, most)))
}

fn adapts(measured: &Measured) -> Option<Finding> {
    let spreads = measured.values("spread");
    let (least, most) = (spreads.first()?, spreads.last()?);
    let tally = tally(measured, |cell, width| {
        if cell.setting.text("spread").as_ref() != Some(least) {
            return None;
        }
        let same = |other: &&SettingResult| {
            ["noise", "unit_ball"]
                .iter()
                .all(|key| cell.setting.text(key) == other.setting.text(key))
        };
        let far = measured.with("spread", most).find(same)?;
        let near = cell.compare(width, "pmlb", "linucb-ind")?.ratio;
        let ratio = near / far.compare(width, "pmlb", "linucb-ind")?.ratio;
        Some(vec![(ratio, ratio < 1.0)])
    })?;
    let what = format!("pmlb gains on linucb-ind as s falls from {most} to {least}");
    Some(tally.finding("of the ratios at both ends", &what, &variants(measured, least)))
}

fn superior(measured: &Measured) -> Option<Finding> {
    let tally = tally(measured, |cell, width| {
        let pair = cell.compare(width, "pmlb", "linucb-ind")?;
        Some(vec![(pair.ratio, pair.lower)])
    })?;
    let spreads = measured.values("spread");
    let because = why_the_letter(measured, spreads.first()?);
    Some(tally.finding("pmlb/linucb-ind", "pmlb has less regret than linucb-ind", &because))
}
