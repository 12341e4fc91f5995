//! Clusters as labels: one number per user, clusters numbered 0, 1, … by smallest member.

/// Renumbers labels so that clusters appear in the order of their smallest members.
pub fn number_by_smallest_member(labels: &mut [usize]) {
    let most = labels.iter().max().map_or(0, |most| most + 1);
    let mut number = vec![usize::MAX; most];
    let mut next = 0;
    for label in labels {
        if number[*label] == usize::MAX {
            number[*label] = next;
            next += 1;
        }
        *label = number[*label];
    }
}

/// How many members each cluster has.
pub fn sizes(labels: &[usize]) -> Vec<usize> {
    let mut sizes = vec![0; labels.iter().max().map_or(0, |most| most + 1)];
    for label in labels {
        sizes[*label] += 1;
    }
    sizes
}

/// The adjusted Rand index of two partitions of the same users (Hubert and Arabie 1985): 1 where
/// they are equal, about 0 where they agree no more than chance.
pub fn adjusted_rand(a: &[usize], b: &[usize]) -> f64 {
    let pairs = |count: usize| (count as f64) * (count as f64 - 1.0) / 2.0;
    let mut both = std::collections::HashMap::new();
    for pair in a.iter().zip(b) {
        *both.entry(pair).or_insert(0usize) += 1;
    }
    let together: f64 = both.values().map(|count| pairs(*count)).sum();
    let in_a: f64 = sizes(a).into_iter().map(pairs).sum();
    let in_b: f64 = sizes(b).into_iter().map(pairs).sum();
    let by_chance = in_a * in_b / pairs(a.len()).max(1.0);
    let most = (in_a + in_b) / 2.0;
    if most == by_chance { 1.0 } else { (together - by_chance) / (most - by_chance) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_adjusted_rand_index_of_known_partitions() {
        assert_eq!(adjusted_rand(&[0, 0, 1, 1], &[1, 1, 0, 0]), 1.0);
        // Worked example: contingency [[2, 1], [0, 3]].
        let index = adjusted_rand(&[0, 0, 0, 1, 1, 1], &[0, 0, 1, 1, 1, 1]);
        assert!((index - 0.324_324_324_324_324_3).abs() < 1e-12, "{index}");
        assert_eq!(adjusted_rand(&[0, 0, 0], &[0, 0, 0]), 1.0);
    }

    #[test]
    fn numbering_follows_the_smallest_member() {
        let mut labels = [5, 2, 5, 0, 2];
        number_by_smallest_member(&mut labels);
        assert_eq!(labels, [0, 1, 0, 2, 1]);
        assert_eq!(sizes(&labels), [2, 2, 1]);
    }
}
