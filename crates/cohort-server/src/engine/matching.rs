//! Which items must places leave to those after them?
//!
//! A bipartite matching gives every scarce place an item of its own; it is kept while places are filled one after
//! the other. An item is needed by later places exactly if the place that has it could not be given another: if no
//! alternating path leads from there to an item that nobody has. One search over all edges finds these for a
//! place, and one repairs the matching after an item was shown: O(places × edges) in all.

use hashbrown::HashMap;

/// What scarce places may show, and one item for each of them.
#[derive(Default)]
pub(super) struct Matching {
    numbers: HashMap<String, usize>,
    items: Vec<Item>,
    places: Vec<Place>,
    /// Places before this one are filled.
    next: usize,
}

#[derive(Default)]
struct Item {
    id: String,
    /// It is shown already.
    is_taken: bool,
    /// Scarce places that may show it.
    places: Vec<usize>,
    /// The place that has it.
    of: Option<usize>,
}

#[derive(Default)]
struct Place {
    /// What it may show, where that is little.
    items: Vec<usize>,
    is_scarce: bool,
    /// What it has.
    has: Option<usize>,
}

impl Matching {
    /// One more place, with its candidates where they are few.
    pub fn add(&mut self, few: Option<Vec<String>>) {
        let place = self.places.len();
        let is_scarce = few.is_some();
        let mut items: Vec<usize> =
            few.into_iter().flatten().map(|item| self.number(item)).collect();
        items.sort_unstable();
        items.dedup();
        items.iter().for_each(|item| self.items[*item].places.push(place));
        self.places.push(Place { items, is_scarce, has: None });
    }

    fn number(&mut self, id: String) -> usize {
        if let Some(number) = self.numbers.get(&id) {
            return *number;
        }
        let number = self.items.len();
        self.numbers.insert(id.clone(), number);
        self.items.push(Item { id, ..Item::default() });
        number
    }

    /// An item is shown: no place may have it. Places that lose it get another, if there is one.
    pub fn take(&mut self, id: &str) {
        let Some(item) = self.numbers.get(id).copied() else { return };
        self.items[item].is_taken = true;
        if let Some(place) = self.items[item].of.take() {
            self.places[place].has = None;
            self.augment(place);
        }
    }

    /// Gives every scarce place an item. The first that can have none beside those before it, if there is one.
    pub fn first_that_cannot(&mut self) -> Option<usize> {
        (0..self.places.len()).find(|at| {
            let place = &self.places[*at];
            place.is_scarce && place.has.is_none() && !self.augment(*at)
        })
    }

    /// The place is filled now: it gives back what it has. Returns the items that it must leave to those after it.
    pub fn needed_after(&mut self, place: usize) -> Vec<&str> {
        self.next = place + 1;
        if let Some(item) = self.places[place].has.take() {
            self.items[item].of = None;
        }
        // Backwards from items that nobody has: whoever may show one of them can do without what it has, and so on.
        let is_free = |item: &Item| item.of.is_none() && !item.is_taken;
        let mut free: Vec<usize> =
            (0..self.items.len()).filter(|at| is_free(&self.items[*at])).collect();
        let mut is_flexible = vec![false; self.places.len()];
        while let Some(item) = free.pop() {
            for place in self.items[item].places.iter().copied() {
                if place >= self.next && !std::mem::replace(&mut is_flexible[place], true) {
                    free.extend(self.places[place].has);
                }
            }
        }
        let later = self.places.iter().zip(is_flexible).skip(self.next);
        let needed = later.filter(|(_, is_flexible)| !is_flexible).filter_map(|(one, _)| one.has);
        needed.map(|item| self.items[item].id.as_str()).collect()
    }

    /// Finds an item for a place, giving others another one where need be: the shortest alternating path.
    fn augment(&mut self, place: usize) -> bool {
        // For every item that was reached, the place from which it was.
        let mut from: Vec<Option<usize>> = vec![None; self.items.len()];
        let mut places = std::collections::VecDeque::from([place]);
        while let Some(at) = places.pop_front() {
            for item in self.places[at].items.iter().copied() {
                if self.items[item].is_taken || from[item].is_some() {
                    continue;
                }
                from[item] = Some(at);
                match self.items[item].of {
                    Some(other) => places.push_back(other),
                    None => {
                        self.hand_over(item, &from);
                        return true;
                    }
                }
            }
        }
        false
    }

    /// Gives an item to the place from which it was reached, what that had to the one before, and so on.
    fn hand_over(&mut self, item: usize, from: &[Option<usize>]) {
        let mut item = Some(item);
        while let Some((at, place)) = item.and_then(|at| Some((at, from[at]?))) {
            self.items[at].of = Some(place);
            item = self.places[place].has.replace(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::{Duration, Instant};

    fn matching(places: &[Vec<usize>], most: usize) -> Matching {
        let mut matching = Matching::default();
        for items in places {
            let few: Vec<String> = items.iter().map(|item| format!("i{item}")).collect();
            matching.add((few.len() < most).then_some(few));
        }
        matching
    }

    /// Whether places can be filled, by trying everything.
    fn can_fill(places: &[Vec<usize>], taken: &mut Vec<usize>) -> bool {
        let Some((first, rest)) = places.split_first() else { return true };
        first.iter().any(|item| {
            if taken.contains(item) {
                return false;
            }
            taken.push(*item);
            let fills = can_fill(rest, taken);
            taken.pop();
            fills
        })
    }

    proptest! {
        #[test]
        fn items_are_kept_exactly_for_whoever_cannot_do_without(
            places in prop::collection::vec(
                prop::collection::btree_set(0usize..6, 0..6), 1..6),
            shown in prop::collection::btree_set(0usize..6, 0..2),
            choices in prop::collection::vec(any::<prop::sample::Index>(), 6),
        ) {
            let places: Vec<Vec<usize>> =
                places.into_iter().map(|items| items.into_iter().collect()).collect();
            let mut taken: Vec<usize> = shown.into_iter().collect();
            // What is shown already counts for how few candidates are few.
            let mut matching = matching(&places, places.len() + taken.len());
            taken.iter().for_each(|item| matching.take(&format!("i{item}")));
            let possible = can_fill(&places, &mut taken.clone());
            prop_assert_eq!(matching.first_that_cannot().is_none(), possible);
            if !possible {
                return Ok(());
            }
            for (at, place) in places.iter().enumerate() {
                let needed: Vec<String> =
                    matching.needed_after(at).into_iter().map(str::to_owned).collect();
                let free: Vec<usize> = place
                    .iter()
                    .copied()
                    .filter(|item| !taken.contains(item) && !needed.contains(&format!("i{item}")))
                    .collect();
                // Exactly those that leave the rest possible.
                for item in place.iter().filter(|item| !taken.contains(*item)) {
                    let mut with = taken.clone();
                    with.push(*item);
                    prop_assert_eq!(can_fill(&places[at + 1..], &mut with), free.contains(item));
                }
                prop_assert!(!free.is_empty());
                let chosen = free[choices[at].index(free.len())];
                taken.push(chosen);
                matching.take(&format!("i{chosen}"));
            }
        }
    }

    /// Every place may show all items but one, and there are as many items as places. Looking anew for every item
    /// of every place takes many seconds.
    #[test]
    fn many_places_with_as_many_items_are_filled_at_once() {
        let count = 400;
        let places: Vec<Vec<usize>> = (0..count)
            .map(|place| (0..count).filter(|item| *item != (place * 7 + 1) % count).collect())
            .collect();
        let began = Instant::now();
        let mut matching = matching(&places, count);
        assert_eq!(matching.first_that_cannot(), None);
        for (at, place) in places.iter().enumerate() {
            let needed: Vec<String> =
                matching.needed_after(at).into_iter().map(str::to_owned).collect();
            let is_free = |item: &&usize| {
                let id = format!("i{item}");
                !needed.contains(&id) && !matching.items[matching.numbers[&id]].is_taken
            };
            let chosen = place.iter().find(is_free).unwrap();
            let id = format!("i{chosen}");
            matching.take(&id);
        }
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    }
}
