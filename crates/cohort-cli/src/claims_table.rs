//! The claims of the paper on a terminal: verdict, statement, why, and how to run it again.

use cohort_lab::reproduce::Request;
use cohort_lab::reproduce::claims::{ClaimResult, Verdict};
use cohort_lab::reproduce::docs::score;
use cohort_lab::reproduce::page::beside;
use cohort_lab::text::wrapped;

/// The largest line width.
const LINE: usize = 100;
/// The width of the column of verdicts.
const MARGIN: usize = 14;

/// All claims, and a last line that counts verdicts.
pub fn claims_table(request: &Request, claims: &[ClaimResult]) -> String {
    let mut text = String::new();
    let asked_for = |judged: &&ClaimResult| request.asks_for(judged.claim.study);
    for judged in claims.iter().filter(asked_for) {
        let ClaimResult { claim, finding, .. } = judged;
        let sign = match finding.verdict {
            Verdict::Reproduced => '●',
            Verdict::Partly => '◐',
            Verdict::Not => '○',
            Verdict::NotReached => '◌',
            Verdict::Undecided => '?',
            Verdict::Unknown => '–',
        };
        let statement = format!("“{}” ({})", claim.statement, claim.place);
        text.push_str(&format!("{sign} {:<12}", finding.verdict));
        text.push_str(column(&statement).trim_start());
        text.push_str(&column(&format!("{}{}", finding.why, beside(judged))));
        text.push_str(&column(&request.command(claim.study)));
        text.push('\n');
    }
    text.push_str(&format!("{}\n", score(claims)));
    text
}

/// Text in lines that are indented to the column of claims.
fn column(text: &str) -> String {
    let lines = wrapped(text, LINE - MARGIN);
    lines.iter().map(|line| format!("{:MARGIN$}{line}\n", "")).collect()
}
