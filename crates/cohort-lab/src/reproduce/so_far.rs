//! What can be shown before all of it is run: the repetitions that every policy already has.

use super::evidence::Played;

/// What there is of a study.
#[derive(Debug, PartialEq)]
pub struct Extent {
    /// How many repetitions all policies have that are there at all.
    pub repetitions: usize,
    /// Policies that have none in some setting, or are not tuned yet.
    pub absent: Vec<String>,
}

/// Takes out policies that are not there in every setting, and of the others the repetitions that
/// not all of them have. None where nothing is left.
pub fn trim(settings: &mut [Vec<Played>]) -> Option<Extent> {
    let mut absent: Vec<String> = Vec::new();
    for played in settings.iter().flatten() {
        if played.outcomes.is_empty() && !absent.contains(&played.label) {
            absent.push(played.label.clone());
        }
    }
    for played in settings.iter_mut() {
        played.retain(|played| !absent.contains(&played.label));
    }
    let repetitions = settings.iter().flatten().map(|played| played.outcomes.len()).min()?;
    for played in settings.iter_mut().flatten() {
        played.outcomes.truncate(repetitions);
    }
    Some(Extent { repetitions, absent })
}

#[cfg(test)]
mod tests {
    use super::super::evidence::Width;
    use super::super::job::JobOutcome;
    use super::*;

    fn played(label: &str, repetitions: usize) -> Played {
        let outcomes = vec![JobOutcome::default(); repetitions];
        Played { label: label.into(), width: Width::Paper, chosen: Vec::new(), outcomes }
    }

    #[test]
    fn policies_that_are_not_there_are_named_and_the_others_have_as_many_repetitions() {
        let mut settings = [
            vec![played("a", 3), played("b", 5), played("c", 5)],
            vec![played("a", 4), played("b", 0), played("c", 5)],
        ];
        let extent = trim(&mut settings).unwrap();
        assert_eq!(extent, Extent { repetitions: 3, absent: vec!["b".into()] });
        for setting in &settings {
            let left: Vec<_> =
                setting.iter().map(|one| (one.label.as_str(), one.outcomes.len())).collect();
            assert_eq!(left, [("a", 3), ("c", 3)]);
        }
    }

    #[test]
    fn of_nothing_there_is_nothing() {
        assert_eq!(trim(&mut [vec![played("a", 0)], vec![played("a", 7)]]), None);
    }
}
