//! The right-hand sides of the paper's lemmas and theorems, with all constants 1.

use serde::Serialize;

use super::{CmlbConstants, Inputs};

/// The right-hand side of one statement.
#[derive(Clone, Debug, Serialize)]
pub struct Bound {
    /// The statement as the paper calls it.
    pub name: &'static str,
    /// The quantity that is bounded.
    pub of: &'static str,
    /// The bound; infinite (null in JSON) for Lemma 2 with p* = 0.
    pub value: f64,
    /// The least probability with which it holds: 0 is vacuous. `None` for statements about an
    /// expectation.
    pub probability: Option<f64>,
    /// Whether all conditions of the statement hold.
    pub applies: bool,
    /// Its conditions.
    pub needs: Vec<Condition>,
}

/// A condition of a theorem or lemma.
#[derive(Clone, Debug, Serialize)]
pub struct Condition {
    /// The condition.
    pub what: String,
    /// Whether it holds.
    pub holds: bool,
}

impl Bound {
    fn new(
        name: &'static str,
        of: &'static str,
        value: f64,
        probability: f64,
        needs: Vec<Condition>,
    ) -> Self {
        let applies = needs.iter().all(|need| need.holds);
        Self { name, of, value, probability: Some(probability.max(0.0)), applies, needs }
    }
}

fn need(what: impl Into<String>, holds: bool) -> Condition {
    Condition { what: what.into(), holds }
}

/// What all of Section 5 assumes: α < 1/2 and equation (3).
fn of_clustering(inputs: &Inputs, cmlb: &CmlbConstants) -> Vec<Condition> {
    vec![
        need("α < 1/2", inputs.alpha < 0.5),
        need(format!("T ≥ {:.4e} (equation 3)", cmlb.rounds_needed), cmlb.rounds_suffice),
    ]
}

/// N·(N − 1)/2.
fn pairs(inputs: &Inputs) -> f64 {
    inputs.users as f64 * (inputs.users as f64 - 1.0) / 2.0
}

/// ln(1/δ).
fn log_delta(inputs: &Inputs) -> f64 {
    (1.0 / inputs.delta).ln()
}

/// d/ρ_min.
fn dim_by_rho(inputs: &Inputs) -> f64 {
    inputs.dim as f64 / inputs.rho_min
}

/// The length of individual learning in the analysis: d(NT)^{2α}/ρ_min·ln(1/δ).
fn individual_rounds(inputs: &Inputs) -> f64 {
    dim_by_rho(inputs) * inputs.played().powf(2.0 * inputs.alpha) * log_delta(inputs)
}

/// Lemma 1: 1 − 2·(N choose 2)·δ.
pub(super) fn recovery_probability(inputs: &Inputs) -> f64 {
    (1.0 - 2.0 * pairs(inputs) * inputs.delta).max(0.0)
}

/// The bounds for the users of a cluster with share p_i and separation Δ_i.
pub(super) fn of_cluster(
    inputs: &Inputs,
    cmlb: &CmlbConstants,
    share: f64,
    separation: f64,
) -> Vec<Bound> {
    let separable = separation >= cmlb.separable_from;
    let needs = |own: Vec<Condition>| [of_clustering(inputs, cmlb), own].concat();
    let apart = || need(format!("Δ ≥ {:.4} (separable)", cmlb.separable_from), separable);
    let close = || need(format!("Δ < {:.4} (inseparable)", cmlb.separable_from), !separable);
    let min_share = inputs.min_share.unwrap_or(share);
    let known_size = || need("p* ≤ p_i", min_share <= share);
    let alone = individual_rounds(inputs);
    let time_left =
        || need(format!("T ≥ {alone:.4e} (individual learning)"), inputs.rounds as f64 >= alone);
    let largest_alpha = largest_alpha(inputs, share);
    let small_alpha = need(format!("α ≤ {largest_alpha:.4}"), inputs.alpha <= largest_alpha);

    let in_one_phase = 1.0 - 4.0 * pairs(inputs) * inputs.delta;
    let in_all_phases = 1.0 - (inputs.users as f64).powi(2) * inputs.delta;
    vec![
        Bound::new(
            "Lemma 1",
            "regret of CMLB",
            lemma_1(inputs, share),
            in_one_phase,
            needs(vec![time_left(), apart(), known_size()]),
        ),
        Bound::new(
            "Theorem 1",
            "regret of SCLB",
            theorem_1(inputs, share),
            in_all_phases,
            needs(vec![apart()]),
        ),
        Bound::new(
            "Theorem 1, moreover",
            "regret of SCLB, without logarithms",
            theorem_1_moreover(inputs, share),
            in_all_phases,
            needs(vec![apart(), small_alpha]),
        ),
        Bound::new(
            "Lemma 2",
            "regret of CMLB",
            lemma_2(inputs, min_share),
            in_one_phase,
            needs(vec![time_left(), close(), known_size()]),
        ),
        Bound::new(
            "Theorem 2",
            "regret of SCLB",
            theorem_2(inputs, share, inputs.clusters()),
            in_all_phases,
            needs(vec![close()]),
        ),
        Bound::new(
            "Theorem 2, moreover",
            "regret of SCLB, without logarithms",
            theorem_2_moreover(inputs, share),
            in_all_phases,
            needs(vec![close()]),
        ),
    ]
}

/// `[d/ρ·(NT)^α + √(d/ρ)·√((T − d(NT)^{2α}/ρ·ln(1/δ))/(p_i N))]·ln(1/δ)`
fn lemma_1(inputs: &Inputs, share: f64) -> f64 {
    let individual = dim_by_rho(inputs) * inputs.played().powf(inputs.alpha);
    (individual + collaborative(inputs, share)) * log_delta(inputs)
}

/// `√(d/ρ)·√((T − d(NT)^{2α}/ρ·ln(1/δ))/(share·N))`, or 0 where no rounds are left for it.
fn collaborative(inputs: &Inputs, share: f64) -> f64 {
    let rounds = inputs.rounds as f64 - individual_rounds(inputs);
    if rounds <= 0.0 {
        return 0.0;
    }
    (dim_by_rho(inputs) * rounds / (share * inputs.users as f64)).sqrt()
}

/// `4·2^{1/√p_i} + [d/ρ·(NT)^α + √(dT/(ρN))]·ln²T·ln(1/δ)`
fn theorem_1(inputs: &Inputs, share: f64) -> f64 {
    let individual = dim_by_rho(inputs) * inputs.played().powf(inputs.alpha);
    let phases = (individual + oracle_rate(inputs)) * log_rounds(inputs).powi(2);
    4.0 * until_sizes_fit(share) + phases * log_delta(inputs)
}

/// `[2^{1/√p_i} + √(d/ρ)·√(T/N)]·ln(1/δ)`
fn theorem_1_moreover(inputs: &Inputs, share: f64) -> f64 {
    (until_sizes_fit(share) + oracle_rate(inputs)) * log_delta(inputs)
}

/// The largest α for which it holds: `½·ln(ρT/(d p_i N))/ln(NT)`.
fn largest_alpha(inputs: &Inputs, share: f64) -> f64 {
    let users = inputs.users as f64;
    let ratio = inputs.rounds as f64 / (dim_by_rho(inputs) * share * users);
    0.5 * ratio.ln() / inputs.played().ln()
}

/// `L·T^{1−α}/N^α + √(d/ρ)·√((T − d(NT)^{2α}/ρ·ln(1/δ))/(p* N))·ln(1/δ)`
fn lemma_2(inputs: &Inputs, min_share: f64) -> f64 {
    inputs.clusters() * misclustering_cost(inputs)
        + collaborative(inputs, min_share) * log_delta(inputs)
}

/// `4·2^{1/√p_i} + L·T^{1−α}/N^α·ln T + √(dT/(Nρ))·ln(1/δ)·ln²T`
fn theorem_2(inputs: &Inputs, share: f64, clusters: f64) -> f64 {
    4.0 * until_sizes_fit(share)
        + clusters * misclustering_cost(inputs) * log_rounds(inputs)
        + oracle_rate(inputs) * log_delta(inputs) * log_rounds(inputs).powi(2)
}

/// `2^{1/√p_i} + L·T^{½+ε}/N^{½−ε} + √(d/ρ)·√(T/N)·ln(1/δ)`, ε = ½ − α
fn theorem_2_moreover(inputs: &Inputs, share: f64) -> f64 {
    until_sizes_fit(share)
        + inputs.clusters() * misclustering_cost(inputs)
        + oracle_rate(inputs) * log_delta(inputs)
}

/// Special case: all clusters are close. Theorem 2 with p_i = 1; all users are in one cluster, so
/// that L = 1.
pub(super) fn all_close(inputs: &Inputs, cmlb: &CmlbConstants) -> Bound {
    let close = need(
        format!("max ‖θ*_i − θ*_j‖ ≤ {:.4}", cmlb.together_up_to),
        inputs.diameter <= cmlb.together_up_to,
    );
    Bound::new(
        "Special case of all clusters being close",
        "regret of SCLB",
        theorem_2(inputs, 1.0, 1.0),
        1.0 - (inputs.users as f64).powi(2) * inputs.delta,
        [of_clustering(inputs, cmlb), vec![close]].concat(),
    )
}

/// The bounds of PMLB for a user with common representation factor ε_i.
pub(super) fn of_user(inputs: &Inputs, cmlb: &CmlbConstants, epsilon: f64) -> Vec<Bound> {
    let rounds = inputs.rounds as f64;
    let long = || {
        let least = cmlb.tau_min.powi(2);
        need(format!("T ≥ {least:.4e} (τ_min²)"), rounds >= least)
    };
    let least_dim = ((inputs.arms as f64).powi(2) * rounds).ln();
    let wide = need(format!("d ≥ {least_dim:.2} (ln K²T)"), inputs.dim as f64 >= least_dim);
    let expected = corollary_1(inputs, epsilon);
    vec![
        Bound::new(
            "Theorem 3",
            "regret of PMLB, without logarithms of T",
            expected * log_delta(inputs).powi(2),
            1.0 - inputs.delta - 1.0 / rounds,
            vec![long(), wide],
        ),
        Bound {
            probability: None,
            ..Bound::new(
                "Corollary 1 (Expected Regret)",
                "expected regret of PMLB, without logarithms",
                expected,
                1.0,
                vec![long()],
            )
        },
    ]
}

/// `ε_i·√(dT) + T^{1/4}·√(d²/(ρN))`
fn corollary_1(inputs: &Inputs, epsilon: f64) -> f64 {
    let (dim, rounds) = (inputs.dim as f64, inputs.rounds as f64);
    let common = (dim * dim_by_rho(inputs) / inputs.users as f64).sqrt();
    epsilon * (dim * rounds).sqrt() + rounds.powf(0.25) * common
}

/// Lemma 7: `1 − (K choose 2)·exp(−d/4·(1 − 8ψ²)²) − K·exp(−(√5 − 1)/2·d)` for ψ < 1/(2√2).
pub fn shift_probability(dim: usize, arms: usize, psi: f64) -> Option<f64> {
    let (dim, arms) = (dim as f64, arms as f64);
    let apart = arms * (arms - 1.0) / 2.0 * (-dim / 4.0 * (1.0 - 8.0 * psi * psi).powi(2)).exp();
    let long = arms * (-(5f64.sqrt() - 1.0) / 2.0 * dim).exp();
    (8.0 * psi * psi < 1.0).then_some((1.0 - apart - long).max(0.0))
}

/// The bounds of ALB-Norm by itself, with δ_1 = δ and b_1 given (so that δ_s = 0).
pub(super) fn of_alb_norm(inputs: &Inputs) -> Vec<Bound> {
    let (dim, arms, rounds) = (inputs.dim as f64, inputs.arms as f64, inputs.rounds as f64);
    let growth = 2.0 * inputs.sigma * dim.sqrt() / rounds.powf(0.25)
        * (arms * rounds.sqrt() / inputs.delta).ln();
    let regret = inputs.norm
        * (arms.sqrt() + dim.sqrt())
        * rounds.sqrt()
        * (arms * rounds / inputs.delta).ln();
    vec![
        Bound::new(
            "Lemma 3",
            "b_i, the norm estimates of ALB-Norm",
            2.0 * inputs.norm,
            1.0 - 8.0 * inputs.delta,
            vec![need(format!("2σ√d/T^¼·ln(K√T/δ) = {growth:.4} ≤ 1"), growth <= 1.0)],
        ),
        Bound::new(
            "Corollary 2 (Corollary of Theorem 1 from Ghosh et al. 2021)",
            "regret of ALB-Norm",
            regret,
            1.0 - 18.0 * inputs.delta,
            Vec::new(),
        ),
    ]
}

/// 2^{1/√p}: SCLB's cost until p* has come down to p.
fn until_sizes_fit(share: f64) -> f64 {
    (1.0 / share.sqrt()).exp2()
}

/// √(dT/(ρN)): the rate of an oracle that knows the clusters.
fn oracle_rate(inputs: &Inputs) -> f64 {
    (dim_by_rho(inputs) * inputs.rounds as f64 / inputs.users as f64).sqrt()
}

/// T^{1−α}/N^α: the cost of being clustered with users this close.
fn misclustering_cost(inputs: &Inputs) -> f64 {
    (inputs.rounds as f64).powf(1.0 - inputs.alpha) / (inputs.users as f64).powf(inputs.alpha)
}

/// ln T.
fn log_rounds(inputs: &Inputs) -> f64 {
    (inputs.rounds as f64).ln()
}
