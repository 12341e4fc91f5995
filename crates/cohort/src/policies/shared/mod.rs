//! What several algorithms have in common.

pub(crate) mod clubs;
mod per_cluster;
mod pooled;

pub(crate) use per_cluster::PerCluster;
pub(crate) use pooled::{PooledClusters, UserHistories};
