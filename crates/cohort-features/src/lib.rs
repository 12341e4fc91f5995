//! JSON as vectors: what an item, a context and a user are, in whatever form it is in, for policies
//! that take numbers.
//!
//! | file | question it answers |
//! | --- | --- |
//! | [`Features`] | which features does an object have? |
//! | `reading` | how is JSON read? |
//! | `read_names` | which name is read, and was it read before? |
//! | `unreadable` | what is refused, and in which words? |
//! | [`Encoder`] | which vector do they become? |
//! | [`learning`](Known) | what is to be learned before? |
//! | [`coordinates`](Coordinates) | which coordinate does a feature have, and with which sign? |
//! | [`Moments`] | how large is a number usually? |
//! | [`explain`](Contribution) | what does each feature add to a prediction? |
//! | [`effects`] | what do features not say of an item? |
//! | [`bytes`] | how is all this kept? |
//!
//! ```
//! use cohort_features::{Encoder, EncoderSettings, Features, Offer, Side};
//!
//! let film = |json| Features::parse(Side::Item, json).unwrap();
//! let films = [
//!     film(r#"{"genres": ["drama", "war"], "year": 1957}"#),
//!     film(r#"{"genres": ["comedy"], "year": 1959}"#),
//! ];
//! let mut encoder = Encoder::new(16, EncoderSettings::default());
//! let offer = Offer { items: films.iter().collect(), context: None, user: None };
//! let mut rows = Vec::new();
//! encoder.encode_seen(&offer, &mut rows).unwrap();
//! assert_eq!(rows.len(), 2 * 16);
//! assert_eq!(encoder.names().count(), 4, "three genres and a year");
//! ```
//!
//! An object is read once ([`Features`]), and knows nothing of an app. An [`Encoder`] is an app's: it
//! knows which features there were, gives each a coordinate, and knows how large numbers usually are.
//! Both change by [`Encoder::learn`] alone, with a [`Seen`] that can be kept: whoever applies the same
//! `Seen`s in the same order encodes the same, bit by bit.

mod around;
pub mod bytes;
mod coordinates;
pub mod effects;
mod encoder;
mod explain;
mod features;
mod learning;
mod moments;
mod read_names;
mod reading;
mod unreadable;

pub use around::{Around, Parts};
pub use coordinates::{Coordinates, Named};
pub use effects::{ItemEffects, ScoreVectors, Shown};
pub use encoder::{Encoder, EncoderSettings, Offer, TooManyPairs};
pub use explain::Contribution;
pub use features::{Atom, Features, Kind, Side};
pub use learning::{Known, Seen, SeenName};
pub use moments::Moments;
pub use reading::{ContextFeatures, Given, ItemFeatures, UserFeatures, is_no_number};
pub use unreadable::Unreadable;
