//! Requests to stop. A request holds for the whole process, so that each test runs in a process of its
//! own.

use crate::common::{alone, c_abi, last_error};
use gpuzip::capi::*;
use std::ffi::{c_int, c_void, CString};
use std::os::unix::ffi::OsStrExt;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

static CALLS: AtomicI32 = AtomicI32::new(0);

extern "C" fn own(_: c_int) {
    CALLS.fetch_add(1, Ordering::Relaxed);
}

fn left() -> (i32, f64) {
    let mut seconds = f64::NAN;
    // SAFETY: `seconds` is a live variable.
    (unsafe { gpuzip_stop_requested(&mut seconds) }, seconds)
}

#[test]
fn a_signal_requests_a_stop_once_and_calls_the_handler_that_was_there() {
    let Some(folder) = alone("a_signal_requests_a_stop_once_and_calls_the_handler_that_was_there")
    else {
        return;
    };
    let folder = CString::new(folder.as_os_str().as_bytes()).unwrap();
    let mut values = [1f32; 3];
    let config = gpuzip_config_t {
        persist_dir: folder.as_ptr(),
        stop_budget_s: 5.0,
        ..c_abi::revolve(2, 0)
    };
    let field = c_abi::field(&mut values);
    let handle = c_abi::init(&config, 6, &[field]);
    // SAFETY: all pointers are to live values of the types that the calls expect; SIGURG is ignored by
    // default, and has a handler when it is raised.
    unsafe {
        assert_eq!(gpuzip_persist_open(handle, null()), GPUZIP_OK, "{}", last_error());
        let (action, mut due) = (c_abi::next(handle), -1);
        assert_eq!(action.flags & GPUZIP_FLAG_INTERRUPT, 0);
        assert_eq!(gpuzip_save(handle, 0, &field, 1, null_mut()), GPUZIP_OK);
        assert_eq!(left(), (0, 0.0));

        libc::signal(libc::SIGURG, own as extern "C" fn(c_int) as usize);
        for _ in 0..2 {
            assert_eq!(gpuzip_catch_signals(&libc::SIGURG, 1), GPUZIP_OK, "{}", last_error());
        }
        for signal in [0, -1, 65] {
            assert_eq!(gpuzip_catch_signals(&signal, 1), GPUZIP_ERR_ARGUMENT);
            assert!(last_error().contains(&format!("signal {signal}")), "{}", last_error());
        }
        libc::raise(libc::SIGURG);
        let (requested, first) = left();
        assert!(requested == 1 && first <= 5.0 && first > 3.0, "{first}");
        libc::raise(libc::SIGURG);
        gpuzip_request_stop();
        assert!(left().1 <= first);
        assert_eq!(CALLS.load(Ordering::Relaxed), 2);

        let action = c_abi::next(handle);
        assert_ne!(action.flags & GPUZIP_FLAG_INTERRUPT, 0);
        let mut stats = gpuzip_stats_t {
            struct_size: size_of::<gpuzip_stats_t>() as u64,
            ..Default::default()
        };
        assert_eq!(gpuzip_stats(handle, &mut stats), GPUZIP_OK);
        assert!(stats.stop_left > 0.0 && stats.stop_left <= first);
        assert_eq!(gpuzip_persist_due(handle, &mut due), GPUZIP_OK);
        assert_eq!(due, GPUZIP_DUE_STOP);
        // The start of the shot comes first, and then the action.
        assert_eq!(gpuzip_persist_write(handle, 3, null(), 0, null_mut()), GPUZIP_OK);
        assert_eq!(gpuzip_persist_wait(handle), GPUZIP_OK, "{}", last_error());
        assert_eq!(gpuzip_stats(handle, &mut stats), GPUZIP_OK);
        assert_eq!(stats.generations, 2);
        let mut found = gpuzip_generation_t {
            struct_size: size_of::<gpuzip_generation_t>() as u64,
            ..Default::default()
        };
        assert_eq!(gpuzip_persist_find(handle, &mut found), GPUZIP_OK);
        assert_eq!((found.generation, found.shot, found.it), (2, 3, action.it));
        assert_eq!(gpuzip_persist_read(handle, null(), 0, null_mut()), GPUZIP_ERR_STATE);
        assert!(last_error().contains("a shot is under way"), "{}", last_error());
    }
    c_abi::finalize(handle);
}

#[test]
fn signals_of_faults_are_refused_by_name() {
    for (signal, name) in [
        (libc::SIGSEGV, "SIGSEGV"),
        (libc::SIGBUS, "SIGBUS"),
        (libc::SIGFPE, "SIGFPE"),
        (libc::SIGILL, "SIGILL"),
        (libc::SIGTRAP, "SIGTRAP"),
        (libc::SIGSYS, "SIGSYS"),
        (libc::SIGABRT, "SIGABRT"),
        (libc::SIGKILL, "SIGKILL"),
        (libc::SIGSTOP, "SIGSTOP"),
    ] {
        // SAFETY: `signal` is one number; the structs are plain data, which the calls read and write only.
        unsafe {
            let (mut before, mut after): (libc::sigaction, libc::sigaction) = std::mem::zeroed();
            libc::sigaction(signal, null(), &mut before);
            assert_eq!(gpuzip_catch_signals(&signal, 1), GPUZIP_ERR_ARGUMENT, "{name}");
            let text = last_error();
            assert!(text.contains(&format!("signal {signal} ({name})")), "{text}");
            assert!(text.contains("SIGTERM (15)"), "{text}");
            libc::sigaction(signal, null(), &mut after);
            assert_eq!(before.sa_sigaction, after.sa_sigaction, "{name}");
        }
    }
}

/// Runs `body` in a child process, whose signals and requests to stop are its own, and returns the
/// number that it returned; -1 if a signal ended the child.
fn in_child(body: fn() -> i32) -> i32 {
    let mut status = 0;
    // SAFETY: the child calls functions that may be called after a fork, and ends without unwinding.
    unsafe {
        let child = libc::fork();
        assert!(child >= 0);
        if child == 0 {
            libc::alarm(20);
            libc::_exit(body());
        }
        assert_eq!(libc::waitpid(child, &mut status, 0), child);
    }
    if libc::WIFEXITED(status) {
        libc::WEXITSTATUS(status)
    } else {
        -1
    }
}

/// What `sigaction` returned to an application whose handler calls the handler before its own.
static CHAINED: AtomicUsize = AtomicUsize::new(0);

extern "C" fn chaining(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    CALLS.fetch_add(1, Ordering::Relaxed);
    // SAFETY: the address of the library's handler, which takes three arguments.
    let before: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) =
        unsafe { std::mem::transmute(CHAINED.load(Ordering::Relaxed)) };
    before(signal, info, context);
}

/// The application's handler calls the library's, and the library is asked again for the signal: each
/// handler is called once, where the two had called each other until the stack was full.
#[test]
fn a_second_call_leaves_the_chain_of_handlers_as_it_is() {
    let Some(_) = alone("a_second_call_leaves_the_chain_of_handlers_as_it_is") else { return };
    let code = in_child(|| {
        // SAFETY: the structs are plain data, and the handler takes three arguments.
        unsafe {
            let before = CALLS.load(Ordering::Relaxed);
            let (mut new, mut old): (libc::sigaction, libc::sigaction) = std::mem::zeroed();
            new.sa_sigaction = chaining as extern "C" fn(_, _, _) as usize;
            new.sa_flags = libc::SA_SIGINFO;
            if gpuzip_catch_signals(&libc::SIGUSR2, 1) != GPUZIP_OK {
                return 1;
            }
            libc::sigaction(libc::SIGUSR2, &new, &mut old);
            CHAINED.store(old.sa_sigaction, Ordering::Relaxed);
            if gpuzip_catch_signals(&libc::SIGUSR2, 1) != GPUZIP_OK {
                return 2;
            }
            libc::raise(libc::SIGUSR2);
            if CALLS.load(Ordering::Relaxed) != before + 1 {
                return 3;
            }
            10 + gpuzip_stop_requested(null_mut())
        }
    });
    assert_eq!(code, 11);
}

static STACK: AtomicUsize = AtomicUsize::new(0);
const STACK_BYTES: usize = 1 << 16;
/// Bit 0: the handler ran; 1: on the alternate stack; 2: with SIGHUP blocked.
static SEEN: AtomicI32 = AtomicI32::new(0);

extern "C" fn looking(_: c_int) {
    let here = 0u8;
    let stack = STACK.load(Ordering::Relaxed);
    let on_stack = (stack..stack + STACK_BYTES).contains(&(&raw const here as usize));
    // SAFETY: the set is plain data, which the call fills.
    let is_blocked = unsafe {
        let mut mask: libc::sigset_t = std::mem::zeroed();
        libc::pthread_sigmask(libc::SIG_BLOCK, null(), &mut mask);
        libc::sigismember(&mask, libc::SIGHUP) == 1
    };
    SEEN.store(1 | i32::from(on_stack) << 1 | i32::from(is_blocked) << 2, Ordering::Relaxed);
}

#[test]
fn the_handler_before_keeps_its_stack_and_its_mask() {
    let Some(_) = alone("the_handler_before_keeps_its_stack_and_its_mask") else { return };
    let code = in_child(|| {
        // SAFETY: the structs are plain data; the stack is memory that is never freed.
        unsafe {
            let memory = libc::malloc(STACK_BYTES);
            let stack = libc::stack_t { ss_sp: memory, ss_flags: 0, ss_size: STACK_BYTES };
            STACK.store(memory as usize, Ordering::Relaxed);
            let mut new: libc::sigaction = std::mem::zeroed();
            new.sa_sigaction = looking as extern "C" fn(c_int) as usize;
            new.sa_flags = libc::SA_ONSTACK;
            libc::sigaddset(&mut new.sa_mask, libc::SIGHUP);
            if libc::sigaltstack(&stack, null_mut()) != 0
                || libc::sigaction(libc::SIGTERM, &new, null_mut()) != 0
                || gpuzip_catch_signals(null(), 0) != GPUZIP_OK
            {
                return 10;
            }
            libc::raise(libc::SIGTERM);
            SEEN.load(Ordering::Relaxed)
        }
    });
    assert_eq!(code, 7);
}
