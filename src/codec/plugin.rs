//! Codecs of the application's own.

use super::coder::{Coder, Shape};
use crate::error::{fail, Result};
use std::sync::{PoisonError, RwLock};

/// Makes coders for arrays of a shape.
pub type Factory = Box<dyn Fn(Shape) -> Result<Box<dyn Coder>> + Send + Sync>;

/// The number of the first one; those below are gpuzip's.
pub const FIRST: u8 = 64;

static PLUGINS: RwLock<Vec<(String, Factory)>> = RwLock::new(Vec::new());

/// Adds a codec to those of this process, for good, and returns its number: 64, 65, ... in the order of registration.
pub fn register(name: &str, factory: Factory) -> Result<u8> {
    let mut plugins = PLUGINS.write().unwrap_or_else(PoisonError::into_inner);
    if name.is_empty() || plugins.iter().any(|(known, _)| known == name) {
        return fail!(Argument, "name = {name:?}: every codec needs a name of its own");
    }
    let Some(number) = u8::try_from(plugins.len()).ok().and_then(|k| FIRST.checked_add(k)) else {
        return fail!(Argument, "{} codecs are registered: there is no number left", plugins.len());
    };
    plugins.push((name.into(), factory));
    Ok(number)
}

/// Whether there is one with this number.
pub fn is_registered(number: u8) -> bool {
    let plugins = PLUGINS.read().unwrap_or_else(PoisonError::into_inner);
    number >= FIRST && ((number - FIRST) as usize) < plugins.len()
}

/// A coder of the codec with this number.
pub fn coder(number: u8, shape: Shape) -> Result<Box<dyn Coder>> {
    let plugins = PLUGINS.read().unwrap_or_else(PoisonError::into_inner);
    match number.checked_sub(FIRST).and_then(|k| plugins.get(k as usize)) {
        Some((_, factory)) => factory(shape),
        None => fail!(Config, "compressor = {number}: no codec was registered with this number"),
    }
}
