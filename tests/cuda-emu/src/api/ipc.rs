//! The functions that share device memory between processes. The other process is imaginary:
//! `emu_ipc` makes memory of that process, and the handle that the process would send.

use super::{exports, Address, Out};
use crate::driver::lock;
use crate::memory::Kind;
use crate::status::{Status, INVALID_CONTEXT, INVALID_VALUE, SUCCESS};

/// What begins the handle of memory of this process, and of the imaginary one.
const OWN: u64 = 0x1bc0;
const FOREIGN: u64 = 0x1bc1;

/// `CUipcMemHandle`: 64 bytes. Here: a word of `OWN` or `FOREIGN`, an address or a number of bytes.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct MemHandle([u64; 8]);

exports! {
    /// Gives the handle of an allocation of `cuMemAlloc`; other memory has none.
    fn cuIpcGetMemHandle(handle: Out<MemHandle>, address: Address) |driver| {
        let region = driver.memory.at(address).filter(|region| region.kind == Kind::Device);
        region.ok_or(INVALID_VALUE)?;
        handle.set(MemHandle([OWN, address as u64, 0, 0, 0, 0, 0, 0]))
    };
    /// Maps the memory of another process; a process cannot open its own handle.
    fn cuIpcOpenMemHandle_v2(address: Out<Address>, handle: MemHandle, flags: u32) |driver| {
        let context = driver.current()?;
        address.check()?;
        if handle.0[0] == OWN {
            return Err(INVALID_CONTEXT);
        }
        if handle.0[0] != FOREIGN || flags != 1 {
            return Err(INVALID_VALUE);
        }
        address.set(driver.allocate(handle.0[1] as usize, Kind::Opened, context)?)
    };
    /// Unmaps the memory of another process.
    fn cuIpcCloseMemHandle(address: Address) |driver| {
        driver.release_of(Kind::Opened, address, INVALID_VALUE)
    };
}

/// Gives the handle of `bytes` bytes of device memory that another process has allocated. Each
/// mapping of a handle here is memory of its own.
#[no_mangle]
pub extern "C" fn emu_ipc(handle: Out<MemHandle>, bytes: u64) -> Status {
    drop(lock());
    handle.set(MemHandle([FOREIGN, bytes, 0, 0, 0, 0, 0, 0])).err().unwrap_or(SUCCESS)
}
