//! The session: one application (or one device of it) that follows a schedule and gives and takes snapshots.
//!
//! One straight line: action -> step of the plan -> tier -> codec -> device.

mod performance_log;
mod tracing;
mod tuning;

use crate::choice::{self, Free, Promise, Target};
use crate::choice::{aligned, offers_of, sizes_of, Offer};
use crate::choice::{choose_among, Choice, Sizes};
use crate::choice::{SharedSchedule, Tick};
use crate::codec::{Method, Settings, SnapshotCodec};
use crate::config::{Backend, Config};
use crate::device::{check_disjoint, cuda, AppField, AppMemory, Device, Stream, Traffic};
use crate::error::{fail, Code, Error, Result};
use crate::fallible_vec;
use crate::layout::{Layout, Levels, ALIGNMENT};
use crate::plan::{Fetch, Plan, Step, NONE, SPARE_SLOTS};
use crate::predict::Profile;
use crate::process::Process;
use crate::schedule::{check_steps, flags, trace, Action, Kind};
use crate::stats::Stats;
use crate::tier::{Packer, Pasts, Saved, Sums, Tiers};
use crate::trace::nvtx;
use crate::trace::Trace;
use crate::tune::Tuner;
use std::ffi::c_void;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::sync::Arc;
use std::time::Instant;

/// One session.
pub struct Session {
    cursor: Arc<SharedSchedule>,
    /// Its number at the cursor.
    number: u64,
    config: Config,
    /// Where its budgets are the library's choice: the memory that they promise.
    promise: Option<Promise>,
    layout: Layout,
    /// The ways in which it may store snapshots, of which the schedule's decision takes one.
    offers: Vec<Offer>,
    /// The decision that what follows is of.
    decision: Option<u64>,
    compression: Settings,
    levels: Option<Levels>,
    sizes: Sizes,
    /// What compresses, until the tiers have it; `None`: snapshots are raw.
    codec: Option<SnapshotCodec>,
    /// Where the snapshots are to be, as soon as it is known.
    target: Option<Target>,
    engine: Option<Engine>,
    /// The sweep that this session takes part in, and its current action there.
    sweep: u64,
    tick: Option<Tick>,
    /// Whether the current SAVE or RESTORE is done.
    served: bool,
    /// Why the application broke this shot off.
    stopped: Option<String>,
    /// When the application got its current action.
    since: Instant,
    stats: Stats,
    /// Shots that were run to their end.
    shots: u64,
    /// The current shot is among them, or the check at its end has failed and was told.
    ended: bool,
    /// The shot is to be measured, and what came of it last.
    tuning: bool,
    measured: Option<Result<Profile>>,
    /// If it writes a timeline.
    trace: Option<Trace>,
    /// The current action, where ranges are asked for.
    range: Option<nvtx::Action>,
    /// The application's memory of the last save or retrieve, no two fields of which overlap.
    disjoint: Vec<AppMemory>,
    process: Process,
}

/// A plan and the tiers that it is played on.
struct Engine {
    /// The decision that the plan is of.
    decision: u64,
    plan: Arc<Plan>,
    tiers: Tiers,
    /// The first fetch that is not issued yet.
    next_fetch: usize,
    /// The SAVE whose memory the application has been given, and that memory.
    begun: Option<(usize, Vec<AppMemory>)>,
    /// The RESTORE whose memory the application has been given and not given back, and its state.
    acquired: Option<(usize, i64)>,
    /// Why this shot cannot go on.
    broken: Option<Error>,
    /// The device's traffic and stall before this sweep.
    traffic_before: Traffic,
    stalled_before: f64,
    /// What measures this shot.
    tuner: Option<Box<Tuner>>,
    coded_before: (f64, f64),
}

impl Session {
    /// A session of its own, on a schedule of its own.
    pub fn new(config: Config, steps: i64, fields: &[AppField]) -> Result<Self> {
        let cursor = Arc::new(SharedSchedule::new(config.clone(), steps)?);
        let mut session = Self::join(cursor, config, fields)?;
        session.plan()?;
        session.open()?;
        Ok(session)
    }

    /// Another session on a schedule, with the budgets that its configuration has: how many sessions will share the memory is not known. Its
    /// memory is allocated at its first action, or where only the fields can tell the device, at its first save.
    pub fn attach(cursor: Arc<SharedSchedule>, config: Config, fields: &[AppField]) -> Result<Self> {
        Self::join(cursor, Config { default_budgets: false, ..config }, fields)
    }

    fn join(cursor: Arc<SharedSchedule>, mut config: Config, fields: &[AppField]) -> Result<Self> {
        let layout = Layout::new(fields.iter().map(|f| f.field).collect())?;
        if config.backend == Backend::Cuda {
            cuda::require_device()?;
        }
        let target = settle(&mut config, fields)?;
        let are_left = choice::are_left(&config);
        budget(&mut config, &layout, cursor.steps(), target);
        let promise = are_left.then(|| Promise::of(&config));
        let offers = offers_of(&config, &layout)?;
        let Some(Offer { compression, levels, sizes }) = offers.first().cloned() else {
            return fail!(Config, "no way to store snapshots");
        };
        let codec = codec_of(&compression, &layout)?;
        if config.device_budget > 0 && sizes.cache == Some(0) {
            log::warn!("device_budget = {} is less than a snapshot of {} bytes: no device cache", config.device_budget, sizes.slot_bytes);
        }
        target.map_or(Ok(()), |target| target.check(fields))?;
        let (number, sweep) = cursor.attach(offers.iter().map(|offer| offer.sizes.clone()).collect())?;
        Ok(Session {
            cursor,
            number,
            config,
            promise,
            layout,
            offers,
            decision: None,
            compression,
            levels,
            sizes,
            codec,
            target,
            engine: None,
            sweep,
            tick: None,
            served: true,
            stopped: None,
            since: Instant::now(),
            stats: Stats::default(),
            shots: 0,
            ended: false,
            tuning: false,
            measured: None,
            trace: None,
            range: None,
            disjoint: Vec::new(),
            process: Process::current(),
        })
    }

    /// The schedule that it follows.
    pub fn cursor(&self) -> &Arc<SharedSchedule> {
        &self.cursor
    }

    /// The plan that it plays.
    pub fn plan(&mut self) -> Result<Arc<Plan>> {
        let decision = self.cursor.decisions()?;
        match &self.engine {
            Some(engine) if engine.decision == decision => Ok(engine.plan.clone()),
            _ => {
                self.settle()?;
                self.cursor.plan(&self.sizes)
            }
        }
    }

    /// Takes on what was decided: how snapshots are stored, and their sizes.
    fn settle(&mut self) -> Result<()> {
        let (alternative, decision) = self.cursor.alternative()?;
        if self.decision == Some(decision) {
            return Ok(());
        }
        let Some(Offer { compression, levels, sizes }) = self.offers.get(alternative).or(self.offers.last()).cloned() else {
            return fail!(Config, "no way to store snapshots");
        };
        if self.compression != compression {
            self.codec = None;
        }
        (self.compression, self.levels, self.sizes, self.decision) = (compression, levels, sizes, Some(decision));
        Ok(())
    }

    /// How it stores snapshots.
    pub fn compression(&self) -> &Settings {
        &self.compression
    }

    /// Bytes of one snapshot, as planned with.
    pub fn slot_bytes(&self) -> u64 {
        self.sizes.slot_bytes
    }

    /// `device_budget` and `host_budget` that it plans within; 0: none.
    pub fn budgets(&self) -> (u64, u64) {
        (self.config.device_budget, self.config.host_budget)
    }

    /// The tiers as they are planned with.
    pub fn sizes(&self) -> &Sizes {
        &self.sizes
    }

    /// Settles the device by the fields, if it is not yet, and refuses fields that are not its.
    fn place(&mut self, fields: &[AppField]) -> Result<()> {
        let target = match self.target {
            Some(target) => Some(target),
            None => Target::of(&self.config, fields)?,
        };
        target.map_or(Ok(()), |target| target.check(fields))?;
        if let (None, Some(target)) = (self.target, target) {
            self.settle_on(target);
        }
        self.target = target;
        Ok(())
    }

    /// Plans anew for the backend that the fields of the first save have told, with its costs and free memory. Where that is not possible, since
    /// other sessions follow the schedule, the application was shown it or nothing would fit, the plan stays.
    fn settle_on(&mut self, target: Target) {
        let mut config = self.config.clone();
        config.backend = target.backend();
        let were_left = self.promise.take().is_some();
        if were_left {
            (config.device_budget, config.host_budget) = (0, 0);
            budget(&mut config, &self.layout, self.cursor.steps(), Some(target));
        }
        let replanned = offers_of(&config, &self.layout).and_then(|offers| {
            self.cursor.replan_at_start(self.number, offers.iter().map(|offer| offer.sizes.clone()).collect())?;
            Ok(offers)
        });
        match replanned {
            Ok(offers) => (self.config, self.offers, self.decision) = (config, offers, None),
            Err(error) => log::log!(
                if were_left { log::Level::Warn } else { log::Level::Info },
                "the plan is the one that was made before the backend was known: {error}; for a plan by the backend's free memory and costs set \
                 backend = {}, or give the fields with their data at init",
                if target.backend() == Backend::Host { 1 } else { 2 }
            ),
        }
        self.promise = were_left.then(|| Promise::of(&self.config));
    }

    /// Opens the device and allocates the tiers, if they are not yet and it is known where.
    fn open(&mut self) -> Result<()> {
        if self.tick.is_none() {
            self.leave_old_plan()?;
        }
        let (None, Some(target)) = (&self.engine, self.target) else { return Ok(()) };
        if let Some(profile) = &self.config.profile {
            tuning::check_backend(profile, Some(target))?;
        }
        self.settle()?;
        if self.codec.is_none() {
            // Tiers that could not be made took it with them, or it is chosen only now.
            self.codec = codec_of(&self.compression, &self.layout)?;
        }
        let mut device = target.open(&self.config)?;
        let mut packer = match (self.codec.take(), target) {
            (None, _) => None,
            (Some(codec), Target::Host) => Some(Packer::on_host(codec)?),
            (Some(_), Target::Cuda(_)) => Some(Packer::on_gpu(&mut *device, &self.compression, &self.layout)?),
        };
        let mut sums = match target {
            Target::Cuda(_) if self.levels.is_some() => Sums::on_gpu(&mut *device)?,
            _ => Sums::Host,
        };
        let reserved = self.reserve(&mut *device, packer.as_mut(), &mut sums);
        let (plan, cache, pool) = match reserved {
            Ok(reserved) => reserved,
            Err(error) => {
                packer.iter_mut().for_each(|packer| packer.close(&mut *device));
                sums.close(&mut *device);
                return Err(error);
            }
        };
        log::info!("{} device and {} host slots of {} bytes", plan.device_slots, plan.host_slots, self.sizes.slot_bytes);
        let tiers = match self.levels.clone() {
            Some(levels) => Tiers::sharing_levels(device, self.layout.clone(), &plan, levels, sums)?,
            None => Tiers::new(device, self.layout.clone(), &plan, packer, cache, pool)?,
        };
        self.engine = Some(Engine {
            decision: self.decision.unwrap_or(0),
            plan,
            tiers,
            next_fetch: 0,
            begun: None,
            acquired: None,
            broken: None,
            traffic_before: Traffic::default(),
            stalled_before: 0.0,
            tuner: None,
            coded_before: (0.0, 0.0),
        });
        self.begin_tuning();
        self.open_trace(target);
        Ok(())
    }

    /// Gives the memory of a plan back that was decided anew since.
    fn leave_old_plan(&mut self) -> Result<()> {
        if self.engine.is_some() {
            let decision = self.cursor.decisions()?;
            self.engine = self.engine.take().filter(|engine| engine.decision == decision);
        }
        Ok(())
    }

    /// Reserves the memory of the plan, and returns the bytes of cache and pool. Where the device has less than the cache wants, the cache
    /// shrinks.
    fn reserve(&mut self, device: &mut dyn Device, packer: Option<&mut Packer>, sums: &mut Sums) -> Result<(Arc<Plan>, u64, u64)> {
        let spare = if self.config.zero_copy { SPARE_SLOTS as u64 } else { 0 }.saturating_mul(self.layout.slot_bytes);
        let most = packer.is_some().then(|| SnapshotCodec::max_bytes(&self.layout));
        // What the codec works in is of the budget, too.
        let (stages, own) = packer.as_ref().map_or((0, 0), |packer| (packer.device_bytes(), packer.own_bytes()));
        let aside = spare.saturating_add(stages).saturating_add(own).saturating_add(sums.device_bytes());
        if (1..aside).contains(&self.config.device_budget) && stages > 0 {
            return fail!(Budget, "device_budget = {}: compression on this device works in {aside} bytes", self.config.device_budget);
        }
        if self.levels.is_some() {
            self.sizes.aside = aside;
        } else if self.sizes.aside != aside {
            // The backend was not known when the sizes were offered.
            let sizes = sizes_of(&self.config, &self.compression, &self.layout, self.sizes.slot_bytes, aside);
            self.sizes = Sizes { cache: self.sizes.cache, ..sizes };
        }
        loop {
            let plan = self.cursor.plan(&self.sizes)?;
            let times = |slots: u32, bytes: u64| (slots as u64).saturating_mul(bytes);
            let cache = self.sizes.cache_bytes(&plan);
            match device.reserve_device(cache.saturating_add(aside - own)) {
                Err(error) if error.code == Code::Memory && cache > 0 => {
                    let fewer = plan.device_slots - plan.device_slots.div_ceil(4);
                    log::warn!("{error}: the device cache shrinks from {} to {fewer} slots", plan.device_slots);
                    (self.sizes.cache, self.sizes.room) = (Some(fewer), None);
                }
                result => {
                    result?;
                    let pool = match (most, self.config.host_budget) {
                        (None, _) => self.sizes.bytes_of(&plan).1,
                        (Some(most), 0) => times(plan.host_slots.saturating_add(plan.device_slots), most.next_multiple_of(ALIGNMENT)),
                        (Some(_), budget) => budget,
                    };
                    device.reserve_host(pool)?;
                    if most.is_none() {
                        // Every slot of a raw snapshot is used; compressed ones may leave most of the cache untouched.
                        device.touch_ahead();
                    }
                    packer.into_iter().for_each(|packer| packer.settle_at(cache + spare));
                    sums.settle_at(device, cache + spare + stages)?;
                    return Ok((plan, cache, pool));
                }
            }
        }
    }

    fn engine(&mut self) -> Result<&mut Engine> {
        match &mut self.engine {
            Some(engine) => Ok(engine),
            None if self.target.is_none() => fail!(
                State,
                "the session has no device yet: with backend = 0 the memory of the fields tells it, and no field with data was given so far; set \
                 backend = 1 (host) or backend = 2 (CUDA) in the configuration, or give the fields with their data at init"
            ),
            None => fail!(State, "the session has no device yet: call get_action first"),
        }
    }

    /// Prepares a shot: rewinds the schedule, forgets all snapshots, clears the statistics. The plan is kept.
    pub fn setup(&mut self) -> Result<()> {
        self.process.check()?;
        self.end_reversed_shot()?;
        self.trace_break();
        self.leave_old_plan()?;
        if self.tick.is_some() && self.is_measured() {
            self.end_tuning();
        }
        if let Some(engine) = &mut self.engine {
            let largest = engine.tiers.largest();
            engine.reset()?;
            self.replan(largest)?;
        }
        self.sweep = self.cursor.rewind()?;
        (self.tick, self.served, self.stopped, self.range, self.ended) = (None, true, None, None, false);
        self.stats = Stats::default();
        if !self.is_measured() {
            self.begin_tuning();
        }
        self.trace_setup();
        Ok(())
    }

    /// Plans the tiers anew by the size of the largest compressed snapshot of the shot before, if that changes what the device budget
    /// holds. The schedule stays as it is.
    fn replan(&mut self, largest: u64) -> Result<()> {
        let Some(engine) = &mut self.engine else { return Ok(()) };
        if largest == 0 || self.config.device_budget == 0 {
            return Ok(());
        }
        let sizes = sizes_of(&self.config, &self.compression, &self.layout, aligned(largest), self.sizes.aside);
        let sizes = Sizes { host: self.sizes.host, ..sizes };
        if sizes.cache != self.sizes.cache {
            if let Ok(plan) = self.cursor.plan(&sizes) {
                log::info!("{} device and {} host slots of {largest} bytes", plan.device_slots, plan.host_slots);
                engine.tiers.fit(&plan)?;
                (engine.plan, self.sizes) = (plan, sizes);
            }
        }
        Ok(())
    }

    /// A shot that the application left after its last BACKWARD, without TERMINATE, ends here: with the check and the line in the performance
    /// log that TERMINATE would have given. A failed check is told once; the call after it goes on.
    fn end_reversed_shot(&mut self) -> Result<()> {
        let is_reversed = self.tick.is_some_and(|tick| tick.action.kind == Kind::Backward && tick.action.ts == 0);
        let is_broken = self.stopped.is_some() || self.engine.as_ref().is_some_and(|engine| engine.broken.is_some());
        if !is_reversed || self.ended || is_broken {
            return Ok(());
        }
        self.ended = true;
        self.account(Instant::now());
        self.conclude()?;
        self.end_shot();
        Ok(())
    }

    /// Ends the session: a shot that is reversed ends well or with an error. Of a shot that was broken off, too, it is told whether a state was
    /// not what had been saved, if that was not told before. Whatever this returns, the session can be dropped.
    pub fn close(&mut self) -> Result<()> {
        if !self.process.is_current() {
            return Ok(());
        }
        self.end_reversed_shot()?;
        match self.engine.as_mut().filter(|engine| engine.broken.is_none() && engine.tiers.is_checked_later()) {
            Some(engine) if self.stats.restores > 0 && !self.ended => engine.finish(),
            _ => Ok(()),
        }
    }

    /// What `get_action` would give next; nothing changes. The schedule is decided by this call if it is not yet.
    pub fn peek_action(&self) -> Result<Tick> {
        self.process.check()?;
        if let Some(why) = &self.stopped {
            return fail!(State, "this shot was stopped ({why}): call setup for the next one");
        }
        self.cursor.peek_if(|sweep, current| self.check_position(sweep, current.map_or(-1, |tick| tick.it)))
    }

    /// The next action: advances the schedule and follows it.
    pub fn get_action(&mut self) -> Result<Tick> {
        self.process.check()?;
        self.check_served()?;
        self.open()?;
        self.keep_up(self.tick.map_or(0, |tick| tick.it + 1))?;
        let here = |this: &Self, sweep, current: Option<Tick>| this.check_position(sweep, current.map_or(-1, |tick| tick.it));
        if (self.is_checked_later() || self.is_measured())
            && self.cursor.peek_kind_if(|sweep, current| here(self, sweep, current))? == Some(Kind::Terminate)
        {
            self.conclude_once()?;
        }
        let tick = self.cursor.advance_if(|sweep, current| here(self, sweep, current))?;
        self.follow(tick);
        Ok(tick)
    }

    /// The next action, as `get_action`; `None` where the first BACKWARD is next, before which this session stays.
    pub fn get_forward_action(&mut self) -> Result<Option<Tick>> {
        self.process.check()?;
        self.check_served()?;
        if self.stats.backward_steps > 0 {
            return fail!(State, "the shot is being reversed: call setup for the next shot first");
        }
        self.open()?;
        match self.cursor.peek_kind_if(|sweep, current| self.check_position(sweep, current.map_or(-1, |tick| tick.it)))? {
            Some(Kind::Backward) => Ok(None),
            _ => self.get_action().map(Some),
        }
    }

    /// Fails if this session is no longer at the action that `tick` is.
    pub fn check_at(&self, tick: Tick) -> Result<()> {
        match self.tick {
            Some(mine) if (mine.sweep, mine.it) == (tick.sweep, tick.it) => Ok(()),
            _ => fail!(State, "the session was moved from action {} by another call: leave it to the run", tick.it),
        }
    }

    /// Breaks this shot off: only setup can follow.
    pub fn stop(&mut self, why: &str) {
        self.stopped = Some(why.into());
    }

    /// Follows the schedule to its current action, which must be `it`. If it is there already, nothing happens.
    pub fn dispatch(&mut self, it: i64) -> Result<()> {
        self.process.check()?;
        let current = self.cursor.current()?;
        let Some(tick) = current.filter(|tick| tick.it == it) else {
            return fail!(State, "dispatch to action {it}: the schedule is at action {}", current.map_or(-1, |tick| tick.it));
        };
        if self.tick.is_some_and(|mine| (mine.sweep, mine.it) == (tick.sweep, it)) {
            return Ok(());
        }
        self.check_served()?;
        self.check_position(tick.sweep, it - 1)?;
        self.open()?;
        self.keep_up(it)?;
        if tick.action.kind == Kind::Terminate {
            self.conclude_once()?;
        }
        self.follow(tick);
        Ok(())
    }

    /// This session must be at action `it` of `sweep` to go on.
    fn check_position(&self, sweep: u64, it: i64) -> Result<()> {
        let mine = self.tick.map_or(-1, |tick| tick.it);
        if sweep != self.sweep {
            return fail!(State, "the schedule was rewound: call setup for this session too");
        }
        if mine != it {
            return fail!(State, "this session is at action {mine}, the schedule was at {it}: dispatch every action, or call setup");
        }
        Ok(())
    }

    fn check_served(&self) -> Result<()> {
        if let Some(why) = &self.stopped {
            return fail!(State, "this shot was stopped ({why}): call setup for the next one");
        }
        match self.tick {
            Some(Tick { action: Action { kind, ts, .. }, it, .. }) if !self.served => {
                let call = if kind == Kind::Save { "save" } else { "retrieve" };
                fail!(State, "action {it}, {} {ts}, was not served: call {call} before the next action", trace::name(kind))
            }
            _ => Ok(()),
        }
    }

    fn follow(&mut self, tick: Tick) {
        let now = Instant::now();
        self.account(now);
        (self.tick, self.since) = (Some(tick), now);
        self.served = !matches!(tick.action.kind, Kind::Save | Kind::Restore);
        self.trace_action(tick);
        let (mut forward, mut backward) = (0, 0);
        match tick.action.kind {
            Kind::Forward => forward = (tick.end - tick.action.ts + 1) as u64,
            Kind::Backward => backward = 1,
            Kind::Terminate => self.end_shot(),
            _ => {}
        }
        self.stats.forward_steps += forward;
        self.stats.backward_steps += backward;
        if let Some(tuner) = self.engine.as_mut().and_then(|engine| engine.tuner.as_mut()) {
            tuner.steps(forward, backward);
        }
    }

    /// Before TERMINATE: no shot ends well in which a state was not what had been saved. Waits for the device if that is known later only.
    fn conclude(&mut self) -> Result<()> {
        if let Some(engine) = self.engine.as_mut().filter(|engine| engine.tiers.is_checked_later()) {
            engine.finish()?;
        }
        self.conclude_tuning()
    }

    /// The same at TERMINATE itself: if it fails, that was told, and setup or the end of the session does not tell it again.
    fn conclude_once(&mut self) -> Result<()> {
        self.conclude().inspect_err(|_| self.ended = true)
    }

    fn is_measured(&self) -> bool {
        self.engine.as_ref().is_some_and(|engine| engine.tuner.is_some())
    }

    fn is_checked_later(&self) -> bool {
        self.stats.backward_steps > 0 && self.engine.as_ref().is_some_and(|engine| engine.tiers.is_checked_later())
    }

    /// Before action `it`, which may change nothing if this fails: lets the device come so near that with this action no more than
    /// `max_in_flight` have not ended.
    fn keep_up(&mut self, it: i64) -> Result<()> {
        if let Some(engine) = &mut self.engine {
            self.stats.run_ahead_wait += engine.tiers.device().keep_up(it, self.config.max_in_flight as i64)?;
        }
        Ok(())
    }

    /// The time since the current action was handed out is the application's, if it is one that computes.
    fn account(&mut self, now: Instant) {
        let elapsed = now.duration_since(self.since).as_secs_f64();
        match self.tick.map(|tick| tick.action.kind) {
            Some(Kind::Forward) => self.stats.forward += elapsed,
            Some(Kind::Backward) => self.stats.backward += elapsed,
            _ => {}
        }
    }

    /// Stores the live state u(ts).
    pub fn save(&mut self, ts: i64, fields: &[AppField], stream: Stream) -> Result<()> {
        let tick = self.expect(Kind::Save, ts)?;
        let memory = self.expect_fields(fields)?;
        self.place(fields)?;
        self.open()?;
        self.refuse_own(&memory)?;
        self.store(tick, stream, &memory, |tiers, step, pasts, _| tiers.save(step, pasts, ts, &memory))
    }

    /// Makes u(ts) live in the fields.
    pub fn retrieve(&mut self, ts: i64, fields: &[AppField], stream: Stream) -> Result<()> {
        let tick = self.expect(Kind::Restore, ts)?;
        let memory = self.expect_fields(fields)?;
        self.place(fields)?;
        self.refuse_own(&memory)?;
        let last = tick.action.flags & flags::LAST_USE != 0;
        self.fetch(tick, stream, |tiers, step, pasts, _| Ok(((), tiers.restore(step, pasts, ts, last, &memory)?)))
    }

    /// Memory, field by field, in which the application computes u(ts), the state that is saved next. On its stream it may write there from
    /// now on, and must not any more once `save_commit` is called; it may read there until the next save or retrieve is done.
    pub fn save_begin(&mut self, ts: i64, nfields: usize, stream: Stream) -> Result<Vec<*mut c_void>> {
        self.check_hands_over("save_begin")?;
        self.check_count(nfields)?;
        let tick = match self.tick {
            Some(tick) if is_before_save(tick.action) && tick.end as i64 == ts => tick,
            _ => self.expect(Kind::Save, ts)?,
        };
        self.open()?;
        let engine = self.engine()?;
        let (step, spare) = (engine.plan.steps[tick.event], engine.spare(tick.event));
        let pointers = engine.call(stream, "save_begin", |engine| engine.tiers.begin_save(step, spare))?;
        let memory = self.layout.fields.iter().zip(&pointers).map(|(field, &address)| {
            // SAFETY: the session's own memory, the application's until the save is committed.
            unsafe { AppMemory::new(address.cast(), field.bytes().unwrap_or(0) as usize) }
        });
        let begun = Some((tick.event, memory.collect()));
        self.engine()?.begun = begun;
        Ok(pointers)
    }

    /// Stores u(ts), which the application has computed in the memory that `save_begin` gave.
    pub fn save_commit(&mut self, ts: i64, stream: Stream) -> Result<()> {
        self.check_hands_over("save_commit")?;
        let tick = self.expect(Kind::Save, ts)?;
        let memory = match &self.engine()?.begun {
            Some((event, memory)) if *event == tick.event => memory.clone(),
            _ => return fail!(State, "save_commit of state {ts} without save_begin"),
        };
        self.store(tick, stream, &memory, |tiers, step, _, spare| tiers.commit_save(step, ts, spare))
    }

    /// Memory, field by field, that holds u(ts) on the stream until the next save or retrieve is done, or until `retrieve_release`. It must
    /// not be written to, unless the action has the flag LAST_USE.
    pub fn retrieve_acquire(&mut self, ts: i64, nfields: usize, stream: Stream) -> Result<Vec<*mut c_void>> {
        self.check_hands_over("retrieve_acquire")?;
        self.check_count(nfields)?;
        let tick = self.expect(Kind::Restore, ts)?;
        let last = tick.action.flags & flags::LAST_USE != 0;
        let pointers = self.fetch(tick, stream, |tiers, step, _, spare| tiers.acquire(step, ts, last, spare))?;
        self.engine()?.acquired = Some((tick.event, ts));
        Ok(pointers)
    }

    /// Takes back the memory that `retrieve_acquire` gave, once what is on the stream so far is done. Transfers that waited for nothing else
    /// are issued.
    pub fn retrieve_release(&mut self, ts: i64, stream: Stream) -> Result<()> {
        self.process.check()?;
        self.check_hands_over("retrieve_release")?;
        let begin = Instant::now();
        let engine = self.engine()?;
        let event = match engine.acquired {
            Some((event, acquired)) if acquired == ts => event,
            Some((_, acquired)) => return fail!(State, "retrieve_release of state {ts}: the application has state {acquired}"),
            None => {
                return fail!(State, "retrieve_release of state {ts}: not acquired, released already, or another save or retrieve came")
            }
        };
        engine.call(stream, "release", |engine| engine.issue_released(event))?;
        engine.acquired = None;
        self.stats.restore += begin.elapsed().as_secs_f64();
        Ok(())
    }

    fn check_hands_over(&self, call: &str) -> Result<()> {
        if !self.config.zero_copy {
            return fail!(State, "{call}: the session copies; set zero_copy = 1 to work in its memory");
        }
        Ok(())
    }

    /// Refuses a run by callbacks with fields that its first save or retrieve would refuse, perhaps hours later. Where a callback says before each
    /// of them where the fields are, `located`, their data does not count.
    pub fn check_run(&mut self, fields: &[AppField], located: bool) -> Result<()> {
        if self.config.zero_copy {
            return fail!(Unsupported, "zero_copy = 1: a run copies the fields; use 0, or gpuzip_get_action instead of the run");
        }
        if located {
            self.check_shapes(fields)
        } else {
            self.expect_fields(fields).map(drop)
        }
    }

    /// A SAVE of these fields, done by `body` on its step and spare slot.
    fn store(
        &mut self,
        tick: Tick,
        stream: Stream,
        fields: &[AppMemory],
        body: impl FnOnce(&mut Tiers, Step, Pasts, u32) -> Result<()>,
    ) -> Result<()> {
        let engine = self.engine()?;
        engine.sample(tick.action.ts as i64, fields, stream)?;
        let begin = Instant::now();
        let (step, spare) = (engine.plan.steps[tick.event], engine.spare(tick.event));
        let pasts = engine.plan.pasts(tick.event);
        engine.call(stream, "save", |engine| {
            body(&mut engine.tiers, step, pasts, spare)?;
            engine.issue_after(tick.event)
        })?;
        engine.acquired = None;
        self.stats.saves += 1;
        self.count_saved();
        self.served = true;
        self.stats.save += begin.elapsed().as_secs_f64();
        self.trace_call();
        Ok(())
    }

    /// Counts what saves did, of which it may be known later only.
    fn count_saved(&mut self) {
        let saved = self.engine.as_mut().map_or_else(Vec::new, |engine| engine.tiers.saved());
        for Saved { ts, bytes, written } in saved {
            self.stats.d2h += u64::from(written);
            self.stats.write_backs_avoided += u64::from(!written);
            self.stats.raw_bytes += if bytes > 0 { self.layout.raw_bytes } else { 0 };
            self.stats.stored_bytes += bytes;
            if self.config.log_ratio && bytes > 0 {
                let ratio = self.layout.raw_bytes as f64 / bytes as f64;
                log::info!("state {ts}: {bytes} of {} bytes, ratio {ratio:.2}", self.layout.raw_bytes);
            }
        }
    }

    /// A RESTORE, done by `body` on its step and spare slot.
    fn fetch<R>(&mut self, tick: Tick, stream: Stream, body: impl FnOnce(&mut Tiers, Step, Pasts, u32) -> Result<(R, bool)>) -> Result<R> {
        let begin = Instant::now();
        let engine = self.engine()?;
        let (step, spare) = (engine.plan.steps[tick.event], engine.spare(tick.event));
        let prefetched = step.host != NONE && step.slot != NONE && engine.is_issued(tick.event);
        let ((result, moved), late) = engine.call(stream, "restore", |engine| {
            engine.issue_for(tick.event)?;
            let late = prefetched && engine.tiers.is_late(step)?;
            let pasts = engine.plan.pasts(tick.event);
            let result = body(&mut engine.tiers, step, pasts, spare)?;
            engine.issue_after(tick.event)?;
            Ok((result, late))
        })?;
        engine.acquired = None;
        self.count_saved();
        self.stats.restores += 1;
        self.stats.misses += u64::from(moved);
        self.stats.h2d += u64::from(moved);
        self.stats.hits += u64::from(!moved);
        self.stats.prefetches += u64::from(prefetched);
        self.stats.late_prefetches += u64::from(late);
        self.served = true;
        self.stats.restore += begin.elapsed().as_secs_f64();
        self.trace_call();
        Ok(result)
    }

    /// Blocks the calling thread until all saves and retrieves so far have read and written their fields.
    pub fn synchronize(&mut self) -> Result<()> {
        self.process.check()?;
        self.engine.as_mut().map_or(Ok(()), |engine| engine.finish())
    }

    /// Checks that the current action is `kind` of `ts` and still to be served.
    fn expect(&self, kind: Kind, ts: i64) -> Result<Tick> {
        self.process.check()?;
        let call = if kind == Kind::Save { "save" } else { "retrieve" };
        let Some(tick) = self.tick else {
            return fail!(State, "{call} of state {ts} before the first action");
        };
        let action = tick.action;
        if action.kind != kind || action.ts as i64 != ts {
            return fail!(State, "{call} of state {ts}: the current action is {} {}", trace::name(action.kind), action.ts);
        }
        if self.served {
            return fail!(State, "{call} of state {ts}: it is done already");
        }
        Ok(tick)
    }

    fn check_count(&self, nfields: usize) -> Result<()> {
        if nfields != self.layout.fields.len() {
            return fail!(Shape, "{nfields} fields: the session has {}", self.layout.fields.len());
        }
        Ok(())
    }

    /// Refuses fields that differ from those of the session in number, shape or type.
    fn check_shapes(&self, fields: &[AppField]) -> Result<()> {
        self.check_count(fields.len())?;
        for (i, (given, expected)) in fields.iter().zip(&self.layout.fields).enumerate() {
            if given.field.n != expected.n || given.field.scalar != expected.scalar {
                return fail!(
                    Shape,
                    "field {i} is {:?} of {}: the session has {:?} of {}",
                    given.field.n,
                    given.field.scalar.name(),
                    expected.n,
                    expected.scalar.name()
                );
            }
        }
        Ok(())
    }

    /// The memory of the fields, which have to be those of the session.
    fn expect_fields(&mut self, fields: &[AppField]) -> Result<Vec<AppMemory>> {
        self.check_shapes(fields)?;
        let named = |(i, field): (usize, &AppField)| match field.memory {
            Some(memory) => Ok(memory),
            None => fail!(Argument, "field {i}: data is NULL"),
        };
        let memory: Vec<AppMemory> = fields.iter().enumerate().map(named).collect::<Result<_>>()?;
        // The check is the longer, the more rows of different fields alternate in memory: the same memory is checked once.
        if memory != self.disjoint {
            check_disjoint(&memory)?;
            self.disjoint = fallible_vec::copied(&memory)?;
        }
        Ok(memory)
    }

    /// Refuses fields in the memory that this session keeps its snapshots in, or hands out for zero copy.
    fn refuse_own(&mut self, fields: &[AppMemory]) -> Result<()> {
        let Some(engine) = &mut self.engine else { return Ok(()) };
        let device = engine.tiers.device();
        match fields.iter().enumerate().find(|(_, field)| device.owns(**field)) {
            None => Ok(()),
            Some((i, field)) => fail!(
                Argument,
                "field {i}: {:p} is memory of this session: save what was computed there by gpuzip_save_begin and gpuzip_save_commit, and give \
                 save and retrieve the application's own memory",
                field.address()
            ),
        }
    }

    /// The statistics of this sweep so far.
    pub fn stats(&mut self) -> Result<Stats> {
        self.process.check()?;
        let mut stats = self.stats.clone();
        if let Some(Engine { plan, tiers, traffic_before, stalled_before, coded_before, .. }) = &mut self.engine {
            let traffic = tiers.device().traffic();
            stats.stall = tiers.device().stalled()? - *stalled_before;
            stats.h2d_bytes = traffic.h2d_bytes - traffic_before.h2d_bytes;
            stats.d2h_bytes = traffic.d2h_bytes - traffic_before.d2h_bytes;
            let times = |slots: u32| (slots as u64).saturating_mul(self.layout.slot_bytes);
            let (cache, pool) = tiers.peaks().unwrap_or((times(plan.device_slots), times(plan.host_slots)));
            stats.peak_device_bytes = cache + times(if plan.hands_over { SPARE_SLOTS } else { 0 });
            stats.peak_host_bytes = pool;
            let coded = tiers.device().coded()?;
            (stats.compress, stats.decompress) = (coded.0 - coded_before.0, coded.1 - coded_before.1);
        }
        Ok(stats)
    }

    fn end_shot(&mut self) {
        self.ended = true;
        self.shots += 1;
        self.log_performance();
        self.trace_shot();
    }

    fn log_performance(&mut self) {
        if !self.config.performance_log {
            return;
        }
        let mut append = || -> std::result::Result<(), String> {
            self.synchronize().map_err(|e| e.message)?;
            let stats = self.stats().map_err(|e| e.message)?;
            let (schedule, plan) = self.cursor.decide().and_then(|s| Ok((s, self.plan()?))).map_err(|e| e.message)?;
            performance_log::append(self.shots, &schedule, &plan, &stats).map_err(|e| e.to_string())
        };
        if let Err(e) = append() {
            log::warn!("performance log: {e}");
        }
    }
}

/// What a session by itself would decide, without making one.
pub struct Estimate {
    /// The schedule with its plan.
    pub choice: Choice,
    /// How snapshots are stored.
    pub offer: Offer,
    /// `device_budget` and `host_budget` that it plans within; 0: none.
    pub budgets: (u64, u64),
}

/// What a session of this configuration would decide for `steps` steps and states of these fields.
pub fn estimate(mut config: Config, steps: i64, fields: &[AppField]) -> Result<Estimate> {
    let (layout, steps) = (Layout::new(fields.iter().map(|f| f.field).collect())?, check_steps(steps)?);
    let target = settle(&mut config, fields)?;
    budget(&mut config, &layout, steps, target);
    let mut offers = offers_of(&config, &layout)?;
    let sizes = offers.iter().map(|offer| offer.sizes.clone()).collect();
    let choice = choose_among(&config, steps, &[sizes])?;
    let offer = offers.swap_remove(choice.alternative);
    Ok(Estimate { choice, offer, budgets: (config.device_budget, config.host_budget) })
}

/// The device of these fields, if it is known; which backend that is is noted in the configuration: costs and what a codec works in depend
/// on it.
fn settle(config: &mut Config, fields: &[AppField]) -> Result<Option<Target>> {
    let target = Target::of(config, fields)?;
    config.backend = target.map_or(config.backend, Target::backend);
    Ok(target)
}

/// Takes a share of the memory that is free, where the budgets are left to the library.
fn budget(config: &mut Config, layout: &Layout, steps: u32, target: Option<Target>) {
    if choice::are_left(config) {
        choice::take(config, layout, steps, Free::now(config, target).as_ref());
    }
}

/// What compresses snapshots of this layout, if something does.
fn codec_of(compression: &Settings, layout: &Layout) -> Result<Option<SnapshotCodec>> {
    match compression.method {
        Method::None => Ok(None),
        _ => SnapshotCodec::new(compression.clone(), layout).map(Some),
    }
}

/// A FORWARD that computes the state of the next SAVE.
fn is_before_save(action: Action) -> bool {
    action.kind == Kind::Forward && action.flags & flags::NEXT_IS_SAVE != 0
}

impl Drop for Session {
    fn drop(&mut self) {
        // A panic in here would be one in a destructor.
        if let Ok(Err(error)) = catch_unwind(AssertUnwindSafe(|| self.close())) {
            log::error!("at the end of a session: {error}");
        }
        self.cursor.detach(self.number);
        self.close_trace();
    }
}

impl Engine {
    /// Prepares a sweep, or changes nothing.
    fn reset(&mut self) -> Result<()> {
        self.tiers.clear()?;
        let device = self.tiers.device();
        (self.stalled_before, self.coded_before, self.traffic_before) = (device.stalled()?, device.coded()?, device.traffic());
        (self.next_fetch, self.begun, self.acquired, self.broken) = (0, None, None, None);
        Ok(())
    }

    /// Waits for all calls, and fails if one of them gave what it must not, from then on.
    fn finish(&mut self) -> Result<()> {
        if let Some(error) = &self.broken {
            return Err(error.clone());
        }
        let result = self.tiers.finish();
        self.broken = result.as_ref().err().filter(|error| error.code != Code::Device).cloned();
        result
    }

    /// Runs a call of the application on its stream, by the name that a timeline has for it. A call that fails half-way may have left any
    /// slot in any state, so that nothing but a new shot is possible then: never a wrong state.
    fn call<R>(&mut self, stream: Stream, name: &'static str, body: impl FnOnce(&mut Self) -> Result<R>) -> Result<R> {
        if let Some(error) = &self.broken {
            return Err(error.clone().within("an earlier call failed, call setup for a new shot or finalize"));
        }
        let _range = tracing::range(name);
        self.tiers.device().enter(stream, name)?;
        if let Some(tuner) = &mut self.tuner {
            tuner.called();
        }
        // Even a panic gives the caller its context back.
        let result = catch_unwind(AssertUnwindSafe(|| body(self)));
        let left = self.tiers.device().leave();
        let result = result.unwrap_or_else(|panic| resume_unwind(panic)).and_then(|value| left.map(|()| value));
        self.broken = result.as_ref().err().cloned();
        result.and_then(|value| self.listen().map(|()| value))
    }

    /// The number of the spare memory for an event without a slot: one that neither the event before it nor the one after it has.
    fn spare(&self, event: usize) -> u32 {
        event as u32 % SPARE_SLOTS
    }

    /// Whether the transfer for the RESTORE `event` was issued before now.
    fn is_issued(&self, event: usize) -> bool {
        self.plan.fetches.get(self.next_fetch).is_none_or(|fetch| fetch.event as usize != event)
    }

    /// Issues the transfer for the RESTORE `event`, if it is one on demand.
    fn issue_for(&mut self, event: usize) -> Result<()> {
        self.issue_while(|fetch| fetch.event as usize == event)
    }

    /// Issues the transfers that may begin once `event` is done.
    fn issue_after(&mut self, event: usize) -> Result<()> {
        self.issue_while(|fetch| fetch.issue_after as usize <= event)
    }

    /// Issues the transfers that may begin now that the memory of `event`, the last one, is given back.
    fn issue_released(&mut self, event: usize) -> Result<()> {
        self.issue_while(|fetch| fetch.released_after as usize <= event)
    }

    fn issue_while(&mut self, due: impl Fn(&Fetch) -> bool) -> Result<()> {
        while let Some(fetch) = self.plan.fetches.get(self.next_fetch).filter(|f| due(f)) {
            self.tiers.fetch(self.plan.steps[fetch.event as usize], self.plan.pasts(fetch.event as usize))?;
            self.next_fetch += 1;
        }
        Ok(())
    }
}
