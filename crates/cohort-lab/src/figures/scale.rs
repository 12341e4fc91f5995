//! Axis scales: from numbers to pixels, and tick labels.

/// From numbers to pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// The smallest and the largest number.
    pub domain: (f64, f64),
    /// Their positions, in pixels.
    pub range: (f64, f64),
    /// Whether the scale is logarithmic.
    pub log: bool,
}

impl Scale {
    /// The position of a number.
    pub fn at(&self, value: f64) -> f64 {
        let pass = |v: f64| if self.log { v.max(f64::MIN_POSITIVE).ln() } else { v };
        let (low, high) = (pass(self.domain.0), pass(self.domain.1));
        let share = if high > low { (pass(value) - low) / (high - low) } else { 0.5 };
        self.range.0 + share * (self.range.1 - self.range.0)
    }

    /// About `count` numbers to label.
    pub fn ticks(&self, count: usize) -> Vec<f64> {
        if self.log { self.log_ticks(count) } else { self.linear_ticks(count) }
    }

    fn linear_ticks(&self, count: usize) -> Vec<f64> {
        let (low, high) = self.domain;
        let step = nice_step((high - low) / count.max(1) as f64);
        let (first, last) =
            ((low / step - 1e-9).ceil() as i64, (high / step + 1e-9).floor() as i64);
        (first..=last).map(|k| k as f64 * step).collect()
    }

    /// Powers of ten, and 2 and 5 between them where there is room.
    fn log_ticks(&self, count: usize) -> Vec<f64> {
        let (low, high) = (self.domain.0 * (1.0 - 1e-9), self.domain.1 * (1.0 + 1e-9));
        let within = |digits: &[f64]| -> Vec<f64> {
            let powers = low.log10().floor() as i32..=high.log10().ceil() as i32;
            powers
                .flat_map(|power| digits.iter().map(move |digit| digit * 10f64.powi(power)))
                .filter(|tick| (low..=high).contains(tick))
                .collect()
        };
        let tens = within(&[1.0]);
        let finer = within(&[1.0, 2.0, 5.0]);
        if tens.len() >= 3 || finer.len() > count + 3 { tens } else { finer }
    }
}

/// The next of 1, 2, 2.5, 5 times a power of ten.
fn nice_step(raw: f64) -> f64 {
    if !raw.is_finite() || raw <= 0.0 {
        return 1.0;
    }
    let power = 10f64.powf(raw.log10().floor());
    let digit = [1.0, 2.0, 2.5, 5.0].into_iter().find(|digit| digit * power >= raw * (1.0 - 1e-9));
    digit.unwrap_or(10.0) * power
}

/// A number for people: at most three significant digits.
pub fn short(value: f64) -> String {
    let size = value.abs();
    let text = if size.is_nan() {
        return "–".to_owned();
    } else if size == 0.0 {
        return "0".to_owned();
    } else if size.is_infinite() {
        return if value > 0.0 { "∞" } else { "−∞" }.to_owned();
    } else if size >= 1e10 {
        return power_of_ten(value);
    } else if size >= 1e6 {
        format!("{:.3}M", value / 1e6)
    } else if size >= 99.95 {
        return format!("{value:.0}").replace('-', "−");
    } else if size >= 9.995 {
        format!("{value:.1}")
    } else if size >= 0.9995 {
        format!("{value:.2}")
    } else if size >= 0.01 {
        format!("{value:.3}")
    } else {
        return power_of_ten(value);
    };
    trim_zeros(text).replace('-', "−")
}

/// The same of a number that may not be there.
pub fn short_or_dash(value: Option<f64>) -> String {
    value.map_or("–".to_owned(), short)
}

/// An axis label: exact, with a minus sign and thousands separators.
pub fn tick_label(value: f64) -> String {
    let size = value.abs();
    if size >= 1e6 {
        return trim_zeros(format!("{:.3}M", value / 1e6));
    }
    if size >= 1e4 {
        let thousands = format!("{:.0}", value / 1000.0);
        return format!("{thousands},{:03.0}", value.abs() % 1000.0);
    }
    if size > 0.0 && size < 1e-3 {
        return power_of_ten(value);
    }
    let text = format!("{value:.4}");
    trim_zeros(text).replace('-', "−")
}

/// 0.0003 as 3·10⁻⁴
fn power_of_ten(value: f64) -> String {
    let raised = |c| match c {
        '-' => '⁻',
        '1' => '¹',
        '2' => '²',
        '3' => '³',
        digit => char::from_u32(0x2070 + digit as u32 - '0' as u32).unwrap_or(digit),
    };
    let text = format!("{value:.0e}");
    let (digit, power) = text.split_once('e').unwrap_or((&text, "0"));
    format!("{}·10{}", digit.replace('-', "−"), power.chars().map(raised).collect::<String>())
}

fn trim_zeros(text: String) -> String {
    let (number, unit) = match text.strip_suffix('M') {
        Some(number) => (number, "M"),
        None => (text.as_str(), ""),
    };
    if !number.contains('.') {
        return text;
    }
    format!("{}{unit}", number.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_numbers_inside_the_domain() {
        let scale = Scale { domain: (0.0, 288.0), range: (0.0, 100.0), log: false };
        assert_eq!(scale.ticks(4), [0.0, 100.0, 200.0]);
        let scale = Scale { domain: (0.0, 1000.0), range: (0.0, 100.0), log: false };
        assert_eq!(scale.ticks(4), [0.0, 250.0, 500.0, 750.0, 1000.0]);
        let scale = Scale { domain: (50.0, 800.0), range: (0.0, 100.0), log: true };
        assert_eq!(scale.ticks(4), [50.0, 100.0, 200.0, 500.0]);
        assert!((scale.at(200.0) - 50.0).abs() < 1e-9);
    }

    #[test]
    fn numbers_are_written_short() {
        assert_eq!(short(288.4), "288");
        assert_eq!(short(19.24), "19.2");
        assert_eq!(short(2.0), "2");
        assert_eq!(short(0.9312), "0.931");
        assert_eq!(short(0.0003), "3·10⁻⁴");
        assert_eq!(short(-280.3), "−280");
        assert_eq!(short(1.08e12), "1·10¹²");
        assert_eq!(short(f64::NAN), "–");
        assert_eq!(tick_label(10000.0), "10,000");
        assert_eq!(tick_label(0.25), "0.25");
        assert_eq!(tick_label(-0.5), "−0.5");
    }
}
