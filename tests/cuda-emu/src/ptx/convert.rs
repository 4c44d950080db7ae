//! Conversions between types: `cvt`.

use super::inst::{Round, Ty};

/// Converts a value of type `from` to type `to`.
pub fn convert(to: Ty, from: Ty, round: Round, value: u64) -> u64 {
    match (to.is_float(), from.is_float()) {
        (false, false) => to.cut(from.extend(value)),
        (true, false) => from_integer(to, from.extend(value), from.is_signed()),
        (false, true) => to_integer(to, from, rounded(number(from, value), round)),
        (true, true) if to == from => {
            let result = if round == Round::Exact {
                number(from, value)
            } else {
                rounded(number(from, value), round)
            };
            bits(to, result)
        }
        (true, true) => bits(to, number(from, value)),
    }
}

fn number(ty: Ty, value: u64) -> f64 {
    match ty {
        Ty::F32 => f32::from_bits(value as u32).into(),
        _ => f64::from_bits(value),
    }
}

/// Returns the bits of a number, rounded to the nearest of its type.
fn bits(ty: Ty, value: f64) -> u64 {
    match ty {
        Ty::F32 if value.is_nan() => 0x7FFF_FFFF,
        Ty::F32 => (value as f32).to_bits().into(),
        _ => value.to_bits(),
    }
}

fn rounded(value: f64, round: Round) -> f64 {
    match round {
        Round::Exact => value,
        Round::Nearest => value.round_ties_even(),
        Round::Zero => value.trunc(),
        Round::Down => value.floor(),
        Round::Up => value.ceil(),
    }
}

fn from_integer(to: Ty, value: u64, signed: bool) -> u64 {
    match (to, signed) {
        (Ty::F32, true) => (value as i64 as f32).to_bits().into(),
        (Ty::F32, false) => (value as f32).to_bits().into(),
        (_, true) => (value as i64 as f64).to_bits(),
        (_, false) => (value as f64).to_bits(),
    }
}

/// Converts to the nearest integer of the type. NaN becomes 0, or the smallest integer if the
/// conversion has 64 bits on one side.
fn to_integer(to: Ty, from: Ty, value: f64) -> u64 {
    if value.is_nan() {
        let wide = to.bytes() == 8 || from == Ty::F64;
        return if wide { 1 << (8 * to.bytes() - 1) } else { 0 };
    }
    match to {
        Ty::S8 => value as i8 as u8 as u64,
        Ty::S16 => value as i16 as u16 as u64,
        Ty::S32 => value as i32 as u32 as u64,
        Ty::S64 => value as i64 as u64,
        Ty::U8 => value as u8 as u64,
        Ty::U16 => value as u16 as u64,
        Ty::U32 => value as u32 as u64,
        _ => value as u64,
    }
}
