//! One table per section.

use std::fmt::Write;

use super::markdown::{Table, count, time, times, whole};
use crate::forms::{DIM, arithmetic};
use crate::sections::{clubs, components, growth, limit, peers, phases, policies, refits};
use crate::world::ARMS;

pub fn policies(measured: &[policies::Measured]) -> String {
    let mut text = String::from(
        "User-rounds per second on one thread / on two; K = 25, 10 clusters, noise 0.1, every parameter at\n\
         its default, the horizon 100 to 1,000 rounds. Learning time alone, without the environment's;\n\
         policies with phases are measured over all phases that they came to in about half a second.\n",
    );
    let mut dims: Vec<usize> = measured.iter().map(|m| m.dim).collect();
    dims.sort_unstable();
    dims.dedup();
    for dim in dims {
        let of_dim: Vec<_> = measured.iter().filter(|m| m.dim == dim).collect();
        let mut sizes: Vec<usize> = of_dim.iter().map(|m| m.users).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let header: Vec<String> = std::iter::once(format!("d = {dim}"))
            .chain(sizes.iter().map(|users| format!("N = {}", whole(*users))))
            .collect();
        let mut table = Table::new(&header.iter().map(String::as_str).collect::<Vec<_>>());
        let mut names: Vec<&str> = of_dim.iter().map(|m| m.policy.as_str()).collect();
        names.dedup();
        let mut seen = Vec::new();
        for name in names {
            if seen.contains(&name) {
                continue;
            }
            seen.push(name);
            let mut cells = vec![format!("`{name}`")];
            for users in &sizes {
                let rate = |threads: usize| {
                    (of_dim.iter())
                        .find(|m| m.policy == name && m.users == *users && m.threads == threads)
                        .map_or("–".into(), |m| count(m.user_rounds_per_second))
                };
                cells.push(format!("{} / {}", rate(1), rate(2)));
            }
            table.row(&cells);
        }
        let _ = write!(text, "\n{}", table.finish());
    }
    text
}

pub fn limit(measured: &limit::Measured) -> String {
    let operations = arithmetic(DIM, ARMS);
    let peak = measured.peaks.first().map_or(f64::NAN, |peak| peak.per_second);
    let mut text = format!(
        "One thread, f64, d = 15, K = 25, N = {}. A user-round is {operations:.0} floating-point\n\
         operations in packed form; forms that do more of them are counted with these.\n\n",
        whole(limit::USERS)
    );
    let mut table = Table::new(&["form", "user-rounds/s", "GFLOP/s", "of the peak"]);
    for rate in &measured.peaks {
        let share = format!("{:.0} %", 100.0 * rate.per_second / peak);
        table.row(&[rate.name.clone(), "–".into(), format!("{:.1}", rate.per_second / 1e9), share]);
    }
    for rate in &measured.forms {
        let flops = rate.per_second * operations;
        let share = format!("{:.0} %", 100.0 * flops / peak);
        table.row(&[
            rate.name.clone(),
            count(rate.per_second),
            format!("{:.1}", flops / 1e9),
            share,
        ]);
    }
    let _ = write!(text, "{}\n`linucb-ind`, more users and more threads:\n\n", table.finish());
    let mut table = Table::new(&["N", "threads", "user-rounds/s"]);
    for scaling in &measured.scaling {
        let threads = scaling.threads.to_string();
        table.row(&[whole(scaling.users), threads, count(scaling.per_second)]);
    }
    text + &table.finish()
}

pub fn peers(measured: &peers::Measured) -> String {
    let mut text = String::from("One thread, d = 15, K = 25.\n\n");
    let mut table =
        Table::new(&["library", "user-rounds/s", "cohort is faster by", "how it was used"]);
    let ours = "`linucb-ind`, N = 4,096".into();
    table.row(&["**cohort**".into(), count(measured.ours), "–".into(), ours]);
    for peer in &measured.peers {
        let name = format!("{} {} ({})", peer.name, peer.version, peer.language);
        let rate = peer.per_second.map_or("–".into(), count);
        let ratio = peer.per_second.map_or("–".into(), |theirs| times(measured.ours / theirs));
        table.row(&[name, rate, ratio, peer.how.clone()]);
    }
    text.push_str(&table.finish());
    text
}

pub fn components(measured: &[components::Measured]) -> String {
    let mut text = String::from(
        "Connected components of the γ-neighbour graph, d = 15, points within 0.02 of their centres per\n\
         coordinate; seconds and peak memory of the process, all threads. `≡`: the same labels as ours.\n\n",
    );
    let mut names: Vec<&str> = Vec::new();
    for peer in measured.iter().flat_map(|m| &m.peers) {
        if !names.contains(&peer.peer.as_str()) {
            names.push(&peer.peer);
        }
    }
    let mut header = vec!["points, centres", "**cohort**"];
    header.extend(&names);
    let mut table = Table::new(&header);
    for m in measured.iter().filter(|m| m.case.hard.is_none()) {
        let mut cells = vec![
            format!("{}, {}", whole(m.case.points), whole(m.case.centres)),
            format!("{}, {:.0} MiB", time(m.ours.seconds), m.ours.peak_mib),
        ];
        cells.extend(names.iter().map(|name| {
            let Some(peer) = m.peers.iter().find(|peer| peer.peer == *name) else {
                return "–".into();
            };
            match (peer.seconds, &peer.failed) {
                (Some(seconds), _) => {
                    let same = if peer.same_labels == Some(true) { "≡" } else { "**≢**" };
                    format!("{}, {:.0} MiB {same}", time(seconds), peer.peak_mib)
                }
                (None, why) => why.clone().unwrap_or_else(|| "failed".into()),
            }
        }));
        table.row(&cells);
    }
    let _ = write!(text, "{}\nWhere it is hard (ours alone):\n\n", table.finish());
    let mut table = Table::new(&["points", "γ", "time", "components", "peak memory"]);
    for m in measured {
        let Some(what) = &m.case.hard else { continue };
        table.row(&[
            format!("{}: {what}", whole(m.case.points)),
            m.case.gamma.to_string(),
            time(m.ours.seconds),
            whole(m.ours.clusters),
            format!("{:.0} MiB", m.ours.peak_mib),
        ]);
    }
    text + &table.finish() + &hard_growth(measured)
}

/// The growth of the cost of the hard cases: the exponent between the smallest and the largest.
fn hard_growth(measured: &[components::Measured]) -> String {
    let mut kinds: Vec<&String> =
        measured.iter().filter_map(|case| case.case.hard.as_ref()).collect();
    kinds.sort();
    kinds.dedup();
    let exponents = kinds.into_iter().filter_map(|kind| {
        let mut of = measured.iter().filter(|m| m.case.hard.as_ref() == Some(kind));
        let (first, last) = (of.next()?, of.next_back()?);
        let more = (last.case.points as f64 / first.case.points as f64).ln();
        let exponent = (last.ours.seconds / first.ours.seconds).ln() / more;
        Some(format!("{kind}: N^{exponent:.2}"))
    });
    let exponents: Vec<String> = exponents.collect();
    if exponents.is_empty() {
        String::new()
    } else {
        format!(
            "\nHow the cost grows between the smallest and the largest: {}. Pairs grow as N².\n",
            exponents.join("; ")
        )
    }
}

pub fn growth(measured: &[growth::Measured]) -> String {
    let statistics = growth::STATISTICS_BYTES;
    let mut text = format!(
        "`linucb-ind`, 100 rounds, d = 15, K = 25, all threads. The statistics of a user (V⁻¹ packed, θ̂,\n\
         ln det V) are {statistics:.0} bytes; memory is the most that the process had beyond its start.\n\n",
    );
    let mut table =
        Table::new(&["N", "time", "user-rounds/s", "memory", "bytes a user", "of the statistics"]);
    for m in measured {
        let users = m.users as f64;
        table.row(&[
            whole(m.users),
            time(m.seconds),
            count(users * m.rounds as f64 / m.seconds),
            format!("{:.1} MiB", m.bytes / 1024.0 / 1024.0),
            format!("{:.0}", m.bytes / users),
            format!("{:.0} %", 100.0 * m.bytes / (users * statistics)),
        ]);
    }
    text.push_str(&table.finish());
    text
}

pub fn phases(measured: &phases::Measured) -> String {
    format!(
        "N = {}, 10 clusters (found: {}), d = 15, K = 25, one thread. The median round in which users\n\
         learn alone takes {}, that in which clusters learn {}: {} faster.\n",
        whole(measured.users),
        measured.clusters,
        time(measured.individual_seconds),
        time(measured.collaborative_seconds),
        times(measured.individual_seconds / measured.collaborative_seconds),
    )
}

pub fn clubs(measured: &[clubs::Measured]) -> String {
    let mut text = String::from(
        "Beside full recomputation at every turn, as their authors' codes do it (the oracles of the\n\
         tests), from the first turn on; users round-robin, 10 clusters, d = 15, K = 25.\n\n",
    );
    let mut table = Table::new(&[
        "policy",
        "N",
        "turns",
        "turns/s",
        "recomputed",
        "ratio",
        "same arms",
        "same clusters",
    ]);
    for m in measured {
        table.row(&[
            format!("`{}`", m.policy),
            whole(m.users),
            whole(m.turns),
            count(m.ours_per_second),
            count(m.naive_per_second),
            times(m.ours_per_second / m.naive_per_second),
            whole(m.same_arms),
            if m.same_clusters { "yes" } else { "**no**" }.into(),
        ]);
    }
    text.push_str(&table.finish());
    text
}

pub fn refits(measured: &refits::Measured) -> String {
    let mut text = String::from(
        "One refit of the population that `cohort` learns: ten kinds of users, 50 rewards each, d = 15, all\n\
         threads. The first starts from nothing, a warm one from the fit before.\n\n",
    );
    let mut table =
        Table::new(&["N", "first", "warm", "warm, a user", "warm, one thread", "cohorts found"]);
    for refit in &measured.refits {
        table.row(&[
            whole(refit.users),
            time(refit.first_seconds),
            time(refit.warm_seconds),
            time(refit.warm_seconds / refit.users as f64),
            time(refit.warm_seconds_one_thread),
            refit.cohorts.to_string(),
        ]);
    }
    let _ = writeln!(text, "{}", table.finish());
    text.push_str("A whole run, learning time alone, refits included:\n\n");
    let mut table = Table::new(&["N", "T", "threads", "`cohort`", "`linucb-ind`", "ratio"]);
    for run in &measured.runs {
        table.row(&[
            whole(run.users),
            whole(run.rounds),
            run.threads.to_string(),
            time(run.cohort_seconds),
            time(run.linucb_ind_seconds),
            times(run.cohort_seconds / run.linucb_ind_seconds),
        ]);
    }
    text.push_str(&table.finish());
    text
}
