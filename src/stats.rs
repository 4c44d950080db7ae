//! The statistics of a session: counts, bytes and seconds of one shot.

/// Most that a count can be: no shot reaches this number, and a shot that goes on from a restart
/// file can add to it.
const MOST: u64 = 1 << 62;

/// A statistic as a number of 64 bits.
trait Word: Sized {
    fn word(&self) -> u64;
    /// Returns the statistic; `None` if no shot can have it.
    fn of_word(word: u64) -> Option<Self>;
}

impl Word for u64 {
    fn word(&self) -> u64 {
        *self
    }

    fn of_word(word: u64) -> Option<Self> {
        (word <= MOST).then_some(word)
    }
}

impl Word for f64 {
    fn word(&self) -> u64 {
        self.to_bits()
    }

    fn of_word(word: u64) -> Option<Self> {
        Some(f64::from_bits(word)).filter(|seconds| seconds.is_finite())
    }
}

macro_rules! stats {
    ($($(#[doc = $doc:literal])* $name:ident: $kind:ty,)*) => {
        /// Statistics of one shot. The names are those of the C ABI.
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct Stats {
            $($(#[doc = $doc])* pub $name: $kind,)*
        }

        impl Stats {
            /// Returns every statistic as a number of 64 bits: counts as they are, seconds as the
            /// bits of the floating-point number.
            pub fn words(&self) -> Vec<u64> {
                vec![$(self.$name.word()),*]
            }

            /// Returns the statistics of these numbers; missing ones are 0. `None` if no shot can
            /// have one of them: the numbers may be those of any file.
            pub fn of_words(words: &[u64]) -> Option<Self> {
                let mut words = words.iter().copied();
                Some(Stats { $($name: <$kind>::of_word(words.next().unwrap_or(0))?,)* })
            }

            /// Returns the name and the value, as text, of every statistic.
            pub fn columns(&self) -> Vec<(&'static str, String)> {
                vec![$((stringify!($name), self.$name.to_string())),*]
            }
        }
    };
}

stats! {
    /// Number of time steps of FORWARD actions.
    forward_steps: u64,
    /// Number of SAVE actions.
    saves: u64,
    /// Number of RESTORE actions.
    restores: u64,
    /// Number of BACKWARD actions.
    backward_steps: u64,
    /// Restores whose snapshot was in the device cache, without a transfer.
    hits: u64,
    /// Restores that needed a transfer from the host.
    misses: u64,
    /// Transfers issued before their restore.
    prefetches: u64,
    /// Prefetches that had not ended when their restore came.
    late_prefetches: u64,
    /// Number of transfers from host to device memory.
    h2d: u64,
    /// Number of transfers from device to host memory.
    d2h: u64,
    /// Bytes transferred from host to device memory.
    h2d_bytes: u64,
    /// Bytes transferred from device to host memory.
    d2h_bytes: u64,
    /// Bytes written to and read from disk.
    disk_bytes: u64,
    /// Snapshots read from disk.
    disk_reads: u64,
    /// Snapshots written to disk.
    disk_writes: u64,
    /// Saves whose snapshot was not written to the host, because no restore reads it there.
    write_backs_avoided: u64,
    /// Bytes of the saved fields.
    raw_bytes: u64,
    /// Bytes of the snapshots of these fields.
    stored_bytes: u64,
    /// Most bytes of device memory that were in use.
    peak_device_bytes: u64,
    /// Most bytes of host memory that were in use.
    peak_host_bytes: u64,
    /// Seconds from a FORWARD action to the next action.
    forward: f64,
    /// Seconds from a BACKWARD action to the next action.
    backward: f64,
    /// Seconds that the host spent in save calls.
    save: f64,
    /// Seconds that the host spent in retrieve calls.
    restore: f64,
    /// Seconds of compression on the application's stream.
    compress: f64,
    /// Seconds of decompression on the application's stream.
    decompress: f64,
    /// Seconds that the application's stream waited for gpuzip.
    stall: f64,
    /// Seconds that the host waited because it was `max_in_flight` actions ahead of the device.
    run_ahead_wait: f64,
    /// Number of generations of restart files that this session wrote.
    generations: u64,
    /// Bytes of these generations.
    persist_bytes: u64,
    /// Seconds that the application waited for these generations.
    persist: f64,
}
