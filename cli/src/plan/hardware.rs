//! Hardware by name: speeds that the makers publish.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use gpuzip::predict::Profile;

/// A GPU, with the peak bandwidth of its memory.
#[derive(Debug)]
pub struct Gpu {
    pub name: &'static str,
    memory_gbs: f64,
    link_gbs: f64,
    pub source: &'static str,
}

/// GB/s of each direction of 16 lanes of PCIe that copies of large blocks reach: four fifths of the peak,
/// which is 15.75 GB/s for PCIe 3 and twice as much for each generation. nvbandwidth measured 24.8 GB/s on
/// an A100 behind PCIe 4 (NVIDIA developer forum, thread 352186).
const PCIE3: f64 = 12.5;
const PCIE4: f64 = 25.0;
const PCIE5: f64 = 50.0;

static GPUS: [Gpu; 4] = [
    Gpu {
        name: "v100-32",
        memory_gbs: 900.0,
        link_gbs: PCIE3,
        source: "memory at 900 GB/s (NVIDIA V100 data sheet), 16 lanes of PCIe 3",
    },
    Gpu {
        name: "a100-40",
        memory_gbs: A100,
        link_gbs: PCIE4,
        source: "memory at 1555 GB/s (NVIDIA A100 data sheet, 40 GB), 16 lanes of PCIe 4",
    },
    Gpu {
        name: "a100-80",
        memory_gbs: 2039.0,
        link_gbs: PCIE4,
        source: "memory at 2039 GB/s (NVIDIA A100 data sheet, 80 GB SXM), 16 lanes of PCIe 4",
    },
    Gpu {
        name: "h100-80",
        memory_gbs: 3350.0,
        link_gbs: PCIE5,
        source: "memory at 3350 GB/s (NVIDIA H100 data sheet, SXM), 16 lanes of PCIe 5",
    },
];

/// GB/s of the memory of the A100 that the library's assumed speeds are those of.
const A100: f64 = 1555.0;

impl Gpu {
    /// The assumed profile of an application on this GPU. Steps and copies within the device are as fast
    /// as the memory.
    pub fn profile(&self, state_bytes: u64) -> Profile {
        let typical = Profile::typical_gpu(state_bytes);
        let faster = self.memory_gbs / A100;
        Profile {
            forward_ms: typical.forward_ms / faster,
            backward_ms: typical.backward_ms / faster,
            d2d_gbs: typical.d2d_gbs * faster,
            h2d_gbs: self.link_gbs,
            d2h_gbs: self.link_gbs,
            ..typical
        }
    }
}

/// Parses the name of a GPU.
pub fn gpus() -> impl TypedValueParser<Value = &'static Gpu> {
    PossibleValuesParser::new(GPUS.iter().map(|gpu| gpu.name))
        .map(|name| GPUS.iter().find(|gpu| gpu.name == name).unwrap_or(&GPUS[0]))
}

/// GB/s of reading and of writing one NVMe drive, and their source.
pub const NVME: (f64, f64) = (6.5, 3.5);
pub const NVME_SOURCE: &str =
    "6.5 and 3.5 GB/s a drive (Samsung's figures for the PM9A3, U.2, PCIe 4, May 2020)";
