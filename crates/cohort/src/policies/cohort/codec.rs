//! The codec of populations and beliefs: each layout is written once, for writing and for reading.

use std::collections::VecDeque;
use std::io::{self, Read, Write};

use super::INFO;
use super::drift::Watch;
use crate::Error;
use crate::algebra::packed_len;
use crate::linear::Symmetric;
use crate::population::{
    Basis, Belief, ClassBelief, Component, ComponentPosterior, HeldOutComparison, Member, Panel,
    Population, Recurrence,
};
use crate::saved::{
    check_equal, read_bound, read_count, read_numbers, write_bound, write_count, write_numbers,
};

/// A reader or a writer of numbers.
pub(super) trait Codec {
    /// What can go wrong.
    type Error;

    /// Numbers that are finite.
    fn numbers(&mut self, numbers: &mut [f64]) -> Result<(), Self::Error>;

    /// A number that may be infinite.
    fn bound(&mut self, bound: &mut f64) -> Result<(), Self::Error>;

    /// A count.
    fn count(&mut self, count: &mut usize) -> Result<(), Self::Error>;

    /// A list; a reader makes its items one by one, since a count may be wrong and must not
    /// allocate.
    fn list<T>(
        &mut self,
        list: &mut Vec<T>,
        new: impl Fn() -> T,
        mut item: impl FnMut(&mut Self, &mut T) -> Result<(), Self::Error>,
    ) -> Result<(), Self::Error> {
        let mut count = list.len();
        self.count(&mut count)?;
        for at in 0..count {
            if at == list.len() {
                list.push(new());
            }
            item(self, &mut list[at])?;
        }
        Ok(())
    }
}

/// Writes numbers.
pub(super) struct Writer<'a>(pub &'a mut dyn Write);

impl Codec for Writer<'_> {
    type Error = io::Error;

    fn numbers(&mut self, numbers: &mut [f64]) -> io::Result<()> {
        write_numbers(self.0, numbers)
    }

    fn bound(&mut self, bound: &mut f64) -> io::Result<()> {
        write_bound(self.0, *bound)
    }

    fn count(&mut self, count: &mut usize) -> io::Result<()> {
        write_count(self.0, *count)
    }
}

/// Reads numbers.
pub(super) struct Reader<'a>(pub &'a mut dyn Read);

impl Codec for Reader<'_> {
    type Error = Error;

    fn numbers(&mut self, numbers: &mut [f64]) -> Result<(), Error> {
        read_numbers(self.0, INFO.name, numbers)
    }

    fn bound(&mut self, bound: &mut f64) -> Result<(), Error> {
        *bound = read_bound(self.0, INFO.name)?;
        Ok(())
    }

    fn count(&mut self, count: &mut usize) -> Result<(), Error> {
        *count = read_count(self.0, INFO.name)?;
        Ok(())
    }
}

/// The single numbers of a population. New ones go to the end: files that lack them leave them as
/// they are in [`no_population`].
fn scalars(population: &mut Population) -> Vec<&mut f64> {
    vec![
        &mut population.noise,
        &mut population.noise_dof,
        &mut population.origin,
        &mut population.mean_prior_variance,
        &mut population.evidence,
        &mut population.certainty,
        &mut population.tried,
        &mut population.directions_tried,
        &mut population.noise_tried,
        &mut population.searched,
        &mut population.used,
    ]
}

/// All of a population.
pub(super) fn population<L: Codec>(to: &mut L, all: &mut Population) -> Result<(), L::Error> {
    let dim = all.features();
    let mut scalars = scalars(all);
    let mut count = scalars.len();
    to.count(&mut count)?;
    for scalar in scalars.iter_mut().take(count) {
        to.bound(scalar)?;
    }
    for _ in scalars.len()..count {
        // Fields of a later version.
        to.bound(&mut 0.0)?;
    }
    for variances in &mut all.variances {
        to.numbers(variances)?;
    }
    to.count(&mut all.directions)?;
    let mut rotated = usize::from(all.basis.is_some());
    to.count(&mut rotated)?;
    if rotated != 0 {
        let mut rows = all.basis.take().map_or_else(|| vec![0.0; dim * dim], Basis::into_rows);
        to.numbers(&mut rows)?;
        all.basis = Some(Basis::new(rows, dim));
    }
    to.list(
        &mut all.components,
        || no_component(dim),
        |to, component| {
            to.numbers(std::slice::from_mut(&mut component.weight))?;
            to.numbers(&mut component.mean)?;
            to.numbers(component.doubt.packed_mut())
        },
    )
}

/// The comparison of two populations.
pub(super) fn verdict<L: Codec>(to: &mut L, all: &mut HeldOutComparison) -> Result<(), L::Error> {
    let mut against = usize::from(all.against);
    to.numbers(std::slice::from_mut(&mut all.gain))?;
    to.numbers(std::slice::from_mut(&mut all.variance))?;
    to.count(&mut against)?;
    all.against = against != 0;
    Ok(())
}

/// How often arms recur.
pub(super) fn recurrence<L: Codec>(to: &mut L, all: &mut Recurrence) -> Result<(), L::Error> {
    to.numbers(std::slice::from_mut(&mut all.pairs))?;
    to.numbers(std::slice::from_mut(&mut all.same))
}

/// The state of drift detection.
pub(super) fn watch<L: Codec>(to: &mut L, all: &mut Watch) -> Result<(), L::Error> {
    to.numbers(std::slice::from_mut(&mut all.next))?;
    to.count(&mut all.restarts)
}

/// All of a panel's users.
fn members<L: Codec>(to: &mut L, all: &mut Vec<Member>, dim: usize) -> Result<(), L::Error> {
    let nobody =
        || Member { user: 0, before: vec![0.0; packed_len(dim + 2)], since: VecDeque::new() };
    to.list(all, nobody, |to, one| {
        to.count(&mut one.user)?;
        to.numbers(&mut one.before)?;
        let mut since = Vec::from(std::mem::take(&mut one.since));
        to.list(&mut since, || 0.0, |to, number| to.numbers(std::slice::from_mut(number)))?;
        one.since = since.into();
        Ok(())
    })
}

/// Writes a panel, or that there is none.
pub(super) fn write_panel(out: &mut dyn Write, of: Option<&Panel>) -> io::Result<()> {
    write_count(out, of.iter().len())?;
    let Some(panel) = of else { return Ok(()) };
    members(&mut Writer(out), &mut panel.members().to_vec(), panel.dim())
}

/// Reads a panel of users in R^d.
pub(super) fn read_panel(from: &mut dyn Read, dim: usize) -> Result<Option<Panel>, Error> {
    if read_count(from, INFO.name)? == 0 {
        return Ok(None);
    }
    let mut all = Vec::new();
    members(&mut Reader(from), &mut all, dim)?;
    let whole = all.iter().all(|one| one.since.len().is_multiple_of(dim + 2));
    check_equal(INFO.name, "whole rewards of a panel", whole, true)?;
    Ok(Some(Panel::of(dim, all)))
}

/// An empty population, to be read into.
pub(super) fn no_population(dim: usize) -> Population {
    Population {
        components: vec![no_component(dim)],
        basis: None,
        directions: 0,
        variances: [vec![0.0; dim + 1], vec![0.0; dim + 1]],
        noise: 1.0,
        noise_dof: f64::INFINITY,
        origin: 0.0,
        mean_prior_variance: 0.0,
        evidence: 0.0,
        certainty: 1.0,
        tried: 0.0,
        searched: 0.0,
        directions_tried: 0.0,
        noise_tried: 0.0,
        used: 0.0,
    }
}

fn no_component(dim: usize) -> Component {
    Component { weight: 0.0, mean: vec![0.0; dim + 1], doubt: Symmetric::zero(dim + 1) }
}

/// Whether the numbers are those of a valid population.
pub(super) fn is_sound(population: &Population) -> bool {
    let Population { components, variances, noise, noise_dof, mean_prior_variance, .. } =
        population;
    let finite = [population.origin, population.evidence, *noise, *mean_prior_variance];
    finite.iter().all(|number| number.is_finite())
        && (*noise > 0.0 && *noise_dof > 0.0 && *mean_prior_variance >= 0.0)
        && [population.certainty, population.tried, population.directions_tried, population.used]
            .iter()
            .all(|number| *number >= 0.0)
        && population.directions <= population.features()
        && components.iter().all(|component| component.weight > 0.0)
        && variances.iter().flatten().all(|variance| *variance >= 0.0)
}

fn guess<L: Codec>(to: &mut L, guess: &mut ComponentPosterior) -> Result<(), L::Error> {
    to.count(&mut guess.component)?;
    to.numbers(std::slice::from_mut(&mut guess.share))?;
    to.numbers(&mut guess.mean)
}

/// A belief; an empty one stands for none.
fn belief<L: Codec>(to: &mut L, belief: &mut Belief, dim: usize) -> Result<(), L::Error> {
    let no_guess = || ComponentPosterior { component: 0, share: 0.0, mean: vec![0.0; dim + 1] };
    let no_class = || ClassBelief { covariance: Symmetric::zero(dim + 1), guesses: Vec::new() };
    to.numbers(std::slice::from_mut(&mut belief.noise))?;
    to.list(&mut belief.classes, no_class, |to, class| {
        to.list(&mut class.guesses, no_guess, guess)?;
        to.numbers(class.covariance.packed_mut())
    })
}

/// Writes a belief, or that there is none.
pub(super) fn write_belief(out: &mut dyn Write, of: Option<&Belief>) -> io::Result<()> {
    let mut of = of.cloned().unwrap_or(Belief { classes: Vec::new(), noise: 1.0 });
    let dim = of.classes.first().map_or(0, |class| class.covariance.dim() - 1);
    belief(&mut Writer(out), &mut of, dim)
}

/// Reads a belief in R^d about a user of a population with the given number of components.
pub(super) fn read_belief(
    from: &mut dyn Read,
    dim: usize,
    components: usize,
) -> Result<Option<Belief>, Error> {
    let mut found = Belief { classes: Vec::new(), noise: 1.0 };
    belief(&mut Reader(from), &mut found, dim)?;
    check_equal(INFO.name, "noise that is positive", found.noise > 0.0, true)?;
    if found.classes.is_empty() {
        return Ok(None);
    }
    let some = found.classes.iter().all(|class| !class.guesses.is_empty());
    let known = found.guesses().all(|guess| guess.component < components);
    check_equal(INFO.name, "components there are", some && known, true)?;
    debug_assert!(found.classes.iter().all(|c| c.covariance.packed().len() == packed_len(dim + 1)));
    Ok(Some(found))
}
