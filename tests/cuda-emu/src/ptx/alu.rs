//! Arithmetic on rows: one instruction for all its lanes. The results are those of PTX, bit for
//! bit, except for the payloads of FP64 NaNs, which PTX does not define.

use super::convert::convert;
use super::inst::*;

/// The bits of every FP32 NaN that an operation makes.
const NAN32: u64 = 0x7FFF_FFFF;

/// Defines a function that runs an instruction of numbers of the type `$F`, which `$f` makes of the
/// bits of a register, and `$bits` makes bits of again. The function returns false if there is no such
/// instruction.
macro_rules! floats {
    ($name:ident, $F:ty, $f:expr, $bits:expr) => {
        fn $name(&mut self, inst: &Inst, mask: u32) -> bool {
            const SIGN: u64 = 1 << (8 * size_of::<$F>() - 1);
            let (f, bits) = ($f, $bits);
            let wide = |a: u64| f64::from(f(a));
            match inst.op {
                Op::Add => self.two(inst, mask, |a, b| bits(f(a) + f(b))),
                Op::Sub => self.two(inst, mask, |a, b| bits(f(a) - f(b))),
                Op::MulLo => self.two(inst, mask, |a, b| bits(f(a) * f(b))),
                Op::Fma => self.three(inst, mask, |a, b, c| bits(f(a).mul_add(f(b), f(c)))),
                Op::Div => self.two(inst, mask, |a, b| bits(f(a) / f(b))),
                Op::Rcp => self.one(inst, mask, |a| bits(1.0 / f(a))),
                Op::Sqrt => self.one(inst, mask, |a| bits(f(a).sqrt())),
                Op::Neg => self.one(inst, mask, |a| a ^ SIGN),
                Op::Abs => self.one(inst, mask, |a| a & (SIGN - 1)),
                Op::Min => self.two(inst, mask, |a, b| bits(least(wide(a), wide(b)) as $F)),
                Op::Max => self.two(inst, mask, |a, b| bits(-least(-wide(a), -wide(b)) as $F)),
                _ => return false,
            }
            true
        }
    };
}

/// Defines a function that runs an instruction of integers of the types `$U` and `$S`, whose products
/// have the types `$UU` and `$SS`. The function returns false if there is no such instruction.
macro_rules! integers {
    ($name:ident, $U:ty, $S:ty, $UU:ty, $SS:ty) => {
        fn $name(&mut self, inst: &Inst, mask: u32) -> bool {
            const BITS: u32 = <$U>::BITS;
            let signed = inst.ty.is_signed();
            let (u, s) = (|a: u64| a as $U, |a: u64| a as $S);
            // The bits of a signed result, extended with zeros.
            let bits = |a: $S| a as $U as u64;
            let product = |a: u64, b: u64| match signed {
                true => (a as $S as $SS * b as $S as $SS) as $UU,
                false => a as $U as $UU * b as $U as $UU,
            };
            match inst.op {
                Op::MulWide | Op::MadWide if BITS == 64 => return false,
                Op::Bfi | Op::Bfind(_) | Op::Popc | Op::Clz | Op::Brev if BITS == 16 => {
                    return false
                }
                Op::Add => self.two(inst, mask, |a, b| u(a).wrapping_add(u(b)) as u64),
                Op::Sub => self.two(inst, mask, |a, b| u(a).wrapping_sub(u(b)) as u64),
                Op::MulLo => self.two(inst, mask, |a, b| u(a).wrapping_mul(u(b)) as u64),
                Op::MulHi => self.two(inst, mask, |a, b| (product(a, b) >> BITS) as $U as u64),
                Op::MulWide => self.two(inst, mask, |a, b| product(a, b) as u64),
                Op::MadLo => self
                    .three(inst, mask, |a, b, c| u(a).wrapping_mul(u(b)).wrapping_add(u(c)) as u64),
                Op::MadWide => {
                    self.three(inst, mask, |a, b, c| product(a, b).wrapping_add(c as $UU) as u64)
                }
                Op::Div if signed => self.two(inst, mask, |a, b| {
                    let otherwise = if b == 0 { -1 } else { <$S>::MIN };
                    bits(s(a).checked_div(s(b)).unwrap_or(otherwise))
                }),
                Op::Div => {
                    self.two(inst, mask, |a, b| u(a).checked_div(u(b)).unwrap_or(<$U>::MAX) as u64)
                }
                Op::Rem if signed => {
                    self.two(inst, mask, |a, b| bits(s(a).checked_rem(s(b)).unwrap_or(0)))
                }
                Op::Rem => {
                    self.two(inst, mask, |a, b| u(a).checked_rem(u(b)).unwrap_or(u(a)) as u64)
                }
                Op::Neg => self.one(inst, mask, |a| u(a).wrapping_neg() as u64),
                Op::Abs => self.one(inst, mask, |a| bits(s(a).wrapping_abs())),
                Op::Min if signed => self.two(inst, mask, |a, b| bits(s(a).min(s(b)))),
                Op::Max if signed => self.two(inst, mask, |a, b| bits(s(a).max(s(b)))),
                Op::Min => self.two(inst, mask, u64::min),
                Op::Max => self.two(inst, mask, u64::max),
                Op::Shl => self.two(inst, mask, |a, b| match b < BITS.into() {
                    true => (u(a) << b) as u64,
                    false => 0,
                }),
                Op::Shr if signed => {
                    self.two(inst, mask, |a, b| bits(s(a) >> b.min(u64::from(BITS) - 1)))
                }
                Op::Shr => self.two(inst, mask, |a, b| if b < BITS.into() { a >> b } else { 0 }),
                Op::Bfi => self.insert(inst, mask, BITS.into()),
                Op::Bfind(amount) => self.one(inst, mask, |a| {
                    let a = if signed && s(a) < 0 { !u(a) } else { u(a) };
                    let highest = BITS as i32 - 1;
                    found(highest - a.leading_zeros() as i32, highest, amount).into()
                }),
                Op::Popc => self.one(inst, mask, |a| u(a).count_ones().into()),
                Op::Clz => self.one(inst, mask, |a| u(a).leading_zeros().into()),
                Op::Brev => self.one(inst, mask, |a| u(a).reverse_bits() as u64),
                _ => return false,
            }
            true
        }
    };
}

/// The registers of a warp: rows, and the constants of its kernel behind them.
pub struct Registers<'a> {
    /// The rows of the registers.
    pub rows: &'a mut [Row],
    /// The rows of the constants.
    pub constants: &'a [Row],
}

impl Registers<'_> {
    /// Returns a copy of a row.
    #[inline]
    pub fn get(&self, row: u32) -> Row {
        let row = row as usize;
        match self.rows.get(row) {
            Some(found) => *found,
            None => self.constants[row - self.rows.len()],
        }
    }

    /// Returns the value of one lane.
    #[inline]
    pub fn lane(&self, row: u32, lane: usize) -> u64 {
        let row = row as usize;
        match self.rows.get(row) {
            Some(found) => found[lane],
            None => self.constants[row - self.rows.len()][lane],
        }
    }

    /// Sets the value of one lane.
    #[inline]
    pub fn set(&mut self, row: u32, lane: usize, value: u64) {
        if row != NONE {
            self.rows[row as usize][lane] = value;
        }
    }

    /// Returns the lanes among `mask` where the predicate `row` is true.
    #[inline]
    pub fn lanes_where(&self, row: u32, mask: u32) -> u32 {
        let row = &self.rows[row as usize];
        let mut found = 0;
        for (lane, value) in row.iter().enumerate() {
            found |= (*value as u32 & 1) << lane;
        }
        found & mask
    }

    #[inline(always)]
    fn one(&mut self, inst: &Inst, mask: u32, f: impl Fn(u64) -> u64) {
        let a = self.get(inst.s[0]);
        self.put(inst.d[0], mask, |lane| f(a[lane]));
    }

    #[inline(always)]
    fn two(&mut self, inst: &Inst, mask: u32, f: impl Fn(u64, u64) -> u64) {
        let (a, b) = (self.get(inst.s[0]), self.get(inst.s[1]));
        self.put(inst.d[0], mask, |lane| f(a[lane], b[lane]));
    }

    #[inline(always)]
    fn three(&mut self, inst: &Inst, mask: u32, f: impl Fn(u64, u64, u64) -> u64) {
        let (a, b, c) = (self.get(inst.s[0]), self.get(inst.s[1]), self.get(inst.s[2]));
        self.put(inst.d[0], mask, |lane| f(a[lane], b[lane], c[lane]));
    }

    #[inline(always)]
    fn put(&mut self, row: u32, mask: u32, f: impl Fn(usize) -> u64) {
        let row = &mut self.rows[row as usize];
        if mask == ALL {
            for (lane, to) in row.iter_mut().enumerate() {
                *to = f(lane);
            }
        } else {
            let mut left = mask;
            while left != 0 {
                let lane = left.trailing_zeros() as usize;
                row[lane] = f(lane);
                left &= left - 1;
            }
        }
    }

    /// Runs an arithmetic instruction in the lanes of `mask`. Returns false if the instruction is
    /// of another kind, or does not exist for its type.
    pub fn execute(&mut self, inst: &Inst, mask: u32) -> bool {
        match inst.ty {
            Ty::F32 if self.float32(inst, mask) => return true,
            Ty::F64 if self.float64(inst, mask) => return true,
            _ => {}
        }
        match inst.op {
            Op::Mov => self.one(inst, mask, |a| a),
            Op::Pack => {
                let bits = inst.ty.bytes() * 4;
                self.two(inst, mask, |a, b| a | b << bits);
            }
            Op::Unpack => {
                let bits = inst.ty.bytes() * 4;
                let a = self.get(inst.s[0]);
                for (row, shift) in [(inst.d[0], 0), (inst.d[1], bits)] {
                    if row != NONE {
                        self.put(row, mask, |lane| a[lane] >> shift & ((1 << bits) - 1));
                    }
                }
            }
            Op::Selp => self.three(inst, mask, |a, b, p| if p != 0 { a } else { b }),
            Op::Cvta(offset) => self.one(inst, mask, |a| a.wrapping_add(offset)),
            Op::Cvt(from, round) => {
                let to = inst.ty;
                self.one(inst, mask, |a| convert(to, from, round, a));
            }
            Op::And => self.two(inst, mask, |a, b| a & b),
            Op::Or => self.two(inst, mask, |a, b| a | b),
            Op::Xor => self.two(inst, mask, |a, b| a ^ b),
            Op::Not => {
                let ty = inst.ty;
                self.one(inst, mask, |a| ty.cut(!a));
            }
            Op::Setp(compare, unordered) => self.compare(inst, mask, compare, unordered),
            _ => match inst.ty.bytes() {
                2 => return self.integer16(inst, mask),
                4 => return self.word(inst, mask) || self.integer32(inst, mask),
                8 => return self.integer64(inst, mask),
                _ => return false,
            },
        }
        true
    }

    fn compare(&mut self, inst: &Inst, mask: u32, compare: Compare, unordered: bool) {
        macro_rules! with {
            ($read:expr) => {{
                let read = $read;
                match compare {
                    Compare::Eq => self.two(inst, mask, |a, b| (read(a) == read(b)) as u64),
                    Compare::Ne => self.two(inst, mask, |a, b| (read(a) != read(b)) as u64),
                    Compare::Lt => self.two(inst, mask, |a, b| (read(a) < read(b)) as u64),
                    Compare::Le => self.two(inst, mask, |a, b| (read(a) <= read(b)) as u64),
                    Compare::Gt => self.two(inst, mask, |a, b| (read(a) > read(b)) as u64),
                    Compare::Ge => self.two(inst, mask, |a, b| (read(a) >= read(b)) as u64),
                    Compare::Num | Compare::Nan => self.two(inst, mask, |_, _| 1),
                }
            }};
        }
        match inst.ty {
            Ty::S16 => with!(|a: u64| a as i16),
            Ty::S32 => with!(|a: u64| a as i32),
            Ty::S64 => with!(|a: u64| a as i64),
            Ty::F32 => {
                let f = |a: u64| f64::from(f32::from_bits(a as u32));
                self.two(inst, mask, |a, b| float_compare(compare, unordered, f(a), f(b)));
            }
            Ty::F64 => self.two(inst, mask, |a, b| {
                float_compare(compare, unordered, f64::from_bits(a), f64::from_bits(b))
            }),
            _ => with!(|a: u64| a),
        }
    }

    floats!(float32, f32, |a: u64| f32::from_bits(a as u32), |x: f32| {
        if x.is_nan() {
            NAN32
        } else {
            u64::from(x.to_bits())
        }
    });
    floats!(float64, f64, f64::from_bits, f64::to_bits);

    integers!(integer16, u16, i16, u32, i32);
    integers!(integer32, u32, i32, u64, i64);
    integers!(integer64, u64, i64, u128, i128);

    /// Runs the instructions that only exist for 32 bits.
    fn word(&mut self, inst: &Inst, mask: u32) -> bool {
        match inst.op {
            Op::Shf(left, clamped) => {
                let count = |c: u64| if clamped { c.min(32) } else { c & 31 };
                if left {
                    self.three(inst, mask, |a, b, c| ((b << 32 | a) << count(c)) >> 32);
                } else {
                    self.three(inst, mask, |a, b, c| ((b << 32 | a) >> count(c)) as u32 as u64);
                }
            }
            Op::Prmt => self.three(inst, mask, |a, b, c| permute(a | b << 32, c).into()),
            _ => return false,
        }
        true
    }

    fn insert(&mut self, inst: &Inst, mask: u32, width: u64) {
        let length = self.get(inst.s[3]);
        let (a, b, c) = (self.get(inst.s[0]), self.get(inst.s[1]), self.get(inst.s[2]));
        self.put(inst.d[0], mask, |lane| {
            let (from, count) = (c[lane] & 0xFF, (length[lane] & 0xFF).min(width));
            if from >= width || count == 0 {
                return b[lane];
            }
            let field = (u64::MAX >> (64 - count)) << from & u64::MAX >> (64 - width);
            b[lane] & !field | a[lane] << from & field
        });
    }
}

fn float_compare(compare: Compare, unordered: bool, a: f64, b: f64) -> u64 {
    let nan = a.is_nan() || b.is_nan();
    let result = match compare {
        Compare::Num => return !nan as u64,
        Compare::Nan => return nan as u64,
        _ if nan => unordered,
        Compare::Eq => a == b,
        Compare::Ne => a != b,
        Compare::Lt => a < b,
        Compare::Le => a <= b,
        Compare::Gt => a > b,
        Compare::Ge => a >= b,
    };
    result as u64
}

/// Returns the smaller number; -0 is smaller than 0, and a number is preferred to NaN.
fn least(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() {
        return if a.is_nan() { b } else { a };
    }
    if a < b || a == b && a.is_sign_negative() {
        a
    } else {
        b
    }
}

/// `prmt`: each nibble of `selector` chooses a byte of `bytes`; its highest bit repeats the sign of
/// the byte.
fn permute(bytes: u64, selector: u64) -> u32 {
    (0..4).fold(0, |all, i| {
        let nibble = selector >> (4 * i) & 15;
        let byte = (bytes >> (8 * (nibble & 7))) as u8;
        let byte = if nibble & 8 == 0 { byte } else { (byte as i8 >> 7) as u8 };
        all | u32::from(byte) << (8 * i)
    })
}

/// `bfind`: the place of a bit, or how far it is from the highest place; -1 if there is no bit.
fn found(place: i32, highest: i32, amount: bool) -> u32 {
    match place {
        -1 => u32::MAX,
        _ if amount => (highest - place) as u32,
        _ => place as u32,
    }
}
