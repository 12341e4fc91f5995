//! Who is better, over all protocols: mean ranks, wins, and the worst case.

use super::entry::Entry;
use super::play::{Complete, Played};

/// Where a policy stands over all protocols that it played.
#[derive(Clone, Debug)]
pub struct Standing {
    /// The policy.
    pub name: String,
    /// In how many protocols it played.
    pub protocols: usize,
    /// Its mean rank, 1 is best; in a protocol where fewer play, ranks are spread over all places.
    pub mean_rank: f64,
    /// Half of the 95 % interval of the mean rank over protocols; none of one protocol.
    pub rank_half_width: Option<f64>,
    /// The share of opponents, mean over protocols, that had more regret.
    pub win_rate: f64,
    /// Its regret relative to the best of a protocol: geometric mean.
    pub relative: f64,
    /// The largest, and where.
    pub worst: (f64, String),
    /// Seconds of all protocols together, for one repetition of each.
    pub seconds: f64,
    /// The largest state in bytes, where it can be kept.
    pub state_bytes: Option<u64>,
}

/// Policies that are ranked in a protocol: place among entries, and what came of it.
pub fn ranked<'a>(
    played: &'a Played,
    entries: &[Entry],
    version: usize,
) -> Vec<(usize, &'a Complete)> {
    let mut all: Vec<(usize, &Complete)> = (played.results.iter().enumerate())
        .filter(|(at, _)| !entries[*at].oracle)
        .filter_map(|(at, results)| Some((at, results[version].complete()?)))
        .collect();
    all.sort_by(|a, b| a.1.regret().total_cmp(&b.1.regret()));
    all
}

/// The rank of one of some regrets: 1 is best, equal ones share the mean of their places.
fn rank(own: f64, all: &[f64]) -> f64 {
    let below = all.iter().filter(|other| **other < own).count() as f64;
    let same = all.iter().filter(|other| **other == own).count() as f64;
    below + (same + 1.0) / 2.0
}

/// Everybody who is ranked, best first.
pub fn standings(played: &[Played], entries: &[Entry], version: usize) -> Vec<Standing> {
    let places = entries.iter().filter(|entry| !entry.oracle).count() as f64;
    let mut all = Vec::new();
    for (at, entry) in entries.iter().enumerate().filter(|(_, entry)| !entry.oracle) {
        let (mut ranks, mut wins, mut logs) = (Vec::new(), 0.0, 0.0);
        let mut standing = Standing {
            name: entry.name.clone(),
            protocols: 0,
            mean_rank: 0.0,
            rank_half_width: None,
            win_rate: 0.0,
            relative: 0.0,
            worst: (0.0, String::new()),
            seconds: 0.0,
            state_bytes: None,
        };
        for played in played {
            let field = ranked(played, entries, version);
            let Some((_, own)) = field.iter().find(|(other, _)| *other == at) else { continue };
            let regrets: Vec<f64> = field.iter().map(|(_, other)| other.regret()).collect();
            let place = rank(own.regret(), &regrets);
            let opponents = (regrets.len() - 1).max(1) as f64;
            ranks.push(1.0 + (place - 1.0) * (places - 1.0) / opponents);
            wins += (regrets.len() as f64 - place) / opponents;
            let relative = own.regret() / regrets[0].max(f64::MIN_POSITIVE);
            logs += relative.ln();
            if relative > standing.worst.0 {
                standing.worst = (relative, played.protocol.name.clone());
            }
            standing.seconds += own.seconds;
            standing.state_bytes = standing.state_bytes.max(own.state_bytes);
        }
        if ranks.is_empty() {
            continue;
        }
        let count = ranks.len() as f64;
        standing.protocols = ranks.len();
        standing.mean_rank = ranks.iter().sum::<f64>() / count;
        standing.rank_half_width = crate::results::half_width_95(&ranks);
        standing.win_rate = wins / count;
        standing.relative = (logs / count).exp();
        all.push(standing);
    }
    all.sort_by(|a, b| a.mean_rank.total_cmp(&b.mean_rank));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_regrets_share_their_places() {
        let all = [3.0, 1.0, 3.0, 7.0];
        assert_eq!(all.map(|own| rank(own, &all)), [2.5, 1.0, 2.5, 4.0]);
    }
}
