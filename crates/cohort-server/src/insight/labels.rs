//! Which cohort is which, from one refit to the next? A refit may number cohorts anew; people want
//! the one they called A yesterday to be A today. So a cohort gets the label of the nearest cohort
//! that was there before, and a new label if there is none left.

/// Labels and where their cohorts were seen last.
#[derive(Clone, Debug, Default)]
pub struct Labels {
    seen: Vec<(usize, Vec<f64>)>,
}

impl Labels {
    /// A label for each centre, as numbers 0, 1, 2, …; remembers where they are now.
    pub fn follow(&mut self, centres: &[Vec<f64>]) -> Vec<usize> {
        let labels = self.of(centres);
        self.seen = labels.iter().copied().zip(centres.iter().cloned()).collect();
        labels
    }

    /// The labels that [`Labels::follow`] would give, remembering nothing.
    pub fn of(&self, centres: &[Vec<f64>]) -> Vec<usize> {
        let mut pairs: Vec<(f64, usize, usize)> = Vec::new();
        for (at, centre) in centres.iter().enumerate() {
            for (before, (_, old)) in self.seen.iter().enumerate() {
                pairs.push((distance(centre, old), at, before));
            }
        }
        pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut labels = vec![None; centres.len()];
        let mut taken = vec![false; self.seen.len()];
        for (_, at, before) in pairs {
            if labels[at].is_none() && !taken[before] {
                labels[at] = Some(self.seen[before].0);
                taken[before] = true;
            }
        }
        // The lowest labels that nobody has.
        let mut used: Vec<usize> = labels.iter().flatten().copied().collect();
        let mut free = || {
            let label = (0..).find(|label| !used.contains(label)).unwrap_or_default();
            used.push(label);
            label
        };
        labels.into_iter().map(|label| label.unwrap_or_else(&mut free)).collect()
    }
}

/// A, B, …, Z, A1, B1, …
pub fn letter(label: usize) -> String {
    let letter = char::from(b'A' + (label % 26) as u8);
    match label / 26 {
        0 => letter.to_string(),
        round => format!("{letter}{round}"),
    }
}

fn distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cohort_keeps_its_label_when_it_is_numbered_anew() {
        let mut labels = Labels::default();
        assert_eq!(labels.follow(&[vec![0.0], vec![5.0]]), [0, 1]);
        assert_eq!(labels.follow(&[vec![5.2], vec![9.0], vec![0.1]]), [1, 2, 0]);
        // One is gone, its label is free for the next that comes.
        assert_eq!(labels.follow(&[vec![9.1], vec![5.0]]), [2, 1]);
        assert_eq!(labels.follow(&[vec![9.1], vec![5.0], vec![-7.0]]), [2, 1, 0]);
        assert_eq!((letter(0), letter(25), letter(27)), ("A".into(), "Z".into(), "B1".into()));
    }
}
