//! `pmlb-compensated`: PMLB that adds ⟨β, θ̂*⟩ back when choosing, so that each user plays the arm
//! that is best for θ_i and not for θ_i − θ̂*.
//!
//! ```text
//! 11' each user plays argmax_β ⟨β, θ̂*⟩ + max_{θ ∈ C_i} ⟨β, θ⟩
//! ```
//!
//! with C_i the confidence set of its ALB-Norm. Everything else is [`super::pmlb`], its constants
//! included.

use super::pmlb::Pmlb;
use crate::builder::builder;
use crate::linear::OFUL_PARAMS;
use crate::params::Settings;
use crate::registry::PolicyInfo;
use crate::{Error, Policy, Problem};

/// Static metadata of the policy: name, summary, reference, parameters.
pub const INFO: PolicyInfo = PolicyInfo {
    name: "pmlb-compensated",
    summary: "PMLB that adds the average user back when it chooses",
    reference: "a variant of Ghosh et al., Algorithm 4, line 11",
    params: &[OFUL_PARAMS],
    build,
};

builder! { OFUL }

fn build(problem: &Problem, settings: &Settings) -> Result<Box<dyn Policy>, Error> {
    Ok(Box::new(Pmlb::from_settings(problem, settings, true)?))
}
