//! `mixture`: users scatter around the centres of clusters. Between the two frameworks of the
//! paper: spread → 0 is `clustered`, one cluster is like `gaussian`.
//!
//! θ_i ~ N(μ_c, s·I) with c the cluster of user i and μ_c uniform on the unit sphere.

use cohort::params::Settings;

use super::parts::centres::{CLUSTER_OPTIONS, Centres, cluster_of_every_user, shares};
use super::parts::laws::{LAW_OPTIONS, Laws, SPREAD, check_fits, normal};
use super::parts::linear::{UserLaw, Users};
use super::parts::user_options::{USER_OPTIONS, UserOptions};
use crate::Error;
use crate::environment::{Environment, EnvironmentInfo, Size, World};
use crate::seed::{Purpose, Seed};

/// Static metadata of the environment: name, summary, parameters.
pub(super) const INFO: EnvironmentInfo = EnvironmentInfo {
    name: "mixture",
    summary: "users scatter around the centres of clusters",
    params: &[LAW_OPTIONS, USER_OPTIONS, CLUSTER_OPTIONS, SPREAD],
    build,
};

struct Mixture {
    laws: Laws,
    user_options: UserOptions,
    /// The cluster of every user, visitors last.
    clusters: Vec<usize>,
    count: usize,
    spread: f64,
}

fn build(settings: &Settings) -> Result<Box<dyn Environment>, Error> {
    let laws = Laws::from_settings(settings)?;
    let count = settings.count("clusters");
    check_fits("clusters", count, laws.dim)?;
    let user_options = UserOptions::from_settings(settings, &laws)?;
    let of = |users| cluster_of_every_user(users, count, settings.real("imbalance"));
    let clusters = [of(laws.users), of(user_options.visitors())].concat();
    Ok(Box::new(Mixture { laws, user_options, clusters, count, spread: settings.real("spread") }))
}

impl Environment for Mixture {
    fn size(&self) -> Size {
        self.laws.size()
    }

    fn world(&self, seed: Seed) -> Result<Box<dyn World>, Error> {
        let subspace = self.user_options.subspace(self.laws.dim, seed);
        let mut rng = seed.stream(Purpose::Users, 0);
        let centres = Centres::Uniform.draw(self.count, subspace.rank(), &mut rng)?;
        let centres: Vec<_> = centres.into_iter().map(|centre| subspace.lift(centre)).collect();
        let deviation = self.spread.sqrt() * subspace.stretch();
        let mut thetas = Vec::with_capacity(self.clusters.len() * self.laws.dim);
        for &cluster in &self.clusters {
            let own = subspace.lift(normal(subspace.rank(), &mut rng));
            thetas.extend(centres[cluster].iter().zip(own).map(|(mu, own)| mu + deviation * own));
        }
        let law = UserLaw {
            centres: centres.concat(),
            weights: shares(&self.clusters[..self.laws.users], self.count),
            scatter: subspace.scatter(self.spread),
            ..UserLaw::default()
        };
        let (clusters, law) = (self.clusters.clone(), Some(law));
        let users = Users { thetas, clusters, law, ..Users::default() };
        Ok(self.user_options.world(users, &self.laws, seed))
    }
}
