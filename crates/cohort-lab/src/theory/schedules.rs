//! The schedules of SCLB and PMLB.

use cohort::policies::alb_norm::epoch_lengths;
use cohort::policies::cmlb::{default_gamma, explore_rounds};
use cohort::policies::pmlb::common_rounds;
use cohort::policies::sclb::{phase_delta, phase_min_share, phase_rounds};
use serde::Serialize;

use super::Inputs;

/// One phase of SCLB (Algorithm 1): a CMLB with horizon 2^i.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SclbPhase {
    /// i.
    pub phase: u32,
    /// 2^i.
    pub length: usize,
    /// Rounds played: all but in the last phase, which is cut at T.
    pub rounds: usize,
    /// T_explore of this phase.
    pub explore_rounds: usize,
    /// γ = 3/(N·2^i)^α.
    pub gamma: f64,
    /// p* = i⁻².
    pub min_share: f64,
    /// δ/2^i.
    pub delta: f64,
    /// Whether its users are clustered at all: T_explore ends before the phase does.
    pub clusters: bool,
    /// Rounds played by its end.
    pub rounds_in_all: usize,
}

/// The schedule of PMLB (Algorithm 4): a common phase, then ALB-Norm's epochs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PmlbSchedule {
    /// ⌊√T⌋ rounds for the average user.
    pub common_rounds: usize,
    /// ALB-Norm's epochs in the rounds that are left.
    pub epochs: Vec<Epoch>,
}

/// One epoch of ALB-Norm (Algorithm 5).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Epoch {
    /// i.
    pub epoch: usize,
    /// Rounds played: 2^{i−1}·T_1, the last epoch cut at T.
    pub rounds: usize,
    /// δ_i = δ/2^{i−1}.
    pub delta: f64,
    /// Rounds played by its end, the common phase included.
    pub rounds_in_all: usize,
}

/// The phases that fill T rounds.
pub(super) fn sclb_phases(inputs: &Inputs) -> Vec<SclbPhase> {
    let &Inputs { users, rounds, dim, alpha, c, .. } = inputs;
    let mut phases = Vec::new();
    let mut played = 0;
    for phase in 1.. {
        if played == rounds {
            break;
        }
        let length = phase_rounds(phase);
        let in_phase = length.min(rounds - played);
        played += in_phase;
        let delta = phase_delta(inputs.delta, phase);
        let explore_rounds = explore_rounds(c, dim, users, length, alpha, delta, 1.0);
        phases.push(SclbPhase {
            phase,
            length,
            rounds: in_phase,
            explore_rounds,
            gamma: default_gamma(users, length, alpha),
            min_share: phase_min_share(phase),
            delta,
            clusters: explore_rounds < in_phase,
            rounds_in_all: played,
        });
    }
    phases
}

/// The common phase and the epochs that fill T rounds.
pub(super) fn pmlb(inputs: &Inputs) -> PmlbSchedule {
    let common_rounds = common_rounds(inputs.rounds);
    let mut rounds_in_all = common_rounds;
    let mut delta = inputs.delta;
    let mut epochs = Vec::new();
    for (at, rounds) in epoch_lengths(inputs.rounds - common_rounds).into_iter().enumerate() {
        rounds_in_all += rounds;
        epochs.push(Epoch { epoch: at + 1, rounds, delta, rounds_in_all });
        delta /= 2.0;
    }
    PmlbSchedule { common_rounds, epochs }
}
