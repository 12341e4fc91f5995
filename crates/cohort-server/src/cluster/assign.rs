//! Which node should own which partition? A function of who is there and who owns what: nodes that see the same come to
//! the same, and nobody has to be asked.

use std::collections::BTreeMap;

/// The node that should own each partition: evenly, with as few moves as that takes. `nodes` are those that may own
/// any, by name; `owners` those that own partitions now.
pub fn targets(nodes: &[String], owners: &[Option<String>]) -> Vec<Option<String>> {
    if nodes.is_empty() {
        return owners.to_vec();
    }
    let mut counts: BTreeMap<&str, usize> = nodes.iter().map(|node| (node.as_str(), 0)).collect();
    for owner in owners.iter().flatten() {
        if let Some(count) = counts.get_mut(owner.as_str()) {
            *count += 1;
        }
    }
    // Where it does not come out even, those who own most have one more.
    let mut order: Vec<(&str, usize)> =
        counts.iter().map(|(node, count)| (*node, *count)).collect();
    order.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    let (each, more) = (owners.len() / nodes.len(), owners.len() % nodes.len());
    let mut room: BTreeMap<&str, usize> = order
        .iter()
        .enumerate()
        .map(|(at, (node, _))| (*node, each + usize::from(at < more)))
        .collect();
    let mut targets: Vec<Option<String>> = owners
        .iter()
        .map(|owner| {
            let room = room.get_mut(owner.as_deref()?).filter(|room| **room > 0)?;
            *room -= 1;
            owner.clone()
        })
        .collect();
    for target in targets.iter_mut().filter(|target| target.is_none()) {
        let most = room.iter_mut().max_by(|a, b| (*a.1).cmp(&*b.1).then(b.0.cmp(a.0)));
        if let Some((node, left)) = most {
            *left -= 1;
            *target = Some((*node).to_owned());
        }
    }
    targets
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names(count: usize) -> Vec<String> {
        (0..count).map(|node| format!("n{node}")).collect()
    }

    proptest! {
        #[test]
        fn all_have_an_owner_evenly_and_nothing_moves_without_need(
            nodes in 1..6usize,
            owners in prop::collection::vec(prop::option::of(0..8usize), 0..70),
        ) {
            let owners: Vec<_> =
                owners.iter().map(|owner| owner.map(|node| format!("n{node}"))).collect();
            let nodes = names(nodes);
            let found = targets(&nodes, &owners);
            let owned = |node: &String| found.iter().flatten().filter(|one| *one == node).count();
            let counts: Vec<usize> = nodes.iter().map(owned).collect();
            prop_assert_eq!(counts.iter().sum::<usize>(), owners.len());
            prop_assert!(counts.iter().max().unwrap() - counts.iter().min().unwrap() <= 1);
            // It is a fixed point, and a partition moves only from a node that is gone or has too many.
            prop_assert_eq!(&targets(&nodes, &found), &found);
            let least = owners.len() / nodes.len();
            for (before, after) in owners.iter().zip(&found) {
                if let Some(node) = before.as_ref().filter(|node| nodes.contains(node)) {
                    let had = owners.iter().flatten().filter(|one| *one == node).count();
                    prop_assert!(before == after || had > least);
                }
            }
        }
    }

    #[test]
    fn a_node_that_joins_takes_its_part_and_one_that_leaves_gives_it_up() {
        let alone = targets(&names(1), &vec![None; 9]);
        assert!(alone.iter().all(|owner| owner.as_deref() == Some("n0")));
        let two = targets(&names(2), &alone);
        let moved = alone.iter().zip(&two).filter(|(a, b)| a != b).count();
        assert_eq!(moved, 4);
        let left = targets(&["n1".to_owned()], &two);
        assert!(left.iter().all(|owner| owner.as_deref() == Some("n1")));
        assert_eq!(targets(&[], &two), two);
    }
}
