//! Durations and dates as the clients write them: ISO 8601.

/// `PT10M`, `P1DT12H`, `PT0.5S` as milliseconds; `None` of anything else, of years and months too, whose
/// length is not known.
pub fn parse_duration(text: &str) -> Option<u64> {
    let rest = text.strip_prefix('P')?;
    let (days, time) = rest.split_once('T').map_or((rest, None), |(days, time)| (days, Some(time)));
    if days.is_empty() && time.is_none_or(str::is_empty) {
        return None;
    }
    let days = sum(days, &[('W', 7.0 * 86_400.0), ('D', 86_400.0)])?;
    let time = match time {
        Some(time) => sum(time, &[('H', 3600.0), ('M', 60.0), ('S', 1.0)])?,
        None => 0.0,
    };
    let ms = (days + time) * 1000.0;
    (ms.is_finite() && ms < 1e15).then_some(ms.round() as u64)
}

/// The seconds of numbers that are each followed by one of these letters, in this order.
fn sum(mut text: &str, units: &[(char, f64)]) -> Option<f64> {
    let mut total = 0.0;
    for (letter, seconds) in units {
        let Some(end) = text.find(*letter) else { continue };
        let number = &text[..end];
        if number.is_empty() || !number.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
            return None;
        }
        total += number.parse::<f64>().ok()? * seconds;
        text = &text[end + 1..];
    }
    text.is_empty().then_some(total)
}

/// Milliseconds as a duration.
pub fn duration(ms: u64) -> String {
    let (days, rest) = (ms / 86_400_000, ms % 86_400_000);
    let (hours, rest) = (rest / 3_600_000, rest % 3_600_000);
    let (minutes, rest) = (rest / 60_000, rest % 60_000);
    let mut text = String::from("P");
    if days > 0 {
        text += &format!("{days}D");
    }
    if hours + minutes + rest > 0 || days == 0 {
        text.push('T');
    }
    if hours > 0 {
        text += &format!("{hours}H");
    }
    if minutes > 0 {
        text += &format!("{minutes}M");
    }
    if rest > 0 || ms == 0 {
        text += &match rest % 1000 {
            0 => format!("{}S", rest / 1000),
            part => format!("{}.{part:03}S", rest / 1000),
        };
    }
    text
}

/// Milliseconds since 1970 as a date in UTC: `2026-08-25T12:00:00.000Z`.
pub fn date(ms: u64) -> String {
    let (days, rest) = ((ms / 86_400_000) as i64, ms % 86_400_000);
    // Hinnant's days_from_civil, the other way round: eras of 400 years that begin in March.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (hours, minutes) = (rest / 3_600_000, rest / 60_000 % 60);
    let (seconds, part) = (rest / 1000 % 60, rest % 1000);
    format!("{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{seconds:02}.{part:03}Z")
}

/// A date with a time, `2026-08-25T12:00:00Z` or with an offset, as milliseconds since 1970; `None` of
/// anything else and of what was before.
pub fn parse_date(text: &str) -> Option<u64> {
    let (day, time) = text.split_once(['T', 't', ' '])?;
    let mut parts = day.splitn(3, '-').map(digits);
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    if !(1970..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let zone = time.find(['Z', 'z', '+', '-']).unwrap_or(time.len());
    let (clock, zone) = time.split_at(zone);
    let mut parts = clock.splitn(3, ':');
    let (hours, minutes) = (digits(parts.next()?)?, digits(parts.next()?)?);
    let seconds: f64 = match parts.next() {
        Some(text) if text.bytes().all(|b| b.is_ascii_digit() || b == b'.') => text.parse().ok()?,
        Some(_) => return None,
        None => 0.0,
    };
    if hours > 24 || minutes > 59 || seconds >= 61.0 {
        return None;
    }
    let offset = match zone.as_bytes() {
        [] | b"Z" | b"z" => 0,
        [sign, rest @ ..] => {
            let text = std::str::from_utf8(rest).ok()?;
            let (hours, minutes) = text.split_once(':').unwrap_or((text, "0"));
            let minutes = digits(hours)? * 60 + digits(minutes)?;
            if *sign == b'-' { -minutes } else { minutes }
        }
    };
    // Hinnant's days_from_civil: years that begin in March.
    let year = year - i64::from(month <= 2);
    let (era, month) = (year.div_euclid(400), (month + 9) % 12);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    let days = era * 146_097 + day_of_era - 719_468;
    let ms =
        ((days * 24 + hours) * 60 + minutes - offset) * 60_000 + (seconds * 1000.0).round() as i64;
    u64::try_from(ms).ok()
}

/// A whole number of digits and nothing else.
fn digits(text: &str) -> Option<i64> {
    let fits = (1..=4).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    fits.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_written() {
        for (text, ms) in [
            ("PT10M", 600_000),
            ("PT4H", 14_400_000),
            ("P2D", 172_800_000),
            ("P1DT12H", 129_600_000),
            ("PT5S", 5000),
            ("PT0.5S", 500),
            ("PT1H0.250S", 3_600_250),
            ("PT0S", 0),
        ] {
            assert_eq!(parse_duration(text), Some(ms), "{text}");
            assert_eq!(parse_duration(&duration(ms)), Some(ms), "{text}");
        }
        assert_eq!(duration(600_000), "PT10M");
        assert_eq!(parse_duration("P1W"), Some(604_800_000));
        for odd in ["", "P", "PT", "10M", "PT10", "PTM", "P1Y", "PT-5S", "PT5S1M", "PT1e3S", "PT∞S"]
        {
            assert_eq!(parse_duration(odd), None, "{odd}");
        }
        assert_eq!(parse_duration("PT99999999999999999999H"), None);
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(date(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(date(951_782_400_000), "2000-02-29T00:00:00.000Z");
        assert_eq!(date(1_787_662_801_007), "2026-08-25T13:00:01.007Z");
        for ms in [0, 951_782_400_000, 1_787_662_801_007, 4_102_444_799_999] {
            assert_eq!(parse_date(&date(ms)), Some(ms), "{}", date(ms));
        }
        assert_eq!(parse_date("2026-08-25T15:00:01.007+02:00"), Some(1_787_662_801_007));
        assert_eq!(parse_date("2026-08-25T13:00:01"), Some(1_787_662_801_000));
        for odd in ["", "2026-08-25", "2026-13-01T00:00:00Z", "T", "1-1-1T1:1:1Z", "2026-08-25Tx"] {
            assert_eq!(parse_date(odd), None, "{odd}");
        }
    }
}
