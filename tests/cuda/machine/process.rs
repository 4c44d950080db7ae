//! Processes that fail, fork, or end while a session is open.

use super::gpu::{self, print_row, Gpu, Json, Memory};
use super::shots::{App, Streams};
use super::{small, starts};
use crate::common::app::config;
use crate::common::prelude::*;
use crate::common::{here, only_if};
use gpuzip::device::Stream;
use std::process::Stdio;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The variable that names what a child does.
const CHILD: &str = "GPUZIP_TEST_CHILD";

/// How long a child may take before it counts as hung.
const PATIENCE: Duration = Duration::from_secs(20);

/// The session that a static destructor ends.
static SESSION: Mutex<Option<Session>> = Mutex::new(None);

/// Runs this program again as the child `what`. Returns its exit code, and `None` if it hangs.
fn child(what: &str) -> Option<i32> {
    let mut child =
        crate::common::again("a_child").env(CHILD, what).stdout(Stdio::null()).spawn().unwrap();
    let begin = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code().or(Some(-1));
        }
        if begin.elapsed() > PATIENCE {
            child.kill().unwrap();
            child.wait().unwrap();
            return None;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Children whose session is open when something happens.
#[test]
fn ends() {
    only_if!(starts(here!()));
    let name = {
        let gpu = Gpu::new(0);
        (gpu.info.name.clone(), gpu.is_software())
    };
    for what in ["sticky", "destructor", "exit", "fork"] {
        let code = child(what);
        let device = (name.0.as_str(), name.1);
        let members: [(&str, &dyn Json); 3] =
            [("what", &what), ("exit_code", &code), ("hangs", &code.is_none())];
        print_row(device, "ends", &members);
        assert_eq!(code, Some(0), "{what}");
    }
}

/// Ends the session of `SESSION`, as the destructor of a static object does.
extern "C" fn end_session() {
    let session = SESSION.lock().unwrap().take();
    drop(session);
}

/// The child of `ends`.
#[test]
fn a_child() {
    let Ok(what) = std::env::var(CHILD) else {
        println!("skipped: the test `ends` runs this test");
        return;
    };
    let gpu = Gpu::new(0);
    let mut app = App::new(&gpu, &small(&gpu), Streams::NonBlocking, 50);
    let config = config(Algorithm::Revolve, 4, 1, Policy::Clairvoyant);
    let mut session = Session::new(config, 20, &app.app_fields()).unwrap();
    let mut saves = 0;
    let left = app.run(&mut session, |kind| {
        saves += u32::from(kind == Kind::Save);
        saves < 4
    });
    match what.as_str() {
        "sticky" => {
            let zero = Memory::new(4);
            gpu::set(zero.0, 0, 4);
            gpu.fault(app.on(), zero.0);
            // SAFETY: a live stream.
            let status = unsafe { cudarc::driver::sys::cuStreamSynchronize(app.on()) };
            assert_ne!(status, cudarc::driver::sys::CUresult::CUDA_SUCCESS);
            let ts = i64::from(left.unwrap());
            let stream = Stream(app.on().cast());
            let error = session
                .save(ts, &app.app_fields(), stream)
                .and_then(|()| session.synchronize())
                .unwrap_err();
            assert_eq!(error.code, Code::Device, "{error}");
            drop(session);
            std::mem::forget(app);
            std::mem::forget(gpu);
        }
        "destructor" | "exit" => {
            *SESSION.lock().unwrap() = Some(session);
            if what == "destructor" {
                // SAFETY: the function does not unwind out of `exit`.
                unsafe { libc::atexit(end_session) };
            }
            std::mem::forget(app);
            std::mem::forget(gpu);
            std::process::exit(0);
        }
        _ => {
            // SAFETY: the child ends by _exit.
            let pid = unsafe { libc::fork() };
            if pid == 0 {
                let refused = session.stats().is_err_and(|error| error.code == Code::Forked);
                drop(session);
                // SAFETY: _exit only ends the process.
                unsafe { libc::_exit(i32::from(!refused)) };
            }
            let mut status = -1;
            // SAFETY: a child of this process, and a live variable.
            assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
            assert_eq!(status, 0);
            session.setup().unwrap();
            app.run(&mut session, |_| true);
            assert_eq!(app.outcome().wrong, 0);
        }
    }
}
