use super::*;
use std::cell::Cell;
use std::ffi::{c_void, CStr};
use std::mem::size_of;
use std::ptr::{null, null_mut};

thread_local! {
    static ARMED: Cell<bool> = const { Cell::new(false) };
}

/// Panics if a test has armed the call `name`; every call of the test build begins with this check.
pub(super) fn panic_if_armed(name: &str) {
    if ARMED.get() {
        panic!("injected into {name}");
    }
}

pub(super) fn last_error() -> String {
    // SAFETY: the error text belongs to this thread and is NUL-terminated.
    unsafe { CStr::from_ptr(gpuzip_last_error()) }.to_string_lossy().into_owned()
}

pub(super) fn config() -> gpuzip_config_t {
    let mut config = std::mem::MaybeUninit::uninit();
    // SAFETY: `gpuzip_config_init` fills the whole struct.
    unsafe {
        assert_eq!(gpuzip_config_init(config.as_mut_ptr()), GPUZIP_OK);
        config.assume_init()
    }
}

pub(super) fn revolve(snaps: i32, cache: i32) -> gpuzip_config_t {
    gpuzip_config_t {
        checkpointing_algorithm: GPUZIP_ALGORITHM_REVOLVE,
        checkpointing_snaps: snaps,
        cache_capacity: cache,
        ..config()
    }
}

pub(super) fn field(data: &mut [f32]) -> gpuzip_field_t {
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

pub(super) fn init(
    config: &gpuzip_config_t,
    steps: i32,
    fields: &[gpuzip_field_t],
) -> (i32, *mut gpuzip_t) {
    let mut handle = null_mut();
    // SAFETY: all pointers are to live Rust values.
    let status =
        unsafe { gpuzip_init(config, steps, fields.as_ptr(), fields.len() as u32, &mut handle) };
    (status, handle)
}

pub(super) fn action(handle: *mut gpuzip_t) -> (i32, gpuzip_action_t) {
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
        gpuzip_name_fields(null_mut(), null(), 0);
        gpuzip_rewind(null_mut());
        gpuzip_setup_steps(null_mut(), 10);
        gpuzip_get_action(null_mut(), null_mut());
        gpuzip_end_forward(null_mut());
        gpuzip_dispatch(null_mut(), 0);
        gpuzip_save(null_mut(), 0, null(), 0, null_mut());
        gpuzip_retrieve(null_mut(), 0, null(), 0, null_mut());
        gpuzip_export(null_mut(), null(), 0, null(), 0, null_mut());
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
        gpuzip_quality_open(null(), null_mut());
        gpuzip_quality_next(null_mut(), null_mut(), null_mut());
        gpuzip_quality_result(null_mut(), null(), 0);
        gpuzip_quality_compare(null_mut(), null(), 0, null_mut(), null_mut());
        gpuzip_quality_judge(null_mut(), null(), null(), 0);
        gpuzip_quality_check(null_mut());
        gpuzip_quality_info(null_mut(), null_mut());
        gpuzip_quality_close(null_mut());
        gpuzip_codec_bound(null(), null(), 0, null_mut());
        gpuzip_codec_compress(null(), null(), 0, null_mut(), 0, null_mut());
        gpuzip_codec_decompress(null(), 0, null(), 0);
        gpuzip_codec_info(null(), 0, 0, null_mut());
        gpuzip_codec_register(null(), null_mut());
        gpuzip_codec_work(null(), null(), 0, null_mut());
        gpuzip_codec_encode(null(), null(), 0, null_mut(), 0, null_mut(), 0, null_mut(), null_mut());
        gpuzip_codec_decode(null(), null(), 0, null(), 0, null_mut(), 0, null_mut(), null_mut());
        gpuzip_persist_open(null_mut(), null());
        gpuzip_persist_stage_register(null_mut(), c"stage".as_ptr(), 0, None, null_mut());
        gpuzip_persist_due(null_mut(), null_mut());
        gpuzip_persist_write(null_mut(), 0, null(), 0, null_mut());
        gpuzip_persist_wait(null_mut());
        gpuzip_persist_clone(null_mut(), null());
        gpuzip_persist_find(null_mut(), null_mut());
        gpuzip_persist_read(null_mut(), null(), 0, null_mut());
        gpuzip_persist_check(null());
        gpuzip_persist_whole(null());
        gpuzip_persist_parity(null(), null(), 1, 1, 0);
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
        assert_eq!((info.h2d_gbs, info.reserved), (25.0, [0; 1]));
    }
}
