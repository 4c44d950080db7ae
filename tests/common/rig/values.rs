//! Fields of values of many characters.

use gpuzip::scalar::Scalar;

/// The character of a field's values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    Smooth,
    Wave,
    Noise,
    Constant,
    Zeros,
    Sparse,
    Huge,
    Tiny,
    Mixed,
    NotFinite,
    Bits,
    Spike,
}

pub const KINDS: [Kind; 12] = [
    Kind::Smooth,
    Kind::Wave,
    Kind::Noise,
    Kind::Constant,
    Kind::Zeros,
    Kind::Sparse,
    Kind::Huge,
    Kind::Tiny,
    Kind::Mixed,
    Kind::NotFinite,
    Kind::Bits,
    Kind::Spike,
];

pub struct Draw(u64);

impl Draw {
    pub fn new(seed: u64) -> Self {
        Draw(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let x = self.0 ^ (self.0 >> 33);
        x.wrapping_mul(0xff51_afd7_ed55_8ccd) ^ (x >> 29)
    }

    /// A random value in -1..1.
    pub fn value(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }
}

/// The bytes of one field's values in FP64 or FP32; `level` is the number of the time level.
pub fn values(kind: Kind, n: [u64; 3], scalar: Scalar, level: f64, draw: &mut Draw) -> Vec<u8> {
    let single = scalar == Scalar::F32;
    let most = if single { 3e38 } else { 1.7e308 };
    let count = n[0] * n[1] * n[2];
    let (phase, scale) = (draw.value(), 10f64.powf(3.0 * draw.value()));
    let mut bytes = Vec::new();
    for i in 0..count {
        let (x, y, z) = ((i % n[0]) as f64, (i / n[0] % n[1]) as f64, (i / n[0] / n[1]) as f64);
        let smooth = ((x + 0.3 * level) / 5.0 + phase).sin()
            + 0.7 * (y / 4.0 - 0.2 * level).cos() * (z / 6.0).sin();
        let v = match kind {
            Kind::Smooth => smooth * scale,
            Kind::Wave => {
                let r = ((x - n[0] as f64 / 2.0).powi(2)
                    + (y - n[1] as f64 / 2.0).powi(2)
                    + (z - n[2] as f64 / 2.0).powi(2))
                .sqrt();
                let a = r - 6.0 - level;
                if a > 3.0 {
                    0.0
                } else {
                    (1.0 - a * a / 3.0) * (-a * a / 5.0).exp() * scale
                }
            }
            Kind::Noise => draw.value() * scale,
            Kind::Constant => 0.1 + phase,
            Kind::Zeros => [0.0, -0.0][(draw.bits() >> 40) as usize & 1],
            Kind::Sparse => {
                if draw.bits() >> 59 == 0 {
                    draw.value()
                } else {
                    0.0
                }
            }
            Kind::Huge => draw.value() * most,
            Kind::Tiny => draw.value() * if single { 1e-38 } else { 1e-307 },
            Kind::Mixed => draw.value() * 10f64.powf(30.0 * draw.value()),
            Kind::NotFinite if draw.bits() >> 58 == 0 => {
                [f64::NAN, f64::INFINITY, f64::NEG_INFINITY][(draw.bits() >> 40) as usize % 3]
            }
            Kind::NotFinite => smooth,
            Kind::Bits => 0.0,
            Kind::Spike => {
                if i == count / 2 {
                    1e4 * scale
                } else {
                    smooth * scale
                }
            }
        };
        match (kind, scalar) {
            (Kind::Bits, Scalar::F32) => bytes.extend((draw.bits() as u32).to_le_bytes()),
            (Kind::Bits, Scalar::F64) => bytes.extend(draw.bits().to_le_bytes()),
            (_, Scalar::F32) => bytes.extend((v as f32).to_le_bytes()),
            (_, Scalar::F64) => bytes.extend(v.to_le_bytes()),
            (_, other) => panic!("{}: codecs have no such values", other.name()),
        }
    }
    bytes
}
