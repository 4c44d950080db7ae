use super::tests::{config, field, init, last_error, revolve};
use super::*;
use std::ffi::{c_char, c_void, CStr, CString};
use std::io::Write as _;
use std::mem::size_of;
use std::ptr::{null, null_mut};
use std::sync::Mutex;

#[test]
fn bad_configurations_name_the_field() {
    let mut data = vec![0f32; 4];
    let fields = [field(&mut data)];
    type Change = fn(&mut gpuzip_config_t);
    let cases: [(Change, i32, &str); 54] = [
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
        (|c| c.policy = 2, GPUZIP_ERR_CONFIG, "policy = 2"),
        (|c| c.snapshot_rule = 2, GPUZIP_ERR_CONFIG, "snapshot_rule = 2"),
        (|c| c.uniform_reading = -1, GPUZIP_ERR_CONFIG, "uniform_reading = -1"),
        (|c| c.schedule_chunk = -1, GPUZIP_ERR_CONFIG, "schedule_chunk = -1"),
        (|c| c.range_actions = 2, GPUZIP_ERR_CONFIG, "range_actions = 2"),
        (|c| c.link_bandwidth = f64::NAN, GPUZIP_ERR_CONFIG, "link_bandwidth = NaN"),
        (|c| c.nonfinite = 1, GPUZIP_ERR_UNSUPPORTED, "nonfinite = 1"),
        (|c| (c.shared_levels, c.policy) = (1, 1), GPUZIP_ERR_UNSUPPORTED, "policy = 1"),
        (|c| c.adjoint_every = -1, GPUZIP_ERR_CONFIG, "adjoint_every = -1"),
        (|c| c.codec_threads = 65, GPUZIP_ERR_CONFIG, "codec_threads = 65"),
        (|c| c.codec_threads = -2, GPUZIP_ERR_CONFIG, "codec_threads = -2"),
        (|c| c.sequences = 1, GPUZIP_ERR_CONFIG, "sequences = 1 with compressor = 0"),
        (
            |c| (c.compressor, c.fill_value) = (5, c"land".as_ptr()),
            GPUZIP_ERR_CONFIG,
            "fill_value = land: use nan, or the number",
        ),
        (
            |c| {
                (c.compressor, c.fill_value) = (5, c" NaN".as_ptr());
                (c.backend, c.device) = (2, 1);
            },
            GPUZIP_ERR_UNSUPPORTED,
            "fill_value = nan has no kernels: leave it out on CUDA",
        ),
        (
            |c| (c.compressor, c.fill_value) = (1, c"1e20".as_ptr()),
            GPUZIP_ERR_CONFIG,
            "fill_value = 1e20 with compressor = 1 (zfp)",
        ),
        (|c| c.difference_bound = 2, GPUZIP_ERR_CONFIG, "difference_bound = 2"),
        (|c| c.difference_bound = -1, GPUZIP_ERR_CONFIG, "difference_bound = -1"),
        (|c| c.shared_levels = 2, GPUZIP_ERR_CONFIG, "shared_levels = 2"),
        (|c| c.max_in_flight = -5, GPUZIP_ERR_CONFIG, "max_in_flight = -5"),
        (|c| c.stop_budget_s = -1.5, GPUZIP_ERR_CONFIG, "stop_budget_s = -1.5"),
        (|c| c.persist_overhead = f64::NAN, GPUZIP_ERR_CONFIG, "persist_overhead"),
        (|c| c.persist_overhead = 1.5, GPUZIP_ERR_CONFIG, "persist_overhead = 1.5"),
        (|c| c.persist_stages = c"\xff".as_ptr(), GPUZIP_ERR_CONFIG, "persist_stages = \"\\xff\""),
        (|c| c.persist_whole_every = 101, GPUZIP_ERR_CONFIG, "persist_whole_every = 101"),
        (|c| c.enable_performance_log = -7, GPUZIP_ERR_CONFIG, "enable_performance_log = -7"),
        (
            |c| c.enable_compression_rate_log = 2,
            GPUZIP_ERR_CONFIG,
            "enable_compression_rate_log = 2",
        ),
        (|c| c.reserved[2] = 1, GPUZIP_ERR_CONFIG, "reserved[2] = 1"),
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
}

#[test]
fn texts_of_the_configuration_that_name_nothing_are_in_the_error() {
    let mut data = vec![0f32; 4];
    let fields = [field(&mut data)];
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
            "use none (0), zfp (1), bitcomp (2), cuszp (3), lorenzo (4), dct (5), fp16 (6), bfp (7), lossless (8), auto (15)",
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
    never.reserved[3] = 3;
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
        (
            gpuzip_config_t { reserved_huge_pages: 1, ..revolve(2, 0) },
            "huge_pages has no effect any more and can be removed",
        ),
        (load("huge_pages = never\n").1, ""),
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
