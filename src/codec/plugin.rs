//! Registry of the codecs that the application brings.

use super::coder::{Coder, Shape};
use crate::error::{fail, Result};
use once_cell::race::OnceBox;

/// Makes a coder for arrays of a shape.
pub type Factory = Box<dyn Fn(Shape) -> Result<Box<dyn Coder>> + Send + Sync>;

pub(super) struct Plugin {
    name: String,
    factory: Factory,
}

/// Number of the first registered codec; gpuzip's own codecs have smaller numbers.
pub const FIRST: u8 = 64;

/// The registered codecs: element k has number `FIRST` + k, without gaps. The array needs no lock,
/// so that a forked child process can use the codecs of its parent.
static PLUGINS: [OnceBox<Plugin>; u8::MAX as usize + 1 - FIRST as usize] =
    [const { OnceBox::new() }; u8::MAX as usize + 1 - FIRST as usize];

/// Registers a codec until the process ends and returns its number: 64, 65, ... in the order of
/// registration. Fails if the name is empty or taken, or if no number is left.
pub fn register(name: &str, factory: Factory) -> Result<u8> {
    let mut plugin = Box::new(Plugin { name: name.into(), factory });
    for (number, place) in (FIRST..=u8::MAX).zip(&PLUGINS) {
        if name.is_empty() || place.get().is_some_and(|known| known.name == name) {
            return fail!(Argument, "name = {name:?}: every codec needs a name of its own");
        }
        match place.set(plugin) {
            Ok(()) => return Ok(number),
            Err(back) => plugin = back,
        }
    }
    fail!(Argument, "{} codecs are registered: there is no number left", PLUGINS.len())
}

/// Returns the codec that is registered with this number.
pub(super) fn of(number: u8) -> Option<&'static Plugin> {
    number.checked_sub(FIRST).and_then(|k| PLUGINS.get(k as usize)?.get())
}

/// Makes a coder of the codec with this number, for arrays of this shape.
pub fn coder(number: u8, shape: Shape) -> Result<Box<dyn Coder>> {
    match of(number) {
        Some(plugin) => (plugin.factory)(shape),
        None => fail!(Config, "compressor = {number}: no codec was registered with this number"),
    }
}
