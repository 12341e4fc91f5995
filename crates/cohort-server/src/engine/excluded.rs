//! What is not meant, in one place or in several.

use std::sync::Arc;

/// Ids that are not meant. Places of a slate share the lists that they have in common.
#[derive(Clone, Debug, Default)]
pub struct Excluded(Vec<Arc<[String]>>);

impl From<Vec<String>> for Excluded {
    fn from(ids: Vec<String>) -> Self {
        Self::default().and(ids)
    }
}

impl Excluded {
    /// These and others; these are not copied.
    pub fn and(&self, ids: Vec<String>) -> Self {
        let own = (!ids.is_empty()).then(|| ids.into());
        Self(self.0.iter().cloned().chain(own).collect())
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().flat_map(|list| list.iter()).map(String::as_str)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.iter().map(|list| list.len()).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How much memory they take, roughly: of a list that is shared, its part.
    pub fn bytes(&self) -> usize {
        let of = |list: &Arc<[String]>| {
            let ids: usize = list.iter().map(|id| id.len() + 48).sum();
            ids.div_ceil(Arc::strong_count(list))
        };
        self.0.iter().map(of).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_places_have_in_common_is_held_once() {
        let shared = Excluded::from(vec!["x".repeat(100); 10_000]);
        let alone = shared.bytes();
        let places: Vec<Excluded> =
            (0..63).map(|place| shared.and(vec![format!("own-{place}")])).collect();
        let all: usize = places.iter().map(Excluded::bytes).sum();
        assert!(all < alone + 63 * 200, "{all} bytes for {alone}");
        assert!(places.iter().all(|place| place.len() == 10_001));
        assert_eq!(places[7].iter().last(), Some("own-7"));
        assert!(Excluded::default().and(Vec::new()).is_empty());
    }
}
