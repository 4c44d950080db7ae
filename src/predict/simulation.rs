//! The result of a predicted run.

/// The predicted times, transfers and peaks of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Simulation {
    /// Seconds of all actions of the schedule.
    pub makespan: f64,
    /// The ideal of the plan, in seconds: the time steps of its schedule and nothing else.
    pub plan_ideal: f64,
    /// The ideal of the problem, in seconds: n forward steps, and n backward steps in each reverse sweep.
    pub problem_ideal: f64,
    /// Seconds in which the application's stream copies snapshots.
    pub copying: f64,
    /// Seconds in which the application's stream compresses and decompresses.
    pub coding: f64,
    /// Seconds in which the application's stream compresses; part of `coding`.
    pub compressing: f64,
    /// Seconds in which the application's stream waits for transfers.
    pub waiting: f64,
    /// Seconds of copying, coding and waiting in SAVE actions; the rest is in RESTORE actions.
    pub saving: f64,
    /// Transfers to the device, including those on the application's stream.
    pub h2d: u64,
    /// Transfers to the host, including those on the application's stream.
    pub d2h: u64,
    /// Snapshots read from disk.
    pub disk_reads: u64,
    /// Snapshots written to disk.
    pub disk_writes: u64,
    /// Bytes moved to the device.
    pub h2d_bytes: u64,
    /// Bytes moved to the host.
    pub d2h_bytes: u64,
    /// Bytes moved to and from disk.
    pub disk_bytes: u64,
    /// Restores that waited for a transfer that was issued before the RESTORE.
    pub late: u64,
    /// The most device memory in use at a time, in bytes.
    pub device_peak: u64,
    /// The most host memory in use at a time, in bytes.
    pub host_peak: u64,
    /// The most disk space in use at a time, in bytes.
    pub disk_peak: u64,
}

impl Simulation {
    /// The stall, in seconds: copying, coding and waiting on the application's stream.
    pub fn stall(&self) -> f64 {
        self.copying + self.coding + self.waiting
    }

    /// Run time over the ideal of the plan.
    pub fn over_plan_ideal(&self) -> f64 {
        self.makespan / self.plan_ideal
    }

    /// Run time over the ideal of the problem.
    pub fn over_problem_ideal(&self) -> f64 {
        self.makespan / self.problem_ideal
    }
}
