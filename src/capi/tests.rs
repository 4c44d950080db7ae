use super::*;
use std::cell::Cell;
use std::ffi::{c_char, c_void, CStr, CString};
use std::io::Write as _;
use std::mem::size_of;
use std::ptr::{null, null_mut};
use std::sync::Mutex;

thread_local! {
    static ARMED: Cell<bool> = const { Cell::new(false) };
}

/// Panics if a test has armed the call `name`; every call of the test build begins with this check.
pub(super) fn panic_if_armed(name: &str) {
    if ARMED.get() {
        panic!("injected into {name}");
    }
}

fn last_error() -> String {
    // SAFETY: the error text belongs to this thread and is NUL-terminated.
    unsafe { CStr::from_ptr(gpuzip_last_error()) }.to_string_lossy().into_owned()
}

fn config() -> gpuzip_config_t {
    let mut config = std::mem::MaybeUninit::uninit();
    // SAFETY: `gpuzip_config_init` fills the whole struct.
    unsafe {
        assert_eq!(gpuzip_config_init(config.as_mut_ptr()), GPUZIP_OK);
        config.assume_init()
    }
}

fn revolve(snaps: i32, cache: i32) -> gpuzip_config_t {
    gpuzip_config_t {
        checkpointing_algorithm: GPUZIP_ALGORITHM_REVOLVE,
        checkpointing_snaps: snaps,
        cache_capacity: cache,
        ..config()
    }
}

fn field(data: &mut [f32]) -> gpuzip_field_t {
    gpuzip_field_t {
        data: data.as_mut_ptr().cast(),
        n1: data.len() as u64,
        n2: 1,
        n3: 1,
        r#type: GPUZIP_TYPE_F32,
        role: 0,
        pitch2: 0,
        pitch3: 0,
        reserved: [0; 2],
    }
}

fn init(config: &gpuzip_config_t, steps: i32, fields: &[gpuzip_field_t]) -> (i32, *mut gpuzip_t) {
    let mut handle = null_mut();
    // SAFETY: all pointers are to live Rust values.
    let status =
        unsafe { gpuzip_init(config, steps, fields.as_ptr(), fields.len() as u32, &mut handle) };
    (status, handle)
}

fn action(handle: *mut gpuzip_t) -> (i32, gpuzip_action_t) {
    let mut action = gpuzip_action_t::default();
    // SAFETY: `action` is a live variable.
    (unsafe { gpuzip_get_action(handle, &mut action) }, action)
}

/// Every function of the ABI that returns a status, with a call that passes NULL or another invalid
/// value for each argument.
#[allow(clippy::type_complexity, unused_unsafe)] // Some entries take no pointers.
fn entries() -> Vec<(&'static str, Box<dyn Fn() -> i32>)> {
    macro_rules! calls {
        ($($name:ident($($argument:expr),*);)*) => {
            // SAFETY: NULL is an argument that every entry checks.
            vec![$((stringify!($name), Box::new(|| unsafe { $name($($argument),*) }) as Box<dyn Fn() -> i32>)),*]
        };
    }
    calls! {
        gpuzip_set_log_level(-1);
        gpuzip_set_log_callback(None, null_mut());
        gpuzip_config_init(null_mut());
        gpuzip_config_load(null(), null_mut());
        gpuzip_config_free(null_mut());
        gpuzip_schedule_create(null(), 1, null_mut());
        gpuzip_schedule_get_action(null_mut(), null_mut());
        gpuzip_schedule_rewind(null_mut());
        gpuzip_schedule_summary(null_mut(), null_mut());
        gpuzip_schedule_release(null_mut());
        gpuzip_init(null(), 1, null(), 0, null_mut());
        gpuzip_attach(null_mut(), null(), null(), 0, null_mut());
        gpuzip_get_schedule(null_mut(), null_mut());
        gpuzip_setup(null_mut());
        gpuzip_setup_steps(null_mut(), 10);
        gpuzip_get_action(null_mut(), null_mut());
        gpuzip_end_forward(null_mut());
        gpuzip_dispatch(null_mut(), 0);
        gpuzip_save(null_mut(), 0, null(), 0, null_mut());
        gpuzip_retrieve(null_mut(), 0, null(), 0, null_mut());
        gpuzip_save_begin(null_mut(), 0, null_mut(), 0, null_mut());
        gpuzip_save_commit(null_mut(), 0, null_mut());
        gpuzip_retrieve_acquire(null_mut(), 0, null_mut(), 0, null_mut());
        gpuzip_retrieve_release(null_mut(), 0, null_mut());
        gpuzip_synchronize(null_mut());
        gpuzip_stats(null_mut(), null_mut());
        gpuzip_summary(null_mut(), null_mut());
        gpuzip_memory_required(null(), 1, null(), 0, null_mut());
        gpuzip_finalize(null_mut());
        gpuzip_run_forward(null_mut(), null(), null(), 0, null_mut());
        gpuzip_run_reverse(null_mut(), null(), null(), 0, null_mut());
        gpuzip_peek_action(null_mut(), null_mut());
        gpuzip_schedule_peek_action(null_mut(), null_mut());
        gpuzip_fingerprint(null_mut(), null_mut());
        gpuzip_schedule_fingerprint(null_mut(), null_mut());
        gpuzip_agree(null_mut(), None, null_mut());
        gpuzip_autotune(null_mut());
        gpuzip_profile_export(null_mut(), null_mut(), 0, null_mut());
        gpuzip_profile_import(null_mut(), null(), 0);
        gpuzip_profile_steps(null_mut(), 0, null(), null());
        gpuzip_profile_info(null(), 0, 0, null_mut());
        gpuzip_codec_bound(null(), null(), 0, null_mut());
        gpuzip_codec_compress(null(), null(), 0, null_mut(), 0, null_mut());
        gpuzip_codec_decompress(null(), 0, null(), 0);
        gpuzip_codec_info(null(), 0, 0, null_mut());
        gpuzip_codec_register(null(), null_mut());
        gpuzip_persist_open(null_mut(), null());
        gpuzip_persist_due(null_mut(), null_mut());
        gpuzip_persist_write(null_mut(), 0, null(), 0, null_mut());
        gpuzip_persist_wait(null_mut());
        gpuzip_persist_find(null_mut(), null_mut());
        gpuzip_persist_read(null_mut(), null(), 0, null_mut());
        gpuzip_catch_signals(null(), 1);
    }
}

#[test]
fn the_table_of_entries_is_complete() {
    let header = include_str!("../../include/gpuzip.h");
    let declared =
        header.lines().filter_map(|line| line.strip_prefix("gpuzip_status_t ")?.split('(').next());
    let mut declared: Vec<&str> = declared.collect();
    let mut called: Vec<&str> = entries().iter().map(|(name, _)| *name).collect();
    declared.sort_unstable();
    called.sort_unstable();
    assert_eq!(declared, called);
}

#[test]
fn a_panic_in_any_entry_is_caught() {
    for (name, call) in entries() {
        ARMED.set(true);
        let status = call();
        ARMED.set(false);
        assert_eq!(status, GPUZIP_ERR_PANIC, "{name}");
        assert!(last_error().contains(&format!("injected into {name}")), "{}", last_error());
    }
}

#[test]
fn null_is_refused_everywhere() {
    for (name, call) in entries() {
        if name != "gpuzip_set_log_callback" {
            let status = call();
            assert!(matches!(status, GPUZIP_ERR_ARGUMENT | GPUZIP_ERR_CONFIG), "{name}: {status}");
            assert!(last_error().starts_with(name), "{}", last_error());
        }
    }
    let (mut data, config) = (vec![0f32; 4], revolve(2, 1));
    let fields = [field(&mut data)];
    assert_eq!(init(&config, 5, &[]).0, GPUZIP_ERR_ARGUMENT);
    let (status, handle) = init(&config, 5, &fields);
    assert_eq!(status, GPUZIP_OK);
    assert_eq!(action(handle).1.type_of(), GPUZIP_ACTION_SAVE);
    let nowhere = [gpuzip_field_t { data: null_mut(), ..fields[0] }];
    // SAFETY: every pointer is valid, and the field's data is NULL.
    unsafe {
        assert_eq!(gpuzip_save(handle, 0, nowhere.as_ptr(), 1, null_mut()), GPUZIP_ERR_ARGUMENT);
        assert!(last_error().contains("field 0: data is NULL"));
        assert_eq!(
            gpuzip_save(handle, 0, fields.as_ptr(), 1, 0x8 as *mut c_void),
            GPUZIP_ERR_ARGUMENT
        );
        assert!(last_error().contains("stream"));
        assert_eq!(
            gpuzip_save(handle, 0, fields.as_ptr(), u32::MAX, null_mut()),
            GPUZIP_ERR_ARGUMENT
        );
        assert_eq!(gpuzip_save(handle, 0, fields.as_ptr(), 1, null_mut()), GPUZIP_OK);
    }
    assert_eq!(gpuzip_finalize(handle), GPUZIP_OK);
}

impl gpuzip_action_t {
    fn type_of(&self) -> i32 {
        self.r#type
    }
}

#[test]
fn handles_are_checked() {
    let mut data = vec![0f32; 4];
    let (_, handle) = init(&revolve(2, 1), 5, &[field(&mut data)]);
    assert_eq!(gpuzip_setup(handle), GPUZIP_OK);
    // A session's handle where a schedule's handle is needed.
    assert_eq!(gpuzip_schedule_rewind(handle.cast()), GPUZIP_ERR_HANDLE);
    let mut schedule = null_mut();
    // SAFETY: `schedule` is a live variable.
    assert_eq!(unsafe { gpuzip_get_schedule(handle, &mut schedule) }, GPUZIP_OK);
    assert_eq!(gpuzip_finalize(schedule.cast()), GPUZIP_ERR_HANDLE);
    assert_eq!(gpuzip_finalize(handle), GPUZIP_OK);
    for status in [
        gpuzip_finalize(handle),
        gpuzip_setup(handle),
        gpuzip_dispatch(handle, 0),
        action(handle).0,
    ] {
        assert_eq!(status, GPUZIP_ERR_HANDLE);
    }
    assert!(last_error().contains("finalized"), "{}", last_error());
    assert_eq!(gpuzip_setup(0xdead_beef as *mut gpuzip_t), GPUZIP_ERR_HANDLE);
    assert_eq!(gpuzip_schedule_rewind(schedule), GPUZIP_OK, "the schedule has a handle of its own");
    assert_eq!(gpuzip_schedule_release(schedule), GPUZIP_OK);
    assert_eq!(gpuzip_schedule_release(schedule), GPUZIP_ERR_HANDLE);
}

#[test]
fn a_poisoned_session_says_so_and_can_be_finalized() {
    let mut data = vec![0f32; 4];
    let (_, handle) = init(&revolve(2, 1), 5, &[field(&mut data)]);
    let status = entry("test", || {
        handles::with_session(handle, |_| -> crate::error::Result<()> { panic!("inside") })
    });
    assert_eq!(status, GPUZIP_ERR_PANIC);
    assert_eq!(gpuzip_setup(handle), GPUZIP_ERR_POISONED);
    assert_eq!(gpuzip_finalize(handle), GPUZIP_OK);
}

#[test]
fn impossible_sizes_are_refused() {
    let mut data = vec![0f32; 4];
    let good = field(&mut data);
    for (bad, part) in [
        (gpuzip_field_t { n1: 0, ..good }, "0 x 1 x 1"),
        (gpuzip_field_t { n1: u64::MAX, ..good }, "address space"),
        (gpuzip_field_t { n1: 1 << 32, n2: 1 << 32, ..good }, "address space"),
        (gpuzip_field_t { r#type: 9, ..good }, "type = 9"),
        (gpuzip_field_t { r#type: -1, ..good }, "type = -1"),
        (gpuzip_field_t { role: -1, ..good }, "role = -1"),
        (gpuzip_field_t { role: 5, ..good }, "role = 5"),
        (gpuzip_field_t { reserved: [0, 9], ..good }, "field 0: reserved[1] = 9"),
        (gpuzip_field_t { pitch2: good.n1 - 1, ..good }, "field 0: pitch2 = "),
        (gpuzip_field_t { pitch3: good.n1 - 1, ..good }, "field 0: pitch3 = "),
        (gpuzip_field_t { n3: 2, pitch3: 1 << 61, ..good }, "address space"),
    ] {
        assert_eq!(init(&revolve(2, 1), 5, &[bad]).0, GPUZIP_ERR_ARGUMENT);
        assert!(last_error().contains(part), "{}", last_error());
    }
    for steps in [0, -1, i32::MIN] {
        assert_eq!(init(&revolve(2, 1), steps, &[good]).0, GPUZIP_ERR_ARGUMENT);
        assert!(last_error().contains(&format!("steps = {steps}")), "{}", last_error());
    }
}

#[test]
fn bad_configurations_name_the_field() {
    let mut data = vec![0f32; 4];
    let fields = [field(&mut data)];
    type Change = fn(&mut gpuzip_config_t);
    let cases: [(Change, i32, &str); 46] = [
        (|c| c.checkpointing_algorithm = 17, GPUZIP_ERR_CONFIG, "checkpointing_algorithm = 17"),
        (|c| c.checkpointing_algorithm = 7, GPUZIP_ERR_UNSUPPORTED, "checkpointing_algorithm = 7"),
        (|c| c.checkpointing_algorithm = 0, GPUZIP_ERR_CONFIG, "trace_file_path"),
        (
            |c| (c.checkpointing_algorithm, c.checkpointing_snaps) = (2, 0),
            GPUZIP_ERR_CONFIG,
            "checkpointing_snaps = 0",
        ),
        (|c| c.checkpointing_snaps = -3, GPUZIP_ERR_CONFIG, "checkpointing_snaps = -3"),
        (|c| c.cache_capacity = -1, GPUZIP_ERR_CONFIG, "cache_capacity = -1"),
        (|c| c.compressor = -1, GPUZIP_ERR_CONFIG, "compressor = -1"),
        (|c| c.compressor = 14, GPUZIP_ERR_CONFIG, "compressor = 14"),
        (|c| c.compressor = 15, GPUZIP_ERR_CONFIG, "compressor = 15"),
        (
            |c| (c.compressor, c.error_bound, c.nonfinite) = (15, 1e-3, 1),
            GPUZIP_ERR_UNSUPPORTED,
            "compressor = 15",
        ),
        (
            |c| c.profile_path = c"/dev/null".as_ptr(),
            GPUZIP_ERR_IO,
            "profile_path = /dev/null: is a device",
        ),
        (|c| c.profile_path = c"/".as_ptr(), GPUZIP_ERR_IO, "profile_path = /: "),
        (|c| c.compressor = 255, GPUZIP_ERR_CONFIG, "compressor = 255"),
        (|c| (c.compressor, c.zfp_bit_rate) = (1, -8), GPUZIP_ERR_CONFIG, "zfp_bit_rate = -8"),
        (|c| (c.compressor, c.zfp_bit_rate) = (1, 33), GPUZIP_ERR_CONFIG, "zfp_bit_rate = 33"),
        (
            |c| (c.compressor, c.cuszp_err_bound) = (3, f64::NAN),
            GPUZIP_ERR_CONFIG,
            "cuszp_err_bound = NaN",
        ),
        (|c| (c.compressor, c.error_bound) = (5, -1e-3), GPUZIP_ERR_CONFIG, "error_bound = -0.001"),
        (
            |c| (c.compressor, c.error_bound_mode) = (4, 3),
            GPUZIP_ERR_CONFIG,
            "error_bound_mode = 3",
        ),
        (|c| c.compression_factor = -2.0, GPUZIP_ERR_CONFIG, "compression_factor = -2"),
        (|c| c.log_level = 4, GPUZIP_ERR_CONFIG, "log_level = 4"),
        (|c| c.backend = 3, GPUZIP_ERR_CONFIG, "backend = 3"),
        (|c| c.device = 1, GPUZIP_ERR_ARGUMENT, "is host memory"),
        (|c| c.disk_budget = 9, GPUZIP_ERR_CONFIG, "disk_budget = 9 with host_budget = 0"),
        (
            |c| (c.disk_budget, c.host_budget, c.shared_levels) = (9, 9, 1),
            GPUZIP_ERR_UNSUPPORTED,
            "shared_levels = 1 with disk_budget = 9",
        ),
        (|c| c.policy = 2, GPUZIP_ERR_CONFIG, "policy = 2"),
        (|c| c.snapshot_rule = 2, GPUZIP_ERR_CONFIG, "snapshot_rule = 2"),
        (|c| c.uniform_reading = -1, GPUZIP_ERR_CONFIG, "uniform_reading = -1"),
        (|c| c.schedule_chunk = -1, GPUZIP_ERR_CONFIG, "schedule_chunk = -1"),
        (|c| c.range_actions = 2, GPUZIP_ERR_CONFIG, "range_actions = 2"),
        (|c| c.link_bandwidth = f64::NAN, GPUZIP_ERR_CONFIG, "link_bandwidth = NaN"),
        (|c| c.nonfinite = 1, GPUZIP_ERR_UNSUPPORTED, "nonfinite = 1"),
        (|c| (c.shared_levels, c.policy) = (1, 1), GPUZIP_ERR_UNSUPPORTED, "policy = 1"),
        (|c| c.adjoint_every = -1, GPUZIP_ERR_CONFIG, "adjoint_every = -1"),
        (
            |c| (c.shared_levels, c.adjoint_every) = (1, 4),
            GPUZIP_ERR_UNSUPPORTED,
            "shared_levels = 1 with adjoint_every = 4",
        ),
        (|c| c.shared_levels = 2, GPUZIP_ERR_CONFIG, "shared_levels = 2"),
        (|c| c.max_in_flight = -5, GPUZIP_ERR_CONFIG, "max_in_flight = -5"),
        (|c| c.stop_budget_s = -1.5, GPUZIP_ERR_CONFIG, "stop_budget_s = -1.5"),
        (|c| c.persist_overhead = f64::NAN, GPUZIP_ERR_CONFIG, "persist_overhead"),
        (|c| c.persist_overhead = 1.5, GPUZIP_ERR_CONFIG, "persist_overhead = 1.5"),
        (|c| c.enable_performance_log = -7, GPUZIP_ERR_CONFIG, "enable_performance_log = -7"),
        (
            |c| c.enable_compression_rate_log = 2,
            GPUZIP_ERR_CONFIG,
            "enable_compression_rate_log = 2",
        ),
        (|c| c.reserved[3] = 1, GPUZIP_ERR_CONFIG, "reserved[3] = 1"),
        (|c| c.struct_size = 64, GPUZIP_ERR_CONFIG, "gpuzip_config_init"),
        (|c| c.struct_size -= 8, GPUZIP_ERR_CONFIG, "struct_size = 360: this library has 368"),
        (|c| c.struct_size = 370, GPUZIP_ERR_CONFIG, "struct_size = 370"),
        (|c| c.struct_size = u64::MAX, GPUZIP_ERR_CONFIG, "struct_size = 18446744073709551615"),
    ];
    for (change, status, part) in cases {
        let mut config = revolve(3, 1);
        change(&mut config);
        assert_eq!(init(&config, 20, &fields).0, status, "{part}");
        assert!(last_error().contains(part), "{}", last_error());
    }
    let config = gpuzip_config_t { float_kind: c"half".as_ptr(), ..revolve(3, 1) };
    assert_eq!(init(&config, 20, &fields).0, GPUZIP_ERR_CONFIG);
    assert!(last_error().contains("half"));
    let path = CString::new("/no/such/trace").unwrap().into_raw();
    let config = gpuzip_config_t { checkpointing_algorithm: 0, trace_file_path: path, ..config };
    let config = gpuzip_config_t { float_kind: null(), ..config };
    assert_eq!(init(&config, 20, &fields).0, GPUZIP_ERR_IO);
    assert!(last_error().contains("/no/such/trace"), "{}", last_error());
    // SAFETY: `into_raw` made the pointer above, and it is freed once.
    drop(unsafe { CString::from_raw(path) });
}

#[test]
fn a_zeroed_block_one_is_enough_for_old_binaries() {
    let mut data = vec![0f32; 4];
    let mut config = revolve(3, 1);
    config.struct_size = 0;
    config.policy = 99; // the library does not read block 2
    let (status, handle) = init(&config, 20, &[field(&mut data)]);
    assert_eq!(status, GPUZIP_OK, "{}", last_error());
    gpuzip_finalize(handle);
    // SAFETY: `config` is a valid configuration of block 1.
    assert_eq!(unsafe { gpuzip_config_free(&mut config) }, GPUZIP_OK);
    assert_eq!(config.policy, 99, "block 2 is not touched");
}

/// The configuration of a newer header, which has more members than this library knows.
#[repr(C)]
struct NewerConfig {
    known: gpuzip_config_t,
    later: [u64; 3],
}

#[test]
fn a_newer_headers_configuration_is_accepted_as_far_as_it_asks_for_nothing_new() {
    let mut data = vec![0f32; 4];
    let mut config = NewerConfig { known: revolve(3, 1), later: [0; 3] };
    config.known.struct_size = size_of::<NewerConfig>() as u64;
    let init = |config: &NewerConfig, data: &mut [f32]| {
        let (mut handle, field) = (null_mut(), field(data));
        let config = std::ptr::from_ref(config).cast();
        // SAFETY: all pointers are to live Rust values.
        (unsafe { gpuzip_init(config, 20, &field, 1, &mut handle) }, handle)
    };
    let (status, handle) = init(&config, &mut data);
    assert_eq!(status, GPUZIP_OK, "{}", last_error());
    assert_eq!(gpuzip_finalize(handle), GPUZIP_OK);
    config.later[2] = 1 << 63;
    assert_eq!(init(&config, &mut data).0, GPUZIP_ERR_UNSUPPORTED);
    for part in ["struct_size = 392", "has 368", "byte 391", env!("CARGO_PKG_VERSION")] {
        assert!(last_error().contains(part), "{}", last_error());
    }
    config.later[2] = 0;
    config.known.policy = 1;
    // SAFETY: `config` has as many bytes as its `struct_size` says.
    assert_eq!(unsafe { gpuzip_config_free(std::ptr::from_mut(&mut config).cast()) }, GPUZIP_OK);
    assert_eq!(
        (config.known.struct_size, config.known.policy, config.later),
        (392, 0, [0; 3]),
        "the defaults, in its own size"
    );
}

/// Locked by tests that change environment variables, which all tests of the process share.
static ENVIRONMENT: Mutex<()> = Mutex::new(());

fn load(content: &str) -> (i32, gpuzip_config_t) {
    let mut file = tempfile(content);
    let (path, mut loaded) = (CString::new(file.0.to_str().unwrap()).unwrap(), config());
    // SAFETY: both pointers are to live values.
    let status = unsafe { gpuzip_config_load(path.as_ptr(), &mut loaded) };
    file.1.flush().unwrap();
    std::fs::remove_file(&file.0).unwrap();
    (status, loaded)
}

fn tempfile(content: &str) -> (std::path::PathBuf, std::fs::File) {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let name =
        format!("gpuzip-{}-{}.cfg", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
    let path = std::env::temp_dir().join(name);
    let mut file = std::fs::File::create(&path).unwrap();
    file.write_all(content.as_bytes()).unwrap();
    (path, file)
}

#[test]
fn files_and_variables_are_loaded() {
    let _guard = ENVIRONMENT.lock();
    let (status, mut loaded) = load(
        "# GPUZIP's own format\ncheckpointing_algorithm = zcut\ncheckpointing_snaps=12\nenable_performance_log = true\n\
         compression_factor = 2.5\ntrace_file_path = \"a b.txt\"\nbitcomp_delta = 1e-8\ndevice_budget = 3G\npolicy = lru\n",
    );
    assert_eq!(status, GPUZIP_OK, "{}", last_error());
    assert_eq!(
        (loaded.checkpointing_algorithm, loaded.checkpointing_snaps, loaded.enable_performance_log),
        (3, 12, 1)
    );
    assert_eq!(
        (loaded.compression_factor, loaded.bitcomp_delta, loaded.device_budget),
        (2.5, 1e-8, 3 << 30)
    );
    assert_eq!(loaded.policy, GPUZIP_POLICY_LRU);
    // SAFETY: the string lives until the configuration is freed.
    assert_eq!(unsafe { CStr::from_ptr(loaded.trace_file_path) }, c"a b.txt");
    // SAFETY: `loaded` is a valid configuration; a second free is allowed.
    unsafe {
        assert_eq!(gpuzip_config_free(&mut loaded), GPUZIP_OK);
        assert!(loaded.trace_file_path.is_null());
        assert_eq!(gpuzip_config_free(&mut loaded), GPUZIP_OK);
    }
    std::env::set_var("GPUZIP_CACHE_CAPACITY", "7");
    let (status, loaded) = load("cache_capacity = 3\n");
    std::env::remove_var("GPUZIP_CACHE_CAPACITY");
    assert_eq!((status, loaded.cache_capacity), (GPUZIP_OK, 7), "variables win over the file");
    std::env::set_var("GPUZIP_POLICY", "random");
    let status = load("").0;
    std::env::remove_var("GPUZIP_POLICY");
    assert_eq!(status, GPUZIP_ERR_CONFIG);
    assert!(last_error().contains("GPUZIP_POLICY: policy = \"random\""), "{}", last_error());
}

#[test]
fn bad_files_name_the_culprit() {
    let _guard = ENVIRONMENT.lock();
    for (content, status, part) in [
        ("cache_capacity = many\n", GPUZIP_ERR_CONFIG, "line 1: cache_capacity = \"many\""),
        ("\ncache_capacty = 3\n", GPUZIP_ERR_CONFIG, "line 2: unknown key \"cache_capacty\": did you mean cache_capacity?"),
        ("cache_capacity 3\n", GPUZIP_ERR_PARSE, "line 1"),
        ("cache_capacity = 99999999999\n", GPUZIP_ERR_CONFIG, "99999999999"),
        ("device_budget = 99999999999T\n", GPUZIP_ERR_CONFIG, "byte count"),
        ("device_budget = -1\n", GPUZIP_ERR_CONFIG, "byte count"),
        (
            "compressor = sz3\n",
            GPUZIP_ERR_CONFIG,
            "use none (0), zfp (1), bitcomp (2), cuszp (3), lorenzo (4), dct (5), fp16 (6), bfp (7), auto (15)",
        ),
        ("policy = 2\n", GPUZIP_ERR_CONFIG, "line 1: policy = \"2\": use clairvoyant (0), lru (1)"),
        ("cache_capacity = -1\n", GPUZIP_ERR_CONFIG, "a whole number from 0 to 2147483647"),
        ("cache_capacity = 1.5\n", GPUZIP_ERR_CONFIG, "a whole number"),
        ("link_bandwidth = fast\n", GPUZIP_ERR_CONFIG, "bytes per second"),
        ("float_kind = half\n", GPUZIP_ERR_CONFIG, "use float or double"),
        ("algorithm = 1\n", GPUZIP_ERR_CONFIG, "did you mean checkpointing_algorithm?"),
        ("Cache_Capacity = 1\n", GPUZIP_ERR_CONFIG, "did you mean cache_capacity?"),
        ("something = 1\n", GPUZIP_ERR_CONFIG, "`gpuzip config` lists them"),
        ("policy = 1\npolicy = 1\n", GPUZIP_ERR_PARSE, "line 2: policy was set in line 1 already"),
        ("trace_out = a\0b\n", GPUZIP_ERR_CONFIG, "contains a NUL"),
        ("error_bound = inf\n", GPUZIP_ERR_CONFIG, "error_bound"),
        ("bitcomp_delta = 1,5\n", GPUZIP_ERR_CONFIG, "1,5"),
        ("struct_size = 3\n", GPUZIP_ERR_CONFIG, "struct_size"),
    ] {
        let (got, loaded) = load(content);
        assert_eq!(got, status, "{content}");
        assert!(last_error().contains(part), "{}", last_error());
        assert_eq!(loaded.cache_capacity, 0, "unchanged on an error");
    }
    let mut config = config();
    assert_eq!(
        // SAFETY: both pointers are to live values.
        unsafe { gpuzip_config_load(c"/no/such/config".as_ptr(), &mut config) },
        GPUZIP_ERR_IO
    );
    assert!(last_error().contains("/no/such/config"));
}

/// Names in any case, numbers in every allowed spelling, and files with the line ends and byte
/// order marks that editors write.
#[test]
fn values_are_read_as_people_write_them() {
    let _guard = ENVIRONMENT.lock();
    let value = |content: &str| {
        let (status, loaded) = load(content);
        assert_eq!(status, GPUZIP_OK, "{content}: {}", last_error());
        loaded
    };
    assert_eq!(value("compressor = DCT\n").compressor, 5);
    assert_eq!(value("compressor = 200\n").compressor, 200);
    assert_eq!(
        value("checkpointing_algorithm = Store_All\n").checkpointing_algorithm,
        GPUZIP_ALGORITHM_STORE_ALL
    );
    assert_eq!(
        value("checkpointing_snaps = 1e4\r\nlog_level = Info\r\n").checkpointing_snaps,
        10_000
    );
    assert_eq!(value("\u{feff}device_budget = 12GB\n").device_budget, 12_000_000_000);
    assert_eq!(value("host_budget = 1.5GiB").host_budget, 3 << 29);
    assert_eq!(value("link_bandwidth = 2G\n").link_bandwidth, 2147483648.0);
    // SAFETY: the string stays valid until the process ends.
    assert_eq!(unsafe { CStr::from_ptr(value("float_kind = Double\n").float_kind) }, c"double");
}

/// A file with very many keys, a very long key or a very long value is refused within the time of
/// reading it, and the error text still says what to do.
#[test]
fn large_files_are_refused_early() {
    let _guard = ENVIRONMENT.lock();
    let many: String = (0..80_000).map(|k| format!("k{k} = 1\n")).collect();
    let comments = "# x\n".repeat(250_000);
    for (content, status, part) in [
        (many, GPUZIP_ERR_CONFIG, "line 1: unknown key \"k0\""),
        (format!("{} = 1\n", "k".repeat(1 << 19)), GPUZIP_ERR_CONFIG, "(524288 bytes): keys are"),
        (
            format!("trace_out = {}\n", "v".repeat(1 << 19)),
            GPUZIP_ERR_CONFIG,
            "(524288 bytes): is longer than any path",
        ),
        (
            format!("compressor = {}\n", "v".repeat(3000)),
            GPUZIP_ERR_CONFIG,
            "(3000 bytes): use none (0)",
        ),
        ("=".repeat(1 << 19), GPUZIP_ERR_PARSE, "no key"),
        ("x".repeat(1 << 19), GPUZIP_ERR_PARSE, "(524288 bytes) is not `key = value`"),
        (format!("{comments}policy = 1\n"), GPUZIP_OK, ""),
        ("\n".repeat((1 << 20) + 1), GPUZIP_ERR_IO, "at most 1048576 bytes"),
    ] {
        assert_eq!(load(&content).0, status, "{}", last_error());
        assert!(last_error().contains(part), "{}", last_error());
    }
}

/// Freeing a copy of a configuration, a configuration that was never loaded, or a configuration
/// twice takes no strings from other configurations.
#[test]
fn freeing_a_configuration_takes_no_strings_from_another() {
    let _guard = ENVIRONMENT.lock();
    let text = |config: &gpuzip_config_t| {
        // SAFETY: the string stays valid until the process ends.
        unsafe { CStr::from_ptr(config.trace_out) }.to_str().unwrap().to_owned()
    };
    // SAFETY: `config` is a valid configuration.
    let free = |config: &mut gpuzip_config_t| unsafe { gpuzip_config_free(config) };
    let loaded: Vec<gpuzip_config_t> =
        (0..9).map(|k| load(&format!("trace_out = name of this test {k}\n")).1).collect();
    let mut never = config();
    never.reserved[10] = 3;
    assert_eq!(free(&mut never), GPUZIP_OK);
    for mut copy in loaded.clone() {
        assert_eq!((free(&mut copy), free(&mut copy)), (GPUZIP_OK, GPUZIP_OK));
        assert!(copy.trace_out.is_null());
    }
    for (k, config) in loaded.iter().enumerate() {
        assert_eq!(text(config), format!("name of this test {k}"));
    }
}

/// The table of keys has every field that a file may set, and accepts the default value of each.
#[test]
fn the_table_of_keys_is_the_struct() {
    let header = include_str!("../../include/gpuzip.h");
    let (_, rest) = header.split_once("typedef struct gpuzip_config_t {").unwrap();
    let (body, _) = rest.split_once("} gpuzip_config_t;").unwrap();
    let types = ["int32_t ", "uint64_t ", "float ", "double ", "char *", "const char *"];
    let declared =
        |line: &'static str| types.iter().find_map(|name| line.trim().strip_prefix(name));
    let names =
        body.lines().filter_map(declared).filter_map(|rest| rest.split([';', ' ', '[']).next());
    let fields: Vec<&str> =
        names.filter(|name| *name != "struct_size" && !name.starts_with("reserved")).collect();
    assert_eq!(fields, KEYS.iter().map(|key| key.name).collect::<Vec<_>>());
    for key in KEYS {
        let mut config = config();
        key.set(&mut config, &key.default_value(), |_| Ok(null())).unwrap();
        assert_eq!(format!("{config:?}"), format!("{:?}", self::config()), "{}", key.name);
        assert!(!key.doc.is_empty() && !key.choices().is_empty());
    }
}

#[test]
fn output_structs_may_be_older_or_newer() {
    let mut data = vec![0f32; 4];
    let (_, handle) = init(&revolve(2, 1), 5, &[field(&mut data)]);
    let mut buffer = vec![0xffu8; size_of::<gpuzip_stats_t>() + 64];
    for size in [8, 40, size_of::<gpuzip_stats_t>(), size_of::<gpuzip_stats_t>() + 64] {
        buffer.fill(0xff);
        buffer[..8].copy_from_slice(&(size as u64).to_ne_bytes());
        // SAFETY: the buffer has as many bytes as its `struct_size` says.
        assert_eq!(unsafe { gpuzip_stats(handle, buffer.as_mut_ptr().cast()) }, GPUZIP_OK);
        let known = size.min(size_of::<gpuzip_stats_t>());
        assert!(buffer[8..known.min(136)].iter().all(|&b| b == 0), "no counts yet, size {size}");
        assert!(
            buffer[known..size].iter().all(|&b| b == 0),
            "what we do not know is zero, size {size}"
        );
        assert!(buffer[size..].iter().all(|&b| b == 0xff), "nothing beyond, size {size}");
    }
    for size in [0u64, 7, 1 << 40] {
        buffer[..8].copy_from_slice(&size.to_ne_bytes());
        assert_eq!(
            // SAFETY: the call refuses the size and reads nothing else.
            unsafe { gpuzip_stats(handle, buffer.as_mut_ptr().cast()) },
            GPUZIP_ERR_ARGUMENT
        );
        assert!(last_error().contains("struct_size"));
    }
    gpuzip_finalize(handle);
}

#[test]
fn the_estimate_is_what_init_takes() {
    let mut data = vec![0f32; 1000];
    let fields = [field(&mut data)];
    let config = gpuzip_config_t { device_budget: 3 * 4096, host_budget: 8 * 4096, ..config() };
    let new = || gpuzip_summary_t {
        struct_size: size_of::<gpuzip_summary_t>() as u64,
        ..Default::default()
    };
    let (mut before, mut after) = (new(), new());
    let (status, handle) = init(&config, 400, &fields);
    assert_eq!(status, GPUZIP_OK);
    // SAFETY: all pointers are to live values.
    unsafe {
        assert_eq!(
            gpuzip_memory_required(&config, 400, fields.as_ptr(), 1, &mut before),
            GPUZIP_OK
        );
        assert_eq!(gpuzip_summary(handle, &mut after), GPUZIP_OK);
        assert_eq!(
            gpuzip_memory_required(&config, -1, fields.as_ptr(), 1, &mut before),
            GPUZIP_ERR_ARGUMENT
        );
    }
    assert_eq!(format!("{before:?}"), format!("{after:?}"));
    assert!(
        before.device_bytes <= 3 * 4096
            && before.host_bytes <= 8 * 4096
            && before.slot_bytes == 4096
    );
    assert!(before.max_live <= before.snapshots as u64);
    assert!(before.bound_s > 0.0 && before.bound_s <= before.predicted_s, "{before:?}");
    gpuzip_finalize(handle);

    // The bound is of the clairvoyant policy.
    let config = gpuzip_config_t { policy: 1, ..config };
    let mut published = new();
    // SAFETY: all pointers are to live values.
    let status =
        unsafe { gpuzip_memory_required(&config, 400, fields.as_ptr(), 1, &mut published) };
    assert_eq!((status, published.predicted_s, published.bound_s), (GPUZIP_OK, 0.0, 0.0));
}

/// A shot whose largest snapshot is larger than expected changes the slots of the next shot. All slots
/// together take no more host memory than the budget, since compressed snapshots share its bytes.
#[test]
fn larger_snapshots_leave_the_host_budget() {
    let mut data = vec![0f32; 4096];
    let fields = [field(&mut data)];
    let config = gpuzip_config_t {
        checkpointing_algorithm: GPUZIP_ALGORITHM_REVOLVE,
        checkpointing_snaps: 8,
        compressor: GPUZIP_COMPRESSOR_LORENZO,
        compression_factor: 8.0,
        device_budget: 6 * 2048,
        host_budget: 8 * 2048,
        backend: 1,
        ..config()
    };
    let (status, handle) = init(&config, 60, &fields);
    assert_eq!(status, GPUZIP_OK, "{}", last_error());
    let summary = || {
        let mut summary = gpuzip_summary_t {
            struct_size: size_of::<gpuzip_summary_t>() as u64,
            ..Default::default()
        };
        // SAFETY: the summary is a live value.
        assert_eq!(unsafe { gpuzip_summary(handle, &mut summary) }, GPUZIP_OK);
        summary
    };
    let before = summary();
    let mut action = gpuzip_action_t::default();
    loop {
        // SAFETY: the action is a live value, and the field points to the data.
        unsafe {
            assert_eq!(gpuzip_get_action(handle, &mut action), GPUZIP_OK, "{}", last_error());
            match action.r#type {
                GPUZIP_ACTION_TERMINATE => break,
                GPUZIP_ACTION_SAVE => {
                    // Only u(0) is hard to compress.
                    let noise = |i: u32| i.wrapping_mul(2_654_435_769) as f32;
                    let value = |i: u32| if action.ts == 0 { noise(i) } else { 1.0 };
                    data.iter_mut().zip(0..).for_each(|(data, i)| *data = value(i));
                    let status = gpuzip_save(handle, action.ts, fields.as_ptr(), 1, null_mut());
                    assert_eq!(status, GPUZIP_OK, "{}", last_error());
                }
                GPUZIP_ACTION_RESTORE => {
                    let status = gpuzip_retrieve(handle, action.ts, fields.as_ptr(), 1, null_mut());
                    assert_eq!(status, GPUZIP_OK, "{}", last_error());
                }
                _ => {}
            }
        }
    }
    assert_eq!(gpuzip_setup(handle), GPUZIP_OK, "{}", last_error());
    let after = summary();
    assert!(after.slot_bytes > before.slot_bytes && after.cache < before.cache, "{after:?}");
    assert!(after.host_bytes > 0 && after.host_bytes <= config.host_budget, "{after:?}");
    assert_eq!(gpuzip_finalize(handle), GPUZIP_OK);
}

/// With BACKWARDs of several time steps a shot still computes every time step.
#[test]
fn the_predicted_time_counts_time_steps() {
    let mut data = vec![0f32; 1000];
    let fields = [field(&mut data)];
    let predicted = |adjoint_every, steps| {
        let config = gpuzip_config_t { device_budget: 1 << 23, adjoint_every, ..config() };
        let mut summary = gpuzip_summary_t {
            struct_size: size_of::<gpuzip_summary_t>() as u64,
            ..Default::default()
        };
        // SAFETY: all pointers are to live values.
        let status =
            unsafe { gpuzip_memory_required(&config, steps, fields.as_ptr(), 1, &mut summary) };
        assert_eq!((status, summary.steps), (GPUZIP_OK, steps));
        assert!(0.0 < summary.bound_s && summary.bound_s <= summary.predicted_s, "{summary:?}");
        summary.predicted_s
    };
    // All states are stored, so that fewer snapshots are all that changes.
    let every = [1, 4, 50].map(|every| predicted(every, 400));
    assert!(every[0] > every[1] && every[1] > every[2], "{every:?}");
    assert!(every[2] > predicted(1, 200), "{every:?}");
}

#[test]
fn streams_of_impossible_sizes_are_refused() {
    let (byte, mut x) = (0u8, [0f32; 4]);
    let field = gpuzip_field_t {
        data: x.as_mut_ptr().cast(),
        n1: 4,
        n2: 1,
        n3: 1,
        r#type: GPUZIP_TYPE_F32,
        role: 0,
        ..field(&mut [])
    };
    let mut info = gpuzip_codec_info_t {
        struct_size: size_of::<gpuzip_codec_info_t>() as u64,
        ..Default::default()
    };
    for bytes in [u64::MAX, 1 << 63] {
        // SAFETY: the calls refuse a length that no memory can have, and read nothing of the
        // stream.
        let statuses = unsafe {
            let stream = (&raw const byte).cast();
            [
                gpuzip_codec_decompress(stream, bytes, &field, 1),
                gpuzip_codec_info(stream, bytes, 0, &mut info),
            ]
        };
        assert_eq!(statuses, [GPUZIP_ERR_ARGUMENT; 2]);
    }
    assert_eq!(
        // SAFETY: the stream is NULL, which the call refuses.
        unsafe { gpuzip_codec_info(std::ptr::null(), 0, 0, &mut info) },
        GPUZIP_ERR_ARGUMENT
    );
}

#[test]
fn sizes_that_no_memory_has_are_refused() {
    let huge = [gpuzip_field_t { n1: 1 << 55, ..field(&mut [0.0]) }];
    let mut summary = gpuzip_summary_t {
        struct_size: size_of::<gpuzip_summary_t>() as u64,
        ..Default::default()
    };
    // SAFETY: all pointers are to live values.
    let status =
        unsafe { gpuzip_memory_required(&revolve(500, 2), 1000, huge.as_ptr(), 1, &mut summary) };
    assert_eq!(status, GPUZIP_ERR_MEMORY, "{}", last_error());
    // A schedule with more saves and restores than a plan can number.
    let status = init(
        &gpuzip_config_t { checkpointing_algorithm: GPUZIP_ALGORITHM_STORE_ALL, ..config() },
        i32::MAX,
        &[field(&mut [0.0])],
    )
    .0;
    assert!(matches!(status, GPUZIP_ERR_BUDGET | GPUZIP_ERR_MEMORY), "{status}: {}", last_error());
}

#[test]
fn every_session_counts_even_if_another_was_set_up_first() {
    let (mut data, mut schedule, mut a, mut b) =
        (vec![0f32; 1000], null_mut(), null_mut(), null_mut());
    let fields = [field(&mut data)];
    let budget =
        |slots: u64| gpuzip_config_t { host_budget: slots * 4096, backend: 1, ..revolve(0, 0) };
    // SAFETY: all pointers are to live values.
    unsafe {
        assert_eq!(gpuzip_schedule_create(&budget(20), 300, &mut schedule), GPUZIP_OK);
        assert_eq!(gpuzip_attach(schedule, &budget(20), fields.as_ptr(), 1, &mut a), GPUZIP_OK);
        assert_eq!(gpuzip_setup(a), GPUZIP_OK);
        assert_eq!(gpuzip_attach(schedule, &budget(5), fields.as_ptr(), 1, &mut b), GPUZIP_OK);
    }
    assert_eq!(gpuzip_setup(b), GPUZIP_OK);
    assert_eq!(action(a).0, GPUZIP_OK, "{}", last_error());
    assert_eq!(gpuzip_dispatch(b, 0), GPUZIP_OK);
    // A session that missed a rewind of its schedule returns an error before it does anything.
    assert_eq!(gpuzip_schedule_rewind(schedule), GPUZIP_OK);
    assert_eq!(action(b).0, GPUZIP_ERR_STATE);
    assert_eq!((gpuzip_setup(a), gpuzip_setup(b)), (GPUZIP_OK, GPUZIP_OK));
    assert_eq!(
        action(b),
        (GPUZIP_OK, gpuzip_action_t { r#type: GPUZIP_ACTION_SAVE, ..Default::default() })
    );
    for handle in [a, b] {
        assert_eq!(gpuzip_finalize(handle), GPUZIP_OK);
    }
    assert_eq!(gpuzip_schedule_release(schedule), GPUZIP_OK);
}

#[test]
fn schedules_work_by_themselves() {
    let (mut schedule, mut action, mut reversed) =
        (null_mut(), gpuzip_action_t::default(), Vec::new());
    // SAFETY: all pointers are to live values.
    unsafe {
        assert_eq!(gpuzip_schedule_create(&revolve(3, 0), 10, &mut schedule), GPUZIP_OK);
        for sweep in 0..2 {
            for it in 0.. {
                assert_eq!(gpuzip_schedule_get_action(schedule, &mut action), GPUZIP_OK);
                assert_eq!(action.it, it);
                match action.r#type {
                    GPUZIP_ACTION_BACKWARD => reversed.push(action.ts),
                    GPUZIP_ACTION_TERMINATE => break,
                    _ => {}
                }
            }
            assert_eq!(reversed, (0..10).rev().collect::<Vec<_>>(), "sweep {sweep}");
            reversed.clear();
            assert_eq!(gpuzip_schedule_get_action(schedule, &mut action), GPUZIP_ERR_STATE);
            assert_eq!(gpuzip_schedule_rewind(schedule), GPUZIP_OK);
        }
        let mut summary = gpuzip_summary_t {
            struct_size: size_of::<gpuzip_summary_t>() as u64,
            ..Default::default()
        };
        assert_eq!(gpuzip_schedule_summary(schedule, &mut summary), GPUZIP_OK);
        assert_eq!(
            (summary.steps, summary.backward_steps, summary.forward_steps),
            (10, 10, crate::schedule::forward_steps(10, 3))
        );
        assert_eq!(gpuzip_schedule_release(schedule), GPUZIP_OK);
    }
}

#[test]
fn ranges_are_of_the_schedules_own_configuration() {
    let (mut schedule, mut action, mut data) =
        (null_mut(), gpuzip_action_t::default(), vec![0f32; 4]);
    let (mut follower, fields) = (null_mut(), [field(&mut data)]);
    let mut summary = gpuzip_summary_t {
        struct_size: size_of::<gpuzip_summary_t>() as u64,
        ..Default::default()
    };
    let mut stats =
        gpuzip_stats_t { struct_size: size_of::<gpuzip_stats_t>() as u64, ..Default::default() };
    let config = gpuzip_config_t { backend: 1, range_actions: 1, ..revolve(1, 0) };
    let (mut ranges, mut actions) = (Vec::new(), 0);
    // SAFETY: all pointers are to live values.
    unsafe {
        assert_eq!(gpuzip_schedule_create(&config, 5, &mut schedule), GPUZIP_OK);
        assert_eq!(
            gpuzip_attach(
                schedule,
                &gpuzip_config_t { range_actions: 0, ..config },
                fields.as_ptr(),
                1,
                &mut follower
            ),
            GPUZIP_OK
        );
        while action.r#type != GPUZIP_ACTION_TERMINATE {
            assert_eq!(gpuzip_schedule_get_action(schedule, &mut action), GPUZIP_OK);
            assert_eq!(gpuzip_dispatch(follower, action.it), GPUZIP_OK);
            actions += 1;
            match action.r#type {
                GPUZIP_ACTION_FORWARD => ranges.push((action.ts, action.ts_end)),
                GPUZIP_ACTION_SAVE => assert_eq!(
                    gpuzip_save(follower, action.ts, fields.as_ptr(), 1, null_mut()),
                    GPUZIP_OK
                ),
                GPUZIP_ACTION_RESTORE => assert_eq!(
                    gpuzip_retrieve(follower, action.ts, fields.as_ptr(), 1, null_mut()),
                    GPUZIP_OK
                ),
                _ => assert_eq!(action.ts, action.ts_end),
            }
        }
        assert_eq!(ranges, [(1, 4), (1, 3), (1, 2), (1, 1)]);
        assert_eq!(gpuzip_schedule_summary(schedule, &mut summary), GPUZIP_OK);
        assert_eq!(gpuzip_stats(follower, &mut stats), GPUZIP_OK);
        assert_eq!(
            (summary.actions, summary.forward_steps, stats.forward_steps),
            (actions, 10, 10)
        );
        assert_eq!(
            (gpuzip_finalize(follower), gpuzip_schedule_release(schedule)),
            (GPUZIP_OK, GPUZIP_OK)
        );
    }
}

/// A session may repeat `adjoint_every` of its schedule, or leave it 0, and not contradict it.
#[test]
fn macro_steps_are_of_the_schedules_own_configuration() {
    let (mut schedule, mut follower, mut data) = (null_mut(), null_mut(), vec![0f32; 4]);
    let fields = [field(&mut data)];
    let config = gpuzip_config_t { backend: 1, adjoint_every: 3, ..revolve(1, 0) };
    let mut attach = |schedule, config: &gpuzip_config_t| {
        // SAFETY: all pointers are to live values.
        let status = unsafe { gpuzip_attach(schedule, config, fields.as_ptr(), 1, &mut follower) };
        if status == GPUZIP_OK {
            assert_eq!(gpuzip_finalize(follower), GPUZIP_OK);
        }
        status
    };
    for own in [0, 1, 3] {
        let plain = gpuzip_config_t { adjoint_every: own, ..config };
        // SAFETY: all pointers are to live values.
        unsafe { assert_eq!(gpuzip_schedule_create(&plain, 10, &mut schedule), GPUZIP_OK) };
        for of_session in 0..5 {
            let config = gpuzip_config_t { adjoint_every: of_session, ..config };
            let status = attach(schedule, &config);
            if of_session < 2 || of_session == own {
                assert_eq!(status, GPUZIP_OK, "{}", last_error());
            } else {
                assert_eq!(status, GPUZIP_ERR_CONFIG);
                let text = last_error();
                assert!(text.contains(&format!("adjoint_every = {of_session}: ")), "{text}");
                assert!(text.contains(&format!("has adjoint_every = {}", own.max(1))), "{text}");
            }
        }
        let shared = gpuzip_config_t { adjoint_every: 0, shared_levels: 1, ..config };
        let status = attach(schedule, &shared);
        assert_eq!(status, if own == 3 { GPUZIP_ERR_UNSUPPORTED } else { GPUZIP_OK });
        assert_eq!(gpuzip_schedule_release(schedule), GPUZIP_OK);
    }
}

/// A summary counts time steps; snapshots and leads are those of macro-steps.
#[test]
fn a_summary_counts_time_steps() {
    let summary = |every: i32, steps: i32| {
        let mut data = vec![0f32; 4];
        let config = gpuzip_config_t { adjoint_every: every, cache_capacity: 3, ..revolve(7, 0) };
        let (_, handle) = init(&config, steps, &[field(&mut data)]);
        let mut summary = gpuzip_summary_t {
            struct_size: size_of::<gpuzip_summary_t>() as u64,
            ..Default::default()
        };
        // SAFETY: all pointers are to live values.
        unsafe { assert_eq!(gpuzip_summary(handle, &mut summary), GPUZIP_OK) };
        assert_eq!(gpuzip_finalize(handle), GPUZIP_OK);
        summary
    };
    let whole = summary(0, 50);
    for steps in 246..=250 {
        let sparse = summary(5, steps);
        assert_eq!((sparse.steps, sparse.backward_steps), (steps, steps as u64));
        assert_eq!(sparse.forward_steps, 5 * whole.forward_steps);
        assert_eq!((sparse.saves, sparse.restores), (whole.saves, whole.restores));
        assert_eq!((sparse.snapshots, sparse.max_live), (whole.snapshots, whole.max_live));
        assert_eq!((sparse.h2d, sparse.d2h), (whole.h2d, whole.d2h));
        assert!(whole.min_lead > 0 && sparse.min_lead == 5 * whole.min_lead);
        assert_eq!(sparse.mean_lead, 5.0 * whole.mean_lead);
        // Each FORWARD of a macro-step is an action, and each BACKWARD of one is a single action.
        assert_eq!(sparse.actions, whole.actions + 4 * whole.forward_steps);
    }
}

/// Processes number their handles alike; the number of another process is an error all the same.
#[test]
fn a_number_of_another_process_is_no_handle() {
    let mut data = vec![0f32; 100];
    let (status, own) = init(&revolve(2, 1), 5, &[field(&mut data)]);
    assert_eq!(status, GPUZIP_OK);
    if let Ok(number) = std::env::var("GPUZIP_TEST_HANDLE") {
        let other = number.parse::<usize>().unwrap() as *mut gpuzip_t;
        assert_ne!(own, other);
        assert_eq!(gpuzip_setup(other), GPUZIP_ERR_HANDLE);
        let parent = format!("handle of process {}", std::os::unix::process::parent_id());
        assert!(last_error().contains(&parent), "{}", last_error());
    } else {
        let mut process = std::process::Command::new(std::env::current_exe().unwrap());
        process.args(["--exact", "capi::tests::a_number_of_another_process_is_no_handle"]);
        let ran = process.env("GPUZIP_TEST_HANDLE", (own as usize).to_string()).output().unwrap();
        let said = String::from_utf8_lossy(&ran.stdout);
        assert!(ran.status.success() && said.contains("1 passed"), "{said}");
    }
    assert_eq!(gpuzip_setup(own), GPUZIP_OK);
    gpuzip_finalize(own);
}

/// Settings that have no effect, or another one than somebody who sets them expects, are warnings,
/// which reach the callback.
#[test]
fn settings_without_effect_are_warnings_for_the_callback() {
    static LINES: Mutex<Vec<(i32, String)>> = Mutex::new(Vec::new());
    unsafe extern "C" fn collect(level: i32, message: *const c_char, user: *mut c_void) {
        assert_eq!(user as usize, 42);
        // SAFETY: the library passes a NUL-terminated string to its log callback.
        let text = unsafe { CStr::from_ptr(message) }.to_string_lossy().into_owned();
        LINES.lock().unwrap().push((level, text));
    }
    let store_all = GPUZIP_ALGORITHM_STORE_ALL;
    let cases = [
        (gpuzip_config_t { device_budget: 100, ..revolve(2, 1) }, "device_budget = 100"),
        (
            gpuzip_config_t { checkpointing_algorithm: store_all, ..revolve(3, 0) },
            "checkpointing_snaps = 3 has no effect: store-all keeps all 10 states",
        ),
        (
            gpuzip_config_t { host_budget: 2 * 4096, disk_budget: 1 << 20, ..revolve(0, 0) },
            "disk_budget = 1048576 is not used",
        ),
        (
            gpuzip_config_t {
                compressor: GPUZIP_COMPRESSOR_LORENZO,
                host_budget: 1 << 20,
                ..revolve(0, 0)
            },
            "lorenzo: nothing says by how much snapshots shrink",
        ),
    ];
    assert_eq!(gpuzip_set_log_callback(Some(collect), 42 as *mut c_void), GPUZIP_OK);
    for (config, _) in &cases {
        let mut data = vec![0f32; 1000];
        let (status, handle) = init(config, 11, &[field(&mut data)]);
        assert_eq!(status, GPUZIP_OK, "{}", last_error());
        gpuzip_finalize(handle);
    }
    assert_eq!(gpuzip_set_log_callback(None, null_mut()), GPUZIP_OK);
    let lines = LINES.lock().unwrap();
    for (_, expected) in cases {
        let said = |(level, text): &(i32, String)| *level == 2 && text.contains(expected);
        assert!(lines.iter().any(said), "{expected}: {lines:?}");
    }
}

#[test]
fn statuses_are_the_codes_and_have_names() {
    use crate::error::Code;
    let pairs = [
        (Code::Argument, GPUZIP_ERR_ARGUMENT),
        (Code::Config, GPUZIP_ERR_CONFIG),
        (Code::Unsupported, GPUZIP_ERR_UNSUPPORTED),
        (Code::Shape, GPUZIP_ERR_SHAPE),
        (Code::Values, GPUZIP_ERR_VALUES),
        (Code::State, GPUZIP_ERR_STATE),
        (Code::Handle, GPUZIP_ERR_HANDLE),
        (Code::Forked, GPUZIP_ERR_FORKED),
        (Code::Callback, GPUZIP_ERR_CALLBACK),
        (Code::Memory, GPUZIP_ERR_MEMORY),
        (Code::Budget, GPUZIP_ERR_BUDGET),
        (Code::Io, GPUZIP_ERR_IO),
        (Code::Parse, GPUZIP_ERR_PARSE),
        (Code::Schedule, GPUZIP_ERR_SCHEDULE),
        (Code::Stream, GPUZIP_ERR_STREAM),
        (Code::Device, GPUZIP_ERR_DEVICE),
        (Code::Panic, GPUZIP_ERR_PANIC),
        (Code::Poisoned, GPUZIP_ERR_POISONED),
    ];
    // SAFETY: the names of statuses are static strings.
    let name = |status| unsafe { CStr::from_ptr(gpuzip_status_string(status)) };
    for (code, status) in pairs {
        assert_eq!(code as i32, status);
        assert_ne!(name(status), c"unknown status");
    }
    assert_eq!(
        (name(0), name(3), name(-7)),
        (c"success", c"success with a warning", c"unknown status")
    );
    // SAFETY: the library returns static strings.
    assert_eq!(unsafe { CStr::from_ptr(gpuzip_version()) }.to_str(), Ok(env!("CARGO_PKG_VERSION")));
    assert_eq!(gpuzip_abi_version(), crate::ABI_VERSION);
    use crate::schedule::Algorithm;
    for algorithm in Algorithm::ALL {
        assert_eq!(
            // SAFETY: the library returns static strings.
            unsafe { CStr::from_ptr(gpuzip_algorithm_name(algorithm as i32)) }.to_str(),
            Ok(algorithm.name())
        );
    }
}

#[test]
fn a_profile_tells_both_directions_together() {
    use crate::predict::{CodecProfile, Profile};
    let codec = CodecProfile { ratio: 4.0, worst_ratio: 3.0, ..Default::default() };
    let codec = CodecProfile { compress_gbs: 1.0, decompress_gbs: 2.0, ..codec };
    for (both_gbs, codecs) in [(0.0, vec![]), (30.5, vec![]), (30.5, vec![codec])] {
        let worst = codecs.first().map_or(0.0, |codec: &CodecProfile| codec.worst_ratio);
        let bytes = Profile { both_gbs, codecs, ..Profile::typical_gpu(1 << 20) }.to_bytes();
        let mut info = gpuzip_profile_info_t {
            struct_size: size_of::<gpuzip_profile_info_t>() as u64,
            ..Default::default()
        };
        // SAFETY: the pointers are to live Rust values.
        let status =
            unsafe { gpuzip_profile_info(bytes.as_ptr().cast(), bytes.len() as u64, 0, &mut info) };
        assert_eq!((status, info.both_gbs, info.worst_ratio), (GPUZIP_OK, both_gbs, worst));
        assert_eq!((info.h2d_gbs, info.reserved), (25.0, [0; 3]));
    }
}
