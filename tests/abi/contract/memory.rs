//! Fields that share memory with one another or with the session are refused.

use super::*;

#[test]
fn fields_that_share_memory_are_refused_by_name() {
    let mut memory = vec![0f32; 64];
    let base = memory.as_mut_ptr().expose_provenance();
    let apart = [at(base, 16, 0), at(base + 64, 16, 1), at(base + 128, 16, 0)];
    let handle = init(&revolve(3, 2), 8, &apart);
    let action = next(handle);
    assert_eq!((action.r#type, action.ts), (GPUZIP_ACTION_SAVE, 0));
    // One of the three fields moves to an offset, in bytes, at which it overlaps another field:
    // wholly, or by as little as one value at either end.
    for offset in [0usize, 4, 60, 64 + 4, 128 - 4, 128 + 60] {
        for moved in 0..3 {
            let mut fields = apart;
            fields[moved] = at(base + offset, 16, apart[moved].role);
            let overlaps =
                (0..3).any(|i| i != moved && (64 * i < offset + 64) && (offset < 64 * i + 64));
            if !overlaps {
                continue;
            }
            // SAFETY: all pointers are to live values.
            let status = unsafe { gpuzip_save(handle, 0, fields.as_ptr(), 3, null_mut()) };
            let text = last_error();
            assert_eq!(status, GPUZIP_ERR_ARGUMENT, "{offset} {moved}");
            assert!(
                text.contains("overlaps field")
                    && text.contains(&format!("{:p}", fields[moved].data)),
                "{text}"
            );
        }
    }
    // Fields that touch do not overlap. A RESTORE refuses fields that overlap, as a SAVE does.
    // SAFETY: all pointers are to live values.
    unsafe {
        serve_save(handle, &apart);
        serve_until(handle, &apart, |action| action.r#type == GPUZIP_ACTION_RESTORE);
        let current = peek_current_restore(handle);
        let fields = [apart[0], at(base + 4, 16, 1), apart[2]];
        refused(
            gpuzip_retrieve(handle, current, fields.as_ptr(), 3, null_mut()),
            GPUZIP_ERR_ARGUMENT,
            "field 1 (64 bytes at",
        );
        works(gpuzip_retrieve(handle, current, apart.as_ptr(), 3, null_mut()));
        serve_until(handle, &apart, is_terminate);
    }
    finalize(handle);
}

/// # Safety
/// The fields are of live memory.
unsafe fn serve_save(handle: *mut gpuzip_t, fields: &[gpuzip_field_t]) {
    // SAFETY: by this function's contract.
    works(unsafe { gpuzip_save(handle, 0, fields.as_ptr(), fields.len() as u32, null_mut()) });
}

/// Returns the time step of the current RESTORE, which the error text of a retrieve for a wrong time step
/// names.
fn peek_current_restore(handle: *mut gpuzip_t) -> i32 {
    let text = {
        let mut one = [0f32];
        // SAFETY: all pointers are to live values.
        unsafe { gpuzip_retrieve(handle, -7, &field(&mut one), 1, null_mut()) };
        last_error()
    };
    let (_, rest) = text.split_once("is RESTORE ").unwrap();
    rest.split(':').next().unwrap().parse().unwrap_or_else(|_| panic!("{text}"))
}

#[test]
fn runs_and_codecs_refuse_fields_that_share_memory() {
    let mut memory = vec![1f32; 32];
    let base = memory.as_mut_ptr().expose_provenance();
    let (apart, shared) =
        ([at(base, 16, 0), at(base + 64, 16, 0)], [at(base, 16, 0), at(base + 32, 16, 0)]);
    let handle = init(&revolve(3, 2), 8, &apart);
    let callbacks = callbacks();
    let codec = gpuzip_config_t { compressor: GPUZIP_COMPRESSOR_LORENZO, ..revolve(3, 2) };
    let (mut stream, mut bytes) = (vec![0u64; 4096], 0);
    // SAFETY: all pointers are to live values.
    unsafe {
        refused(
            gpuzip_run_forward(handle, &callbacks, shared.as_ptr(), 2, null_mut()),
            GPUZIP_ERR_ARGUMENT,
            "field 1 (64 bytes at",
        );
        assert_eq!(
            gpuzip_run_reverse(handle, &callbacks, shared.as_ptr(), 2, null_mut()),
            GPUZIP_ERR_ARGUMENT
        );
        works(gpuzip_run_reverse(handle, &callbacks, apart.as_ptr(), 2, null_mut()));
        let to = stream.as_mut_ptr().cast();
        assert_eq!(
            gpuzip_codec_compress(&codec, shared.as_ptr(), 2, to, 32768, &mut bytes),
            GPUZIP_ERR_ARGUMENT
        );
        works(gpuzip_codec_compress(&codec, apart.as_ptr(), 2, to, 32768, &mut bytes));
        refused(
            gpuzip_codec_decompress(to, bytes, shared.as_ptr(), 2),
            GPUZIP_ERR_ARGUMENT,
            "overlaps field 0",
        );
        works(gpuzip_codec_decompress(to, bytes, apart.as_ptr(), 2));
    }
    finalize(handle);
}

/// Memory that `gpuzip_save_begin` or `gpuzip_retrieve_acquire` returned belongs to the session and
/// is refused as the application's field.
#[test]
fn the_sessions_own_memory_is_no_field() {
    let mut data = vec![0f32; 64];
    let handle = init(&gpuzip_config_t { zero_copy: 1, ..revolve(3, 2) }, 8, &[field(&mut data)]);
    let mut given = [null_mut::<c_void>()];
    // SAFETY: all pointers are to live values.
    unsafe {
        assert_eq!(next(handle).r#type, GPUZIP_ACTION_SAVE);
        works(gpuzip_save_begin(handle, 0, given.as_mut_ptr(), 1, null_mut()));
        for offset in [0usize, 16] {
            let own = at(given[0].expose_provenance() + offset, 64, 0);
            refused(
                gpuzip_save(handle, 0, &own, 1, null_mut()),
                GPUZIP_ERR_ARGUMENT,
                "is memory of this session",
            );
        }
        serve_save(handle, &[field(&mut data)]);
        let restore = serve_until(handle, &[field(&mut data)], |action| {
            action.r#type == GPUZIP_ACTION_RESTORE
        });
        assert_eq!(
            gpuzip_retrieve(
                handle,
                restore.ts,
                &at(given[0].expose_provenance(), 64, 0),
                1,
                null_mut()
            ),
            GPUZIP_ERR_ARGUMENT
        );
        works(gpuzip_retrieve(handle, restore.ts, &field(&mut data), 1, null_mut()));
        serve_until(handle, &[field(&mut data)], is_terminate);
    }
    finalize(handle);
}
