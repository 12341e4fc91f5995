//! How many connections may there be, so that the journal never lacks a file descriptor?

/// Descriptors that no connection gets: for the journal and its tables, snapshots, exports, the
/// machinery of threads and timers.
pub(super) const RESERVED: usize = 112;

/// Raises the limit on open descriptors as far as this process may, and tells it.
pub(super) fn raise() -> usize {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        let all = Rlimit { current: maximum, maximum };
        let current = match setrlimit(Resource::Nofile, all) {
            Ok(()) => maximum,
            Err(why) => {
                tracing::warn!(%why, "the limit on open files stays as it is");
                current
            }
        };
        current.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX))
    }
    #[cfg(not(unix))]
    usize::MAX
}

/// How many connections there may be where `wanted` are and the process may open `descriptors`
/// files, `slack` of which are for connections on their way out.
pub(super) fn for_connections(wanted: usize, descriptors: usize, slack: usize) -> usize {
    let left = descriptors.saturating_sub(RESERVED + slack);
    let allowed = wanted.min(left).max(1);
    if allowed < wanted {
        tracing::warn!(
            wanted,
            allowed,
            descriptors,
            "fewer connections than max_connections: raise the limit on open files (ulimit -n)"
        );
    }
    allowed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_journal_gets_its_descriptors_first() {
        assert_eq!(for_connections(4096, 1 << 20, 64), 4096);
        assert_eq!(for_connections(4096, 256, 64), 256 - RESERVED - 64);
        assert_eq!(for_connections(4096, 20, 64), 1);
        assert!(raise() > RESERVED);
    }
}
