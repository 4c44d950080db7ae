//! Arithmetic on rows: one instruction for all its lanes. The results are those of PTX, bit for
//! bit, except for the payloads of FP64 NaNs, which PTX does not define.

use super::convert::convert;
use super::inst::*;

/// The bits of every FP32 NaN that an operation makes.
const NAN32: u64 = 0x7FFF_FFFF;

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
                4 => return self.integer32(inst, mask),
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

    fn float32(&mut self, inst: &Inst, mask: u32) -> bool {
        let f = |a: u64| f32::from_bits(a as u32);
        let bits = |x: f32| if x.is_nan() { NAN32 } else { u64::from(x.to_bits()) };
        match inst.op {
            Op::Add => self.two(inst, mask, |a, b| bits(f(a) + f(b))),
            Op::Sub => self.two(inst, mask, |a, b| bits(f(a) - f(b))),
            Op::MulLo => self.two(inst, mask, |a, b| bits(f(a) * f(b))),
            Op::Fma => self.three(inst, mask, |a, b, c| bits(f(a).mul_add(f(b), f(c)))),
            Op::Div => self.two(inst, mask, |a, b| bits(f(a) / f(b))),
            Op::Rcp => self.one(inst, mask, |a| bits(1.0 / f(a))),
            Op::Sqrt => self.one(inst, mask, |a| bits(f(a).sqrt())),
            Op::Neg => self.one(inst, mask, |a| a ^ 0x8000_0000),
            Op::Abs => self.one(inst, mask, |a| a & 0x7FFF_FFFF),
            Op::Min => self.two(inst, mask, |a, b| bits(least(f(a).into(), f(b).into()) as f32)),
            Op::Max => {
                self.two(inst, mask, |a, b| bits(-least(-f64::from(f(a)), -f64::from(f(b))) as f32))
            }
            _ => return false,
        }
        true
    }

    fn float64(&mut self, inst: &Inst, mask: u32) -> bool {
        let f = f64::from_bits;
        match inst.op {
            Op::Add => self.two(inst, mask, |a, b| (f(a) + f(b)).to_bits()),
            Op::Sub => self.two(inst, mask, |a, b| (f(a) - f(b)).to_bits()),
            Op::MulLo => self.two(inst, mask, |a, b| (f(a) * f(b)).to_bits()),
            Op::Fma => self.three(inst, mask, |a, b, c| f(a).mul_add(f(b), f(c)).to_bits()),
            Op::Div => self.two(inst, mask, |a, b| (f(a) / f(b)).to_bits()),
            Op::Rcp => self.one(inst, mask, |a| (1.0 / f(a)).to_bits()),
            Op::Sqrt => self.one(inst, mask, |a| f(a).sqrt().to_bits()),
            Op::Neg => self.one(inst, mask, |a| a ^ 1 << 63),
            Op::Abs => self.one(inst, mask, |a| a & !(1 << 63)),
            Op::Min => self.two(inst, mask, |a, b| least(f(a), f(b)).to_bits()),
            Op::Max => self.two(inst, mask, |a, b| (-least(-f(a), -f(b))).to_bits()),
            _ => return false,
        }
        true
    }

    fn integer16(&mut self, inst: &Inst, mask: u32) -> bool {
        let signed = inst.ty.is_signed();
        match inst.op {
            Op::Add => self.two(inst, mask, |a, b| a.wrapping_add(b) & 0xFFFF),
            Op::Sub => self.two(inst, mask, |a, b| a.wrapping_sub(b) & 0xFFFF),
            Op::MulLo => self.two(inst, mask, |a, b| a.wrapping_mul(b) & 0xFFFF),
            Op::MulWide if signed => self.two(inst, mask, |a, b| {
                u64::from((i32::from(a as i16) * i32::from(b as i16)) as u32)
            }),
            Op::MulWide => self.two(inst, mask, |a, b| a * b),
            Op::Shl => self.two(inst, mask, |a, b| if b > 15 { 0 } else { a << b & 0xFFFF }),
            Op::Shr if signed => {
                self.two(inst, mask, |a, b| u64::from((a as i16 >> b.min(15)) as u16))
            }
            Op::Shr => self.two(inst, mask, |a, b| if b > 15 { 0 } else { a >> b }),
            Op::Neg => self.one(inst, mask, |a| a.wrapping_neg() & 0xFFFF),
            Op::Min if signed => {
                self.two(inst, mask, |a, b| if (a as i16) < b as i16 { a } else { b })
            }
            Op::Max if signed => {
                self.two(inst, mask, |a, b| if a as i16 > b as i16 { a } else { b })
            }
            Op::Min => self.two(inst, mask, |a, b| a.min(b)),
            Op::Max => self.two(inst, mask, |a, b| a.max(b)),
            _ => return false,
        }
        true
    }

    fn integer32(&mut self, inst: &Inst, mask: u32) -> bool {
        let signed = inst.ty.is_signed();
        let u = |a: u32| u64::from(a);
        match inst.op {
            Op::Add => self.two(inst, mask, |a, b| u((a as u32).wrapping_add(b as u32))),
            Op::Sub => self.two(inst, mask, |a, b| u((a as u32).wrapping_sub(b as u32))),
            Op::MulLo => self.two(inst, mask, |a, b| u((a as u32).wrapping_mul(b as u32))),
            Op::MulHi if signed => {
                self.two(inst, mask, |a, b| u(((a as i32 as i64 * b as i32 as i64) >> 32) as u32))
            }
            Op::MulHi => self.two(inst, mask, |a, b| (a * b) >> 32),
            Op::MulWide if signed => {
                self.two(inst, mask, |a, b| (a as i32 as i64 * b as i32 as i64) as u64)
            }
            Op::MulWide => self.two(inst, mask, |a, b| a * b),
            Op::MadLo => self.three(inst, mask, |a, b, c| {
                u((a as u32).wrapping_mul(b as u32).wrapping_add(c as u32))
            }),
            Op::MadWide if signed => self.three(inst, mask, |a, b, c| {
                ((a as i32 as i64 * b as i32 as i64) as u64).wrapping_add(c)
            }),
            Op::MadWide => self.three(inst, mask, |a, b, c| (a * b).wrapping_add(c)),
            Op::Div if signed => self.two(inst, mask, |a, b| {
                u((a as i32).checked_div(b as i32).unwrap_or(if b == 0 { -1 } else { i32::MIN })
                    as u32)
            }),
            Op::Div => {
                self.two(inst, mask, |a, b| u((a as u32).checked_div(b as u32).unwrap_or(u32::MAX)))
            }
            Op::Rem if signed => {
                self.two(inst, mask, |a, b| u((a as i32).checked_rem(b as i32).unwrap_or(0) as u32))
            }
            Op::Rem => {
                self.two(inst, mask, |a, b| u((a as u32).checked_rem(b as u32).unwrap_or(a as u32)))
            }
            Op::Neg => self.one(inst, mask, |a| u((a as u32).wrapping_neg())),
            Op::Abs => self.one(inst, mask, |a| u((a as i32).wrapping_abs() as u32)),
            Op::Min if signed => self.two(inst, mask, |a, b| u((a as i32).min(b as i32) as u32)),
            Op::Max if signed => self.two(inst, mask, |a, b| u((a as i32).max(b as i32) as u32)),
            Op::Min => self.two(inst, mask, |a, b| a.min(b)),
            Op::Max => self.two(inst, mask, |a, b| a.max(b)),
            Op::Shl => self.two(inst, mask, |a, b| if b > 31 { 0 } else { u((a as u32) << b) }),
            Op::Shr if signed => self.two(inst, mask, |a, b| u((a as i32 >> b.min(31)) as u32)),
            Op::Shr => self.two(inst, mask, |a, b| if b > 31 { 0 } else { a >> b }),
            Op::Shf(left, clamped) => {
                let count = |c: u64| if clamped { c.min(32) } else { c & 31 };
                if left {
                    self.three(inst, mask, |a, b, c| ((b << 32 | a) << count(c)) >> 32);
                } else {
                    self.three(inst, mask, |a, b, c| u(((b << 32 | a) >> count(c)) as u32));
                }
            }
            Op::Prmt => self.three(inst, mask, |a, b, c| u(permute(a | b << 32, c))),
            Op::Lop3 => {
                let d = self.get(inst.s[3])[0];
                self.three(inst, mask, |a, b, c| u(any_logic(a, b, c, d)));
            }
            Op::Bfe => self.three(inst, mask, |a, b, c| u(extract(a, b, c, 32, signed) as u32)),
            Op::Bfi => self.insert(inst, mask, 32),
            Op::Bfind(amount) => self.one(inst, mask, |a| {
                let a = if signed && a as i32 <= -1 { u64::from(!(a as u32)) } else { a };
                u(found(63 - a.leading_zeros() as i32, 31, amount))
            }),
            Op::Popc => self.one(inst, mask, |a| u((a as u32).count_ones())),
            Op::Clz => self.one(inst, mask, |a| u((a as u32).leading_zeros())),
            Op::Brev => self.one(inst, mask, |a| u((a as u32).reverse_bits())),
            _ => return false,
        }
        true
    }

    fn integer64(&mut self, inst: &Inst, mask: u32) -> bool {
        let signed = inst.ty.is_signed();
        match inst.op {
            Op::Add => self.two(inst, mask, u64::wrapping_add),
            Op::Sub => self.two(inst, mask, u64::wrapping_sub),
            Op::MulLo => self.two(inst, mask, u64::wrapping_mul),
            Op::MulHi if signed => self.two(inst, mask, |a, b| {
                ((i128::from(a as i64) * i128::from(b as i64)) >> 64) as u64
            }),
            Op::MulHi => {
                self.two(inst, mask, |a, b| ((u128::from(a) * u128::from(b)) >> 64) as u64)
            }
            Op::MadLo => {
                self.three(inst, mask, |a, b, c| a.wrapping_mul(b).wrapping_add(c));
            }
            Op::Div if signed => self.two(inst, mask, |a, b| {
                (a as i64).checked_div(b as i64).unwrap_or(if b == 0 { -1 } else { i64::MIN })
                    as u64
            }),
            Op::Div => self.two(inst, mask, |a, b| a.checked_div(b).unwrap_or(u64::MAX)),
            Op::Rem if signed => {
                self.two(inst, mask, |a, b| (a as i64).checked_rem(b as i64).unwrap_or(0) as u64)
            }
            Op::Rem => self.two(inst, mask, |a, b| a.checked_rem(b).unwrap_or(a)),
            Op::Neg => self.one(inst, mask, u64::wrapping_neg),
            Op::Abs => self.one(inst, mask, |a| (a as i64).wrapping_abs() as u64),
            Op::Min if signed => self.two(inst, mask, |a, b| (a as i64).min(b as i64) as u64),
            Op::Max if signed => self.two(inst, mask, |a, b| (a as i64).max(b as i64) as u64),
            Op::Min => self.two(inst, mask, u64::min),
            Op::Max => self.two(inst, mask, u64::max),
            Op::Shl => self.two(inst, mask, |a, b| if b > 63 { 0 } else { a << b }),
            Op::Shr if signed => self.two(inst, mask, |a, b| (a as i64 >> b.min(63)) as u64),
            Op::Shr => self.two(inst, mask, |a, b| if b > 63 { 0 } else { a >> b }),
            Op::Bfe => self.three(inst, mask, |a, b, c| extract(a, b, c, 64, signed)),
            Op::Bfi => self.insert(inst, mask, 64),
            Op::Bfind(amount) => self.one(inst, mask, |a| {
                let a = if signed && (a as i64) < 0 { !a } else { a };
                u64::from(found(63 - a.leading_zeros() as i32, 63, amount))
            }),
            Op::Popc => self.one(inst, mask, |a| u64::from(a.count_ones())),
            Op::Clz => self.one(inst, mask, |a| u64::from(a.leading_zeros())),
            Op::Brev => self.one(inst, mask, u64::reverse_bits),
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

/// `lop3`: the function of three bits that a table of 8 bits gives.
fn any_logic(a: u64, b: u64, c: u64, table: u64) -> u32 {
    (0..8).filter(|i| table >> i & 1 == 1).fold(0, |all, i| {
        let part = |x: u64, bit: u32| if bit != 0 { x as u32 } else { !(x as u32) };
        all | part(a, i & 4) & part(b, i & 2) & part(c, i & 1)
    })
}

/// `bfe`: the `c` bits of `a` from bit `b` on, extended with zeros or with the sign.
fn extract(a: u64, b: u64, c: u64, width: u64, signed: bool) -> u64 {
    let (from, count) = (b & 0xFF, c & 0xFF);
    if count == 0 {
        return 0;
    }
    let a = if signed && width == 32 { a as i32 as i64 as u64 } else { a };
    let shifted = match (from > 63, signed) {
        (true, true) => (a as i64 >> 63) as u64,
        (true, false) => 0,
        (false, true) => (a as i64 >> from) as u64,
        (false, false) => a >> from,
    };
    if count >= 64 {
        return shifted;
    }
    // The sign is the highest bit of the field, or that of the number where the field ends behind
    // the number.
    let spare = 64 - count;
    if signed {
        ((shifted << spare) as i64 >> spare) as u64
    } else {
        shifted << spare >> spare
    }
}

/// `bfind`: the place of a bit, or how far it is from the highest place; -1 if there is no bit.
fn found(place: i32, highest: i32, amount: bool) -> u32 {
    match place {
        -1 => u32::MAX,
        _ if amount => (highest - place) as u32,
        _ => place as u32,
    }
}
