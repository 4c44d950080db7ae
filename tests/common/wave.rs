//! A program that goes on from restart files: a wave equation, its adjoint, and the arrays that a
//! generation keeps.

use super::checksum::fnv;
use super::play::{self, HOST};
use super::tempdir;
use gpuzip::choice::Tick;
use gpuzip::config::Config;
use gpuzip::device::{AppField, AppMemory};
use gpuzip::error::Result;
use gpuzip::layout::Field;
use gpuzip::persist::Name;
use gpuzip::scalar::Scalar;
use gpuzip::schedule::{flags, Kind};
use gpuzip::session::{Array, Session};
use std::path::{Path, PathBuf};

/// Values of a time level.
pub const N: usize = 3000;

/// Memory of the application: managed memory on a device, or ordinary memory.
pub struct Memory {
    at: *mut u8,
    bytes: usize,
    managed: bool,
}

impl Memory {
    pub fn new(bytes: usize, managed: bool) -> Self {
        let at = if managed {
            let mut address = 0;
            // SAFETY: a live context, and a place for the result.
            let status = unsafe { cudarc::driver::sys::cuMemAllocManaged(&mut address, bytes, 1) };
            assert_eq!(status, cudarc::driver::sys::CUresult::CUDA_SUCCESS);
            address as *mut u8
        } else {
            Vec::leak(vec![0u64; bytes / 8]).as_mut_ptr().cast()
        };
        let memory = Memory { at, bytes, managed };
        memory.bytes().fill(0);
        memory
    }

    #[allow(clippy::mut_from_ref)] // One thread, which holds one slice at a time.
    pub fn bytes(&self) -> &mut [u8] {
        // SAFETY: the memory is this struct's own.
        unsafe { std::slice::from_raw_parts_mut(self.at, self.bytes) }
    }

    #[allow(clippy::mut_from_ref)]
    pub fn floats(&self) -> &mut [f32] {
        // SAFETY: as above; every bit pattern is a float.
        unsafe { std::slice::from_raw_parts_mut(self.at.cast(), self.bytes / 4) }
    }

    pub fn field(&self, previous_of: Option<u32>) -> AppField {
        let field = Field { n: [self.bytes as u64 / 4, 1, 1], scalar: Scalar::F32, previous_of };
        // SAFETY: the memory lives as long as this struct, and no call overlaps another use.
        AppField { field, memory: Some(unsafe { AppMemory::new(self.at, self.bytes) }) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        match self.managed {
            // SAFETY: allocated by `new`.
            true => drop(unsafe { cudarc::driver::sys::cuMemFree_v2(self.at as u64) }),
            // SAFETY: as above.
            false => drop(unsafe {
                Vec::from_raw_parts(self.at.cast::<u64>(), self.bytes / 8, self.bytes / 8)
            }),
        }
    }
}

/// A wave equation in one dimension, its adjoint, and what the two sum up.
pub struct App {
    pub curr: Memory,
    pub prev: Memory,
    pub adjoint: Memory,
    pub sum: Memory,
    /// Sum over shots.
    pub stack: Memory,
    /// The source of the waves; arguments: shot, time step, position.
    pub source: fn(u32, u32, usize) -> f32,
    pub shot: u32,
    /// Where the shot ends if the session does not know its number of steps: the last state, and whether
    /// that is saved before the application tells its end.
    pub ends: Option<(u32, bool)>,
    /// Actions, and hashes of restored states.
    pub told: Vec<(i64, i32, u32, u32, u32, u64)>,
}

impl App {
    pub fn new(managed: bool) -> Self {
        let memory = || Memory::new(4 * N, managed);
        let (curr, prev, adjoint, sum) = (memory(), memory(), memory(), memory());
        let source = |_, ts, i| if i == N / 3 { (ts as f32 * 0.3).sin() } else { 0.0 };
        let (stack, told) = (memory(), Vec::new());
        App { curr, prev, adjoint, sum, stack, source, shot: 0, ends: None, told }
    }

    pub fn begin(&mut self) {
        for memory in [&self.curr, &self.prev, &self.adjoint, &self.sum] {
            memory.floats().fill(0.0);
        }
        self.curr.floats()[N / 2] = 1.0;
    }

    pub fn levels(&self) -> [AppField; 2] {
        [self.curr.field(None), self.prev.field(Some(0))]
    }

    pub fn arrays(&self) -> Vec<Array> {
        let array = |name, memory: &Memory, changes_within| Array {
            name: Name::new(name).unwrap(),
            field: memory.field(None),
            changes_within,
        };
        vec![
            array("stack", &self.stack, false),
            array("u", &self.curr, true),
            array("u before", &self.prev, true),
            array("adjoint", &self.adjoint, true),
            array("sum", &self.sum, true),
        ]
    }

    pub fn live(&self) -> u64 {
        fnv(self.curr.bytes().iter().chain(self.prev.bytes().iter()))
    }

    /// Plays a whole shot.
    pub fn shot(&mut self, session: &mut Session) -> Result<()> {
        self.begin();
        self.finish(session)
    }

    /// Adds the shot to the stack.
    pub fn add_up(&mut self) {
        for (stack, sum) in self.stack.floats().iter_mut().zip(self.sum.floats()) {
            *stack += *sum;
        }
    }

    /// Serves all actions that are left of a shot.
    pub fn finish(&mut self, session: &mut Session) -> Result<()> {
        play::play(session, self)?;
        self.add_up();
        Ok(())
    }
}

impl play::App for App {
    fn fields(&mut self) -> Vec<AppField> {
        self.levels().into()
    }

    fn forward(&mut self, ts: u32) {
        let (curr, prev) = (self.curr.floats(), self.prev.floats());
        let mut left = 0.0;
        for i in 0..N {
            let right = if i + 1 < N { curr[i + 1] } else { 0.0 };
            let next = 1.99 * curr[i] - prev[i] + 0.2 * (left - 2.0 * curr[i] + right);
            left = curr[i];
            prev[i] = next + (self.source)(self.shot, ts, i);
        }
        std::mem::swap(&mut self.curr, &mut self.prev);
    }

    fn backward(&mut self, tick: Tick) {
        let (curr, adjoint, sum) = (self.curr.floats(), self.adjoint.floats(), self.sum.floats());
        for ts in (tick.action.ts..=tick.end).rev() {
            for i in 0..N {
                adjoint[i] = 0.9 * adjoint[i] + curr[i] * (1.0 + ts as f32);
                sum[i] += adjoint[i] * curr[i];
            }
        }
    }

    fn serve(&mut self, session: &mut Session, tick: Tick) -> Result<()> {
        play::serve(self, session, tick)?;
        // The host looks at the memory.
        session.synchronize()?;
        let (kind, ts) = (tick.action.kind as i32, tick.action.ts);
        self.told.push((tick.it, kind, ts, tick.end, tick.action.flags, self.live()));
        match self.ends {
            Some(ends) if ends_at(tick, ends) => session.end_forward(),
            _ => Ok(()),
        }
    }
}

/// Whether the forward phase of a shot that ends like this does so after an action.
fn ends_at(tick: Tick, (last, after_save): (u32, bool)) -> bool {
    let is_saved_next = tick.action.flags & flags::NEXT_IS_SAVE != 0;
    match tick.action.kind {
        Kind::Forward => tick.end == last && !(after_save && is_saved_next),
        Kind::Save => tick.end == last && after_save,
        _ => false,
    }
}

#[derive(Clone, Debug)]
pub struct Job {
    pub config: Config,
    pub steps: i64,
    /// As `App::ends`.
    pub ends: Option<(u32, bool)>,
}

pub fn persisting(job: &Job, dir: &Path) -> Config {
    job.config.clone().with(|c| c.restart.folder = Some(dir.into()))
}

/// Returns a session that writes its generations to `dir`.
pub fn session(job: &Job, dir: &Path, app: &App) -> Result<Session> {
    let mut session = Session::new(persisting(job, dir), job.steps, &app.levels())?;
    session.persist_open((0, 1), Box::new(Ok))?;
    Ok(session)
}

/// Writes a generation of shot `shot`, and waits until it is published.
pub fn write(session: &mut Session, shot: i64, app: &App) -> Result<()> {
    session.persist_write(shot, &app.arrays(), HOST)?;
    session.persist_wait()
}

/// Makes a session as `session` does, which goes on from the newest generation in `dir`. Returns the
/// session, and the shot and the action of the generation.
pub fn resume(job: &Job, dir: &Path, app: &App) -> Result<(Session, i64, i64)> {
    let mut session = session(job, dir, app)?;
    let found = &session.persist_find()?.expect("a generation").header;
    let (shot, it) = (found.shot, found.it);
    session.persist_read(&app.arrays(), HOST)?;
    session.synchronize()?;
    Ok((session, shot, it))
}

/// A folder in memory, where there is one: this test publishes very many generations.
pub fn folder(name: &str) -> PathBuf {
    let memory = Path::new("/dev/shm");
    let dir = match memory.is_dir() {
        true => memory.join(format!("gpuzip-{name}-{}", std::process::id())),
        false => tempdir(name),
    };
    let _ = std::fs::remove_dir_all(&dir);
    dir
}
