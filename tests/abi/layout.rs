//! The structs of the ABI have frozen layouts: one table of sizes and offsets in bytes, checked
//! against the Rust structs and, through the header, against C.

use crate::common;
use common::{root, run, tempdir};
use gpuzip::capi::*;
use std::fmt::Write;
use std::mem::{align_of, offset_of, size_of};
use std::process::Command;

macro_rules! layouts {
    ($($name:ident, $size:literal $(, type at $type_offset:literal)?: $($field:ident $offset:literal),*;)*) => {
        #[test]
        fn rust_has_the_frozen_layouts() {
            $(
                assert_eq!((size_of::<$name>(), align_of::<$name>()), ($size, 8), stringify!($name));
                $(assert_eq!(offset_of!($name, $field), $offset, stringify!($name.$field));)*
                $(assert_eq!(offset_of!($name, r#type), $type_offset);)?
            )*
        }

        fn c_source() -> String {
            let mut text = String::from("#include <gpuzip.h>\n#include <stddef.h>\n");
            let mut check = |what: String, value: usize| writeln!(text, "_Static_assert({what} == {value}, \"{what}\");").unwrap();
            $(
                check(format!("sizeof({})", stringify!($name)), $size);
                $(check(format!("offsetof({}, {})", stringify!($name), stringify!($field)), $offset);)*
                $(check(format!("offsetof({}, type)", stringify!($name)), $type_offset);)?
            )*
            text
        }
    };
}

layouts! {
    gpuzip_field_t, 72, type at 32: data 0, n1 8, n2 16, n3 24, role 36, pitch2 40, pitch3 48, reserved 56;
    gpuzip_action_t, 40, type at 0: ts 4, ts_end 8, flags 12, it 16, reserved 24;
    gpuzip_config_t, 368: checkpointing_algorithm 0, checkpointing_snaps 4, cache_capacity 8, compressor 12, log_level 16,
        enable_performance_log 20, enable_compression_rate_log 24, compression_factor 28, trace_file_path 32, revolve_log_level 40,
        zfp_bit_rate 44, cuszp_err_bound 48, float_kind 56, bitcomp_delta_config 64, bitcomp_range_fraction 72, bitcomp_num_sigma 80,
        bitcomp_delta 88, bitcomp_algorithm 96, struct_size 104, backend 112, device 116, device_budget 120, host_budget 128,
        disk_budget 136, policy 144, error_bound_mode 148, error_bound 152, nonfinite 160, max_in_flight 164, range_actions 168,
        snapshot_rule 172, schedule_chunk 176, uniform_reading 180, zero_copy 184, link_bandwidth 192, profile_path 200, trace_out 208, persist_dir 216,
        persist_overhead 224, stop_budget_s 232, shared_levels 240, mixed_storage 244, adjoint_every 248, difference_bound 252, reserved_huge_pages 256, strict 260,
        disk_path 264, device_reserve 272, codec_threads 280, sequences 284, quality 288, fill_value 296, sweeps 304, check 308, persist_shared_dir 312, persist_whole_every 320, reserved0 324, persist_stages 328, reserved 336;
    gpuzip_stats_t, 280: struct_size 0, forward_steps 8, saves 16, restores 24, backward_steps 32, hits 40, misses 48, prefetches 56,
        late_prefetches 64, h2d 72, d2h 80, h2d_bytes 88, d2h_bytes 96, disk_bytes 104, write_backs_avoided 112, raw_bytes 120,
        stored_bytes 128, peak_device_bytes 136, peak_host_bytes 144, forward 152, backward 160, save 168, restore 176, compress 184,
        decompress 192, stall 200, run_ahead_wait 208, generations 216, persist_bytes 224, persist 232, stop_left 240, disk_reads 248, disk_writes 256, pageable_bytes 264, persist_held_bytes 272;
    gpuzip_summary_t, 224: struct_size 0, algorithm 8, policy 12, steps 16, snapshots 20, cache 24, chunk 28, forward_steps 32, saves 40,
        restores 48, backward_steps 56, max_live 64, actions 72, h2d 80, d2h 88, hits 96, misses 104, prefetches 112, min_lead 120,
        mean_lead 128, slot_bytes 136, device_bytes 144, host_bytes 152, compressor 160, raw_slots 164, device_budget 168,
        host_budget 176, predicted_s 184, bound_s 192, disk_bytes 200, reserved 208;
    gpuzip_codec_info_t, 112, type at 20: struct_size 0, arrays 8, compressor 12, content 16, field 24, reference 28, n1 32, n2 40, n3 48,
        bound 56, raw_bytes 64, stored_bytes 72, reserved 80;
    gpuzip_profile_info_t, 160: struct_size 0, state_bytes 8, forward_ms 16, backward_ms 24, h2d_gbs 32, d2h_gbs 40, d2d_gbs 48,
        disk_read_gbs 56, disk_write_gbs 64, backend 72, codecs 76, compressor 80, error_bound_mode 84, error_bound 88, compress_gbs 96,
        decompress_gbs 104, ratio 112, worst_ratio 120, both_gbs 128, idle_processors 136, sequences 144, reserved0 148, reserved 152;
    gpuzip_callbacks_t, 80: struct_size 0, user 8, forward 16, backward 24, locate 32, observe 40, backward_range 48, reserved 56;
    gpuzip_array_t, 104: name 0, field 8, scope 80, reserved0 84, reserved 88;
    gpuzip_persist_options_t, 64: struct_size 0, rank 8, ranks 12, agree_min 16, user 24, reserved 32;
    gpuzip_generation_t, 72: struct_size 0, generation 8, shot 16, it 24, bytes 32, reserved 40;
    gpuzip_codec_result_t, 32: bytes 0, status 8, field 12, count 16, reserved 24;
    gpuzip_codec_plugin_t, 80: struct_size 0, name 8, user 16, max_bytes 24, compress 32, decompress 40, device_compress 48,
        device_decompress 56, device_work 64, reserved 72;
    gpuzip_codec_job_t, 32: bound 0, bytes 8, go 16, status 20, reserved 24;
}

#[test]
fn c_has_the_frozen_layouts() {
    let dir = tempdir("layout");
    let source = dir.join("layout.c");
    std::fs::write(&source, c_source()).unwrap();
    run(Command::new("cc")
        .args(["-std=c11", "-fsyntax-only", "-I"])
        .arg(root().join("include"))
        .arg(&source));
}
