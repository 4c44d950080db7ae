//! What a check found.

/// The kind of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// An access outside the live allocations of the device, or outside shared memory.
    Bounds,
    /// An address that is no multiple of the size of the access.
    Alignment,
    /// A read of bytes that nothing has written.
    Uninitialised,
    /// Two accesses that nothing orders, one of them a write.
    Race,
    /// Threads that wait at different barriers.
    Barrier,
    /// A mask of lanes that does not fit the lanes that are there.
    Mask,
    /// No thread can go on.
    Deadlock,
    /// The instruction `trap`.
    Trap,
    /// A launch that a device refuses.
    Launch,
    /// PTX that the interpreter does not know.
    Unknown,
}

impl Fault {
    /// Returns whether the launch can go on after this fault, to find others.
    pub fn can_go_on(self) -> bool {
        matches!(self, Self::Uninitialised | Self::Race)
    }
}

/// An error of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The kind.
    pub fault: Fault,
    /// The kernel.
    pub kernel: String,
    /// Index of the block along each axis.
    pub block: [u32; 3],
    /// Number of the thread in its block.
    pub thread: u32,
    /// Line of the PTX.
    pub line: u32,
    /// File and line of the source, if the PTX has them.
    pub source: Option<(String, u32)>,
    /// What happened.
    pub what: String,
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [x, y, z] = self.block;
        write!(f, "kernel {}, block ({x}, {y}, {z}), thread {}", self.kernel, self.thread)?;
        if let Some((file, line)) = &self.source {
            write!(f, ", {file}:{line}")?;
        }
        write!(f, ", PTX line {}: {:?}: {}", self.line, self.fault, self.what)
    }
}
