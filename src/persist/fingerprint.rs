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
                        "the restart files were written with {name} = {}, and this run has {name} = {}: give the configuration that wrote the files, or another folder",
                        Shown(found),
                        Shown(*value)
                    )
                }
                None => {
                    return fail!(
                        Config,
                        "the restart files say nothing about {name}, and this run has {name} = {}: another version of the program wrote the files",
                        Shown(*value)
                    )
                }
            }
        }
        match self.values.iter().find(|(name, _)| expected.value(name).is_none()) {
            None => Ok(()),
            Some((name, value)) => fail!(
                Config,
                "the restart files were written with {name} = {}, about which this run says nothing: another version of the program wrote the files",
                Shown(*value)
            ),
        }
    }
}

/// A value as people read it: small numbers are counts, large ones hashes.
struct Shown(u64);

impl std::fmt::Display for Shown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            count if count < 1 << 40 => write!(f, "{count}"),
            hash => write!(f, "{hash:#018x}"),
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
            (
                vec![("steps", 300), ("fields", 1 << 41)],
                ["fields = 0xfffffffffffffffe", "fields = 0x0000020000000000"],
            ),
            (vec![("steps", 300)], ["fields = 0xfffffffffffffffe", "says nothing"]),
            (
                vec![("steps", 300), ("fields", u64::MAX - 1), ("codec", 3)],
                ["say nothing about codec", "codec = 3"],
            ),
        ] {
            let error = written.check(&of(&values)).unwrap_err().message;
            assert!(texts.iter().all(|text| error.contains(text)), "{error}");
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
