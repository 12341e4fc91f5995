//! A picture as SVG.
//!
//! Colours are written for a light background, and every element carries the name of its colour as
//! a class, so that a page in dark mode can replace it.

use std::fmt::Write;

use super::{Anchor, Item, Picture};

/// The font of all text: that of the PNG files, or a similar one.
const FONTS: &str = "'DejaVu Sans', Verdana, system-ui, sans-serif";

/// The picture as the text of an SVG file.
pub fn write(picture: &Picture) -> String {
    let mut out = String::new();
    let (width, height) = (number(picture.width), number(picture.height));
    // Writing to a string cannot fail.
    let _ = write!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         width=\"{width}\" height=\"{height}\" role=\"img\" font-family=\"{FONTS}\">\n\
         <title>{}</title>\n",
        escape(&picture.title)
    );
    for item in &picture.items {
        write_item(&mut out, item);
    }
    out.push_str("</svg>\n");
    out
}

fn write_item(out: &mut String, item: &Item) {
    let _ = match item {
        Item::Line { points, colour, width, dash } => {
            let dash = match dash {
                [] => String::new(),
                dash => format!(
                    " stroke-dasharray=\"{}\"",
                    dash.iter().map(|v| number(*v)).collect::<Vec<_>>().join(" ")
                ),
            };
            writeln!(
                out,
                "<polyline class=\"s-{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\" \
                 stroke-linejoin=\"round\"{dash} points=\"{}\"/>",
                colour.name,
                colour.hex(),
                number(*width),
                path(points)
            )
        }
        Item::Area { points, colour, opacity } => {
            let opacity = match opacity {
                1.0 => String::new(),
                opacity => format!(" fill-opacity=\"{}\"", number(*opacity)),
            };
            writeln!(
                out,
                "<polygon class=\"f-{}\" fill=\"{}\"{opacity} points=\"{}\"/>",
                colour.name,
                colour.hex(),
                path(points)
            )
        }
        Item::Text { at: (x, y), text, size, anchor, bold, upwards, colour } => {
            let (x, y) = (number(*x), number(*y));
            let anchor = match anchor {
                Anchor::Start => "",
                Anchor::Middle => " text-anchor=\"middle\"",
                Anchor::End => " text-anchor=\"end\"",
            };
            let bold = if *bold { " font-weight=\"700\"" } else { "" };
            let turn = if *upwards {
                format!(" transform=\"rotate(-90 {x} {y})\"")
            } else {
                String::new()
            };
            writeln!(
                out,
                "<text class=\"f-{}\" fill=\"{}\" x=\"{x}\" y=\"{y}\" \
                 font-size=\"{}\"{anchor}{bold}{turn}>{}</text>",
                colour.name,
                colour.hex(),
                number(*size),
                escape(text)
            )
        }
    };
}

fn path(points: &[(f64, f64)]) -> String {
    let points: Vec<_> =
        points.iter().map(|(x, y)| format!("{},{}", number(*x), number(*y))).collect();
    points.join(" ")
}

/// Two decimals of a pixel are enough.
fn number(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Escapes text for XML or HTML.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
