use proptest::prelude::*;

use super::*;
use crate::linear::Statistics;
use crate::population::Ledger;
use crate::{Arm, Contexts};

fn save(ledger: &Ledger) -> Vec<u8> {
    let mut bytes = Vec::new();
    ledger.save(&mut bytes).unwrap();
    bytes
}

/// Numbers that look random.
fn noise(seed: u64) -> impl FnMut() -> f64 {
    let mut state = seed;
    move || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as f64 / f64::from(1u32 << 31) - 0.5
    }
}

/// Σw(x, 1, y)(x, 1, y)ᵀ.
fn plain(rows: &[(Vec<f64>, f64, f64)], dim: usize) -> Vec<f64> {
    let mut packed = vec![0.0; packed_len(dim + 2)];
    for (x, y, weight) in rows {
        let z: Vec<f64> = x.iter().copied().chain([1.0, *y]).collect();
        for i in 0..z.len() {
            for j in 0..=i {
                packed[packed_len(i) + j] += weight * z[i] * z[j];
            }
        }
    }
    packed
}

fn packed(ledger: &Ledger, user: usize) -> Vec<f64> {
    let mut out = vec![0.0; ledger.packed_len()];
    if let Some(slot) = ledger.slot_of(user) {
        ledger.packed_of(slot, &mut out);
    }
    out
}

#[test]
fn rounds_and_turns_end_in_the_same_statistics() {
    for memory in [1.0, 0.8] {
        let values = [0.5, -0.2, 0.1, 0.3, 0.9, -0.4];
        let contexts = Contexts::new(&values, 2).unwrap();
        let (mut rounds, mut turns) = (Ledger::new(2, memory), Ledger::new(2, memory));
        let mut plain = vec![Statistics::new(2); 11];
        for t in 0..40 {
            let arms: Vec<Arm> = (0..11).map(|user| (user * t) % 3).collect();
            let rewards: Vec<f64> = (0..11).map(|user| 7.0 + (user + t) as f64 * 0.1).collect();
            rounds.learn(&contexts, &arms, &rewards);
            for user in 0..11 {
                turns.learn_one(user, contexts.arm(arms[user]), rewards[user]);
                plain[user].learn(contexts.arm(arms[user]), rewards[user] - 7.0);
            }
            if t == 15 {
                assert_eq!(rounds.rewards_of(3), turns.rewards_of(3));
                assert_eq!(rounds.answered(), 11);
            }
        }
        rounds.settle();
        assert_eq!((rounds.origin(), turns.origin()), (7.0, 7.0));
        for user in 0..11 {
            let sums = packed(&rounds, user);
            assert_eq!(sums, packed(&turns, user));
            assert_eq!(rounds.count(user), sums[5]);
            if memory == 1.0 {
                let Statistics { gram, moment, squares, rewards } = &plain[user];
                assert_eq!(sums[..3], *gram.packed());
                assert_eq!((sums[5], &sums[6..8], sums[9]), (*rewards, &moment[..], *squares));
            }
        }
    }
}

#[test]
fn a_copy_shares_all_but_what_is_learned_after_it() {
    let mut ledger = Ledger::new(3, 1.0);
    let values = [0.1, 0.2, 0.3];
    let contexts = Contexts::new(&values, 3).unwrap();
    ledger.learn(&contexts, &[0; 5000], &[1.0; 5000]);
    for user in 0..100_000 {
        ledger.learn_one(1_000_000 + 3 * user, &values, 1.0);
    }
    let copy = ledger.clone();
    let own = |a: &Ledger, b: &Ledger| {
        (a.blocks.own(&b.blocks), a.rows.own(&b.rows), a.counts.own(&b.counts), a.ids.own(&b.ids))
    };
    assert_eq!(own(&ledger, &copy), (0, 0, 0, 0));
    ledger.learn_one(4321, &values, 1.0);
    assert_eq!(own(&ledger, &copy), (1, 0, 1, 0));
    ledger.learn_one(1_030_000, &values, 1.0);
    // The row, its link, that of the row before it and its slot; counts of another piece.
    assert_eq!(own(&ledger, &copy), (1, 4, 2, 0));
    assert_eq!((ledger.rewards_of(4321), copy.rewards_of(4321)), (2.0, 1.0));
    assert_eq!((ledger.rewards_of(1_030_000), copy.rewards_of(1_030_000)), (2.0, 1.0));
}

/// Users come and go: a new user takes a freed slot.
#[test]
fn slots_of_users_who_went_are_used_again() {
    for numbers_again in [true, false] {
        let mut ledger = Ledger::new(2, 1.0);
        for turn in 0..2000 {
            let user = if numbers_again { turn % 50 } else { turn };
            ledger.remove(user);
            ledger.learn_one(user, &[1.0, 2.0], turn as f64);
            ledger.learn_one(1 << 60, &[1.0, 2.0], 1.0);
            match turn % 3 {
                0 => ledger.rename(user, (1 << 40) + turn % 7),
                _ if turn >= 20 => ledger.remove(user - user.min(20)),
                _ => {}
            }
            if !numbers_again && turn >= 30 {
                ledger.remove(turn - 30);
            }
        }
        assert!(ledger.slots() <= 100, "{} slots of {} users", ledger.slots(), ledger.answered());
    }
}

/// Half of the users go, whichever they are: what they took is free, whether they were rows, sums, or both.
#[test]
fn users_who_go_take_their_memory_with_them() {
    let (users, goes) = (20_000, |user: usize| user % 4 < 2);
    let filled = |of: &dyn Fn(usize) -> bool| {
        let mut ledger = Ledger::new(6, 1.0);
        let mut next = noise(1);
        for turn in 0..9 {
            for user in (0..users).filter(|user| of(*user)) {
                let x: Vec<f64> = (0..6).map(|_| next()).collect();
                // Some stay rows, the others become sums.
                if turn < 2 + 2 * (user % 4) {
                    ledger.learn_one(user, &x, next());
                }
            }
        }
        ledger
    };
    let mut ledger = filled(&|_| true);
    let all = ledger.memory_bytes();
    let (rows, lanes) = (ledger.rows.memory_bytes(), ledger.owners.len());
    assert!(rows > all / 10 && lanes > users / 4, "{rows} of {all} bytes, {lanes} lanes");
    let kept: Vec<_> =
        (0..users).filter(|user| !goes(*user)).map(|user| packed(&ledger, user)).collect();
    (0..users).filter(|user| goes(*user)).for_each(|user| ledger.remove(user));
    for (user, sums) in (0..users).filter(|user| !goes(*user)).zip(&kept) {
        assert_eq!(&packed(&ledger, user), sums);
    }
    // But for what is kept by slot: id, home, count, and the set of free ones.
    let least = filled(&|user| !goes(user)).memory_bytes();
    let by_slot = users / 2 * 40 + (1 << 18);
    let (left, most) = (ledger.memory_bytes(), least + by_slot);
    assert!(left < most && left < all * 4 / 5, "{left} bytes of {all}, {most} would do");
    // A snapshot has the same, and whoever comes takes the places of those who went.
    let loaded = ledger.load(&mut save(&ledger).as_slice(), "test").unwrap();
    assert_eq!(save(&loaded), save(&ledger));
    let slots = ledger.slots();
    (0..users).filter(|user| goes(*user)).for_each(|user| ledger.learn_one(user, &[0.5; 6], 1.0));
    assert_eq!((ledger.slots(), ledger.answered()), (slots, users));
    (0..users).for_each(|user| ledger.remove(user));
    assert_eq!((ledger.blocks.len(), ledger.answered()), (0, 0));
    assert!(ledger.rows.memory_bytes() < 256, "{}", ledger.rows.memory_bytes());
}

/// A snapshot of an earlier version, with lanes of users who had gone.
#[test]
fn free_lanes_of_earlier_versions_are_closed_up() {
    let mut ledger = Ledger::new(2, 1.0);
    let contexts = Contexts::new(&[0.5, -0.2], 2).unwrap();
    ledger.learn(&contexts, &[0; 19], &(0..19).map(f64::from).collect::<Vec<_>>());
    ledger.settle();
    let bytes = save(&ledger);
    let (block, numbers) = (8 * 4 + 8 * 8 * packed_len(4), 8 * packed_len(4));
    let at = bytes.len() - 2 * block - 3 * numbers - 8 * 4;
    assert_eq!(bytes[at - 8..at], 19u64.to_le_bytes(), "lanes are counted before the blocks");
    // The first block loses the user of lane 2: its owner, its sums, and its slot.
    let mut old = bytes[..at].to_vec();
    let slots = at - 8 - 19 * 12;
    old[slots + 2 * 12..][..8].copy_from_slice(&u64::MAX.to_le_bytes());
    old[slots + 2 * 12 + 8..][..4].copy_from_slice(&0u32.to_le_bytes());
    let mut owners = bytes[at..at + 32].to_vec();
    owners[8..12].copy_from_slice(&NONE.to_le_bytes());
    old.extend(owners);
    for lane in (0..8).filter(|lane| *lane != 2) {
        for at_number in 0..packed_len(4) {
            old.extend(&bytes[at + 32 + 8 * (8 * at_number + lane)..][..8]);
        }
    }
    old.extend(&bytes[at + block..]);
    let loaded = ledger.load(&mut old.as_slice(), "test").unwrap();
    assert_eq!((loaded.answered(), loaded.owners.len(), loaded.blocks.len()), (18, 18, 3));
    for user in (0..19).filter(|user| *user != 2) {
        assert_eq!(packed(&loaded, user), packed(&ledger, user));
    }
    let again = loaded.load(&mut save(&loaded).as_slice(), "test").unwrap();
    assert_eq!(save(&again), save(&loaded));
}

#[test]
fn few_rewards_take_little_more_than_their_numbers() {
    let (dim, users, rewards) = (64, 20_000, 10);
    let mut ledger = Ledger::new(dim, 1.0);
    let mut next = noise(1);
    for _ in 0..rewards {
        for user in 0..users {
            let x: Vec<f64> = (0..dim).map(|_| next()).collect();
            ledger.learn_one(user * 1_000_000_007 % (1 << 40), &x, next());
        }
    }
    let numbers = (users * rewards * (dim + 1) * 8) as f64;
    let share = ledger.memory_bytes() as f64 / numbers;
    assert!(share < 1.03, "{share} times the numbers in memory");
    let share = save(&ledger).len() as f64 / numbers;
    assert!(share < 1.01, "{share} times the numbers in a snapshot");
    let mut sparse = Ledger::new(dim, 1.0);
    sparse.learn_one(usize::MAX, &vec![0.5; dim], 1.0);
    assert!(sparse.memory_bytes() < 4000, "{}", sparse.memory_bytes());
    assert_eq!((sparse.answered(), sparse.rewards_of(usize::MAX)), (1, 1.0));
}

/// What versions before this one wrote: sums of (x, y, 1) of all users, eight at a time.
fn old_bytes(memory: f64, users: usize, turns: &[(usize, &[f64], f64)]) -> Vec<u8> {
    let dim = turns[0].1.len();
    let len = packed_len(dim + 2);
    let mut sums = vec![vec![0.0; len]; users.next_multiple_of(LANES)];
    for (user, x, y) in turns {
        let z: Vec<f64> = x.iter().copied().chain([*y, 1.0]).collect();
        let pairs = (0..dim + 2).flat_map(|i| (0..=i).map(move |k| (i, k)));
        for (sum, (i, k)) in sums[*user].iter_mut().zip(pairs) {
            *sum = memory * *sum + z[i] * z[k];
        }
    }
    let mut out = Vec::new();
    crate::saved::write_count(&mut out, dim).unwrap();
    crate::saved::write_numbers(&mut out, &[memory, turns.len() as f64]).unwrap();
    crate::saved::write_count(&mut out, users).unwrap();
    for block in sums.chunks(LANES) {
        for at in 0..len {
            let lanes: Vec<f64> = block.iter().map(|sums| sums[at]).collect();
            crate::saved::write_numbers(&mut out, &lanes).unwrap();
        }
    }
    out
}

#[test]
fn sums_of_the_layout_before_come_over_and_go_on() {
    let values = [0.5, -0.2, 0.1, 0.3, 0.9, -0.4];
    let contexts = Contexts::new(&values, 2).unwrap();
    let mut new = Ledger::new(2, memory_of(Some(9.0)));
    // The first reward is 0: both count from there.
    let turns: Vec<(usize, &[f64], f64)> =
        (0..30).map(|t| (t * t % 13, contexts.arm(t % 3), t as f64 * 0.3)).collect();
    turns.iter().for_each(|(user, x, y)| new.learn_one(*user, x, *y));
    let bytes = old_bytes(new.memory(), 13, &turns);
    let mut loaded = new.load_old(&mut bytes.as_slice(), "test").unwrap();
    assert_eq!((loaded.rewards(), loaded.answered()), (30.0, new.answered()));
    assert!(loaded.answered() < 13, "some have no rewards");
    for t in 0..5 {
        for user in 0..13 {
            assert_eq!(packed(&loaded, user), packed(&new, user));
            assert_eq!(loaded.rewards_of(user), new.rewards_of(user));
        }
        loaded.learn_one(t, contexts.arm(t % 3), 2.0);
        new.learn_one(t, contexts.arm(t % 3), 2.0);
    }
    let other = Ledger::new(3, memory_of(Some(9.0))).load_old(&mut bytes.as_slice(), "test");
    assert!(other.unwrap_err().to_string().contains("dimension 2"));
}

/// What happens to a ledger.
#[derive(Clone, Debug)]
enum Event {
    One(usize, Vec<f64>),
    Round(usize, Vec<f64>),
    Remove(usize),
    Rename(usize, usize),
    Memory(f64),
    Scale(f64),
    Reload,
}

const DIM: usize = 4;

fn event() -> impl Strategy<Value = Event> {
    let user = prop_oneof![0usize..12, Just(1 << 40), Just(usize::MAX)];
    let row = || prop::collection::vec(-1.0..1.0f64, DIM + 1);
    prop_oneof![
        20 => (user.clone(), row()).prop_map(|(user, row)| Event::One(user, row)),
        6 => (0usize..11, row()).prop_map(|(users, row)| Event::Round(users, row)),
        2 => user.clone().prop_map(Event::Remove),
        1 => (user, (1usize << 50)..(1 << 50) + 3).prop_map(|(user, name)| Event::Rename(user, name)),
        1 => (0.5..1.0f64).prop_map(Event::Memory),
        1 => Just(Event::Memory(1.0)),
        1 => (0.5..1.0f64).prop_map(Event::Scale),
        1 => Just(Event::Reload),
    ]
}

/// One reward for each of the given number of users.
fn rewards(users: usize, row: &[f64]) -> Vec<f64> {
    (0..users).map(|user| user as f64 * row[DIM]).collect()
}

fn apply(event: &Event, ledger: &mut Ledger) {
    match event {
        Event::One(user, row) => ledger.learn_one(*user, &row[..DIM], row[DIM]),
        Event::Round(users, row) => {
            let contexts = Contexts::new(&row[..DIM], DIM).unwrap();
            ledger.learn(&contexts, &vec![0; *users], &rewards(*users, row));
        }
        Event::Remove(user) => ledger.remove(*user),
        Event::Rename(user, name) => ledger.rename(*user, *name),
        Event::Memory(memory) => ledger.set_memory(*memory),
        Event::Scale(factor) => ledger.scale(*factor),
        Event::Reload => {}
    }
}

/// The rewards of every user one by one, with weights.
#[derive(Default)]
struct Plain {
    memory: f64,
    origin: Option<f64>,
    users: std::collections::BTreeMap<usize, Vec<(Vec<f64>, f64, f64)>>,
}

impl Plain {
    fn learn(&mut self, user: usize, x: &[f64], y: f64) {
        let y = y - *self.origin.get_or_insert(y);
        let rows = self.users.entry(user).or_default();
        rows.iter_mut().for_each(|row| row.2 *= self.memory);
        rows.push((x.to_vec(), y, 1.0));
    }

    fn apply(&mut self, event: &Event) {
        match event {
            Event::One(user, row) => self.learn(*user, &row[..DIM], row[DIM]),
            Event::Round(users, row) => {
                for (user, reward) in rewards(*users, row).iter().enumerate() {
                    self.learn(user, &row[..DIM], *reward);
                }
            }
            Event::Remove(user) => drop(self.users.remove(user)),
            Event::Rename(user, name) => {
                self.users.remove(name);
                if let Some(rows) = self.users.remove(user) {
                    self.users.insert(*name, rows);
                }
            }
            Event::Memory(memory) => self.memory = *memory,
            Event::Scale(factor) => {
                self.users.values_mut().flatten().for_each(|row| row.2 *= factor);
            }
            Event::Reload => {}
        }
    }
}

fn close(a: &[f64], b: &[f64]) -> bool {
    a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-9 * (1.0 + b.abs()))
}

proptest! {
    #[test]
    fn whatever_happens_statistics_are_those_of_the_rewards(
        memory in prop_oneof![Just(1.0), 0.5..1.0f64],
        events in prop::collection::vec(event(), 1..120),
    ) {
        let mut ledger = Ledger::new(DIM, memory);
        // The same without ever being saved and loaded.
        let mut twin = ledger.clone();
        let mut users = Plain { memory, ..Plain::default() };
        for event in &events {
            apply(event, &mut ledger);
            apply(event, &mut twin);
            users.apply(event);
            match event {
                Event::Remove(user) => prop_assert_eq!(ledger.slot_of(*user), None),
                Event::Reload => ledger = ledger.load(&mut save(&ledger).as_slice(), "test").unwrap(),
                _ => {}
            }
        }
        prop_assert_eq!(save(&ledger), save(&twin));
        for (user, rows) in &users.users {
            let count: f64 = rows.iter().map(|row| row.2).sum();
            prop_assert!((ledger.rewards_of(*user) - count).abs() < 1e-9);
        }
        ledger.settle();
        prop_assert_eq!(ledger.answered(), users.users.len());
        let mut seen = 0;
        let (walk, mut scratch) = (ledger.walk(), Vec::new());
        for at in 0..walk.blocks() {
            let block = walk.block(at, &mut scratch);
            for lane in 0..LANES {
                let numbers: Vec<f64> = block.numbers.iter().map(|sums| sums[lane]).collect();
                let Some(slot) = block.slots[lane] else {
                    prop_assert!(numbers.iter().all(|number| *number == 0.0));
                    continue;
                };
                let user = ledger.user_of(slot as usize);
                prop_assert_eq!(ledger.slot_of(user), Some(slot as usize));
                prop_assert_eq!(&numbers, &packed(&ledger, user));
                prop_assert!(close(&numbers, &plain(&users.users[&user], DIM)));
                prop_assert!((ledger.count(slot as usize) - block.count()[lane]).abs() < 1e-9);
                seen += 1;
            }
        }
        prop_assert_eq!(seen, users.users.len());
        // Rows are the rewards, in order of arrival.
        for (user, rows) in &users.users {
            if let Some(found) = ledger.rows(ledger.slot_of(*user).unwrap()) {
                prop_assert_eq!(found.len(), rows.len());
                prop_assert!(rows.len() * (DIM + 1) < packed_len(DIM + 2));
                for ((x, y, weight), row) in found.zip(rows) {
                    prop_assert_eq!((x, y), (&row.0[..], row.1));
                    prop_assert!((weight - row.2).abs() < 1e-12);
                }
            }
        }
        // Any eight, in any order.
        let slots: Vec<usize> = users.users.keys().rev().step_by(2).take(LANES)
            .map(|user| ledger.slot_of(*user).unwrap()).collect();
        let mut out = vec![F64x8::splat(1.0); ledger.packed_len()];
        ledger.gather(&slots, &mut out);
        for lane in 0..LANES {
            let numbers: Vec<f64> = out.iter().map(|sums| sums[lane]).collect();
            let user = slots.get(lane).map(|slot| ledger.user_of(*slot));
            let expected = user.map_or(vec![0.0; out.len()], |user| packed(&ledger, user));
            prop_assert_eq!(numbers, expected);
        }
        // Those with most rewards.
        let mut counts: Vec<f64> = ledger.counts().flatten().copied().collect();
        counts.sort_by(|a, b| b.total_cmp(a));
        for most in [1, 3, 100] {
            let last = counts.iter().take(most).rfind(|n| **n > 0.0).copied().unwrap_or(0.0);
            prop_assert!((ledger.count_of_rank(most) - last).abs() <= last / 256.0);
            let from = ledger.count_of_rank(most) * 0.99;
            let those: Vec<f64> = counts.iter().copied().filter(|n| *n >= from && *n > 0.0).collect();
            let mean = those.iter().sum::<f64>() / those.len().max(1) as f64;
            // Decayed counts are known to one part in 256, so who is that close may be on either side.
            if counts.iter().all(|n| (n - from).abs() > from / 128.0) {
                prop_assert!((ledger.mean_count_from(from) - mean).abs() <= mean / 10.0);
            }
        }
    }

    #[test]
    fn bytes_of_any_kind_are_refused_or_taken_never_a_panic(
        events in prop::collection::vec(event(), 1..40),
        places in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut ledger = Ledger::new(DIM, 1.0);
        events.iter().for_each(|event| apply(event, &mut ledger));
        let mut bytes = save(&ledger);
        for (place, byte) in &places {
            let at = place.index(bytes.len());
            bytes[at] ^= byte;
        }
        if let Ok(loaded) = ledger.load(&mut bytes.as_slice(), "test") {
            let _ = save(&loaded);
            let walk = loaded.walk();
            for at in 0..walk.blocks() {
                walk.block(at, &mut Vec::new());
            }
        }
        let _ = ledger.load_old(&mut bytes.as_slice(), "test");
    }
}
