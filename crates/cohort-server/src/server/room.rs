//! How much room is there on the disk and in memory, and how much may this process have?

use std::path::{Path, PathBuf};

/// Tells how much room there is. (The seam where tests let it become scarce.)
pub(super) trait Room: Send + Sync {
    /// Bytes that are free on the disk, where the machine tells.
    fn free_bytes(&self) -> Option<u64>;
    /// Memory that this process has, where the machine tells.
    fn resident_bytes(&self) -> Option<u64>;
}

/// The machine's room, on the disk of a folder.
pub(super) struct MachineRoom(pub PathBuf);

impl Room for MachineRoom {
    fn free_bytes(&self) -> Option<u64> {
        let found = rustix::fs::statvfs(&self.0).ok()?;
        Some(found.f_bavail * found.f_frsize)
    }

    fn resident_bytes(&self) -> Option<u64> {
        let text = std::fs::read_to_string("/proc/self/statm").ok()?;
        let pages: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
        Some(pages * rustix::param::page_size() as u64)
    }
}

/// Memory that this process may have: the machine's, or that of its control group or one around that, whichever is
/// least. `root` is `/`.
pub(super) fn machine_memory(root: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let total = line.split_whitespace().next()?.parse::<u64>().ok()? * 1024;
    Some(group_limits(root).fold(total, u64::min))
}

/// Limits of the control groups of this process, of both versions. Without a namespace of its own a service sees its
/// group under its full path; with one, at the root.
fn group_limits(root: &Path) -> impl Iterator<Item = u64> {
    let groups = std::fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let mut files = Vec::new();
    for line in groups.lines() {
        // NUMBER:CONTROLLERS:PATH, and 0::PATH in version 2.
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let (mounts, file) = match controllers {
            "" => (&["sys/fs/cgroup", "sys/fs/cgroup/unified"][..], "memory.max"),
            some if some.split(',').any(|one| one == "memory") => {
                (&["sys/fs/cgroup/memory"][..], "memory.limit_in_bytes")
            }
            _ => continue,
        };
        let path = Path::new(path.trim_start_matches('/'));
        // A group outside of the namespace cannot be seen; the root can.
        let is_inside =
            path.components().all(|part| matches!(part, std::path::Component::Normal(_)));
        let path = if is_inside { path } else { Path::new("") };
        for mount in mounts {
            files.extend(path.ancestors().map(|group| root.join(mount).join(group).join(file)));
        }
    }
    // A process that is in none that it knows of may still be limited.
    files.push(root.join("sys/fs/cgroup/memory.max"));
    let read = |file: PathBuf| std::fs::read_to_string(file).ok()?.trim().parse().ok();
    files.into_iter().filter_map(read)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine of 1000 KiB with these files.
    fn memory_of(files: &[(&str, &str)]) -> Option<u64> {
        let root = tempfile::tempdir().unwrap();
        let all = [("proc/meminfo", "MemFree: 1 kB\nMemTotal:    1000 kB\n")];
        for (file, text) in all.iter().chain(files) {
            let file = root.path().join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        }
        machine_memory(root.path())
    }

    #[test]
    fn memory_is_the_least_of_the_machine_and_all_groups_around_the_process() {
        let service = ("proc/self/cgroup", "0::/system.slice/cohort.service\n");
        assert_eq!(memory_of(&[]), Some(1_024_000));
        assert_eq!(memory_of(&[service]), Some(1_024_000));
        let own = ("sys/fs/cgroup/system.slice/cohort.service/memory.max", "5000\n");
        let slice = ("sys/fs/cgroup/system.slice/memory.max", "4000\n");
        let none = ("sys/fs/cgroup/system.slice/cohort.service/memory.max", "max\n");
        assert_eq!(memory_of(&[service, own]), Some(5000));
        assert_eq!(memory_of(&[service, own, slice]), Some(4000), "the slice has less");
        assert_eq!(memory_of(&[service, none, slice]), Some(4000));
        assert_eq!(memory_of(&[service, none]), Some(1_024_000));
        // With a namespace of its own, a group is at the root.
        let root = ("sys/fs/cgroup/memory.max", "3000\n");
        assert_eq!(memory_of(&[("proc/self/cgroup", "0::/\n"), root]), Some(3000));
        assert_eq!(memory_of(&[("proc/self/cgroup", "0::/../other\n"), root]), Some(3000));
        assert_eq!(memory_of(&[root]), Some(3000));
        // Version 1.
        let old = ("proc/self/cgroup", "7:cpu,cpuacct:/x\n4:memory:/docker/a\n");
        let limit = ("sys/fs/cgroup/memory/docker/a/memory.limit_in_bytes", "2000\n");
        let other = ("sys/fs/cgroup/memory/x/memory.limit_in_bytes", "1\n");
        assert_eq!(memory_of(&[old, limit, other]), Some(2000));
        assert!(memory_of(&[("proc/meminfo", "odd")]).is_none());
    }

    #[test]
    fn this_machine_tells_how_much_room_it_has() {
        let room = MachineRoom("/".into());
        assert!(room.free_bytes().is_some());
        assert!(machine_memory(Path::new("/")).unwrap() > room.resident_bytes().unwrap());
    }
}
