//! States as a sequence: the record of a state leans on the records of the next one or two.

use super::coder::{Bound, SequenceCoder, Shape};
use super::settings::Settings;
use super::stream::{copy_mask, padded, Content, Header, HEADER};
use super::streams::{mask_bytes, shapes_of, Streams};
use crate::device::{Slab, Team};
use crate::error::{fail, Result};
use crate::layout::Layout;
use crate::scalar::{Array, ArrayMut};
use std::sync::Arc;

/// States whose coefficients are kept: one, and the two on which it leans.
pub const FRAMES: usize = 3;

/// What the coefficients of three states are kept in, and the coders of the fields.
///
/// A state is taken when it is saved: its record is made then, but for the arrays that coders of sequences
/// take, whose streams have no payload yet. The record is completed when the two later states have been
/// taken, or when it is needed.
pub struct Sequence {
    streams: Arc<Streams>,
    /// For each field its coder, if it is coded and in part 0.
    coders: Vec<Option<Box<dyn SequenceCoder>>>,
    /// The states whose coefficients are in the frames.
    held: [Option<i64>; FRAMES],
    /// The incomplete record of each state that is taken, `None` while it is made, and its bytes.
    early: Vec<Option<Slab>>,
    made: [usize; FRAMES],
    /// The frame of the state in hand, and whether its coefficients have to be read.
    frame: usize,
    reads: bool,
    /// Bytes that `complete` needs.
    most_bytes: usize,
}

impl Sequence {
    /// Makes the frames of states of `layout`. `record` is the most bytes of a record of whose arrays none is
    /// in a sequence.
    pub(super) fn new(
        settings: &Settings,
        layout: &Layout,
        streams: Arc<Streams>,
        record: usize,
    ) -> Result<Self> {
        let coder =
            |(i, shape): (usize, Shape)| match shape.scalar.is_coded() && streams.part_of[i] == 0 {
                true => settings.method.sequence_coder(shape, FRAMES),
                false => Ok(None),
            };
        let coders: Vec<_> = shapes_of(layout).enumerate().map(coder).collect::<Result<_>>()?;
        let most = |(coder, shape): (&Option<Box<dyn SequenceCoder>>, Shape)| {
            padded(coder.as_ref().map_or(0, |coder| coder.max_bytes()).max(shape.bytes()))
                .saturating_add(mask_bytes(settings, shape))
        };
        let most_bytes = coders.iter().zip(shapes_of(layout)).map(most).sum();
        let early = (0..FRAMES).map(|_| Slab::new(record as u64).map(Some));
        let early = early.collect::<Result<_>>()?;
        Ok(Sequence {
            streams,
            coders,
            held: [None; FRAMES],
            early,
            made: [0; FRAMES],
            frame: 0,
            reads: false,
            most_bytes,
        })
    }

    /// As `SequenceCoder::join`.
    pub fn join(&mut self, team: &Arc<Team>) -> Result<()> {
        self.clear();
        self.coders.iter_mut().flatten().try_for_each(|coder| coder.join(team))
    }

    /// Bytes that `complete` needs in its output.
    pub fn most_bytes(&self) -> usize {
        self.most_bytes
    }

    /// Empties all frames.
    pub fn clear(&mut self) {
        self.held = [None; FRAMES];
    }

    /// The frame of a state.
    fn holds(&self, ts: i64) -> Option<usize> {
        self.held.iter().position(|&held| held == Some(ts))
    }

    /// The frames of the states after `ts`, the next one first.
    fn later(&self, ts: i64) -> Vec<usize> {
        let is_later = |frame: &usize| self.held[*frame].is_some_and(|held| held > ts);
        let mut later: Vec<usize> = (0..FRAMES).filter(is_later).collect();
        later.sort_unstable_by_key(|&frame| self.held[frame]);
        later.truncate(FRAMES - 1);
        later
    }

    /// Begins to take state `ts`, in the frame of a state for which `is_free` holds. Returns the memory of its
    /// incomplete record, which `end_taking` gives back.
    pub fn begin_taking(&mut self, ts: i64, is_free: impl Fn(i64) -> bool) -> Result<Slab> {
        let is_again = |held: &&mut Option<i64>| **held == Some(ts);
        self.held.iter_mut().filter(is_again).for_each(|held| *held = None);
        let free = |held: &Option<i64>| held.is_none_or(&is_free);
        let frame = self.held.iter().position(free);
        let Some((frame, record)) = frame.and_then(|k| Some((k, self.early[k].take()?))) else {
            return fail!(
                State,
                "internal error, please report it: no frame is free for state {ts}"
            );
        };
        self.begin(ts, frame);
        Ok(record)
    }

    /// Keeps the incomplete record of the state in hand, of `made` bytes.
    pub fn end_taking(&mut self, record: Slab, made: usize) {
        (self.early[self.frame], self.made[self.frame]) = (Some(record), made);
    }

    /// Begins to decode the record of state `ts`, or if its coefficients are held its values.
    pub fn begin_reading(&mut self, ts: i64) {
        let (held, later) = (self.holds(ts), self.later(ts));
        self.reads = held.is_none();
        let free = || (0..FRAMES).find(|frame| !later.contains(frame)).unwrap_or(0);
        match held {
            Some(frame) => self.frame = frame,
            None => self.begin(ts, free()),
        }
    }

    /// Reads the record `from` of state `ts` and makes one in `to` that leans only on the states for which
    /// `is_kept` holds. Returns its bytes. A stream that leans on states that are not held is an error: in `to`
    /// it would be one that nobody can read.
    pub fn reread(
        &mut self,
        ts: i64,
        mut from: &[u8],
        is_kept: impl Fn(i64) -> bool,
        to: &mut [u8],
    ) -> Result<usize> {
        self.begin_reading(ts);
        let frame = self.frame;
        let kept = self.later(ts).into_iter().filter(|&k| self.held[k].is_some_and(&is_kept));
        let kept: Vec<usize> = kept.collect();
        let mut end = 0;
        for &i in &self.streams.clone().order {
            if self.streams.part_of[i] != 0 {
                continue;
            }
            let mask = copy_mask(from, &mut to[end..])?;
            (from, end) = (&from[mask..], end + mask);
            let (header, payload, bytes) = Header::open(from)?;
            from = &from[bytes..];
            let is_read = self.read(&header, payload);
            match self.coders[i].as_mut() {
                Some(coder) if is_read => {
                    let (payload, _) = coder.code(frame, &kept, &mut to[end + HEADER..])?;
                    end += Header { payload, ..header }.seal(&mut to[end..]);
                    continue;
                }
                Some(coder) if header.content == Content::Coded && coder.leans(payload) => {
                    return fail!(
                        Stream,
                        "field {i} of state {ts} leans on later states that are gone, or on others than those held: go on from an \
                         older generation"
                    );
                }
                _ => {}
            }
            to[end + HEADER..][..payload.len()].copy_from_slice(payload);
            end += header.seal(&mut to[end..]);
        }
        Ok(end)
    }

    fn begin(&mut self, ts: i64, frame: usize) {
        (self.held[frame], self.frame) = (Some(ts), frame);
        self.coders.iter_mut().flatten().for_each(|coder| coder.forget(frame));
    }

    /// Notes that the state in hand could not be read.
    pub fn failed(&mut self) {
        self.held[self.frame] = None;
    }

    /// Empties the frame of field `i` of the state in hand.
    pub fn forget(&mut self, i: usize) {
        let frame = self.frame;
        self.coders[i].iter_mut().for_each(|coder| coder.forget(frame));
    }

    /// Takes the array of field `i` of the state in hand. Returns false if it has to be coded by itself.
    pub fn take(&mut self, i: usize, x: Array<'_>, bound: Bound) -> Result<bool> {
        let frame = self.frame;
        self.coders[i].as_mut().map_or(Ok(false), |coder| coder.take(frame, x, bound))
    }

    /// Reads a stream of the state in hand, unless its frame holds it. Returns false if the stream is not one of a
    /// sequence.
    pub fn read(&mut self, header: &Header, payload: &[u8]) -> bool {
        if header.content != Content::Coded || header.reference.is_some() {
            return false;
        }
        let i = header.field as usize;
        let (frame, later) = (self.frame, self.held[self.frame].map(|ts| self.later(ts)));
        let coder = self.coders.get_mut(i).and_then(Option::as_mut);
        let Some(coder) = coder else { return false };
        let is_read = !self.reads || coder.open(frame, &later.unwrap_or_default(), payload).is_ok();
        is_read && coder.is_full(frame)
    }

    /// Writes the array of field `i` of the state in hand to `x`. Returns false if its frame holds none.
    pub fn values(&mut self, i: usize, x: ArrayMut<'_>) -> Result<bool> {
        let frame = self.frame;
        match self.coders[i].as_mut().filter(|coder| coder.is_full(frame)) {
            Some(coder) => coder.values(frame, x).map(|()| true),
            None => Ok(false),
        }
    }

    /// Completes the record of state `ts`, which was taken, in `to`. Returns its bytes.
    pub fn complete(&mut self, ts: i64, to: &mut [u8]) -> Result<usize> {
        let later = self.later(ts);
        let frame = self.holds(ts);
        let Some((frame, early)) = frame.and_then(|k| Some((k, self.early[k].as_ref()?))) else {
            return fail!(State, "internal error, please report it: state {ts} is in no frame");
        };
        let mut from = &early.bytes()[..self.made[frame]];
        let mut end = 0;
        for &i in &self.streams.order {
            if self.streams.part_of[i] != 0 {
                continue;
            }
            let mask = copy_mask(from, &mut to[end..])?;
            (from, end) = (&from[mask..], end + mask);
            let (header, payload, bytes) = Header::open(from)?;
            from = &from[bytes..];
            let to = &mut to[end..];
            end += match (header.content, payload.len(), self.coders[i].as_mut()) {
                (Content::Coded, 0, Some(coder)) => {
                    let (payload, _) = coder.code(frame, &later, &mut to[HEADER..])?;
                    Header { payload, ..header }.seal(to)
                }
                _ => {
                    to[HEADER..HEADER + payload.len()].copy_from_slice(payload);
                    header.seal(to)
                }
            };
        }
        Ok(end)
    }
}
