//! What should a node do with each partition, by what it knows and by its own clock? Nothing here waits or asks anybody, so
//! that nodes whose clocks differ can be simulated (`tests/cluster_leases.rs`).

use std::time::{Duration, Instant};

use crate::cluster::assign::targets;
use crate::cluster::members::{DEAD, Lease, View};

/// Since when every message that a node lives was acknowledged, and when the last was.
#[derive(Clone, Copy, Debug, Default)]
pub struct Heard(Option<(Instant, Instant)>);

impl Heard {
    /// Whether a message that is acknowledged now follows the last one without a silence in which others may have taken what
    /// this node owned: it was written before others could tell that this node was silent for so long. Where it does not, leases
    /// have to be read anew before it counts.
    pub fn continues(&self, now: Instant) -> bool {
        self.0.is_some_and(|(_, before)| age(before, now) < DEAD)
    }

    /// A message that was sent then was acknowledged now, or was not by now.
    pub fn beat(&mut self, sent: Instant, is_acknowledged: bool, now: Instant) {
        self.0 = match (is_acknowledged, self.0) {
            // The clock of a process that was stopped has gone on: what it knew is old.
            (true, Some((since, _))) if self.continues(now) => Some((since, sent)),
            (true, _) => Some((sent, sent)),
            (false, known) => known.filter(|(_, before)| age(*before, now) < DEAD),
        };
    }

    /// Whether others still take this node for alive, by its own clock.
    pub fn is_heard(&self, now: Instant) -> bool {
        self.0.is_some_and(|(_, last)| age(last, now) < DEAD)
    }

    /// Whether this node can tell who is dead: it was heard all the time in which others were not.
    pub fn can_judge(&self, now: Instant) -> bool {
        self.0.is_some_and(|(since, last)| age(since, now) > DEAD && age(last, now) < DEAD / 2)
    }
}

fn age(since: Instant, now: Instant) -> Duration {
    now.saturating_duration_since(since)
}

/// What a partition is to this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// Not served here.
    Not,
    /// Served.
    Served,
    /// Served until its engine failed.
    Failed,
}

/// What is to be done with a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Duty {
    /// Nothing.
    None,
    /// It belongs to somebody else, or cannot go on.
    Abandon,
    /// Another node is to have it: the lease is given up, if it still has this revision.
    GiveUp(Lease, u64),
    /// This node takes it, if the lease still has this revision.
    TakeOver(Lease, u64),
}

/// What this process does with each of `held`, which are all partitions.
pub fn duties(
    view: &View,
    (me, instance): (&str, &str),
    held: &[Held],
    can_judge: bool,
    now: Instant,
) -> Vec<Duty> {
    let count = held.len() as u32;
    let owner = |partition| view.owner(partition, now).map(|node| node.node.clone());
    let owners: Vec<Option<String>> = (0..count).map(owner).collect();
    let takes_part = view.living(now).filter(|node| !view.drains(&node.node));
    let nodes: Vec<String> = takes_part.map(|node| node.node.clone()).collect();
    let targets = targets(&nodes, &owners);
    let duty = |(partition, held): (u32, &Held)| {
        let (lease, revision) = view.lease(partition);
        let target = targets[partition as usize].as_deref();
        let is_mine = lease.node == me && lease.instance == instance;
        match held {
            Held::Failed => Duty::Abandon,
            Held::Served if !is_mine => Duty::Abandon,
            Held::Served if target.is_some_and(|target| target != me) => {
                Duty::GiveUp(lease, revision)
            }
            Held::Served => Duty::None,
            Held::Not => {
                let is_free = lease.node.is_empty();
                let is_orphan = owners[partition as usize].is_none() && can_judge;
                match is_mine || target == Some(me) && (is_free || is_orphan) {
                    true => Duty::TakeOver(lease, revision),
                    false => Duty::None,
                }
            }
        }
    };
    (0..count).zip(held).map(duty).collect()
}
