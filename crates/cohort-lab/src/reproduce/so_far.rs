//! Partial results of a run: the repetitions that every policy already has.

use super::evidence::PolicyResult;

/// How much of a study has been run.
#[derive(Debug, PartialEq)]
pub struct Coverage {
    /// How many repetitions the policy with the most has.
    pub repetitions: usize,
    /// Policies that are not there: none of their repetitions, or a single one, is there in every
    /// setting, or they are not tuned yet.
    pub absent: Vec<String>,
}

/// Takes out policies that are not there in every setting; what is left of a policy has as many
/// repetitions in all settings and at all widths. None where nothing is left.
pub fn trim(settings: &mut [Vec<PolicyResult>]) -> Option<Coverage> {
    let mut counts: Vec<(String, usize)> = Vec::new();
    for played in settings.iter().flatten() {
        let count = played.outcomes.len();
        match counts.iter_mut().find(|(label, _)| *label == played.label) {
            Some((_, least)) => *least = count.min(*least),
            None => counts.push((played.label.clone(), count)),
        }
    }
    let repetitions = counts.iter().map(|(_, count)| *count).max().filter(|most| *most > 0)?;
    // One repetition has no interval: beside others that have one it says nothing.
    let enough = repetitions.min(2);
    let count_of = |label: &str| counts.iter().find(|(of, _)| of == label).map_or(0, |(_, n)| *n);
    for played in settings.iter_mut() {
        played.retain(|played| count_of(&played.label) >= enough);
        played.iter_mut().for_each(|played| played.outcomes.truncate(count_of(&played.label)));
    }
    let absent = counts.iter().filter(|(_, count)| *count < enough);
    Some(Coverage { repetitions, absent: absent.map(|(label, _)| label.clone()).collect() })
}

#[cfg(test)]
mod tests {
    use super::super::evidence::Width;
    use super::super::job::JobOutcome;
    use super::*;

    fn played(label: &str, repetitions: usize) -> PolicyResult {
        let outcomes = vec![JobOutcome::default(); repetitions];
        PolicyResult { label: label.into(), width: Width::Paper, chosen: Vec::new(), outcomes }
    }

    #[test]
    fn policies_that_are_not_there_are_named_and_the_others_have_as_many_everywhere() {
        let mut settings = [
            vec![played("a", 3), played("b", 5), played("c", 5), played("d", 1)],
            vec![played("a", 4), played("b", 0), played("c", 5), played("d", 2)],
        ];
        let extent = trim(&mut settings).unwrap();
        assert_eq!(extent, Coverage { repetitions: 5, absent: vec!["b".into(), "d".into()] });
        for setting in &settings {
            let left: Vec<_> =
                setting.iter().map(|one| (one.label.as_str(), one.outcomes.len())).collect();
            assert_eq!(left, [("a", 3), ("c", 5)]);
        }
    }

    #[test]
    fn of_nothing_there_is_nothing() {
        assert_eq!(trim(&mut [vec![played("a", 0)], vec![played("a", 7)]]), None);
    }

    #[test]
    fn one_repetition_of_all_is_shown() {
        let mut settings = [vec![played("a", 1), played("b", 1)]];
        assert_eq!(trim(&mut settings), Some(Coverage { repetitions: 1, absent: Vec::new() }));
    }
}
