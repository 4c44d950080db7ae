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
    ($dollar:tt $($name:ident: $kind:ty,)*) => {
        /// Statistics of one shot. `gpuzip_stats_t` of the C ABI has the same names and describes each.
        #[derive(Clone, Debug, Default, PartialEq)]
        #[allow(missing_docs)]
        pub struct Stats {
            $(pub $name: $kind,)*
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

        /// Makes a struct of another type that has the fields of `Stats` among its own: those of the
        /// statistics `$stats`, and the others as given.
        macro_rules! with_stats {
            ($dollar stats:expr, $dollar other:ident { $dollar($dollar rest:tt)* }) => {
                $dollar other { $($name: $dollar stats.$name,)* $dollar($dollar rest)* }
            };
        }
        pub(crate) use with_stats;
    };
}

// In this order the statistics are in restart files and in the performance log.
stats! { $
    forward_steps: u64,
    saves: u64,
    restores: u64,
    backward_steps: u64,
    hits: u64,
    misses: u64,
    prefetches: u64,
    late_prefetches: u64,
    h2d: u64,
    d2h: u64,
    h2d_bytes: u64,
    d2h_bytes: u64,
    disk_bytes: u64,
    disk_reads: u64,
    disk_writes: u64,
    write_backs_avoided: u64,
    raw_bytes: u64,
    stored_bytes: u64,
    peak_device_bytes: u64,
    peak_host_bytes: u64,
    forward: f64,
    backward: f64,
    save: f64,
    restore: f64,
    compress: f64,
    decompress: f64,
    stall: f64,
    run_ahead_wait: f64,
    generations: u64,
    persist_bytes: u64,
    persist_held_bytes: u64,
    persist: f64,
}
