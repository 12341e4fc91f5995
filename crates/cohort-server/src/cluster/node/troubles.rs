//! What is wrong with a node and its partitions, in sentences for people?

use std::sync::Arc;
use std::time::Instant;

use super::{Node, locked};
use crate::cluster::partition::{Partition, Trouble, trouble_of};

impl Node {
    /// Where is told why the control stream cannot be followed.
    pub(in crate::cluster) fn replica_trouble(&self) -> Trouble {
        self.replica.clone()
    }

    /// Says what is wrong with the servers.
    pub fn set_servers(&self, troubles: Vec<String>) {
        let mut known = locked(&self.servers);
        for why in troubles.iter().filter(|why| !known.contains(why)) {
            tracing::error!(why, "a NATS server does not keep what is promised");
        }
        *known = troubles;
    }

    /// What is wrong here: sentences for people.
    pub fn troubles(&self) -> Vec<String> {
        let name = |partition: u32| self.context.shape.name_of(partition);
        let refused = locked(&self.refused).clone().into_iter();
        let refused = refused.map(|(partition, (why, _))| {
            format!("{} cannot be served by {}: {why}", name(partition), self.name())
        });
        let of_partition = |owned: &Arc<Partition>| {
            let (name, troubles) = (name(owned.index()), owned.troubles());
            troubles.into_iter().map(move |why| format!("{name}: {why}")).collect::<Vec<_>>()
        };
        let mut troubles: Vec<String> = refused.collect();
        troubles.extend(self.partitions().iter().flat_map(of_partition));
        troubles.extend(trouble_of(&self.replica));
        troubles.extend(locked(&self.servers).iter().cloned());
        troubles
    }

    /// Partitions that nobody serves, by what is known here: without an owner, or not taken over by it yet.
    pub fn unserved(&self) -> Vec<String> {
        let (now, view) = (Instant::now(), self.view());
        let told = (0..=self.context.shape.partitions).filter_map(|partition| {
            let name = self.context.shape.name_of(partition);
            let Some(owner) = view.owner(partition, now) else {
                return Some(format!("{name} has no owner"));
            };
            let epoch = view.lease(partition).0.epoch;
            let serves = match owner.instance == self.instance {
                true => self.owned(partition).is_some_and(|owned| owned.epoch() == epoch),
                false => {
                    owner.owns.iter().any(|one| (one.partition, one.epoch) == (partition, epoch))
                }
            };
            (!serves).then(|| format!("{name} is not served by its owner {} yet", owner.node))
        });
        told.collect()
    }
}
