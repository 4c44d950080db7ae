//! A job with zero copy.

use super::*;

/// Runs a job's first shot on one device with zero copy. Each state is computed in the memory that
/// the library hands out, and is checked there again just before the next save or retrieve. The
/// application gives memory of a restored state back whenever `releases` says so. If streams
/// alternate, each call is on the next stream.
pub fn run_zero_copy(
    job: &Job,
    seed: u64,
    syncs: impl Fn() -> u64,
    releases: impl FnMut() -> bool,
) -> Result<Outcome> {
    run_zero_copy_armed(job, seed, syncs, releases, || {})
}

/// Runs a job as `run_zero_copy` does. `arm` is called once the application has allocated its
/// memory, before it calls the library.
pub fn run_zero_copy_armed(
    job: &Job,
    seed: u64,
    syncs: impl Fn() -> u64,
    mut releases: impl FnMut() -> bool,
    arm: impl FnOnce(),
) -> Result<Outcome> {
    let mut part = Part::new(0, job, seed);
    arm();
    let config = Config { zero_copy: true, ..job.config.clone() };
    let mut session = Session::new(config, job.steps as i64, &part.app_fields())?;
    let mut outcome = Outcome { seen: part.seen(), ..Outcome::default() };
    let count = shapes().len();
    let own = part.fields[0].clone();
    let at = |pointers: Vec<*mut c_void>| -> Vec<(Field, u64)> {
        shapes().into_iter().zip(pointers.into_iter().map(|p| p as u64)).collect()
    };
    let mut handed: Option<u32> = None;
    let mut acquired: Option<u32> = None;
    session.setup()?;
    let before = syncs();
    loop {
        let tick = insist(job, || session.get_action())?;
        let (action, ts) = (tick.action, tick.end);
        if job.streams == Streams::Alternating {
            part.next_stream();
        }
        let stream = Stream(part.stream().cast());
        let computes_for_save = action.flags & flags::NEXT_IS_SAVE != 0;
        match action.kind {
            Kind::Forward if !computes_for_save => {
                if let Some(last) = handed {
                    part.look(last);
                }
                // The state moves on into the application's own memory. The memory that the library
                // handed out is checked before the next action that uses it.
                let slot = std::mem::replace(&mut part.fields[0], own.clone());
                let restored = part.restored;
                part.forward(ts);
                (part.fields[0], part.restored) = (slot, restored);
            }
            Kind::Forward | Kind::Save if computes_for_save || handed != Some(ts) => {
                if let Some(last) = handed {
                    part.look(last);
                }
                part.fields[0] = at(insist(job, || session.save_begin(ts as i64, count, stream))?);
                part.forward(ts);
                handed = Some(ts);
                if action.kind == Kind::Save {
                    insist(job, || session.save_commit(ts as i64, stream))?;
                }
            }
            Kind::Save => insist(job, || session.save_commit(ts as i64, stream))?,
            Kind::Restore => {
                if let Some(last) = handed {
                    part.look(last);
                }
                part.fields[0] =
                    at(insist(job, || session.retrieve_acquire(ts as i64, count, stream))?);
                part.restored = !is_raw(&mut session, tick)?;
                part.look(ts);
                (handed, acquired) = (Some(ts), Some(ts));
                if action.flags & flags::LAST_USE != 0 {
                    part.poison();
                    handed = None;
                }
            }
            Kind::Terminate => break,
            Kind::Forward | Kind::Backward | Kind::Error => {}
        }
        if action.kind == Kind::Save {
            acquired = None;
        }
        if let Some(last) = acquired.filter(|_| releases()) {
            if handed == acquired {
                part.look(last);
                handed = None;
            }
            insist(job, || session.retrieve_release(last as i64, stream))?;
            acquired = None;
        }
    }
    outcome.syncs = syncs() - before;
    part.fields[0] = own;
    outcome.wrong = part.wrong_states();
    outcome.stats.push(session.stats()?);
    Ok(outcome)
}
