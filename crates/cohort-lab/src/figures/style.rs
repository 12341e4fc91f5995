//! The style of every policy, the same in all figures: colour, dash and marker.
//!
//! Hues are those of Okabe and Ito, which people with the common colour blindnesses can tell apart,
//! a little darker on white and lighter on black. Policies of one family share a hue; dash and
//! marker tell them apart, also when printed in grey.

use cohort::registry::POLICIES;

use super::Picture;

/// A colour on light and on dark background.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Colour {
    /// Its name in style sheets.
    pub name: &'static str,
    /// Red, green and blue on a light background.
    pub light: [u8; 3],
    /// The same on a dark background.
    pub dark: [u8; 3],
}

const fn rgb(hex: u32) -> [u8; 3] {
    [(hex >> 16) as u8, (hex >> 8) as u8, hex as u8]
}

const fn colour(name: &'static str, light: u32, dark: u32) -> Colour {
    Colour { name, light: rgb(light), dark: rgb(dark) }
}

impl Colour {
    /// Text.
    pub const INK: Colour = colour("ink", 0x1a1c20, 0xe8eaee);
    /// Secondary text, and axes.
    pub const MUTED: Colour = colour("muted", 0x5c626d, 0xa2a9b5);
    /// Grid lines.
    pub const GRID: Colour = colour("grid", 0xe3e6eb, 0x30353e);
    /// The background.
    pub const PAPER: Colour = colour("paper", 0xffffff, 0x14161a);
    const BLUE: Colour = colour("blue", 0x0072b2, 0x4aa8e0);
    const VERMILLION: Colour = colour("vermillion", 0xd55e00, 0xf58a3c);
    const GREEN: Colour = colour("green", 0x008f68, 0x2cc79a);
    const PURPLE: Colour = colour("purple", 0xb8568c, 0xe39ac4);
    const ORANGE: Colour = colour("orange", 0xc98500, 0xf2b632);
    const SKY: Colour = colour("sky", 0x3f9fd6, 0x8fd0f5);
    const WINE: Colour = colour("wine", 0x6a1b6d, 0xc88fe8);
    const STONE: Colour = colour("stone", 0x7d7d7d, 0x9b9b9b);

    /// The hexadecimal form for style sheets and SVG, on a light background.
    pub fn hex(self) -> String {
        let [r, g, b] = self.light;
        format!("#{r:02x}{g:02x}{b:02x}")
    }

    /// The same on a dark background.
    pub fn dark_hex(self) -> String {
        let [r, g, b] = self.dark;
        format!("#{r:02x}{g:02x}{b:02x}")
    }
}

/// Every colour that figures use.
pub fn colours() -> [Colour; 12] {
    use Colour as C;
    [
        C::INK,
        C::MUTED,
        C::GRID,
        C::PAPER,
        C::BLUE,
        C::VERMILLION,
        C::GREEN,
        C::PURPLE,
        C::ORANGE,
        C::SKY,
        C::WINE,
        C::STONE,
    ]
}

/// The shape of a marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// ●
    Disc,
    /// ■
    Square,
    /// ▲
    Up,
    /// ▼
    Down,
    /// ◆
    Diamond,
    /// ✕
    Cross,
}

/// The style of a policy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Style {
    /// Its colour.
    pub colour: Colour,
    /// The dash of its lines.
    pub dash: &'static [f64],
    /// Its marker.
    pub mark: Mark,
}

const SOLID: &[f64] = &[];
const DASHED: &[f64] = &[6.0, 3.0];
const DOTTED: &[f64] = &[1.5, 3.0];
const DASH_DOT: &[f64] = &[7.0, 2.5, 1.5, 2.5];

/// The style of a policy by name; a name may continue after a space (`cmlb p*=0.1`).
pub fn style(policy: &str) -> Style {
    use Colour as C;
    let name = policy.split(' ').next().unwrap_or("");
    let style = chosen(name).or_else(|| derived(name)).unwrap_or(GUEST);
    // `cmlb p*=0.1` beside `cmlb`: the same hue, another dash. Of `cohort` there are several such.
    let of = |colour, dash, mark| Style { colour, dash, mark };
    match policy {
        "cohort no-mixture" => of(C::ORANGE, DASHED, Mark::Square),
        "cohort hard-labels" => of(C::PURPLE, DOTTED, Mark::Up),
        "cohort no-doubt" => of(C::SKY, DASH_DOT, Mark::Diamond),
        "cohort fixed-noise" => of(C::VERMILLION, DASHED, Mark::Down),
        other if other.contains(' ') => Style { dash: DASH_DOT, ..style },
        _ => style,
    }
}

/// The style of a policy that is not in the registry.
const GUEST: Style = Style { colour: Colour::WINE, dash: DOTTED, mark: Mark::Cross };

/// Styles chosen by hand, so that families are recognised.
fn chosen(name: &str) -> Option<Style> {
    use Colour as C;
    let (colour, dash, mark) = match name {
        "random" => (C::STONE, DOTTED, Mark::Cross),
        "oracle" => (C::STONE, DASHED, Mark::Diamond),
        "oracle-centres" => (C::STONE, SOLID, Mark::Diamond),
        "oracle-individual" => (C::STONE, DASH_DOT, Mark::Diamond),
        "linucb-ind" => (C::INK, SOLID, Mark::Disc),
        "common" => (C::SKY, SOLID, Mark::Down),
        "cmlb" => (C::BLUE, SOLID, Mark::Square),
        "cmlb-warm" => (C::BLUE, DASHED, Mark::Square),
        "sclb" => (C::VERMILLION, SOLID, Mark::Up),
        "sclb-warm" => (C::VERMILLION, DASHED, Mark::Up),
        "club" => (C::GREEN, SOLID, Mark::Diamond),
        "sclub" => (C::PURPLE, SOLID, Mark::Down),
        "pmlb" => (C::ORANGE, SOLID, Mark::Square),
        "pmlb-compensated" => (C::ORANGE, DASH_DOT, Mark::Square),
        "pmlb-warm" => (C::ORANGE, DASHED, Mark::Square),
        "alb-norm" => (C::ORANGE, DOTTED, Mark::Up),
        "cohort" => (C::WINE, SOLID, Mark::Disc),
        _ => return None,
    };
    Some(Style { colour, dash, mark })
}

/// The style of any other policy of the registry: by its place there, and unique.
fn derived(name: &str) -> Option<Style> {
    let others = || POLICIES.iter().filter(|info| chosen(info.name).is_none());
    let place = others().position(|info| info.name == name)?;
    let taken: Vec<Style> =
        POLICIES.iter().filter_map(|info| chosen(info.name)).chain([GUEST]).collect();
    free_styles(&taken).nth(place)
}

/// All unused styles, consecutive ones as different as possible.
fn free_styles(taken: &[Style]) -> impl Iterator<Item = Style> {
    use Colour as C;
    let hues = [C::BLUE, C::VERMILLION, C::GREEN, C::PURPLE, C::ORANGE, C::SKY, C::WINE];
    let marks = [Mark::Disc, Mark::Square, Mark::Up, Mark::Down, Mark::Diamond];
    let dashes = [DASHED, DOTTED, DASH_DOT, SOLID];
    // 7 hues, 5 marks and 4 dashes are pairwise coprime, so that all advance at every step and none
    // of the 140 repeats.
    (0..hues.len() * marks.len() * dashes.len())
        .map(move |at| Style { colour: hues[at % 7], dash: dashes[at % 4], mark: marks[at % 5] })
        .filter(|style| !taken.contains(style))
}

impl Style {
    /// Draws the marker.
    pub fn draw_mark(&self, picture: &mut Picture, (x, y): (f64, f64), r: f64) {
        let polygon = |corners: &[(f64, f64)]| -> Vec<(f64, f64)> {
            corners.iter().map(|(dx, dy)| (x + r * dx, y + r * dy)).collect()
        };
        let corners = match self.mark {
            Mark::Disc => {
                let turn = |k: usize| k as f64 * std::f64::consts::TAU / 12.0;
                let round: Vec<_> = (0..12).map(|k| (turn(k).cos(), turn(k).sin())).collect();
                polygon(&round)
            }
            Mark::Square => polygon(&[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)]),
            Mark::Up => polygon(&[(0.0, -1.15), (1.05, 0.85), (-1.05, 0.85)]),
            Mark::Down => polygon(&[(0.0, 1.15), (1.05, -0.85), (-1.05, -0.85)]),
            Mark::Diamond => polygon(&[(0.0, -1.25), (1.05, 0.0), (0.0, 1.25), (-1.05, 0.0)]),
            Mark::Cross => {
                for (a, b) in [((-1.0, -1.0), (1.0, 1.0)), ((-1.0, 1.0), (1.0, -1.0))] {
                    picture.line(polygon(&[a, b]), self.colour, 1.4, &[]);
                }
                return;
            }
        };
        picture.area(corners, self.colour, 1.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_policies_look_the_same() {
        let styles: Vec<_> = POLICIES.iter().map(|info| (info.name, style(info.name))).collect();
        for (i, (a, look_a)) in styles.iter().enumerate() {
            for (b, look_b) in &styles[..i] {
                assert_ne!(look_a, look_b, "{a} and {b}");
            }
        }
    }

    /// There is room for as many policies again, without a line here.
    #[test]
    fn policies_to_come_have_a_look_of_their_own() {
        let taken: Vec<Style> =
            POLICIES.iter().filter_map(|info| chosen(info.name)).chain([GUEST]).collect();
        let free: Vec<Style> = free_styles(&taken).collect();
        assert!(free.len() > 2 * POLICIES.len(), "{}", free.len());
        for (i, style) in free.iter().enumerate() {
            assert!(!taken.contains(style) && !free[..i].contains(style), "{style:?}");
        }
    }

    #[test]
    fn what_follows_a_space_keeps_the_hue() {
        assert_eq!(style("cmlb p*=0.1").colour, style("cmlb").colour);
        assert_ne!(style("cmlb p*=0.1"), style("cmlb"));
    }
}
