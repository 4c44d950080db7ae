//! Sessions whose configuration sets neither budgets nor a number of snapshots, and the backend
//! whose costs a session plans with.

use crate::common::prelude::*;
use crate::common::{self, emu, emu::emulated};
use gpuzip::session::{estimate, Estimate};

const STEPS: u32 = 400;
/// Bytes of all states of 128 values that are saved.
const ALL: u64 = (STEPS as u64 - 1) * 1024;

fn config() -> Config {
    Config::default().with(|c| c.tiers.default_budgets = true)
}

fn on_host() -> Config {
    config().with(|c| c.device.backend = Backend::Host)
}

/// Returns a state of one field with this many FP64 values, without memory.
fn state(values: u64) -> AppField {
    AppField { field: field([values, 1, 1], Scalar::F64), memory: None }
}

/// Runs a shot on fields in host memory. Returns the number of forward steps and the most bytes
/// that the session took of device memory and of host memory.
fn shot(config: Config, values: u64) -> (u64, u64, u64) {
    let field = state(values);
    let mut session = Session::new(config, STEPS.into(), &[field]).unwrap();
    let stats = HostApp::new(&[field.field], noise).shot(&mut session).unwrap();
    (stats.forward_steps, stats.peak_device_bytes, stats.peak_host_bytes)
}

/// Checks that a shot on states of 128 values keeps all of them on the device and repeats no step.
fn stores_all(config: Config) {
    assert_eq!(shot(config, 128), (u64::from(STEPS - 1), ALL, 0));
}

/// Returns what a session on states of 128 values would choose.
fn found(config: Config) -> Estimate {
    estimate(config, STEPS.into(), &[state(128)]).unwrap()
}

/// If all states fit into memory, the session keeps every state, computes no step twice, and takes
/// no more memory than the states need.
#[test]
fn memory_that_is_there_is_used() {
    stores_all(on_host());
    let found = found(on_host());
    assert_eq!(found.choice.schedule.algorithm, Algorithm::StoreAll);
    let (device, host) = found.budgets;
    assert!((ALL..=ALL + 2 * 1024).contains(&device) && host == 0, "{device} and {host}");
}

/// Values that the configuration sets are not changed. Without `default_budgets` the library sets
/// no budgets.
#[test]
fn what_is_set_decides() {
    let budgets = |config: Config| {
        let found = found(config.with(|c| c.device.backend = Backend::Host));
        (found.budgets, found.choice.schedule.algorithm, found.choice.schedule.snapshots)
    };
    assert_eq!(budgets(config().with(|c| c.schedule.snapshots = 9)).0, (0, 0));
    assert_eq!(budgets(config().with(|c| c.schedule.adjust_snapshots = true)).0, (0, 0));
    assert_eq!(budgets(config().with(|c| c.tiers.host_budget = 50_000)).0, (0, 50_000));
    assert_eq!(budgets(config().with(|c| c.tiers.device_budget = 50_000)).0, (50_000, 0));
    assert_eq!(
        budgets(config().with(|c| c.schedule.algorithm = Some(Algorithm::Revolve))),
        ((0, 0), Algorithm::Revolve, 6)
    );
    assert_eq!(budgets(Config::default()), ((0, 0), Algorithm::Revolve, 6));
    let ((device, host), ..) = budgets(config().with(|c| c.tiers.cache = 3));
    assert!(device == 0 && host >= ALL, "{device} and {host}");
}

/// The default budget is at most half of the memory that a limit of the process leaves: 400 MB of
/// address space do not hold 400 states of 2 MB.
#[test]
fn a_limit_of_the_address_space_is_kept() {
    let Some(_) = alone("a_limit_of_the_address_space_is_kept") else { return };
    let limit = libc::rlimit { rlim_cur: 400_000 << 10, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the call reads the limit only.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) }, 0);
    let found = estimate(on_host(), STEPS.into(), &[state(1 << 18)]).unwrap();
    let (device, host) = found.budgets;
    assert!(device < 200_000 << 10 && device > 50_000 << 10 && host == 0, "{device} and {host}");
    let (steps, peak, _) = shot(on_host(), 1 << 18);
    assert!(
        peak <= device && peak > device / 2 && steps < 3 * u64::from(STEPS),
        "{steps} steps, {peak} bytes"
    );
}

/// The ranks of a node divide its memory; the launcher's environment variable gives their number.
#[test]
fn ranks_share_their_node() {
    if std::env::var_os("GPUZIP_TEST_CHILD").is_some() {
        for (steps, values) in [(1_000, 1 << 40), (2, 1 << 33), (100_000, 1 << 18)] {
            let found = estimate(on_host(), steps, &[state(values)]);
            println!("budget {}", found.map_or(0, |found| found.budgets.0));
        }
        return;
    }
    let budgets = |variables: &[(&str, &str)]| -> Vec<u64> {
        let mut child = common::again("ranks_share_their_node");
        child.env("GPUZIP_TEST_CHILD", "1").envs(variables.iter().copied());
        let out = common::stdout(&common::run(&mut child));
        out.lines().filter_map(|line| line.split("budget ").nth(1)?.parse().ok()).collect()
    };
    let (alone, four) = (budgets(&[]), budgets(&[("OMPI_COMM_WORLD_LOCAL_SIZE", "4")]));
    assert_eq!(
        (alone[0], four[0]),
        (0, 0),
        "states that no memory holds leave the budgets as they are"
    );
    let quarter = four[2] as f64 / alone[2] as f64;
    assert!(alone[2] > 0 && (0.15..0.4).contains(&quarter), "{alone:?} {four:?}");
}

/// Starts CUDA, as an application does before it allocates device memory.
fn start_cuda() {
    assert_eq!(gpuzip::device::cuda::devices().unwrap().len(), 1);
}

/// As long as no field has memory, the library does not start CUDA unless the configuration names
/// the CUDA backend: neither to find a device nor to find the size of its memory.
#[test]
fn fields_that_are_to_come_do_not_start_cuda() {
    emulated!();
    let cursor =
        std::sync::Arc::new(gpuzip::choice::SharedSchedule::new(config(), STEPS.into()).unwrap());
    assert_eq!(config().device.backend, Backend::ByFields);
    found(config());
    let own = Session::new(config(), STEPS.into(), &[state(128)]).unwrap();
    let attached = Session::attach(cursor, config(), &[state(128)]).unwrap();
    assert_eq!((emu::calls("cuInit"), emu::calls("cuDevicePrimaryCtxRetain")), (0, 0));
    drop((own, attached));
    assert_eq!(shot(config(), 128).0, u64::from(STEPS - 1));
    assert_eq!(emu::calls("cuInit"), 0);
    found(config().with(|c| c.device.backend = Backend::Cuda));
    assert_eq!(emu::calls("cuInit"), 1, "the backend that is named is looked at");
}

/// Zero copy needs the backend before the first field with memory could show it: the error says how
/// to name the backend.
#[test]
fn zero_copy_on_an_unknown_backend_says_what_to_do() {
    emulated!();
    start_cuda();
    let algorithm = Some(Algorithm::Revolve);
    let config = Config::default().with(|c| {
        c.schedule.algorithm = algorithm;
        c.schedule.snapshots = 3;
        c.tiers.zero_copy = true;
    });
    let mut session = Session::new(config.clone(), 9, &[state(128)]).unwrap();
    session.get_action().unwrap();
    let parts = ["backend = 1", "backend = 2", "at init"];
    refused(session.save_begin(0, 1, HOST), Code::State, &parts);
    let config = config.with(|c| c.device.backend = Backend::Host);
    let mut session = Session::new(config, 9, &[state(128)]).unwrap();
    session.get_action().unwrap();
    session.save_begin(0, 1, HOST).unwrap();
}

/// A schedule that the application has been told of does not change, even if the fields of the
/// first save are on another backend than assumed.
#[test]
fn a_plan_that_was_shown_stays() {
    emulated!();
    start_cuda();
    assert_eq!(emu::reset(1, emu::EARLY, 1, 100 << 10), 0);
    let (field, mut data) = (state(128), vec![0f64; 128]);
    // SAFETY: the vector outlives the calls, and nothing else touches it meanwhile.
    let memory = unsafe { AppMemory::new(data.as_mut_ptr().cast(), 1024) };
    let fingerprint_after = |tell: &dyn Fn(&mut Session)| {
        let mut session = Session::new(config(), STEPS.into(), &[field]).unwrap();
        let before = session.schedule().decide().unwrap().fingerprint(false).unwrap();
        tell(&mut session);
        assert_eq!(session.get_action().unwrap().action.kind, Kind::Save);
        session.save(0, &[AppField { memory: Some(memory), ..field }], HOST).unwrap();
        (before, session.schedule().decide().unwrap().fingerprint(false).unwrap())
    };
    let (before, after) = fingerprint_after(&|_| {});
    assert_ne!(before, after, "nobody was told: the plan is the host's");
    type Tell = fn(&mut Session);
    let peek: Tell = |session| assert_eq!(session.peek_action().unwrap().it, 0);
    let summary: Tell = |session| assert_eq!(session.schedule().tell().unwrap().steps, STEPS);
    let fingerprint: Tell = |session| assert_ne!(session.schedule().fingerprint().unwrap(), 0);
    for (name, tell) in [("peek", peek), ("summary", summary), ("fingerprint", fingerprint)] {
        let (before, after) = fingerprint_after(&tell);
        assert_eq!(before, after, "{name}");
    }
}

/// On a machine with a driver but no device, as on one without a driver, a session whose fields
/// have no memory yet plans with the costs of the host backend.
#[test]
fn without_a_device_the_costs_are_the_hosts() {
    emulated!();
    start_cuda();
    assert_eq!(emu::reset(1, emu::EARLY, 0, 1 << 20), 0);
    stores_all(config());
    let budgets = Config::default().with(|c| {
        c.tiers.device_budget = 100 * 1024;
        c.tiers.host_budget = 300 * 1024;
    });
    let [assumed, host] = [Backend::ByFields, Backend::Host]
        .map(|backend| found(budgets.clone().with(|c| c.device.backend = backend)));
    assert_eq!(assumed.choice.schedule.algorithm, host.choice.schedule.algorithm);
    assert_eq!(assumed.tiers.costs, host.tiers.costs);
}

/// On a machine with a device, the fields of the first save show whether the session is on that
/// device, and the plan follows the costs of that backend.
#[test]
fn the_first_save_settles_the_costs() {
    emulated!();
    start_cuda();
    assert_eq!(emu::reset(1, emu::EARLY, 1, 100 << 10), 0);
    // 100 KiB of device memory have no room for all states.
    assert_ne!(found(config()).choice.schedule.algorithm, Algorithm::StoreAll);
    stores_all(config());
    let budgets = Config::default().with(|c| c.tiers.device_budget = 500 * 1024);
    assert_eq!(
        shot(budgets.clone(), 128),
        shot(budgets.with(|c| c.device.backend = Backend::Host), 128)
    );
}

/// The default device budget is at most half of the GPU's free memory. If these bytes do not hold
/// all states, the default host budget does.
#[test]
fn a_device_gives_half_of_its_free_memory() {
    emulated!();
    assert_eq!(emu::reset(1, emu::EARLY, 1, 100 << 10), 0);
    let config = config().with(|c| c.device.backend = Backend::Cuda);
    let (device, host) = found(config.clone()).budgets;
    assert!(device == 50 << 10 && host >= ALL, "{device} and {host}");
    let session = Session::new(config.clone(), STEPS.into(), &[state(128)]).unwrap();
    assert!(emu::counters().device_bytes <= device && session.budgets() == (device, host));
    drop(session);
    assert_eq!(emu::counters().retained, 0);
    assert_eq!(emu::reset(1, emu::EARLY, 1, 2 << 20), 0);
    let (device, host) = found(config).budgets;
    assert!(device >= ALL && host == 0, "{device} and {host}");
}

/// A backend that is not available is an error at init, which says what is missing and what to do.
#[test]
fn cuda_without_a_device_is_refused_at_init() {
    emulated!();
    assert_eq!(emu::reset(1, emu::EARLY, 0, 1 << 20), 0);
    let mut data = [0f64; 8];
    // SAFETY: the array outlives the calls, which do not use it.
    let memory = unsafe { AppMemory::new(data.as_mut_ptr().cast(), 64) };
    for memory in [None, Some(memory)] {
        let field = AppField { memory, ..state(8) };
        let session =
            Session::new(config().with(|c| c.device.backend = Backend::Cuda), 10, &[field]);
        refused(session, Code::Device, &["backend = 2", "backend = 1"]);
    }
}

/// The CUDA backend without any driver is an error at init; the test needs a machine without a
/// driver.
#[test]
fn cuda_without_a_driver_is_refused_at_init() {
    if gpuzip::device::cuda::devices().is_ok() {
        println!("skipped: this machine has a CUDA driver");
        return;
    }
    let session =
        Session::new(config().with(|c| c.device.backend = Backend::Cuda), 10, &[state(8)]);
    refused(session, Code::Device, &["libcuda.so.1", "backend = 1"]);
}
