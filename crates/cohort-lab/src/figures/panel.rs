//! One coordinate system: axes, curves with their bands, and the name of every curve at its right
//! end, so that the legend is in the order of the curves.

use serde_json::{Value, json};

use super::png::text_width;
use super::scale::{Scale, tick_label};
use super::{Anchor, Colour, Picture, Style, style};

/// One coordinate system with its curves.
#[derive(Clone, Debug, Default)]
pub struct Panel {
    /// Its title among the panels of the figure.
    pub title: String,
    /// The label of the horizontal axis, with its unit.
    pub x_label: String,
    /// The label of the vertical axis.
    pub y_label: String,
    /// Whether both axes are logarithmic.
    pub log: bool,
    /// The curves.
    pub series: Vec<Series>,
    /// On logarithmic axes: a line of this slope for comparison, and what it is.
    pub guide: Option<(f64, String)>,
}

/// One curve.
#[derive(Clone, Debug)]
pub struct Series {
    /// The policy, which decides the style.
    pub policy: String,
    /// The name at its end.
    pub label: String,
    /// Its points, from left to right.
    pub points: Vec<Point>,
    /// A fitted line, drawn instead of connecting the points.
    pub fit: Option<Fit>,
    /// Whether it may leave the frame at the top (`random`, which would flatten all others).
    pub may_leave: bool,
}

/// One point with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// The abscissa.
    pub x: f64,
    /// The mean.
    pub y: f64,
    /// The lower end of its interval.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// A straight line on logarithmic axes: ln y = intercept + slope·ln x.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fit {
    /// The exponent.
    pub slope: f64,
    /// ln y at x = 1.
    pub intercept: f64,
}

/// Margins and sizes inside a panel, in pixels.
const LEFT: f64 = 56.0;
const TOP: f64 = 26.0;
const BOTTOM: f64 = 42.0;
/// The size of the coordinate system itself.
const PLOT: (f64, f64) = (222.0, 194.0);
/// The width of the markers before the names at the right.
const SIGNS: f64 = 37.0;
const NAME_HEIGHT: f64 = 13.0;
const TEXT: f64 = 11.0;

/// The scales of a panel at its place in the picture.
struct Frame {
    x: Scale,
    y: Scale,
}

impl Panel {
    /// The size of the panel, its names included.
    pub(super) fn size(&self) -> (f64, f64) {
        let widths = self.series.iter().map(|series| text_width(&series.label, TEXT));
        let names = widths.fold(0.0, f64::max);
        (LEFT + PLOT.0 + SIGNS + names + 14.0, TOP + PLOT.1 + BOTTOM)
    }

    /// Draws the panel at (left, top); returns the data for reading values off it.
    pub(super) fn draw(&self, picture: &mut Picture, place: (f64, f64)) -> Value {
        let frame = self.frame(place);
        self.draw_axes(picture, &frame, place);
        self.draw_guide(picture, &frame);
        for series in self.series.iter().filter(|series| !series.may_leave) {
            self.draw_band(picture, &frame, series);
        }
        for series in &self.series {
            self.draw_curve(picture, &frame, series);
        }
        self.draw_names(picture, &frame);
        self.readings(&frame)
    }

    fn frame(&self, (left, top): (f64, f64)) -> Frame {
        let all = || self.series.iter().flat_map(|series| &series.points);
        let staying: Vec<_> = self.series.iter().filter(|series| !series.may_leave).collect();
        let shown = if staying.is_empty() { self.series.iter().collect() } else { staying };
        let shown = || shown.iter().flat_map(|series| &series.points);
        let least = |values: &mut dyn Iterator<Item = f64>| values.fold(f64::INFINITY, f64::min);
        let most = |values: &mut dyn Iterator<Item = f64>| values.fold(f64::NEG_INFINITY, f64::max);
        let (mut x, mut y) = (
            (least(&mut all().map(|p| p.x)), most(&mut all().map(|p| p.x))),
            (least(&mut shown().map(|p| p.low)), most(&mut shown().map(|p| p.high))),
        );
        if self.log {
            let means = (least(&mut shown().map(|p| p.y)), most(&mut shown().map(|p| p.y)));
            // An interval that reaches zero has no lower end on a logarithmic axis.
            y.0 = if y.0 > means.0 / 10.0 { y.0 } else { means.0 / 1.5 };
            (x, y) = ((x.0 / 1.1, x.1 * 1.1), (y.0 / 1.15, y.1 * 1.15));
        } else {
            (x.0, y.0, y.1) = (0.0, 0.0, y.1 * 1.05);
        }
        Frame {
            x: Scale { domain: x, range: (left + LEFT, left + LEFT + PLOT.0), log: self.log },
            y: Scale { domain: y, range: (top + TOP + PLOT.1, top + TOP), log: self.log },
        }
    }

    fn draw_axes(&self, picture: &mut Picture, Frame { x, y }: &Frame, (left, top): (f64, f64)) {
        let ((x0, x1), (y0, y1)) = (x.range, y.range);
        for tick in y.ticks(5) {
            let at = y.at(tick);
            picture.line(vec![(x0, at), (x1, at)], Colour::GRID, 1.0, &[]);
            let (place, label) = ((x0 - 6.0, at + 4.0), tick_label(tick));
            picture.write(place, label, TEXT, Anchor::End, false, Colour::MUTED);
        }
        for tick in x.ticks(4) {
            let at = x.at(tick);
            picture.line(vec![(at, y0), (at, y0 + 4.0)], Colour::MUTED, 1.0, &[]);
            let (place, label) = ((at, y0 + 16.0), tick_label(tick));
            picture.write(place, label, TEXT, Anchor::Middle, false, Colour::MUTED);
        }
        picture.line(vec![(x0, y1), (x0, y0), (x1, y0)], Colour::MUTED, 1.0, &[]);
        picture.write((x0, top + 16.0), &*self.title, 12.5, Anchor::Start, true, Colour::INK);
        picture.text(((x0 + x1) / 2.0, y0 + 34.0), &*self.x_label, TEXT, Anchor::Middle);
        picture.write_upwards((left + 12.0, (y0 + y1) / 2.0), &*self.y_label, TEXT);
    }

    /// The line of the given slope through the middle of all points.
    fn draw_guide(&self, picture: &mut Picture, frame: &Frame) {
        let Some((slope, label)) = &self.guide else { return };
        let points: Vec<_> = self.series.iter().flat_map(|series| &series.points).collect();
        let mean = |of: fn(&Point) -> f64| {
            points.iter().map(|point| of(point).max(f64::MIN_POSITIVE).ln()).sum::<f64>()
                / points.len() as f64
        };
        let (x, y) = (mean(|p| p.x), mean(|p| p.y));
        let line = Fit { slope: *slope, intercept: y - slope * x };
        let path = line.across(frame);
        let (Some(&first), Some(&last)) = (path.first(), path.last()) else { return };
        // Above its higher end, so that the line runs away from the text.
        let ((x, y), anchor) =
            if *slope < 0.0 { (first, Anchor::Start) } else { (last, Anchor::End) };
        let above = (x, (y - 5.0).max(frame.y.range.1 + TEXT));
        picture.line(path, Colour::MUTED, 1.2, &[2.0, 4.0]);
        picture.write(above, &**label, TEXT, anchor, false, Colour::MUTED);
    }

    fn draw_band(&self, picture: &mut Picture, frame: &Frame, series: &Series) {
        let colour = style(&series.policy).colour;
        if self.log {
            for p in &series.points {
                let (x, low, high) = (frame.x.at(p.x), frame.inside(p.low), frame.inside(p.high));
                picture.line(vec![(x, low), (x, high)], colour, 1.2, &[]);
            }
            return;
        }
        // From where it has a width: some curves have an interval at their end only.
        let Some(first) = series.points.iter().position(|p| p.low < p.high) else { return };
        let points = &series.points[first.saturating_sub(1)..];
        let edge = |p: &Point, y: f64| (frame.x.at(p.x), frame.inside(y));
        let upper = points.iter().map(|p| edge(p, p.high));
        let lower = points.iter().rev().map(|p| edge(p, p.low));
        picture.area(upper.chain(lower).collect(), colour, 0.16);
    }

    fn draw_curve(&self, picture: &mut Picture, frame: &Frame, series: &Series) {
        let style = style(&series.policy);
        let path = match series.fit {
            Some(fit) => fit.across(frame),
            None => frame.visible(&series.points),
        };
        picture.line(path, style.colour, if self.log { 1.6 } else { 1.8 }, style.dash);
        let count = series.points.len();
        // Four markers along a curve; every point of a scatter has its own.
        let every = if self.log { 1 } else { (count / 4).max(1) };
        for p in series.points.iter().rev().step_by(every) {
            if p.y <= frame.y.domain.1 && (self.log || p.x > frame.x.domain.0) {
                let place = (frame.x.at(p.x), frame.y.at(p.y));
                style.draw_mark(picture, place, if self.log { 4.0 } else { 3.2 });
            }
        }
    }

    /// Draws names at the right in the order of the curves' ends, moved apart where they would
    /// overlap.
    fn draw_names(&self, picture: &mut Picture, frame: &Frame) {
        let mut names: Vec<(f64, &Series)> =
            (self.series.iter()).filter_map(|series| Some((series.end(frame)?, series))).collect();
        names.sort_by(|a, b| a.0.total_cmp(&b.0));
        let ends: Vec<f64> = names.iter().map(|(end, _)| *end).collect();
        let (top, bottom) = (frame.y.range.1, frame.y.range.0);
        let places = spread(&ends, NAME_HEIGHT, top - 4.0, bottom + 4.0);
        let x = frame.x.range.1;
        for ((end, series), y) in names.into_iter().zip(places) {
            let Style { colour, dash, .. } = style(&series.policy);
            picture.line(vec![(x + 3.0, end), (x + 12.0, y)], colour, 0.8, &[]);
            picture.line(vec![(x + 12.0, y), (x + 32.0, y)], colour, 1.8, dash);
            style(&series.policy).draw_mark(picture, (x + 22.0, y), 3.0);
            picture.text((x + SIGNS, y + 4.0), &*series.label, TEXT, Anchor::Start);
        }
    }

    /// The data with which a page shows values under the pointer.
    fn readings(&self, Frame { x, y }: &Frame) -> Value {
        let round = |v: f64| (v * 100.0).round() / 100.0;
        // Four digits are more than a picture shows.
        let digits = |v: f64| format!("{v:.3e}").parse::<f64>().unwrap_or(v);
        let numbers = |series: &Series, of: fn(&Point) -> f64| {
            series.points.iter().map(|p| digits(of(p))).collect::<Vec<f64>>()
        };
        let first = self.series.first().map(|series| numbers(series, |p| p.x));
        let series: Vec<Value> = (self.series.iter().enumerate())
            .map(|(k, series)| {
                let mut reading = json!({
                    "name": series.policy,
                    "colour": style(&series.policy).colour.name,
                    "y": numbers(series, |p| p.y),
                    "margin": numbers(series, |p| (p.high - p.low) / 2.0),
                });
                // Most curves of a panel have the same abscissas: then only the first lists them.
                let x = numbers(series, |p| p.x);
                if k == 0 || first.as_ref() != Some(&x) {
                    reading["x"] = json!(x);
                }
                reading
            })
            .collect();
        json!({
            "title": self.title,
            "xLabel": self.x_label,
            "yLabel": self.y_label,
            "log": self.log,
            "frame": [round(x.range.0), round(y.range.1), round(x.range.1), round(y.range.0)],
            "domain": [x.domain.0, x.domain.1],
            "series": series,
        })
    }
}

impl Series {
    /// The end of the curve, in pixels from the top.
    fn end(&self, frame: &Frame) -> Option<f64> {
        let last = self.points.last()?;
        Some(match self.fit {
            Some(fit) => frame.inside(fit.at(frame.x.domain.1)),
            None => frame.inside(last.y),
        })
    }
}

impl Fit {
    fn at(&self, x: f64) -> f64 {
        (self.intercept + self.slope * x.ln()).exp()
    }

    /// The line from the left to the right of the frame, clipped to it.
    fn across(&self, frame: &Frame) -> Vec<(f64, f64)> {
        let (x0, x1) = (frame.x.domain.0.ln(), frame.x.domain.1.ln());
        let inside = |x: &f64| {
            let y = self.at(*x);
            frame.y.domain.0 <= y && y <= frame.y.domain.1
        };
        (0..=64)
            .map(|k| (x0 + (x1 - x0) * f64::from(k) / 64.0).exp())
            .filter(inside)
            .map(|x| (frame.x.at(x), frame.y.at(self.at(x))))
            .collect()
    }
}

impl Frame {
    /// The height of a value, clamped to the frame.
    fn inside(&self, y: f64) -> f64 {
        self.y.at(y.clamp(self.y.domain.0, self.y.domain.1))
    }

    /// A curve up to where it leaves the frame at the top.
    fn visible(&self, points: &[Point]) -> Vec<(f64, f64)> {
        let top = self.y.domain.1;
        let mut path = Vec::with_capacity(points.len());
        let mut before: Option<&Point> = None;
        for p in points {
            if p.y > top {
                if let Some(b) = before {
                    let share = (top - b.y) / (p.y - b.y);
                    path.push((self.x.at(b.x + share * (p.x - b.x)), self.y.at(top)));
                }
                break;
            }
            path.push((self.x.at(p.x), self.y.at(p.y)));
            before = Some(p);
        }
        path
    }
}

/// Positions near `wanted` (ascending), at least `gap` apart, between `low` and `high` if they fit.
fn spread(wanted: &[f64], gap: f64, low: f64, high: f64) -> Vec<f64> {
    let mut places = wanted.to_vec();
    let mut least = low;
    for place in &mut places {
        *place = place.max(least);
        least = *place + gap;
    }
    let mut most = high.max(low + gap * (wanted.len() as f64 - 1.0));
    for place in places.iter_mut().rev() {
        *place = place.min(most);
        most = *place - gap;
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_their_order_and_their_distance() {
        let places = spread(&[10.0, 11.0, 12.0, 80.0], 13.0, 0.0, 100.0);
        assert_eq!(places, [10.0, 23.0, 36.0, 80.0]);
        let places = spread(&[95.0, 96.0, 97.0], 13.0, 0.0, 100.0);
        assert_eq!(places, [74.0, 87.0, 100.0]);
    }

    #[test]
    fn a_curve_is_cut_where_it_leaves_the_frame() {
        let scale = |range| Scale { domain: (0.0, 10.0), range, log: false };
        let frame = Frame { x: scale((0.0, 10.0)), y: scale((10.0, 0.0)) };
        let point = |x, y| Point { x, y, low: y, high: y };
        let path = frame.visible(&[point(0.0, 0.0), point(5.0, 20.0), point(6.0, 30.0)]);
        assert_eq!(path, [(0.0, 10.0), (2.5, 0.0)]);
    }
}
