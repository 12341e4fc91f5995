//! One regression per user, or one for all: the model of `lints` and `squarecb`.

use std::io::{self, Read, Write};
use std::ops::Bound;

use super::served::{read_ridges, write_ridges};
use crate::linear::Ridge;
use crate::params::{Kind, Param, Settings};
use crate::saved::check_equal;
use crate::shared_list::SharedList;
use crate::{Error, Problem};

/// The parameters of [`Regressions`].
pub(crate) const REGRESSION_PARAMS: &[Param] = &[
    Param::real(
        "lambda",
        Kind::Real(Bound::Included(1e-6), Bound::Included(1e12)),
        1.0,
        "λ, the regulariser: M = λI + Σxxᵀ",
    ),
    Param::choice("model", &["own", "common"], "a regression for each user, or one for all"),
];

/// The regressions.
#[derive(Clone)]
pub(crate) struct Regressions {
    pub(crate) dim: usize,
    common: bool,
    /// Shared with copies until one of them learns.
    pub(crate) learners: SharedList<Ridge>,
    /// A fresh one, for unknown users.
    fresh: Ridge,
}

impl Regressions {
    pub(crate) fn new(problem: &Problem, settings: &Settings) -> Self {
        let fresh = Ridge::new(problem.dim, settings.real("lambda"));
        let common = settings.choice("model") == "common";
        Self { dim: problem.dim, common, learners: SharedList::default(), fresh }
    }

    fn place(&self, user: usize) -> usize {
        if self.common { 0 } else { user }
    }

    /// The regression of a user.
    pub(crate) fn learner(&self, user: usize) -> &Ridge {
        self.learners.get(self.place(user)).unwrap_or(&self.fresh)
    }

    pub(crate) fn learn(&mut self, user: usize, x: &[f64], y: f64) {
        let place = self.place(user);
        self.learners.get_or_grow(place, &self.fresh).learn(x, y);
    }

    pub(crate) fn save(&self, out: &mut dyn Write) -> io::Result<()> {
        write_ridges(out, self.dim, &self.learners)
    }

    pub(crate) fn load(&mut self, from: &mut dyn Read, what: &'static str) -> Result<(), Error> {
        self.learners = read_ridges(from, what, self.dim)?;
        Ok(())
    }

    pub(crate) fn adopt(&mut self, other: Self, what: &'static str) -> Result<(), Error> {
        check_equal(what, "dimension", other.dim, self.dim)?;
        self.learners = other.learners;
        Ok(())
    }
}
