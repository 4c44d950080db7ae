//! The host backend: main memory stands for device memory, the calling thread is the application's
//! stream, and two worker threads are the transfer lanes, but for short copies ([`SHORT`]). The transfer
//! lanes code snapshots, too, if a session asks for that.
//!
//! With a link bandwidth set, every copy between device and host memory takes at least as long as
//! such a link would need, which simulates the balance of an accelerator. All devices of a process with
//! the same bandwidth share one link, as the ranks of a node may.

use super::disk::{no_disk, DiskLanes, DiskSpace, Passing, Work as DiskWork};
use super::lane_coding::{CodesRecords, RecordCoding, RecordName, Work};
use super::recorder::{Log, Recorder, Teller};
use super::slab::{Slab, Toucher};
use super::team::Team;
use super::thread::{process_time, run_delay};
use super::worker::{Progress, Task, Worker};
use super::{
    Address, Coding, Crossing, Device, Event, Lane, Launcher, Memory, Place, Rows, Stream, Times,
    Traffic,
};
use crate::error::{fail, Result};
use crate::fallible_vec;
use crate::guarded::{locked, Guarded};
use crate::timeline::{Label, Span};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

/// Most bytes of a copy that takes less time than to wake the thread of a lane, about 1 us. The calling
/// thread does such a copy if the lane has nothing else to do.
const SHORT: u64 = 8 << 10;

/// What is measured between calls.
#[derive(Default)]
struct Gaps {
    /// Seconds from the end of the previous call to the start of each call.
    seconds: Vec<f64>,
    /// What `HostDevice::clocks` told when the last call ended.
    left: Option<[f64; 2]>,
    /// Seconds between calls in which the calling thread had a processor, or waited for other threads of the
    /// application, and the processor seconds that the application took between calls.
    computed: [f64; 2],
}

/// The host as a device.
pub struct HostDevice {
    /// Touches the pages of the device slab ahead of their use; ends before the slab.
    toucher: Option<Toucher>,
    device: Slab,
    host: Slab,
    /// The simulated link to the device and the one to the host, if there is one.
    links: Option<Arc<[Arc<Link>; 2]>>,
    /// The lanes of uploads and of downloads.
    transfers: [Worker<Transfer>; 2],
    /// The threads that share the coding of the lanes.
    team: Arc<Team>,
    /// The disk, if the session has one. Ends before the host slab.
    disk: Option<DiskLanes>,
    traffic: Traffic,
    /// For each event, the lane on which the event was recorded last, and the number of tasks that
    /// the lane had been given by then.
    events: Vec<(Lane, u64)>,
    /// When the current call began.
    entered: Instant,
    times: Times,
    /// Nanoseconds in which the transfer lanes compressed, and in which they decompressed.
    coded: Arc<[AtomicU64; 2]>,
    /// When the last call ended, and what is measured between calls.
    left: Option<Instant>,
    gaps: Option<Gaps>,
    /// The coding work under way and its start.
    coding: Option<(Coding, Instant)>,
    /// The spans, if spans are kept.
    teller: Option<Teller>,
}

impl HostDevice {
    /// Makes the device and starts the two transfer lanes. `link_bandwidth` is the bandwidth of the
    /// simulated link in bytes per second in each direction; 0: no simulation.
    pub fn new(link_bandwidth: f64) -> Result<Self> {
        let links = if link_bandwidth > 0.0 { Some(Link::both(link_bandwidth)?) } else { None };
        let team = Team::new();
        let lane = |name| Worker::start(name, Some(team.clone()));
        Ok(HostDevice {
            toucher: None,
            device: Slab::new(0)?,
            host: Slab::new(0)?,
            transfers: [lane(c"gpuzip-upload")?, lane(c"gpuzip-download")?],
            team,
            disk: None,
            links,
            traffic: Traffic::default(),
            events: Vec::new(),
            entered: Instant::now(),
            times: Times::default(),
            coded: Arc::default(),
            left: None,
            gaps: None,
            coding: None,
            teller: None,
        })
    }

    /// How many tasks a lane has done, and how many it was given; `None` for the application's
    /// lane, whose work has ended when its call returns.
    fn progress(&self, lane: Lane) -> Option<(&Arc<Progress>, u64)> {
        match lane {
            Lane::App => None,
            Lane::Upload => Some(self.transfers[0].progress()),
            Lane::Download => Some(self.transfers[1].progress()),
            Lane::DiskRead | Lane::DiskWrite => self.disk.as_ref()?.progress(lane),
        }
    }

    /// Seconds for which the calling thread has waited for a processor, and processor seconds that the process
    /// has taken but for the threads of this device.
    fn clocks(&self) -> [f64; 2] {
        let lanes = self.transfers.iter().map(Worker::processor_time).sum::<Duration>();
        let disk = self.disk.as_ref().map_or(Duration::ZERO, DiskLanes::processor_time);
        let taken = process_time().saturating_sub(lanes + disk + self.team.processor_time());
        [run_delay(), taken].map(|time| time.as_secs_f64())
    }

    /// The log and the label of the span of a copy, if spans are kept.
    fn span(&self, lane: Lane, crossing: &Crossing, bytes: u64) -> Option<Box<(Arc<Log>, Label)>> {
        let teller = self.teller.as_ref()?;
        Some(Box::new((teller.log.clone(), teller.subject.copy(lane, crossing, bytes))))
    }
}

impl Device for HostDevice {
    fn reserve(&mut self, memory: Memory, bytes: u64) -> Result<()> {
        match memory {
            Memory::Device => {
                self.toucher = None;
                self.device = Slab::new(bytes)?;
            }
            Memory::Host => self.host = Slab::new(bytes)?,
        }
        Ok(())
    }

    fn mount(&mut self, space: DiskSpace) -> Result<()> {
        // The lanes of the old disk end before the new ones begin.
        self.disk = None;
        self.disk = Some(DiskLanes::new(space)?);
        Ok(())
    }

    fn team(&self) -> Option<&Arc<Team>> {
        Some(&self.team)
    }

    fn disk(&self) -> Option<&DiskLanes> {
        self.disk.as_ref()
    }

    fn touch_ahead(&mut self) {
        self.toucher = self.device.touch_ahead();
    }

    fn enter(&mut self, stream: Stream, call: &'static str) -> Result<()> {
        if !stream.0.is_null() {
            return fail!(
                Argument,
                "stream = {:p}: on the host backend the calling thread is the stream; give NULL",
                stream.0
            );
        }
        self.entered = Instant::now();
        if let Some(mut gaps) = self.gaps.take() {
            let gap = |left| self.entered.duration_since(left).as_secs_f64();
            let gap = self.left.map_or(f64::NAN, gap);
            if let Some(left) = gaps.left {
                let [delay, taken] = self.clocks();
                let [had, computed] = &mut gaps.computed;
                *had += gap - (delay - left[0]);
                *computed += taken - left[1];
            }
            let pushed = fallible_vec::push(&mut gaps.seconds, gap);
            self.gaps = Some(gaps);
            pushed?;
        }
        if let Some(teller) = &mut self.teller {
            teller.enter(call, self.entered);
        }
        Ok(())
    }

    fn leave(&mut self) -> Result<f64> {
        let now = Instant::now();
        let seconds = now.duration_since(self.entered).as_secs_f64();
        self.times.stalled += seconds;
        self.left = Some(now);
        if let Some(teller) = &mut self.teller {
            teller.leave(self.entered, now);
        }
        if self.gaps.is_some() {
            let left = Some(self.clocks());
            self.gaps.iter_mut().for_each(|gaps| gaps.left = left);
        }
        // However sums are rounded, those of all calls are no less than the stall.
        Ok(seconds + 1e-12)
    }

    fn slabs(&self) -> [(u64, u64); 2] {
        [&self.device, &self.host].map(|slab| (slab.address() as u64, slab.len() as u64))
    }

    fn event(&mut self) -> Result<Event> {
        fallible_vec::push(&mut self.events, (Lane::App, 0))?;
        Ok(Event(self.events.len() - 1))
    }

    fn copy(&mut self, lane: Lane, to: Place, from: Place, bytes: u64) -> Result<()> {
        if let Some(transfer) = Passing::of(to, from) {
            let address = Address(self.pointer(transfer.memory, bytes)?.cast());
            let span = self.span(lane, &Crossing::None, bytes);
            self.traffic.count(to, from, bytes);
            let Some(disk) = &mut self.disk else { return no_disk() };
            return disk.pass(lane, transfer, address, bytes, span.map(|span| *span));
        }
        let (to_address, from_address) = (self.pointer(to, bytes)?, self.pointer(from, bytes)?);
        let rows = rows_of(to, from, bytes)?;
        let crossing = self.traffic.count(to, from, bytes);
        let span = self.span(lane, &crossing, bytes);
        let link = self.links.as_deref().and_then(|[to_device, to_host]| match crossing {
            Crossing::ToDevice => Some(to_device.clone()),
            Crossing::ToHost => Some(to_host.clone()),
            Crossing::None => None,
        });
        let (to, from) = (Address(to_address.cast()), Address(from_address.cast()));
        let copy = Copy { to, from, bytes: bytes as usize, rows, link, span };
        let is_short = bytes <= SHORT && copy.link.is_none();
        match lane {
            Lane::Upload => self.transfers[0].take(Transfer::Copy(copy), is_short),
            Lane::Download => self.transfers[1].take(Transfer::Copy(copy), is_short),
            Lane::App => {
                copy.run();
                Ok(())
            }
            Lane::DiskRead | Lane::DiskWrite => {
                fail!(Device, "a copy on a disk lane has one end on disk")
            }
        }
    }

    fn code(&mut self, lane: Lane, RecordCoding { coder, work }: RecordCoding) -> Result<()> {
        let raw_of = |device: &mut Self, raw: Place, part: usize| {
            let bytes = coder.raw_bytes(part);
            device.pointer(raw, bytes).map(|address| (Address(address.cast()), bytes))
        };
        let (work, crossing, bytes) = match work {
            Work::Compress { name, raw, buffer } => {
                let (raw, bytes) = raw_of(self, raw, name.part)?;
                (OnLane::Compress { name, raw, buffer }, Crossing::ToHost, bytes)
            }
            Work::Complete { buffer } => (OnLane::Complete { buffer }, Crossing::ToHost, 0),
            Work::Decompress { name, from, bytes, raw } => {
                let (raw, raw_bytes) = raw_of(self, raw, name.part)?;
                let coded = Address(self.pointer(from, bytes)?.cast());
                let crossing = self.traffic.count(Place::Device(0), from, bytes);
                let link = self.links.as_deref().map(|[to_device, _]| to_device.clone());
                let bytes = bytes as usize;
                (OnLane::Decompress { name, coded, bytes, raw, link }, crossing, raw_bytes)
            }
        };
        let span = self.span(lane, &crossing, bytes);
        let coding = Transfer::Code(LaneCoding { coder, work, span, seconds: self.coded.clone() });
        match lane {
            Lane::Upload => self.transfers[0].push(coding),
            Lane::Download => self.transfers[1].push(coding),
            _ => fail!(Device, "only the transfer lanes code snapshots"),
        }
    }

    fn record(&mut self, lane: Lane, event: Event) -> Result<()> {
        self.events[event.0] = (lane, self.progress(lane).map_or(0, |(_, issued)| issued));
        Ok(())
    }

    fn wait(&mut self, lane: Lane, event: Event) -> Result<()> {
        let (recorded, sequence) = self.events[event.0];
        // Work on the application's lane has ended when its call returns, and a lane is always in
        // order with itself: no wait is needed.
        let Some((other, _)) = self.progress(recorded).filter(|_| recorded != lane) else {
            return Ok(());
        };
        if lane != Lane::App && other.has(sequence) {
            return Ok(());
        }
        let other = other.clone();
        match lane {
            Lane::App => {
                // The threads of the disk tell the team nothing.
                if matches!(recorded, Lane::Upload | Lane::Download) {
                    self.team.help_until(|| other.is_over(sequence));
                }
                other.wait(sequence)
            }
            Lane::Upload => self.transfers[0].push(Transfer::Wait(other, sequence)),
            Lane::Download => self.transfers[1].push(Transfer::Wait(other, sequence)),
            Lane::DiskRead | Lane::DiskWrite => match &mut self.disk {
                Some(disk) => disk.push(lane, DiskWork::Wait(other, sequence)),
                None => no_disk(),
            },
        }
    }

    fn is_done(&mut self, event: Event) -> Result<bool> {
        let (lane, sequence) = self.events[event.0];
        Ok(self.progress(lane).is_none_or(|(progress, _)| progress.has(sequence)))
    }

    fn synchronize(&mut self) -> Result<()> {
        self.transfers.iter().try_for_each(Worker::finish)?;
        self.disk.as_ref().map_or(Ok(()), DiskLanes::finish)
    }

    fn traffic(&self) -> Traffic {
        self.traffic
    }
}

impl Recorder for HostDevice {
    fn times(&mut self) -> Result<Times> {
        let [compress, decompress] =
            [0, 1].map(|k| self.coded[k].load(Ordering::Relaxed) as f64 / 1e9);
        let (compressed, decompressed) = self.times.coded;
        Ok(Times { coded: (compressed + compress, decompressed + decompress), ..self.times })
    }

    fn time_gaps(&mut self, on: bool) {
        self.gaps = on.then(Gaps::default);
    }

    fn gaps(&mut self) -> Result<Vec<f64>> {
        Ok(self.gaps.as_mut().map(|gaps| std::mem::take(&mut gaps.seconds)).unwrap_or_default())
    }

    fn busy_processors(&self) -> Option<f64> {
        // Where other programs take processors, the application would keep more of them busy than it had.
        let [had, computed] = self.gaps.as_ref()?.computed;
        (had > 0.0).then(|| computed / had)
    }

    fn begin_coding(&mut self, coding: Coding, _: f64) -> Result<()> {
        self.coding = Some((coding, Instant::now()));
        Ok(())
    }

    fn end_coding(&mut self) -> Result<()> {
        let Some((coding, begin)) = self.coding.take() else { return Ok(()) };
        let end = Instant::now();
        self.times.add(coding, end.duration_since(begin).as_secs_f64());
        if let Some(teller) = &self.teller {
            teller.log.add(teller.subject.coding(coding), begin, end);
        }
        Ok(())
    }

    fn keep_spans(&mut self, on: bool) -> Result<()> {
        match &self.teller {
            Some(teller) if !on => teller.log.close(),
            _ => self.teller = on.then(Teller::new),
        }
        Ok(())
    }

    fn begin_action(&mut self, action: Option<Label>) -> Result<()> {
        if let Some(teller) = &mut self.teller {
            teller.begin_action(action);
        }
        Ok(())
    }

    fn concerns(&mut self, ts: i64) {
        if let Some(teller) = &mut self.teller {
            teller.subject.ts = ts;
        }
        self.disk.iter_mut().for_each(|disk| disk.ts = ts);
    }

    fn spans(&mut self, all: bool) -> Result<Vec<Span>> {
        let Some(log) = self.teller.as_ref().map(|teller| teller.log.clone()) else {
            return Ok(Vec::new());
        };
        if all {
            self.synchronize()?;
        }
        log.take()
    }
}

impl Launcher for HostDevice {}

impl Drop for HostDevice {
    fn drop(&mut self) {
        // A lane ends after its last task, for which it may wait for the other lanes. All of them
        // end before the slabs.
        self.transfers.iter_mut().for_each(Worker::stop);
        self.disk = None;
    }
}

/// How the values lie at the end of a copy that has gaps between its rows, and whether it is the target;
/// `None` if both ends are contiguous.
fn rows_of(to: Place, from: Place, bytes: u64) -> Result<Option<(Rows, bool)>> {
    let apart = |place: Place| match place {
        Place::App(memory) if !memory.rows().is_contiguous() => Some(memory.rows()),
        _ => None,
    };
    let (rows, scatters) = match (apart(to), apart(from)) {
        (None, None) => return Ok(None),
        (Some(to), None) => (to, true),
        (None, Some(from)) => (from, false),
        _ => return fail!(Device, "a copy between two fields whose rows are apart"),
    };
    match rows.bytes() {
        all if all as u64 == bytes => Ok(Some((rows, scatters))),
        all => fail!(Device, "a copy of {bytes} bytes of a field of {all} whose rows are apart"),
    }
}

struct Copy {
    to: Address,
    from: Address,
    bytes: usize,
    rows: Option<(Rows, bool)>,
    /// The simulated link that the copy crosses, if any.
    link: Option<Arc<Link>>,
    /// The log and the label of the copy's span, if spans are kept.
    span: Option<Box<(Arc<Log>, Label)>>,
}

impl Copy {
    fn run(self) {
        let is_timed = self.link.is_some() || self.span.is_some();
        let begin = is_timed.then(Instant::now);
        // SAFETY: both ranges were checked at enqueuing. Slabs and fields never overlap.
        unsafe {
            match self.rows {
                None => self.to.0.copy_from_nonoverlapping(self.from.0, self.bytes),
                Some((rows, true)) => rows.scatter(self.from.0, self.to.0),
                Some((rows, false)) => rows.gather(self.from.0, self.to.0),
            }
        };
        let Some(mut begin) = begin else { return };
        if let Some(link) = self.link {
            begin = link.pace(begin, self.bytes);
        }
        if let Some(span) = self.span {
            span.0.add(span.1, begin, Instant::now());
        }
    }
}

/// One direction of a simulated link, which moves one transfer of any lane at a time.
struct Link {
    bandwidth: f64,
    /// When the transfers so far end on the simulated link.
    free: Mutex<Instant>,
}

/// The simulated links of this process that a device has, each with its two directions.
static LINKS: Guarded<Vec<Weak<[Arc<Link>; 2]>>> = Guarded::new(Vec::new(), Vec::new);

impl Link {
    /// Returns both directions of the link of this process with this bandwidth.
    fn both(bandwidth: f64) -> Result<Arc<[Arc<Link>; 2]>> {
        let mut links = LINKS.write()?;
        links.retain(|link| link.strong_count() > 0);
        let mut shared = links.iter().filter_map(Weak::upgrade);
        if let Some(link) = shared.find(|link| link[0].bandwidth == bandwidth) {
            return Ok(link);
        }
        let one = |()| Arc::new(Link { bandwidth, free: Mutex::new(Instant::now()) });
        let link = Arc::new([(); 2].map(one));
        fallible_vec::push(&mut links, Arc::downgrade(&link))?;
        Ok(link)
    }

    /// Blocks until the link would have moved `bytes` bytes. The simulated transfer begins at
    /// `begin`, or later when the link is free; its start is returned. The end is computed from its
    /// start, so that a sleep that lasts too long does not delay the transfers after it.
    fn pace(&self, begin: Instant, bytes: usize) -> Instant {
        let (begin, end) = {
            let mut free = locked(&self.free);
            let begin = (*free).max(begin);
            *free = begin + Duration::from_secs_f64(bytes as f64 / self.bandwidth);
            (begin, *free)
        };
        std::thread::sleep(end.saturating_duration_since(Instant::now()));
        begin
    }
}

/// What a lane does with a record, and, for bytes that cross a simulated link, that link.
enum OnLane {
    Compress {
        name: RecordName,
        raw: Address,
        buffer: usize,
    },
    Complete {
        buffer: usize,
    },
    Decompress {
        name: RecordName,
        coded: Address,
        bytes: usize,
        raw: Address,
        link: Option<Arc<Link>>,
    },
}

/// The coding of a record on a transfer lane.
struct LaneCoding {
    coder: Arc<dyn CodesRecords>,
    work: OnLane,
    span: Option<Box<(Arc<Log>, Label)>>,
    seconds: Arc<[AtomicU64; 2]>,
}

impl LaneCoding {
    fn run(self) {
        let begin = Instant::now();
        // SAFETY: the addresses were checked at enqueuing, and the lanes are in order.
        let number = unsafe {
            match &self.work {
                OnLane::Compress { name, raw, buffer } => {
                    self.coder.compress(*name, raw.0, *buffer);
                    0
                }
                OnLane::Complete { buffer } => {
                    self.coder.complete(*buffer);
                    0
                }
                OnLane::Decompress { name, coded, bytes, raw, .. } => {
                    let coded = std::slice::from_raw_parts(coded.0, *bytes);
                    self.coder.decompress(*name, coded, raw.0);
                    1
                }
            }
        };
        let spent = begin.elapsed().as_nanos() as u64;
        self.seconds[number].fetch_add(spent, Ordering::Relaxed);
        if let OnLane::Decompress { bytes, link: Some(link), .. } = &self.work {
            link.pace(Instant::now(), *bytes);
        }
        if let Some(span) = self.span {
            span.0.add(span.1, begin, Instant::now());
        }
    }
}

/// Work of a transfer lane.
enum Transfer {
    Copy(Copy),
    Code(LaneCoding),
    /// Waits until the other lane has done this number of tasks since it was made.
    Wait(Arc<Progress>, u64),
}

impl Task for Transfer {
    fn run(self) {
        match self {
            Transfer::Copy(copy) => copy.run(),
            Transfer::Code(coding) => coding.run(),
            // A lane stops only when its device is dropped: then no code waits for this copy.
            Transfer::Wait(other, sequence) => drop(other.wait(sequence)),
        }
    }
}
