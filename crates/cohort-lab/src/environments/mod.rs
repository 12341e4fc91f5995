//! Every environment by name. A new one is one file here and one line in [`ENVIRONMENTS`]; the
//! command line, TOML and error messages know its options from there.

mod catalogue;
mod clustered;
mod gaussian;
mod mixture;
mod parts;
mod table;

use cohort::nearest;
use cohort::params::{Settings, Value};

use crate::Error;
use crate::environment::EnvironmentInfo;

/// All environments; the first is the default.
pub const ENVIRONMENTS: &[EnvironmentInfo] =
    &[clustered::INFO, gaussian::INFO, mixture::INFO, table::INFO, catalogue::LASTFM, catalogue::MOVIELENS];

/// The environment of that name.
pub fn info(name: &str) -> Result<&'static EnvironmentInfo, Error> {
    let names = || ENVIRONMENTS.iter().map(|info| info.name);
    ENVIRONMENTS.iter().find(|info| info.name == name).ok_or_else(|| Error::UnknownEnvironment {
        name: name.to_owned(),
        nearest: nearest(name, names()),
        known: names().collect::<Vec<_>>().join(", "),
    })
}

impl EnvironmentInfo {
    /// Checks options without making the environment.
    pub fn check(
        &self,
        options: impl IntoIterator<Item = (String, Value)>,
    ) -> Result<Settings, Error> {
        let refused = |error| match Error::of(format!("environment `{}`", self.name), error) {
            // Well spelt, but of another environment: nothing else was meant.
            Error::UnknownKey { of, name, known, .. } if is_option_of_any(&name) => {
                Error::UnknownKey { of, name, known, nearest: None }
            }
            error => error,
        };
        Settings::check(self.name, self.params, options).map_err(refused)
    }
}

fn is_option_of_any(name: &str) -> bool {
    ENVIRONMENTS.iter().flat_map(EnvironmentInfo::options).any(|option| option.name == name)
}
