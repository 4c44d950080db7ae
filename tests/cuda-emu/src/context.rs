//! Contexts, and each thread's stack of current ones.

use crate::clock::Engines;
use crate::driver::Driver;
use crate::status::{
    Result, Status, CONTEXT_IS_DESTROYED, INVALID_CONTEXT, INVALID_DEVICE, INVALID_VALUE,
};
use crate::stream::Point;
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU64, Ordering};

/// A device.
#[derive(Default)]
pub struct Device {
    /// Index of its primary context, once it had one.
    pub primary: Option<usize>,
    /// Retains of the primary context.
    pub retained: u64,
    /// Bytes allocated.
    pub used: u64,
    /// Until when its engines are taken.
    pub engines: Engines,
}

/// A context.
pub struct Context {
    /// Ordinal of its device.
    pub device: usize,
    /// Not destroyed. A primary context keeps its handle, and lives again when it is retained
    /// again.
    pub alive: bool,
    /// The error that every call returns from now on.
    pub sticky: Option<Status>,
    /// The indices of its streams.
    pub streams: Vec<usize>,
    /// The legacy default stream, once it was used.
    pub legacy: Option<usize>,
    /// The per-thread default streams, with the numbers of their threads.
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

/// The context handles that a thread has pushed, and the reset that they belong to.
struct Stack {
    epoch: u64,
    handles: Vec<usize>,
}

thread_local! {
    static STACK: RefCell<Stack> = const { RefCell::new(Stack { epoch: 0, handles: Vec::new() }) };
    static NUMBER: Cell<u64> = const { Cell::new(0) };
}

/// A number for this thread, in the order of first use.
pub fn thread_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    if NUMBER.get() == 0 {
        NUMBER.set(NEXT.fetch_add(1, Ordering::Relaxed));
    }
    NUMBER.get()
}

impl Driver {
    /// This thread's stack.
    fn stack<T>(&self, body: impl FnOnce(&mut Vec<usize>) -> T) -> T {
        STACK.with_borrow_mut(|stack| {
            if stack.epoch != self.epoch {
                *stack = Stack { epoch: self.epoch, handles: Vec::new() };
            }
            body(&mut stack.handles)
        })
    }

    /// The handle of the current context, 0 for none.
    pub fn current_handle(&self) -> usize {
        self.stack(|handles| handles.last().copied().unwrap_or(0))
    }

    /// The current context, which must be alive and free of errors.
    pub fn current(&self) -> Result<usize> {
        let context = self.current_device_context()?;
        self.healthy(context)?;
        Ok(context)
    }

    /// The current context, which must be alive.
    pub fn current_device_context(&self) -> Result<usize> {
        match self.current_handle() {
            0 => Err(INVALID_CONTEXT),
            handle => self.live_context(handle).ok_or(CONTEXT_IS_DESTROYED),
        }
    }

    fn live_context(&self, handle: usize) -> Option<usize> {
        self.contexts.find(handle).filter(|index| self.contexts[*index].alive)
    }

    /// Refuses a context that has met an error.
    pub fn healthy(&self, context: usize) -> Result {
        match self.contexts[context].sticky {
            Some(code) => Err(code),
            None => Ok(()),
        }
    }

    /// The ordinal that a `CUdevice` stands for.
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

    /// `cuDevicePrimaryCtxRelease`: the context to destroy, if this was the last retain.
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

    /// `cuCtxDestroy`, before its work is finished: the context to destroy.
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

    /// Ends a context whose work is finished, with all that it owns.
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

    /// The ends of all queues of a context.
    pub fn all_work(&self, context: usize) -> Vec<Point> {
        self.contexts[context].streams.iter().map(|stream| self.last(*stream)).collect()
    }
}
