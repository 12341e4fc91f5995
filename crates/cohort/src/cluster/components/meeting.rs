//! Two blocks of points meet: whoever are neighbours are joined.

use super::block::{Block, half_square};
use super::disjoint::DisjointSets;
use super::lanes::{
    AT_ONCE, Lanes, MOST_POINTS, MOST_VECTORS, Mask, MeetAll, Row, Shift, WIDTH, first, members,
};
use super::search::Search;

/// The points of a block, and what they hang together with.
pub(super) struct Party<'a> {
    pub block: &'a Block,
    /// Where each of them is in the tree.
    pub positions: &'a [u32],
    /// Some member of each one's set: its root when last looked up.
    pub roots: [u32; MOST_POINTS],
}

/// Room to work in.
pub(super) struct Desk {
    pub low: Vec<f32>,
    pub high: Vec<f32>,
    offset: Vec<f32>,
    moved: Vec<Row>,
    limits: Row,
}

impl Desk {
    pub fn new(dim: usize) -> Self {
        Self {
            low: vec![0.0; dim],
            high: vec![0.0; dim],
            offset: vec![0.0; dim],
            moved: vec![[Lanes::all(0.0); MOST_VECTORS]; dim],
            limits: [Lanes::all(0.0); MOST_VECTORS],
        }
    }
}

impl<'a> Party<'a> {
    pub fn new(block: &'a Block, positions: &'a [u32]) -> Self {
        let mut roots = [0; MOST_POINTS];
        roots[..positions.len()].copy_from_slice(positions);
        Self { block, positions, roots }
    }

    pub fn everybody(&self) -> Mask {
        first(self.positions.len())
    }

    /// Looks up the roots of some.
    pub fn look_up(&mut self, sets: &DisjointSets, some: Mask) {
        for l in members(some) {
            self.roots[l] = sets.find(self.roots[l]);
        }
    }

    /// Those whose root, when last looked up, is the one given.
    pub fn members_of(&self, root: u32) -> Mask {
        let mut mask = 0;
        for (v, roots) in self.roots.chunks_exact(WIDTH).enumerate() {
            let mut bits = 0_u16;
            for (l, other) in roots.iter().enumerate() {
                bits |= u16::from(*other == root) << l;
            }
            mask |= Mask::from(bits) << (WIDTH * v);
        }
        mask & self.everybody()
    }

    /// The root of all, when last looked up, if they have one.
    fn common_root(&self) -> Option<u32> {
        let roots = &self.roots[..self.positions.len()];
        roots.iter().all(|root| *root == roots[0]).then(|| roots[0])
    }

    /// Two sets have become one.
    fn merge(&mut self, a: u32, b: u32, root: u32) {
        for known in &mut self.roots {
            if *known == a || *known == b {
                *known = root;
            }
        }
    }
}

impl Search<'_> {
    /// Joins the asking guests with their neighbours among the hosts.
    pub fn introduce(&self, desk: &mut Desk, guests: &mut Party, asking: Mask, hosts: &mut Party) {
        if asking == 0 {
            return;
        }
        let mut waiting = self.move_to(desk, guests.block, hosts.block, asking);
        while waiting != 0 {
            let mut group = [0; AT_ONCE];
            let mut count = 0;
            for guest in members(waiting).take(AT_ONCE) {
                group[count] = guest as u8;
                count += 1;
                waiting &= !(1 << guest);
            }
            let proposed = self.index.processor.run(MeetAll {
                lanes: &hosts.block.lanes,
                vectors: hosts.block.vectors,
                moved: &desk.moved,
                askers: &group[..count],
                limits: &desk.limits,
            });
            let mut joined = false;
            for (&guest, proposed) in group[..count].iter().zip(proposed) {
                joined |= proposed != 0 && self.join(guests, guest.into(), hosts, proposed);
            }
            if joined && let Some(root) = hosts.common_root() {
                waiting &= !guests.members_of(root);
            }
        }
    }

    /// Moves the asking guests into the frame of the hosts and sets their limits there. Returns
    /// those within γ of the ball around the hosts.
    fn move_to(&self, desk: &mut Desk, guests: &Block, hosts: &Block, asking: Mask) -> Mask {
        let mut square = 0.0;
        for (k, offset) in desk.offset.iter_mut().enumerate() {
            let way = guests.centre[k] - hosts.centre[k];
            square += way * way;
            *offset = way as f32;
        }
        let reach = guests.radius + square.sqrt() * (1.0 + 1e-9) + hosts.radius;
        let (gamma, dim) = (self.index.near.unit().gamma, self.index.near.dim());
        self.index.processor.run(Shift {
            lanes: &guests.lanes,
            vectors: guests.vectors,
            wanted: asking,
            offset: &desk.offset,
            ball: half_square(gamma + hosts.radius, reach, dim) as f32,
            within: half_square(gamma, reach, dim) as f32,
            moved: &mut desk.moved,
            limits: &mut desk.limits,
        })
    }

    /// Joins a guest with those of the proposed hosts that are its neighbours, one of each set.
    /// Returns whether there was one.
    fn join(&self, guests: &mut Party, guest: usize, hosts: &mut Party, proposed: Mask) -> bool {
        let mut joined = false;
        let order = &self.index.tree.order;
        let at = guests.positions[guest];
        for host in members(proposed) {
            let (mine, theirs) = (guests.roots[guest], hosts.roots[host]);
            let host_at = hosts.positions[host];
            if mine != theirs && self.index.near.near(order[at as usize], order[host_at as usize]) {
                let root = self.sets.join(at, host_at);
                guests.merge(mine, theirs, root);
                hosts.merge(mine, theirs, root);
                joined = true;
            }
        }
        joined
    }
}
