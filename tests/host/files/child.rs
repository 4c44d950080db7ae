//! Runs a session with a configuration file in a child process, under obstacles such as a limit on
//! the size of files or closed standard streams.

use crate::common::{c_abi, last_error, limit_files};
use gpuzip::capi::*;
use std::ffi::{c_char, c_void, CStr, CString};
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::ptr::null_mut;

/// Environment variables that pass the child the paths of its configuration and report, and its
/// obstacles.
const CONFIG: &str = "GPUZIP_TEST_CONFIG";
const REPORT: &str = "GPUZIP_TEST_REPORT";
const OBSTACLE: &str = "GPUZIP_TEST_OBSTACLE";

/// Runs the child in `folder`. Words of `obstacle`: `fsize=N` (no file may exceed N bytes),
/// `closed` (descriptors 0 to 2 are closed) or `closed=N` (descriptor N is), `user` (the child is
/// not root), `logs` (the log goes to stderr instead of the report), `waits` (the child waits
/// before its first shot until its standard input ends), `shots=N`.
pub fn run(folder: &Path, config: &str, obstacle: &str) -> Report {
    run_with(folder, config, obstacle, &|_| ())
}

/// Runs the child as `run` does. `prepare` may change its command.
pub fn run_with(
    folder: &Path,
    config: &str,
    obstacle: &str,
    prepare: &dyn Fn(&mut Command),
) -> Report {
    report(folder, spawn(folder, config, obstacle, prepare))
}

pub fn spawn(folder: &Path, config: &str, obstacle: &str, prepare: &dyn Fn(&mut Command)) -> Child {
    let _ = std::fs::remove_file(folder.join("report"));
    std::fs::write(folder.join("session.cfg"), config).unwrap();
    let mut command = crate::common::again("files::plays");
    command.current_dir(folder);
    command
        .env(CONFIG, folder.join("session.cfg"))
        .env(REPORT, folder.join("report"))
        .env(OBSTACLE, obstacle);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    prepare(&mut command);
    command.spawn().unwrap()
}

/// The results of a child.
pub struct Report {
    /// The error that ended the session, or `ok`, and the lines of the log.
    pub text: String,
    pub stderr: String,
}

/// Reads the report of a child, which must have ended by itself with status 7.
pub fn report(folder: &Path, child: Child) -> Report {
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    let text = std::fs::read_to_string(folder.join("report")).unwrap_or_default();
    assert_eq!(output.status.code(), Some(7), "{}\n{text}\n{stderr}", output.status);
    Report { text, stderr }
}

/// Runs in the child: takes the obstacles upon itself, plays the session and writes the report.
pub fn play() -> ! {
    let Some(report) = std::env::var_os(REPORT) else { panic!("for other tests only") };
    let mut report = std::fs::File::create(report).unwrap();
    let obstacle = std::env::var(OBSTACLE).unwrap();
    let has = |name: &str| obstacle.split(' ').any(|word| word == name);
    let number = |name: &str| {
        obstacle
            .split(' ')
            .find_map(|word| word.strip_prefix(name)?.strip_prefix('=')?.parse::<u64>().ok())
    };
    let mut lines = String::new();
    // SAFETY: no other test runs in this process; the report's descriptor is not closed; `lines`
    // outlives the session.
    let result = unsafe {
        for signal in [libc::SIGPIPE, libc::SIGXFSZ] {
            libc::signal(signal, libc::SIG_DFL);
        }
        if !has("logs") {
            gpuzip_set_log_callback(Some(log), (&raw mut lines).cast());
        }
        if has("user") {
            assert_eq!(libc::setegid(65534) + libc::seteuid(65534), 0);
        }
        for descriptor in 0..3 {
            if has("closed") || number("closed") == Some(descriptor as u64) {
                libc::close(descriptor);
            }
        }
        if let Some(bytes) = number("fsize") {
            limit_files(bytes);
        }
        let result = session(number("shots").unwrap_or(1), has("waits"));
        limit_files(libc::RLIM_INFINITY);
        gpuzip_set_log_callback(None, null_mut());
        result
    };
    write!(report, "{}\n{lines}", result.err().unwrap_or("ok".into())).unwrap();
    // SAFETY: _exit takes no pointer. It ends the process before the test harness prints to a
    // standard stream that may be closed.
    unsafe { libc::_exit(7) }
}

unsafe extern "C" fn log(_: i32, text: *const c_char, lines: *mut c_void) {
    // SAFETY: `text` is a NUL-terminated string of the library; `lines` is the String that `play`
    // registered.
    unsafe { (*lines.cast::<String>()).extend([CStr::from_ptr(text).to_str().unwrap(), "\n"]) };
}

fn check(status: i32) -> Result<(), String> {
    if status < 0 {
        return Err(last_error());
    }
    Ok(())
}

const VALUES: usize = 64;

/// Plays `shots` shots and checks that every restored state is the state that was saved. Returns
/// the first error of the library.
fn session(shots: u64, waits: bool) -> Result<(), String> {
    let path = CString::new(std::env::var(CONFIG).unwrap()).unwrap();
    let mut memory = [0f32; VALUES];
    let data = &raw mut memory;
    let field = c_abi::field_at(data.cast(), VALUES, 0);
    let mut config = std::mem::MaybeUninit::uninit();
    let mut handle = null_mut();
    // SAFETY: all pointers are to live values; no other code uses `memory` during a call.
    unsafe {
        check(gpuzip_config_load(path.as_ptr(), config.as_mut_ptr()))?;
        let mut config = config.assume_init();
        check(gpuzip_init(&config, 20, &field, 1, &mut handle))?;
        check(gpuzip_config_free(&mut config))?;
        if waits {
            println!("ready");
            let _ = std::io::stdin().read(&mut [0]);
        }
        for _ in 0..shots {
            check(gpuzip_setup(handle))?;
            check(gpuzip_autotune(handle))?;
            loop {
                let mut action = gpuzip_action_t::default();
                check(gpuzip_get_action(handle, &mut action))?;
                if action.r#type == GPUZIP_ACTION_FORWARD {
                    data.write([action.ts as f32; VALUES]);
                }
                check(c_abi::serve(handle, &action, &[field]))?;
                if action.r#type == GPUZIP_ACTION_RESTORE {
                    assert_eq!(data.read(), [action.ts as f32; VALUES]);
                }
                if c_abi::is_terminate(&action) {
                    break;
                }
            }
        }
        check(gpuzip_finalize(handle))
    }
}
