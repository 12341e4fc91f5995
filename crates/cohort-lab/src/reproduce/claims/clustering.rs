//! Claims about Figure 1.

use super::super::evidence::{Measured, SettingResult, UserTruth, Width};
use super::tally::{median_ratio, tally};
use super::{Claim, Finding};
use crate::figures::scale::short;

/// Regret up to so many times another's is competitive with it, or no worse.
pub(super) const COMPETITIVE: f64 = 1.1;

const OURS: [&str; 2] = ["sclb", "cmlb"];
const CLUBS: [&str; 2] = ["club", "sclub"];

pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        id: "superior",
        statement: "We observe that our algorithms have superior performance compared to the \
                    benchmarks [CLUB, SCLUB, no collaboration] in a variety of settings.",
        place: "Section 2.1",
        study: "fig1",
        needs: None,
        rule: "the better of sclb and cmlb has less regret than each of club, sclub and linucb-ind \
               (paired 95 % interval), counted over settings",
        check: superior,
    },
    Claim {
        id: "sclb-beats-club",
        statement: "In simulations we observe that SCLB outperforms CLUB in a variety of synthetic \
                    [settings].",
        place: "Sections 2.2 and 3",
        study: "fig1",
        needs: None,
        rule: "sclb has less regret than club (paired 95 % interval), counted over settings",
        check: sclb_beats_club,
    },
    Claim {
        id: "competitive",
        statement: "Our algorithm is competitive with respect to CLUB and Set CLUB.",
        place: "Section 7.1",
        study: "fig1",
        needs: None,
        rule: "sclb and cmlb have at most 1.1 times the regret of club and of sclub, counted over \
               pairs and settings",
        check: competitive,
    },
    Claim {
        id: "beats-independent",
        statement: "[Our algorithm] is superior compared to the baseline where each agent is playing \
                    an independent copy of OFUL.",
        place: "Section 7.1",
        study: "fig1",
        needs: None,
        rule: "sclb and cmlb each have less regret than linucb-ind (paired 95 % interval), counted \
               over policies and settings",
        check: beats_independent,
    },
    Claim {
        id: "imbalance",
        statement: "As the clusters become more imbalanced, SCLB and CMLB have a superior performance \
                    compared to CLUB and Set CLUB.",
        place: "Section 7.1",
        study: "fig1",
        needs: None,
        rule: "at the largest z, sclb and cmlb have less regret than club and sclub (paired 95 % \
               interval), counted over pairs and settings",
        check: |measured| at_the_largest(measured, "imbalance", "z"),
    },
    Claim {
        id: "more-users",
        statement: "As the number of users increases, SCLB and CMLB have a superior performance \
                    compared to CLUB and Set CLUB.",
        place: "Section 7.1",
        study: "fig1",
        needs: None,
        rule: "at the largest N, sclb and cmlb have less regret than club and sclub (paired 95 % \
               interval), counted over pairs and settings",
        check: |measured| at_the_largest(measured, "users", "N"),
    },
    Claim {
        id: "size-not-needed",
        statement: "In simulations, we observe that the size input to CMLB is not needed.",
        place: "Remark 5",
        study: "fig1",
        needs: None,
        rule: "cmlb with p* = 0 has at most 1.1 times the regret it has with p* = 0.05 and 0.005, counted \
               over settings in which no cluster has a smaller share, as Lemma 1 asks, and p*N > 1: a smaller \
               p* changes nothing",
        check: size_not_needed,
    },
    Claim {
        id: "worst-case",
        statement: "In the worst case, the regret of any user is no worse than that of having \
                    individual algorithms per user.",
        place: "Abstract",
        study: "fig1",
        needs: None,
        rule: "sclb has at most 1.1 times the regret of linucb-ind, counted over settings",
        check: worst_case,
    },
    Claim {
        id: "worst-case-users",
        statement: "In the worst case, the regret of any user is no worse than that of having \
                    individual algorithms per user (user by user).",
        place: "Abstract",
        study: "fig1",
        needs: None,
        rule: "at least 90 % of users have at most 1.1 times the regret under sclb that they have under \
               linucb-ind in the same repetition, counted over settings",
        check: any_user,
    },
];

/// Both policies of every pair that is there.
fn pairs<'a>(
    cell: &'a SettingResult,
    width: Width,
    ours: &'a [&str],
    theirs: &'a [&str],
) -> impl Iterator<Item = super::super::evidence::Comparison> + 'a {
    ours.iter().flat_map(move |ours| {
        theirs.iter().filter_map(move |theirs| cell.compare(width, ours, theirs))
    })
}

/// What restarting costs, and what throwing nothing away would give.
fn warm_instead(measured: &Measured) -> String {
    let ratio = |ours| median_ratio(measured, Width::Paper, ours, "linucb-ind");
    format!(
        "against linucb-ind the median regret is sclb ×{}, cmlb ×{}; the variants that never throw a \
         reward away have sclb-warm ×{}, cmlb-warm ×{}",
        short(ratio("sclb")),
        short(ratio("cmlb")),
        short(ratio("sclb-warm")),
        short(ratio("cmlb-warm"))
    )
}

fn superior(measured: &Measured) -> Option<Finding> {
    let tally = tally(measured, |cell, width| {
        let better = *OURS.iter().min_by(|a, b| {
            let regret = |label: &str| cell.regret(width, label).unwrap_or(f64::INFINITY);
            regret(a).total_cmp(&regret(b))
        })?;
        let mut worst: f64 = 0.0;
        let mut beats_all = true;
        for benchmark in ["club", "sclub", "linucb-ind"] {
            if let Some(comparison) = cell.compare(width, better, benchmark) {
                worst = worst.max(comparison.ratio);
                beats_all &= comparison.lower;
            }
        }
        Some(vec![(worst, beats_all)])
    })?;
    let what = "The better of sclb and cmlb beats every benchmark";
    Some(tally.finding("ratio to the best benchmark", what, &warm_instead(measured)))
}

fn sclb_beats_club(measured: &Measured) -> Option<Finding> {
    let tally = tally(measured, |cell, width| {
        let comparison = cell.compare(width, "sclb", "club")?;
        Some(vec![(comparison.ratio, comparison.lower)])
    })?;
    let because = format!(
        "its regret is ×{} club's in the median ({})",
        short(tally.median(Width::Paper)),
        restart_cost(measured)
    );
    Some(tally.finding("sclb/club", "sclb has less regret than club", &because))
}

fn restart_cost(measured: &Measured) -> String {
    let cost = median_ratio(measured, Width::Paper, "sclb", "sclb-warm");
    format!("starting afresh in every phase costs it ×{} against sclb-warm", short(cost))
}

fn competitive(measured: &Measured) -> Option<Finding> {
    let tally = tally(measured, |cell, width| {
        let compared = pairs(cell, width, &OURS, &CLUBS);
        Some(compared.map(|pair| (pair.ratio, pair.ratio <= COMPETITIVE)).collect())
    })?;
    let ratio = |ours, theirs| short(median_ratio(measured, Width::Paper, ours, theirs));
    let because = format!(
        "median ratio to club: cmlb ×{}, sclb ×{}",
        ratio("cmlb", "club"),
        ratio("sclb", "club")
    );
    let what = "sclb and cmlb are within 1.1 times club and sclub";
    Some(tally.finding("ratio", what, &because))
}

fn beats_independent(measured: &Measured) -> Option<Finding> {
    let tally = tally(measured, |cell, width| {
        let compared = pairs(cell, width, &OURS, &["linucb-ind"]);
        Some(compared.map(|pair| (pair.ratio, pair.lower)).collect())
    })?;
    let what = "sclb and cmlb have less regret than linucb-ind";
    Some(tally.finding("ratio to linucb-ind", what, &warm_instead(measured)))
}

fn at_the_largest(measured: &Measured, key: &str, symbol: &str) -> Option<Finding> {
    let values = measured.values(key);
    let largest = values.last()?;
    let tally = tally(measured, |cell, width| {
        if cell.setting.text(key).as_ref() != Some(largest) {
            return None;
        }
        let compared = pairs(cell, width, &OURS, &CLUBS);
        Some(compared.map(|pair| (pair.ratio, pair.lower)).collect())
    })?;
    let trend: Vec<String> = (values.iter())
        .map(|value| {
            let ratios = |ours| {
                let cells = measured.with(key, value);
                let ratios = cells.filter_map(|cell| cell.compare(Width::Paper, ours, "club"));
                short(super::tally::median(ratios.map(|pair| pair.ratio).collect()))
            };
            format!("{symbol} = {value}: sclb ×{}, cmlb ×{}", ratios("sclb"), ratios("cmlb"))
        })
        .collect();
    let what = format!("At {symbol} = {largest} sclb and cmlb beat club and sclub");
    let because = format!("median regret against club, {}", trend.join("; "));
    Some(tally.finding("ratio", &what, &because))
}

fn size_not_needed(measured: &Measured) -> Option<Finding> {
    let tally = tally(measured, |cell, width| {
        let smallest = cell.people.iter().map(UserTruth::smallest_share).fold(1.0, f64::min);
        let told = [("cmlb p*=0.05", 0.05), ("cmlb p*=0.005", 0.005)];
        let matters = |share: f64| share <= smallest && share * cell.users as f64 > 1.0;
        let allowed = told.into_iter().filter(|(_, share)| matters(*share));
        let compared = allowed.filter_map(|(label, _)| cell.compare(width, "cmlb", label));
        Some(compared.map(|pair| (pair.ratio, pair.ratio <= COMPETITIVE)).collect())
    })?;
    let because = format!(
        "p* = 0 has ×{} the regret of a p* that the lemma allows in the median",
        short(tally.median(Width::Paper))
    );
    Some(tally.finding("p* = 0 to p* > 0", "cmlb does as well without the size", &because))
}

/// The share of users who are no worse off with one policy than with another.
fn no_worse_off(cell: &SettingResult, width: Width, ours: &str, theirs: &str) -> Option<f64> {
    let (ours, theirs) = (cell.played(width, ours)?, cell.played(width, theirs)?);
    let (mut held, mut all) = (0usize, 0usize);
    for (ours, theirs) in ours.outcomes.iter().zip(&theirs.outcomes) {
        for (ours, theirs) in ours.users.iter().zip(&theirs.users) {
            held += usize::from(f64::from(*ours) <= COMPETITIVE * f64::from(*theirs));
            all += 1;
        }
    }
    (all > 0).then(|| held as f64 / all as f64)
}

fn any_user(measured: &Measured) -> Option<Finding> {
    let tally = tally(measured, |cell, width| {
        let share = no_worse_off(cell, width, "sclb", "linucb-ind")?;
        Some(vec![(share, share >= 0.9)])
    })?;
    let because = format!(
        "{:.0} % of users are no worse off in the median setting at the paper's widths",
        100.0 * tally.median(Width::Paper)
    );
    Some(tally.finding("share of users", "Almost no user is worse off with sclb", &because))
}

fn worst_case(measured: &Measured) -> Option<Finding> {
    let tally = tally(measured, |cell, width| {
        let comparison = cell.compare(width, "sclb", "linucb-ind")?;
        Some(vec![(comparison.ratio, comparison.ratio <= COMPETITIVE)])
    })?;
    Some(tally.finding("sclb/linucb-ind", "sclb is no worse", &restart_cost(measured)))
}
