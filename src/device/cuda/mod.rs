//! The CUDA backend: the primary context of one device, one stream per transfer direction, and
//! events that order the streams.
//!
//! The application's lane is the stream that the application gives in each call. In every call this
//! stream first waits for the end of the previous call, which may have been on another stream.

mod calls;
mod disk;
mod driver;
mod images;
mod launch;
mod marks;
mod memory;
mod nvrtc;
mod primary;
mod recorder;
mod timers;

use super::disk::{no_disk, DiskLanes, DiskSpace, Passing, Work};
use super::recorder::Log;
use super::worker::Progress;
use super::{
    chunk_bytes, Address, Crossing, Device, DeviceMemory, Event, Lane, Launcher, Memory, Place,
    Queue, Stream, Traffic,
};
use crate::error::{fail, Result};
use crate::process::Process;
use calls::Call;
use cudarc::driver::sys::{CUcontext, CUdevice, CUevent, CUevent_flags, CUstream, CUstream_flags};
use disk::{Events, Words};
use driver::{cu, status, Current};
use marks::Marks;
use memory::HostSlab;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;
use timers::Timers;

pub use driver::{
    current_device, device_with_pageable_access, devices, free_memory, is_in_process, is_started,
    may_have_device, require_device, DeviceInfo,
};
pub use images::{folder as image_folder, image_in, images_in, keep_ptx, Image, Source};
pub use launch::{Argument, Module, WORDS};
pub(crate) use memory::is_page_locked;
pub use memory::{locate, set_segment_bytes, Location};
pub(crate) use memory::{DeviceSlab, LockedMemory};
pub(crate) use primary::Primary;

/// A CUDA device as a session uses it: two slabs, two transfer streams, and events.
pub struct CudaDevice {
    ordinal: i32,
    handle: CUdevice,
    /// The architecture for which kernels have to be compiled: 90 for sm_90.
    architecture: u32,
    /// The process that owns the handles and the memory; a forked child does not.
    process: Process,
    context: CUcontext,
    device: DeviceSlab,
    host: HostSlab,
    upload: CUstream,
    download: CUstream,
    events: Events,
    /// The disk, if the session has one, and the numbers in memory that streams wait for it by, if
    /// the driver can do that. The disk ends before the numbers, and before the host slab.
    disk: Option<DiskLanes>,
    words: Option<Words>,
    /// The log of the spans of the disk lanes, if spans are kept.
    disk_log: Option<Arc<Log>>,
    /// The application's stream of the current call, or of the last call of this sweep. The stream
    /// stays valid until the next call.
    app: Option<CUstream>,
    /// Marks on the application's stream between its calls.
    marks: Marks,
    /// The application's context, which is set aside during a call, and when the call began.
    entered: Option<(Current, Instant)>,
    /// Calls that may not have ended on the device, oldest first. The current call is the last one.
    calls: VecDeque<Call>,
    timers: Timers,
    /// Measured seconds between calls.
    gaps: Option<Vec<f64>>,
    traffic: Traffic,
}

// SAFETY: handles of the driver may be used from any thread, and one thread at a time uses them.
unsafe impl Send for CudaDevice {}

impl CudaDevice {
    /// Opens the device with number `ordinal`.
    pub fn new(ordinal: i32) -> Result<Self> {
        let (handle, mut context) = (driver::device(ordinal)?, std::ptr::null_mut());
        let architecture = driver::architecture(handle)?;
        cu!(cuDevicePrimaryCtxRetain(&mut context, handle))?;
        // From here on, dropping `this` releases what the device has.
        let mut this = CudaDevice {
            ordinal,
            handle,
            architecture,
            process: Process::current(),
            context,
            device: DeviceSlab::default(),
            host: HostSlab::default(),
            upload: std::ptr::null_mut(),
            download: std::ptr::null_mut(),
            events: Events::default(),
            disk: None,
            words: None,
            disk_log: None,
            app: None,
            marks: Marks::default(),
            entered: None,
            calls: VecDeque::new(),
            timers: Timers::default(),
            gaps: None,
            traffic: Traffic::default(),
        };
        let _current = Current::new(context)?;
        let flags = CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        cu!(cuStreamCreate(&mut this.upload, flags))?;
        cu!(cuStreamCreate(&mut this.download, flags))?;
        Ok(this)
    }

    /// The application's stream in its last call; NULL, the default stream, before the first call
    /// of a sweep.
    fn app_stream(&self) -> CUstream {
        self.app.unwrap_or(std::ptr::null_mut())
    }

    fn stream(&self, lane: Lane) -> Result<CUstream> {
        match lane {
            Lane::App => Ok(self.app_stream()),
            Lane::Upload => Ok(self.upload),
            Lane::Download => Ok(self.download),
            Lane::DiskRead | Lane::DiskWrite => {
                fail!(Device, "the lanes of the disk are no streams")
            }
        }
    }

    /// How many operations a disk lane has done, and how many were enqueued on it.
    fn progress(&self, lane: Lane) -> Option<(&Arc<Progress>, u64)> {
        self.disk.as_ref()?.progress(lane)
    }

    /// Copies `bytes` bytes, of which one side is `place`, on the application's stream, and waits.
    fn pass(&self, place: Place, to: u64, from: u64, bytes: u64) -> Result<()> {
        let _current = Current::new(self.context)?;
        let stream = self.app_stream();
        for (begin, part) in self.parts(Lane::App, place, place, bytes) {
            cu!(cuMemcpyAsync(to + begin, from + begin, part as usize, stream))?;
        }
        cu!(cuStreamSynchronize(stream))
    }

    /// The parts that a copy of `bytes` bytes consists of, where a side of the copy may be host
    /// memory ([`HostSlab::parts`]). A transfer lane moves chunks; the application's stream waits
    /// for its own copy in any case.
    fn parts(
        &self,
        lane: Lane,
        to: Place,
        from: Place,
        bytes: u64,
    ) -> impl Iterator<Item = (u64, u64)> {
        let longest = if lane == Lane::App { u64::MAX } else { chunk_bytes() };
        let (in_host, whole) = match (to, from) {
            (Place::Host(offset), _) | (_, Place::Host(offset)) => (Some(offset), None),
            _ => (None, Some((0, bytes))),
        };
        let of_host = in_host.map(|offset| self.host.parts(offset, bytes, longest));
        of_host.into_iter().flatten().chain(whole)
    }
}

fn is_done(event: CUevent) -> Result<bool> {
    match status!(cuEventQuery(event)) {
        driver::NOT_READY => Ok(false),
        result => driver::check(result, "cuEventQuery").map(|()| true),
    }
}

/// Makes an event, with a time or without. A thread that waits for the event sleeps; by default,
/// NVIDIA's driver may spin, which would take a core from every rank whose device is behind.
fn new_event(has_time: bool) -> Result<CUevent> {
    let without_time = if has_time { 0 } else { CUevent_flags::CU_EVENT_DISABLE_TIMING as u32 };
    let flags = CUevent_flags::CU_EVENT_BLOCKING_SYNC as u32 | without_time;
    let mut event = std::ptr::null_mut();
    cu!(cuEventCreate(&mut event, flags))?;
    Ok(event)
}

impl Device for CudaDevice {
    fn reserve(&mut self, memory: Memory, bytes: u64) -> Result<()> {
        let _current = Current::new(self.context)?;
        match memory {
            Memory::Device => self.device = DeviceSlab::new(bytes)?,
            Memory::Host => self.host = HostSlab::new(bytes, driver::closest_node(self.handle))?,
        }
        Ok(())
    }

    fn lock(&mut self, bytes: u64) -> Result<u64> {
        if self.host.want(bytes) {
            let _current = Current::new(self.context)?;
            self.host.lock();
        }
        Ok(self.host.pageable_bytes())
    }

    fn memory(&self) -> Result<Option<DeviceMemory>> {
        let _current = Current::new(self.context)?;
        driver::free_here().map(Some)
    }

    fn copy_engines(&self) -> Result<u32> {
        driver::copy_engines(self.handle)
    }

    fn mount(&mut self, space: DiskSpace) -> Result<()> {
        let _current = Current::new(self.context)?;
        // The lanes of the old disk end before the new ones begin.
        self.disk = None;
        self.words = Words::new();
        self.disk = Some(DiskLanes::new(space)?);
        Ok(())
    }

    fn disk(&self) -> Option<&DiskLanes> {
        self.disk.as_ref()
    }

    fn enter(&mut self, stream: Stream, call: &'static str) -> Result<()> {
        let begun = Instant::now();
        let current = driver::enter(stream.0.cast(), (self.context, self.ordinal), call)?;
        self.entered = Some((current, begun));
        let result = self.harvest().and_then(|()| self.begin_call(stream.0.cast(), call));
        if result.is_err() {
            self.entered = None;
        }
        result
    }

    fn leave(&mut self) -> Result<f64> {
        let stream = self.app_stream();
        let end = |call: &Call| cu!(cuEventRecord(call.pair.end, stream));
        let result = self.calls.back().map_or(Ok(()), end);
        if result.is_err() {
            // The end of this call was not recorded, and a later wait for it would return at once.
            // The host waits for the stream here instead, and the call leaves the list.
            let _ = cu!(cuStreamSynchronize(stream));
            self.calls.pop_back().into_iter().for_each(|call| self.timers.pairs.give(call.pair));
        }
        let result = result.and_then(|()| self.timers.leave(stream));
        let begun = self.entered.take().map(|(_, begun)| begun);
        result.map(|()| begun.map_or(0.0, |begun| begun.elapsed().as_secs_f64()))
    }

    fn slabs(&self) -> [(u64, u64); 2] {
        [(self.device.address, self.device.bytes), (self.host.address(), self.host.bytes())]
    }

    fn read(&mut self, place: Place, to: &mut [u8]) -> Result<()> {
        let from = self.pointer(place, to.len() as u64)? as u64;
        self.pass(place, to.as_mut_ptr() as u64, from, to.len() as u64)
    }

    fn write(&mut self, place: Place, from: &[u8]) -> Result<()> {
        let to = self.pointer(place, from.len() as u64)? as u64;
        self.pass(place, to, from.as_ptr() as u64, from.len() as u64)
    }

    fn event(&mut self) -> Result<Event> {
        let _current = Current::new(self.context)?;
        let event = Some(disk::make()?);
        self.events.add(event).map(Event)
    }

    fn disk_event(&mut self) -> Result<Event> {
        self.events.add(None).map(Event)
    }

    fn copy(&mut self, lane: Lane, to: Place, from: Place, bytes: u64) -> Result<()> {
        if let Some(transfer) = Passing::of(to, from) {
            let address = Address(self.pointer(transfer.memory, bytes)?.cast());
            let label = self.timers.subject.copy(lane, &Crossing::None, bytes);
            let span = self.disk_log.clone().map(|log| (log, label));
            self.traffic.count(to, from, bytes);
            let Some(disk) = &mut self.disk else { return no_disk() };
            return disk.pass(lane, transfer, address, bytes, span);
        }
        let (target, source) = (self.pointer(to, bytes)? as u64, self.pointer(from, bytes)? as u64);
        let stream = self.stream(lane)?;
        let timer = self.timers.begin(stream)?;
        for (begin, part) in self.parts(lane, to, from, bytes) {
            let copied = cu!(cuMemcpyAsync(target + begin, source + begin, part as usize, stream));
            if let Err(error) = copied {
                timer.into_iter().for_each(|pair| self.timers.pairs.give(pair));
                return Err(error);
            }
        }
        let crossing = self.traffic.count(to, from, bytes);
        let Some(pair) = timer else { return Ok(()) };
        let label = self.timers.subject.copy(lane, &crossing, bytes);
        self.timers.end(pair, lane, stream, label)
    }

    fn record(&mut self, lane: Lane, event: Event) -> Result<()> {
        if !matches!(lane, Lane::DiskRead | Lane::DiskWrite) {
            let stream = self.stream(lane)?;
            return cu!(cuEventRecord(self.events.recorded(event.0)?, stream));
        }
        let sequence = self.issued(lane) + 1;
        let Some(disk) = &mut self.disk else { return no_disk() };
        let word = self.words.as_ref().map(|words| words.of(lane));
        disk.push(lane, Work::Post(word, sequence as u32))?;
        self.events.all[event.0].on_disk = Some((lane, sequence));
        Ok(())
    }

    fn wait(&mut self, lane: Lane, event: Event) -> Result<()> {
        let recorded = &self.events.all[event.0];
        let is_of_disk = matches!(lane, Lane::DiskRead | Lane::DiskWrite);
        let Some((other, sequence)) = recorded.on_disk else {
            // An event without one of the driver was never recorded.
            let Some(event) = &recorded.event else { return Ok(()) };
            if !is_of_disk {
                return cu!(cuStreamWaitEvent(self.stream(lane)?, event.0, 0));
            }
            let wait = disk::wait_for(event.clone(), self.context);
            let Some(disk) = &mut self.disk else { return no_disk() };
            return disk.push(lane, Work::Call(Box::new(wait)));
        };
        let Some(disk) = &mut self.disk else { return no_disk() };
        let progress = disk.progress(other).map(|(progress, _)| progress.clone());
        let open = progress.filter(|progress| lane != other && !progress.has(sequence));
        let Some(progress) = open else { return Ok(()) };
        if is_of_disk {
            return disk.push(lane, Work::Wait(progress, sequence));
        }
        let stream = self.stream(lane)?;
        let is_waiting =
            self.words.as_ref().map_or(Ok(false), |words| words.wait(other, sequence, stream))?;
        match is_waiting {
            true => Ok(()),
            false => progress.wait(sequence),
        }
    }

    fn is_done(&mut self, event: Event) -> Result<bool> {
        let recorded = &self.events.all[event.0];
        match recorded.on_disk {
            None => recorded.event.as_ref().map_or(Ok(true), |event| is_done(event.0)),
            Some((lane, sequence)) => {
                Ok(self.progress(lane).is_none_or(|(progress, _)| progress.has(sequence)))
            }
        }
    }

    fn finish(&mut self, event: Event) -> Result<()> {
        let recorded = &self.events.all[event.0];
        match (recorded.on_disk, &recorded.event) {
            (None, None) => Ok(()),
            (None, Some(event)) if is_done(event.0)? => Ok(()),
            (None, Some(event)) => cu!(cuEventSynchronize(event.0)),
            (Some((lane, sequence)), _) => {
                self.progress(lane).map_or(Ok(()), |(progress, _)| progress.wait(sequence))
            }
        }
    }

    fn keep_up(&mut self, it: i64, ahead: i64) -> Result<f64> {
        let due = self.app.filter(|_| self.marks.are_due(it, ahead));
        let Some(stream) = due else { return Ok(0.0) };
        let _current = Current::new(self.context)?;
        // A mark would become a part of the graph, and could not be waited for.
        if driver::is_capturing(stream)? {
            return Ok(0.0);
        }
        self.marks.keep_up(it, ahead, stream)
    }

    fn finish_calls(&mut self) -> Result<()> {
        let Some(call) = self.calls.back() else { return Ok(()) };
        let _current = Current::new(self.context)?;
        cu!(cuEventSynchronize(call.pair.end))
    }

    fn synchronize(&mut self) -> Result<()> {
        let _current = Current::new(self.context)?;
        match (&self.entered, self.calls.back()) {
            // The end of the current call is not recorded yet.
            (Some(_), _) => cu!(cuStreamSynchronize(self.app_stream()))?,
            (None, Some(call)) => cu!(cuEventSynchronize(call.pair.end))?,
            (None, None) => {}
        }
        cu!(cuStreamSynchronize(self.upload))?;
        cu!(cuStreamSynchronize(self.download))?;
        self.disk.as_ref().map_or(Ok(()), DiskLanes::finish)?;
        match self.entered {
            Some(_) => Ok(()),
            None => self.harvest(),
        }
    }

    fn forget_stream(&mut self) {
        self.app = None;
        self.marks.clear();
    }

    fn traffic(&self) -> Traffic {
        self.traffic
    }
}

impl Launcher for CudaDevice {
    fn launches(&self, lane: Lane) -> Result<Queue> {
        Ok(Queue(Stream(self.stream(lane)?.cast())))
    }

    fn run(&mut self, body: &mut dyn FnMut(&Queue, u32) -> Result<()>) -> Result<()> {
        self.process.check()?;
        let _current = Current::new(self.context)?;
        let result = body(&self.launches(Lane::Upload)?, self.architecture);
        let waited = cu!(cuStreamSynchronize(self.upload));
        if waited.is_err() {
            // What `body` has made is dropped now, with the modules of kernels that may still be queued.
            let _ = cu!(cuStreamSynchronize(self.upload));
        }
        waited.and(result)
    }

    fn release(&mut self, body: &mut dyn FnMut()) -> Result<()> {
        self.process.check()?;
        let finished = self.finish_calls();
        let _current = Current::new(self.context)?;
        body();
        finished
    }
}

impl Drop for CudaDevice {
    fn drop(&mut self) {
        if !self.process.is_current() {
            // A forked child must not call CUDA; the inherited memory belongs to the parent.
            let (device, host) = (std::mem::take(&mut self.device), std::mem::take(&mut self.host));
            std::mem::forget((device, host, self.words.take()));
            return;
        }
        // The lanes of the disk end first: they use the host slab.
        self.disk = None;
        // An error cannot be reported here, and a driver that is shutting down returns errors only.
        if let Ok(_current) = Current::new(self.context) {
            if let Some(call) = self.calls.back() {
                let _ = cu!(cuEventSynchronize(call.pair.end));
            }
            let streams = [self.upload, self.download];
            for stream in streams.into_iter().filter(|stream| !stream.is_null()) {
                let _ = cu!(cuStreamSynchronize(stream));
                let _ = cu!(cuStreamDestroy_v2(stream));
            }
            self.calls.drain(..).for_each(|call| self.timers.pairs.give(call.pair));
            let timed = std::mem::take(&mut self.timers).into_events();
            let marks = std::mem::take(&mut self.marks).into_events();
            for event in timed.chain(self.events.drain()).chain(marks) {
                let _ = cu!(cuEventDestroy_v2(event));
            }
            self.words = None;
            self.device = DeviceSlab::default();
            self.host = HostSlab::default();
        }
        let _ = cu!(cuDevicePrimaryCtxRelease_v2(self.handle));
    }
}
