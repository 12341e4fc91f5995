//! A drawing as a list of lines, areas and text, in the order of drawing: independent of data and
//! of file formats.

use super::Colour;

/// A drawing of a certain size, in CSS pixels.
#[derive(Debug)]
pub struct Picture {
    /// Its width.
    pub width: f64,
    /// Its height.
    pub height: f64,
    /// A text alternative for screen readers.
    pub title: String,
    /// The items, in the order of drawing.
    pub items: Vec<Item>,
}

/// One item.
#[derive(Debug)]
pub enum Item {
    /// A line through points.
    Line {
        /// Its points.
        points: Vec<(f64, f64)>,
        /// Its colour.
        colour: Colour,
        /// Its thickness.
        width: f64,
        /// On, off, on, … in pixels; empty for a line without gaps.
        dash: &'static [f64],
    },
    /// A filled polygon.
    Area {
        /// Its corners.
        points: Vec<(f64, f64)>,
        /// Its colour.
        colour: Colour,
        /// From 0 (transparent) to 1.
        opacity: f64,
    },
    /// A line of text.
    Text {
        /// The anchor of its base line.
        at: (f64, f64),
        /// The text.
        text: String,
        /// The font size.
        size: f64,
        /// Which end is anchored.
        anchor: Anchor,
        /// Whether it is bold.
        bold: bool,
        /// Whether it runs upwards.
        upwards: bool,
        /// Its colour.
        colour: Colour,
    },
}

/// The anchored part of a line of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// Its beginning.
    Start,
    /// Its middle.
    Middle,
    /// Its end.
    End,
}

impl Picture {
    /// An empty picture.
    pub fn new(width: f64, height: f64, title: impl Into<String>) -> Self {
        Self { width, height, title: title.into(), items: Vec::new() }
    }

    /// Draws a line.
    pub fn line(
        &mut self,
        points: Vec<(f64, f64)>,
        colour: Colour,
        width: f64,
        dash: &'static [f64],
    ) {
        if points.len() > 1 {
            self.items.push(Item::Line { points, colour, width, dash });
        }
    }

    /// Fills a polygon.
    pub fn area(&mut self, points: Vec<(f64, f64)>, colour: Colour, opacity: f64) {
        if points.len() > 2 {
            self.items.push(Item::Area { points, colour, opacity });
        }
    }

    /// Writes a line of text in the colour of text.
    pub fn text(&mut self, at: (f64, f64), text: impl Into<String>, size: f64, anchor: Anchor) {
        self.write(at, text, size, anchor, false, Colour::INK);
    }

    /// Writes a line of text.
    pub fn write(
        &mut self,
        at: (f64, f64),
        text: impl Into<String>,
        size: f64,
        anchor: Anchor,
        bold: bool,
        colour: Colour,
    ) {
        let (text, upwards) = (text.into(), false);
        self.items.push(Item::Text { at, text, size, anchor, bold, upwards, colour });
    }

    /// Writes a line of text that runs upwards, its middle at `at`.
    pub fn write_upwards(&mut self, at: (f64, f64), text: impl Into<String>, size: f64) {
        let (text, anchor, colour) = (text.into(), Anchor::Middle, Colour::INK);
        let (bold, upwards) = (false, true);
        self.items.push(Item::Text { at, text, size, anchor, bold, upwards, colour });
    }
}
