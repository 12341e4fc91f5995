//! The inputs of the paper's statements.

use std::ops::Bound::{Excluded, Included};

use cohort::linear::default_rho_min;
use cohort::params::{Kind, NOT_NEGATIVE, POSITIVE, PROBABILITY, Param, SHARE, Settings, Value};
use serde::Serialize;

use crate::Error;

/// The distance of two vectors of length at most 1.
const UP_TO_TWO: Kind = Kind::Real(Included(0.0), Included(2.0));

/// The scalar inputs; defaults are those of the paper's simulations.
pub const PARAMS: &[Param] = &[
    Param::count("users", 1, 100, "N, how many users there are"),
    Param::count("rounds", 2, 1000, "T, how many rounds are played"),
    Param::count("dim", 1, 15, "d, the dimension of the contexts"),
    Param::count("arms", 1, 25, "K, how many arms there are in a round"),
    Param::derived(
        "rho_min",
        Kind::Real(Excluded(0.0), Included(1.0)),
        "1/(3d), that of the paper's contexts",
        "ρ_min, smallest eigenvalue of the contexts' covariance",
    ),
    Param::real("delta", PROBABILITY, 0.4, "δ, how often a confidence set may miss"),
    Param::real(
        "alpha",
        Kind::Real(Excluded(0.0), Included(0.5)),
        0.2,
        "α: clusters 5/(NT)^α apart can be told apart",
    ),
    Param::real("c", POSITIVE, 0.2, "C: length of CMLB's individual phase"),
    Param::derived(
        "min_share",
        SHARE,
        "the share of the cluster in question, the largest that Lemma 2 allows",
        "p*: clusters with a smaller share are put together",
    ),
    Param::count("clusters", 1, 10, "L, how many clusters there are"),
    Param::real("imbalance", NOT_NEGATIVE, 0.0, "z: shares are ∝ i^−z; 0 = all equal"),
    Param::derived(
        "diameter",
        UP_TO_TWO,
        "the largest of the separations",
        "how far apart any two clusters are at the most",
    ),
    Param::real("norm", UP_TO_TWO, 1.0, "‖θ*‖, the length of the vector that ALB-Norm learns"),
    Param::real("sigma", NOT_NEGATIVE, 1.0, "σ, the noise scale; the paper's analysis takes 1"),
];

/// The inputs that are lists.
#[derive(Clone, Debug, Default)]
pub struct Lists {
    /// p_i of every cluster; if empty, derived from `clusters` and `imbalance`.
    pub shares: Vec<f64>,
    /// Δ_i of every cluster, or one for all; if empty √2, about the distance of centres drawn on
    /// the sphere.
    pub separations: Vec<f64>,
    /// ε_i of some users; if empty 0, 0.1 and 1.
    pub epsilons: Vec<f64>,
}

/// All inputs, each within its range.
#[derive(Clone, Debug, Serialize)]
pub struct Inputs {
    /// N.
    pub users: usize,
    /// T.
    pub rounds: usize,
    /// d.
    pub dim: usize,
    /// K.
    pub arms: usize,
    /// ρ_min.
    pub rho_min: f64,
    /// δ.
    pub delta: f64,
    /// α.
    pub alpha: f64,
    /// C.
    pub c: f64,
    /// p*, unless it is each cluster's own share.
    pub min_share: Option<f64>,
    /// p_i of every cluster.
    pub shares: Vec<f64>,
    /// Δ_i of every cluster.
    pub separations: Vec<f64>,
    /// max ‖θ*_i − θ*_j‖.
    pub diameter: f64,
    /// ε_i of some users.
    pub epsilons: Vec<f64>,
    /// ‖θ*‖ for ALB-Norm.
    pub norm: f64,
    /// σ.
    pub sigma: f64,
}

impl Inputs {
    /// Checks the given [`PARAMS`] and lists, and fills in the rest.
    pub fn new(
        given: impl IntoIterator<Item = (String, Value)>,
        lists: Lists,
    ) -> Result<Self, Error> {
        let settings = Settings::check("theory", &[PARAMS], given)?;
        let shares = shares(&settings, lists.shares)?;
        let separations = separations(lists.separations, shares.len())?;
        let epsilons = if lists.epsilons.is_empty() { vec![0.0, 0.1, 1.0] } else { lists.epsilons };
        check_each("epsilons", &epsilons)?;
        let dim = settings.count("dim");
        let largest = separations.iter().copied().fold(0.0, f64::max);
        let diameter = settings.derived("diameter", || largest);
        if diameter < largest {
            let expected = format!("{largest} or more, the largest of the separations");
            return Err(Error::unexpected("diameter", diameter.to_string(), expected));
        }
        Ok(Self {
            users: settings.count("users"),
            rounds: settings.count("rounds"),
            dim,
            arms: settings.count("arms"),
            rho_min: settings.derived("rho_min", || default_rho_min(dim)),
            delta: settings.real("delta"),
            alpha: settings.real("alpha"),
            c: settings.real("c"),
            min_share: settings.optional("min_share"),
            shares,
            separations,
            diameter,
            epsilons,
            norm: settings.real("norm"),
            sigma: settings.real("sigma"),
        })
    }

    /// N·T.
    pub(super) fn played(&self) -> f64 {
        self.users as f64 * self.rounds as f64
    }

    /// L.
    pub(super) fn clusters(&self) -> f64 {
        self.shares.len() as f64
    }
}

/// The given shares, or ∝ i^−z.
fn shares(settings: &Settings, given: Vec<f64>) -> Result<Vec<f64>, Error> {
    let clusters = settings.optional("clusters");
    if given.is_empty() {
        let weights: Vec<f64> = (1..=settings.count("clusters"))
            .map(|i| (i as f64).powf(-settings.real("imbalance")))
            .collect();
        let total: f64 = weights.iter().sum();
        return Ok(weights.iter().map(|weight| weight / total).collect());
    }
    if clusters.is_some() || settings.optional("imbalance").is_some() {
        let (found, expected) = ("clusters or imbalance beside it", "one or the other");
        return Err(Error::unexpected("shares", found, expected));
    }
    let total: f64 = given.iter().sum();
    if !given.iter().all(|share| *share > 0.0) || (total - 1.0).abs() > 0.01 + 1e-9 {
        let expected = "numbers in (0, 1] that add up to 1 (within 0.01)";
        return Err(Error::unexpected("shares", listed(&given), expected));
    }
    Ok(given)
}

/// One separation per cluster.
fn separations(given: Vec<f64>, clusters: usize) -> Result<Vec<f64>, Error> {
    check_each("separations", &given)?;
    match given.len() {
        0 => Ok(vec![std::f64::consts::SQRT_2; clusters]),
        1 => Ok(vec![given[0]; clusters]),
        count if count == clusters => Ok(given),
        count => {
            let expected = format!("one, or one for each of {clusters} clusters");
            Err(Error::unexpected("separations", format!("{count} numbers"), expected))
        }
    }
}

fn check_each(name: &str, numbers: &[f64]) -> Result<(), Error> {
    match numbers.iter().find(|number| !(0.0..=2.0).contains(*number)) {
        None => Ok(()),
        Some(number) => Err(Error::unexpected(name, number.to_string(), UP_TO_TWO.to_string())),
    }
}

fn listed(numbers: &[f64]) -> String {
    numbers.iter().map(f64::to_string).collect::<Vec<_>>().join(", ")
}
