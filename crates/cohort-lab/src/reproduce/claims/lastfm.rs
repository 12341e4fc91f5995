//! Claims about Figure 3.

use cohort::policies::cmlb::explore_rounds;

use super::super::evidence::{Measured, SettingResult, Width};
use super::clustering::COMPETITIVE;
use super::{Claim, Finding, Verdict};
use crate::figures::scale::short;

/// An algorithm that has less than this share of random's regret performs well.
const WELL: f64 = 0.5;

pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        id: "lastfm-competitive",
        statement: "We see that CMLB is competitive [with CLUB on Last.FM].",
        place: "Section 7.2",
        study: "fig3",
        needs: None,
        rule: "cmlb's ratio to random (shared offers) is at most 1.1 times club's (offers with one \
               liked artist), as the paper compares them",
        check: competitive,
    },
    Claim {
        id: "lastfm-neither",
        statement: "Our results indicate that neither algorithms perform well on this dataset.",
        place: "Section 7.2",
        study: "fig3",
        needs: None,
        rule: "cmlb and club, each on its own task, keep more than half of random's regret",
        check: neither,
    },
    Claim {
        id: "lastfm-sclb",
        statement: "We observe similar behavior of SCLB as well.",
        place: "Section 7.2",
        study: "fig3",
        needs: None,
        rule: "sclb's ratio to random is within 10 % of cmlb's",
        check: sclb_alike,
    },
    Claim {
        id: "lastfm-sclb-beats-club",
        statement: "In simulations we observe that SCLB outperforms CLUB in […] a real data setting.",
        place: "Section 2.2",
        study: "fig3",
        needs: None,
        rule: "sclb's ratio to random (shared offers) is lower than club's (offers with one liked \
               artist) and lower than club's on the same shared offers",
        check: sclb_beats_club,
    },
    Claim {
        id: "lastfm-harder",
        statement: "At every time, a large fraction of users have the best-reward of 0 [with shared \
                    offers], while the best reward is always 1 for CLUB.",
        place: "Appendix A.2",
        study: "fig3",
        needs: None,
        rule: "the share of users with nothing to like among 25 shared artists, from the regret of \
               random, is more than a half",
        check: harder,
    },
];

fn offer<'a>(measured: &'a Measured, offer: &'a str) -> Option<&'a SettingResult> {
    measured.with("offer", offer).next()
}

/// A policy's regret as a ratio to random's.
fn ratio(cell: &SettingResult, width: Width, label: &str) -> Option<f64> {
    Some(cell.compare(width, label, "random")?.ratio)
}

fn numbers(measured: &Measured) -> Vec<String> {
    let mut lines = Vec::new();
    for offered in measured.values("offer") {
        for &width in measured.widths() {
            let Some(cell) = offer(measured, &offered) else { continue };
            let parts: Vec<String> = (cell.all(width))
                .filter(|played| played.label != "random")
                .filter_map(|played| {
                    Some(format!("{} {}", played.label, short(ratio(cell, width, &played.label)?)))
                })
                .collect();
            lines.push(format!("offers {offered}, {width} width: {}", parts.join(", ")));
        }
    }
    lines
}

/// T_explore with the constants printed for Last.FM, and what follows.
fn never_clusters(cell: &SettingResult) -> String {
    let (alpha, c, delta) = (0.5, 0.5, 0.3);
    let explore = explore_rounds(c, cell.dim, cell.users, cell.rounds, alpha, delta, 1.0);
    let then = if explore >= cell.rounds {
        "so cmlb never clusters and is linucb-ind"
    } else {
        "then it clusters"
    };
    let (explore, rounds) = (short(explore as f64), cell.rounds);
    format!("with α = C = 0.5, δ = 0.3 T_explore is {explore} rounds of {rounds}, {then}")
}

fn competitive(measured: &Measured) -> Option<Finding> {
    let (shared, liked) = (offer(measured, "shared")?, offer(measured, "liked")?);
    let cmlb = ratio(shared, Width::Paper, "cmlb")?;
    let club = ratio(liked, Width::Paper, "club")?;
    let same = ratio(shared, Width::Paper, "club")?;
    Some(Finding {
        verdict: Verdict::of(cmlb <= COMPETITIVE * club),
        tuned: None,
        numbers: numbers(measured),
        why: format!(
            "cmlb keeps {} of random's regret, club {} on its own task and {} on cmlb's; {}.",
            short(cmlb),
            short(club),
            short(same),
            never_clusters(shared)
        ),
    })
}

fn neither(measured: &Measured) -> Option<Finding> {
    let (shared, liked) = (offer(measured, "shared")?, offer(measured, "liked")?);
    let cmlb = ratio(shared, Width::Paper, "cmlb")?;
    let club = ratio(liked, Width::Paper, "club")?;
    let poor = [cmlb, club].iter().filter(|ratio| **ratio > WELL).count();
    let best = |cell: &SettingResult, width| -> Option<(f64, String)> {
        let all = cell.all(width).filter(|played| played.label != "random");
        all.filter_map(|played| Some((ratio(cell, width, &played.label)?, played.label.clone())))
            .min_by(|a, b| a.0.total_cmp(&b.0))
    };
    let width = *measured.widths().last()?;
    let (least, who) = best(shared, width)?;
    Some(Finding {
        verdict: Verdict::of_share(poor as f64 / 2.0),
        tuned: None,
        numbers: numbers(measured),
        why: format!(
            "cmlb keeps {} and club {} of random's regret after {} rounds; the best of all here on \
             shared offers is {who} with {} ({width} width).",
            short(cmlb),
            short(club),
            shared.rounds,
            short(least)
        ),
    })
}

fn sclb_alike(measured: &Measured) -> Option<Finding> {
    let shared = offer(measured, "shared")?;
    let (sclb, cmlb) = (ratio(shared, Width::Paper, "sclb")?, ratio(shared, Width::Paper, "cmlb")?);
    Some(Finding {
        verdict: Verdict::of((sclb / cmlb - 1.0).abs() <= COMPETITIVE - 1.0),
        tuned: None,
        numbers: numbers(measured),
        why: format!(
            "sclb keeps {} of random's regret, cmlb {}; {}.",
            short(sclb),
            short(cmlb),
            never_clusters(shared)
        ),
    })
}

fn sclb_beats_club(measured: &Measured) -> Option<Finding> {
    let (shared, liked) = (offer(measured, "shared")?, offer(measured, "liked")?);
    let sclb = ratio(shared, Width::Paper, "sclb")?;
    let own = ratio(liked, Width::Paper, "club")?;
    let same = ratio(shared, Width::Paper, "club")?;
    let held = [own, same].iter().filter(|club| sclb < **club).count();
    Some(Finding {
        verdict: Verdict::of_share(held as f64 / 2.0),
        tuned: None,
        numbers: numbers(measured),
        why: format!(
            "sclb keeps {} of random's regret; club keeps {} on its own task and {} on sclb's.",
            short(sclb),
            short(own),
            short(same)
        ),
    })
}

fn harder(measured: &Measured) -> Option<Finding> {
    let shared = offer(measured, "shared")?;
    // A random arm of 25 is the liked one once in 25 times.
    let per_round = shared.regret(Width::Paper, "random")? / shared.rounds as f64;
    let nothing = 1.0 - per_round * 25.0 / 24.0;
    Some(Finding {
        verdict: Verdict::of(nothing > 0.5),
        tuned: None,
        numbers: vec![format!("random loses {} a round with shared offers", short(per_round))],
        why: format!(
            "About {:.0} % of users have nothing to like among 25 shared artists, so their regret is 0 \
             whatever is played.",
            100.0 * nothing
        ),
    })
}
