//! The native half of the Python package: convert, call, convert.
//!
//! | file | question it answers |
//! | --- | --- |
//! | `simulate`, `reproduce`, `arena` | how is the lab called? |
//! | `features` | how do objects become rows of numbers? |
//! | `evaluate` | how are policies evaluated by a log? |
//! | `command` | how does the package ship the command `cohort`? |
//! | `learner` | how does a Python loop drive a policy? |
//! | `world` | how does a Python loop ask an environment? |
//! | `guests/` | how do an environment and a policy written in Python take part in the lab? |
//! | `snapshot` | how is learned state stored in the service's format? |
//! | `watch` | how does Ctrl-C stop a long run, and how is progress reported? |
//! | `pool` | on which threads does a call from Python run? |
//! | `arrays`, `values`, `listing` | how are numbers, words and arrays converted? |
//! | `errors` | which exception is it? |
//!
//! Nothing is learned or measured here: the crates `cohort` and `cohort-lab` do that. The Python
//! API is in `python/cohort/`.

mod arena;
mod arrays;
mod command;
mod errors;
mod evaluate;
mod features;
mod guests;
mod learner;
mod listing;
mod pool;
mod reproduce;
mod simulate;
mod snapshot;
mod values;
mod watch;
mod world;

use pyo3::prelude::*;

#[pymodule]
fn _engine(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<learner::Learner>()?;
    module.add_class::<world::World>()?;
    module.add_class::<features::FeatureEncoder>()?;
    module.add_function(wrap_pyfunction!(arrays::maximal_cluster, module)?)?;
    module.add_function(wrap_pyfunction!(arrays::half_widths, module)?)?;
    module.add_function(wrap_pyfunction!(listing::policies, module)?)?;
    module.add_function(wrap_pyfunction!(listing::environments, module)?)?;
    module.add_function(wrap_pyfunction!(command::run_command, module)?)?;
    module.add_function(wrap_pyfunction!(evaluate::evaluate, module)?)?;
    module.add_function(wrap_pyfunction!(simulate::simulate, module)?)?;
    module.add_function(wrap_pyfunction!(reproduce::reproduce, module)?)?;
    module.add_function(wrap_pyfunction!(arena::arena, module)?)?;
    module.add_function(wrap_pyfunction!(snapshot::write_snapshot, module)?)?;
    module.add_function(wrap_pyfunction!(snapshot::read_snapshot, module)?)?;
    Ok(())
}
