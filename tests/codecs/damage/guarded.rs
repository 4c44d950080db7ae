//! Memory between pages without access.

pub(super) const PAGE: usize = 4096;
pub(super) const ROOM: usize = 512 << 10;
/// Bytes beside the free end of a piece; a codec must not change them.
pub(super) const CANARY: [u8; 64] = [0xC5; 64];

/// The end of a guarded room at which a piece lies, next to a page without access.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Side {
    Begin,
    End,
}

pub(super) struct Guarded(*mut u8);

impl Guarded {
    pub(super) fn new() -> Self {
        // SAFETY: new pages, of which the first and the last stay without access.
        unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let pages =
                libc::mmap(std::ptr::null_mut(), ROOM + 2 * PAGE, libc::PROT_NONE, flags, -1, 0);
            assert_ne!(pages, libc::MAP_FAILED);
            let room = pages.cast::<u8>().add(PAGE);
            assert_eq!(libc::mprotect(room.cast(), ROOM, libc::PROT_READ | libc::PROT_WRITE), 0);
            Guarded(room)
        }
    }

    pub(super) fn all(&mut self) -> &mut [u8] {
        // SAFETY: the room, which `self` owns.
        unsafe { std::slice::from_raw_parts_mut(self.0, ROOM) }
    }

    /// Returns a piece of `bytes` bytes, with a canary beside its free end.
    pub(super) fn piece(&mut self, side: Side, bytes: usize) -> &mut [u8] {
        assert!(bytes + CANARY.len() <= ROOM);
        let all = self.all();
        match side {
            Side::Begin => {
                all[bytes..bytes + CANARY.len()].copy_from_slice(&CANARY);
                &mut all[..bytes]
            }
            Side::End => {
                let begin = ROOM - bytes;
                all[begin - CANARY.len()..begin].copy_from_slice(&CANARY);
                &mut all[begin..]
            }
        }
    }

    pub(super) fn check(&mut self, side: Side, bytes: usize, what: &str) {
        let at = if side == Side::Begin { bytes } else { ROOM - bytes - CANARY.len() };
        assert!(self.all()[at..at + CANARY.len()] == CANARY, "{what}: written beside its memory");
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: the pages that `new` mapped.
        unsafe { libc::munmap(self.0.sub(PAGE).cast(), ROOM + 2 * PAGE) };
    }
}
