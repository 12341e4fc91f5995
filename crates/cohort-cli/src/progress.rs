//! A progress bar on a terminal; nothing in a pipe.

use cohort_lab::runner::{Observer, Plan};
use indicatif::{ProgressBar, ProgressStyle};

/// A bar with an estimate of the remaining time.
pub struct Progress(ProgressBar);

impl Progress {
    /// For a plan that begins now.
    pub fn new(plan: &Plan) -> Self {
        let runs = plan.repetitions.saturating_mul(plan.contenders.len());
        let bar = ProgressBar::new(plan.rounds.saturating_mul(runs) as u64);
        let style = "{bar:40} {percent:>3} %  {elapsed} gone, about {eta} left";
        if let Ok(style) = ProgressStyle::with_template(style) {
            bar.set_style(style);
        }
        Self(bar)
    }

    /// Removes the bar.
    pub fn clear(&self) {
        self.0.finish_and_clear();
    }
}

impl Observer for Progress {
    fn round_done(&self) {
        self.0.inc(1);
    }
}
