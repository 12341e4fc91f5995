//! The claims of the paper on a terminal: verdict, statement, why, and how to run it again.

use cohort_lab::reproduce::Request;
use cohort_lab::reproduce::claims::{Judged, Verdict};
use cohort_lab::text::wrapped;

/// How wide lines are at most.
const LINE: usize = 100;
/// How wide the column of verdicts is.
const MARGIN: usize = 14;

/// Every claim, and a last line that counts.
pub fn claims_table(request: &Request, claims: &[Judged]) -> String {
    let mut text = String::new();
    let asked_for = |judged: &&Judged| request.asks_for(judged.claim.study);
    for Judged { claim, finding } in claims.iter().filter(asked_for) {
        let sign = match finding.verdict {
            Verdict::Reproduced => '●',
            Verdict::Partly => '◐',
            Verdict::Not => '○',
            Verdict::Unknown => '–',
        };
        let statement = format!("“{}” ({})", claim.statement, claim.place);
        text.push_str(&format!("{sign} {:<12}", finding.verdict));
        text.push_str(column(&statement).trim_start());
        text.push_str(&column(&finding.why));
        text.push_str(&column(&request.command(claim.study)));
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
fn column(text: &str) -> String {
    let lines = wrapped(text, LINE - MARGIN);
    lines.iter().map(|line| format!("{:MARGIN$}{line}\n", "")).collect()
}
