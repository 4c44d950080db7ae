//! The calls for restart files, and for stopping a run.

use super::agree::in_step;
use super::entry::{entry, not_null, read_options, text, zero_words, Out};
use super::handles::{in_inner, with_session, STAGE};
use super::session::app_fields;
use super::types::*;
use crate::device::Stream;
use crate::error::{fail, Code, Result};
use crate::fallible_vec;
use crate::persist::{Block, Name, MOST_BLOCKS};
use crate::session::{AgreeMin, Array, RunStage};
use crate::stop;
use std::ffi::{c_char, c_void, CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Most arrays of a call.
const MOST_ARRAYS: u32 = 4096;
/// Most signals of a call.
const MOST_SIGNALS: u32 = 64;
/// The caller's reduction in texts of errors.
const AGREE_MIN: &str = "callback agree_min";

/// The pointer that the caller's functions get.
struct User(*mut c_void);

// SAFETY: the pointer is only handed to the caller's functions. The header says that `agree_min` is called in the
// threads that make persist calls, and `run` in a thread of the library.
unsafe impl Send for User {}

/// Returns the reduction of the options.
fn agree_min(least: gpuzip_least_t, user: User, ranks: u32) -> Result<AgreeMin> {
    match least {
        _ if ranks == 1 => Ok(Box::new(Ok)),
        None => fail!(Argument, "options->agree_min is NULL with ranks = {ranks}: give a function that finds a minimum over all ranks"),
        Some(least) => Ok(Box::new(move |mut value| {
            let user = &user;
            // SAFETY: by the contract of `gpuzip_persist_open`.
            let status = in_inner(AGREE_MIN, || unsafe { least(user.0, &mut value) });
            in_step(AGREE_MIN, status).map(|()| value)
        })),
    }
}

/// Returns the caller's function of a stage.
fn stage(function: gpuzip_persist_stage_t, user: User) -> Result<RunStage> {
    let Some(function) = function else { return fail!(Argument, "run is NULL") };
    Ok(Box::new(move |file, of| {
        let user = &user;
        let Ok(path) = CString::new(file.as_os_str().as_bytes()) else {
            return fail!(Io, "the path of the file contains a NUL");
        };
        let generation = gpuzip_generation_t {
            struct_size: size_of::<gpuzip_generation_t>() as u64,
            generation: of.generation as i64,
            shot: of.shot,
            it: of.it,
            bytes: of.bytes,
            ..Default::default()
        };
        // SAFETY: by the contract of `gpuzip_persist_stage_register`.
        match in_inner(STAGE, || unsafe { function(user.0, path.as_ptr(), &generation) }) {
            0 => Ok(()),
            status => fail!(Callback, "{STAGE} returned {status}"),
        }
    }))
}

/// Opens the folder `persist_dir` of the session's configuration for restart files, and makes the folder
/// if it is missing. One process at a time uses the files of a rank. With `options` NULL there is one
/// rank.
///
/// A *generation* is one file for each rank that holds all that the rank needs to go on. It becomes
/// visible when it is complete and on the disk, and two generations are kept, so that a run can be killed
/// at any moment.
///
/// With several ranks, all ranks make every call whose name begins with `gpuzip_persist_` and that takes a
/// session together, and each of these calls may call `agree_min`. `agree_min` must not call the library
/// with this session.
///
/// # Safety
/// `options` is NULL or points to options whose `struct_size` is set, and `agree_min` does what
/// `gpuzip_least_t` says, with `user`, until the session is finalized.
#[no_mangle]
pub unsafe extern "C" fn gpuzip_persist_open(
    handle: *mut gpuzip_t,
    options: *const gpuzip_persist_options_t,
) -> gpuzip_status_t {
    entry("gpuzip_persist_open", || {
        let mut given = gpuzip_persist_options_t::default();
        if !options.is_null() {
            // SAFETY: by this function's contract.
            given = unsafe { read_options(options, "options") }?;
            zero_words("options->reserved", &given.reserved, Code::Argument)?;
        }
        let (rank, ranks) = (given.rank, given.ranks.max(i32::from(given.ranks == 0)));
        if !(0..ranks.max(1)).contains(&rank) || ranks < 1 {
            return fail!(Argument, "options->rank = {rank}, options->ranks = {}: ranks is at least 1 (0 stands for 1), and rank a number from 0 to ranks - 1", given.ranks);
        }
        let (rank, ranks) = (rank as u32, ranks as u32);
        let least = agree_min(given.agree_min, User(given.user), ranks)?;
        with_session(handle, |session| session.persist_open((rank, ranks), least))
    })
}

/// Adds a stage to those that every generation of this session passes when it is on the disk, in the order of rising
/// `priority`, and of equal ones in the order in which they were added. `name` is the stage's name in the configuration
/// key `persist_stages`, which switches stages on: at most 80 bytes of UTF-8 without commas and spaces, and not
/// `compress`. To be called after `gpuzip_persist_open` and before the first `gpuzip_persist_write`. `user` is passed to
/// `run` unchanged.
///
/// # Safety
/// `name` is NULL or a text that ends with NUL, and `run` does what `gpuzip_persist_stage_t` says, with `user`, until the
/// session is finalized.
#[no_mangle]
pub unsafe extern "C" fn gpuzip_persist_stage_register(
    handle: *mut gpuzip_t,
    name: *const c_char,
    priority: i32,
    run: gpuzip_persist_stage_t,
    user: *mut c_void,
) -> gpuzip_status_t {
    entry("gpuzip_persist_stage_register", || {
        // SAFETY: by this function's contract.
        let name = unsafe { text(name, "name") }?;
        let Ok(name) = name.to_str() else {
            return fail!(
                Argument,
                "name = \"{}\": it is no UTF-8",
                name.to_bytes().escape_ascii()
            );
        };
        let name = Name::new(name)?;
        let run = stage(run, User(user))?;
        with_session(handle, |session| session.persist_stage(name, priority, run))
    })
}

/// Says whether a generation is to be written now: `*due` becomes GPUZIP_DUE_NO (0), GPUZIP_DUE_YES (1)
/// if the time that generations may take (`persist_overhead`) permits another one, or GPUZIP_DUE_STOP (2)
/// if a stop was requested: then write a generation, wait for it (`gpuzip_persist_wait`) and end the run.
/// With one rank the call takes some 50 ns and may be made after every action. With several ranks a stop
/// that one rank was asked for is due on all of them.
///
/// # Safety
/// `due` is NULL or points to a number.
#[no_mangle]
pub unsafe extern "C" fn gpuzip_persist_due(
    handle: *mut gpuzip_t,
    due: *mut i32,
) -> gpuzip_status_t {
    // SAFETY: by this function's contract.
    unsafe { Out::new(due, "due") }.fill("gpuzip_persist_due", || {
        Ok(with_session(handle, |session| session.persist_due())? as i32)
    })
}

/// Writes a generation, from which a run goes on with shot `shot`.
///
/// Between shots, that is before the first action or after TERMINATE, the generation is of the start of
/// that shot and holds the arrays with `scope` 0. Within a shot, after the work of the current action and
/// before the next one, the generation is of this action and holds all arrays, the stored snapshots as
/// they are, and the position in the schedule; the shot number is the same as before the shot. A session
/// with other sessions on its schedule, such as those of several devices, writes generations between shots only.
///
/// Names of arrays that begin with "gpuzip " are the library's own: an array with such a name is
/// GPUZIP_ERR_ARGUMENT.
///
/// The arrays are memory that may be read as that of `gpuzip_save`, on the host or, for a session on a
/// GPU, on the device, in the order of `stream`. On return the library has read them. Another thread then
/// puts the generation on the disk; if that fails, the next call for restart files returns the error, and
/// the older generations are as they were.
///
/// If a stop was requested within a shot, the most valuable comes first: a generation of the start of this
/// shot, unless the last one that this session wrote or read is of this shot, and then one of this action if
/// it is expected to be on the disk within `stop_budget_s`.
///
/// # Safety
/// `arrays` points to `narrays` arrays with names and readable data.
#[no_mangle]
pub unsafe extern "C" fn gpuzip_persist_write(
    handle: *mut gpuzip_t,
    shot: i64,
    arrays: *const gpuzip_array_t,
    narrays: u32,
    stream: *mut c_void,
) -> gpuzip_status_t {
    entry("gpuzip_persist_write", || {
        // SAFETY: by this function's contract.
        let arrays = unsafe { app_arrays(arrays, narrays) }?;
        with_session(handle, |session| session.persist_write(shot, &arrays, Stream(stream)))
    })
}

/// Waits until the last generation is on the disk, and returns its error if it is not.
#[no_mangle]
pub extern "C" fn gpuzip_persist_wait(handle: *mut gpuzip_t) -> gpuzip_status_t {
    entry("gpuzip_persist_wait", || with_session(handle, |session| session.persist_wait()))
}

/// Puts the last generation, once it is on the disk on all ranks, into the folder `dir`, where it stays when
/// the run removes it; before the first `gpuzip_persist_write` the one that `gpuzip_persist_find` found. The
/// folder is made, for this user alone, if it is missing, and holds no generation of this rank. On one file
/// system with `persist_dir` the file of a whole generation (`persist_whole_every`) gets a second name (a hard link)
/// and takes no more room. Other runs begin with this generation if the folder is their `persist_dir`, or a clone of it
/// (`gpuzip clone`).
///
/// # Safety
/// `dir` is NULL or points to a string.
#[no_mangle]
pub unsafe extern "C" fn gpuzip_persist_clone(
    handle: *mut gpuzip_t,
    dir: *const c_char,
) -> gpuzip_status_t {
    entry("gpuzip_persist_clone", || {
        // SAFETY: by this function's contract.
        let dir = Path::new(OsStr::from_bytes(unsafe { text(dir, "dir") }?.to_bytes()));
        with_session(handle, |session| session.persist_clone(dir))
    })
}

/// Finds the newest generation that every rank can read completely, with every checksum right, and
/// describes it in `*found`; `found->generation` is 0 if there is none. Generations that are damaged are
/// passed over for older ones, with a warning. If there are generations and none can be read, or the
/// newest was written with other numbers of steps, fields, codec settings or ranks, the call fails and
/// says what differs.
///
/// # Safety
/// `found` is NULL or points to a struct whose `struct_size` is set.
#[no_mangle]
pub unsafe extern "C" fn gpuzip_persist_find(
    handle: *mut gpuzip_t,
    found: *mut gpuzip_generation_t,
) -> gpuzip_status_t {
    // SAFETY: by this function's contract.
    unsafe { Out::new(found, "found") }.fill_sized("gpuzip_persist_find", || {
        with_session(handle, |session| {
            Ok(session.persist_find()?.map_or_else(
                || gpuzip_generation_t { it: -1, ..Default::default() },
                |found| gpuzip_generation_t {
                    generation: found.origin.generation as i64,
                    shot: found.header.shot,
                    it: found.header.it,
                    bytes: found.length,
                    ..Default::default()
                },
            ))
        })
    })
}

/// Goes on from the generation that `gpuzip_persist_find` found last: fills the arrays with what they held
/// when it was written, by their names, and moves the session to where it was. Call it before the first
/// action of a session; the arrays are those with which the generation was written, in the same shapes.
///
/// For the start of a shot (`it` = -1) the arrays with `scope` 0 are filled, and the application goes on
/// with the shot as with any other. Otherwise all arrays are filled, and the shot goes on: without
/// `gpuzip_setup`, the next `gpuzip_get_action` returns action `it` + 1, and everything that follows is as
/// if the run had not stopped, the flags and the statistics too.
///
/// If the session's schedule differs, as it may where budgets follow from the free memory, the session
/// takes the schedule of the generation if its budgets can hold it.
///
/// # Safety
/// `arrays` points to `narrays` arrays with names and writable data.
#[no_mangle]
pub unsafe extern "C" fn gpuzip_persist_read(
    handle: *mut gpuzip_t,
    arrays: *const gpuzip_array_t,
    narrays: u32,
    stream: *mut c_void,
) -> gpuzip_status_t {
    entry("gpuzip_persist_read", || {
        // SAFETY: by this function's contract.
        let arrays = unsafe { app_arrays(arrays, narrays) }?;
        with_session(handle, |session| session.persist_read(&arrays, Stream(stream)))
    })
}

/// Reads all of the file of a generation, such as `gpuzip-r000003-g000000000017.gen`, and succeeds if every
/// checksum is right and the file is of the rank and the generation that its name says. A damaged file is
/// GPUZIP_ERR_STREAM, one that cannot be read GPUZIP_ERR_IO. Needs no session.
///
/// # Safety
/// `path` is NULL or a string.
#[no_mangle]
pub unsafe extern "C" fn gpuzip_persist_check(path: *const c_char) -> gpuzip_status_t {
    entry("gpuzip_persist_check", || {
        // SAFETY: by this function's contract.
        let path = unsafe { text(path, "path") }?;
        crate::persist::check(Path::new(OsStr::from_bytes(path.to_bytes())))
    })
}

/// Writes the file of a generation anew with all that older generations hold of it (`persist_whole_every`): it
/// can then be copied by itself. A file that refers to no other stays as it is. To be called by the process that
/// wrote it, in a stage or after `gpuzip_persist_wait`, or when no process uses the folder. Needs no session;
/// `gpuzip_mpi.h` calls it for the generations that it protects.
///
/// # Safety
/// `path` is NULL or a string.
#[no_mangle]
pub unsafe extern "C" fn gpuzip_persist_whole(path: *const c_char) -> gpuzip_status_t {
    entry("gpuzip_persist_whole", || {
        // SAFETY: by this function's contract.
        let path = unsafe { text(path, "path") }?;
        crate::persist::make_whole(Path::new(OsStr::from_bytes(path.to_bytes())))
    })
}

/// Computes blocks of a Reed-Solomon code from other blocks, each of `bytes` bytes: the first `data` ones
/// are of data, the `parity` ones behind them of parity; `data` and `parity` are at least 1, and both
/// together at most 256. `present[k]` is not 0 if block k is known. The others are computed, but for those
/// whose pointer is NULL. Any `data` blocks suffice: to make parity, those of data are present, and after a
/// loss, those that are left. The first parity block is the XOR of the data. Needs no session;
/// `gpuzip_mpi.h` keeps copies of restart files on other nodes with it.
///
/// # Safety
/// `blocks` points to `data + parity` pointers, and `present` to as many numbers. The blocks do not overlap;
/// those that are present may be read, and those that are computed written.
#[no_mangle]
pub unsafe extern "C" fn gpuzip_persist_parity(
    blocks: *const *mut c_void,
    present: *const i32,
    data: u32,
    parity: u32,
    bytes: u64,
) -> gpuzip_status_t {
    entry("gpuzip_persist_parity", || {
        not_null(blocks, "blocks")?;
        not_null(present, "present")?;
        let count = data as usize + parity as usize;
        if count > MOST_BLOCKS {
            return fail!(
                Argument,
                "data = {data} and parity = {parity}: at most {MOST_BLOCKS} blocks"
            );
        }
        let Some(bytes) = usize::try_from(bytes).ok().filter(|bytes| *bytes <= isize::MAX as usize)
        else {
            return fail!(Argument, "bytes = {bytes}: no block is so long");
        };
        let mut all = fallible_vec::with_room(count)?;
        for k in 0..count {
            // SAFETY: by this function's contract, and k < data + parity.
            let (block, known) =
                unsafe { (blocks.add(k).read_unaligned(), present.add(k).read_unaligned()) };
            let block = block.cast::<u8>();
            all.push(match (known != 0, block.is_null()) {
                (true, true) => {
                    return fail!(Argument, "blocks[{k}] is NULL, and present[{k}] is not 0")
                }
                (false, true) => Block::Absent,
                (true, false) => {
                    // SAFETY: by this function's contract; no block overlaps another.
                    Block::Present(unsafe { std::slice::from_raw_parts(block, bytes) })
                }
                (false, false) => {
                    // SAFETY: by this function's contract; no block overlaps another.
                    Block::Wanted(unsafe { std::slice::from_raw_parts_mut(block, bytes) })
                }
            });
        }
        crate::persist::complete(&mut all, data as usize)
    })
}

/// Continues a CRC32C (polynomial 0x1EDC6F41, as in iSCSI): returns that of the bytes whose CRC32C is
/// `before` and the `count` bytes behind them. Begin with 0. NULL adds no bytes.
///
/// # Safety
/// `bytes` is NULL or points to `count` bytes.
#[no_mangle]
pub unsafe extern "C" fn gpuzip_persist_checksum(
    before: u32,
    bytes: *const c_void,
    count: u64,
) -> u32 {
    if bytes.is_null() || count > isize::MAX as u64 {
        return before;
    }
    // SAFETY: by this function's contract.
    let bytes = unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), count as usize) };
    crc32c::crc32c_append(before, bytes)
}

/// Requests that the run stop: `gpuzip_persist_due` then says so, and every later action has
/// GPUZIP_FLAG_INTERRUPT. Only the first request of a process counts. May be called in a signal handler
/// and from any thread.
#[no_mangle]
pub extern "C" fn gpuzip_request_stop() {
    stop::request();
}

/// Returns 1 if a stop of this process was requested, and else 0. `*seconds_left`, unless NULL, becomes
/// what is left of `stop_budget_s`: negative when the time is over; 0 without a request.
///
/// # Safety
/// `seconds_left` is NULL or points to a number.
#[no_mangle]
pub unsafe extern "C" fn gpuzip_stop_requested(seconds_left: *mut f64) -> i32 {
    let left = stop::seconds_left();
    if !seconds_left.is_null() {
        // SAFETY: by this function's contract.
        unsafe { seconds_left.write_unaligned(left.unwrap_or(0.0)) };
    }
    left.is_some().into()
}

/// Lets `nsignals` signals request a stop, as `gpuzip_request_stop` does; with `signals` NULL and
/// `nsignals` 0, SIGTERM and SIGUSR1. A handler that the application had installed for a signal is called after that, on
/// the alternate stack where there is one, with the signals blocked that it wanted to be blocked. The default
/// action of a signal, such as to end the process, is not taken any more: the application ends the run.
///
/// A further call for a signal changes nothing. A handler that the application installs after the first call
/// must therefore call the one that sigaction returned to it, or call gpuzip_request_stop itself.
///
/// SIGKILL and SIGSTOP cannot be caught. SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS and SIGABRT tell of
/// faults in the program. All of these are refused with GPUZIP_ERR_ARGUMENT.
///
/// # Safety
/// `signals` is NULL or points to `nsignals` numbers.
#[no_mangle]
pub unsafe extern "C" fn gpuzip_catch_signals(
    signals: *const i32,
    nsignals: u32,
) -> gpuzip_status_t {
    entry("gpuzip_catch_signals", || {
        if signals.is_null() && nsignals == 0 {
            return [libc::SIGTERM, libc::SIGUSR1].into_iter().try_for_each(stop::catch);
        }
        not_null(signals, "signals")?;
        if nsignals > MOST_SIGNALS {
            return fail!(Argument, "nsignals = {nsignals}: at most {MOST_SIGNALS}");
        }
        // SAFETY: by this function's contract.
        let signal = |i: usize| unsafe { signals.add(i).read_unaligned() };
        (0..nsignals as usize).map(signal).try_for_each(stop::catch)
    })
}

/// Reads the arrays of a call.
///
/// # Safety
/// `arrays` is NULL or points to `narrays` arrays, whose names are NULL or strings and whose data, where
/// not NULL, is memory for their values.
unsafe fn app_arrays(arrays: *const gpuzip_array_t, narrays: u32) -> Result<Vec<Array>> {
    if narrays == 0 {
        return Ok(Vec::new());
    }
    not_null(arrays, "arrays")?;
    if narrays > MOST_ARRAYS {
        return fail!(
            Argument,
            "narrays = {narrays}: a generation holds at most {MOST_ARRAYS} arrays"
        );
    }
    let convert = |i: u32| {
        // SAFETY: by this function's contract, and i < narrays.
        let given = unsafe { arrays.add(i as usize).read_unaligned() };
        let within = |e: crate::error::Error| e.within(format_args!("array {i}"));
        // SAFETY: by this function's contract.
        let name = unsafe { text(given.name, "name") }.map_err(within)?;
        let Ok(name) = name.to_str() else {
            return fail!(Argument, "array {i}: its name {name:?} is no UTF-8");
        };
        if !(0..=1).contains(&given.scope) {
            return fail!(Argument, "array {name}: scope = {}: 0 (changes between shots only) or 1 (changes during a shot)", given.scope);
        }
        zero_words("reserved0", &[given.reserved0 as u64], Code::Argument).map_err(within)?;
        zero_words("reserved", &given.reserved, Code::Argument).map_err(within)?;
        // SAFETY: one field, which is a copy; its data is as this function's contract says.
        let fields = unsafe { app_fields(&given.field, 1) };
        let field = fields.map_err(|e| e.within(format_args!("array {name}")))?[0];
        if field.field.n.contains(&0) || field.field.bytes().is_none() {
            return fail!(Argument, "array {name}: extents {:?}: each is at least 1, and the values fit the address space", field.field.n);
        }
        Ok(Array { name: Name::new(name)?, field, changes_within: given.scope == 1 })
    };
    (0..narrays).map(convert).collect()
}
