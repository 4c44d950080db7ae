//! Loads configurations from files and environment variables.

use super::checked::checked;
use super::defaults::DEFAULT;
use super::keys::{of_retired, Key, KEYS, RETIRED};
use super::logging::warn_always;
use super::types::gpuzip_config_t;
use crate::config::{entries, shown};
use crate::environment::{self, VARIABLES};
use crate::error::{fail, Code, Error, Result};
use crate::files;
use crate::guarded::Guarded;
use crate::nearest::{extended, nearest};
use crate::reserve::may_fail;
use std::ffi::c_char;
use std::path::Path;

/// Prefixes, after `GPUZIP_`, of the environment variables of the test suite.
const OF_TESTS: [&str; 3] = ["TEST_", "UPDATE_", "DCT_"];

/// Words in the names of environment variables that build files and module systems set.
const OF_BUILDS: &str =
    "BIN BUILD CFLAGS DIR FOUND HOME INC INCLUDE INCLUDES INSTALL LDFLAGS LIB LIBDIR LIBRARIES LIBRARY LIBS PATH PREFIX ROOT \
                         SHARED SOURCE SRC VERSION";

/// Bytes of the longest value that is accepted: longer than any path that the system takes.
const LONGEST_VALUE: usize = 4096;

/// Where the value of a key comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Neither the file nor a variable sets the key.
    Default,
    /// This line of the file, counted from 1.
    Line(usize),
    /// The environment variable of the key.
    Variable,
}

/// A configuration that was loaded from a file and the environment.
pub struct Loaded {
    pub(super) config: gpuzip_config_t,
    /// The source of each key's value, in the order of `KEYS`.
    sources: [Source; KEYS.len()],
}

impl Loaded {
    /// Loads the defaults, then the file if `path` names one, then the environment variables.
    /// Retired keys, and unknown variables whose names look like gpuzip's, are logged as warnings.
    pub fn new(path: Option<&Path>) -> Result<Self> {
        let mut loaded = Loaded { config: DEFAULT, sources: [Source::Default; KEYS.len()] };
        if let Some(path) = path {
            loaded
                .read(path)
                .map_err(|e| e.within(format_args!("config file {}", path.display())))?;
        }
        for (at, key) in KEYS.iter().enumerate() {
            let name = format!("GPUZIP_{}", key.name.to_uppercase());
            if let Some(value) = environment::value(&name) {
                let Some(value) = value.to_str() else {
                    return fail!(Config, "{name} = {value:?}: is not UTF-8");
                };
                loaded.set(at, value, Source::Variable).map_err(|e| e.within(name))?;
            }
        }
        warn_of_variables();
        Ok(loaded)
    }

    /// Lists all keys with their values and the sources of the values.
    pub fn values(&self) -> impl Iterator<Item = (&'static Key, String, Source)> + '_ {
        // SAFETY: the strings of loaded configurations stay valid until the process ends.
        KEYS.iter()
            .zip(self.sources)
            .map(|(key, source)| (key, unsafe { key.value_of(&self.config) }, source))
    }

    /// Makes the checks that `gpuzip_init` makes before it looks at fields, the profile's file
    /// included.
    pub fn check(&self) -> Result<()> {
        // SAFETY: the strings of loaded configurations stay valid until the process ends.
        unsafe { checked(&self.config) }.map(drop)
    }

    fn read(&mut self, path: &Path) -> Result<()> {
        let bytes = files::read(path, files::LARGEST_CONFIG)?;
        let text = std::str::from_utf8(&bytes).map_err(|e| {
            let line = 1 + bytes[..e.valid_up_to()].iter().filter(|&&b| b == b'\n').count();
            Error::new(Code::Parse, format!("line {line}: is not UTF-8"))
        })?;
        for entry in entries(text) {
            let entry = entry?;
            let line = entry.line;
            if RETIRED.contains(&entry.key) {
                warn_always(&of_retired(entry.key));
                continue;
            }
            let Some(at) = KEYS.iter().position(|key| key.name == entry.key) else {
                let (key, advice) = (shown(entry.key), advice(entry.key));
                return fail!(Config, "line {line}: unknown key {key}{advice}");
            };
            if let Source::Line(first) = self.sources[at] {
                return fail!(Parse, "line {line}: {} was set in line {first} already", entry.key);
            }
            self.set(at, entry.value, Source::Line(line))
                .map_err(|e| e.within(format_args!("line {line}")))?;
        }
        Ok(())
    }

    fn set(&mut self, at: usize, value: &str, source: Source) -> Result<()> {
        let key = &KEYS[at];
        if value.len() > LONGEST_VALUE || value.contains('\0') {
            let problem =
                if value.contains('\0') { "contains a NUL" } else { "is longer than any path" };
            return fail!(Config, "{} = {}: {problem}", key.name, shown(value));
        }
        key.set(&mut self.config, value, kept)?;
        self.sources[at] = source;
        Ok(())
    }
}

/// Returns the advice for an unknown key: the nearest key, or where to find the list.
fn advice(word: &str) -> String {
    let names = || KEYS.iter().map(|key| key.name);
    match nearest(word, names()).or_else(|| extended(word, names())) {
        Some(key) => format!(": did you mean {key}?"),
        None => ": keys are the fields of gpuzip_config_t; `gpuzip config` lists them".into(),
    }
}

/// Warns of retired and unknown GPUZIP_* variables: a mistyped variable has no effect that a user
/// would notice.
fn warn_of_variables() {
    for name in environment::names() {
        let Some(word) = name.strip_prefix("GPUZIP_") else { continue };
        if RETIRED.iter().any(|key| key.eq_ignore_ascii_case(word)) {
            warn_always(&of_retired(&name));
        } else if let Some(advice) = unknown(word) {
            warn_always(&format!(
                "the variable {name} is none of gpuzip's and does nothing{advice}"
            ));
        }
    }
}

/// Returns the advice for the variable GPUZIP_`word`; `None` if it is known, or looks like a
/// variable of a build file.
fn unknown(word: &str) -> Option<String> {
    let variables = || VARIABLES.iter().map(|(name, _)| &name["GPUZIP_".len()..]);
    let known = || KEYS.iter().map(|key| key.name).chain(variables());
    if known().any(|name| name.eq_ignore_ascii_case(word))
        || OF_TESTS.iter().any(|prefix| word.starts_with(prefix))
    {
        return None;
    }
    let of_builds = word.split('_').all(|part| OF_BUILDS.split(' ').any(|known| known == part));
    let meant = nearest(word, known()).or_else(|| extended(word, known()).filter(|_| !of_builds));
    match meant {
        Some(name) => Some(format!(": did you mean GPUZIP_{}?", name.to_uppercase())),
        None if of_builds => None,
        None => Some("; `gpuzip config` lists what there is".into()),
    }
}

/// The strings of all loaded configurations, NUL-terminated, each stored once, sorted within the
/// bucket of its hash. They stay valid until the process ends, so that copies of a configuration
/// stay valid whichever copy is freed.
static STRINGS: Guarded<Buckets> = Guarded::new(NO_STRINGS, || NO_STRINGS);
type Buckets = [Vec<Vec<u8>>; BUCKETS];
const NO_STRINGS: Buckets = [const { Vec::new() }; BUCKETS];
const BUCKETS: usize = 256;

/// Returns the stored copy of a text that has no NUL.
fn kept(value: &str) -> Result<*const c_char> {
    let no_memory = |_| Error::new(Code::Memory, "no memory for the texts of a configuration");
    let mut text = Vec::new();
    may_fail(|| text.try_reserve_exact(value.len() + 1)).map_err(no_memory)?;
    text.extend_from_slice(value.as_bytes());
    text.push(0);
    let mut strings = STRINGS.write()?;
    let strings = &mut strings[files::hash(text.iter().copied()) as usize % BUCKETS];
    let at = match strings.binary_search(&text) {
        Ok(at) => at,
        Err(at) => {
            may_fail(|| strings.try_reserve(1)).map_err(no_memory)?;
            strings.insert(at, text);
            at
        }
    };
    Ok(strings[at].as_ptr().cast())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_known_quiet_or_named_with_the_nearest() {
        for word in [
            "COMPRESSOR",
            "CACHE_DIR",
            "PERFORMANCE_LOG",
            "LOG",
            "VALIDATE",
            "TEST_LONG",
            "UPDATE_HEADER",
            "SHARED",
        ] {
            assert_eq!(unknown(word), None, "{word}");
        }
        for word in
            ["HOME", "DIR", "ROOT", "LIB", "INCLUDE", "LIB_DIR", "INSTALL_PREFIX", "VERSION"]
        {
            assert_eq!(unknown(word), None, "{word}");
        }
        for (word, key) in [
            ("COMPRESOR", "COMPRESSOR"),
            ("DEVICEBUDGET", "DEVICE_BUDGET"),
            ("DEVICE_BUGDET", "DEVICE_BUDGET"),
            ("ALGORITHM", "CHECKPOINTING_ALGORITHM"),
            ("CACHEDIR", "CACHE_DIR"),
            ("PERFORMANCE_LOGS", "PERFORMANCE_LOG"),
            ("SHARED_LEVEL", "SHARED_LEVELS"),
            ("compressor_", "COMPRESSOR"),
        ] {
            assert_eq!(unknown(word).unwrap(), format!(": did you mean GPUZIP_{key}?"), "{word}");
        }
        assert_eq!(
            unknown("SOMETHING_ELSE").as_deref(),
            Some("; `gpuzip config` lists what there is")
        );
        assert_eq!(unknown("VERBOSE").as_deref(), Some("; `gpuzip config` lists what there is"));
    }

    #[test]
    fn equal_strings_are_kept_once() {
        let first = kept("a string of this test").unwrap();
        assert_eq!(kept("a string of this test").unwrap(), first);
        assert_ne!(kept("another string of this test").unwrap(), first);
        // SAFETY: the string stays valid until the process ends.
        assert_eq!(unsafe { std::ffi::CStr::from_ptr(first) }, c"a string of this test");
    }
}
