//! Every environment by name. A new one is one file here and one line in [`ENVIRONMENTS`]; the
//! command line, TOML and error messages know its options from there.

mod clustered;
mod gaussian;
mod mixture;
mod parts;
mod table;

use cohort::nearest;

use crate::Error;
use crate::environment::EnvironmentInfo;

/// All environments; the first is the default.
pub const ENVIRONMENTS: &[EnvironmentInfo] =
    &[clustered::INFO, gaussian::INFO, mixture::INFO, table::INFO];

/// The environment of that name.
pub fn info(name: &str) -> Result<&'static EnvironmentInfo, Error> {
    let names = || ENVIRONMENTS.iter().map(|info| info.name);
    ENVIRONMENTS.iter().find(|info| info.name == name).ok_or_else(|| Error::UnknownEnvironment {
        name: name.to_owned(),
        nearest: nearest(name, names()),
        known: names().collect::<Vec<_>>().join(", "),
    })
}
