//! The claims of the paper on a terminal: verdict, statement, why, and how to run it again.

use cohort_lab::reproduce::Request;
use cohort_lab::reproduce::claims::{Judged, Verdict};

/// How wide lines are at most.
const LINE: usize = 100;
/// How wide the column of verdicts is.
const MARGIN: usize = 14;

/// Every claim, and a last line that counts.
pub fn claims_table(request: &Request, claims: &[Judged]) -> String {
    let mut text = String::new();
    for Judged { claim, finding } in claims.iter().filter(|judged| request.asks_for(judged.claim.study)) {
        let sign = match finding.verdict {
            Verdict::Reproduced => '●',
            Verdict::Partly => '◐',
            Verdict::Not => '○',
            Verdict::Unknown => '–',
        };
        let statement = format!("“{}” ({})", claim.statement, claim.place);
        text.push_str(&format!("{sign} {:<12}", finding.verdict));
        text.push_str(wrapped(&statement).trim_start());
        text.push_str(&wrapped(&finding.why));
        text.push_str(&wrapped(&request.command(claim.study)));
        text.push('\n');
    }
    let count = |verdict| claims.iter().filter(|judged| judged.finding.verdict == verdict).count();
    text.push_str(&format!(
        "{} reproduced, {} partly, {} not reproduced, {} not run\n",
        count(Verdict::Reproduced),
        count(Verdict::Partly),
        count(Verdict::Not),
        count(Verdict::Unknown)
    ));
    text
}

/// Text in lines that begin under the column of claims.
fn wrapped(text: &str) -> String {
    let mut out = String::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > LINE - MARGIN {
            out.push_str(&format!("{:MARGIN$}{line}\n", ""));
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    out.push_str(&format!("{:MARGIN$}{line}\n", ""));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_short_and_nothing_is_lost() {
        let text = "word ".repeat(60);
        let lines = wrapped(&text);
        assert!(lines.lines().all(|line| line.chars().count() <= LINE));
        assert_eq!(lines.split_whitespace().count(), 60);
    }
}
