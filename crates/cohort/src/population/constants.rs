//! The constants of the population model in one table: what each is, and the trade-off it makes.
//!
//! None depends on how many users there are. Numbers that only guard against rounding are where they are
//! used. `docs/cohort.md` has the same table with what changing each of them changes;
//! `scripts/sweep-constants` measures that, with the feature `sweep`, which reads them from the environment
//! (`COHORT_PASSES=4`).

/// Every constant is a function, so that a sweep can read it from the environment.
macro_rules! constants {
    ($($(#[doc = $what:literal])+ $name:ident: $type:ty = $value:literal, $trades:literal;)+) => {
        $(
            $(#[doc = $what])+
            ///
            #[doc = concat!("Trades ", $trades, ".")]
            #[cfg(not(feature = "sweep"))]
            #[inline(always)]
            pub(crate) const fn $name() -> $type {
                $value
            }

            $(#[doc = $what])+
            #[cfg(feature = "sweep")]
            pub(crate) fn $name() -> $type {
                static VALUE: std::sync::LazyLock<$type> =
                    std::sync::LazyLock::new(|| swept(stringify!($name), $value));
                *VALUE
            }
        )+

        /// Name, value, what it is, what it trades.
        #[cfg(test)]
        const ALL: &[(&str, &str, &str, &str)] =
            &[$((stringify!($name), stringify!($value), concat!($($what),+), $trades)),+];
    };
}

/// A constant from the environment, where it is set there.
#[cfg(feature = "sweep")]
fn swept<T: std::str::FromStr>(name: &str, value: T) -> T {
    let set = std::env::var(format!("COHORT_{}", name.to_uppercase())).ok();
    set.map_or(value, |text| text.parse().unwrap_or_else(|_| panic!("{name} = {text}")))
}

constants! {
    /// Minimum rewards per user between two refits where users are served in rounds, as a fraction of the dimension …
    refit_spacing: f64 = 0.1, "time against slow learning in high dimension";
    /// … and where they come one at a time, when a decision costs many times as much.
    refit_spacing_alone: f64 = 0.033, "the same";
    /// The power of `refit_ratio` used once refits change little.
    settled_power: f64 = 3.0, "time against outdated centres";
    /// Sample size in R^15 once nearly all users have a cohort.
    sample_users: usize = 2048, "time against missing small cohorts";
    /// Minimum sample size, in high dimension.
    sample_least_users: usize = 128, "the same";
    /// Factor by which a sample is larger while many users have no cohort.
    sample_more: usize = 4, "the same, early";
    /// The fraction of users without a cohort above which the sample is larger.
    sample_unassigned: f64 = 0.3, "the same";
    /// The mean probability of users' most probable components below which the sample is larger.
    sample_certain: f64 = 0.9, "the same";
    /// The rank, by rewards, of the user whose number of rewards defines frequent users.
    sample_reference: usize = 64, "small cohorts against misleading visitors";
    /// Minimum rewards of a user in a sample, as a fraction of that of frequent users or of the
    /// dimension.
    sample_least_part: f64 = 0.7, "the same";
    /// EM passes of a refit before the structure search, and after it.
    passes: usize = 2, "time against convergence";
    /// The same while users have fewer rewards than dimensions.
    early_passes: usize = 3, "the same";
    /// EM passes of the first fit, which starts from scratch.
    first_passes: usize = 15, "the same";
    /// Rewards of all users before the first fit, or the dimension plus one if that is less.
    first_rewards: f64 = 16.0, "random arms at first against a fit to few arms";
    /// Rewards of all users, per dimension, until which the spread of users is sampled for new
    /// users; later a decreasing fraction of it.
    newcomers_unexplored: f64 = 32.0, "first arms of new users against what they teach";
    /// Rewards per user below which a fit starts from scratch rather than from the previous one …
    fresh_rewards: f64 = 2.0, "time against variances that stay too small";
    /// … and rewards of all users, per dimension.
    fresh_dimensions: f64 = 2.0, "the same";
    /// EM passes over all users after the structure was found on a sample.
    polishing_passes: usize = 1, "time against centres of the sample alone";
    /// Change of the evidence per user, in nats, below which EM has converged.
    settled_evidence: f64 = 2e-4, "time against accuracy";
    /// Relative change of variances above which messages are recomputed.
    stale_variances: f64 = 0.1, "the same";
    /// Growth of the number of rewards between two estimates of users' noise.
    noise_growth: f64 = 1.5, "time against noise that is learned late";
    /// γ, the discount of earlier held-out gains at each refit.
    verdict_kept: f64 = 0.7, "stability of the comparison against speed";
    /// z above which cohorts are used.
    verdict_better: f64 = 1.0, "cohorts used late against cohorts that mislead";
    /// z below which cohorts are not used.
    verdict_worse: f64 = -1.5, "the same";
    /// z above which cohorts are certain.
    verdict_sure: f64 = 3.0, "time against cohorts that stay wrong";
    /// Once cohorts are certain, one in this many users of the panel is evaluated.
    verdict_fewer: usize = 8, "time against accuracy";
    /// Standard deviations by which new cohorts must be better in sample.
    verdict_clearly: f64 = 2.5, "cohorts used late against cohorts that mislead";
    /// Minimum of σ² with cohorts, as a fraction of σ² without.
    verdict_least_noise: f64 = 0.5, "rewards of 0 and 1, whose noise differs, against cohorts at low noise";
    /// Maximum number of users in the panel.
    panel_users: usize = 256, "time against the power of the comparison";
    /// Minimum number of users in the panel.
    panel_least_users: usize = 16, "memory against the power of the comparison";
    /// Rewards since the refit that are kept per user of the panel, if users are many.
    panel_rows: usize = 16, "the same";
    /// The same if users are few.
    panel_most_rows: usize = 64, "the same";
    /// The discount of earlier pairs of rewards at each refit, in the estimate of how often arms
    /// recur.
    recurrence_kept: f64 = 0.9, "stability against changing offers";
    /// The squared distance of two arms that count as the same, relative to that of any two.
    recurrence_distance: f64 = 1e-3, "costly optimism against arms that are never tried";
    /// The width if no arm recurs, as a multiple of √ln(1 + n/(d + 1)).
    width_of_new_arms: f64 = 0.5, "the same";
    /// Failed candidates after which the search of a refit ends.
    candidates_failed: usize = 6, "time against cohorts found late";
    /// Maximum number of new cohorts per refit.
    candidates_most_new: usize = 40, "the same";
    /// Maximum number of EM passes of a candidate.
    candidates_passes: usize = 30, "the same";
    /// Passes after which a candidate is dropped unless its projected gain covers its cost.
    candidates_hopeless_after: usize = 3, "the same";
    /// Maximum ratio of the gains of two consecutive passes that is extrapolated.
    candidates_most_part: f64 = 0.9, "the same";
    /// A candidate has converged once a pass adds less than this fraction of its gain.
    candidates_enough: f64 = 0.2, "time against accuracy, which later passes over all cohorts restore";
    /// Users tried as candidates, in R^15.
    candidates_tried: usize = 64, "time against cohorts found late";
    /// Blocks of eight users that candidates are evaluated on first, in R^15.
    candidates_compared: usize = 32, "the same";
    /// Minimum of both, in high dimension.
    candidates_least: usize = 8, "the same";
    /// Minimum gain of one more cohort, in nats.
    cohort_margin: f64 = 1.0, "cohorts found late against spurious cohorts";
    /// At most one in this many cohorts is removed at once.
    removed_at_once: usize = 8, "time against removing one too many";
    /// Rewards per user below which cohorts are not searched for.
    search_least_rewards: f64 = 3.5, "time against cohorts found late";
    /// Growth of the number of rewards between two searches once nearly all users have a cohort.
    search_growth: f64 = 2.0, "time against cohorts found late";
    /// The fraction of users without a cohort below which nearly all users have one …
    settled_at_large: f64 = 0.02, "the same";
    /// … and the mean probability of the most probable component above which that is certain.
    settled_certainty: f64 = 0.98, "the same";
    /// A cohort is loose if the mean squared distance of its users from its centre exceeds the
    /// median cohort's by this factor.
    split_loose: f64 = 3.0, "time against two cohorts in one";
    /// The same of the variance along the longest axis of a cohort, which the noise of other directions does not hide.
    split_longer: f64 = 1.75, "the same";
    /// Smaller variances that new cohorts are tried with, relative to the present ones.
    split_tighter: f64 = 0.1, "the same";
    /// EM passes after a split.
    split_passes: usize = 3, "time against accuracy";
    /// Blocks of eight users that are evaluated for splits.
    split_blocks: usize = 128, "the same";
    /// The fraction of users without a cohort from which a whole mixture is proposed …
    mixture_unassigned: f64 = 0.3, "time against cohorts found late at high noise";
    /// … or the mean probability of the most probable component up to which it is proposed.
    mixture_certain: f64 = 0.9, "the same";
    /// Initial variances of the mixture's cohorts, relative to the population's.
    mixture_first_spread: f64 = 0.3, "cohorts that stay together against cohorts that follow single users";
    /// EM passes over half of the users.
    mixture_passes: usize = 8, "time against rejected mixtures";
    /// EM passes over all users afterwards.
    mixture_more_passes: usize = 8, "time against accuracy";
    /// Minimum gain of a mixture on the other half, in nats.
    mixture_margin: f64 = 3.0, "cohorts found late against spurious cohorts";
    /// Growth of the number of rewards between two proposals.
    mixture_growth: f64 = 1.25, "time against cohorts found late";
    /// Minimum number of users for a proposal.
    mixture_least_users: f64 = 64.0, "the same";
    /// Minimum rewards per user for a proposal, as a fraction of the dimension.
    mixture_least_rewards: f64 = 0.5, "the same";
    /// EM passes before a covariance is evaluated.
    directions_passes: usize = 3, "time against rejected directions";
    /// Minimum number of users for a search for directions.
    directions_least_users: f64 = 16.0, "directions found late against spurious ones";
    /// Minimum rewards per user for a search for directions.
    directions_least_rewards: f64 = 3.0, "the same";
    /// Growth of the number of rewards between two searches.
    directions_growth: f64 = 2.0, "time against directions found late";
    /// Cohorts whose variance is below this fraction of the population's have no directions.
    directions_tight: f64 = 0.05, "time against directions that hardly matter";
    /// Minimum initial variance of all other coordinates, relative to the mean.
    directions_least_rest: f64 = 1e-3, "almost nothing: EM passes change it";
    /// Maximum variance within cohorts, as a fraction of the population's.
    cohort_tight: f64 = 0.5, "spurious cohorts against loose ones";
    /// Minimum gain of individual noise levels, in nats.
    noise_margin: f64 = 5.0, "unequal noise found late against spurious differences";
    /// Minimum rewards of a user for an estimate of its noise.
    noise_least_rewards: f64 = 2.0, "the same";
    /// Components less probable than this are dropped from a user's posterior.
    likely_component: f64 = 1e-3, "time against wrong assignments";
    /// A centre counts as known if its variance is below this fraction of the users' variance.
    known_centre: f64 = 0.03, "time against too little exploration";
    /// Users of the panel that are tested for drift.
    drift_users: usize = 32, "time against jumps that are detected late";
    /// Minimum number of last rewards of a user that are tested.
    drift_least_last: usize = 4, "jumps detected late against false alarms";
    /// Squared errors from recent rewards alone must be at most this fraction of those from all
    /// rewards …
    drift_less: f64 = 0.9, "the same";
    /// … and smaller by this many standard deviations.
    drift_deviations: f64 = 4.0, "the same";
    /// Growth of the number of rewards between two tests for drift.
    drift_growth: f64 = 0.03, "time against jumps detected late";
    /// Minimum number of rewards between two tests for drift.
    drift_least_growth: f64 = 8.0, "the same";
}

#[cfg(test)]
mod tests {
    use super::ALL;

    /// The table of docs/cohort.md has every constant with its value.
    #[test]
    fn the_document_has_all_of_them() {
        let document = include_str!("../../../../docs/cohort.md");
        for (name, value, what, trades) in ALL {
            let row = format!("| `{name}` | {value} |{what} Trades {trades}. |");
            assert!(document.contains(&row), "docs/cohort.md lacks this row:\n{row}");
        }
    }
}
