//! Figures: the same picture as SVG, as PNG and inside a page. The module stands alone.
//!
//! | file | question it answers |
//! | --- | --- |
//! | [`Picture`] | what is drawn? (lines, areas, text) |
//! | [`svg`] | as text that scales |
//! | [`png`] | as pixels, on a machine without fonts too |
//! | [`Style`] | which colour, dash and marker does a policy have, everywhere? |
//! | [`scale`] | where do numbers go, and which are written at the axes? |
//! | [`Panel`] | one coordinate system with its curves |
//! | [`Figure`] | panels in rows and columns |

mod figure;
mod panel;
mod picture;
pub mod png;
pub mod scale;
mod style;
pub mod svg;

pub use figure::Figure;
pub use panel::{Fit, Panel, Point, Series};
pub use picture::{Anchor, Item, Picture};
pub use style::{Colour, Mark, Style, colours, style};
