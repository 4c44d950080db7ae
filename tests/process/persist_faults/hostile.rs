//! Hostile restart files against a session: each is found, read and gone on from, or refused, by a
//! process that can take 64 MiB more memory than it has. No file ends the process, makes it panic,
//! or lets it ask for memory that it does not get.

use super::mutations::Hostile;
use super::wave::{folder, session, write, App, Job};
use crate::common::cases::cases;
use crate::common::draw::Draw;
use crate::common::play::step;
use gpuzip::codec::{ErrorBound, Method, Settings};
use gpuzip::config::{Backend, Config};
use gpuzip::device::Stream;
use gpuzip::error::{Code, Result};
use gpuzip::persist::FileName;
use gpuzip::schedule::Algorithm;
use std::fs;
use std::path::{Path, PathBuf};
use std::ptr::null_mut;

/// Number of hostile files.
const CASES: &str = "PERSIST_HOSTILE_CASES";
/// Memory that the process may take for all of them, in bytes.
const ROOM: u64 = 64 << 20;

/// A job, and a real generation of it.
struct Base {
    job: Job,
    generation: Hostile,
}

/// With a device budget, plans follow from the sizes of compressed snapshots, which are in the file.
fn job(method: Method, device_budget: u64) -> Job {
    let bound = ErrorBound::OfMax(1e-3);
    let config = Config::default().with(|c| {
        c.schedule.algorithm = Some(Algorithm::Revolve);
        c.schedule.snapshots = 3;
        c.tiers.cache = if device_budget > 0 { 0 } else { 2 };
        c.tiers.device_budget = device_budget;
        c.device.backend = Backend::Host;
        c.codec.settings = Settings { method, bound, ..Settings::default() };
    });
    Job { config, steps: 9, ends: None }
}

/// Writes a generation of the start of a shot, or of the action 6 of a shot.
fn base(job: Job, within: bool, dir: &Path) -> Base {
    let _ = fs::remove_dir_all(dir);
    let mut app = App::new(false);
    let mut one = session(&job, dir, &app).unwrap();
    app.begin();
    for _ in 0..if within { 7 } else { 0 } {
        step(&mut one, &mut app).unwrap();
    }
    write(&mut one, 3, &app).unwrap();
    drop(one);
    Base { job, generation: Hostile::of(&fs::read(file(dir)).unwrap()) }
}

fn file(dir: &Path) -> PathBuf {
    dir.join(FileName::Generation(1).text(0))
}

/// What a hostile file came to.
#[derive(Default)]
struct Counts {
    refused: usize,
    gone_on: usize,
}

/// Goes on from the generation in `dir`, serves the rest of the shot, and writes a generation.
fn go_on(job: &Job, dir: &Path, counts: &mut Counts) -> Result<()> {
    let mut app = App::new(false);
    let mut session = session(job, dir, &app)?;
    let found = &session.persist_find()?.expect("a folder with one generation").header;
    let (shot, it) = (found.shot, found.it);
    assert!(shot >= 0 && it >= -1, "shot {shot}, action {it}");
    session.persist_read(&app.arrays(), Stream(null_mut()))?;
    counts.gone_on += 1;
    session.persist_write(shot, &app.arrays(), Stream(null_mut())).expect("what was read");
    session.persist_wait()?;
    app.finish(&mut session)
}

/// Returns the bytes of address space that this process has.
fn address_space() -> u64 {
    let statm = fs::read_to_string("/proc/self/statm").unwrap();
    4096 * statm.split(' ').next().unwrap().parse::<u64>().unwrap()
}

/// The child process. The file of the last case stays in the folder if the process ends there.
pub fn plays() {
    let dir = PathBuf::from(std::env::var(super::FOLDER).unwrap());
    let cases: u64 = std::env::var(CASES).unwrap().parse().unwrap();
    let budget = 60_000;
    let jobs = [
        job(Method::None, 0),
        job(Method::Lorenzo, 0),
        job(Method::Lorenzo, budget),
        job(Method::Dct, budget),
        job(Method::Fp16, 0),
    ];
    let bases = jobs.map(|job| [false, true].map(|within| base(job.clone(), within, &dir)));
    let bases: Vec<Base> = bases.into_iter().flatten().collect();
    let mut counts = Counts::default();
    let mut limited = false;
    for case in 0..cases + bases.len() as u64 {
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir(&dir).unwrap();
        let mut draw = Draw(case);
        let base = &bases[case as usize % bases.len()];
        // The first cases are the generations as they are, after which all of the code has run.
        let whole = case < bases.len() as u64;
        let bytes = match whole {
            true => base.generation.whole(),
            false => base.generation.clone().changed(&mut draw),
        };
        fs::write(file(&dir), bytes).unwrap();
        match go_on(&base.job, &dir, &mut counts) {
            Ok(()) => {}
            Err(e) if whole || matches!(e.code, Code::Memory | Code::Panic) => {
                panic!("case {case}: {:?}: {e}", e.code)
            }
            Err(_) => counts.refused += 1,
        }
        if !whole && !limited {
            limited = true;
            let most = address_space() + ROOM;
            let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
            // SAFETY: the pointer is to a live value; the limit is this process's own.
            assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) }, 0);
        }
    }
    let Counts { refused, gone_on } = counts;
    assert!(refused as u64 > cases / 4 && gone_on as u64 > cases / 20, "{refused}, {gone_on}");
    println!("{cases} hostile files: {gone_on} read, {refused} refused in the end");
}

/// Runs 3,000 hostile files, in long tests 10^5.
pub fn run() {
    let dir = folder("persist-hostile");
    let cases = cases(3000, 100_000);
    let output = crate::common::again("plays_hostile_files")
        .env(super::FOLDER, &dir)
        .env(CASES, cases.to_string())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    let place = dir.display();
    assert!(output.status.success(), "{}: the file is in {place}: {told}{errors}", output.status);
    print!("{told}");
    fs::remove_dir_all(dir).unwrap();
}
