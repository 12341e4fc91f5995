//! Serialisation of learned state: the building blocks of [`Saved::save`] and [`Saved::load`].
//!
//! Everything is little-endian, and every number is restored to the same bits. A state begins with
//! the version of its layout; sizes and constants that the numbers rest on follow and are compared
//! when it is read. Checksums are left to the caller: checked here is that the state fits the
//! policy and that every number in it is finite.

use std::io::{self, Read, Write};

use crate::cluster::partition::number_by_smallest_member;
use crate::linear::Bank;
use crate::{Error, Frozen, Saved, Shared};

/// Learned state with a name and a version: the codec of a policy, from which its [`Saved`]
/// follows. Bytes of another version are refused by name before the rest is read.
pub trait State: Clone + Send + 'static {
    /// The name of the policy, for error messages.
    const NAME: &'static str;
    /// The version of the layout that [`State::write_state`] writes.
    const VERSION: u32;

    /// Writes the learned state; what follows from the problem and the parameters is not written.
    fn write_state(&self, out: &mut dyn Write) -> io::Result<()>;

    /// Restores what [`State::write_state`] wrote, checking every size and number it relies on.
    fn read_state(&mut self, from: &mut dyn Read) -> Result<(), Error>;

    /// Takes over what another of its kind, with other parameters, has learned: the same as its bytes
    /// would bring, and the same is refused. By its bytes, unless a policy knows a shorter way.
    fn adopt(&mut self, other: Self) -> Result<(), Error> {
        let mut bytes = Vec::new();
        other.write_state(&mut bytes).map_err(|why| unwritable(Self::NAME, &why))?;
        self.read_state(&mut bytes.as_slice())
    }
}

impl<T: State> Saved for T {
    fn save(&self, out: &mut dyn Write) -> io::Result<()> {
        write_header(out, T::VERSION)?;
        self.write_state(out)
    }

    fn load(&mut self, from: &mut dyn Read) -> Result<(), Error> {
        read_header(from, T::NAME, T::VERSION)?;
        self.read_state(from)
    }

    fn freeze(&self) -> io::Result<Frozen> {
        let copy = self.clone();
        Ok(Box::new(move |out| copy.save(out)))
    }

    fn share(&self) -> io::Result<Shared> {
        Ok(Box::new(self.clone()))
    }

    fn take_over(&mut self, shared: Shared) -> Result<(), Error> {
        let other = shared.downcast::<T>().map_err(|_| not_alike(T::NAME))?;
        self.adopt(*other)
    }
}

/// What was learned cannot be written.
fn unwritable(what: &'static str, why: &io::Error) -> Error {
    let expected = "what can be written".to_owned();
    Error::Saved { what, found: why.to_string(), expected }
}

/// The error for state that comes from another kind of policy.
pub fn not_alike(what: &'static str) -> Error {
    let (found, expected) = ("what another kind of policy learned", "a policy of the same kind");
    Error::Saved { what, found: found.to_owned(), expected: expected.to_owned() }
}

/// Writes the version of the layout that follows.
pub fn write_header(out: &mut dyn Write, version: u32) -> io::Result<()> {
    out.write_all(&version.to_le_bytes())
}

/// Reads the version and refuses any other than `version`.
pub fn read_header(from: &mut dyn Read, what: &'static str, version: u32) -> Result<(), Error> {
    let found = u32::from_le_bytes(read_array(from, what)?);
    check_equal(what, "layout version", found, version)
}

/// Writes a count.
pub fn write_count(out: &mut dyn Write, count: usize) -> io::Result<()> {
    out.write_all(&(count as u64).to_le_bytes())
}

/// Reads a count. It is not validated: never allocate by it, read item by item.
pub fn read_count(from: &mut dyn Read, what: &'static str) -> Result<usize, Error> {
    let count = u64::from_le_bytes(read_array(from, what)?);
    usize::try_from(count).map_err(|_| Error::Saved {
        what,
        found: format!("a count of {count}"),
        expected: "a count that fits this machine".to_owned(),
    })
}

/// Writes numbers; refuses any that is not finite, since it could not be read back.
pub fn write_numbers(out: &mut dyn Write, numbers: &[f64]) -> io::Result<()> {
    if numbers.iter().fold(false, |odd, number| odd | !number.is_finite()) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a number is not finite"));
    }
    let mut bytes = [0; 8 * 64];
    for numbers in numbers.chunks(64) {
        for (bytes, number) in bytes.chunks_exact_mut(8).zip(numbers) {
            bytes.copy_from_slice(&number.to_le_bytes());
        }
        out.write_all(&bytes[..8 * numbers.len()])?;
    }
    Ok(())
}

/// Fills `numbers`; refuses any that is not finite.
pub fn read_numbers(
    from: &mut dyn Read,
    what: &'static str,
    numbers: &mut [f64],
) -> Result<(), Error> {
    let mut bytes = [0; 8 * 64];
    for numbers in numbers.chunks_mut(64) {
        let bytes = &mut bytes[..8 * numbers.len()];
        from.read_exact(bytes).map_err(|why| too_short(what, &why))?;
        for (number, bytes) in numbers.iter_mut().zip(bytes.as_chunks().0) {
            *number = f64::from_le_bytes(*bytes);
        }
        // All at once, as vector code; the index is searched for only if one is not finite.
        if numbers.iter().fold(false, |odd, number| odd | !number.is_finite())
            && let Some(at) = numbers.iter().position(|number| !number.is_finite())
        {
            let place = format!("number {at}");
            return Err(Error::NotFinite { what, place, found: numbers[at] });
        }
    }
    Ok(())
}

/// Reads exactly N bytes.
pub fn read_array<const N: usize>(
    from: &mut dyn Read,
    what: &'static str,
) -> Result<[u8; N], Error> {
    let mut bytes = [0; N];
    from.read_exact(&mut bytes).map_err(|why| too_short(what, &why))?;
    Ok(bytes)
}

/// Writes a number that may be infinite.
pub fn write_bound(out: &mut dyn Write, bound: f64) -> io::Result<()> {
    out.write_all(&bound.to_le_bytes())
}

/// Reads a number that may be infinite, but not NaN.
pub fn read_bound(from: &mut dyn Read, what: &'static str) -> Result<f64, Error> {
    let bound = f64::from_le_bytes(read_array(from, what)?);
    if bound.is_nan() {
        Err(Error::NotFinite { what, place: "a bound".to_owned(), found: bound })
    } else {
        Ok(bound)
    }
}

/// Writes a list of indices.
pub fn write_places(
    out: &mut dyn Write,
    places: impl ExactSizeIterator<Item = usize>,
) -> io::Result<()> {
    write_count(out, places.len())?;
    places.into_iter().try_for_each(|place| out.write_all(&(place as u32).to_le_bytes()))
}

/// Reads a list of indices, all of them below a bound.
pub fn read_places(
    from: &mut dyn Read,
    what: &'static str,
    below: usize,
) -> Result<Vec<usize>, Error> {
    let mut places = Vec::new();
    for _ in 0..read_count(from, what)? {
        let place = u32::from_le_bytes(read_array(from, what)?) as usize;
        if place >= below {
            let (found, expected) = (format!("place {place}"), format!("places below {below}"));
            return Err(Error::Saved { what, found, expected });
        }
        places.push(place);
    }
    Ok(places)
}

/// Writes every learner of a bank, with the sizes and the regulariser it rests on.
pub fn write_bank(out: &mut dyn Write, bank: &Bank, lambda: f64) -> io::Result<()> {
    write_count(out, bank.dim())?;
    write_numbers(out, &[lambda])?;
    write_count(out, bank.learners())?;
    let mut numbers = Vec::with_capacity(bank.numbers_per_learner());
    for learner in 0..bank.learners() {
        numbers.clear();
        bank.export_one(learner, &mut numbers);
        write_numbers(out, &numbers)?;
    }
    Ok(())
}

/// Reads a bank of the given dimension and regulariser.
pub fn read_bank(
    from: &mut dyn Read,
    what: &'static str,
    dim: usize,
    lambda: f64,
) -> Result<Bank, Error> {
    check_equal(what, "dimension", read_count(from, what)?, dim)?;
    let mut found = [0.0];
    read_numbers(from, what, &mut found)?;
    check_equal(what, "lambda", found[0], lambda)?;
    let learners = read_count(from, what)?;
    let mut bank = Bank::new(0, dim, lambda);
    let mut numbers = vec![0.0; bank.numbers_per_learner()];
    for learner in 0..learners {
        read_numbers(from, what, &mut numbers)?;
        bank.grow(learner + 1);
        bank.import_one(learner, &numbers);
    }
    Ok(bank)
}

/// Reads a bank of exactly the given number of learners.
pub fn read_whole_bank(
    from: &mut dyn Read,
    what: &'static str,
    dim: usize,
    lambda: f64,
    learners: usize,
) -> Result<Bank, Error> {
    let bank = read_bank(from, what, dim, lambda)?;
    check_equal(what, "learners", bank.learners(), learners)?;
    Ok(bank)
}

/// Writes the cluster of every user.
pub fn write_labels(out: &mut dyn Write, labels: &[usize]) -> io::Result<()> {
    write_counts(out, labels)
}

/// Reads the clusters of the given number of users, numbered by smallest member.
pub fn read_labels(
    from: &mut dyn Read,
    what: &'static str,
    users: usize,
) -> Result<Vec<usize>, Error> {
    let mut labels = read_counts(from, what)?;
    check_equal(what, "users", labels.len(), users)?;
    if let Some(label) = labels.iter().find(|label| **label >= users) {
        let (found, expected) = (format!("cluster {label}"), format!("one of {users}"));
        return Err(Error::Saved { what, found, expected });
    }
    number_by_smallest_member(&mut labels);
    Ok(labels)
}

/// Writes a list of counts.
pub fn write_counts(out: &mut dyn Write, counts: &[usize]) -> io::Result<()> {
    write_count(out, counts.len())?;
    counts.iter().try_for_each(|count| write_count(out, *count))
}

/// Reads a list of counts.
pub fn read_counts(from: &mut dyn Read, what: &'static str) -> Result<Vec<usize>, Error> {
    let mut counts = Vec::new();
    for _ in 0..read_count(from, what)? {
        counts.push(read_count(from, what)?);
    }
    Ok(counts)
}

/// Reads `count` numbers, which the caller knows to be few.
pub fn read_some(from: &mut dyn Read, what: &'static str, count: usize) -> Result<Vec<f64>, Error> {
    let mut numbers = vec![0.0; count];
    read_numbers(from, what, &mut numbers)?;
    Ok(numbers)
}

/// Refuses a value other than the one this policy was built for.
pub fn check_equal<T: PartialEq + std::fmt::Display>(
    what: &'static str,
    name: &str,
    found: T,
    expected: T,
) -> Result<(), Error> {
    if found == expected {
        return Ok(());
    }
    let (found, expected) = (format!("{name} {found}"), format!("{name} {expected}"));
    Err(Error::Saved { what, found, expected })
}

fn too_short(what: &'static str, why: &io::Error) -> Error {
    Error::Saved { what, found: why.to_string(), expected: "more bytes".to_owned() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::{Contexts, Error, Policy, Problem, Saved, Score, Truth, registry};

    fn build(name: &str, dim: usize) -> Box<dyn Policy> {
        registry::build(name, &Problem::new(0, dim), []).unwrap()
    }

    fn saved(policy: &mut dyn Policy) -> &mut dyn Saved {
        policy.saved().unwrap()
    }

    fn save(policy: &mut dyn Policy) -> Vec<u8> {
        let mut bytes = Vec::new();
        saved(policy).save(&mut bytes).unwrap();
        bytes
    }

    /// A policy for eight users and ninety rounds; `None` where it cannot be saved.
    fn for_rounds(name: &str) -> Option<Box<dyn Policy>> {
        let truth = Truth::new(&[0.25; 24], &[0, 1, 0, 1, 2, 2, 0, 1]);
        let problem = Problem { rounds: Some(90), truth: Some(truth), ..Problem::new(8, 3) };
        let mut policy = registry::build(name, &problem, []).unwrap();
        policy.saved().is_some().then_some(policy)
    }

    /// Copies the learned state of one policy to another: as bytes, or in memory.
    fn hand_over(from: &mut dyn Policy, to: &mut dyn Policy, as_bytes: bool) {
        let (from, to) = (from.saved().unwrap(), to.saved().unwrap());
        if as_bytes {
            let mut bytes = Vec::new();
            from.save(&mut bytes).unwrap();
            to.load(&mut bytes.as_slice()).unwrap();
        } else {
            to.take_over(from.share().unwrap()).unwrap();
        }
    }

    /// Every policy with an online form that can be saved.
    fn with_saved() -> impl Iterator<Item = &'static str> {
        with_online().filter(|name| build(name, 3).saved().is_some())
    }

    /// Every policy with an online form.
    fn with_online() -> impl Iterator<Item = &'static str> {
        let is_online = |info: &&registry::PolicyInfo| {
            (info.check([]).and_then(|settings| info.make(&Problem::new(0, 3), &settings)))
                .is_ok_and(|mut policy| policy.online().is_some())
        };
        registry::POLICIES.iter().filter(is_online).map(|info| info.name)
    }

    proptest! {
        // Ninety rounds of every policy: a few cases are enough.
        #![proptest_config(ProptestConfig::with_cases(12))]
        #[test]
        fn in_rounds_too_a_loaded_policy_goes_on_bit_by_bit(
            rounds in prop::collection::vec(prop::collection::vec(-1.0..1.0f64, 12 + 8), 90),
            cut in 0usize..90,
        ) {
            for info in registry::POLICIES {
                let Some(mut before) = for_rounds(info.name) else { continue };
                // A policy that has learned something else takes over the bytes, too.
                let mut after = for_rounds(info.name).unwrap();
                for (at, numbers) in rounds.iter().enumerate() {
                    let (values, rewards) = numbers.split_at(12);
                    if at == cut {
                        hand_over(&mut *before, &mut *after, cut % 2 == 0);
                    }
                    let contexts = Contexts::new(values, 3).unwrap();
                    let mut arms = [[0; 8]; 2];
                    before.choose(&contexts, &mut arms[0]);
                    after.choose(&contexts, &mut arms[1]);
                    prop_assert!(at < cut || arms[0] == arms[1], "{}, round {at}", info.name);
                    before.learn(&contexts, &arms[0], rewards);
                    let other: Vec<f64> = rewards.iter().map(|reward| -reward).collect();
                    after.learn(&contexts, &arms[1], if at < cut { &other } else { rewards });
                }
                prop_assert_eq!(before.clusters(), after.clusters(), "{}", info.name);
            }
        }
    }

    proptest! {
        #[test]
        fn a_loaded_policy_goes_on_bit_by_bit_where_the_saved_one_was(
            turns in prop::collection::vec((0usize..20, prop::collection::vec(-1.0..1.0f64, 6), -1.0..1.0f64), 1..80),
            cut in 0usize..80,
        ) {
            for name in with_saved() {
                let mut before = build(name, 3);
                let mut after = None;
                for (at, (user, values, reward)) in turns.iter().enumerate() {
                    if at == cut.min(turns.len() - 1) {
                        let mut loaded = build(name, 3);
                        hand_over(&mut *before, &mut *loaded, cut % 2 == 0);
                        after = Some(loaded);
                    }
                    let contexts = Contexts::new(values, 3).unwrap();
                    let mut scored = [[Score::default(); 2]; 2];
                    for (policy, scored) in std::iter::once(&mut before).chain(&mut after).zip(&mut scored) {
                        policy.catch_up();
                        let online = policy.online().unwrap();
                        online.score(*user, &contexts, scored);
                        let arm = online.decide(*user, &contexts);
                        online.learn_one(*user, contexts.arm(arm), *reward);
                    }
                    prop_assert!(after.is_none() || scored[0] == scored[1], "{name} judges differently");
                }
                prop_assert_eq!(save(&mut *before), save(&mut *after.unwrap()), "{}", name);
            }
        }

        #[test]
        fn what_is_judged_best_is_what_is_decided(
            turns in prop::collection::vec((0usize..9, prop::collection::vec(-1.0..1.0f64, 12), -1.0..1.0f64), 1..40),
        ) {
            for name in with_online().filter(|name| *name != "random") {
                let mut policy = build(name, 3);
                for (user, values, reward) in &turns {
                    let contexts = Contexts::new(values, 3).unwrap();
                    let mut scored = [Score::default(); 4];
                    policy.catch_up();
                    let policy = policy.online().unwrap();
                    policy.score(*user, &contexts, &mut scored);
                    let arm = policy.decide(*user, &contexts);
                    let best = scored.iter().map(Score::total).fold(f64::MIN, f64::max);
                    // A policy that samples plays what it draws.
                    let mut chances = [0.0; 4];
                    let drawn = policy.chances(*user, &contexts, 0, &mut chances)
                        && chances.iter().all(|chance| *chance > 0.0);
                    let is_best = scored[arm].total() >= best - 1e-9 * best.abs();
                    prop_assert!(is_best || drawn, "{name}");
                    policy.learn_one(*user, contexts.arm(arm), *reward);
                }
            }
        }

        #[test]
        fn bytes_of_any_kind_are_refused_or_taken_never_a_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            for name in with_saved() {
                // Random bytes after a valid header reach further than random bytes alone.
                let mut policy = build(name, 3);
                let mut plausible = save(&mut *policy);
                plausible.extend(&bytes);
                let _ = saved(&mut *policy).load(&mut bytes.as_slice());
                let _ = saved(&mut *policy).load(&mut plausible.as_slice());
            }
            for info in registry::POLICIES {
                let Some(mut policy) = for_rounds(info.name) else { continue };
                let mut good = Vec::new();
                policy.saved().unwrap().save(&mut good).unwrap();
                for (at, byte) in bytes.iter().enumerate() {
                    let place = at * good.len() / bytes.len();
                    good[place] ^= byte;
                }
                let _ = policy.saved().unwrap().load(&mut good.as_slice());
                let _ = policy.saved().unwrap().load(&mut bytes.as_slice());
            }
        }
    }

    #[test]
    fn a_state_of_another_dimension_or_version_is_refused_by_name() {
        let mut bytes = save(&mut *build("linucb-ind", 3));
        let refused = saved(&mut *build("linucb-ind", 4)).load(&mut bytes.as_slice());
        let sentence = refused.unwrap_err().to_string();
        assert_eq!(sentence, "saved state of linucb-ind: found dimension 3, expected dimension 4");
        bytes[0] = 9;
        let refused = saved(&mut *build("linucb-ind", 3)).load(&mut bytes.as_slice());
        assert!(matches!(refused, Err(Error::Saved { .. })), "{refused:?}");
    }
}
