//! Names of fields, in the texts of errors and in exported files.

use super::Session;
use crate::error::{Error, Result};
use crate::persist::Name;

/// What comes before the number of a field in every text.
const FIELD: &str = "field ";

impl Session {
    /// Gives the fields of the session names, one for each field, for the texts of errors and for exported files.
    pub fn name_fields(&mut self, names: Vec<Name>) -> Result<()> {
        self.process.check()?;
        self.check_count(names.len())?;
        self.names = names;
        Ok(())
    }

    /// Returns an error of this session with the names of the fields that the text tells by their numbers.
    pub fn named(&self, error: Error) -> Error {
        match self.names.is_empty() {
            true => error,
            false => Error::new(error.code, with_names(&error.message, &self.names)),
        }
    }
}

/// Puts the name of a field behind each of its numbers: field 2 (temperature).
fn with_names(text: &str, names: &[Name]) -> String {
    let (mut named, mut rest) = (String::new(), text);
    while let Some(at) = rest.find(FIELD) {
        let (before, number) = rest.split_at(at + FIELD.len());
        named.push_str(before);
        let digits = number.bytes().take_while(u8::is_ascii_digit).count();
        let (digits, behind) = number.split_at(digits);
        named.push_str(digits);
        if let Some(name) = digits.parse().ok().and_then(|k: usize| names.get(k)) {
            let name = format!(" ({name})");
            if !behind.starts_with(&name) {
                named.push_str(&name);
            }
        }
        rest = behind;
    }
    named + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_of_a_field_gets_its_name_once() {
        let names = ["u", "temperature"].map(|name| Name::new(name).unwrap());
        for (text, expected) in [
            ("field 1 overlaps field 0", "field 1 (temperature) overlaps field 0 (u)"),
            ("field 1 (temperature): x", "field 1 (temperature): x"),
            ("2 fields; field 12, field x, field ", "2 fields; field 12, field x, field "),
            ("a field 0", "a field 0 (u)"),
        ] {
            assert_eq!(with_names(text, &names), expected);
        }
    }
}
