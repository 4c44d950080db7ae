//! The table of gpuzip's codecs. A row says what the rest of the library knows of a codec; the
//! files of the codec lie in the folder of its name.

use super::bfp::BlockFloat;
use super::bitcomp;
use super::coder::{Coder, SequenceCoder, Shape};
use super::cuszp;
use super::dct;
use super::fixed;
use super::fp16::Fp16;
use super::gpu::{fixed as on_gpu, GpuCoder, Kernels, Modules, Registered};
use super::lorenzo;
use super::lossless;
use super::plugin;
use super::zfp;
use crate::error::{fail, Result};
use crate::scalar::Scalar;
use std::mem::discriminant;

/// A codec with its parameter.
#[derive(Clone, Debug, PartialEq)]
pub enum Method {
    /// No codec; the values are stored raw.
    None,
    /// zfp (Lindstrom 2014) at a fixed rate; the payload is the stream that libzfp makes.
    Zfp {
        /// Bits per value.
        rate: u32,
    },
    /// NVIDIA Bitcomp, from an installed libnvcomp.
    Bitcomp {
        /// Bitcomp's algorithm for arrays with many zeros.
        sparse: bool,
    },
    /// cuSZp (Huang et al. 2023): its one-dimensional layout, with the outlier mode of cuSZp 2.
    Cuszp,
    /// Lorenzo prediction (Ibarria et al. 2003) of quantised values in tiles.
    Lorenzo,
    /// Discrete cosine transform of tiles.
    Dct,
    /// Scaled half precision.
    Fp16,
    /// Blocks of 8-bit integers with a common exponent.
    Bfp,
    /// Every bit: Lorenzo prediction of aligned significands in tiles.
    Lossless,
    /// A codec that the application registered, by its number: 64 and up.
    Plugin(u8),
}

/// A row of the table. The parameter that its functions take is `Method::parameter`.
pub struct Codec {
    /// The codec with the default of its parameter.
    pub method: Method,
    /// The value of the configuration key `compressor`, which is in the headers of streams too.
    pub number: u8,
    /// The name in configuration files and on the command line.
    pub name: &'static str,
    /// What the codec promises.
    keeps: Keeps,
    /// Returns the largest number of bytes of the payload of an array.
    most_bytes: fn(Shape, u32) -> Result<usize>,
    /// Makes the coder of the host.
    coder: fn(Shape, u32) -> Made<dyn Coder>,
    /// Makes the coder of the kernels, as `Method::gpu_coder` does.
    gpu_coder: fn(Shape, u32, bool, &mut Modules) -> Made<dyn GpuCoder>,
    /// The kernels.
    pub(super) kernels: &'static [Kernels],
}

/// What a codec promises of every array.
#[derive(Clone, Copy, PartialEq)]
enum Keeps {
    /// The size of the payload, which the shape alone determines.
    Size,
    /// An error bound. The size depends on the values.
    Bound {
        /// The place of the codec among those that `compressor = auto` tries.
        auto: u8,
    },
    /// Every bit. The size depends on the values.
    Bits,
}

/// A coder, or `None` for `Method::None`, which needs no coder.
type Made<C> = Result<Option<Box<C>>>;

/// gpuzip's own codecs in the order of their numbers.
pub const CODECS: &[Codec] = &[
    Codec {
        method: Method::None,
        number: 0,
        name: "none",
        keeps: Keeps::Size,
        most_bytes: |_, _| Ok(0),
        coder: |_, _| Ok(None),
        gpu_coder: |_, _, _, _| Ok(None),
        kernels: &[],
    },
    Codec {
        method: Method::Zfp { rate: 8 },
        number: 1,
        name: "zfp",
        keeps: Keeps::Size,
        most_bytes: zfp::most_bytes,
        coder: |shape, rate| zfp::coder(shape, rate).map(Some),
        gpu_coder: |shape, rate, _, modules| gpu(zfp::gpu::coder(shape, rate, modules)),
        kernels: &[zfp::gpu::KERNELS],
    },
    Codec {
        method: Method::Bitcomp { sparse: false },
        number: 2,
        name: "bitcomp",
        keeps: Keeps::Bound { auto: 3 },
        most_bytes: |shape, _| bitcomp::most_bytes(shape),
        coder: |shape, sparse| bitcomp::coder(shape, sparse as i32).map(Some),
        gpu_coder: |shape, sparse, rms, modules| {
            gpu(bitcomp::gpu::Bitcomp::new(shape, sparse as i32, rms, modules))
        },
        kernels: &[bitcomp::gpu::KERNELS],
    },
    Codec {
        method: Method::Cuszp,
        number: 3,
        name: "cuszp",
        keeps: Keeps::Bound { auto: 2 },
        most_bytes: |shape, _| cuszp::most_bytes(shape),
        coder: |shape, _| cuszp::coder(shape).map(Some),
        gpu_coder: |shape, _, _, modules| gpu(cuszp::gpu::Cuszp::new(shape, modules)),
        kernels: &[cuszp::gpu::KERNELS],
    },
    Codec {
        method: Method::Lorenzo,
        number: 4,
        name: "lorenzo",
        keeps: Keeps::Bound { auto: 0 },
        most_bytes: |shape, _| lorenzo::most_bytes(shape),
        coder: |shape, _| lorenzo::coder(shape).map(Some),
        gpu_coder: |shape, _, _, modules| gpu(lorenzo::gpu::Lorenzo::new(shape, modules)),
        kernels: &[lorenzo::gpu::KERNELS],
    },
    Codec {
        method: Method::Dct,
        number: 5,
        name: "dct",
        keeps: Keeps::Bound { auto: 1 },
        most_bytes: |shape, _| dct::most_bytes(shape),
        coder: |shape, _| dct::coder(shape).map(Some),
        gpu_coder: |shape, _, rms, modules| gpu(dct::gpu::Dct::new(shape, rms, modules)),
        kernels: &dct::gpu::KERNELS,
    },
    Codec {
        method: Method::Fp16,
        number: 6,
        name: "fp16",
        keeps: Keeps::Size,
        most_bytes: |shape, _| fixed::bytes::<Fp16>(shape),
        coder: |shape, _| fixed::coder::<Fp16>(shape).map(Some),
        gpu_coder: |shape, _, _, modules| gpu(on_gpu::fp16(shape, modules)),
        kernels: &[on_gpu::FP16],
    },
    Codec {
        method: Method::Bfp,
        number: 7,
        name: "bfp",
        keeps: Keeps::Size,
        most_bytes: |shape, _| fixed::bytes::<BlockFloat>(shape),
        coder: |shape, _| fixed::coder::<BlockFloat>(shape).map(Some),
        gpu_coder: |shape, _, _, modules| gpu(on_gpu::bfp(shape, modules)),
        kernels: &[on_gpu::BFP],
    },
    Codec {
        method: Method::Lossless,
        number: 8,
        name: "lossless",
        keeps: Keeps::Bits,
        most_bytes: |shape, _| lossless::most_bytes(shape),
        coder: |shape, _| lossless::coder(shape).map(Some),
        gpu_coder: |_, _, _, _| no_kernels("lossless"),
        kernels: &[],
    },
];

fn gpu(coder: Result<impl GpuCoder + 'static>) -> Made<dyn GpuCoder> {
    Ok(Some(Box::new(coder?)))
}

impl Method {
    /// Returns gpuzip's own codecs that keep an error bound, in the order in which
    /// `compressor = auto` tries them.
    pub fn bounded() -> Vec<Method> {
        let place = |row: &'static Codec| match row.keeps {
            Keeps::Bound { auto } => Some((auto, row.method.clone())),
            _ => None,
        };
        let mut rows: Vec<_> = CODECS.iter().filter_map(place).collect();
        rows.sort_by_key(|(place, _)| *place);
        rows.into_iter().map(|(_, method)| method).collect()
    }

    /// Returns the row of the codec, or the number of a registered codec as an error.
    fn row(&self) -> std::result::Result<&'static Codec, u8> {
        if let Method::Plugin(number) = self {
            return Err(*number);
        }
        let is_own = |row: &&Codec| discriminant(&row.method) == discriminant(self);
        Ok(CODECS.iter().find(is_own).expect("a row for every method"))
    }

    /// Returns the number of the codec, as in the configuration key `compressor`.
    pub fn number(&self) -> u8 {
        self.row().map_or_else(|number| number, |row| row.number)
    }

    /// Returns the name of the codec in configuration files and on the command line.
    pub fn name(&self) -> &'static str {
        self.row().map_or("registered", |row| row.name)
    }

    /// Returns the parameter that a decoder needs beside the payload; 0 for codecs without one.
    pub fn parameter(&self) -> u32 {
        match self {
            Method::Zfp { rate } => *rate,
            Method::Bitcomp { sparse } => *sparse as u32,
            _ => 0,
        }
    }

    /// Returns whether the codec keeps an error bound.
    pub fn is_bounded(&self) -> bool {
        self.row().map_or(true, |row| matches!(row.keeps, Keeps::Bound { .. }))
    }

    /// Returns whether the codec gives every bit back.
    pub fn is_lossless(&self) -> bool {
        self.row().is_ok_and(|row| row.keeps == Keeps::Bits)
    }

    /// Returns whether the shape of an array alone determines the size of its payload.
    pub fn has_fixed_size(&self) -> bool {
        self.row().is_ok_and(|row| row.keeps == Keeps::Size)
    }

    /// Returns whether values that `fill_value` names come back exactly: behind a mask, or without a loss.
    pub fn keeps_masked(&self) -> bool {
        *self == Method::None || self.is_bounded() || self.is_lossless()
    }

    /// Returns the codec with this number and the default of its parameter, or `None`.
    pub fn of_number(number: i32) -> Option<Self> {
        let number = u8::try_from(number).ok()?;
        let own = CODECS.iter().find(|row| row.number == number).map(|row| row.method.clone());
        own.or_else(|| plugin::of(number).map(|_| Method::Plugin(number)))
    }

    /// Returns the method that made a stream with this codec number and parameter in its header.
    pub fn of_stream(number: u8, parameter: u32) -> Result<Self> {
        match Method::of_number(number.into()) {
            Some(Method::Zfp { .. }) => Ok(Method::Zfp { rate: parameter }),
            Some(Method::Bitcomp { .. }) => Ok(Method::Bitcomp { sparse: parameter == 1 }),
            Some(method) => Ok(method),
            None => fail!(Stream, "codec {number} of a stream: not known here"),
        }
    }

    /// Returns why the codec cannot be used on this machine, or `None` if it can be used.
    pub fn missing(&self) -> Option<String> {
        self.coder(Shape { n: [64, 1, 1], scalar: Scalar::F32 }).err().map(|e| e.to_string())
    }

    /// Returns the largest number of bytes of the payload of an array of this shape; 0 for
    /// `Method::None`. Fails as `coder` does.
    pub fn most_bytes(&self, shape: Shape) -> Result<usize> {
        match self.row() {
            Ok(row) if row.number > 0 && !shape.scalar.is_coded() => shape.scalar.not_coded(),
            Ok(row) => (row.most_bytes)(shape, self.parameter()),
            Err(number) => Ok(plugin::coder(number, shape)?.max_bytes()),
        }
    }

    /// Makes a coder for arrays of one shape. Returns `None` for `Method::None`.
    pub fn coder(&self, shape: Shape) -> Result<Option<Box<dyn Coder>>> {
        match self.row() {
            Ok(row) => (row.coder)(shape, self.parameter()),
            Err(number) => plugin::coder(number, shape).map(Some),
        }
    }

    /// Whether several threads share the work on an array (`Coder::join`).
    pub fn is_shared_by_threads(&self) -> bool {
        matches!(self, Method::Dct)
    }

    /// Makes a coder with `frames` frames for sequences of arrays of one shape. Returns `None` for codecs that
    /// code every array by itself.
    pub fn sequence_coder(
        &self,
        shape: Shape,
        frames: usize,
    ) -> Result<Option<Box<dyn SequenceCoder>>> {
        match self {
            Method::Dct => dct::sequence_coder(shape, frames).map(Some),
            _ => Ok(None),
        }
    }

    /// Makes a coder of kernels for arrays of one shape, and loads the kernels into `modules`.
    /// `rms`: bounds limit the root mean square error. Returns `None` for `Method::None`.
    pub(super) fn gpu_coder(
        &self,
        shape: Shape,
        rms: bool,
        modules: &mut Modules,
    ) -> Result<Option<Box<dyn GpuCoder>>> {
        match self.row() {
            Ok(row) => (row.gpu_coder)(shape, self.parameter(), rms, modules),
            Err(number) => {
                let coder = plugin::device_coder(number, shape)?;
                gpu(Registered::new(coder, shape, rms, modules))
            }
        }
    }
}

/// Returns the error of a codec without kernels.
fn no_kernels<T>(name: &str) -> Result<T> {
    fail!(
        Unsupported,
        "compressor {name} has no kernels: use another one on CUDA, or the host backend"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_are_unique_and_lead_to_their_codec() {
        for (k, row) in CODECS.iter().enumerate() {
            assert_eq!((row.method.number(), row.method.name()), (row.number, row.name));
            assert_eq!(
                Method::of_number(row.number.into()),
                Some(row.method.clone()),
                "{}",
                row.name
            );
            assert!(row.number < plugin::FIRST, "{}", row.name);
            let later = &CODECS[k + 1..];
            assert!(later.iter().all(|b| row.number < b.number && row.name != b.name));
        }
        assert_eq!([-1, 15, 63, 255, 256].map(Method::of_number), [const { None }; 5]);
    }

    #[test]
    fn a_stream_leads_to_the_method_that_made_it() {
        let with = [Method::Zfp { rate: 13 }, Method::Bitcomp { sparse: true }];
        for method in CODECS.iter().map(|row| row.method.clone()).chain(with) {
            let found = Method::of_stream(method.number(), method.parameter());
            assert_eq!(found.unwrap(), method);
        }
        assert!(Method::of_stream(63, 0).is_err());
    }

    #[test]
    fn auto_tries_the_codecs_with_a_bound_in_their_order() {
        let names: Vec<_> = Method::bounded().iter().map(Method::name).collect();
        assert_eq!(names, ["lorenzo", "dct", "cuszp", "bitcomp"]);
        assert!(Method::bounded().iter().all(Method::is_bounded));
    }
}
