//! Other implementations of the same round — score, choose, learn, for every user — to compare the
//! bank's kernels with. All choose the same arms.

#[cfg(feature = "peers")]
mod blocked;
#[cfg(feature = "peers")]
mod packed;
#[cfg(feature = "peers")]
mod per_user;

use cohort::linear::{Bank, InstructionSet, Progress, Shape};
use cohort::{Arm, Contexts};

use crate::world::NOISE;

/// d of all implementations; that with nalgebra has it in its types.
pub const DIM: usize = 15;

/// d(d+1)/2.
#[cfg(feature = "peers")]
pub const PACKED: usize = DIM * (DIM + 1) / 2;

/// One LinUCB per user.
pub trait Form {
    /// Chooses an arm for every user, then learns its reward.
    fn round(&mut self, contexts: &[f64], rewards: &[f64], arms: &mut [Arm]);
}

/// An implementation and its name.
pub type Named = (String, Box<dyn Form>);

/// All compiled implementations, the bank once for each instruction set of this machine.
pub fn all(users: usize) -> Vec<Named> {
    let mut forms: Vec<Named> = Vec::new();
    #[cfg(feature = "peers")]
    {
        use packed::{Packed, faer_product, gemm_product};
        forms.push((NALGEBRA.into(), Box::new(per_user::PerUser::new(users))));
        forms.push((GEMM.into(), Box::new(Packed::new(users, gemm_product))));
        forms.push((
            "packed symmetric GEMM, faer".into(),
            Box::new(Packed::new(users, faer_product)),
        ));
        forms.push((
            "blocks of 128 users, faer GEMM + autovectorised loops".into(),
            Box::new(blocked::Blocked::new(users)),
        ));
    }
    for set in InstructionSet::available().into_iter().rev() {
        let bank = Bank::new(users, DIM, 1.0).using(set);
        forms.push((ours(set), Box::new(bank)));
    }
    forms
}

/// The name of the implementation of the 7 × target.
pub const NALGEBRA: &str = "per user, nalgebra static";
/// The name of the implementation of the 1.8 × target.
pub const GEMM: &str = "packed symmetric GEMM, gemm crate";

/// The name of the bank on an instruction set.
pub fn ours(set: InstructionSet) -> String {
    format!("cohort's bank, {}", set.name())
}

/// OFUL's radius with the defaults of `linucb-ind`.
#[inline(always)]
pub fn radius(log_det: f64) -> f64 {
    let confidence = 2.0 * (1.0f64 / 0.4).ln();
    NOISE * (confidence + log_det).sqrt() + 1.0
}

impl Form for Bank {
    fn round(&mut self, contexts: &[f64], rewards: &[f64], arms: &mut [Arm]) {
        let contexts = Contexts::new(contexts, DIM).expect("whole and finite");
        let radius = |_, progress: Progress| radius(progress.log_det);
        self.choose(&contexts, Shape::Ellipsoid, radius, None, arms);
        self.learn(&contexts, arms, rewards);
    }
}

/// The floating-point operations of one user-round.
pub fn arithmetic(dim: usize, arms: usize) -> f64 {
    let packed = dim * (dim + 1) / 2;
    let scores = 2 * arms * (packed + dim);
    // V⁻¹x, xᵀV⁻¹x, ⟨x, θ̂⟩, the rank-one update of V⁻¹ and that of θ̂.
    let update = 2 * dim * dim + 2 * dim + 2 * dim + 2 * packed + 2 * dim;
    (scores + update) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::World;

    #[test]
    fn all_forms_choose_the_same_arms() {
        let users = 300; // not a multiple of any block
        let mut world = World::new(users, DIM, 5, 1);
        let mut forms = all(users);
        for round in 0..30 {
            let (contexts, rewards) = (world.contexts(), world.any_rewards());
            let mut expected = None;
            for (name, form) in &mut forms {
                let mut arms = vec![0; users];
                form.round(&contexts, &rewards, &mut arms);
                let expected = expected.get_or_insert_with(|| arms.clone());
                assert_eq!(*expected, arms, "{name}, round {round}");
            }
        }
    }
}
