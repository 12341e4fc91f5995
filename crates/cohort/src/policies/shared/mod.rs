//! Parts that several algorithms share.

pub(crate) mod clubs;
mod cluster_learners;
pub(crate) mod edge_slack;
mod epochs;
pub(crate) mod forced;
pub(crate) mod hierarchy;
pub(crate) mod information_sets;
mod per_cluster;
mod pooled;
mod regressions;
pub(crate) mod robust;
pub(crate) mod served;
pub(crate) mod subspace;
pub(crate) mod tasks;

pub(crate) use cluster_learners::{ClusterLearners, Histories};
pub(crate) use epochs::Epochs;
pub(crate) use per_cluster::{KnownClusters, PerCluster};
pub(crate) use pooled::PooledClusters;
pub(crate) use regressions::{REGRESSION_PARAMS, Regressions};
