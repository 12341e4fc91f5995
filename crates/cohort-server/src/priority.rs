//! Who goes first when the machine has no time left?
//!
//! Everybody waits for the engine: it has the priority of the process. Threads that read requests and
//! write answers have most to do, and each of them keeps one client waiting: they step back a little,
//! so that the engine need not wait for them when the disk is done. What is large is read and written
//! by a thread that steps back further, for those who wait for little. Refits keep nobody waiting:
//! they take the time that nobody else wants. Where the machine has none left for hours they get a
//! third of a per cent of a core, and apps go on with the population that was fitted before.

/// Threads that read requests and write answers.
pub const REQUESTS: i32 = 2;
/// The thread that reads and writes bodies of megabytes: all others go first.
pub const LARGE_BODIES: i32 = 10;
/// The furthest that a thread can step back.
#[cfg(target_os = "linux")]
const LAST: i32 = 19;

/// Lets other threads of the process go first, by this much, for as long as this thread lives.
pub fn lower_priority(by: i32) {
    #[cfg(target_os = "linux")]
    if let Err(why) = rustix::process::nice(by) {
        tracing::warn!(%why, "all threads run with the same priority");
    }
    #[cfg(not(target_os = "linux"))]
    let _ = by;
}

/// Lets everybody go first, at once and whenever they wake up, for as long as this thread lives.
pub fn run_when_idle() {
    #[cfg(target_os = "linux")]
    {
        let param = libc::sched_param { sched_priority: 0 };
        // SAFETY: the call reads `param`, which lives as long, and changes this thread alone.
        if unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &param) } != 0 {
            let why = std::io::Error::last_os_error();
            tracing::warn!(%why, "refits cannot wait for an idle machine, and only step back");
            lower_priority(LAST);
        }
    }
}
