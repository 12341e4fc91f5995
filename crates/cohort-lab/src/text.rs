//! Text layout for terminals.

/// Breaks text into lines of up to `width` characters, between words.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::wrapped;

    #[test]
    fn lines_are_as_long_as_they_may_be() {
        assert_eq!(wrapped("σ is the noise scale", 7), ["σ is", "the", "noise", "scale"]);
        assert_eq!(wrapped("unbreakable words stay", 5), ["unbreakable", "words", "stay"]);
        assert!(wrapped("", 5).is_empty());
    }
}
