//! Contexts, and each thread's stack of current contexts.

use crate::clock::Engines;
use crate::driver::Driver;
use crate::status::{
    Result, Status, CONTEXT_IS_DESTROYED, INVALID_CONTEXT, INVALID_DEVICE, INVALID_VALUE,
};
use crate::stream::Point;
use std::cell::{Cell, RefCell};
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicU64, Ordering};

/// A device.
#[derive(Default)]
pub struct Device {
    /// Index of the primary context, once it was retained for the first time.
    pub primary: Option<usize>,
    /// Retains of the primary context.
    pub retained: u64,
    /// Bytes allocated.
    pub used: u64,
    /// The virtual times until which the engines of the device are busy.
    pub engines: Engines,
}

/// A context.
pub struct Context {
    /// Ordinal of the context's device.
    pub device: usize,
    /// True until the context is destroyed. A primary context keeps its handle, and is alive again
    /// when it is retained again.
    pub alive: bool,
    /// The error that every call returns from now on.
    pub sticky: Option<Status>,
    /// The indices of the context's streams.
    pub streams: Vec<usize>,
    /// Index of the legacy default stream, once it was used.
    pub legacy: Option<usize>,
    /// The per-thread default streams: thread number and stream index.
    pub per_thread: Vec<(u64, usize)>,
}

impl Context {
    fn new(device: usize) -> Self {
        Self {
            device,
            alive: true,
            sticky: None,
            streams: Vec::new(),
            legacy: None,
            per_thread: Vec::new(),
        }
    }
}

/// The context handles that a thread has pushed, and the number of the reset after which it pushed
/// them.
struct Stack {
    epoch: u64,
    handles: Vec<usize>,
}

thread_local! {
    /// Never dropped, so that a function that runs at exit, after the thread's other values were
    /// dropped, can call the driver.
    static STACK: ManuallyDrop<RefCell<Stack>> =
        const { ManuallyDrop::new(RefCell::new(Stack { epoch: 0, handles: Vec::new() })) };
    static NUMBER: Cell<u64> = const { Cell::new(0) };
}

/// Returns the number of the calling thread; threads are numbered in the order of their first call.
pub fn thread_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    if NUMBER.get() == 0 {
        NUMBER.set(NEXT.fetch_add(1, Ordering::Relaxed));
    }
    NUMBER.get()
}

impl Driver {
    /// Calls `body` with the calling thread's stack.
    fn stack<T>(&self, body: impl FnOnce(&mut Vec<usize>) -> T) -> T {
        STACK.with(|stack| {
            let stack = &mut *stack.borrow_mut();
            if stack.epoch != self.epoch {
                *stack = Stack { epoch: self.epoch, handles: Vec::new() };
            }
            body(&mut stack.handles)
        })
    }

    /// Returns the handle of the current context, 0 for none.
    pub fn current_handle(&self) -> usize {
        self.stack(|handles| handles.last().copied().unwrap_or(0))
    }

    /// Returns the index of the current context, which must be alive and without an error.
    pub fn current(&self) -> Result<usize> {
        let context = self.current_device_context()?;
        self.healthy(context)?;
        Ok(context)
    }

    /// Returns the index of the current context, which must be alive.
    pub fn current_device_context(&self) -> Result<usize> {
        match self.current_handle() {
            0 => Err(INVALID_CONTEXT),
            handle => self.live_context(handle).ok_or(CONTEXT_IS_DESTROYED),
        }
    }

    fn live_context(&self, handle: usize) -> Option<usize> {
        self.contexts.find(handle).filter(|index| self.contexts[*index].alive)
    }

    /// Returns the error that sticks to a context, if there is one.
    pub fn healthy(&self, context: usize) -> Result {
        match self.contexts[context].sticky {
            Some(code) => Err(code),
            None => Ok(()),
        }
    }

    /// Returns the ordinal of a `CUdevice`.
    pub fn device(&self, device: i32) -> Result<usize> {
        usize::try_from(device)
            .ok()
            .filter(|ordinal| *ordinal < self.devices.len())
            .ok_or(INVALID_DEVICE)
    }

    /// `cuDevicePrimaryCtxRetain`
    pub fn primary_retain(&mut self, device: i32) -> Result<usize> {
        let device = self.device(device)?;
        let index = match self.devices[device].primary {
            Some(index) => {
                self.contexts[index].alive = true;
                index
            }
            None => self.contexts.insert(Context::new(device)),
        };
        let state = &mut self.devices[device];
        state.primary = Some(index);
        state.retained += 1;
        self.counters.totals.retained += 1;
        Ok(self.contexts.handle(index))
    }

    /// `cuDevicePrimaryCtxRelease`: returns the context to destroy, if this released the last
    /// retain.
    pub fn primary_release(&mut self, device: i32) -> Result<Option<usize>> {
        let device = self.device(device)?;
        let state = &mut self.devices[device];
        if state.retained == 0 {
            return Err(INVALID_CONTEXT);
        }
        state.retained -= 1;
        let last = state.primary.filter(|_| state.retained == 0);
        self.counters.totals.retained -= 1;
        Ok(last)
    }

    /// `cuCtxCreate`: the new context becomes current.
    pub fn context_create(&mut self, device: i32) -> Result<usize> {
        let device = self.device(device)?;
        let index = self.contexts.insert(Context::new(device));
        self.counters.totals.contexts += 1;
        let handle = self.contexts.handle(index);
        self.stack(|handles| handles.push(handle));
        Ok(handle)
    }

    /// The first part of `cuCtxDestroy`: returns the context to destroy, whose work must be
    /// finished first.
    pub fn context_to_destroy(&mut self, handle: usize) -> Result<usize> {
        let index = self.live_context(handle).ok_or(INVALID_CONTEXT)?;
        if self.devices.iter().any(|device| device.primary == Some(index)) {
            return Err(INVALID_CONTEXT);
        }
        self.counters.totals.contexts -= 1;
        self.stack(|handles| {
            if handles.last() == Some(&handle) {
                handles.truncate(handles.len() - 1)
            }
        });
        Ok(index)
    }

    /// Ends a context whose work is finished, and all objects that it owns.
    pub fn end_context(&mut self, index: usize) {
        for base in self.memory.of_context(index) {
            self.release_region(base);
            self.counters.totals.abandoned += 1;
        }
        let modules: Vec<usize> = self
            .modules
            .iter()
            .filter(|(_, module)| module.context == index)
            .map(|found| found.0)
            .collect();
        modules.into_iter().for_each(|module| self.forget_module(module));
        let events: Vec<usize> = self
            .events
            .iter()
            .filter(|(_, event)| event.context == index)
            .map(|(event, _)| event)
            .collect();
        for event in events {
            self.events.remove(event);
            self.counters.totals.events -= 1;
            self.counters.totals.abandoned += 1;
        }
        for stream in std::mem::take(&mut self.contexts[index].streams) {
            if let Some(stream) =
                self.streams.remove(stream).filter(|stream| !stream.default && !stream.destroyed)
            {
                debug_assert!(stream.queue.is_empty());
                self.counters.totals.streams -= 1;
                self.counters.totals.abandoned += 1;
            }
        }
        let streams = &self.streams;
        self.active.retain(|stream| streams.get(*stream).is_some());
        let device = self.contexts[index].device;
        self.contexts[index] = Context { alive: false, ..Context::new(device) };
    }

    /// `cuCtxSetCurrent`
    pub fn set_current(&mut self, handle: usize) -> Result {
        if handle != 0 {
            self.live_context(handle).ok_or(INVALID_CONTEXT)?;
        }
        self.stack(|handles| {
            handles.pop();
            handles.extend((handle != 0).then_some(handle));
        });
        Ok(())
    }

    /// `cuCtxPushCurrent`
    pub fn push_current(&mut self, handle: usize) -> Result {
        if handle == 0 {
            return Err(INVALID_VALUE);
        }
        self.live_context(handle).ok_or(INVALID_CONTEXT)?;
        self.stack(|handles| handles.push(handle));
        Ok(())
    }

    /// `cuCtxPopCurrent`
    pub fn pop_current(&mut self) -> Result<usize> {
        self.stack(Vec::pop).ok_or(INVALID_CONTEXT)
    }

    /// Returns the last operation of each stream of a context.
    pub fn all_work(&self, context: usize) -> Vec<Point> {
        self.contexts[context].streams.iter().map(|stream| self.last(*stream)).collect()
    }
}
