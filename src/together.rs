//! What cannot go together: one table of pairs of modes, each with the reason that the error gives.
//! The table is asked when a configuration is read, and again when a session, a schedule or a call
//! has settled the modes. docs/limitations.md has its rows.

use crate::error::{self, Code, Result};
use crate::named::named;

named! {
    /// Something that a configuration, a schedule or a call asks for. In the names, `#` stands for
    /// the mode's value.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[allow(missing_docs)]
    pub enum Mode {
        ZeroCopy => "zero_copy = 1",
        Lru => "policy = 1 (lru)",
        SharedLevels => "shared_levels = 1",
        MixedStorage => "mixed_storage = 1",
        Codec => "compressor = #",
        NoCodec => "compressor = 0 (none)",
        AutoCodec => "compressor = 15 (auto)",
        Ways => "compressor = 15 (auto) with # ways to store snapshots",
        RejectNonfinite => "nonfinite = 1",
        Sequences => "sequences = 1",
        Disk => "disk_budget = #",
        NoHostBudget => "host_budget = 0",
        MacroSteps => "adjoint_every = #",
        Sweeps => "sweeps = #",
        Online => "checkpointing_algorithm = 9 (online)",
        UnknownSteps => "steps = 0 (not known)",
        Check => "check = #",
        SnapshotRule => "snapshot_rule = 1",
        OtherSteps => "another number of steps",
        Run => "a run by callbacks",
        WithinShot => "a restart file within a shot",
        Sessions => "a schedule that # sessions follow",
    }
}

/// Two modes that cannot go together.
pub struct Pair {
    /// The modes, in the order in which the error names them.
    pub modes: [Mode; 2],
    /// The code of the error.
    pub code: Code,
    /// The reason that the error gives.
    pub why: &'static str,
    /// What the error tells the user to do.
    pub remedy: &'static str,
}

macro_rules! pairs {
    ($($one:ident + $other:ident: $code:ident, $why:literal; $remedy:literal.)*) => {
        /// All pairs of modes that are refused. Of several that apply, the first one is the error.
        pub const PAIRS: &[Pair] = &[$(Pair {
            modes: [Mode::$one, Mode::$other],
            code: Code::$code,
            why: $why,
            remedy: $remedy,
        }),*];
    };
}

pairs! {
    ZeroCopy + Lru: Config, "the published policy copies"; "use policy = 0 or zero_copy = 0".
    ZeroCopy + Run: Unsupported, "a run copies the fields";
        "use zero_copy = 0, or gpuzip_get_action instead of the run".
    SharedLevels + Lru: Unsupported, "the published policy moves whole states";
        "use 0 for one of them".
    MixedStorage + NoCodec: Config, "snapshots on the host are compressed";
        "name a codec, or 15 (auto)".
    MixedStorage + Lru: Unsupported, "the published policy knows one way to store snapshots";
        "use policy = 0".
    MacroSteps + Online: Unsupported, "an online schedule reverses every step by itself";
        "use adjoint_every = 1".
    Sweeps + Online: Unsupported, "its snapshots are chosen for one reverse sweep";
        "give the number of steps and another algorithm, or use sweeps = 1".
    Sequences + Sweeps: Config, "a snapshot that leans on others is restored once";
        "use sequences = 0 or sweeps = 1".
    Lru + Online: Unsupported, "an online schedule is planned by policy = 0 (clairvoyant)";
        "use policy = 0".
    Sequences + MixedStorage: Config, "a snapshot leans on compressed ones only";
        "use 0 for one of them".
    SnapshotRule + UnknownSteps: Config,
        "GPUZIP's number of snapshots follows from the number of steps"; "set checkpointing_snaps".
    Ways + UnknownSteps: Unsupported,
        "the predicted time depends on the number of steps"; "name a codec, or 0 for none".
    Check + UnknownSteps: Unsupported, "the schedule that computes states again is recorded before the run";
        "give the number of steps".
    RejectNonfinite + NoCodec: Unsupported, "raw snapshots are not looked at"; "use nonfinite = 0".
    RejectNonfinite + AutoCodec: Unsupported, "raw snapshots are not looked at";
        "use nonfinite = 0".
    Disk + NoHostBudget: Config,
        "snapshots go to disk through host memory, when host memory is full";
        "set host_budget to the bytes of at least four snapshots".
    WithinShot + Sessions: Unsupported, "it is of a session that follows its schedule alone";
        "write one between shots".
    OtherSteps + UnknownSteps: State,
        "a session has either known numbers of steps, or shots that gpuzip_end_forward ends";
        "make another session".
    OtherSteps + Sessions: State, "the number of steps is one for all of them";
        "make a new schedule".
}

/// The modes that are in use, each with its value: not 0.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Modes([u64; Mode::ALL.len()]);

impl Modes {
    /// Returns these modes with the value of one of them replaced; 0: it is not in use.
    pub fn with(mut self, mode: Mode, value: impl Into<u64>) -> Self {
        self.0[mode as usize] = value.into();
        self
    }

    /// Fails if two of the modes cannot go together.
    pub fn check(self) -> Result<()> {
        let value = |mode: Mode| self.0[mode as usize];
        let is_used = |pair: &&Pair| pair.modes.into_iter().all(|mode| value(mode) != 0);
        let Some(pair) = PAIRS.iter().find(is_used) else { return Ok(()) };
        let [one, other] =
            pair.modes.map(|mode| mode.name().replace('#', &value(mode).to_string()));
        Err(error::of(pair.code, format_args!("{one} with {other}: {}; {}", pair.why, pair.remedy)))
    }
}

/// Returns the reason for which two modes cannot go together; `None` if they can.
pub fn why(modes: [Mode; 2]) -> Option<&'static str> {
    PAIRS.iter().find(|pair| pair.modes == modes).map(|pair| pair.why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_both_values_the_reason_and_the_remedy() {
        let modes = Modes::default().with(Mode::Disk, 9u64).with(Mode::NoHostBudget, true);
        let error = modes.check().unwrap_err();
        assert_eq!(error.code, Code::Config);
        assert_eq!(
            error.message,
            "disk_budget = 9 with host_budget = 0: snapshots go to disk through host memory, when host \
             memory is full; set host_budget to the bytes of at least four snapshots"
        );
        assert!(modes.with(Mode::Disk, 0u64).check().is_ok());
    }

    #[test]
    fn no_pair_stands_twice() {
        for (at, pair) in PAIRS.iter().enumerate() {
            let [one, other] = pair.modes;
            assert!(PAIRS[..at]
                .iter()
                .all(|earlier| ![[one, other], [other, one]].contains(&earlier.modes)));
        }
    }
}
