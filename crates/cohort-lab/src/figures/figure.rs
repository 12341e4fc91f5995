//! Panels in rows and columns, under one title.

use serde_json::Value;

use super::png::text_width;
use super::{Anchor, Colour, Panel, Picture};

/// The least width, so that letters have the same size in all figures of a page.
const LEAST_WIDTH: f64 = 720.0;

/// A figure: panels in rows and columns.
#[derive(Clone, Debug, Default)]
pub struct Figure {
    /// Its name in files and links.
    pub name: String,
    /// What it shows.
    pub title: String,
    /// How it was made (repetitions, width, quick or full); shown under the title.
    pub subtitle: String,
    /// The number of panels per row.
    pub columns: usize,
    /// The panels, row by row.
    pub panels: Vec<Panel>,
}

const HEAD: f64 = 54.0;
const MARGIN: f64 = 8.0;

impl Figure {
    /// Draws the figure; returns the picture and the data for reading values off each panel.
    pub fn draw(&self) -> (Picture, Vec<Value>) {
        let columns = self.columns.clamp(1, self.panels.len().max(1));
        let rows = self.panels.len().div_ceil(columns);
        let sizes = self.panels.iter().map(Panel::size);
        let (wide, high) =
            sizes.fold((0.0, 0.0), |(a, b): (f64, f64), (c, d)| (a.max(c), b.max(d)));
        let head = text_width(&self.subtitle, 11.5).max(text_width(&self.title, 18.0)) + 32.0;
        let width = (2.0 * MARGIN + columns as f64 * wide).max(head).max(LEAST_WIDTH).ceil();
        let height = (HEAD + MARGIN + rows as f64 * high).ceil();
        let mut picture = Picture::new(width, height, format!("{}. {}", self.title, self.subtitle));
        let paper = vec![(0.0, 0.0), (width, 0.0), (width, height), (0.0, height)];
        picture.area(paper, Colour::PAPER, 1.0);
        picture.write((16.0, 24.0), &*self.title, 16.0, Anchor::Start, true, Colour::INK);
        picture.write((16.0, 42.0), &*self.subtitle, 11.5, Anchor::Start, false, Colour::MUTED);
        let readings = (self.panels.iter().enumerate())
            .map(|(k, panel)| {
                let left = MARGIN + (k % columns) as f64 * wide;
                let top = HEAD + (k / columns) as f64 * high;
                panel.draw(&mut picture, (left, top))
            })
            .collect();
        (picture, readings)
    }
}
