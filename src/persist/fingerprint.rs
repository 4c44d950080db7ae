//! What must be equal in the run that wrote a generation and in the run that goes on from it: named
//! numbers, such as the number of time steps or a hash of the fields' shapes.

use super::name::Name;
use crate::error::{fail, Result};
use crate::fallible_vec;

/// Most values of a fingerprint.
pub const MOST_VALUES: usize = 64;

/// A list of named numbers. The order does not matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fingerprint {
    values: Vec<(Name, u64)>,
    /// What values of this run mean, for messages. A fingerprint from a file has none.
    meanings: Vec<(Name, Meaning)>,
}

/// What a value of a fingerprint means to people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// The value is a hash of what the text says.
    HashOf(String),
    /// The value is one of these numbers, and each number has a name.
    OneOf(Vec<(u64, &'static str)>),
}

impl Fingerprint {
    /// Makes a fingerprint without values.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a value. Fails if there is a value of this name, or `MOST_VALUES` values already.
    pub fn add(&mut self, name: &str, value: u64) -> Result<()> {
        self.add_named(Name::new(name)?, value)
    }

    /// Adds a value as `add` does, and says what it means.
    pub fn add_with(&mut self, name: &str, value: u64, meaning: Meaning) -> Result<()> {
        self.add(name, value)?;
        fallible_vec::push(&mut self.meanings, (Name::new(name)?, meaning))
    }

    pub(super) fn add_named(&mut self, name: Name, value: u64) -> Result<()> {
        if self.value(&name).is_some() {
            return fail!(Argument, "a fingerprint has one value of the name {name}, not two");
        }
        if self.values.len() == MOST_VALUES {
            return fail!(Argument, "a fingerprint has at most {MOST_VALUES} values");
        }
        fallible_vec::push(&mut self.values, (name, value))
    }

    /// Returns names and values in the order in which they were added.
    pub fn values(&self) -> &[(Name, u64)] {
        &self.values
    }

    fn value(&self, name: &Name) -> Option<u64> {
        self.values.iter().find(|(known, _)| known == name).map(|(_, value)| *value)
    }

    /// Fails with the name and both values if this fingerprint, of a generation, differs from
    /// `expected`, which is that of the run that wants to go on from the generation.
    pub fn check(&self, expected: &Fingerprint) -> Result<()> {
        for (name, value) in &expected.values {
            match self.value(name) {
                Some(found) if found == *value => {}
                Some(found) => {
                    return fail!(
                        Config,
                        "the restart files were written with {}, and this run has {}: give the configuration that wrote the files, or another folder",
                        expected.shown(name, found, true),
                        expected.shown(name, *value, false)
                    )
                }
                None => {
                    return fail!(
                        Config,
                        "the restart files say nothing about {name}, and this run has {}: another version of the program wrote the files",
                        expected.shown(name, *value, false)
                    )
                }
            }
        }
        match self.values.iter().find(|(name, _)| expected.value(name).is_none()) {
            None => Ok(()),
            Some((name, value)) => fail!(
                Config,
                "the restart files were written with {name} = {value}, about which this run says nothing: a run with other keys of the configuration, or another version of the program, wrote the files"
            ),
        }
    }

    /// Returns a value as people read it: of this run, or with `is_other` of a file, where it differs. A
    /// file holds of some values only the hash, which tells that they differ and not what they were.
    fn shown(&self, name: &Name, value: u64, is_other: bool) -> String {
        let meaning = self.meanings.iter().find(|(known, _)| known == name);
        match meaning.map(|(_, meaning)| meaning) {
            Some(Meaning::HashOf(_)) if is_other => format!("other values of {name}"),
            Some(Meaning::HashOf(text)) => format!("{name} = {text}"),
            Some(Meaning::OneOf(names)) => match names.iter().find(|(known, _)| *known == value) {
                Some((_, text)) => format!("{name} = {text}"),
                None => format!("{name} = {value}, which this version of gpuzip does not know"),
            },
            None => format!("{name} = {value}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[(&str, u64)]) -> Fingerprint {
        let mut fingerprint = Fingerprint::new();
        values.iter().for_each(|(name, value)| fingerprint.add(name, *value).unwrap());
        fingerprint
    }

    #[test]
    fn a_difference_is_told_with_its_name_and_both_values() {
        let written = of(&[("steps", 300), ("fields", u64::MAX - 1)]);
        written.check(&of(&[("fields", u64::MAX - 1), ("steps", 300)])).unwrap();
        for (values, texts) in [
            (vec![("steps", 200), ("fields", u64::MAX - 1)], ["steps = 300", "steps = 200"]),
            (vec![("steps", 300)], ["fields = 18446744073709551614", "says nothing"]),
            (
                vec![("steps", 300), ("fields", u64::MAX - 1), ("codec", 3)],
                ["say nothing about codec", "codec = 3"],
            ),
        ] {
            let error = written.check(&of(&values)).unwrap_err().to_string();
            assert!(texts.iter().all(|text| error.contains(text)), "{error}");
        }
    }

    /// Hashes are told as what they are of, and numbers of things as the names of the things.
    #[test]
    fn values_are_told_as_what_they_mean() {
        let expected = |fields: u64, codec: u64| {
            let mut expected = Fingerprint::new();
            let text = Meaning::HashOf("f32 10 x 20 x 30".into());
            expected.add_with("fields", fields, text).unwrap();
            let names = Meaning::OneOf(vec![(0, "none"), (4, "lorenzo")]);
            expected.add_with("compressor", codec, names).unwrap();
            expected
        };
        let written = of(&[("fields", 1 << 50), ("compressor", 0)]);
        written.check(&expected(1 << 50, 0)).unwrap();
        let other = of(&[("fields", 1 << 50), ("compressor", 99)]);
        for (written, expected, text) in [
            (
                &written,
                expected(7, 0),
                "with other values of fields, and this run has fields = f32 10 x 20 x 30:",
            ),
            (
                &written,
                expected(1 << 50, 4),
                "with compressor = none, and this run has compressor = lorenzo:",
            ),
            (
                &other,
                expected(1 << 50, 4),
                "compressor = 99, which this version of gpuzip does not",
            ),
        ] {
            let error = written.check(&expected).unwrap_err().to_string();
            assert!(error.contains(text), "{error}");
        }
    }

    #[test]
    fn names_are_given_once_and_values_are_few() {
        let mut fingerprint = of(&[("steps", 1)]);
        assert!(fingerprint.add("steps", 1).unwrap_err().message.contains("not two"));
        for k in 1..MOST_VALUES {
            fingerprint.add(&format!("value {k}"), 0).unwrap();
        }
        assert!(fingerprint.add("more", 0).unwrap_err().message.contains("at most 64"));
    }
}
