//! Parts that several algorithms share.

pub(crate) mod clubs;
pub(crate) mod edge_slack;
mod epochs;
pub(crate) mod forced;
pub(crate) mod hierarchy;
pub(crate) mod information_sets;
mod model;
mod per_cluster;
mod pooled;
pub(crate) mod robust;
pub(crate) mod served;
pub(crate) mod subspace;
pub(crate) mod tasks;

pub(crate) use epochs::Epochs;
pub(crate) use model::{MODEL_PARAMS, Model};
pub(crate) use per_cluster::{KnownClusters, PerCluster};
pub(crate) use pooled::{PooledClusters, UserHistories};
