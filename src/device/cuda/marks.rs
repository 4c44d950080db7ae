//! Marks on the application's stream between its actions. They tell how far the host is ahead of
//! the device.

use super::driver::cu;
use super::{is_done, new_event};
use crate::error::Result;
use cudarc::driver::sys::{CUevent, CUstream};
use std::collections::VecDeque;
use std::time::Instant;

/// A point on the stream: once the device has passed the mark, all actions before action `it` have
/// ended.
struct Mark {
    it: i64,
    event: CUevent,
}

/// The marks that the device may not have passed, oldest first.
#[derive(Default)]
pub struct Marks {
    open: VecDeque<Mark>,
    /// Events that can be used for new marks.
    spare: Vec<CUevent>,
}

/// Actions between two marks. A small spacing waits for little more than necessary; a large spacing
/// needs fewer events.
fn spacing(ahead: i64) -> i64 {
    (ahead / 4).max(1)
}

impl Marks {
    /// Whether a mark must be set, or waited for, before action `it`.
    pub fn are_due(&self, it: i64, ahead: i64) -> bool {
        self.must_set(it, ahead) || self.open.front().is_some_and(|mark| must_pass(mark, it, ahead))
    }

    fn must_set(&self, it: i64, ahead: i64) -> bool {
        self.open.back().is_none_or(|last| it - last.it >= spacing(ahead))
    }

    /// Before action `it`: sets a mark on the stream if one is due, and waits until all actions up
    /// to action `it - ahead` have ended. Returns the seconds of the wait.
    pub fn keep_up(&mut self, it: i64, ahead: i64, stream: CUstream) -> Result<f64> {
        if self.must_set(it, ahead) {
            let event = self.spare.pop().map_or_else(|| new_event(false), Ok)?;
            if let Err(error) = cu!(cuEventRecord(event, stream)) {
                self.spare.push(event);
                return Err(error);
            }
            self.open.push_back(Mark { it, event });
        }
        let mut begin = None;
        while let Some(mark) = self.open.front().filter(|mark| must_pass(mark, it, ahead)) {
            if !is_done(mark.event)? {
                begin.get_or_insert_with(Instant::now);
                cu!(cuEventSynchronize(mark.event))?;
            }
            self.spare.extend(self.open.pop_front().map(|mark| mark.event));
        }
        Ok(begin.map_or(0.0, |begin| begin.elapsed().as_secs_f64()))
    }

    /// Forgets all marks, whether or not the device has passed them.
    pub fn clear(&mut self) {
        self.spare.extend(self.open.drain(..).map(|mark| mark.event));
    }

    /// Returns all events, for the caller to destroy.
    pub fn into_events(mut self) -> Vec<CUevent> {
        self.clear();
        self.spare
    }
}

/// Whether the host must wait for `mark` before action `it`. True up to the first mark behind
/// action `it - ahead`: once the device has passed that mark, the action has ended.
fn must_pass(mark: &Mark, it: i64, ahead: i64) -> bool {
    mark.it - spacing(ahead) <= it - ahead
}
