//! Against numbers computed by hand, at the paper's simulation values and where the statements
//! apply.

use cohort::params::Value;

use super::*;

fn inputs(given: &[(&str, f64)], lists: Lists) -> Result<Inputs, crate::Error> {
    Inputs::new(given.iter().map(|(name, value)| (name.to_string(), Value::Real(*value))), lists)
}

fn theory(given: &[(&str, f64)], lists: Lists) -> Theory {
    Theory::new(&inputs(given, lists).unwrap())
}

fn bound<'a>(bounds: &'a [Bound], name: &str) -> &'a Bound {
    bounds.iter().find(|bound| bound.name == name).expect(name)
}

fn assert_close(found: f64, expected: f64) {
    assert!((found / expected - 1.0).abs() < 1e-9, "{found} against {expected}");
}

#[test]
fn constants_of_the_papers_simulations() {
    // N = 100, T = 1000, d = 15, α = C = 0.2, δ = 0.4, ρ_min = 1/45, so that (NT)^α = 10.
    let CmlbConstants {
        explore_rounds,
        explore_rounds_of_proofs,
        gamma,
        separable_from,
        together_up_to,
        tau_min,
        rounds_needed,
        rounds_suffice,
    } = theory(&[], Lists::default()).cmlb;
    // 0.04·15·100·ln 2.5 = 54.98; times 45: 2473.98.
    assert_eq!((explore_rounds, explore_rounds_of_proofs), (55, 2474));
    assert_close(gamma, 0.3);
    assert_close(separable_from, 0.5);
    assert_close(together_up_to, 0.1);
    // (16·2025 + 8·45/3)·ln 75000
    assert_close(tau_min, 365_044.915_124_7);
    // (365044.9/45/(15·ln 2.5))^2.5/100
    assert_close(rounds_needed, 84_629.756_601_816_5);
    assert!(!rounds_suffice);
}

#[test]
fn bounds_at_the_papers_simulations() {
    let theory = theory(&[], Lists::default());
    assert_eq!(theory.clusters.len(), 10);
    let cluster = &theory.clusters[3];
    assert_close(cluster.share, 0.1);
    assert!(cluster.separable);
    assert_eq!(cluster.recovery_probability, 0.0);
    // Individual learning (with ρ_min and C = 1) fills the horizon: 675·10·ln 2.5.
    assert_close(bound(&cluster.bounds, "Lemma 1").value, 6_184.962_440_150_548);
    assert_close(bound(&cluster.bounds, "Theorem 1").value, 298_756.363_828_648_8);
    assert_close(bound(&cluster.bounds, "Theorem 1, moreover").value, 83.483_984_587_228_4);
    // 10·1000^0.8/100^0.2
    assert_close(bound(&cluster.bounds, "Lemma 2").value, 1000.0);
    assert_close(bound(&cluster.bounds, "Theorem 2").value, 10_535.753_034_304_54);
    assert_close(bound(&cluster.bounds, "Theorem 2, moreover").value, 1_084.233_385_081_53);
    assert_close(theory.all_close.value, 4_290.963_604_742_73);
    // None of them applies: T is too short for equation (3), and δ too large for N users.
    assert!(cluster.bounds.iter().all(|bound| !bound.applies && bound.probability == Some(0.0)));
    let missing: Vec<&str> = (bound(&cluster.bounds, "Theorem 1, moreover").needs.iter())
        .filter(|need| !need.holds)
        .map(|need| need.what.as_str())
        .collect();
    assert_eq!(missing, ["T ≥ 8.4630e4 (equation 3)", "α ≤ -0.0829"]);
}

#[test]
fn bounds_where_they_apply() {
    let given = [
        ("users", 1e3),
        ("rounds", 1e9),
        ("dim", 2.0),
        ("arms", 2.0),
        ("rho_min", 0.5),
        ("delta", 1e-12),
        ("clusters", 4.0),
    ];
    let lists = Lists { separations: vec![0.02, 1.0, 0.0198, 0.019], ..Lists::default() };
    let theory = theory(&given, lists);
    assert!(theory.cmlb.rounds_suffice);
    // (NT)^0.2 = 251.19: separable from 5/251.19 = 0.01991.
    let separable: Vec<bool> = theory.clusters.iter().map(|cluster| cluster.separable).collect();
    assert_eq!(separable, [true, true, false, false]);

    let names = |cluster: &ClusterTheory| -> Vec<&str> {
        cluster.bounds.iter().filter(|bound| bound.applies).map(|bound| bound.name).collect()
    };
    // ½·ln(0.5·10⁹/(2·0.25·10³))/ln 10¹² = ½·ln 10⁶/ln 10¹² = 0.25 ≥ α
    assert_eq!(names(&theory.clusters[0]), ["Lemma 1", "Theorem 1", "Theorem 1, moreover"]);
    assert_eq!(names(&theory.clusters[2]), ["Lemma 2", "Theorem 2", "Theorem 2, moreover"]);
    let lemma_1 = bound(&theory.clusters[0].bounds, "Lemma 1");
    assert_close(lemma_1.value, 137_900.429_776_794_4);
    // 1 − 4·499500·10⁻¹²
    assert_close(lemma_1.probability.unwrap(), 0.999_998_002);
    assert_close(bound(&theory.clusters[2].bounds, "Lemma 2").value, 16_034_424.857_104_756);
}

#[test]
fn all_clusters_are_close_up_to_the_inverse_of_nt_to_the_alpha() {
    for (separation, close) in [(0.1 - 1e-12, true), (0.100_001, false)] {
        let lists = Lists { separations: vec![separation], ..Lists::default() };
        let needs = theory(&[], lists).all_close.needs;
        assert_eq!(needs.last().unwrap().holds, close);
    }
}

#[test]
fn a_given_p_star_must_not_be_larger_than_the_cluster() {
    let lists = Lists { shares: vec![0.7, 0.3], ..Lists::default() };
    let clusters = theory(&[("min_share", 0.5)], lists).clusters;
    let known_size = |at: usize| {
        let needs = &bound(&clusters[at].bounds, "Lemma 2").needs;
        needs.iter().find(|need| need.what == "p* ≤ p_i").unwrap().holds
    };
    assert!(known_size(0) && !known_size(1));
}

#[test]
fn personal_bounds() {
    let given = [("dim", 50.0), ("rho_min", 0.02)];
    let lists = Lists { epsilons: vec![0.0, 0.1, 1.0], ..Lists::default() };
    let simulations = theory(&[], lists.clone());
    for (at, theorem_3, corollary_1) in [
        (0, 47.507_710_736_324_94, 56.584_504_335_732_1),
        (1, 57.790_530_345_496, 68.831_953_049_647_99),
        (2, 150.335_906_828_035_55, 179.058_991_474_891),
    ] {
        let bounds = &simulations.personalization[at].bounds;
        assert_close(bound(bounds, "Theorem 3").value, theorem_3);
        assert_close(bound(bounds, "Corollary 1 (Expected Regret)").value, corollary_1);
        assert!(!bounds[0].applies);
    }
    // Lemma 7 needs ψ < 1/(2√2), and says something where d is large against ln K.
    let personal = theory(&given, lists).personalization;
    assert_close(personal[1].shift_probability.unwrap(), 0.992_374_196_044_190_7);
    assert_eq!(personal[2].shift_probability, None);
    assert_eq!(simulations.personalization[1].shift_probability, Some(0.0));
}

#[test]
fn alb_norm_by_itself() {
    let bounds = theory(&[], Lists::default()).alb_norm;
    // (√25 + √15)·√1000·ln(25·1000/0.4)
    assert_close(bounds[1].value, 3_098.515_439_553_033_5);
    // 2√15/1000^¼·ln(25·√1000/0.4) = 10.45 is not below 1.
    assert_eq!(bounds[0].needs[0].what, "2σ√d/T^¼·ln(K√T/δ) = 10.4535 ≤ 1");
    assert!(!bounds[0].applies);
}

#[test]
fn sclb_plays_phases_of_2_4_8_rounds() {
    let phases = theory(&[], Lists::default()).sclb_phases;
    let rounds: Vec<usize> = phases.iter().map(|phase| phase.rounds).collect();
    assert_eq!(rounds, [2, 4, 8, 16, 32, 64, 128, 256, 490]);
    let last = &phases[8];
    assert_eq!((last.phase, last.length, last.rounds_in_all), (9, 512, 1000));
    // 0.04·15·(100·512)^0.4·ln(512/0.4) = 328.4; 3/51200^0.2
    assert_eq!(last.explore_rounds, 329);
    assert_close(last.gamma, 0.342_978_788_945_494_7);
    assert_close(last.min_share, 1.0 / 81.0);
    assert_close(last.delta, 0.4 / 512.0);
    // Only phases longer than their T_explore cluster.
    let clustering: Vec<u32> =
        phases.iter().filter(|phase| phase.clusters).map(|phase| phase.phase).collect();
    assert_eq!(clustering, [8, 9]);
}

#[test]
fn pmlb_plays_a_common_phase_and_then_epochs() {
    let schedule = theory(&[], Lists::default()).pmlb;
    assert_eq!(schedule.common_rounds, 31);
    let epochs: Vec<(usize, usize)> =
        schedule.epochs.iter().map(|epoch| (epoch.rounds, epoch.rounds_in_all)).collect();
    assert_eq!(epochs, [(32, 63), (64, 127), (128, 255), (256, 511), (489, 1000)]);
    assert_close(schedule.epochs[4].delta, 0.025);
}

#[test]
fn shares_fall_with_the_imbalance() {
    let shares = inputs(&[("clusters", 3.0), ("imbalance", 1.0)], Lists::default()).unwrap().shares;
    for (share, expected) in shares.iter().zip([6.0 / 11.0, 3.0 / 11.0, 2.0 / 11.0]) {
        assert_close(*share, expected);
    }
}

#[test]
fn numbers_out_of_range_are_refused_by_name() {
    let shares = |shares: &[f64]| Lists { shares: shares.to_vec(), ..Lists::default() };
    let separations =
        |separations: &[f64]| Lists { separations: separations.to_vec(), ..Lists::default() };
    let epsilons = |epsilons: &[f64]| Lists { epsilons: epsilons.to_vec(), ..Lists::default() };
    type Case<'a> = (&'a [(&'a str, f64)], Lists, &'a str);
    let cases: &[Case] = &[
        (&[("users", 0.0)], Lists::default(), "theory.users = 0: expected a whole number, 1 or"),
        (&[("rounds", 1.0)], Lists::default(), "theory.rounds = 1: expected a whole number, 2 or"),
        (&[("delta", 1.0)], Lists::default(), "theory.delta = 1: expected a number in (0, 1)"),
        (&[("alpha", 0.6)], Lists::default(), "theory.alpha = 0.6: expected a number in (0, 0.5]"),
        (&[("rho_min", 0.0)], Lists::default(), "theory.rho_min = 0: expected a number in (0, 1]"),
        (&[("c", f64::NAN)], Lists::default(), "theory.c = NaN: expected a number in (0, ∞)"),
        (&[], shares(&[0.5, 0.4]), "shares: found 0.5, 0.4, expected numbers in (0, 1] that add"),
        (&[], shares(&[1.2, -0.2]), "shares: found 1.2, -0.2, expected"),
        (&[], shares(&[f64::NAN]), "shares: found NaN, expected"),
        (&[("clusters", 1.0)], shares(&[1.0]), "shares: found clusters or imbalance beside it"),
        (&[], separations(&[1.0, 2.0]), "separations: found 2 numbers, expected one, or one for"),
        (&[], separations(&[2.5]), "separations: found 2.5, expected a number in [0, 2]"),
        (&[], epsilons(&[f64::NAN]), "epsilons: found NaN, expected a number in [0, 2]"),
        (&[("diameter", 0.5)], separations(&[1.0]), "diameter: found 0.5, expected 1 or more"),
    ];
    for (given, lists, words) in cases {
        let error = inputs(given, lists.clone()).expect_err(words);
        assert!(error.is_bad_input());
        assert!(error.to_string().contains(words), "`{error}` does not say `{words}`");
    }
}
