//! What events say of keys and decisions.

use crate::auth::{KeyHash, Scopes};
use crate::bytes::{Malformed, Put, Take};
use crate::trial::TrialDecision;

/// A key by which clients of an app are known.
#[derive(Clone, Debug, PartialEq)]
pub struct Key {
    /// Its public name.
    pub id: String,
    /// What is kept of its secret.
    pub hash: KeyHash,
    /// What it opens.
    pub scopes: Scopes,
    /// When it ends, in milliseconds since 1970; never if `None`.
    pub expires_ms: Option<u64>,
}

/// One decision as it was answered.
#[derive(Clone, Debug, PartialEq)]
pub struct Decided {
    /// Its id, the client's or the service's.
    pub id: String,
    /// The user's id.
    pub user: String,
    /// The items' ids, the chosen one first.
    pub ranking: Ranking,
    /// The features of the chosen item.
    pub context: Box<[f64]>,
    /// With what probability the chosen item was chosen.
    pub probability: f64,
    /// Whether the user has seen it; if not, it waits for its activation.
    pub shown: bool,
}

/// A decision among items of the catalogue: the ranking has the best of them.
#[derive(Clone, Debug, PartialEq)]
pub struct CatalogueDecision {
    /// The decision; its candidates are those of the ranking.
    pub decision: TrialDecision,
    /// How often the catalogue had changed before.
    pub version: u64,
    /// How many items could have been chosen.
    pub among: u64,
}

/// A decision that was made elsewhere, before: it is learned from, and says nothing of this service's decisions.
#[derive(Clone, Debug, PartialEq)]
pub struct PastDecided {
    /// The decision; its ranking has the chosen item, and the others as far as they are known.
    pub made: Decided,
    /// How many items could have been chosen, where that is known.
    pub among: Option<u64>,
}

/// Item ids in their order, in one piece of memory: a service keeps many of these.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ranking(Box<[u8]>);

impl Ranking {
    /// From ids in order.
    pub fn new<'a>(ids: impl IntoIterator<Item = &'a str>) -> Self {
        let mut bytes = Vec::new();
        for id in ids {
            bytes.put_str(id).expect("memory takes all bytes");
        }
        Self(bytes.into())
    }

    /// The ids in order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        let mut rest = &self.0[..];
        std::iter::from_fn(move || {
            let len = rest.take_len().ok()?;
            let (id, after) = rest.split_at_checked(len)?;
            rest = after;
            std::str::from_utf8(id).ok()
        })
    }

    /// The chosen item's.
    pub fn first(&self) -> &str {
        self.iter().next().unwrap_or_default()
    }

    /// As it is kept.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// From bytes as they are kept, if they are a ranking of one item or more.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, Malformed> {
        let mut rest = bytes.as_slice();
        if rest.is_empty() {
            return Err(Malformed::odd("a ranking of nothing"));
        }
        while !rest.is_empty() {
            rest.take_str()?;
        }
        Ok(Self(bytes.into()))
    }
}

impl Key {
    /// A key that opens what keys opened before there were scopes, for ever.
    pub fn of_old(id: String, hash: KeyHash) -> Self {
        Self { id, hash, scopes: Scopes::OF_OLD, expires_ms: None }
    }

    pub(super) fn is_of_old(&self) -> bool {
        self.scopes == Scopes::OF_OLD && self.expires_ms.is_none()
    }

    /// Writes what it opens and until when.
    pub fn write_terms(&self, out: &mut dyn std::io::Write) -> std::io::Result<()> {
        out.put_u8(self.scopes.bits())?;
        out.put_u64(self.expires_ms.unwrap_or(u64::MAX))
    }

    /// Reads what it opens and until when.
    pub fn read_terms(&mut self, mut from: &mut dyn std::io::Read) -> Result<(), Malformed> {
        let bits = from.take_u8()?;
        self.scopes = Scopes::from_bits(bits)
            .ok_or_else(|| Malformed::odd(format!("a key with the scopes {bits}")))?;
        self.expires_ms = Some(from.take_u64()?).filter(|at| *at != u64::MAX);
        Ok(())
    }

    /// Writes its id and its hash.
    pub fn write(&self, out: &mut dyn std::io::Write) -> std::io::Result<()> {
        out.put_str(&self.id)?;
        out.write_all(self.hash.as_bytes())
    }

    /// Reads its id and its hash.
    pub fn read(mut from: &mut dyn std::io::Read) -> Result<Self, Malformed> {
        Ok(Self::of_old(from.take_str()?, KeyHash::from_bytes(from.take_array()?)))
    }
}

impl Decided {
    /// Writes it.
    pub fn write(&self, out: &mut dyn std::io::Write) -> std::io::Result<()> {
        out.put_str(&self.id)?;
        out.put_str(&self.user)?;
        out.put_bytes(self.ranking.as_bytes())?;
        out.put_numbers(&self.context)?;
        out.put_f64(self.probability)?;
        out.put_u8(self.shown.into())
    }

    /// Reads it.
    pub fn read(mut from: &mut dyn std::io::Read) -> Result<Self, Malformed> {
        Ok(Self {
            id: from.take_str()?,
            user: from.take_str()?,
            ranking: Ranking::from_bytes(from.take_bytes()?)?,
            context: from.take_numbers()?.into(),
            probability: from.take_f64()?,
            shown: from.take_bool()?,
        })
    }
}
