//! The calls that run whole sweeps: the library loops over the actions and calls the application's
//! callbacks.

use super::entry::{entry, read_options, zero_words};
use super::float::in_caller;
use super::handles::with_session;
use super::session::app_fields;
use super::types::*;
use crate::choice::Tick;
use crate::device::{AppField, Stream};
use crate::error::{fail, Code, Error, Result};
use crate::schedule::{Action, Kind};
use crate::session::Session;
use std::ffi::c_void;

/// The run of a shot or of a part of it. The session is locked only during calls on it, never while
/// a callback of the application runs.
struct Run {
    handle: *mut gpuzip_t,
    callbacks: gpuzip_callbacks_t,
    fields: Vec<gpuzip_field_t>,
    stream: *mut c_void,
}

impl Run {
    /// Copies the callbacks and the fields and checks them.
    ///
    /// # Safety
    /// `callbacks` is NULL or points to callbacks whose `struct_size` is set; `fields` is NULL or
    /// points to `nfields` fields.
    unsafe fn new(
        handle: *mut gpuzip_t,
        callbacks: *const gpuzip_callbacks_t,
        fields: *const gpuzip_field_t,
        nfields: u32,
        stream: *mut c_void,
    ) -> Result<Run> {
        // SAFETY: by this function's contract.
        let callbacks = unsafe { read_options(callbacks, "callbacks") }?;
        zero_words("callbacks->reserved", &callbacks.reserved, Code::Argument)?;
        if callbacks.forward.is_none() {
            return fail!(Argument, "callbacks->forward is NULL");
        }
        // SAFETY: by this function's contract. Invalid fields are reported before a callback is
        // called.
        let given = unsafe { app_fields(fields, nfields) }?;
        let located = callbacks.locate.is_some();
        with_session(handle, |session| session.check_run(&given, located))?;
        // SAFETY: `app_fields` has read these `nfields` fields before.
        let fields =
            (0..nfields as usize).map(|i| unsafe { fields.add(i).read_unaligned() }).collect();
        Ok(Run { handle, callbacks, fields, stream })
    }

    /// Fails if there is no callback for the BACKWARDs of the session.
    fn check_backward(&self) -> Result<()> {
        let schedule = with_session(self.handle, |session| Ok(session.schedule().clone()))?;
        match schedule.macro_steps().every() {
            _ if self.callbacks.backward_range.is_some() => Ok(()),
            1 if self.callbacks.backward.is_some() => Ok(()),
            1 => fail!(Argument, "callbacks->backward is NULL"),
            every => fail!(
                Argument,
                "callbacks->backward_range is NULL: with adjoint_every = {every} a BACKWARD has up to {every} time steps"
            ),
        }
    }

    /// Serves the actions that `next` returns, until it returns `None` or TERMINATE.
    fn serve_all(&self, next: impl Fn(&mut Session) -> Result<Option<Tick>>) -> Result<()> {
        let mut done: Option<Tick> = None;
        loop {
            let tick = with_session(self.handle, |session| {
                done.map_or(Ok(()), |tick| session.check_at(tick))?;
                next(session)
            })?;
            let Some(tick) = tick.filter(|tick| tick.action.kind != Kind::Terminate) else {
                return Ok(());
            };
            self.serve(tick)?;
            done = Some(tick);
        }
    }

    fn serve(&self, tick: Tick) -> Result<()> {
        let Action { kind, ts, flags } = tick.action;
        let (user, ts, end) = (self.callbacks.user, ts as i32, tick.end as i32);
        let gpuzip_callbacks_t { forward, backward, backward_range, observe, .. } = self.callbacks;
        if let Kind::Save | Kind::Restore = kind {
            let fields = self.locate(kind, ts)?;
            with_session(self.handle, |session| match kind {
                Kind::Save => session.save(ts as i64, &fields, Stream(self.stream)),
                _ => session.retrieve(ts as i64, &fields, Stream(self.stream)),
            })?;
        }
        // SAFETY: the application promised to `gpuzip_run_forward` that the callbacks may be called.
        let value = in_caller(|| unsafe {
            match (kind, backward_range) {
                (Kind::Forward, _) => forward.map(|forward| forward(user, ts, end, flags)),
                (Kind::Backward, Some(backward)) => Some(backward(user, ts, end, flags)),
                (Kind::Backward, None) => backward.map(|backward| backward(user, ts, flags)),
                _ => observe.map(|observe| observe(user, kind as i32, ts, flags)),
            }
        });
        self.returned(value.unwrap_or(0), || match (kind, backward_range) {
            (Kind::Forward, _) => format!("forward of {ts} to {end}"),
            (Kind::Backward, Some(_)) => format!("backward_range of {end} to {ts}"),
            (Kind::Backward, None) => format!("backward of {ts}"),
            _ => format!("observe of {ts}"),
        })
    }

    /// Returns the fields with the addresses that the callback `locate` gives, if there is one.
    fn locate(&self, kind: Kind, ts: i32) -> Result<Vec<AppField>> {
        let (mut fields, count) = (self.fields.clone(), self.fields.len() as u32);
        if let Some(locate) = self.callbacks.locate {
            // SAFETY: the application promised to `gpuzip_run_forward` that the callbacks may be
            // called; `fields` is a copy of its `count` fields.
            let value = in_caller(|| unsafe {
                locate(self.callbacks.user, kind as i32, ts, fields.as_mut_ptr(), count)
            });
            self.returned(value, || format!("locate of {ts}"))?;
        }
        // SAFETY: `fields` has `count` fields, whose data is the application's memory.
        unsafe { app_fields(fields.as_ptr(), count) }
    }

    /// Checks what a callback returned: 0 continues the run. Any other value stops the shot, since
    /// the callback may have done its action in part; only `gpuzip_setup` is valid then.
    fn returned(&self, value: i32, call: impl FnOnce() -> String) -> Result<()> {
        if value == 0 {
            return Ok(());
        }
        let why = format!("callback {} returned {value}", call());
        // The callback may have finalized the session itself, so an error is ignored.
        let _ = with_session(self.handle, |session| {
            session.stop(&why);
            Ok(())
        });
        Err(Error::new(Code::Callback, why + ": the shot is stopped, gpuzip_setup begins the next"))
    }
}

/// Runs the forward sweep of a shot: the actions that `gpuzip_get_action` would give, up to the
/// first BACKWARD. FORWARD actions go to `callbacks->forward`; the library does the saves and
/// retrieves. The call returns before the first BACKWARD begins, so that the application can work
/// between the sweeps. If the session has already reached the first BACKWARD, the call does
/// nothing.
///
/// `fields` are the `nfields` fields of the state with their data, unless `callbacks->locate` gives
/// the address of the data at each action; `stream` is as for `gpuzip_save`. The library copies the
/// callbacks and the fields. If a callback returns a value other than 0, no callback is called any
/// more, the result is GPUZIP_ERR_CALLBACK with the value in the error's text, and the session
/// needs `gpuzip_setup` before its next shot. Sessions with `zero_copy` = 1 cannot be run this way.
///
/// # Safety
/// `callbacks` is NULL or points to callbacks whose `struct_size` is set; `fields` points to
/// `nfields` fields, whose data is readable and writable.
#[no_mangle]
pub unsafe extern "C" fn gpuzip_run_forward(
    handle: *mut gpuzip_t,
    callbacks: *const gpuzip_callbacks_t,
    fields: *const gpuzip_field_t,
    nfields: u32,
    stream: *mut c_void,
) -> gpuzip_status_t {
    entry("gpuzip_run_forward", || {
        // SAFETY: by this function's contract.
        unsafe { Run::new(handle, callbacks, fields, nfields, stream) }?
            .serve_all(Session::get_forward_action)
    })
}

/// Runs the rest of a shot, to TERMINATE: after `gpuzip_run_forward` the reverse sweep, in a shot
/// that has not begun both sweeps. Parameters and result as for `gpuzip_run_forward`;
/// `callbacks->backward_range` must not be NULL, or without `adjoint_every` `callbacks->backward`.
///
/// # Safety
/// As for `gpuzip_run_forward`.
#[no_mangle]
pub unsafe extern "C" fn gpuzip_run_reverse(
    handle: *mut gpuzip_t,
    callbacks: *const gpuzip_callbacks_t,
    fields: *const gpuzip_field_t,
    nfields: u32,
    stream: *mut c_void,
) -> gpuzip_status_t {
    entry("gpuzip_run_reverse", || {
        // SAFETY: by this function's contract.
        let run = unsafe { Run::new(handle, callbacks, fields, nfields, stream) }?;
        run.check_backward()?;
        run.serve_all(|session| session.get_action().map(Some))
    })
}
