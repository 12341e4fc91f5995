//! A picture as PNG, at twice its size in pixels so that it is sharp on any screen. The font is
//! embedded: a machine without fonts draws the same pixels.

use tiny_skia::{Color, FillRule, Paint, Path, PathBuilder, Pixmap, Stroke, StrokeDash, Transform};
use ttf_parser::{Face, OutlineBuilder};

use super::{Anchor, Colour, Item, Picture};

const SCALE: f32 = 2.0;
const PLAIN: &[u8] = include_bytes!("font/figures.ttf");
const BOLD: &[u8] = include_bytes!("font/figures-Bold.ttf");

/// The picture as the bytes of a PNG file.
pub fn write(picture: &Picture) -> Vec<u8> {
    let pixels = |size: f64| ((size as f32 * SCALE).ceil() as u32).max(1);
    let mut canvas = Pixmap::new(pixels(picture.width), pixels(picture.height))
        .expect("the size of a picture is positive and far from 2³¹ bytes");
    canvas.fill(Color::WHITE);
    let fonts = [PLAIN, BOLD].map(|font| Face::parse(font, 0).expect("the font inside is whole"));
    for item in &picture.items {
        draw(&mut canvas, item, &fonts);
    }
    canvas.encode_png().expect("a canvas in memory can be encoded")
}

fn draw(canvas: &mut Pixmap, item: &Item, [plain, bold_face]: &[Face; 2]) {
    let scale = Transform::from_scale(SCALE, SCALE);
    match item {
        Item::Line { points, colour, width, dash } => {
            let Some(path) = outline(points, false) else { return };
            let dash = dash.iter().map(|v| *v as f32).collect::<Vec<_>>();
            let stroke = Stroke {
                width: *width as f32,
                line_join: tiny_skia::LineJoin::Round,
                dash: StrokeDash::new(dash, 0.0),
                ..Stroke::default()
            };
            canvas.stroke_path(&path, &paint(*colour, 1.0), &stroke, scale, None);
        }
        Item::Area { points, colour, opacity } => {
            let Some(path) = outline(points, true) else { return };
            canvas.fill_path(&path, &paint(*colour, *opacity), FillRule::Winding, scale, None);
        }
        Item::Text { at, text, size, anchor, bold, upwards, colour } => {
            let face = if *bold { bold_face } else { plain };
            let (path, width) = letters(face, text, *size as f32);
            let Some(path) = path else { return };
            let shift = match anchor {
                Anchor::Start => 0.0,
                Anchor::Middle => -width / 2.0,
                Anchor::End => -width,
            };
            let turn = if *upwards { -90.0 } else { 0.0 };
            let place = scale
                .pre_translate(at.0 as f32, at.1 as f32)
                .pre_rotate(turn)
                .pre_translate(shift, 0.0);
            canvas.fill_path(&path, &paint(*colour, 1.0), FillRule::Winding, place, None);
        }
    }
}

fn paint(colour: Colour, opacity: f64) -> Paint<'static> {
    let [r, g, b] = colour.light;
    let mut paint = Paint { anti_alias: true, ..Paint::default() };
    paint.set_color_rgba8(r, g, b, (opacity * 255.0).round() as u8);
    paint
}

fn outline(points: &[(f64, f64)], closed: bool) -> Option<Path> {
    let mut path = PathBuilder::new();
    for (k, (x, y)) in points.iter().enumerate() {
        let (x, y) = (*x as f32, *y as f32);
        if k == 0 { path.move_to(x, y) } else { path.line_to(x, y) }
    }
    if closed {
        path.close();
    }
    path.finish()
}

/// The width of a line of plain text.
pub fn text_width(text: &str, size: f64) -> f64 {
    let face = Face::parse(PLAIN, 0).expect("the font inside is whole");
    f64::from(letters(&face, text, size as f32).1)
}

/// The outline of a line of text from the origin, and its width.
fn letters(face: &Face, text: &str, size: f32) -> (Option<Path>, f32) {
    let mut pen =
        Pen { path: PathBuilder::new(), x: 0.0, scale: size / f32::from(face.units_per_em()) };
    for letter in text.chars() {
        let glyph = face.glyph_index(letter).unwrap_or_default();
        face.outline_glyph(glyph, &mut pen);
        pen.x += f32::from(face.glyph_hor_advance(glyph).unwrap_or_default()) * pen.scale;
    }
    (pen.path.finish(), pen.x)
}

/// Converts glyph outlines. The y axis of fonts points up, that of pictures down.
struct Pen {
    path: PathBuilder,
    x: f32,
    scale: f32,
}

impl Pen {
    fn at(&self, x: f32, y: f32) -> (f32, f32) {
        (self.x + x * self.scale, -y * self.scale)
    }
}

impl OutlineBuilder for Pen {
    fn move_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.at(x, y);
        self.path.move_to(x, y);
    }

    fn line_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.at(x, y);
        self.path.line_to(x, y);
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        let ((x1, y1), (x, y)) = (self.at(x1, y1), self.at(x, y));
        self.path.quad_to(x1, y1, x, y);
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        let ((x1, y1), (x2, y2), (x, y)) = (self.at(x1, y1), self.at(x2, y2), self.at(x, y));
        self.path.cubic_to(x1, y1, x2, y2, x, y);
    }

    fn close(&mut self) {
        self.path.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Missing glyphs would be drawn as empty boxes.
    #[test]
    fn the_font_has_every_letter_that_figures_use() {
        let text = "Regret per user, σ = 0.1 × 10⁻³ (N·T)^α ≤ √d · Δ ε_i − ½ ± → θ* ↑ λ δ é";
        for font in [PLAIN, BOLD] {
            let face = Face::parse(font, 0).unwrap();
            for letter in text.chars() {
                assert!(face.glyph_index(letter).is_some(), "{letter}");
            }
        }
    }

    #[test]
    fn text_and_lines_leave_ink() {
        let mut picture = Picture::new(60.0, 30.0, "");
        picture.text((5.0, 20.0), "Wβ", 16.0, Anchor::Start);
        let canvas = Pixmap::decode_png(&write(&picture)).unwrap();
        assert_eq!((canvas.width(), canvas.height()), (120, 60));
        let dark = canvas.pixels().iter().filter(|p| p.red() < 128).count();
        assert!(dark > 100, "{dark} dark pixels");
    }
}
