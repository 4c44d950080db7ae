//! Registry of the codecs that the application brings.

use super::coder::{Coder, Shape};
use crate::device::Stream;
use crate::error::{fail, Result};
use once_cell::race::OnceBox;

/// Makes a coder for arrays of a shape.
pub type Factory = Box<dyn Fn(Shape) -> Result<Box<dyn Coder>> + Send + Sync>;

/// As `Factory`, for arrays in device memory.
pub type DeviceFactory = Box<dyn Fn(Shape) -> Box<dyn DeviceCoder> + Send + Sync>;

/// Enqueues the application's coding of arrays of one shape, in the device's primary context. The host
/// waits for nothing; gpuzip_codec_plugin_t of src/capi/types.rs says what the application does.
pub trait DeviceCoder: Send {
    /// Returns the room for a payload, in bytes.
    fn max_bytes(&self) -> u64;

    /// Returns the bytes of device memory that the application needs for itself.
    fn work_bytes(&self) -> u64;

    /// Enqueues the coding of an array. `rms`: the bound limits the root mean square error.
    fn compress(&self, call: DeviceCall, rms: bool) -> Result<()>;

    /// Enqueues the decoding of a payload.
    fn decompress(&self, call: DeviceCall) -> Result<()>;
}

/// The stream of a call, and its addresses in device memory, all but `x` multiples of 256.
#[derive(Clone, Copy)]
pub struct DeviceCall {
    /// The stream.
    pub stream: Stream,
    /// The values, without gaps.
    pub x: u64,
    /// The payload.
    pub payload: u64,
    /// The gpuzip_codec_job_t.
    pub job: u64,
    /// The application's work space.
    pub work: u64,
}

pub(super) struct Plugin {
    name: String,
    factory: Factory,
    on_device: Option<DeviceFactory>,
}

/// Number of the first registered codec; gpuzip's own codecs have smaller numbers.
pub const FIRST: u8 = 64;

/// The registered codecs: element k has number `FIRST` + k, without gaps. The array needs no lock,
/// so that a forked child process can use the codecs of its parent.
static PLUGINS: [OnceBox<Plugin>; u8::MAX as usize + 1 - FIRST as usize] =
    [const { OnceBox::new() }; u8::MAX as usize + 1 - FIRST as usize];

/// Registers a codec until the process ends and returns its number: 64, 65, ... in the order of
/// registration. `on_device`: for codecs that can code in device memory. Fails if the name is empty or
/// taken, or if no number is left.
pub fn register(name: &str, factory: Factory, on_device: Option<DeviceFactory>) -> Result<u8> {
    let mut plugin = Box::new(Plugin { name: name.into(), factory, on_device });
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

/// Returns the codec with this number, or an error if there is none.
fn known(number: u8) -> Result<&'static Plugin> {
    match of(number) {
        Some(plugin) => Ok(plugin),
        None => fail!(Config, "compressor = {number}: no codec was registered with this number"),
    }
}

/// Makes a coder of the codec with this number, for arrays of this shape.
pub fn coder(number: u8, shape: Shape) -> Result<Box<dyn Coder>> {
    (known(number)?.factory)(shape)
}

/// As `coder`, for arrays in device memory.
pub(super) fn device_coder(number: u8, shape: Shape) -> Result<Box<dyn DeviceCoder>> {
    let Plugin { name, on_device, .. } = known(number)?;
    match on_device {
        Some(factory) => Ok(factory(shape)),
        None => fail!(
            Unsupported,
            "compressor = {number}: codec {name:?} was registered without device_compress and device_decompress, which CUDA needs: register \
             the codec with them (gpuzip_codec_plugin_t), or use the host backend"
        ),
    }
}
