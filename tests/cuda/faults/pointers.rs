//! Pointers, streams and contexts that an application may pass by mistake.

use super::*;

#[test]
fn pointers_are_checked() {
    emulated!(&[("CUDA_EMU_DEVICES", "2")]);
    let shape = field([100, 1, 1], Scalar::F32);
    let at = |address: u64| field_at(address, shape);
    let ordinary = vec![0u8; 400];
    let [one, zero] = [1, 0].map(|ordinal| (Primary::new(ordinal), Memory::new(400)));
    let (on_0, on_1, ordinary) = (zero.1 .0, one.1 .0, ordinary.as_ptr() as u64);
    let (mut managed, locked) = (0u64, Pinned::new(400));
    let pinned = locked.0 as u64;
    ok!(cuMemAllocManaged(&mut managed, 400, 1));
    let session = |config: Config, fields: &[AppField]| {
        let mut session = Session::new(config, 5, fields)?;
        session.get_action()?;
        Ok::<_, gpuzip::error::Error>(session)
    };
    let base = config(Algorithm::Revolve, 2, 1, Policy::Clairvoyant);
    let save = |session: &mut Session, address: u64| session.save(0, &[at(address)], HOST);
    let mut on_device = session(base.clone(), &[at(on_0)]).unwrap();
    for (address, part) in [(on_1, "device 1"), (ordinary, "host memory"), (pinned, "host memory")]
    {
        let error = save(&mut on_device, address).unwrap_err();
        assert_eq!(error.code, Code::Argument);
        assert!(error.message.contains("field 0") && error.message.contains(part), "{error}");
    }
    save(&mut on_device, managed).unwrap();
    let mut on_host = session(base.clone(), &[at(ordinary)]).unwrap();
    let error = save(&mut on_host, on_0).unwrap_err();
    assert!(error.message.contains("memory of CUDA device 0"), "{error}");
    save(&mut on_host, pinned).unwrap();
    // If neither the configuration nor the fields at init name the backend, the first save decides.
    let mut late = session(base.clone(), &unplaced(&[shape])).unwrap();
    save(&mut late, on_1).unwrap();
    let of = |device| base.clone().with(|c| c.device.ordinal = Some(device));
    let error = session(of(0), &[at(on_1)]).err().unwrap();
    assert!(error.message.contains("device 1"), "{error}");
    let error = session(of(7), &unplaced(&[shape])).err().unwrap();
    assert!(error.message.contains("CUDA device 7"), "{error}");
}

/// Copies of snapshots accept every type without gaps. Fields with gaps are refused on a GPU, and
/// so are codecs for types that have no kernels.
#[test]
fn gaps_and_types_without_kernels_are_refused() {
    emulated!();
    let (_primary, memory) = (Primary::new(0), Memory::new(1 << 12));
    let base = config(Algorithm::Revolve, 2, 1, Policy::Clairvoyant);
    for scalar in Scalar::ALL {
        let field = field([5, 3, 1], scalar);
        let at = |pitch2: u64| {
            let rows = Rows::of(&field, pitch2, 0).unwrap();
            AppField {
                field,
                // SAFETY: device memory that lives to the end of the test, with room for rows of
                // every type.
                memory: Some(unsafe { AppMemory::in_rows(memory.0 as *mut u8, rows) }),
            }
        };
        let error = Session::new(base.clone(), 5, &[at(7)]).err().unwrap();
        assert!(
            error.code == Code::Unsupported && error.message.contains("field 0: pitch2 or pitch3"),
            "{error}"
        );
        let mut session = Session::new(base.clone(), 5, &[at(5)]).unwrap();
        session.get_action().unwrap();
        let error = session.save(0, &[at(6)], HOST).unwrap_err();
        assert_eq!(error.code, Code::Unsupported, "{error}");
        session.save(0, &[at(0)], HOST).unwrap();
        let coded = base.clone().with(|c| c.codec.settings = base.codec.settings.with(Method::Dct));
        if !scalar.is_coded() {
            for backend in [Backend::ByFields, Backend::Cuda] {
                let error =
                    Session::new(coded.clone().with(|c| c.device.backend = backend), 5, &[at(0)])
                        .err()
                        .unwrap();
                assert!(
                    error.code == Code::Unsupported && error.message.contains(scalar.name()),
                    "{error}"
                );
            }
        }
    }
}

/// A codec without kernels is refused by name when a session opens.
#[test]
fn a_codec_without_kernels_is_refused() {
    emulated!();
    let (_primary, memory) = (Primary::new(0), Memory::new(1 << 12));
    let base = config(Algorithm::Revolve, 2, 1, Policy::Clairvoyant);
    let coded = base.with(|c| c.codec.settings = c.codec.settings.with(Method::Lossless));
    let field = field_at(memory.0, field([5, 3, 1], Scalar::F32));
    let error = Session::new(coded, 5, &[field]).err().unwrap();
    assert!(
        error.code == Code::Unsupported && error.message.contains("lossless has no kernels"),
        "{error}"
    );
}

/// If the driver is too old to say what kind of memory a pointer refers to, the session fails: it
/// does not take device memory for host memory.
#[test]
fn device_memory_under_an_old_driver_is_an_error() {
    emulated!(&[("CUDA_EMU_DRIVER_VERSION", "11080")]);
    let app = application();
    let error = at_first_save(reference(Policy::Lru, 2).config, &app.field()).err().unwrap();
    assert!(error.message.contains("CUDA 11.8"), "{error}");
}

#[test]
fn a_pointer_query_that_fails_is_an_error() {
    emulated!();
    let app = application();
    emu::fail("cuPointerGetAttributes", -1, 700);
    let error = at_first_save(reference(Policy::Lru, 2).config, &app.field()).err().unwrap();
    assert_eq!(error.code, Code::Device, "{error}");
}

/// NULL is the default stream of the current context, but gpuzip works in the primary context: in
/// another context NULL is refused.
#[test]
fn streams_of_other_contexts_are_refused() {
    emulated!();
    let (app, mut other): (_, CUcontext) = (application(), null_mut());
    let fields = app.field();
    ok!(cuCtxCreate_v2(&mut other, 0, 0));
    let theirs = Own::new();
    let mut session = at_first_save(reference(Policy::Lru, 2).config, &fields).unwrap();
    for stream in [null_mut(), 2 as *mut c_void, theirs.0.cast()] {
        let error = session.save(0, &fields, Stream(stream)).unwrap_err();
        assert_eq!(error.code, Code::Argument);
        assert!(error.message.contains("another context"), "{error}");
    }
    ok!(cuCtxPopCurrent_v2(&mut other));
    session.save(0, &fields, HOST).unwrap();
}

/// A call of the library may come while another context is current: the library works in its own
/// context, and leaves the other one current.
#[test]
fn another_current_context_changes_nothing() {
    emulated!();
    // The library's calls come in the other context, and those of the application in its own.
    struct Elsewhere {
        plain: Plain,
        other: CUcontext,
    }
    impl Elsewhere {
        fn call<T>(&self, call: impl FnOnce() -> Result<T>) -> Result<T> {
            let mut current = null_mut();
            ok!(cuCtxSetCurrent(self.other));
            let result = call();
            ok!(cuCtxGetCurrent(&mut current));
            assert_eq!(current, self.other, "the context of the caller is current again");
            ok!(cuCtxSetCurrent(self.plain.primary.context));
            result
        }
    }
    let mut app = Elsewhere { plain: Plain::new(100, Step::Number), other: null_mut() };
    ok!(cuCtxCreate_v2(&mut app.other, 0, 0));
    let (fields, on) = (app.plain.field(), app.plain.stream());
    for policy in [Policy::Clairvoyant, Policy::Lru] {
        let config = reference(policy, 2).config;
        let mut session = app.call(|| Session::new(config, 30, &fields)).unwrap();
        app.plain.forward(0);
        loop {
            let tick = app.call(|| session.get_action()).unwrap();
            let ts = tick.action.ts;
            match tick.action.kind {
                Kind::Save => {
                    app.call(|| session.save(ts.into(), &fields, on)).unwrap();
                    app.plain.poison();
                }
                Kind::Restore => {
                    app.call(|| session.retrieve(ts.into(), &fields, on)).unwrap();
                    app.plain.look(ts);
                }
                Kind::Forward => app.plain.forward(ts),
                Kind::Terminate => break,
                _ => {}
            }
        }
    }
    assert!(app.plain.right > 40, "{}", app.plain.right);
}

/// The per-thread default stream has one handle in all threads and is a different stream in each
/// thread. Calls on the stream of one thread wait for the calls on the stream of the other.
#[test]
fn the_per_thread_stream_of_two_threads_is_ordered() {
    emulated!();
    const PER_THREAD: usize = 2;
    let stream = || Stream(PER_THREAD as *mut c_void);
    for seed in 0..200 {
        assert_eq!(emu::reset(seed, emu::RANDOM, 1, MEMORY), 0);
        let app = application();
        let (to, pinned) = (Memory::new(400), Pinned::new(800));
        let bytes = pinned.0 as usize;
        // SAFETY: within the allocation.
        unsafe { std::ptr::write_bytes(bytes as *mut u8, 7, 400) };
        let config = reference(Policy::Clairvoyant, 1).config.with(|c| c.schedule.snapshots = 1);
        let mut session = Session::new(config, 2, &app.field()).unwrap();
        session.get_action().unwrap();
        ok!(cuMemcpyHtoDAsync_v2(app.memory.0, pinned.0, 400, stream().0.cast()));
        session.save(0, &app.field(), stream()).unwrap();
        while session.get_action().unwrap().action.kind != Kind::Restore {}
        let (context, at) = (app.primary.context as usize, to.0);
        let field = [to.field(100, None)];
        std::thread::spawn(move || {
            ok!(cuCtxSetCurrent(context as CUcontext));
            session.retrieve(0, &field, stream()).unwrap();
            ok!(cuMemcpyDtoHAsync_v2((bytes + 400) as *mut c_void, at, 400, stream().0.cast()));
            ok!(cuStreamSynchronize(stream().0.cast()));
        })
        .join()
        .unwrap();
        // SAFETY: within the allocation; the copy is done.
        let found = unsafe { std::slice::from_raw_parts((bytes + 400) as *const u8, 400) };
        assert!(found.iter().all(|&byte| byte == 7), "seed {seed}");
        ok!(cuStreamSynchronize(stream().0.cast()));
    }
}

/// Where kernels can use ordinary host memory, its address does not tell whether kernels compute the
/// fields: the backend has to be named once CUDA is initialised, and a process without CUDA needs no
/// change.
#[test]
fn host_memory_that_kernels_can_use_needs_a_named_backend() {
    emulated!(&[("CUDA_EMU_PAGEABLE_ACCESS", "1")]);
    host_session_works();
    let (app, values) = (application(), [0f32; 100]);
    let on_device = app.field();
    let fields = [field_at(values.as_ptr() as u64, field([100, 1, 1], Scalar::F32))];
    let base = reference(Policy::Lru, 2).config;
    let error = at_first_save(base.clone(), &fields).err().unwrap();
    assert_eq!(error.code, Code::Config);
    assert!(error.message.contains("backend = 1"), "{error}");
    let named = base.clone().with(|c| c.device.backend = Backend::Host);
    at_first_save(named, &fields).unwrap().save(0, &fields, HOST).unwrap();
    let error = at_first_save(base.clone().with(|c| c.device.backend = Backend::Cuda), &fields)
        .err()
        .unwrap();
    assert!(error.message.contains("host memory"), "{error}");
    at_first_save(base, &on_device).unwrap().save(0, &on_device, HOST).unwrap();
}
