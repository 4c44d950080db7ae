//! The processors that this process may use, and the memory that it may still take: what the system has
//! left, within the limits of the process's control groups and of the process itself.
//!
//! A limit that cannot be read, or makes no sense, counts as no limit. If nothing can be read, the
//! answer is `None`.

use crate::environment;
use std::path::{Path, PathBuf};

/// The folders in which the system tells its memory: the roots of `/proc` and of the control
/// groups.
pub struct System<'a> {
    /// `/proc`.
    pub proc: &'a Path,
    /// `/sys/fs/cgroup`.
    pub cgroup: &'a Path,
}

/// A number of bytes, and the limit that it follows from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Available {
    /// Bytes that this process may still take.
    pub bytes: u64,
    /// Name of the lowest limit.
    pub limit: &'static str,
}

/// Returns the host memory that this process may still take.
pub fn host() -> Option<Available> {
    System { proc: Path::new("/proc"), cgroup: Path::new("/sys/fs/cgroup") }.available()
}

/// Environment variables in which launchers tell how many processes of a job are on this node.
const LOCAL_SIZES: [&str; 7] = [
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "MPI_LOCALNRANKS",
    "MV2_COMM_WORLD_LOCAL_SIZE",
    "PMI_LOCAL_SIZE",
    "PALS_LOCAL_SIZE",
    "SLURM_STEP_TASKS_PER_NODE",
    "SLURM_NTASKS_PER_NODE",
];

/// Returns the number of ranks of this job on this node, at least 1. `variable` returns the value
/// of an environment variable.
pub fn ranks_on_node(variable: impl Fn(&str) -> Option<String>) -> u32 {
    LOCAL_SIZES.into_iter().find_map(|name| most_tasks(&variable(name)?)).unwrap_or(1)
}

/// Returns the number of processors that this process may use: by the affinity of the calling thread, the
/// quotas of control groups, and its share of the node if a launcher tells the ranks on it.
pub fn processors() -> u32 {
    // SAFETY: the call has no preconditions.
    let online = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }.max(1) as u32;
    let share = online / ranks_on_node(environment::text);
    let allowed = std::thread::available_parallelism().map_or(1, |number| number.get() as u32);
    allowed.min(share.max(1))
}

/// Returns the largest number of a list in SLURM's notation: `4(x2),3` for nodes with 4, 4 and 3
/// tasks. A plain number is a list with one entry.
fn most_tasks(list: &str) -> Option<u32> {
    let tasks = |part: &str| part.split('(').next()?.trim().parse::<u32>().ok();
    let tasks = list.split(',').map(tasks).collect::<Option<Vec<_>>>()?;
    tasks.into_iter().max().filter(|&tasks| tasks > 0)
}

impl System<'_> {
    /// Returns the bytes that this process may still take, by the lowest of all limits.
    pub fn available(&self) -> Option<Available> {
        let system = self
            .kilobytes("meminfo", "MemAvailable:")
            .map(|bytes| Available { bytes, limit: "MemAvailable" });
        let of_process =
            [("address space", "RLIMIT_AS", "VmSize:"), ("data size", "RLIMIT_DATA", "VmData:")];
        let process = of_process.into_iter().filter_map(|limit| self.of_process(limit));
        let of_system = system.into_iter().chain(self.of_commitments());
        let all = of_system.chain(process).chain(self.of_groups());
        all.min_by_key(|available| available.bytes)
    }

    /// Returns the bytes in a line `<name> <number> kB` of a file in `/proc`.
    fn kilobytes(&self, file: &str, name: &str) -> Option<u64> {
        number_of(&self.proc.join(file), name, "kB")?.checked_mul(1024)
    }

    /// Returns the memory that the system can still promise, if it promises no more memory than it
    /// has (vm.overcommit_memory = 2).
    fn of_commitments(&self) -> Option<Available> {
        const STRICT: u64 = 2;
        if number(&self.proc.join("sys/vm/overcommit_memory"))? != STRICT {
            return None;
        }
        let most = self.kilobytes("meminfo", "CommitLimit:")?;
        let promised = self.kilobytes("meminfo", "Committed_AS:")?;
        let bytes = most.saturating_sub(promised);
        Some(Available { bytes, limit: "CommitLimit under vm.overcommit_memory = 2" })
    }

    /// Returns what the process's own limit `name` leaves: RLIMIT_AS less all mappings, or
    /// RLIMIT_DATA less the private writable mappings.
    fn of_process(&self, (name, limit, used): (&str, &'static str, &str)) -> Option<Available> {
        let limits = read(&self.proc.join("self/limits"))?;
        let line = limits.lines().find_map(|line| line.strip_prefix("Max ")?.strip_prefix(name))?;
        let most = line.split_whitespace().next()?.parse::<u64>().ok()?;
        Some(Available { bytes: most.saturating_sub(self.kilobytes("self/status", used)?), limit })
    }

    /// Returns what each control group of this process leaves, and each group that contains it.
    fn of_groups(&self) -> Vec<Available> {
        let lines = read(&self.proc.join("self/cgroup")).unwrap_or_default();
        let mut found = Vec::new();
        for line in lines.lines() {
            let mut parts = line.splitn(3, ':').skip(1);
            let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
            if controllers.is_empty() {
                let roots = [self.cgroup.to_path_buf(), self.cgroup.join("unified")];
                let groups = roots.iter().flat_map(|root| groups(root, path));
                found.extend(groups.flat_map(|group| of_group(&group, &VERSION_2)));
            } else if controllers.split(',').any(|controller| controller == "memory") {
                let groups = groups(&self.cgroup.join("memory"), path);
                found.extend(groups.iter().flat_map(|group| of_group(group, &VERSION_1)));
            }
        }
        found
    }
}

/// Returns the folders of a control group and of all groups that contain it. In a container the
/// path may be that of the host; then only the root exists.
fn groups(root: &Path, path: &str) -> Vec<PathBuf> {
    let names: Vec<&str> =
        path.split('/').filter(|name| !name.is_empty() && *name != "..").collect();
    (0..=names.len()).map(|depth| root.join(names[..depth].join("/"))).collect()
}

/// The files of a control group: the memory in use, the name in `memory.stat` of the part of it that
/// the group can drop, and the limits, each with its name in messages.
struct Files {
    used: &'static str,
    inactive: &'static str,
    limits: &'static [(&'static str, &'static str)],
}

/// A huge number stands for no limit.
const VERSION_1: Files = Files {
    used: "memory.usage_in_bytes",
    inactive: "total_inactive_file",
    limits: &[("memory.limit_in_bytes", "the control group's memory.limit_in_bytes")],
};
const VERSION_2: Files = Files {
    used: "memory.current",
    inactive: "inactive_file",
    limits: &[
        ("memory.max", "the control group's memory.max"),
        ("memory.high", "the control group's memory.high"),
    ],
};

/// Returns what a group leaves: its limits less the memory in use that the group cannot drop.
fn of_group(group: &Path, files: &Files) -> Vec<Available> {
    let Some(used) = number(&group.join(files.used)) else { return Vec::new() };
    // Cached files that the group can drop are part of its usage.
    let inactive = number_of(&group.join("memory.stat"), files.inactive, "").unwrap_or(0);
    let used = used.saturating_sub(inactive);
    let left = |&(file, limit): &(&str, &'static str)| {
        Some(Available { bytes: number(&group.join(file))?.saturating_sub(used), limit })
    };
    files.limits.iter().filter_map(left).collect()
}

/// Returns the number in a line `<name> <number> <unit>` of a file.
fn number_of(file: &Path, name: &str, unit: &str) -> Option<u64> {
    let number =
        |line: &str| line.strip_prefix(name)?.trim().strip_suffix(unit)?.trim().parse().ok();
    read(file)?.lines().find_map(number)
}

fn number(file: &Path) -> Option<u64> {
    read(file)?.trim().parse().ok()
}

/// Returns the text of a small file; `None` if the file cannot be read or is not UTF-8.
fn read(file: &Path) -> Option<String> {
    std::fs::read_to_string(file).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const KIB: u64 = 1024;

    /// A system that consists of these files, in a folder that is removed at the end.
    struct Fake(PathBuf);

    impl Fake {
        fn new(name: &str, files: &[(&str, &str)]) -> Self {
            let folder = std::env::temp_dir()
                .join(format!("gpuzip-available-{}-{name}", std::process::id()));
            for (path, text) in files {
                let path = folder.join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            Fake(folder)
        }

        fn available(&self) -> Option<Available> {
            System { proc: &self.0.join("proc"), cgroup: &self.0.join("cgroup") }.available()
        }
    }

    impl Drop for Fake {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    const MEMINFO: (&str, &str) =
        ("proc/meminfo", "MemTotal: 2000000 kB\nMemFree: 1 kB\nMemAvailable:    1000000 kB\n");
    const STATUS: (&str, &str) =
        ("proc/self/status", "Name:\tx\nVmSize:\t  100 kB\nVmData:\t   40 kB\n");

    fn bytes(name: &str, files: &[(&str, &str)]) -> Option<(u64, &'static str)> {
        Fake::new(name, files).available().map(|available| (available.bytes, available.limit))
    }

    #[test]
    fn the_lowest_limit_counts() {
        assert_eq!(bytes("system", &[MEMINFO]), Some((1_000_000 * KIB, "MemAvailable")));
        let limits = |space: &str, data: &str| {
            format!(
                "Limit  Soft Limit  Hard Limit  Units\nMax data size {data} unlimited bytes\nMax address space {space} unlimited bytes\n"
            )
        };
        for (space, data, expected) in [
            ("unlimited", "unlimited", (1_000_000 * KIB, "MemAvailable")),
            ("1048576", "unlimited", (1_048_576 - 100 * KIB, "RLIMIT_AS")),
            ("1048576", "65536", (65536 - 40 * KIB, "RLIMIT_DATA")),
            ("1", "unlimited", (0, "RLIMIT_AS")),
        ] {
            let found =
                bytes("limits", &[MEMINFO, STATUS, ("proc/self/limits", &limits(space, data))]);
            assert_eq!(found, Some(expected), "{space} {data}");
        }
    }

    #[test]
    fn strict_overcommit_limits_what_is_promised() {
        const STRICT: &str = "CommitLimit under vm.overcommit_memory = 2";
        let meminfo = |promised: u64| {
            format!(
                "MemAvailable: 1000000 kB\nCommitLimit:  900000 kB\nCommitted_AS: {promised} kB\n"
            )
        };
        for (mode, promised, expected) in [
            ("0\n", 899_000, (1_000_000 * KIB, "MemAvailable")),
            ("1\n", 899_000, (1_000_000 * KIB, "MemAvailable")),
            ("2\n", 899_000, (1000 * KIB, STRICT)),
            ("2\n", 0, (900_000 * KIB, STRICT)),
            ("2\n", 901_000, (0, STRICT)),
        ] {
            let files =
                [("proc/meminfo", &*meminfo(promised)), ("proc/sys/vm/overcommit_memory", mode)];
            assert_eq!(bytes("strict", &files), Some(expected), "{mode}{promised}");
        }
        let without_the_limit =
            bytes("strict-unknown", &[MEMINFO, ("proc/sys/vm/overcommit_memory", "2\n")]);
        assert_eq!(without_the_limit, Some((1_000_000 * KIB, "MemAvailable")));
    }

    #[test]
    fn groups_limit_along_their_hierarchy() {
        let v2 = [
            MEMINFO,
            ("proc/self/cgroup", "0::/job/step\n"),
            ("cgroup/job/step/memory.max", "max\n"),
            ("cgroup/job/step/memory.current", "1000\n"),
            ("cgroup/job/memory.max", "50000\n"),
            ("cgroup/job/memory.current", "9000\n"),
            ("cgroup/job/memory.stat", "anon 5\ninactive_file 2000\n"),
        ];
        assert_eq!(bytes("v2", &v2), Some((43000, "the control group's memory.max")));
        let high = ("cgroup/job/step/memory.high", "30000\n");
        assert_eq!(
            bytes("v2-high", &[&v2[..], &[high]].concat()),
            Some((29000, "the control group's memory.high"))
        );
        let v1 = [
            MEMINFO,
            ("proc/self/cgroup", "9:name=systemd:/\n4:cpu,memory:/of/the/host\n0::/\n"),
            ("cgroup/memory/memory.limit_in_bytes", "70000\n"),
            ("cgroup/memory/memory.usage_in_bytes", "20000\n"),
            ("cgroup/memory/memory.stat", "total_inactive_file 500\n"),
        ];
        assert_eq!(bytes("v1", &v1), Some((50500, "the control group's memory.limit_in_bytes")));
        let unlimited =
            [v1[0], v1[1], ("cgroup/memory/memory.limit_in_bytes", "9223372036854771712"), v1[3]];
        assert_eq!(bytes("v1-unlimited", &unlimited), Some((1_000_000 * KIB, "MemAvailable")));
    }

    /// Any content of the files is read without harm, and what is not a number limits nothing.
    #[test]
    fn nonsense_limits_nothing() {
        assert_eq!(bytes("nothing", &[]), None);
        let nonsense = "\u{fffd}-1 99999999999999999999999 kB\n::::\nMax address space\nMax data size -5 x\nVmSize: kB";
        let files = [
            "proc/meminfo",
            "proc/self/cgroup",
            "proc/self/limits",
            "proc/self/status",
            "cgroup/memory.max",
        ];
        assert_eq!(bytes("nonsense", &files.map(|file| (file, nonsense))), None);
        let fake = Fake::new("bytes", &[MEMINFO]);
        fs::create_dir_all(fake.0.join("proc/self/limits")).unwrap();
        fs::write(fake.0.join("proc/self/cgroup"), b"0::/\xff\xfe/..\n").unwrap();
        assert_eq!(fake.available().unwrap().limit, "MemAvailable");
    }

    #[test]
    fn launchers_say_how_many_ranks_share_a_node() {
        let with = |name: &'static str, value: &'static str| {
            ranks_on_node(move |asked| (asked == name).then(|| value.to_string()))
        };
        assert_eq!(ranks_on_node(|_| None), 1);
        for name in LOCAL_SIZES {
            assert_eq!(
                (with(name, "4"), with(name, "0"), with(name, "many"), with(name, "-3")),
                (4, 1, 1, 1),
                "{name}"
            );
        }
        assert_eq!(
            (
                with("SLURM_STEP_TASKS_PER_NODE", "4(x2),3"),
                with("SLURM_STEP_TASKS_PER_NODE", "2,7(x3)")
            ),
            (4, 7)
        );
    }

    /// This machine gives an answer, and it is at most the machine's memory.
    #[test]
    #[cfg(target_os = "linux")]
    fn this_machine_has_memory() {
        let available = host().unwrap();
        let total = System { proc: Path::new("/proc"), cgroup: Path::new("/") }
            .kilobytes("meminfo", "MemTotal:")
            .unwrap();
        assert!(available.bytes <= total, "{available:?} of {total}");
    }
}
