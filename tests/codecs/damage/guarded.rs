//! Pieces of guarded memory.

use crate::common::guarded::Guarded;

pub(super) const ROOM: usize = 512 << 10;
/// Bytes beside the free end of a piece; a codec must not change them.
pub(super) const CANARY: [u8; 64] = [0xC5; 64];

/// The end of a guarded room at which a piece lies, next to a page without access.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Side {
    Begin,
    End,
}

impl Guarded {
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
