//! The results as JSON: `leaderboard.json`, the standings, and `results.json`, all numbers.

use serde_json::{Map, Value, json};

use super::play::{Complete, EntryResults, ProtocolResult};
use super::ranking::Standing;
use super::{Report, Request};

/// Standings, and what they rest on. `mode` is `full` or `quick`, `reps` the repetitions that every
/// protocol has at least.
pub fn leaderboard(request: &Request, report: &Report) -> String {
    let [published, tuned] = &report.standings;
    let rows = |standings: &[Standing]| standings.iter().map(standing).collect::<Vec<_>>();
    let reps = report.played.iter().map(|played| played.protocol.reps).min().unwrap_or(0);
    let protocols: Vec<Value> =
        report.played.iter().map(|played| protocol(played, report)).collect();
    let left_out: Vec<Value> = (report.left_out.iter())
        .map(|(name, why)| json!({ "protocol": name, "why": why }))
        .collect();
    pretty(&json!({
        "mode": if request.quick { "quick" } else { "full" },
        "reps": reps,
        "complete": !report.interrupted,
        "limits": { "seconds_per_run": request.seconds, "tuned_values": request.values() },
        "critical_difference": { "published": report.critical[0], "tuned": report.critical[1] },
        "standings": { "published": rows(published), "tuned": rows(tuned) },
        "protocols": protocols,
        "left_out": left_out,
    }))
}

fn standing(standing: &Standing) -> Value {
    json!({
        "policy": standing.name,
        "protocols": standing.protocols,
        "mean_rank": standing.mean_rank,
        "mean_rank_half_width_95": standing.rank_half_width,
        "win_rate": standing.win_rate,
        "relative_regret": standing.relative,
        "worst_case": { "protocol": standing.worst.1, "relative_regret": standing.worst.0 },
        "seconds": standing.seconds,
        "memory_bytes": standing.state_bytes,
    })
}

/// A protocol and its ranking at both sets of parameters.
fn protocol(played: &ProtocolResult, report: &Report) -> Value {
    let ranking = |version: usize| -> Vec<Value> {
        let all = super::ranking::order(played, &report.oracles, version);
        let best = all.first().map_or(f64::NAN, |(_, best)| best.regret());
        let row = |(at, complete): &(usize, &Complete)| {
            json!({
                "policy": report.names[*at],
                "regret": complete.regret(),
                "half_width_95": crate::results::half_width_95(&complete.regrets),
                "relative": complete.regret() / best,
            })
        };
        all.iter().map(row).collect()
    };
    json!({
        "name": played.protocol.name,
        "title": played.protocol.title,
        "users": played.users,
        "dim": played.dim,
        "rounds": played.protocol.rounds,
        "reps": played.protocol.reps,
        "published": ranking(0),
        "tuned": ranking(1),
    })
}

/// All numbers.
pub fn results(report: &Report) -> String {
    let of = |complete: &Complete| {
        json!({
            "regrets": complete.regrets,
            "seconds": complete.seconds,
            "state_bytes": complete.state_bytes,
            "tuned_to": complete.set,
        })
    };
    let value = |results: &EntryResults, at: usize| {
        let [published, tuned] = results.each_ref().map(|result| result.complete().map(of));
        let why = results[0].reason();
        json!({ "oracle": report.oracles[at], "published": published, "tuned": tuned, "why_not": why })
    };
    let protocols: Vec<Value> = (report.played.iter())
        .map(|played| {
            let policies: Map<String, Value> = (report.names.iter().zip(&played.results))
                .enumerate()
                .map(|(at, (name, results))| (name.clone(), value(results, at)))
                .collect();
            json!({
                "name": played.protocol.name,
                "users": played.users,
                "dim": played.dim,
                "rounds": played.protocol.rounds,
                "reps": played.protocol.reps,
                "policies": policies,
            })
        })
        .collect();
    pretty(&json!({ "protocols": protocols }))
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default() + "\n"
}
