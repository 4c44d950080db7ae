//! Pointers, streams and contexts that an application may pass by mistake.

use super::*;

#[test]
fn pointers_are_checked() {
    if !emu::inside("pointers_are_checked", &[("CUDA_EMU_DEVICES", "2")]) {
        return;
    }
    let bytes = 400;
    let field = Field { n: [100, 1, 1], scalar: Scalar::F32, previous_of: None };
    let at = |address: *mut u8| AppField {
        field,
        // SAFETY: memory that lives to the end of the test; a null address is never used.
        memory: Some(unsafe { AppMemory::new(address, bytes) }),
    };
    let mut ordinary = vec![0u8; bytes];
    let (mut device, mut managed, mut pinned) = ([0u64; 2], 0u64, std::ptr::null_mut());
    for ordinal in [1, 0] {
        let mut context = std::ptr::null_mut();
        ok!(cuInit(0));
        ok!(cuDevicePrimaryCtxRetain(&mut context, ordinal));
        ok!(cuCtxSetCurrent(context));
        ok!(cuMemAlloc_v2(&mut device[ordinal as usize], bytes));
    }
    ok!(cuMemAllocManaged(&mut managed, bytes, 1));
    ok!(cuMemHostAlloc(&mut pinned, bytes, 0));
    let session = |config: Config, fields: &[AppField]| {
        let mut session = Session::new(config, 5, fields)?;
        session.get_action()?;
        Ok::<_, gpuzip::error::Error>(session)
    };
    let base = config(Algorithm::Revolve, 2, 1, Policy::Clairvoyant);
    let save = |session: &mut Session, address: *mut u8| {
        session.save(0, &[at(address)], Stream(std::ptr::null_mut()))
    };
    let mut on_device = session(base.clone(), &[at(device[0] as *mut u8)]).unwrap();
    for (address, part) in [
        (device[1] as *mut u8, "device 1"),
        (ordinary.as_mut_ptr(), "host memory"),
        (pinned.cast(), "host memory"),
    ] {
        let error = save(&mut on_device, address).unwrap_err();
        assert_eq!(error.code, Code::Argument);
        assert!(error.message.contains("field 0") && error.message.contains(part), "{error}");
    }
    save(&mut on_device, managed as *mut u8).unwrap();
    let mut on_host = session(base.clone(), &[at(ordinary.as_mut_ptr())]).unwrap();
    let error = save(&mut on_host, device[0] as *mut u8).unwrap_err();
    assert!(error.message.contains("memory of CUDA device 0"), "{error}");
    save(&mut on_host, pinned.cast()).unwrap();
    // If neither the configuration nor the fields at init name the backend, the first save decides.
    let mut late = session(base.clone(), &[AppField { field, memory: None }]).unwrap();
    save(&mut late, device[1] as *mut u8).unwrap();
    let error = session(Config { device: Some(0), ..base.clone() }, &[at(device[1] as *mut u8)])
        .err()
        .unwrap();
    assert!(error.message.contains("device 1"), "{error}");
    let error = session(Config { device: Some(7), ..base }, &[AppField { field, memory: None }])
        .err()
        .unwrap();
    assert!(error.message.contains("CUDA device 7"), "{error}");
}

/// Copies of snapshots accept every type without gaps. Fields with gaps are refused on a GPU, and
/// so are codecs for types that have no kernels.
#[test]
fn gaps_and_types_without_kernels_are_refused() {
    if !emu::inside("gaps_and_types_without_kernels_are_refused", &[]) {
        return;
    }
    let (mut context, mut address) = (std::ptr::null_mut(), 0u64);
    ok!(cuInit(0));
    ok!(cuDevicePrimaryCtxRetain(&mut context, 0));
    ok!(cuCtxSetCurrent(context));
    ok!(cuMemAlloc_v2(&mut address, 1 << 12));
    let base = config(Algorithm::Revolve, 2, 1, Policy::Clairvoyant);
    for scalar in Scalar::ALL {
        let field = Field { n: [5, 3, 1], scalar, previous_of: None };
        let at = |pitch2: u64| {
            let rows = Rows::of(&field, pitch2, 0).unwrap();
            AppField {
                field,
                // SAFETY: device memory that lives to the end of the test, with room for rows of
                // every type.
                memory: Some(unsafe { AppMemory::in_rows(address as *mut u8, rows) }),
            }
        };
        let error = Session::new(base.clone(), 5, &[at(7)]).err().unwrap();
        assert!(
            error.code == Code::Unsupported && error.message.contains("field 0: pitch2 or pitch3"),
            "{error}"
        );
        let mut session = Session::new(base.clone(), 5, &[at(5)]).unwrap();
        session.get_action().unwrap();
        let error = session.save(0, &[at(6)], Stream(std::ptr::null_mut())).unwrap_err();
        assert_eq!(error.code, Code::Unsupported, "{error}");
        session.save(0, &[at(0)], Stream(std::ptr::null_mut())).unwrap();
        let coded = Config { compression: base.compression.with(Method::Dct), ..base.clone() };
        if !scalar.is_coded() {
            for backend in [Backend::ByFields, Backend::Cuda] {
                let error =
                    Session::new(Config { backend, ..coded.clone() }, 5, &[at(0)]).err().unwrap();
                assert!(
                    error.code == Code::Unsupported && error.message.contains(scalar.name()),
                    "{error}"
                );
            }
        }
    }
}

/// If the driver is too old to say what kind of memory a pointer refers to, the session fails: it
/// does not take device memory for host memory.
#[test]
fn device_memory_under_an_old_driver_is_an_error() {
    if emu::inside(
        "device_memory_under_an_old_driver_is_an_error",
        &[("CUDA_EMU_DRIVER_VERSION", "11080")],
    ) {
        let error = at_first_save(reference(Policy::Lru, 2).config, &field_at(device_memory()))
            .err()
            .unwrap();
        assert!(error.message.contains("CUDA 11.8"), "{error}");
    }
}

#[test]
fn a_pointer_query_that_fails_is_an_error() {
    if emu::inside("a_pointer_query_that_fails_is_an_error", &[]) {
        let address = device_memory();
        emu::fail("cuPointerGetAttributes", -1, 700);
        let error =
            at_first_save(reference(Policy::Lru, 2).config, &field_at(address)).err().unwrap();
        assert_eq!(error.code, Code::Device, "{error}");
    }
}

/// NULL is the default stream of the current context, but gpuzip works in the primary context: in
/// another context NULL is refused.
#[test]
fn streams_of_other_contexts_are_refused() {
    if !emu::inside("streams_of_other_contexts_are_refused", &[]) {
        return;
    }
    let fields = field_at(device_memory());
    let (mut other, mut theirs): (CUcontext, _) = (null_mut(), null_mut());
    ok!(cuCtxCreate_v2(&mut other, 0, 0));
    ok!(cuStreamCreate(&mut theirs, 1));
    let mut session = at_first_save(reference(Policy::Lru, 2).config, &fields).unwrap();
    for stream in [null_mut(), 2 as *mut c_void, theirs.cast()] {
        let error = session.save(0, &fields, Stream(stream)).unwrap_err();
        assert_eq!(error.code, Code::Argument);
        assert!(error.message.contains("another context"), "{error}");
    }
    ok!(cuCtxPopCurrent_v2(&mut other));
    session.save(0, &fields, Stream(null_mut())).unwrap();
}

/// A call of the library may come while another context is current: the library works in its own
/// context, and leaves the other one current.
#[test]
fn another_current_context_changes_nothing() {
    if !emu::inside("another_current_context_changes_nothing", &[]) {
        return;
    }
    const BYTES: usize = 400;
    let (address, mut pinned, mut own): (_, _, sys::CUstream) =
        (device_memory(), null_mut(), null_mut());
    let (mut primary, mut other) = (null_mut(), null_mut());
    ok!(cuCtxGetCurrent(&mut primary));
    ok!(cuMemHostAlloc(&mut pinned, BYTES, 0));
    ok!(cuStreamCreate(&mut own, 1));
    ok!(cuCtxCreate_v2(&mut other, 0, 0));
    let fields = field_at(address);
    // The library's calls come in the other context, and those of the application in its own.
    let elsewhere = |call: &mut dyn FnMut() -> Result<()>| {
        let mut current = null_mut();
        ok!(cuCtxSetCurrent(other));
        call().unwrap();
        ok!(cuCtxGetCurrent(&mut current));
        assert_eq!(current, other, "the context of the caller is current again");
        ok!(cuCtxSetCurrent(primary));
    };
    for policy in [Policy::Clairvoyant, Policy::Lru] {
        let mut session = None;
        elsewhere(&mut || {
            session = Some(Session::new(reference(policy, 2).config, 30, &fields)?);
            Ok(())
        });
        let mut session = session.unwrap();
        let (mut tick, mut restored) = (session.get_action().unwrap(), 0);
        while tick.action.kind != Kind::Terminate {
            let ts = i64::from(tick.action.ts);
            match tick.action.kind {
                Kind::Save => {
                    ok!(cuMemsetD8Async(address, ts as u8, BYTES, own));
                    elsewhere(&mut || session.save(ts, &fields, Stream(own.cast())));
                    ok!(cuMemsetD8Async(address, 0xee, BYTES, own));
                }
                Kind::Restore => {
                    elsewhere(&mut || session.retrieve(ts, &fields, Stream(own.cast())));
                    ok!(cuMemcpyDtoHAsync_v2(pinned, address, BYTES, own));
                    ok!(cuStreamSynchronize(own));
                    // SAFETY: page-locked memory of this length, which no copy touches any more.
                    let seen = unsafe { std::slice::from_raw_parts(pinned.cast::<u8>(), BYTES) };
                    assert!(seen.iter().all(|byte| *byte == ts as u8), "{policy:?}, state {ts}");
                    restored += 1;
                }
                _ => {}
            }
            elsewhere(&mut || session.get_action().map(|next| tick = next));
        }
        assert!(restored > 20, "{restored}");
    }
}

/// The per-thread default stream has one handle in all threads and is a different stream in each
/// thread. Calls on the stream of one thread wait for the calls on the stream of the other.
#[test]
fn the_per_thread_stream_of_two_threads_is_ordered() {
    if !emu::inside("the_per_thread_stream_of_two_threads_is_ordered", &[]) {
        return;
    }
    const PER_THREAD: usize = 2;
    let stream = || Stream(PER_THREAD as *mut c_void);
    for seed in 0..200 {
        assert_eq!(emu::reset(seed, emu::RANDOM, 1, MEMORY), 0);
        let (from, to, mut pinned) = (device_memory(), device_memory(), null_mut());
        ok!(cuMemHostAlloc(&mut pinned, 800, 0));
        let bytes = pinned as usize;
        // SAFETY: within the allocation.
        unsafe { std::ptr::write_bytes(bytes as *mut u8, 7, 400) };
        let config = Config { snapshots: 1, ..reference(Policy::Clairvoyant, 1).config };
        let mut session = Session::new(config, 2, &field_at(from)).unwrap();
        session.get_action().unwrap();
        ok!(cuMemcpyHtoDAsync_v2(from, pinned, 400, stream().0.cast()));
        session.save(0, &field_at(from), stream()).unwrap();
        while session.get_action().unwrap().action.kind != Kind::Restore {}
        let mut context = null_mut();
        ok!(cuCtxGetCurrent(&mut context));
        let context = context as usize;
        std::thread::spawn(move || {
            ok!(cuCtxSetCurrent(context as CUcontext));
            session.retrieve(0, &field_at(to), stream()).unwrap();
            ok!(cuMemcpyDtoHAsync_v2((bytes + 400) as *mut c_void, to, 400, stream().0.cast()));
            ok!(cuStreamSynchronize(stream().0.cast()));
        })
        .join()
        .unwrap();
        // SAFETY: within the allocation; the copy is done.
        let found = unsafe { std::slice::from_raw_parts((bytes + 400) as *const u8, 400) };
        assert!(found.iter().all(|&byte| byte == 7), "seed {seed}");
        ok!(cuStreamSynchronize(stream().0.cast()));
        ok!(cuMemFree_v2(from));
        ok!(cuMemFree_v2(to));
        ok!(cuMemFreeHost(pinned));
        for _ in 0..2 {
            ok!(cuDevicePrimaryCtxRelease_v2(0));
        }
    }
}

/// Where kernels can use ordinary host memory, its address does not tell whether kernels compute the
/// fields: the backend has to be named once CUDA is initialised, and a process without CUDA needs no
/// change.
#[test]
fn host_memory_that_kernels_can_use_needs_a_named_backend() {
    const NAME: &str = "host_memory_that_kernels_can_use_needs_a_named_backend";
    if !emu::inside(NAME, &[("CUDA_EMU_PAGEABLE_ACCESS", "1")]) {
        return;
    }
    host_session_works();
    let on_device = field_at(device_memory());
    let mut values = [0f32; 100];
    let fields = field_at(values.as_mut_ptr() as u64);
    let base = reference(Policy::Lru, 2).config;
    let error = at_first_save(base.clone(), &fields).err().unwrap();
    assert_eq!(error.code, Code::Config);
    assert!(error.message.contains("backend = 1"), "{error}");
    let named = Config { backend: Backend::Host, ..base.clone() };
    at_first_save(named, &fields).unwrap().save(0, &fields, Stream(null_mut())).unwrap();
    let error =
        at_first_save(Config { backend: Backend::Cuda, ..base.clone() }, &fields).err().unwrap();
    assert!(error.message.contains("host memory"), "{error}");
    at_first_save(base, &on_device).unwrap().save(0, &on_device, Stream(null_mut())).unwrap();
}
