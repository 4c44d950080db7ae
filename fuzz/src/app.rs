//! An application that can compute every state again: each restored state is compared with the
//! computed state.

use crate::abi::{checked, last_error};
use gpuzip::capi::*;
use std::ffi::c_void;
use std::ptr::null_mut;

/// Value of the bytes between rows and planes, where no value of the field is stored.
const CANARY: u8 = 0xC5;

/// Memory of one field, exactly as large as the field needs. Rows and planes are as far apart as
/// the field's pitches say, with `CANARY` bytes between them.
struct Values {
    field: gpuzip_field_t,
    bytes: Vec<u8>,
}

/// Returns the number of bytes of one value of a type.
pub fn value_bytes(scalar: i32) -> usize {
    match scalar {
        GPUZIP_TYPE_I8 | GPUZIP_TYPE_BYTE => 1,
        GPUZIP_TYPE_I16 => 2,
        GPUZIP_TYPE_F32 | GPUZIP_TYPE_I32 => 4,
        GPUZIP_TYPE_COMPLEX_F64 => 16,
        _ => 8,
    }
}

/// Returns true if values of this type are numbers that a codec may change within its bound.
fn is_coded(scalar: i32) -> bool {
    matches!(scalar, GPUZIP_TYPE_F32 | GPUZIP_TYPE_F64)
}

impl Values {
    fn new(field: &gpuzip_field_t) -> Self {
        let mut values = Values { field: *field, bytes: Vec::new() };
        let last = values.len().checked_sub(1).map_or(0, |last| values.place(last).end);
        values.bytes = vec![CANARY; last];
        values
    }

    fn len(&self) -> usize {
        (self.field.n1 * self.field.n2 * self.field.n3) as usize
    }

    fn data(&mut self) -> *mut c_void {
        self.bytes.as_mut_ptr().cast()
    }

    /// Returns the bytes of value `i`, in the order of the state: first index fastest.
    fn place(&self, i: usize) -> std::ops::Range<usize> {
        let gpuzip_field_t { n1, n2, pitch2, pitch3, .. } = self.field;
        let row = if pitch2 == 0 { n1 } else { pitch2 };
        let plane = if pitch3 == 0 { n2 * row } else { pitch3 };
        let i = i as u64;
        let at = i % n1 + i / n1 % n2 * row + i / (n1 * n2) * plane;
        let size = value_bytes(self.field.r#type);
        at as usize * size..(at as usize + 1) * size
    }

    fn bytes_of(&self, i: usize) -> &[u8] {
        &self.bytes[self.place(i)]
    }

    /// Stores a number as value `i`, converted to the field's type. A type that is not FP32 or FP64
    /// gets bits made from the number.
    fn set(&mut self, i: usize, value: f64) {
        let (place, stored) = (self.place(i), self.stored(value));
        self.bytes[place].copy_from_slice(&stored[..value_bytes(self.field.r#type)]);
    }

    /// Returns the bytes of a number in the field's type.
    fn stored(&self, value: f64) -> [u8; 16] {
        let mut bytes = [0; 16];
        match self.field.r#type {
            GPUZIP_TYPE_F32 => bytes[..4].copy_from_slice(&(value as f32).to_ne_bytes()),
            _ => bytes[..8].copy_from_slice(&value.to_ne_bytes()),
        }
        if !is_coded(self.field.r#type) {
            let noise = value.to_bits().wrapping_mul(0x2545_F491_4F6C_DD1D) ^ value.to_bits() >> 29;
            bytes[8..].copy_from_slice(&value.to_ne_bytes());
            bytes[..8].copy_from_slice(&noise.to_ne_bytes());
        }
        bytes
    }

    /// Returns value `i` as FP64; only for types that codecs code.
    fn get(&self, i: usize) -> f64 {
        let bytes = self.bytes_of(i);
        match bytes.try_into() {
            Ok(bytes) => f64::from(f32::from_ne_bytes(bytes)),
            Err(_) => f64::from_ne_bytes(bytes.try_into().expect("8 bytes")),
        }
    }

    fn round(&self, value: f64) -> f64 {
        if self.field.r#type == GPUZIP_TYPE_F32 {
            f64::from(value as f32)
        } else {
            value
        }
    }

    /// Returns true if all bytes between rows and planes are unchanged.
    fn gaps_are_whole(&self) -> bool {
        let mut own = vec![false; self.bytes.len()];
        (0..self.len()).for_each(|i| own[self.place(i)].fill(true));
        own.iter().zip(&self.bytes).all(|(own, &byte)| *own || byte == CANARY)
    }
}

/// Number of kinds of values that an application can have.
pub const KINDS: usize = 7;

/// The state u(ts) of an application for any ts, with memory for one state.
pub struct App {
    fields: Vec<gpuzip_field_t>,
    memory: Vec<Values>,
    kind: usize,
}

/// The largest permitted error of a restored value.
#[derive(Clone, Copy, Debug)]
pub enum Tolerance {
    /// No error: the bits are equal.
    Exact,
    /// The error is at most this part of the field's maximum.
    OfMax(f64),
    /// The error is at most this number.
    Absolute(f64),
    /// Any error: the codec's promise is not simple to check.
    Any,
}

impl App {
    /// Makes an application whose states have these fields. `kind`, below `KINDS`, selects the kind
    /// of values.
    pub fn new(fields: &[gpuzip_field_t], kind: usize) -> Self {
        App { fields: fields.to_vec(), memory: fields.iter().map(Values::new).collect(), kind }
    }

    /// Returns the fields with their memory.
    pub fn fields(&mut self) -> Vec<gpuzip_field_t> {
        let place = |(field, memory): (&gpuzip_field_t, &mut Values)| gpuzip_field_t {
            data: memory.data(),
            ..*field
        };
        self.fields.iter().zip(&mut self.memory).map(place).collect()
    }

    /// Returns value `i` of field `f` of u(ts). A field with the role k+1 has the values that field
    /// k had one time step before.
    fn value(&self, f: usize, ts: i64, i: usize) -> f64 {
        let (mut root, mut level) = (f, ts);
        while let Some(later) =
            usize::try_from(self.fields[root].role - 1).ok().filter(|_| level > ts - 4)
        {
            (root, level) = (later.min(self.fields.len() - 1), level - 1);
        }
        let place = (level as u64).wrapping_mul(0x9E37_79B9)
            ^ (i as u64).wrapping_mul(0x85EB_CA6B)
            ^ root as u64;
        let hash = place.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 40;
        let phase = (i as f64 / 16.0 + (level + 4) as f64 / 40.0).fract();
        let value = match self.kind {
            0 => 4.0 * phase * (1.0 - phase) * (1.0 + root as f64),
            1 => hash as f64 / 1e5 - 80.0,
            2 => level as f64 + 0.5,
            3 => 0.0,
            4 => phase * f64::from(f32::MIN_POSITIVE),
            5 => (phase - 0.5) * f64::from(f32::MAX),
            _ if hash % 11 == 0 => {
                [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0][hash as usize % 4]
            }
            _ => phase,
        };
        self.memory[f].round(value)
    }

    /// Computes u(ts) in the application's memory.
    pub fn compute(&mut self, ts: i64) {
        for f in 0..self.fields.len() {
            for i in 0..self.memory[f].len() {
                let value = self.value(f, ts, i);
                self.memory[f].set(i, value);
            }
        }
    }

    /// Overwrites the state in the application's memory.
    pub fn forget(&mut self) {
        let spoil = |values: &mut Values| (0..values.len()).for_each(|i| values.set(i, -12345.0));
        self.memory.iter_mut().for_each(spoil);
    }

    /// Panics unless the application's memory holds u(ts).
    pub fn check(&self, ts: i64, tolerance: Tolerance) {
        for f in 0..self.fields.len() {
            assert!(
                self.memory[f].gaps_are_whole(),
                "u({ts}), field {f}: bytes between its rows have changed"
            );
            if !is_coded(self.fields[f].r#type) {
                for i in 0..self.memory[f].len() {
                    let stored = self.memory[f].stored(self.value(f, ts, i));
                    assert_eq!(
                        self.memory[f].bytes_of(i),
                        &stored[..value_bytes(self.fields[f].r#type)],
                        "u({ts}), field {f}, value {i}"
                    );
                }
                continue;
            }
            let bound = self.bound(f, ts, tolerance);
            for i in 0..self.memory[f].len() {
                let (expected, got) = (self.value(f, ts, i), self.memory[f].get(i));
                let same = expected.to_bits() == got.to_bits() || expected.is_nan() && got.is_nan();
                let near =
                    bound.is_some_and(|bound| (expected - got).abs() <= bound || expected == got);
                let any = matches!(tolerance, Tolerance::Any) && expected.is_finite();
                assert!(same || near || any, "u({ts}), field {f}, value {i}: {got} instead of {expected}, {tolerance:?}, bound {bound:?}");
            }
        }
    }

    /// Returns the error bound of field `f`. For a previous time level it is the sum of the later
    /// field's bound and the bound of the difference.
    fn bound(&self, f: usize, ts: i64, tolerance: Tolerance) -> Option<f64> {
        let later = usize::try_from(self.fields[f].role - 1)
            .ok()
            .filter(|&k| k < self.fields.len() && k != f);
        let coded = |i| later.map_or(0.0, |k| self.value(k, ts, i)) - self.value(f, ts, i);
        let most = |of: &dyn Fn(usize) -> f64| {
            (0..self.memory[f].len())
                .map(of)
                .filter(|x| x.is_finite())
                .fold(0.0, |m: f64, x| m.max(x.abs()))
        };
        // If the difference cannot be coded, the field is coded by itself.
        let own = match tolerance {
            Tolerance::Exact | Tolerance::Any => return None,
            Tolerance::Absolute(bound) => bound,
            Tolerance::OfMax(part) => part * most(&coded),
        };
        let before = later.map_or(Some(0.0), |k| self.bound(k, ts, tolerance))?;
        Some((own + before) * (1.0 + 1e-6))
    }

    /// Copies u(ts) from the application's memory to the library's memory, or back.
    ///
    /// # Safety
    /// `places` must be the memory of the fields that the library handed out and that may be
    /// accessed now.
    unsafe fn copy(&mut self, places: &[*mut c_void], to_places: bool) {
        for (values, &place) in self.memory.iter_mut().zip(places) {
            let size = value_bytes(values.field.r#type);
            // SAFETY: the library's memory of a field has its values without gaps.
            let theirs =
                unsafe { std::slice::from_raw_parts_mut(place.cast::<u8>(), values.len() * size) };
            for (i, theirs) in theirs.chunks_exact_mut(size).enumerate() {
                let ours = values.place(i);
                if to_places {
                    theirs.copy_from_slice(&values.bytes[ours]);
                } else {
                    values.bytes[ours].copy_from_slice(theirs);
                }
            }
        }
    }
}

/// Values of `action.it`: no action was handed out in this shot, or callbacks received the actions.
const NONE_YET: i64 = -1;
const UNKNOWN: i64 = -2;

/// A session with an application that follows the rules. The target `calls` also makes calls that
/// break the rules.
pub struct Session {
    /// The library's handle.
    pub handle: *mut gpuzip_t,
    /// The application.
    pub app: App,
    /// The action that was handed out last.
    pub action: gpuzip_action_t,
    /// True if `action` waits for a save or a retrieve.
    pub pending: bool,
    /// The time step of the live state.
    pub live: i64,
    /// The time step that was reversed last.
    pub reversed: i64,
    /// True after a permitted error, or after a call that leaves the session in another state: the
    /// session needs a setup.
    pub broken: bool,
    /// True if the number of steps is not known at the start of a shot; and in this shot, until the
    /// forward sweep is ended. Then `steps` is 0.
    is_online: bool,
    /// See `is_online`.
    pub is_open: bool,
    steps: i64,
    every: i64,
    zero_copy: bool,
    tolerance: Tolerance,
}

impl Session {
    /// Makes a session and an application whose values are of kind `kind`.
    pub fn new(
        config: &gpuzip_config_t,
        steps: i32,
        fields: &[gpuzip_field_t],
        kind: usize,
    ) -> Result<Self, i32> {
        let mut handle = null_mut();
        // SAFETY: the pointers are to live values; the configuration's strings are NULL or live.
        checked(unsafe {
            gpuzip_init(config, steps, fields.as_ptr(), fields.len() as u32, &mut handle)
        })?;
        Ok(Self::of(handle, config, i64::from(steps), App::new(fields, kind)))
    }

    /// Wraps a handle and its application.
    pub fn of(handle: *mut gpuzip_t, config: &gpuzip_config_t, steps: i64, app: App) -> Self {
        let mut summary = gpuzip_summary_t {
            struct_size: size_of::<gpuzip_summary_t>() as u64,
            ..Default::default()
        };
        // SAFETY: the summary is a live value.
        let _ = checked(unsafe { gpuzip_summary(handle, &mut summary) });
        let bound = if config.error_bound == 0.0 { 1e-3 } else { config.error_bound };
        let tolerance = match (summary.compressor, config.error_bound_mode) {
            (GPUZIP_COMPRESSOR_NONE, _) => Tolerance::Exact,
            (GPUZIP_COMPRESSOR_CUSZP | GPUZIP_COMPRESSOR_LORENZO | GPUZIP_COMPRESSOR_DCT, 0) => {
                Tolerance::OfMax(bound)
            }
            (GPUZIP_COMPRESSOR_CUSZP | GPUZIP_COMPRESSOR_LORENZO | GPUZIP_COMPRESSOR_DCT, 1) => {
                Tolerance::Absolute(bound)
            }
            _ => Tolerance::Any,
        };
        let zero_copy = config.zero_copy == 1;
        let action = gpuzip_action_t { it: NONE_YET, ..Default::default() };
        Session {
            handle,
            app,
            action,
            pending: false,
            live: 0,
            reversed: steps,
            broken: false,
            is_online: steps == 0,
            is_open: steps == 0,
            steps,
            every: i64::from(config.adjoint_every.max(1)),
            zero_copy,
            tolerance,
        }
    }

    /// Returns the largest permitted error of restored values.
    pub fn tolerance(&self) -> Tolerance {
        self.tolerance
    }

    /// Begins a shot.
    pub fn setup(&mut self) -> Result<(), i32> {
        checked(gpuzip_setup(self.handle))?;
        self.action = gpuzip_action_t { it: NONE_YET, ..Default::default() };
        self.is_open = self.is_online;
        self.steps = if self.is_open { 0 } else { self.steps };
        (self.pending, self.live, self.reversed, self.broken) = (false, 0, self.steps, false);
        Ok(())
    }

    /// Ends the forward sweep of a shot whose number of steps is not known. A call that comes at another
    /// time is refused and changes nothing.
    pub fn end_forward(&mut self) {
        let result = checked(gpuzip_end_forward(self.handle));
        if self.broken {
            return;
        }
        let may_end = self.is_open && !self.pending && self.action.it >= 0;
        match result {
            Ok(()) => {
                assert!(may_end, "end_forward at {:?}", self.action);
                (self.is_open, self.steps, self.reversed) = (false, self.live + 1, self.live + 1);
            }
            Err(GPUZIP_ERR_STATE) => assert!(!may_end, "end_forward: {}", last_error()),
            Err(_) => {
                assert!(may_end && permitted(result), "end_forward: {result:?}, {}", last_error());
                self.broken = true;
            }
        }
    }

    /// Updates this value after a run by callbacks, which ended at the first BACKWARD, or, with
    /// `whole`, at the end of the shot.
    pub fn after_run(&mut self, whole: bool) {
        assert!(
            self.reversed == if whole { 0 } else { self.steps },
            "a run ended at u({})",
            self.reversed
        );
        let kind = if whole { GPUZIP_ACTION_TERMINATE } else { GPUZIP_ACTION_FORWARD };
        self.action = gpuzip_action_t { r#type: kind, it: UNKNOWN, ..Default::default() };
    }

    /// Returns true if TERMINATE was handed out.
    pub fn over(&self) -> bool {
        self.action.it != NONE_YET && self.action.r#type == GPUZIP_ACTION_TERMINATE
    }

    /// Takes and serves the next action. Returns true if there is none left or the session needs a
    /// setup.
    pub fn step(&mut self) -> bool {
        if !self.broken && !self.over() && !self.pending {
            let _ = self.next();
        }
        self.serve();
        self.broken || self.over()
    }

    /// Asks for the next action, even if the call must fail, and checks the result.
    pub fn next(&mut self) -> Result<(), i32> {
        let mut action = gpuzip_action_t::default();
        // SAFETY: the action is a live value.
        let result = checked(unsafe { gpuzip_get_action(self.handle, &mut action) });
        if result.is_err() {
            assert!(
                self.pending || self.broken || self.over() || permitted(result),
                "get_action: {result:?}, {}",
                last_error()
            );
            self.broken |= !self.pending && !self.over();
        } else if !self.broken {
            assert!(
                !self.pending && !self.over(),
                "{action:?} while {:?} was not served",
                self.action
            );
            assert!(self.action.it == UNKNOWN || action.it == self.action.it + 1);
            self.follow(action);
        }
        result
    }

    /// Checks that `action` may follow and makes it the current action.
    pub fn follow(&mut self, action: gpuzip_action_t) {
        let (ts, end) = (i64::from(action.ts), i64::from(action.ts_end));
        match action.r#type {
            GPUZIP_ACTION_FORWARD => {
                let fits = if self.is_open { end == ts } else { (ts..self.steps).contains(&end) };
                assert!(ts == self.live + 1 && fits, "{action:?} from u({})", self.live);
                self.live = end;
            }
            GPUZIP_ACTION_SAVE => assert_eq!(ts, self.live),
            GPUZIP_ACTION_RESTORE => assert!((0..self.steps).contains(&ts)),
            GPUZIP_ACTION_BACKWARD => {
                assert_eq!((ts, end), (self.live, self.reversed - 1));
                assert!(ts % self.every == 0 && end - ts < self.every, "{action:?}");
                self.reversed = ts;
            }
            other => assert_eq!((other, self.reversed), (GPUZIP_ACTION_TERMINATE, 0)),
        }
        self.pending = matches!(action.r#type, GPUZIP_ACTION_SAVE | GPUZIP_ACTION_RESTORE);
        self.action = action;
    }

    /// Serves the current action if it waits for a save or a retrieve.
    pub fn serve(&mut self) {
        if !self.pending || self.broken {
            return;
        }
        let ts = self.action.ts;
        let result = match (self.action.r#type, self.zero_copy) {
            (GPUZIP_ACTION_SAVE, true) => self.hand_over(ts),
            (GPUZIP_ACTION_SAVE, false) => self.save(ts),
            (_, true) => self.acquire(ts),
            (_, false) => self.retrieve(ts),
        };
        assert!(permitted(result), "{:?}: {result:?}, {}", self.action, last_error());
        self.broken = result.is_err();
        self.pending = false;
        if result.is_ok() && self.action.r#type == GPUZIP_ACTION_RESTORE {
            self.live = i64::from(ts);
            self.app.check(self.live, self.tolerance);
        }
    }

    /// Calls `gpuzip_save` for u(ts).
    pub fn save(&mut self, ts: i32) -> Result<(), i32> {
        self.app.compute(i64::from(ts));
        let fields = self.app.fields();
        // SAFETY: the fields point to the application's memory.
        checked(unsafe {
            gpuzip_save(self.handle, ts, fields.as_ptr(), fields.len() as u32, null_mut())
        })
    }

    /// Calls `gpuzip_retrieve` for u(ts).
    pub fn retrieve(&mut self, ts: i32) -> Result<(), i32> {
        self.app.forget();
        let fields = self.app.fields();
        // SAFETY: the fields point to the application's memory.
        checked(unsafe {
            gpuzip_retrieve(self.handle, ts, fields.as_ptr(), fields.len() as u32, null_mut())
        })
    }

    /// Calls `gpuzip_save_begin` and `gpuzip_save_commit` for u(ts).
    pub fn hand_over(&mut self, ts: i32) -> Result<(), i32> {
        let mut places = vec![null_mut(); self.app.fields.len()];
        self.app.compute(i64::from(ts));
        // SAFETY: `places` has an element for each field, and the library's memory may be written
        // until the commit.
        unsafe {
            checked(gpuzip_save_begin(
                self.handle,
                ts,
                places.as_mut_ptr(),
                places.len() as u32,
                null_mut(),
            ))?;
            self.app.copy(&places, true);
        }
        checked(gpuzip_save_commit(self.handle, ts, null_mut()))
    }

    /// Calls `gpuzip_retrieve_acquire` for u(ts).
    pub fn acquire(&mut self, ts: i32) -> Result<(), i32> {
        let mut places = vec![null_mut(); self.app.fields.len()];
        self.app.forget();
        // SAFETY: `places` has an element for each field, and the library's memory may be read
        // until the next save or retrieve.
        unsafe {
            checked(gpuzip_retrieve_acquire(
                self.handle,
                ts,
                places.as_mut_ptr(),
                places.len() as u32,
                null_mut(),
            ))?;
            self.app.copy(&places, false);
        }
        Ok(())
    }
}

/// Returns true if an application that follows the rules may get this result: success, no room for
/// a snapshot, or values that the configuration refuses.
pub fn permitted(result: Result<(), i32>) -> bool {
    matches!(result, Ok(()) | Err(GPUZIP_ERR_BUDGET | GPUZIP_ERR_MEMORY | GPUZIP_ERR_VALUES))
}

impl Drop for Session {
    fn drop(&mut self) {
        // If the session was finalized before, this call fails without effect.
        let _ = checked(gpuzip_finalize(self.handle));
    }
}
