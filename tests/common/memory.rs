//! Memory of an application's fields, of every kind that CUDA has.

use crate::common::app::ok;
use crate::common::emu;
use cudarc::driver::sys::{self, CUipcMemHandle, CUmemLocation, CUstream};
use std::sync::atomic::{AtomicU8, Ordering};

/// A kind of device memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Of `cuMemAlloc`.
    Plain,
    /// Managed: the host may use it, too.
    Managed,
    /// Of a pool: the memory lives in the order of a stream.
    Pool,
    /// Two pieces of physical memory that are mapped side by side; the field lies in both.
    Mapped,
    /// Of another process.
    Opened,
}

pub const ALL: [Kind; 5] = [Kind::Plain, Kind::Managed, Kind::Pool, Kind::Mapped, Kind::Opened];

/// The kind of the memory that `FieldMemory::new` makes, by its number in `ALL`.
static WANTED: AtomicU8 = AtomicU8::new(0);

/// Lets every application from now on have its fields in memory of this kind.
pub fn want(kind: Kind) {
    WANTED.store(ALL.iter().position(|&other| other == kind).unwrap() as u8, Ordering::Relaxed);
}

/// The memory of a field.
#[derive(Clone, Copy)]
pub struct FieldMemory {
    kind: Kind,
    pub address: u64,
    /// Bytes and first address of the reserved addresses, if there are any.
    piece: usize,
    base: u64,
    stream: CUstream,
}

impl FieldMemory {
    /// Allocates memory of the wanted kind in the current context. Memory of a pool is used on
    /// `stream`.
    pub fn new(bytes: usize, stream: CUstream) -> Self {
        let kind = ALL[usize::from(WANTED.load(Ordering::Relaxed))];
        let mut memory = FieldMemory { kind, address: 0, piece: 0, base: 0, stream };
        let address = &mut memory.address;
        match kind {
            Kind::Plain => ok!(cuMemAlloc_v2(address, bytes)),
            Kind::Managed => ok!(cuMemAllocManaged(address, bytes, 1)),
            Kind::Pool => ok!(cuMemAllocAsync(address, bytes, stream)),
            Kind::Mapped => memory.map(bytes),
            Kind::Opened => {
                let mut handle = CUipcMemHandle { reserved: [0; 64] };
                assert_eq!(emu::ipc((&raw mut handle).cast(), bytes as u64), 0);
                ok!(cuIpcOpenMemHandle_v2(address, handle, 1));
            }
        }
        memory
    }

    fn map(&mut self, bytes: usize) {
        let mut device = 0;
        ok!(cuCtxGetDevice(&mut device));
        // SAFETY: all values of these structures may be zero.
        let (mut properties, mut access): (sys::CUmemAllocationProp, sys::CUmemAccessDesc) =
            unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        // SAFETY: as above.
        let mut location: CUmemLocation = unsafe { std::mem::zeroed() };
        location.type_ = sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
        location.id = device;
        properties.type_ = sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
        properties.location = location;
        access.location = location;
        access.flags = sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        let least = sys::CUmemAllocationGranularity_flags::CU_MEM_ALLOC_GRANULARITY_MINIMUM;
        ok!(cuMemGetAllocationGranularity(&mut self.piece, &properties, least));
        self.piece = bytes.next_multiple_of(self.piece);
        ok!(cuMemAddressReserve(&mut self.base, 2 * self.piece, 0, 0, 0));
        for at in [self.base, self.base + self.piece as u64] {
            let mut handle = 0;
            ok!(cuMemCreate(&mut handle, self.piece, &properties, 0));
            ok!(cuMemMap(at, self.piece, 0, handle, 0));
            ok!(cuMemRelease(handle));
        }
        ok!(cuMemSetAccess(self.base, 2 * self.piece, &access, 1));
        // Half of the field on either side, at an address that is a multiple of 256.
        self.address = self.base + (self.piece - (bytes / 2).next_multiple_of(256)) as u64;
    }

    /// Frees the memory. Results are ignored: after a sticky error nothing can be freed.
    pub fn free(&self) {
        // SAFETY: `new` made the memory, which is not used any more.
        unsafe {
            let _ = match self.kind {
                Kind::Plain | Kind::Managed => sys::cuMemFree_v2(self.address),
                Kind::Pool => sys::cuMemFreeAsync(self.address, self.stream),
                Kind::Mapped => {
                    let _ = sys::cuMemUnmap(self.base, 2 * self.piece);
                    sys::cuMemAddressFree(self.base, 2 * self.piece)
                }
                Kind::Opened => sys::cuIpcCloseMemHandle(self.address),
            };
        }
    }

    /// Gives memory of a pool back and takes other memory of as many bytes, both on `stream`.
    pub fn renew(&mut self, bytes: usize, stream: CUstream) {
        if self.kind == Kind::Pool {
            ok!(cuMemFreeAsync(self.address, stream));
            *self = FieldMemory::new(bytes, stream);
        }
    }
}
