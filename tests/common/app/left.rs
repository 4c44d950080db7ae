//! A job that leaves a shot in its middle.

use super::*;
use gpuzip::error::Error;

/// What became of a shot that the application left by calling `setup` in its middle.
pub struct Left {
    /// The error of `setup`.
    pub setup: Error,
    /// The number of saves and retrieves that succeeded in the old shot after `setup` had failed.
    pub served: usize,
    /// The error that ended the old shot; `None` if it went on to its TERMINATE.
    pub refused: Option<Error>,
    /// Number of wrong states in the whole shot that followed a second `setup`.
    pub wrong: usize,
}

/// Runs a job on one device, and calls `setup` in place of doing what action `kind` of state `ts`
/// asks, which must fail. The application goes on with the old shot as if it had not called
/// `setup`, until a call fails. Then it makes the state `SPOILED` right, calls `setup` again, and
/// runs a whole shot.
pub fn run_left(job: &Job, seed: u64, kind: Kind, ts: u32) -> Result<Left> {
    let mut part = Part::new(0, job, seed);
    let mut session = Session::new(job.config.clone(), job.steps as i64, &part.fields())?;
    session.setup()?;
    part.forward(0);
    let mut setup = None;
    let ended = loop {
        let tick = match session.get_action() {
            Ok(tick) => tick,
            Err(error) => break Err(error),
        };
        if (tick.action.kind, tick.action.ts) == (kind, ts) {
            setup = session.setup().err();
            part.served = 0;
        }
        match part.serve(&mut session, tick) {
            Ok(()) if tick.action.kind == Kind::Terminate => break Ok(()),
            Ok(()) => {}
            failed => break failed,
        }
    };
    let setup = setup.unwrap_or_else(|| panic!("setup succeeded: {ended:?}"));
    let served = part.served;
    part.wrong_states();
    part.mend_spoiled();
    session.setup()?;
    part.forward(0);
    play::play(&mut session, &mut part)?;
    Ok(Left { setup, served, refused: ended.err(), wrong: part.wrong_states() })
}
