//! The constants of the population in one table: what each is, and what it trades.
//!
//! None depends on how many users there are. Numbers that only guard against rounding are where they are
//! used. `docs/cohort.md` has the same table with what changing each of them changes;
//! `scripts/sweep-constants` measures that, with the feature `sweep`, which reads them from the environment
//! (`COHORT_PASSES=4`).

/// Every constant is a function, so that it may be read elsewhere when it is swept.
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
    /// Rewards of every user from one refit to the next, at least, in parts of the dimension.
    refit_spacing: f64 = 0.066, "time against late learning in many dimensions";
    /// The power of `refit_ratio` that counts once refits change little.
    settled_power: f64 = 3.0, "time against late centres";
    /// Users of a sample in R^15 where nearly all have a cohort.
    sample_users: usize = 2048, "time against small cohorts that are missed";
    /// Users of a sample at least, in many dimensions.
    sample_least_users: usize = 128, "the same";
    /// A sample is so many times larger while many users have no cohort.
    sample_more: usize = 4, "the same, early";
    /// The share of users without a cohort that are many.
    sample_unassigned: f64 = 0.3, "the same";
    /// The probability of users' likeliest components, on average, below which a sample is larger.
    sample_certain: f64 = 0.9, "the same";
    /// The user, by rewards, whose number of rewards is what those have who come often.
    sample_reference: usize = 64, "cohorts of a few against visitors who mislead";
    /// Users of a sample have this part of that, or of the dimension, at least.
    sample_least_part: f64 = 0.7, "the same";
    /// Passes of a refit before it looks at the structure, and after.
    passes: usize = 2, "time against what is left to the next refit";
    /// The same while users have fewer rewards than dimensions.
    early_passes: usize = 3, "the same";
    /// Passes of the first fit, which starts from nothing.
    first_passes: usize = 15, "the same";
    /// Rewards of all before the first fit; in fewer dimensions as many as these.
    first_rewards: f64 = 16.0, "chance at first against few arms that are known";
    /// Rewards of all, in dimensions, until which newcomers' vectors are drawn, not their mean alone; later ever less is.
    newcomers_unexplored: f64 = 32.0, "first arms of newcomers against what they teach";
    /// Rewards a user below which a fit starts from nothing, not from the one before …
    fresh_rewards: f64 = 2.0, "time against variances that stay too small";
    /// … and rewards of all, in parts of the dimension.
    fresh_dimensions: f64 = 2.0, "the same";
    /// Passes over all users after the structure was found on a sample of them.
    polishing_passes: usize = 1, "time against centres of the sample alone";
    /// Nats a user by which the evidence changes where further passes change nothing of note.
    settled_evidence: f64 = 2e-5, "time against exactness";
    /// Variances may change by this share before messages are written again.
    stale_variances: f64 = 0.01, "the same";
    /// Growth of the rewards from one look at users' noise to the next.
    noise_growth: f64 = 1.5, "time against noise that is learned late";
    /// γ, what earlier held-out rewards count at the next refit.
    verdict_kept: f64 = 0.7, "steadiness of the verdict against speed";
    /// z from which on cohorts are used.
    verdict_better: f64 = 1.0, "cohorts used late against cohorts that mislead";
    /// z below which cohorts are not used.
    verdict_worse: f64 = -1.5, "the same";
    /// z beyond which cohorts are beyond doubt.
    verdict_sure: f64 = 3.0, "time against cohorts that stay wrong";
    /// Beyond doubt, cohorts are judged by one of so many users of the panel.
    verdict_fewer: usize = 8, "time against exactness";
    /// Standard deviations by which new cohorts must be better at what they were fitted to.
    verdict_clearly: f64 = 2.5, "cohorts used late against cohorts that mislead";
    /// σ² with cohorts is at least this part of σ² without.
    verdict_least_noise: f64 = 0.5, "rewards of 0 and 1, whose noise differs, against cohorts in little noise";
    /// Users of a panel at most.
    panel_users: usize = 256, "time against the power of the verdict";
    /// Users of a panel at least.
    panel_least_users: usize = 16, "memory against the power of the verdict";
    /// The last rewards of a user since the refit that are looked at, where users are many.
    panel_rows: usize = 16, "the same";
    /// The same where users are few.
    panel_most_rows: usize = 64, "the same";
    /// What earlier pairs of rewards count at the next refit when it is told whether arms come again.
    recurrence_kept: f64 = 0.9, "steadiness against offers that change";
    /// The squared distance of two arms that count as the same, in parts of that of any two.
    recurrence_distance: f64 = 1e-3, "optimism that costs against arms that are never known";
    /// The width where no arm comes again, in parts of √ln(1 + n/(d + 1)).
    width_of_new_arms: f64 = 0.5, "the same";
    /// Candidates that fail before a refit gives up.
    candidates_failed: usize = 8, "time against cohorts that are found late";
    /// New cohorts of one refit at most.
    candidates_most_new: usize = 40, "the same";
    /// Passes in which a candidate finds its users, at most.
    candidates_passes: usize = 30, "the same";
    /// Passes after which a candidate that does not promise to gain its cost is given up.
    candidates_hopeless_after: usize = 3, "the same";
    /// The part of what one pass gained that the next may gain, at most.
    candidates_most_part: f64 = 0.9, "the same";
    /// A candidate is a cohort once a pass adds less than this part of its gain.
    candidates_enough: f64 = 0.05, "time against exactness, which passes over all cohorts bring";
    /// Users that are tried as candidates, in R^15.
    candidates_tried: usize = 64, "time against cohorts that are found late";
    /// Blocks of eight users that candidates are compared with first, in R^15.
    candidates_compared: usize = 32, "the same";
    /// Both of these at least, in many dimensions.
    candidates_least: usize = 8, "the same";
    /// Nats that one more cohort must gain: less is noise.
    cohort_margin: f64 = 1.0, "cohorts found late against cohorts that are none";
    /// One of so many cohorts may be removed at once.
    removed_at_once: usize = 8, "time against a cohort too few";
    /// Rewards a user below which nothing tells cohorts apart.
    search_least_rewards: f64 = 2.5, "time against cohorts found late";
    /// Growth of the rewards from one search to the next where nearly everybody has a cohort.
    search_growth: f64 = 2.0, "time against cohorts found late";
    /// The share of users without a cohort below which nearly everybody has one …
    settled_at_large: f64 = 0.02, "the same";
    /// … and the probability of the likeliest component above which that is beyond doubt.
    settled_certainty: f64 = 0.98, "the same";
    /// A cohort is loose if its users are so many times farther from its centre (squared) than those of the cohort in the middle.
    split_loose: f64 = 3.0, "time against two cohorts in one";
    /// The variances that cohorts are tried with where theirs may be too large, in parts of them.
    split_tighter: f64 = 0.1, "the same";
    /// Passes in which everybody settles after a split.
    split_passes: usize = 3, "time against exactness";
    /// Blocks of eight users that are looked at.
    split_blocks: usize = 128, "the same";
    /// The share of users without a cohort from which on a mixture is tried as a whole.
    mixture_unassigned: f64 = 0.3, "time against cohorts found late in much noise";
    /// The probability of the likeliest component from which on a mixture is as good as settled.
    mixture_certain: f64 = 0.9, "the same";
    /// Variances of its cohorts at first, in parts of the population's.
    mixture_first_spread: f64 = 0.3, "cohorts that stay together against cohorts that follow single users";
    /// Passes over half of the users.
    mixture_passes: usize = 16, "time against mixtures that are not taken";
    /// Passes over all of them afterwards.
    mixture_more_passes: usize = 8, "time against exactness";
    /// Nats by which it must be better.
    mixture_margin: f64 = 3.0, "cohorts found late against cohorts that are none";
    /// Growth of the rewards from one try to the next.
    mixture_growth: f64 = 1.5, "time against cohorts found late";
    /// Users below which nothing can be told.
    mixture_least_users: f64 = 64.0, "the same";
    /// Rewards of each, in parts of the dimension, below which nothing can be told.
    mixture_least_rewards: f64 = 0.5, "the same";
    /// Passes after which a covariance is judged.
    directions_passes: usize = 3, "time against directions that are not taken";
    /// Users from which on directions are looked for.
    directions_least_users: f64 = 16.0, "directions found late against directions that are none";
    /// Rewards of each from which on directions are looked for.
    directions_least_rewards: f64 = 3.0, "the same";
    /// Growth of the rewards from one search to the next.
    directions_growth: f64 = 2.0, "time against directions found late";
    /// Cohorts whose users differ less than this, in parts of the population's variance, have no directions.
    directions_tight: f64 = 0.05, "time against directions that hardly matter";
    /// The variance of all other coordinates at first, at least, in parts of the mean.
    directions_least_rest: f64 = 1e-3, "nothing of note: passes change it";
    /// Cohorts differ less within than this part of how much the population does, in squares.
    cohort_tight: f64 = 0.5, "cohorts that are none against loose ones";
    /// Nats by which noise of their own must explain users better.
    noise_margin: f64 = 5.0, "unequal noise found late against noise that is none";
    /// Rewards beyond the dimension from which on a user's noise can be told.
    noise_least_rewards: f64 = 2.0, "the same";
    /// Components less probable than this are left out of a user's posterior.
    likely_component: f64 = 1e-3, "time against users who are misjudged";
    /// A centre counts as known where its variance is below this share of how much users differ.
    known_centre: f64 = 0.03, "time against too little exploration";
    /// Users of the panel that are looked at.
    drift_users: usize = 32, "time against jumps that are noticed late";
    /// The least number of last rewards of a user that is tried.
    drift_least_last: usize = 4, "jumps noticed late against false alarms";
    /// Squared errors from the last rewards alone are at most this part of those from all …
    drift_less: f64 = 0.9, "the same";
    /// … and less by so many standard deviations.
    drift_deviations: f64 = 4.0, "the same";
    /// Growth of the rewards from one look for drift to the next.
    drift_growth: f64 = 0.03, "time against jumps noticed late";
    /// The same, in rewards, at least.
    drift_least_growth: f64 = 8.0, "the same";
}

#[cfg(test)]
mod tests {
    use super::ALL;

    /// Whoever changes a constant, or adds one, says so where people look.
    #[test]
    fn the_document_has_all_of_them() {
        let document = include_str!("../../../../docs/cohort.md");
        for (name, value, what, trades) in ALL {
            let row = format!("| `{name}` | {value} |{what} Trades {trades}. |");
            assert!(document.contains(&row), "docs/cohort.md lacks this row:\n{row}");
        }
    }
}
