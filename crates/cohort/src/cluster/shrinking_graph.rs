//! Decremental connectivity: a graph that only loses edges, and its components after every loss.
//!
//! A spanning forest is kept beside the edges: cutting an edge outside it separates nothing.
//! Cutting a forest edge leaves two trees. The smaller is found by walking both in step. Either one
//! of its vertices has another edge to the larger tree, which replaces the edge cut, or it is a
//! component of its own from now on.

mod saved;

/// A graph on vertices 0, 1, … whose edges can be cut.
#[derive(Clone, Debug)]
pub struct ShrinkingGraph {
    edges: Edges,
    /// The spanning forest as adjacency lists.
    forest: Vec<Vec<u32>>,
    /// The component of every vertex, and its index among the members.
    place: Vec<(u32, u32)>,
    /// The members of every component.
    members: Vec<Vec<u32>>,
}

#[derive(Clone, Debug)]
enum Edges {
    /// All pairs within a component except those cut: one bit per pair, and no memory for vertices
    /// that have lost no edge.
    AllBut(Vec<Bits>),
    /// Exactly the listed neighbours.
    Only(Vec<Vec<u32>>),
}

/// A component that came apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split {
    /// The old component, which keeps the larger side.
    pub from: usize,
    /// The new component with the smaller side.
    pub into: usize,
}

impl ShrinkingGraph {
    /// The complete graph.
    pub fn complete(vertices: usize) -> Self {
        let mut graph = Self::without_vertices(Edges::AllBut(Vec::new()));
        for vertex in 0..vertices {
            graph.add_to_all_of((vertex > 0).then_some(0));
        }
        graph
    }

    /// The graph in which every vertex has edges to the lower vertices in its list.
    pub fn from_lower_neighbours(lower: &[Vec<usize>]) -> Self {
        let mut graph = Self::without_vertices(Edges::Only(Vec::new()));
        for neighbours in lower {
            graph.add_to(neighbours);
        }
        graph
    }

    fn without_vertices(edges: Edges) -> Self {
        Self { edges, forest: Vec::new(), place: Vec::new(), members: Vec::new() }
    }

    /// Adds a vertex with edges to all members of one component, or alone.
    ///
    /// # Panics
    /// If the graph did not start complete.
    pub fn add_to_all_of(&mut self, component: Option<usize>) {
        let Edges::AllBut(cuts) = &mut self.edges else {
            panic!("only a complete graph grows by complete vertices");
        };
        cuts.push(Bits::default());
        let vertex = self.add_alone();
        if let Some(component) = component {
            let neighbour = self.members[component][0];
            self.join(vertex, neighbour);
        }
    }

    /// Adds a vertex with edges to `neighbours`.
    ///
    /// # Panics
    /// If the graph started complete.
    pub fn add_to(&mut self, neighbours: &[usize]) {
        let vertex = self.add_alone();
        let Edges::Only(lists) = &mut self.edges else {
            panic!("a complete graph grows by complete vertices only");
        };
        lists.push(neighbours.iter().map(|&neighbour| neighbour as u32).collect());
        for &neighbour in neighbours {
            lists[neighbour].push(vertex);
        }
        for &neighbour in neighbours {
            self.join(vertex, neighbour as u32);
        }
    }

    fn add_alone(&mut self) -> u32 {
        let vertex = self.place.len() as u32;
        self.forest.push(Vec::new());
        self.place.push((self.members.len() as u32, 0));
        self.members.push(vec![vertex]);
        vertex
    }

    /// Merges two components that have come to share an edge: the larger takes in the smaller, and
    /// the last component takes over the number that became free.
    fn join(&mut self, a: u32, b: u32) {
        let (mut from, mut into) = (self.component(a as usize), self.component(b as usize));
        if from == into {
            return;
        }
        self.forest[a as usize].push(b);
        self.forest[b as usize].push(a);
        if self.members[from].len() > self.members[into].len() {
            (from, into) = (into, from);
        }
        for vertex in std::mem::take(&mut self.members[from]) {
            self.place[vertex as usize] = (into as u32, self.members[into].len() as u32);
            self.members[into].push(vertex);
        }
        self.members.swap_remove(from);
        for vertex in self.members.get(from).into_iter().flatten() {
            self.place[*vertex as usize].0 = from as u32;
        }
    }

    /// How many vertices there are.
    pub fn vertices(&self) -> usize {
        self.place.len()
    }

    /// How many components there are.
    pub fn components(&self) -> usize {
        self.members.len()
    }

    /// The component of a vertex.
    pub fn component(&self, vertex: usize) -> usize {
        self.place[vertex].0 as usize
    }

    /// The vertices of a component, in no particular order.
    pub fn members(&self, component: usize) -> impl ExactSizeIterator<Item = usize> {
        self.members[component].iter().map(|&vertex| vertex as usize)
    }

    /// The vertex of a component that has no other.
    pub fn only_member(&self, component: usize) -> Option<usize> {
        match self.members[component][..] {
            [only] => Some(only as usize),
            _ => None,
        }
    }

    /// The component with the most vertices; ties go to the one with the lowest vertex.
    pub fn largest_component(&self) -> Option<usize> {
        let most = self.members.iter().map(Vec::len).max()?;
        let largest: Vec<usize> =
            (0..self.components()).filter(|&at| self.members[at].len() == most).collect();
        match largest[..] {
            [only] => Some(only),
            _ => largest.into_iter().min_by_key(|&at| self.members[at].iter().min()),
        }
    }

    /// The remaining neighbours of a vertex.
    pub fn neighbours(&self, vertex: usize) -> impl Iterator<Item = usize> {
        let (candidates, cuts) = match &self.edges {
            Edges::AllBut(cuts) => (&self.members[self.component(vertex)], Some(&cuts[vertex])),
            Edges::Only(lists) => (&lists[vertex], None),
        };
        (candidates.iter().map(|&other| other as usize))
            .filter(move |&other| other != vertex && !cuts.is_some_and(|cuts| cuts.has(other)))
    }

    /// Cuts the edge between two vertices, which must exist.
    pub fn cut(&mut self, a: usize, b: usize) -> Option<Split> {
        match &mut self.edges {
            Edges::AllBut(cuts) => {
                cuts[a].set(b);
                cuts[b].set(a);
            }
            Edges::Only(lists) => {
                remove(&mut lists[a], b);
                remove(&mut lists[b], a);
            }
        }
        let (short, long) =
            if self.forest[a].len() < self.forest[b].len() { (a, b) } else { (b, a) };
        if !remove(&mut self.forest[short], long) {
            return None;
        }
        remove(&mut self.forest[long], short);
        let smaller = self.smaller_tree(a, b);
        match self.bridge(&smaller) {
            Some((inside, outside)) => {
                self.forest[inside].push(outside as u32);
                self.forest[outside].push(inside as u32);
                None
            }
            None => Some(self.part(&smaller)),
        }
    }

    /// The vertices of the smaller of the trees that two vertices are in, walking both in step.
    fn smaller_tree(&self, a: usize, b: usize) -> Vec<u32> {
        let (mut a, mut b) = (TreeWalk::from(a), TreeWalk::from(b));
        loop {
            if a.is_over(&self.forest) {
                return a.found.into_iter().map(|(vertex, _)| vertex).collect();
            }
            std::mem::swap(&mut a, &mut b);
        }
    }

    /// An edge from `some` of the members of a component to the others.
    fn bridge(&self, some: &[u32]) -> Option<(usize, usize)> {
        let mut inside = Bits::default();
        for &vertex in some {
            inside.set(vertex as usize);
        }
        (some.iter().map(|&vertex| vertex as usize)).find_map(|vertex| {
            let outside = self.neighbours(vertex).find(|&other| !inside.has(other))?;
            Some((vertex, outside))
        })
    }

    /// Makes `some` of the members of a component a component of their own.
    fn part(&mut self, some: &[u32]) -> Split {
        let from = self.component(some[0] as usize);
        let into = self.members.len();
        for (at, &vertex) in some.iter().enumerate() {
            let (_, gap) =
                std::mem::replace(&mut self.place[vertex as usize], (into as u32, at as u32));
            self.members[from].swap_remove(gap as usize);
            if let Some(&moved) = self.members[from].get(gap as usize) {
                self.place[moved as usize].1 = gap;
            }
        }
        self.members.push(some.to_vec());
        Split { from, into }
    }
}

/// Takes a vertex out of a list, if it is there.
fn remove(list: &mut Vec<u32>, vertex: usize) -> bool {
    let place = list.iter().position(|&other| other as usize == vertex);
    place.is_some_and(|place| {
        list.swap_remove(place);
        true
    })
}

/// A walk through a tree, one edge a step.
struct TreeWalk {
    /// The vertices found, each with the one it was found from.
    found: Vec<(u32, u32)>,
    /// The vertex being visited, and how many of its edges have been followed.
    at: usize,
    edges_seen: usize,
}

impl TreeWalk {
    fn from(root: usize) -> Self {
        Self { found: vec![(root as u32, root as u32)], at: 0, edges_seen: 0 }
    }

    /// Follows one more edge; true when there was none left.
    fn is_over(&mut self, forest: &[Vec<u32>]) -> bool {
        while let Some(&(vertex, parent)) = self.found.get(self.at) {
            if let Some(&next) = forest[vertex as usize].get(self.edges_seen) {
                self.edges_seen += 1;
                if next != parent {
                    self.found.push((next, vertex));
                }
                return false;
            }
            self.at += 1;
            self.edges_seen = 0;
        }
        true
    }
}

/// A set of small numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bits(Vec<u64>);

impl Bits {
    pub(crate) fn set(&mut self, at: usize) {
        if self.0.len() <= at / 64 {
            self.0.resize(at / 64 + 1, 0);
        }
        self.0[at / 64] |= 1 << (at % 64);
    }

    pub(crate) fn has(&self, at: usize) -> bool {
        self.0.get(at / 64).is_some_and(|word| word >> (at % 64) & 1 == 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::partition::number_by_smallest_member;
    use proptest::prelude::*;

    fn labels(graph: &ShrinkingGraph) -> Vec<usize> {
        let mut labels: Vec<usize> = (0..graph.vertices()).map(|v| graph.component(v)).collect();
        number_by_smallest_member(&mut labels);
        labels
    }

    /// Components by relabelling along every edge until nothing changes.
    fn plain_labels(vertices: usize, edges: &[(usize, usize)]) -> Vec<usize> {
        let mut labels: Vec<usize> = (0..vertices).collect();
        loop {
            let before = labels.clone();
            for &(a, b) in edges {
                let lowest = labels[a].min(labels[b]);
                (labels[a], labels[b]) = (lowest, lowest);
            }
            if labels == before {
                number_by_smallest_member(&mut labels);
                return labels;
            }
        }
    }

    /// Cuts the edges in this order and compares with the plain version after every cut.
    fn check(mut graph: ShrinkingGraph, mut edges: Vec<(usize, usize)>) {
        assert_eq!(labels(&graph), plain_labels(graph.vertices(), &edges));
        while let Some((a, b)) = edges.pop() {
            let before = graph.components();
            let split = graph.cut(a, b);
            assert_eq!(graph.components(), before + usize::from(split.is_some()));
            if let Some(Split { from, into }) = split {
                assert!(graph.members(into).len() <= graph.members(from).len());
            }
            assert_eq!(labels(&graph), plain_labels(graph.vertices(), &edges));
            for vertex in 0..graph.vertices() {
                let mut left: Vec<usize> = graph.neighbours(vertex).collect();
                left.sort();
                let mut expected: Vec<usize> = (edges.iter())
                    .filter_map(|&(a, b)| (a == vertex).then_some(b).or((b == vertex).then_some(a)))
                    .collect();
                expected.sort();
                assert_eq!(left, expected);
                let component = graph.component(vertex);
                assert!(graph.members(component).any(|member| member == vertex));
            }
        }
        assert_eq!(graph.components(), graph.vertices());
    }

    fn pairs(vertices: usize) -> Vec<(usize, usize)> {
        (0..vertices).flat_map(|a| (0..a).map(move |b| (a, b))).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn components_follow_every_cut_of_a_complete_graph(
            vertices in 1usize..12,
            keys in prop::collection::vec(any::<u32>(), 66),
        ) {
            let mut edges = pairs(vertices);
            edges.sort_by_key(|&(a, b)| keys[a * (a - 1) / 2 + b]);
            check(ShrinkingGraph::complete(vertices), edges);
        }

        #[test]
        fn components_follow_every_cut_of_any_graph(
            vertices in 1usize..14,
            keys in prop::collection::vec(any::<u32>(), 91),
        ) {
            let mut edges = pairs(vertices);
            edges.retain(|&(a, b)| keys[a * (a - 1) / 2 + b] % 3 == 0);
            edges.sort_by_key(|&(a, b)| keys[a * (a - 1) / 2 + b]);
            let lower: Vec<Vec<usize>> = (0..vertices)
                .map(|v| edges.iter().filter(|edge| edge.0 == v).map(|edge| edge.1).collect())
                .collect();
            check(ShrinkingGraph::from_lower_neighbours(&lower), edges);
        }
    }

    #[test]
    fn a_late_vertex_is_next_to_one_component_only() {
        let mut graph = ShrinkingGraph::complete(3);
        graph.cut(0, 1);
        assert_eq!(graph.cut(0, 2), Some(Split { from: 0, into: 1 }));
        let pair = graph.largest_component();
        graph.add_to_all_of(pair);
        assert_eq!(labels(&graph), [0, 1, 1, 1]);
        assert_eq!(graph.neighbours(3).count(), 2);
        graph.add_to_all_of(None);
        assert_eq!(labels(&graph), [0, 1, 1, 1, 2]);
    }
}
