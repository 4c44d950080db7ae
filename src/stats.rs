//! What a session counts and times, per shot.

macro_rules! stats {
    ($($(#[doc = $doc:literal])* $name:ident: $kind:ty,)*) => {
        /// Statistics of one sweep. Names as in the C ABI.
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct Stats {
            $($(#[doc = $doc])* pub $name: $kind,)*
        }

        impl Stats {
            /// Every statistic by name, as text.
            pub fn columns(&self) -> Vec<(&'static str, String)> {
                vec![$((stringify!($name), self.$name.to_string())),*]
            }
        }
    };
}

stats! {
    /// Time steps of FORWARD actions.
    forward_steps: u64,
    /// SAVE actions.
    saves: u64,
    /// RESTORE actions.
    restores: u64,
    /// BACKWARD actions.
    backward_steps: u64,
    /// Restores found in the device cache without a transfer.
    hits: u64,
    /// Restores that needed a transfer.
    misses: u64,
    /// Transfers issued ahead of their restore.
    prefetches: u64,
    /// Prefetches that had not ended when their restore came.
    late_prefetches: u64,
    /// Transfers from host to device memory.
    h2d: u64,
    /// Transfers from device to host memory.
    d2h: u64,
    /// Their bytes, to the device.
    h2d_bytes: u64,
    /// Their bytes, to the host.
    d2h_bytes: u64,
    /// Saves that were not written to the host because nobody will fetch them from there.
    write_backs_avoided: u64,
    /// Bytes of the fields saved.
    raw_bytes: u64,
    /// Bytes of the snapshots made of them.
    stored_bytes: u64,
    /// Device memory taken.
    peak_device_bytes: u64,
    /// Host memory taken.
    peak_host_bytes: u64,
    /// Seconds between a FORWARD action and the next call.
    forward: f64,
    /// Seconds between a BACKWARD action and the next call.
    backward: f64,
    /// Seconds in save.
    save: f64,
    /// Seconds in retrieve.
    restore: f64,
    /// Seconds of compression.
    compress: f64,
    /// Seconds of decompression.
    decompress: f64,
    /// Seconds that the application's stream waited for gpuzip.
    stall: f64,
    /// Seconds that the host waited because it was too far ahead of the device.
    run_ahead_wait: f64,
}
