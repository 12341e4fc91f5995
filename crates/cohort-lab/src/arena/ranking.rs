//! The ranking over all protocols: mean ranks, wins, and the worst case.

use super::entry::Entry;
use super::play::{Complete, ProtocolResult};

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

/// Policies that are ranked in a protocol, best first: place among entries, and what came of it.
pub fn order<'a>(
    played: &'a ProtocolResult,
    oracles: &[bool],
    version: usize,
) -> Vec<(usize, &'a Complete)> {
    let mut all: Vec<(usize, &Complete)> = (played.results.iter().enumerate())
        .filter(|(at, _)| !oracles[*at])
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

/// All ranked participants, best first.
pub fn standings(played: &[ProtocolResult], entries: &[Entry], version: usize) -> Vec<Standing> {
    let places = entries.iter().filter(|entry| !entry.oracle).count() as f64;
    let oracles: Vec<bool> = entries.iter().map(|entry| entry.oracle).collect();
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
            let field = order(played, &oracles, version);
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

/// By how much mean ranks over protocols must differ to be told apart at 5 % (Nemenyi's test, which
/// compares all with all): q·√(k(k + 1)/(6n)), k policies in n protocols; none of fewer than two.
pub fn critical_difference(policies: usize, protocols: usize) -> Option<f64> {
    if policies < 2 || protocols < 2 {
        return None;
    }
    // The range of k normal numbers is at most r with probability k∫φ(z)(Φ(z + r) − Φ(z))^{k−1}dz.
    let within = |range: f64| {
        const STEP: f64 = 1e-3;
        let step = |at: i32| {
            let z = STEP * f64::from(at);
            let density = (-z * z / 2.0).exp() / std::f64::consts::TAU.sqrt();
            STEP * density * (normal(z + range) - normal(z)).powi(policies as i32 - 1)
        };
        policies as f64 * (-9000..9000).map(step).sum::<f64>()
    };
    let (mut low, mut high) = (0.0, 20.0);
    for _ in 0..40 {
        let middle = (low + high) / 2.0;
        if within(middle) < 0.95 { low = middle } else { high = middle }
    }
    let count = policies as f64;
    Some(high / 2f64.sqrt() * (count * (count + 1.0) / (6.0 * protocols as f64)).sqrt())
}

/// Φ, to seven digits: Abramowitz and Stegun, 26.2.17.
fn normal(z: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * z.abs());
    let terms = [0.319_381_530, -0.356_563_782, 1.781_477_937, -1.821_255_978, 1.330_274_429];
    let sum = terms.iter().rev().fold(0.0, |sum, term| (sum + term) * t);
    let upper = (-z * z / 2.0).exp() / std::f64::consts::TAU.sqrt() * sum;
    if z < 0.0 { upper } else { 1.0 - upper }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// q₀.₀₅ of Demšar, JMLR 2006, Table 5: 1.960 of two, 2.728 of five, 3.164 of ten.
    #[test]
    fn critical_differences_are_those_of_the_tables() {
        for (policies, q) in [(2, 1.960), (5, 2.728), (10, 3.164)] {
            let count = f64::from(policies);
            let expected = q * (count * (count + 1.0) / 72.0).sqrt();
            let found = critical_difference(policies as usize, 12).unwrap();
            assert!((found / expected - 1.0).abs() < 1e-3, "{policies}: {found} for {expected}");
        }
        assert_eq!(critical_difference(3, 1), None);
    }

    #[test]
    fn equal_regrets_share_their_places() {
        let all = [3.0, 1.0, 3.0, 7.0];
        assert_eq!(all.map(|own| rank(own, &all)), [2.5, 1.0, 2.5, 4.0]);
    }
}
