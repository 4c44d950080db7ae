//! How far the host is ahead of the device: marks on the application's stream between its actions.

use super::driver::cu;
use super::{is_done, new_event};
use crate::error::Result;
use cudarc::driver::sys::{CUevent, CUevent_flags, CUstream};
use std::collections::VecDeque;
use std::time::Instant;

/// A point on the stream: once the device is past it, the actions before `it` have ended.
struct Mark {
    it: i64,
    event: CUevent,
}

/// The marks that may not be passed yet, oldest first.
#[derive(Default)]
pub struct Marks {
    open: VecDeque<Mark>,
    /// Events for marks to come.
    spare: Vec<CUevent>,
}

/// Actions between two marks: few enough to wait for little more than has to be, and no event for
/// every action.
fn spacing(ahead: i64) -> i64 {
    (ahead / 4).max(1)
}

impl Marks {
    /// Whether there is a mark to be set, or one to be waited for, before action `it`.
    pub fn are_due(&self, it: i64, ahead: i64) -> bool {
        self.must_set(it, ahead) || self.open.front().is_some_and(|mark| must_pass(mark, it, ahead))
    }

    fn must_set(&self, it: i64, ahead: i64) -> bool {
        self.open.back().is_none_or(|last| it - last.it >= spacing(ahead))
    }

    /// Before action `it`: sets a mark on the stream if one is due, and waits until all actions up
    /// to `it - ahead` have ended. Returns the seconds that this took.
    pub fn keep_up(&mut self, it: i64, ahead: i64, stream: CUstream) -> Result<f64> {
        if self.must_set(it, ahead) {
            let event = self
                .spare
                .pop()
                .map_or_else(|| new_event(CUevent_flags::CU_EVENT_DISABLE_TIMING), Ok)?;
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

    /// Forgets all marks, passed or not.
    pub fn clear(&mut self) {
        self.spare.extend(self.open.drain(..).map(|mark| mark.event));
    }

    /// Gives the events away.
    pub fn into_events(mut self) -> Vec<CUevent> {
        self.clear();
        self.spare
    }
}

/// Whether the mark is at most the first one behind action `it - ahead`: no later one is needed to
/// know that that action has ended.
fn must_pass(mark: &Mark, it: i64, ahead: i64) -> bool {
    mark.it - spacing(ahead) <= it - ahead
}
