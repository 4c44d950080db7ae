//! Files of NumPy (`.npy`), format 1.0: a header that tells type and extents, then the values
//! (numpy.lib.format).

use crate::scalar::Scalar;

/// The header, with all that stands before the values, has a multiple of so many bytes.
const ALIGNMENT: usize = 64;

/// Returns extents as NumPy orders them: the fastest one last, without dimensions that are not used.
pub fn shape(n: [u64; 3]) -> Vec<u64> {
    let used = n.iter().rposition(|n| *n > 1).map_or(1, |last| last + 1);
    n[..used].iter().rev().copied().collect()
}

/// Returns a name as the beginning of a file's name: letters, digits, `-`, `_` and `.` stay, and other
/// characters become `-`. No file's name begins with `-` or `.`: it gets a `_` before them.
pub fn file_name(name: &str) -> String {
    let plain = |c: char| if c.is_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    let mut name: String = name.chars().map(plain).collect();
    if name.starts_with(['-', '.']) {
        name.insert(0, '_');
    }
    name
}

/// Returns NumPy's name of a type of values, in the byte order of this machine.
pub fn descriptor(scalar: Scalar) -> String {
    let kind = match scalar {
        Scalar::F32 | Scalar::F64 => 'f',
        Scalar::I8 | Scalar::I16 | Scalar::I32 | Scalar::I64 => 'i',
        Scalar::ComplexF32 | Scalar::ComplexF64 => 'c',
        Scalar::Byte => 'u',
    };
    let order = match scalar.bytes() {
        1 => '|',
        _ if cfg!(target_endian = "big") => '>',
        _ => '<',
    };
    format!("{order}{kind}{}", scalar.bytes())
}

/// Returns what stands before the values of an array whose extents are `n`, the fastest one first.
pub fn header(scalar: Scalar, n: [u64; 3]) -> Vec<u8> {
    let extents: Vec<String> = shape(n).iter().map(u64::to_string).collect();
    // A tuple of one number has a comma, too.
    let (shape, comma) = (extents.join(", "), if extents.len() == 1 { "," } else { "" });
    let descr = descriptor(scalar);
    let text =
        format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({shape}{comma}), }}");
    // Mark, version 1.0 and the length of the text, which spaces and an end of line fill up.
    let begin = b"\x93NUMPY\x01\x00";
    let length = (begin.len() + 2 + text.len() + 1).next_multiple_of(ALIGNMENT) - begin.len() - 2;
    let mut bytes = begin.to_vec();
    bytes.extend((length as u16).to_le_bytes());
    bytes.extend(format!("{text:width$}\n", width = length - 1).bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_stay_in_their_folder() {
        for (name, expected) in [
            ("u", "u"),
            ("v_x.2", "v_x.2"),
            ("../a b", "_..-a-b"),
            ("-x", "_-x"),
            ("\u{e9}ch\n", "\u{e9}ch-"),
        ] {
            assert_eq!(file_name(name), expected);
        }
    }

    /// The bytes that numpy.save of NumPy 2 writes before the values of these arrays.
    #[test]
    fn headers_have_the_bytes_of_numpy() {
        let of = |text: &str| {
            let begin: &[u8] = b"\x93NUMPY\x01\x00\x76\x00";
            [begin, format!("{text:117}\n").as_bytes()].concat()
        };
        for (scalar, n, text) in [
            (Scalar::F32, [4, 3, 1], "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }"),
            (Scalar::F64, [5, 1, 1], "{'descr': '<f8', 'fortran_order': False, 'shape': (5,), }"),
            (Scalar::Byte, [1, 1, 1], "{'descr': '|u1', 'fortran_order': False, 'shape': (1,), }"),
            (
                Scalar::ComplexF32,
                [1, 1, 7],
                "{'descr': '<c8', 'fortran_order': False, 'shape': (7, 1, 1), }",
            ),
        ] {
            let header = header(scalar, n);
            assert_eq!(header, of(text), "{}", String::from_utf8_lossy(&header));
        }
    }
}
