//! `mixture`: users scatter around the centres of clusters. Between the two frameworks of the
//! paper: spread → 0 is `clustered`, one cluster is like `gaussian`.
//!
//! θ_i ~ N(μ_c, s·I) with c the cluster of user i and μ_c uniform on the unit sphere.

use cohort::params::Settings;

use super::parts::centres::{CLUSTER_OPTIONS, Centres, cluster_of_every_user, shares};
use super::parts::laws::{LAW_OPTIONS, Laws, SPREAD, check_fits, normal};
use super::parts::linear::{LinearWorld, UserLaw, Users, isotropic};
use crate::Error;
use crate::environment::{Environment, EnvironmentInfo, Size, World};
use crate::seed::{Purpose, Seed};

/// What is known of it before it is made.
pub(super) const INFO: EnvironmentInfo = EnvironmentInfo {
    name: "mixture",
    summary: "users scatter around the centres of clusters",
    params: &[LAW_OPTIONS, CLUSTER_OPTIONS, SPREAD],
    build,
};

struct Mixture {
    laws: Laws,
    clusters: Vec<usize>,
    count: usize,
    spread: f64,
}

fn build(settings: &Settings) -> Result<Box<dyn Environment>, Error> {
    let laws = Laws::from_settings(settings)?;
    let count = settings.count("clusters");
    check_fits("clusters", count, laws.dim)?;
    let clusters = cluster_of_every_user(laws.users, count, settings.real("imbalance"));
    Ok(Box::new(Mixture { laws, clusters, count, spread: settings.real("spread") }))
}

impl Environment for Mixture {
    fn size(&self) -> Size {
        self.laws.size()
    }

    fn world(&self, seed: Seed) -> Result<Box<dyn World>, Error> {
        let dim = self.laws.dim;
        let mut rng = seed.stream(Purpose::Users, 0);
        let centres = Centres::Uniform.draw(self.count, dim, &mut rng)?;
        let deviation = self.spread.sqrt();
        let mut thetas = Vec::with_capacity(self.clusters.len() * dim);
        for &cluster in &self.clusters {
            let own = normal(dim, &mut rng);
            thetas.extend(centres[cluster].iter().zip(own).map(|(mu, own)| mu + deviation * own));
        }
        let law = UserLaw {
            centres: centres.concat(),
            weights: shares(&self.clusters, self.count),
            scatter: isotropic(dim, self.spread),
        };
        let users = Users { thetas, clusters: self.clusters.clone(), law: Some(law) };
        Ok(Box::new(LinearWorld::new(users, dim, self.laws.sigma(), self.laws.rounds(seed))))
    }
}
