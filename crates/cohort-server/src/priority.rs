//! Who goes first when the machine has no time left?
//!
//! Everybody waits for the engine: it has the priority of the process. Threads that read requests and
//! write answers have most to do, and each of them keeps one client waiting: they step back a little,
//! so that the engine need not wait for them when the disk is done. Refits keep nobody waiting, and
//! step back much further: they take what time is left, and some thirtieth of a core where none is.

/// Threads that read requests and write answers.
pub const REQUESTS: i32 = 2;
/// Threads that refit.
pub const REFITS: i32 = 15;

/// Lets other threads of the process go first, by this much, for as long as this thread lives.
pub fn step_back(by: i32) {
    #[cfg(target_os = "linux")]
    if let Err(why) = rustix::process::nice(by) {
        tracing::warn!(%why, "all threads run with the same priority");
    }
    #[cfg(not(target_os = "linux"))]
    let _ = by;
}
