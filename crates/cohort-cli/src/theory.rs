//! `cohort theory`: the paper's constants and bounds for given inputs.

use clap::Args;
use cohort_lab::theory::{self, Bound, ClusterTheory, Inputs, Lists, PersonalTheory};

use crate::described::TheoryFlags;
use crate::failure::{Done, Failure, print};
use crate::summary_table::aligned;

const EXAMPLES: &str = "\
Examples:
  cohort theory
      the numbers of the paper's simulations
  cohort theory --rounds 1e5 --delta 1e-6 --shares 0.6,0.3,0.1 --separations 1,1,0.05
      three clusters, the last of them close to another
  cohort theory --epsilons 0,0.01,0.5 --json
      users at three distances from the average, for another program";

/// Compute the paper's constants, schedules and regret bounds
///
/// Bounds hold up to constants, which are taken as 1: they tell how regret grows, not how large
/// it is.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Theory {
    /// p_i, the share of users in every cluster, instead of --clusters and --imbalance
    #[arg(long, value_name = "P,…", value_delimiter = ',', allow_hyphen_values = true)]
    shares: Vec<f64>,
    /// Δ_i, the distance of every cluster to the nearest other: one for each, or one for all
    /// [default: √2, about that of centres drawn on the sphere]
    #[arg(long, value_name = "D,…", value_delimiter = ',', allow_hyphen_values = true)]
    separations: Vec<f64>,
    /// ε_i, the distance of users from the average user [default: 0,0.1,1]
    #[arg(long, value_name = "E,…", value_delimiter = ',', allow_hyphen_values = true)]
    epsilons: Vec<f64>,
    /// Print everything as JSON, and nothing else
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    numbers: TheoryFlags,
}

impl Theory {
    /// Checks, computes, prints.
    pub fn run(self) -> Result<Done, Failure> {
        let lists =
            Lists { shares: self.shares, separations: self.separations, epsilons: self.epsilons };
        let theory = theory::Theory::new(&Inputs::new(self.numbers.given, lists)?);
        print(&if self.json {
            format!("{:#}\n", serde_json::json!(theory))
        } else {
            let sections = [
                title(&theory.inputs),
                constants(&theory),
                clusters(&theory.clusters),
                all_close(&theory.all_close),
                phases(&theory),
                epochs(&theory),
                personal(&theory.personalization),
                alb_norm(&theory.alb_norm),
            ];
            sections.join("\n")
        })?;
        Ok(Done::Complete)
    }
}

fn title(inputs: &Inputs) -> String {
    format!(
        "N = {} users, T = {} rounds, d = {}, K = {} arms, ρ_min = {}, δ = {}, α = {}, C = {}\n\
         All other constants are 1; a bound marked * is outside what its statement needs.\n",
        inputs.users,
        inputs.rounds,
        inputs.dim,
        inputs.arms,
        short(inputs.rho_min),
        short(inputs.delta),
        inputs.alpha,
        inputs.c,
    )
}

fn constants(theory: &theory::Theory) -> String {
    let cmlb = &theory.cmlb;
    let enough = if cmlb.rounds_suffice { "T is enough" } else { "T is not enough" };
    let row = |name: &str, value: String, meaning: &str| {
        format!("  {name:<24}  {value:>10}  {meaning}\n")
    };
    [
        "CMLB (Algorithm 2)\n".to_owned(),
        row("T_explore", cmlb.explore_rounds.to_string(), "⌈C² d (NT)^2α ln(1/δ)⌉, line 2"),
        row(
            "T_explore of the proofs",
            cmlb.explore_rounds_of_proofs.to_string(),
            "the same divided by ρ_min",
        ),
        row("γ", short(cmlb.gamma), "3/(NT)^α, the threshold of Lemma 1"),
        row("α-separable from", short(cmlb.separable_from), "Δ_i ≥ 5/(NT)^α, Definition 1"),
        row("put together up to", short(cmlb.together_up_to), "1/(NT)^α, all clusters are close"),
        row("τ_min(δ)", short(cmlb.tau_min), "equation (3)"),
        row("T must be", short(cmlb.rounds_needed), &format!("equation (3): {enough}")),
    ]
    .concat()
}

fn clusters(clusters: &[ClusterTheory]) -> String {
    let header = [
        "cluster",
        "share",
        "Δ",
        "separable",
        "Lem. 1",
        "Thm. 1",
        "moreover",
        "Lem. 2",
        "Thm. 2",
        "moreover",
    ];
    let mut rows = vec![header.map(str::to_owned)];
    let mut first = 0;
    for alike in clusters.chunk_by(|a, b| (a.share, a.separation) == (b.share, b.separation)) {
        let (cluster, last) = (&alike[0], first + alike.len());
        let number =
            if alike.len() == 1 { last.to_string() } else { format!("{}–{last}", first + 1) };
        first = last;
        let bound = |at: usize| value(&cluster.bounds[at]);
        let separable = if cluster.separable { "yes" } else { "no" };
        rows.push([
            number,
            short(cluster.share),
            short(cluster.separation),
            separable.to_owned(),
            bound(0),
            bound(1),
            bound(2),
            bound(3),
            bound(4),
            bound(5),
        ]);
    }
    let of_bounds: Vec<&Bound> = clusters.iter().flat_map(|cluster| &cluster.bounds).collect();
    format!(
        "Regret of a user by cluster: Lemmas 1 and 2 (CMLB), Theorems 1 and 2 (SCLB)\n{}{}",
        indented(&aligned(&rows)),
        notes(&of_bounds),
    )
}

fn all_close(bound: &Bound) -> String {
    format!(
        "{} (Theorem 2 with p_i = 1)\n  {}: {}\n{}",
        bound.name,
        bound.of,
        value(bound),
        notes(&[bound]),
    )
}

fn phases(theory: &theory::Theory) -> String {
    let header = ["phase", "length", "T_explore", "γ", "p*", "δ", "clusters", "rounds", "in all"];
    let mut rows = vec![header.map(str::to_owned)];
    for phase in &theory.sclb_phases {
        rows.push([
            phase.phase.to_string(),
            phase.length.to_string(),
            phase.explore_rounds.to_string(),
            short(phase.gamma),
            short(phase.min_share),
            short(phase.delta),
            (if phase.clusters { "yes" } else { "no" }).to_owned(),
            phase.rounds.to_string(),
            phase.rounds_in_all.to_string(),
        ]);
    }
    format!("SCLB's phases (Algorithm 1)\n{}", indented(&aligned(&rows)))
}

fn epochs(theory: &theory::Theory) -> String {
    let mut rows = vec![["epoch", "rounds", "δ", "in all"].map(str::to_owned)];
    let common = theory.pmlb.common_rounds;
    rows.push(
        ["common", &common.to_string(), &short(theory.inputs.delta), &common.to_string()]
            .map(str::to_owned),
    );
    for epoch in &theory.pmlb.epochs {
        rows.push([
            epoch.epoch.to_string(),
            epoch.rounds.to_string(),
            short(epoch.delta),
            epoch.rounds_in_all.to_string(),
        ]);
    }
    format!(
        "PMLB's common phase (Algorithm 4) and ALB-Norm's epochs (Algorithm 5)\n{}",
        indented(&aligned(&rows)),
    )
}

fn personal(users: &[PersonalTheory]) -> String {
    let header = ["ε", "Theorem 3", "Corollary 1", "Lemma 7, probability"];
    let mut rows = vec![header.map(str::to_owned)];
    for user in users {
        rows.push([
            short(user.epsilon),
            value(&user.bounds[0]),
            value(&user.bounds[1]),
            user.shift_probability.map_or("–".to_owned(), short),
        ]);
    }
    let of_bounds: Vec<&Bound> = users.iter().flat_map(|user| &user.bounds).collect();
    format!(
        "Regret of PMLB by distance from the average: Theorem 3, expected: Corollary 1\n{}{}",
        indented(&aligned(&rows)),
        notes(&of_bounds),
    )
}

fn alb_norm(bounds: &[Bound]) -> String {
    let lines: String = (bounds.iter())
        .map(|bound| format!("  {}: {} ≤ {}\n", bound.name, bound.of, value(bound)))
        .collect();
    let of_bounds: Vec<&Bound> = bounds.iter().collect();
    format!("ALB-Norm (Algorithm 5) by itself\n{lines}{}", notes(&of_bounds))
}

/// The value, with a star where the statement does not apply.
fn value(bound: &Bound) -> String {
    format!("{}{}", short(bound.value), if bound.applies { "" } else { "*" })
}

/// Notes below bounds: the probability with which they hold, and the unmet conditions of those that
/// do not apply. A note that concerns only some of them names them.
fn notes(bounds: &[&Bound]) -> String {
    let mut names: Vec<&str> = bounds.iter().map(|bound| bound.name).collect();
    names.sort_unstable();
    names.dedup();
    let mut notes: Vec<(String, Vec<&str>)> = Vec::new();
    let mut note = |text: String, name| match notes.iter_mut().find(|(known, _)| *known == text) {
        Some((_, names)) if names.contains(&name) => {}
        Some((_, names)) => names.push(name),
        None => notes.push((text, vec![name])),
    };
    for bound in bounds {
        if let Some(probability) = bound.probability {
            let nothing = if probability > 0.0 { "" } else { ": nothing is promised" };
            note(format!("  with probability {probability} or more{nothing}"), bound.name);
        }
    }
    for bound in bounds {
        for need in bound.needs.iter().filter(|need| !need.holds) {
            note(format!("  * needs {}", need.what), bound.name);
        }
    }
    let line = |(text, of): &(String, Vec<&str>)| {
        let which =
            if of.len() == names.len() { String::new() } else { format!(" [{}]", of.join("; ")) };
        format!("{text}{which}\n")
    };
    notes.iter().map(line).collect()
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("  {line}\n")).collect()
}

/// Four significant digits.
fn short(number: f64) -> String {
    let size = number.abs();
    if number == 0.0 {
        "0".to_owned()
    } else if !(1e-3..1e6).contains(&size) {
        format!("{number:.3e}")
    } else {
        let decimals = (3 - size.log10().floor() as i32).max(0) as usize;
        let text = format!("{number:.decimals$}");
        if decimals == 0 {
            text
        } else {
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        }
    }
}
