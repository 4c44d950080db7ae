//! The functions of stream-ordered memory: a pool's memory may be used between its allocation and its
//! release, in the order of the streams, and not before or after.

use super::{exports, Address, Handle, Out};
use crate::execute::Action;
use crate::memory::{Kind, Life};
use crate::status::INVALID_VALUE;

exports! {
    /// Allocates memory of the pool of the stream's device, which operations may use that come after
    /// this point of the stream. The address is given at once.
    fn cuMemAllocAsync(address: Out<Address>, bytes: usize, stream: Handle) |driver| {
        let stream = driver.stream(stream)?;
        address.check()?;
        let context = driver.streams[stream].context;
        let base = driver.allocate_of_device(bytes, Kind::Pool, context)?;
        driver.enqueue(stream, Action::Begin(base), Vec::new());
        address.set(base)
    };
    /// Frees memory of a pool when this point of the stream is reached. Later calls may not name the
    /// memory.
    fn cuMemFreeAsync(address: Address, stream: Handle) |driver| {
        let stream = driver.stream(stream)?;
        let region = driver.memory.at(address).filter(|region| region.kind == Kind::Pool);
        if region.is_none_or(|region| region.life == Life::Going) {
            return Err(INVALID_VALUE);
        }
        driver.memory.set_life(address, Life::Going);
        driver.enqueue(stream, Action::End(address), Vec::new());
        Ok(())
    };
}
