//! Markdown tables and numbers for people.

use std::fmt::Write;

/// A table with its header.
pub struct Table {
    text: String,
}

impl Table {
    /// The first column is text, the others are numbers.
    pub fn new(header: &[&str]) -> Self {
        let mut text = String::new();
        let _ = writeln!(text, "| {} |", header.join(" | "));
        let aligned = vec!["---:"; header.len().saturating_sub(1)].join(" | ");
        let _ = writeln!(text, "| --- | {aligned} |");
        Self { text }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: &[String]) {
        let _ = writeln!(self.text, "| {} |", cells.join(" | "));
    }

    /// The table as Markdown.
    pub fn finish(self) -> String {
        self.text
    }
}

/// 12,345,678 as "12.3 M", 12,345 as "12.3 k".
pub fn count(number: f64) -> String {
    match number {
        n if n >= 1e9 => format!("{} G", three_digits(n / 1e9)),
        n if n >= 1e6 => format!("{} M", three_digits(n / 1e6)),
        n if n >= 1e3 => format!("{} k", three_digits(n / 1e3)),
        n => three_digits(n),
    }
}

/// Seconds in a fitting unit.
pub fn time(seconds: f64) -> String {
    match seconds {
        s if s < 1e-3 => format!("{} µs", three_digits(s * 1e6)),
        s if s < 1.0 => format!("{} ms", three_digits(s * 1e3)),
        s => format!("{} s", three_digits(s)),
    }
}

/// A ratio as "3.14 ×".
pub fn times(ratio: f64) -> String {
    format!("{} ×", three_digits(ratio))
}

/// 1,234,567 with commas.
pub fn whole(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn three_digits(number: f64) -> String {
    match number {
        n if n >= 100.0 => format!("{n:.0}"),
        n if n >= 10.0 => format!("{n:.1}"),
        n => format!("{n:.2}"),
    }
}

/// The day of a time in seconds since 1970 (Howard Hinnant's `civil_from_days`).
pub fn date(unix_s: u64) -> String {
    let days = (unix_s / 86_400) as i64 + 719_468;
    let era = days / 146_097;
    let day_of_era = days % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!(count(7_123_456.0), "7.12 M");
        assert_eq!(count(464.3), "464");
        assert_eq!(time(0.0123), "12.3 ms");
        assert_eq!(whole(1_000_000), "1,000,000");
        assert_eq!(whole(100), "100");
    }

    #[test]
    fn days_are_those_of_the_calendar() {
        assert_eq!(date(0), "1970-01-01");
        assert_eq!(date(951_782_400), "2000-02-29");
        assert_eq!(date(1_767_225_599), "2025-12-31");
    }
}
