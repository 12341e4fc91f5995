//! Errors of the library, as sentences for people.

/// Everything that the library refuses. Each message says what was found, what was expected and
/// what to do; callers add where the value came from (a file, a key, a request).
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no policy of that name.
    #[error("there is no policy `{name}`{}; `cohort policies` lists them", nearest_hint(.nearest))]
    UnknownPolicy {
        /// The name asked for.
        name: String,
        /// The known name most like it, if any is.
        nearest: Option<&'static str>,
    },
    /// The policy has no parameter of that name.
    #[error("policy `{policy}` has no parameter `{name}`{}; it has: {known}", nearest_hint(.nearest))]
    UnknownParam {
        /// The policy.
        policy: &'static str,
        /// The name asked for.
        name: String,
        /// The known name most like it, if any is.
        nearest: Option<&'static str>,
        /// All of the policy's parameters.
        known: String,
    },
    /// A parameter's value is of the wrong kind or outside its range.
    #[error("{policy}.{param} = {found}: expected {expected}")]
    Param {
        /// The policy.
        policy: &'static str,
        /// The parameter.
        param: &'static str,
        /// The value found.
        found: String,
        /// The values that are accepted.
        expected: String,
    },
    /// A policy needs an input that was not given.
    #[error("policy `{policy}` needs {what}")]
    Needs {
        /// The policy.
        policy: &'static str,
        /// The input, and how to give it.
        what: &'static str,
    },
    /// An array has the wrong shape.
    #[error("{what}: found {found}, expected {expected}")]
    Shape {
        /// Which array.
        what: &'static str,
        /// Its shape.
        found: String,
        /// The expected shape.
        expected: String,
    },
    /// A saved state that this policy cannot load.
    #[error("saved state of {what}: found {found}, expected {expected}")]
    Saved {
        /// Whose state, and which part of it.
        what: &'static str,
        /// What was found.
        found: String,
        /// What this policy can load.
        expected: String,
    },
    /// A number that is not finite.
    #[error("{what}: {found} at {place}; every number must be finite")]
    NotFinite {
        /// Which array.
        what: &'static str,
        /// Where in it.
        place: String,
        /// The number found.
        found: f64,
    },
}

fn nearest_hint(nearest: &Option<&'static str>) -> String {
    nearest.map_or(String::new(), |name| format!(" (did you mean `{name}`?)"))
}

/// The candidate that `word` is a prefix of, else the one with the smallest edit distance, if that
/// is small enough to be what was meant.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .into_iter()
        .map(|candidate| {
            // A name that was not typed to its end is a likelier mistake than another name.
            let cut_short = word.len() >= 3 && candidate.starts_with(word);
            (!cut_short, edit_distance(word, candidate), candidate)
        })
        .filter(|(other, distance, candidate)| {
            !other || *distance <= 1 + candidate.len().max(word.len()) / 3
        })
        .min()
        .map(|(_, _, candidate)| candidate)
}

/// The Damerau–Levenshtein distance (a swap of neighbours is one edit), by its recursion over
/// prefixes.
fn edit_distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = replaced.min(row[j - 1] + 1).min(rows[i - 1][j] + 1);
            if i > 1 && j > 1 && (a[i - 1], a[i - 2]) == (b[j - 2], b[j - 1]) {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_name_finds_the_one_that_was_meant() {
        assert_eq!(nearest("cmbl", ["cmlb", "sclb", "random"]), Some("cmlb"));
        // Swapped letters are a likelier mistake than two others.
        assert_eq!(nearest("cmbl", ["crb", "cmlb"]), Some("cmlb"));
        assert_eq!(nearest("delt", ["delta", "lambda"]), Some("delta"));
        assert_eq!(nearest("linucb", ["minucb", "linucb-ind"]), Some("linucb-ind"));
        assert_eq!(nearest("quux", ["delta", "lambda"]), None);
    }
}
