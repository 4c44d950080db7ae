//! Stream capture. Operations enqueued in a stream that is being captured go into a graph and do not
//! run; graphs cannot be launched here. A stream that waits for an event of a captured stream joins the
//! capture. What CUDA forbids during a capture is an error, and makes the capture invalid.

use crate::call::Call;
use crate::context::thread_number;
use crate::driver::Driver;
use crate::status::{
    Result, CAPTURED_EVENT, ILLEGAL_STATE, INVALID_VALUE, STREAM_CAPTURE_IMPLICIT,
    STREAM_CAPTURE_INVALIDATED, STREAM_CAPTURE_ISOLATION, STREAM_CAPTURE_MERGE,
    STREAM_CAPTURE_UNJOINED, STREAM_CAPTURE_UNMATCHED, STREAM_CAPTURE_UNSUPPORTED,
    STREAM_CAPTURE_WRONG_THREAD,
};
use std::cell::Cell;
use std::collections::BTreeMap;

/// The modes of a capture and of a thread.
const GLOBAL: u32 = 0;
const RELAXED: u32 = 2;

/// The states that `cuStreamIsCapturing` gives.
const NONE: u32 = 0;
const ACTIVE: u32 = 1;
const INVALIDATED: u32 = 2;

/// A capture that has begun and not ended.
pub struct Capture {
    mode: u32,
    /// Number of the thread that began the capture.
    thread: u64,
    /// True once the program has made a call that CUDA forbids during this capture.
    is_invalid: bool,
    /// Number of operations in the graph.
    operations: u64,
    /// The streams that have joined the capture, by index.
    branches: BTreeMap<usize, Branch>,
}

/// A stream that has joined the capture of another stream.
#[derive(Clone, Copy)]
struct Branch {
    /// Number in the graph of the last operation before the stream joined, or of its own last one.
    last: u64,
    /// Whether another stream of the capture has waited for that operation.
    is_awaited: bool,
}

/// The record of an event in a capture.
#[derive(Clone, Copy)]
pub struct Captured {
    /// Index of the stream.
    stream: usize,
    /// Number of the record in the graph.
    number: u64,
}

thread_local! {
    /// The mode of the calling thread.
    static MODE: Cell<u32> = const { Cell::new(GLOBAL) };
}

/// Calls that CUDA forbids during a capture, unless the calling thread's mode is `RELAXED`: they
/// wait for work, ask about work, or allocate.
const UNSAFE: [Call; 17] = [
    Call::cuMemAlloc_v2,
    Call::cuMemFree_v2,
    Call::cuMemAllocManaged,
    Call::cuMemHostAlloc,
    Call::cuMemFreeHost,
    Call::cuMemHostRegister_v2,
    Call::cuMemHostUnregister,
    Call::cuMemcpyHtoD_v2,
    Call::cuMemcpyDtoH_v2,
    Call::cuMemsetD8_v2,
    Call::cuEventQuery,
    Call::cuEventSynchronize,
    Call::cuStreamQuery,
    Call::cuStreamSynchronize,
    Call::cuCtxSynchronize,
    Call::cuModuleLoadData,
    Call::cuModuleUnload,
];

impl Driver {
    /// Fails if a capture forbids the calling thread this call: a capture of the thread itself, or a
    /// capture of the mode GLOBAL of any thread. Such captures become invalid.
    pub fn check_captures(&mut self, call: Call) -> Result {
        if self.captures.is_empty() || MODE.get() == RELAXED || !UNSAFE.contains(&call) {
            return Ok(());
        }
        let (own, is_global) = (thread_number(), MODE.get() == GLOBAL);
        let mut result = Ok(());
        for capture in self.captures.values_mut() {
            let is_own = capture.thread == own && capture.mode != RELAXED;
            if is_own || (is_global && capture.mode == GLOBAL) {
                capture.is_invalid = true;
                result = Err(STREAM_CAPTURE_UNSUPPORTED);
            }
        }
        result
    }

    /// `cuThreadExchangeStreamCaptureMode`: returns the mode before.
    pub fn exchange_capture_mode(&mut self, mode: u32) -> Result<u32> {
        if mode > RELAXED {
            return Err(INVALID_VALUE);
        }
        Ok(MODE.replace(mode))
    }

    /// `cuStreamBeginCapture`
    pub fn capture_begin(&mut self, handle: usize, mode: u32) -> Result {
        let stream = self.stream(handle)?;
        let context = self.streams[stream].context;
        if mode > RELAXED {
            return Err(INVALID_VALUE);
        }
        if self.contexts[context].legacy == Some(stream) {
            return Err(STREAM_CAPTURE_UNSUPPORTED);
        }
        if self.origin(stream).is_some() {
            return Err(ILLEGAL_STATE);
        }
        let (thread, branches) = (thread_number(), BTreeMap::new());
        let capture = Capture { mode, thread, is_invalid: false, operations: 0, branches };
        self.captures.insert(stream, capture);
        Ok(())
    }

    /// `cuStreamEndCapture`: returns the graph, which keeps only its number of operations.
    pub fn capture_end(&mut self, handle: usize) -> Result<usize> {
        let stream = self.stream(handle)?;
        let Some(capture) = self.captures.get(&stream) else {
            self.spoil(stream, STREAM_CAPTURE_UNMATCHED)?;
            return Err(ILLEGAL_STATE);
        };
        if capture.mode != RELAXED && capture.thread != thread_number() {
            return Err(STREAM_CAPTURE_WRONG_THREAD);
        }
        let (is_invalid, operations) = (capture.is_invalid, capture.operations);
        let is_joined = capture.branches.values().all(|branch| branch.is_awaited);
        self.captures.remove(&stream);
        if is_invalid {
            return Err(STREAM_CAPTURE_INVALIDATED);
        }
        if !is_joined {
            return Err(STREAM_CAPTURE_UNJOINED);
        }
        let graph = self.graphs.insert(operations);
        Ok(self.graphs.handle(graph))
    }

    /// `cuStreamIsCapturing`
    pub fn is_capturing(&mut self, handle: usize) -> Result<u32> {
        let stream = self.stream_or_implicit(handle)?;
        if self.is_implicit(stream) {
            return Err(STREAM_CAPTURE_IMPLICIT);
        }
        Ok(match self.capture_of(stream) {
            None => NONE,
            Some(capture) if capture.is_invalid => INVALIDATED,
            Some(_) => ACTIVE,
        })
    }

    /// Returns whether work in `stream` would depend on a capture that it is not part of: the stream
    /// is the legacy default stream, and a stream that synchronises with it is being captured.
    pub fn is_implicit(&self, stream: usize) -> bool {
        let context = self.streams[stream].context;
        self.contexts[context].legacy == Some(stream)
            && self
                .captures
                .iter()
                .flat_map(|(origin, capture)| capture.streams(*origin))
                .any(|other| self.streams[other].blocking && self.streams[other].context == context)
    }

    /// The index of the stream that began the capture of which `stream` is a part.
    fn origin(&self, stream: usize) -> Option<usize> {
        let found = |(origin, capture): &(&usize, &Capture)| {
            **origin == stream || capture.branches.contains_key(&stream)
        };
        self.captures.iter().find(found).map(|(origin, _)| *origin)
    }

    /// The capture of which `stream` is a part.
    fn capture_of(&mut self, stream: usize) -> Option<&mut Capture> {
        self.origin(stream).and_then(|origin| self.captures.get_mut(&origin))
    }

    /// The record that an event gets in `stream` if the stream is being captured.
    pub fn captured_record(&mut self, stream: usize) -> Option<Captured> {
        self.capture_of(stream).map(|capture| Captured { stream, number: capture.operations + 1 })
    }

    /// A wait of `stream` for an event with the record `captured` in a capture, or with none. Returns
    /// whether the wait is part of a capture.
    pub fn captured_wait(&mut self, stream: usize, captured: Option<Captured>) -> Result<bool> {
        let own = self.origin(stream);
        let Some(Captured { stream: other, number }) = captured else {
            return match own {
                Some(_) => self.spoil(stream, STREAM_CAPTURE_ISOLATION).map(|()| false),
                None => Ok(false),
            };
        };
        let Some(origin) = self.origin(other) else { return Err(STREAM_CAPTURE_ISOLATION) };
        if own.is_some_and(|own| own != origin) {
            let _ = self.spoil(stream, STREAM_CAPTURE_MERGE);
            return self.spoil(other, STREAM_CAPTURE_MERGE).map(|()| false);
        }
        if self.contexts[self.streams[stream].context].legacy == Some(stream) {
            return self.spoil(other, STREAM_CAPTURE_IMPLICIT).map(|()| false);
        }
        let Some(capture) = self.captures.get_mut(&origin) else { return Ok(false) };
        if let Some(branch) = capture.branches.get_mut(&other).filter(|_| other != stream) {
            branch.is_awaited |= number >= branch.last;
        }
        if own.is_none() {
            capture.branches.insert(stream, Branch { last: number, is_awaited: false });
        }
        Ok(true)
    }

    /// Refuses a use of the legacy default stream that `is_implicit` describes.
    pub fn refuse_implicit(&mut self, stream: usize) -> Result {
        if self.captures.is_empty() || !self.is_implicit(stream) {
            return Ok(());
        }
        let streams = &self.streams;
        self.captures
            .iter_mut()
            .filter(|(origin, capture)| capture.streams(**origin).any(|k| streams[k].blocking))
            .for_each(|(_, capture)| capture.is_invalid = true);
        Err(STREAM_CAPTURE_IMPLICIT)
    }

    /// Counts an operation of the graph, if the stream is being captured. Returns whether it is.
    pub fn captured(&mut self, stream: usize) -> bool {
        let Some(capture) = self.capture_of(stream) else { return false };
        capture.operations += 1;
        let last = Branch { last: capture.operations, is_awaited: false };
        capture.branches.entry(stream).and_modify(|branch| *branch = last);
        true
    }

    /// Refuses a wait for, or a question about, a stream that is being captured.
    pub fn refuse_captured(&mut self, stream: usize) -> Result {
        self.spoil(stream, STREAM_CAPTURE_UNSUPPORTED)
    }

    fn spoil(&mut self, stream: usize, code: i32) -> Result {
        let Some(capture) = self.capture_of(stream) else { return Ok(()) };
        capture.is_invalid = true;
        Err(code)
    }

    /// Refuses a wait for, or a question about, an event that was last recorded in a capture.
    pub fn refuse_captured_event(&mut self, event: usize) -> Result {
        let Some(Captured { stream, .. }) = self.events[event].captured else { return Ok(()) };
        self.spoil(stream, CAPTURED_EVENT)?;
        Err(CAPTURED_EVENT)
    }
}

impl Capture {
    /// The streams that are being captured; `origin` began the capture.
    fn streams(&self, origin: usize) -> impl Iterator<Item = usize> + '_ {
        std::iter::once(origin).chain(self.branches.keys().copied())
    }
}
