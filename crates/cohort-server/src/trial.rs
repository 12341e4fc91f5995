//! How can it be known whether the policy helps? A share of decisions is taken uniformly at random
//! (the control group), the log can keep what another policy would need to be judged by it, and
//! features can have names that people understand.

use std::io::{Read, Write};

use crate::bytes::{Malformed, Put, Take};
use crate::event::Decided;
use crate::settings::BadSettings;

/// What an app does to be judged by.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trial {
    /// The share of decisions in the control group.
    pub control: f64,
    /// Whether the features of all candidates are kept in the journal, not only the chosen one's.
    pub log_candidates: bool,
    /// What features are called; empty, or one for each.
    pub feature_names: Vec<String>,
}

impl Trial {
    /// Whether decisions differ from those of an app without.
    pub fn concerns_decisions(&self) -> bool {
        self.control > 0.0 || self.log_candidates
    }

    /// Refuses a share that is none, and names that are not one for each of `dim` features.
    pub fn check(&self, dim: usize) -> Result<(), BadSettings> {
        let names = self.feature_names.len();
        if names != 0 && names != dim {
            return Err(BadSettings::Range {
                name: "feature_names",
                found: names as f64,
                expected: "as many names as features, or none",
            });
        }
        match (0.0..=1.0).contains(&self.control) {
            true => Ok(()),
            false => Err(BadSettings::Range {
                name: "control",
                found: self.control,
                expected: "a share from 0 to 1",
            }),
        }
    }

    /// Writes it.
    pub fn write(&self, out: &mut dyn Write) -> std::io::Result<()> {
        out.put_f64(self.control)?;
        out.put_u8(self.log_candidates.into())?;
        out.put_len(self.feature_names.len())?;
        self.feature_names.iter().try_for_each(|name| out.put_str(name))
    }

    /// Reads it.
    pub fn read(mut from: &mut dyn Read) -> Result<Self, Malformed> {
        let (control, log_candidates) = (from.take_f64()?, from.take_bool()?);
        let mut feature_names = Vec::new();
        for _ in 0..from.take_len()? {
            feature_names.push(from.take_str()?);
        }
        Ok(Self { control, log_candidates, feature_names })
    }
}

/// A decision of an app with a control group, or one whose candidates are kept.
#[derive(Clone, Debug, PartialEq)]
pub struct TrialDecision {
    /// The decision.
    pub made: Decided,
    /// Whether it is of the control group.
    pub control: bool,
    /// The features of all candidates in the order of the ranking; empty if they are not kept.
    pub candidates: Box<[f64]>,
}

impl TrialDecision {
    /// Writes it.
    pub fn write(&self, out: &mut dyn Write) -> std::io::Result<()> {
        self.made.write(out)?;
        out.put_u8(self.control.into())?;
        out.put_numbers(&self.candidates)
    }

    /// Reads it.
    pub fn read(mut from: &mut dyn Read) -> Result<Self, Malformed> {
        Ok(Self {
            made: Decided::read(from)?,
            control: from.take_bool()?,
            candidates: from.take_numbers()?.into(),
        })
    }
}
