//! Names in a container: of arrays, of records, of the values of a fingerprint.

use crate::error::{fail, Result};
use std::fmt;

/// Most bytes of a name.
pub const LONGEST_NAME: usize = 80;

/// A name of at most `LONGEST_NAME` bytes of UTF-8 without NUL, kept in place.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Name([u8; LONGEST_NAME]);

impl Name {
    /// Makes a name; fails if the text is empty, too long or contains a NUL.
    pub fn new(text: &str) -> Result<Self> {
        let bytes = text.as_bytes();
        if bytes.is_empty() || bytes.len() > LONGEST_NAME || bytes.contains(&0) {
            return fail!(
                Argument,
                "the name \"{}\" has {} bytes: a name has 1 to {LONGEST_NAME} bytes, none of which is 0",
                text.escape_debug(),
                bytes.len()
            );
        }
        let mut name = [0; LONGEST_NAME];
        name[..bytes.len()].copy_from_slice(bytes);
        Ok(Name(name))
    }

    /// Reads a name from its bytes in a file; `None` if they are no name.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let name = Name(bytes.try_into().ok()?);
        let (used, rest) = name.0.split_at(name.len());
        let valid = !used.is_empty() && rest.iter().all(|byte| *byte == 0);
        (valid && std::str::from_utf8(used).is_ok()).then_some(name)
    }

    /// Returns the bytes of the name in a file: the text, and zeros behind it.
    pub(super) fn bytes(&self) -> &[u8; LONGEST_NAME] {
        &self.0
    }

    fn len(&self) -> usize {
        self.0.iter().position(|byte| *byte == 0).unwrap_or(LONGEST_NAME)
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        // `new` and `read` let no other text through.
        std::str::from_utf8(&self.0[..self.len()]).unwrap_or_default()
    }
}

impl fmt::Display for Name {
    /// Writes the text with control characters escaped: the text may come from any file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().chars().try_for_each(|c| match c.is_control() {
            true => write!(f, "{}", c.escape_default()),
            false => write!(f, "{c}"),
        })
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_1_to_80_bytes() {
        for text in ["image", &"x".repeat(LONGEST_NAME), "\u{e9}chelle", "a b\n"] {
            let name = Name::new(text).unwrap();
            assert_eq!((name.as_str(), Name::read(name.bytes())), (text, Some(name)));
        }
        assert_eq!(Name::new("a\n").unwrap().to_string(), "a\\n");
        for text in ["", "a\0b", &"x".repeat(LONGEST_NAME + 1)] {
            let error = Name::new(text).unwrap_err().to_string();
            assert!(error.contains("1 to 80 bytes"), "{error}");
        }
        let mut bytes = [0; LONGEST_NAME];
        assert_eq!(Name::read(&bytes), None, "empty");
        bytes[..3].copy_from_slice(b"a\0b");
        assert_eq!(Name::read(&bytes), None, "text behind the end");
        bytes[..3].copy_from_slice(b"a\xffb");
        assert_eq!(Name::read(&bytes), None, "no UTF-8");
        assert_eq!(Name::read(b"short"), None);
    }
}
