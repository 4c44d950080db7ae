//! One loop over the actions of a shot, for every application of the tests, with one session or with
//! several that share a schedule.

use gpuzip::choice::Tick;
use gpuzip::device::{AppField, Stream};
use gpuzip::error::{Code, Result};
use gpuzip::layout::Field;
use gpuzip::schedule::{flags, Algorithm, Kind};
use gpuzip::session::Session;
use gpuzip::stats::Stats;
use std::ffi::c_void;
use std::path::{Path, PathBuf};

/// The calling thread as a stream.
pub const HOST: Stream = Stream(std::ptr::null_mut());

/// The algorithms that make a schedule of a known number of steps.
pub const ALGORITHMS: [Algorithm; 6] = [
    Algorithm::Revolve,
    Algorithm::Uniform,
    Algorithm::Zcut,
    Algorithm::TwoLevel,
    Algorithm::Hrevolve,
    Algorithm::StoreAll,
];

/// Returns fields with shapes but without memory.
pub fn unplaced(shapes: &[Field]) -> Vec<AppField> {
    shapes.iter().map(|&field| AppField { field, memory: None }).collect()
}

/// An application, or the part of one that has a session of its own. `serve` says in which order the
/// library and the methods are called for an action.
pub trait App {
    /// Returns the fields with their memory.
    fn fields(&mut self) -> Vec<AppField>;

    /// Computes u(ts) from u(ts - 1).
    fn forward(&mut self, ts: u32);

    /// Reverses the time steps from `tick.action.ts` to `tick.end`.
    fn backward(&mut self, _tick: Tick) {}

    /// The stream of the application's work and of its calls.
    fn stream(&self) -> Stream {
        HOST
    }

    /// Is called behind each save. The library no longer needs the fields.
    fn saved(&mut self, _session: &mut Session, _tick: Tick) -> Result<()> {
        Ok(())
    }

    /// Is called behind each retrieve, before `look`.
    fn restored(&mut self, _session: &mut Session, _tick: Tick) -> Result<()> {
        Ok(())
    }

    /// Checks, now or later, that the fields hold u(ts).
    fn look(&mut self, _ts: u32) {}

    /// Overwrites the fields where nobody needs their values: before a retrieve and behind a step
    /// backward.
    fn poison(&mut self) {}

    /// With zero copy: the fields lie in this memory of the session from now on.
    fn place(&mut self, _at: Vec<*mut c_void>) {
        unreachable!("only sessions with zero copy hand out memory, and this application has none");
    }

    /// With zero copy: computes u(ts) in the memory that `place` has named.
    fn begun(&mut self, ts: u32) {
        self.forward(ts);
    }

    /// With zero copy: computes u(ts) in memory of the application's own, and leaves the fields in
    /// the session's memory as they are.
    fn forward_beside(&mut self, _ts: u32) {}

    /// Whether a call that fails is repeated once.
    fn is_stubborn(&self) -> bool {
        false
    }

    /// Does what the action of `tick` asks of the application.
    fn serve(&mut self, session: &mut Session, tick: Tick) -> Result<()> {
        serve(self, session, tick)
    }
}

/// Calls a function of the library, and once more if it fails and the application is stubborn.
pub fn insist<R>(stubborn: bool, mut call: impl FnMut() -> Result<R>) -> Result<R> {
    call().or_else(|error| if stubborn { call() } else { Err(error) })
}

/// Serves an action. The library copies the fields of saved and restored states.
pub fn serve(app: &mut (impl App + ?Sized), session: &mut Session, tick: Tick) -> Result<()> {
    let (ts, stream, stubborn) = (tick.action.ts, app.stream(), app.is_stubborn());
    match tick.action.kind {
        Kind::Forward => (ts..=tick.end).for_each(|ts| app.forward(ts)),
        Kind::Save => {
            let fields = app.fields();
            insist(stubborn, || session.save(ts.into(), &fields, stream))?;
            app.saved(session, tick)?;
        }
        Kind::Restore => {
            app.poison();
            let fields = app.fields();
            insist(stubborn, || session.retrieve(ts.into(), &fields, stream))?;
            app.restored(session, tick)?;
            app.look(ts);
        }
        Kind::Backward => {
            app.look(ts);
            app.backward(tick);
            app.poison();
        }
        Kind::Terminate | Kind::Error => {}
    }
    Ok(())
}

/// How an application with zero copy uses the memory that its session hands out.
pub struct Slots<'a> {
    /// Whether the state of a SAVE is computed in its slot at the FORWARD before the SAVE; otherwise
    /// at the SAVE.
    pub begins: bool,
    /// Whether the application gives a restored state back before the next action.
    pub releases: Box<dyn FnMut() -> bool + 'a>,
    /// The time step of the state in the slot where the fields lie, as long as the application may
    /// use the slot.
    held: Option<u32>,
    /// The time step of the state that the application may give back.
    acquired: Option<u32>,
}

impl<'a> Slots<'a> {
    pub fn new(begins: bool, releases: impl FnMut() -> bool + 'a) -> Self {
        Slots { begins, releases: Box::new(releases), held: None, acquired: None }
    }

    /// Forgets the slots of a shot that has ended.
    pub fn clear(&mut self) {
        (self.held, self.acquired) = (None, None);
    }

    /// Serves an action. The state in a slot is checked just before each call that ends its time
    /// there.
    pub fn serve(&mut self, app: &mut impl App, session: &mut Session, tick: Tick) -> Result<()> {
        let (action, ts, stream, stubborn) =
            (tick.action, tick.end, app.stream(), app.is_stubborn());
        let count = app.fields().len();
        let is_next_saved = action.flags & flags::NEXT_IS_SAVE != 0;
        let begins = match action.kind {
            Kind::Forward => self.begins && is_next_saved,
            Kind::Save => self.held != Some(ts),
            _ => false,
        };
        if begins {
            let at = insist(stubborn, || session.save_begin(ts.into(), count, stream))?;
            self.look(app);
            app.place(at);
            app.begun(ts);
            self.held = Some(ts);
        }
        match action.kind {
            Kind::Forward if !begins => {
                self.look(app);
                app.forward_beside(ts);
            }
            Kind::Save => {
                insist(stubborn, || session.save_commit(ts.into(), stream))?;
                self.acquired = None;
            }
            Kind::Restore => {
                self.look(app);
                app.place(insist(stubborn, || session.retrieve_acquire(ts.into(), count, stream))?);
                app.restored(session, tick)?;
                app.look(ts);
                (self.held, self.acquired) = (Some(ts), Some(ts));
                if action.flags & flags::LAST_USE != 0 {
                    app.poison();
                    self.held = None;
                }
            }
            Kind::Backward => app.backward(tick),
            _ => {}
        }
        if let Some(last) = self.acquired.filter(|_| (self.releases)()) {
            if self.held == self.acquired {
                self.look(app);
                self.held = None;
            }
            insist(stubborn, || session.retrieve_release(last.into(), stream))?;
            self.acquired = None;
        }
        Ok(())
    }

    fn look(&self, app: &mut impl App) {
        if let Some(ts) = self.held {
            app.look(ts);
        }
    }
}

/// Serves the next action. Returns `None` at TERMINATE.
pub fn step(session: &mut Session, app: &mut impl App) -> Result<Option<Tick>> {
    let tick = insist(app.is_stubborn(), || session.get_action())?;
    app.serve(session, tick)?;
    Ok(Some(tick).filter(|_| tick.action.kind != Kind::Terminate))
}

/// Serves the next action of a schedule that sessions share, in every session. Returns `None` at
/// TERMINATE.
pub fn step_all(sessions: &mut [Session], apps: &mut [impl App]) -> Result<Option<Tick>> {
    let tick = insist(apps[0].is_stubborn(), || sessions[0].get_action())?;
    for (session, app) in sessions.iter_mut().zip(apps) {
        insist(app.is_stubborn(), || session.dispatch(tick.it))?;
        app.serve(session, tick)?;
    }
    Ok(Some(tick).filter(|_| tick.action.kind != Kind::Terminate))
}

/// Serves all actions that are left of a shot.
pub fn play(session: &mut Session, app: &mut impl App) -> Result<()> {
    play_with(session, app, |_, _| {})
}

/// Serves all actions that are left of a shot. `before` is called before each action is served.
pub fn play_with(
    session: &mut Session,
    app: &mut impl App,
    mut before: impl FnMut(&mut Session, Tick),
) -> Result<()> {
    loop {
        let tick = insist(app.is_stubborn(), || session.get_action())?;
        before(session, tick);
        app.serve(session, tick)?;
        if tick.action.kind == Kind::Terminate {
            return Ok(());
        }
    }
}

/// Checks that a call was refused with this code and a message that has all these parts.
#[track_caller]
pub fn refused<R>(result: Result<R>, code: Code, parts: &[&str]) {
    let error = result.err().unwrap();
    assert_eq!(error.code, code, "{error}");
    parts.iter().for_each(|part| assert!(error.message.contains(part), "{part}: {error}"));
}

/// Whether `tick` is the last action of an online forward phase of `steps` time steps. Where the
/// schedule saves the last state, the SAVE is the last action if `saves`, otherwise the FORWARD before
/// it.
pub fn is_end(tick: Tick, steps: u32, saves: bool) -> bool {
    let waits = saves && tick.action.flags & flags::NEXT_IS_SAVE != 0;
    matches!(tick.action.kind, Kind::Forward | Kind::Save) && tick.end + 1 == steps && !waits
}

/// Writes a trace that saves every `stride`-th of `n` states and restores near and far states in turn,
/// so that the lifetimes of snapshots do not end in the order of a stack. Returns the file's path.
pub fn trace_that_is_no_stack(folder: &Path, n: u32, stride: u32) -> PathBuf {
    let mut lines: Vec<String> = (0..n)
        .flat_map(|t| {
            let forward = (t > 0).then(|| format!("{t} FORWARD"));
            forward.into_iter().chain((t % stride == 0).then(|| format!("{t} SAVE")))
        })
        .collect();
    lines.push(format!("{} BACKWARD", n - 1));
    for t in (0..n - 1).rev() {
        let nearest = t - t % stride;
        let from = nearest / (1 + t % 3) / stride * stride;
        lines.push(format!("{from} RESTORE"));
        lines.extend((from + 1..=t).map(|s| format!("{s} FORWARD")));
        lines.push(format!("{t} BACKWARD"));
    }
    lines.push("0 TERMINATE\n".into());
    let path = folder.join(format!("no-stack-{n}-{stride}.trace"));
    std::fs::write(&path, lines.join("\n")).unwrap();
    path
}

/// Returns the statistics that do not depend on time.
pub fn counts(s: &Stats) -> Vec<u64> {
    let steps = [s.saves, s.restores, s.forward_steps, s.backward_steps];
    let places = [s.hits, s.misses, s.prefetches, s.h2d, s.d2h, s.disk_reads, s.disk_writes];
    let bytes = [s.write_backs_avoided, s.raw_bytes, s.stored_bytes];
    [&steps[..], &places, &bytes].concat()
}

/// Whether the snapshot of a SAVE or RESTORE is raw; with mixed storage, some snapshots are raw and
/// others coded.
pub fn is_raw(session: &mut Session, tick: Tick) -> Result<bool> {
    let plan = session.plan()?;
    Ok(plan.steps[tick.step].slot < plan.raw_slots)
}
