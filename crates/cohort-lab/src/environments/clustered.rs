//! `clustered`: users of a cluster are the same. The clustering framework of the paper.
//!
//! θ_i is the centre of user i's cluster. Centres lie on the unit sphere; the sizes of clusters
//! are ∝ i^−z.
//!
//! Reference: the paper, Sections 2 and 7.

use cohort::params::{Kind, Param, Settings};
use std::ops::Bound;

use super::parts::centres::{CLUSTER_OPTIONS, Centres, cluster_of_every_user, shares};
use super::parts::laws::{LAW_OPTIONS, Laws, check_fits};
use super::parts::linear::{UserLaw, Users};
use super::parts::user_options::{USER_OPTIONS, UserOptions};
use crate::Error;
use crate::environment::{Environment, EnvironmentInfo, Size, World};
use crate::seed::{Purpose, Seed};

/// Static metadata of the environment: name, summary, parameters.
pub(super) const INFO: EnvironmentInfo = EnvironmentInfo {
    name: "clustered",
    summary: "users of a cluster are the same (the paper's clustering framework)",
    params: &[LAW_OPTIONS, USER_OPTIONS, CLUSTER_OPTIONS, CENTRE_OPTIONS],
    build,
};

const CENTRE_OPTIONS: &[Param] = &[
    Param::derived(
        "separation",
        Kind::Real(Bound::Excluded(0.0), Bound::Included(2.0)),
        "uniform on the unit sphere",
        "no two centres are closer than this",
    ),
    Param::derived(
        "spacing",
        Kind::Real(Bound::Excluded(0.0), Bound::Included(1.0)),
        "uniform on the unit sphere",
        "centres lie close together, all this far from each other (about, where there are as many \
         clusters as dimensions or more)",
    ),
];

struct Clustered {
    laws: Laws,
    user_options: UserOptions,
    /// The cluster of every user, visitors last.
    clusters: Vec<usize>,
    count: usize,
    centres: Centres,
}

fn build(settings: &Settings) -> Result<Box<dyn Environment>, Error> {
    let laws = Laws::from_settings(settings)?;
    let centres = match (settings.optional("separation"), settings.optional("spacing")) {
        (Some(_), Some(_)) => {
            return Err(Error::unexpected(
                "separation and spacing",
                "both",
                "one of them: separation for centres far apart, spacing for centres close together",
            ));
        }
        (Some(separation), None) => Centres::Separated(separation),
        (None, Some(spacing)) => Centres::Spaced(spacing),
        (None, None) => Centres::Uniform,
    };
    let count = settings.count("clusters");
    check_fits("clusters", count, laws.dim)?;
    let user_options = UserOptions::from_settings(settings, &laws)?;
    let of = |users| cluster_of_every_user(users, count, settings.real("imbalance"));
    let clusters = [of(laws.users), of(user_options.visitors())].concat();
    Ok(Box::new(Clustered { laws, user_options, clusters, count, centres }))
}

impl Environment for Clustered {
    fn size(&self) -> Size {
        self.laws.size()
    }

    fn world(&self, seed: Seed) -> Result<Box<dyn World>, Error> {
        let subspace = self.user_options.subspace(self.laws.dim, seed);
        let mut rng = seed.stream(Purpose::Users, 0);
        let centres = self.centres.draw(self.count, subspace.rank(), &mut rng)?;
        let centres: Vec<_> = centres.into_iter().map(|centre| subspace.lift(centre)).collect();
        let thetas = self.clusters.iter().flat_map(|&cluster| centres[cluster].clone()).collect();
        let law = UserLaw {
            centres: centres.concat(),
            weights: shares(&self.clusters[..self.laws.users], self.count),
            scatter: Vec::new(),
            ..UserLaw::default()
        };
        let (clusters, law) = (self.clusters.clone(), Some(law));
        let users = Users { thetas, clusters, law, ..Users::default() };
        Ok(self.user_options.world(users, &self.laws, seed))
    }
}
