"""The C ABI: constants, structs, functions and configuration keys.

Generated from include/gpuzip.h by tests/foreign/python.rs; `make header` rewrites this file.
"""

# fmt: off
import ctypes

ABI_VERSION = 1
OK = 0
ERR_ARGUMENT = -101
ERR_CONFIG = -102
ERR_UNSUPPORTED = -103
ERR_SHAPE = -104
ERR_VALUES = -105
ERR_STATE = -201
ERR_HANDLE = -202
ERR_FORKED = -203
ERR_CALLBACK = -204
ERR_MEMORY = -301
ERR_BUDGET = -302
ERR_IO = -401
ERR_PARSE = -402
ERR_SCHEDULE = -403
ERR_STREAM = -404
ERR_DEVICE = -501
ERR_PANIC = -901
ERR_POISONED = -902
ACTION_FORWARD = 0
ACTION_SAVE = 1
ACTION_RESTORE = 2
ACTION_BACKWARD = 3
ACTION_TERMINATE = 4
ACTION_ERROR = 5
FLAG_RECOMPUTE = 1
FLAG_FIRST_BACKWARD = 2
FLAG_LAST_USE = 4
FLAG_NEXT_IS_SAVE = 8
FLAG_INTERRUPT = 16
FLAG_SHARED_LEVEL = 32
DUE_NO = 0
DUE_YES = 1
DUE_STOP = 2
ALGORITHM_TRACE = 0
ALGORITHM_REVOLVE = 1
ALGORITHM_UNIFORM = 2
ALGORITHM_ZCUT = 3
ALGORITHM_AUTO = 4
ALGORITHM_TWO_LEVEL = 5
ALGORITHM_STORE_ALL = 6
ALGORITHM_HREVOLVE = 8
ALGORITHM_ONLINE = 9
POLICY_CLAIRVOYANT = 0
POLICY_LRU = 1
COMPRESSOR_NONE = 0
COMPRESSOR_ZFP = 1
COMPRESSOR_BITCOMP = 2
COMPRESSOR_CUSZP = 3
COMPRESSOR_LORENZO = 4
COMPRESSOR_DCT = 5
COMPRESSOR_FP16 = 6
COMPRESSOR_BFP = 7
COMPRESSOR_LOSSLESS = 8
COMPRESSOR_AUTO = 15
TYPE_F32 = 0
TYPE_F64 = 1
TYPE_I8 = 2
TYPE_I16 = 3
TYPE_I32 = 4
TYPE_I64 = 5
TYPE_COMPLEX_F32 = 6
TYPE_COMPLEX_F64 = 7
TYPE_BYTE = 8


class gpuzip_config_t(ctypes.Structure):
    pass


class gpuzip_action_t(ctypes.Structure):
    pass


class gpuzip_summary_t(ctypes.Structure):
    pass


class gpuzip_field_t(ctypes.Structure):
    pass


class gpuzip_stats_t(ctypes.Structure):
    pass


class gpuzip_callbacks_t(ctypes.Structure):
    pass


class gpuzip_profile_info_t(ctypes.Structure):
    pass


class gpuzip_quality_info_t(ctypes.Structure):
    pass


class gpuzip_persist_options_t(ctypes.Structure):
    pass


class gpuzip_generation_t(ctypes.Structure):
    pass


class gpuzip_array_t(ctypes.Structure):
    pass


class gpuzip_codec_info_t(ctypes.Structure):
    pass


class gpuzip_codec_job_t(ctypes.Structure):
    pass


class gpuzip_codec_plugin_t(ctypes.Structure):
    pass


class gpuzip_codec_result_t(ctypes.Structure):
    pass


gpuzip_log_callback_t = ctypes.CFUNCTYPE(None, ctypes.c_int32, ctypes.c_char_p, ctypes.c_void_p)
gpuzip_forward_t = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32, ctypes.c_uint32)
gpuzip_backward_t = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int32, ctypes.c_uint32)
gpuzip_locate_t = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(gpuzip_field_t), ctypes.c_uint32)
gpuzip_observe_t = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32, ctypes.c_uint32)
gpuzip_backward_range_t = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32, ctypes.c_uint32)
gpuzip_least_t = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int64))
gpuzip_persist_stage_t = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_char_p, ctypes.POINTER(gpuzip_generation_t))
gpuzip_codec_max_bytes_t = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p, ctypes.POINTER(gpuzip_field_t))
gpuzip_codec_compress_t = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.POINTER(gpuzip_field_t), ctypes.c_int32, ctypes.c_double, ctypes.c_void_p, ctypes.c_uint64, ctypes.POINTER(ctypes.c_uint64))
gpuzip_codec_decompress_t = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64, ctypes.POINTER(gpuzip_field_t))
gpuzip_codec_device_compress_t = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.POINTER(gpuzip_field_t), ctypes.c_int32, ctypes.c_void_p, ctypes.c_uint64, ctypes.POINTER(gpuzip_codec_job_t), ctypes.c_void_p, ctypes.c_void_p)
gpuzip_codec_device_decompress_t = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64, ctypes.POINTER(gpuzip_field_t), ctypes.POINTER(gpuzip_codec_job_t), ctypes.c_void_p, ctypes.c_void_p)
gpuzip_codec_device_work_t = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p, ctypes.POINTER(gpuzip_field_t))

gpuzip_config_t._fields_ = [
    ("checkpointing_algorithm", ctypes.c_int32),
    ("checkpointing_snaps", ctypes.c_int32),
    ("cache_capacity", ctypes.c_int32),
    ("compressor", ctypes.c_int32),
    ("log_level", ctypes.c_int32),
    ("enable_performance_log", ctypes.c_int32),
    ("enable_compression_rate_log", ctypes.c_int32),
    ("compression_factor", ctypes.c_float),
    ("trace_file_path", ctypes.c_char_p),
    ("revolve_log_level", ctypes.c_int32),
    ("zfp_bit_rate", ctypes.c_int32),
    ("cuszp_err_bound", ctypes.c_double),
    ("float_kind", ctypes.c_char_p),
    ("bitcomp_delta_config", ctypes.c_int32),
    ("bitcomp_range_fraction", ctypes.c_double),
    ("bitcomp_num_sigma", ctypes.c_double),
    ("bitcomp_delta", ctypes.c_double),
    ("bitcomp_algorithm", ctypes.c_int32),
    ("struct_size", ctypes.c_uint64),
    ("backend", ctypes.c_int32),
    ("device", ctypes.c_int32),
    ("device_budget", ctypes.c_uint64),
    ("host_budget", ctypes.c_uint64),
    ("disk_budget", ctypes.c_uint64),
    ("policy", ctypes.c_int32),
    ("error_bound_mode", ctypes.c_int32),
    ("error_bound", ctypes.c_double),
    ("nonfinite", ctypes.c_int32),
    ("max_in_flight", ctypes.c_int32),
    ("range_actions", ctypes.c_int32),
    ("snapshot_rule", ctypes.c_int32),
    ("schedule_chunk", ctypes.c_int32),
    ("uniform_reading", ctypes.c_int32),
    ("zero_copy", ctypes.c_int32),
    ("link_bandwidth", ctypes.c_double),
    ("profile_path", ctypes.c_char_p),
    ("trace_out", ctypes.c_char_p),
    ("persist_dir", ctypes.c_char_p),
    ("persist_overhead", ctypes.c_double),
    ("stop_budget_s", ctypes.c_double),
    ("shared_levels", ctypes.c_int32),
    ("mixed_storage", ctypes.c_int32),
    ("adjoint_every", ctypes.c_int32),
    ("difference_bound", ctypes.c_int32),
    ("reserved_huge_pages", ctypes.c_int32),
    ("strict", ctypes.c_int32),
    ("disk_path", ctypes.c_char_p),
    ("device_reserve", ctypes.c_uint64),
    ("codec_threads", ctypes.c_int32),
    ("sequences", ctypes.c_int32),
    ("quality", ctypes.c_char_p),
    ("fill_value", ctypes.c_char_p),
    ("sweeps", ctypes.c_int32),
    ("check", ctypes.c_int32),
    ("persist_shared_dir", ctypes.c_char_p),
    ("persist_whole_every", ctypes.c_int32),
    ("reserved0", ctypes.c_int32),
    ("persist_stages", ctypes.c_char_p),
    ("reserved", ctypes.c_uint64 * 4),
]

gpuzip_action_t._fields_ = [
    ("type", ctypes.c_int32),
    ("ts", ctypes.c_int32),
    ("ts_end", ctypes.c_int32),
    ("flags", ctypes.c_uint32),
    ("it", ctypes.c_int64),
    ("reserved", ctypes.c_uint64 * 2),
]

gpuzip_summary_t._fields_ = [
    ("struct_size", ctypes.c_uint64),
    ("algorithm", ctypes.c_int32),
    ("policy", ctypes.c_int32),
    ("steps", ctypes.c_int32),
    ("snapshots", ctypes.c_int32),
    ("cache", ctypes.c_int32),
    ("chunk", ctypes.c_int32),
    ("forward_steps", ctypes.c_uint64),
    ("saves", ctypes.c_uint64),
    ("restores", ctypes.c_uint64),
    ("backward_steps", ctypes.c_uint64),
    ("max_live", ctypes.c_uint64),
    ("actions", ctypes.c_uint64),
    ("h2d", ctypes.c_uint64),
    ("d2h", ctypes.c_uint64),
    ("hits", ctypes.c_uint64),
    ("misses", ctypes.c_uint64),
    ("prefetches", ctypes.c_uint64),
    ("min_lead", ctypes.c_uint64),
    ("mean_lead", ctypes.c_double),
    ("slot_bytes", ctypes.c_uint64),
    ("device_bytes", ctypes.c_uint64),
    ("host_bytes", ctypes.c_uint64),
    ("compressor", ctypes.c_int32),
    ("raw_slots", ctypes.c_int32),
    ("device_budget", ctypes.c_uint64),
    ("host_budget", ctypes.c_uint64),
    ("predicted_s", ctypes.c_double),
    ("bound_s", ctypes.c_double),
    ("disk_bytes", ctypes.c_uint64),
    ("reserved", ctypes.c_uint64 * 2),
]

gpuzip_field_t._fields_ = [
    ("data", ctypes.c_void_p),
    ("n1", ctypes.c_uint64),
    ("n2", ctypes.c_uint64),
    ("n3", ctypes.c_uint64),
    ("type", ctypes.c_int32),
    ("role", ctypes.c_int32),
    ("pitch2", ctypes.c_uint64),
    ("pitch3", ctypes.c_uint64),
    ("reserved", ctypes.c_uint64 * 2),
]

gpuzip_stats_t._fields_ = [
    ("struct_size", ctypes.c_uint64),
    ("forward_steps", ctypes.c_uint64),
    ("saves", ctypes.c_uint64),
    ("restores", ctypes.c_uint64),
    ("backward_steps", ctypes.c_uint64),
    ("hits", ctypes.c_uint64),
    ("misses", ctypes.c_uint64),
    ("prefetches", ctypes.c_uint64),
    ("late_prefetches", ctypes.c_uint64),
    ("h2d", ctypes.c_uint64),
    ("d2h", ctypes.c_uint64),
    ("h2d_bytes", ctypes.c_uint64),
    ("d2h_bytes", ctypes.c_uint64),
    ("disk_bytes", ctypes.c_uint64),
    ("write_backs_avoided", ctypes.c_uint64),
    ("raw_bytes", ctypes.c_uint64),
    ("stored_bytes", ctypes.c_uint64),
    ("peak_device_bytes", ctypes.c_uint64),
    ("peak_host_bytes", ctypes.c_uint64),
    ("forward", ctypes.c_double),
    ("backward", ctypes.c_double),
    ("save", ctypes.c_double),
    ("restore", ctypes.c_double),
    ("compress", ctypes.c_double),
    ("decompress", ctypes.c_double),
    ("stall", ctypes.c_double),
    ("run_ahead_wait", ctypes.c_double),
    ("generations", ctypes.c_uint64),
    ("persist_bytes", ctypes.c_uint64),
    ("persist", ctypes.c_double),
    ("stop_left", ctypes.c_double),
    ("disk_reads", ctypes.c_uint64),
    ("disk_writes", ctypes.c_uint64),
    ("pageable_bytes", ctypes.c_uint64),
    ("persist_held_bytes", ctypes.c_uint64),
]

gpuzip_callbacks_t._fields_ = [
    ("struct_size", ctypes.c_uint64),
    ("user", ctypes.c_void_p),
    ("forward", gpuzip_forward_t),
    ("backward", gpuzip_backward_t),
    ("locate", gpuzip_locate_t),
    ("observe", gpuzip_observe_t),
    ("backward_range", gpuzip_backward_range_t),
    ("reserved", ctypes.c_uint64 * 3),
]

gpuzip_profile_info_t._fields_ = [
    ("struct_size", ctypes.c_uint64),
    ("state_bytes", ctypes.c_uint64),
    ("forward_ms", ctypes.c_double),
    ("backward_ms", ctypes.c_double),
    ("h2d_gbs", ctypes.c_double),
    ("d2h_gbs", ctypes.c_double),
    ("d2d_gbs", ctypes.c_double),
    ("disk_read_gbs", ctypes.c_double),
    ("disk_write_gbs", ctypes.c_double),
    ("backend", ctypes.c_int32),
    ("codecs", ctypes.c_uint32),
    ("compressor", ctypes.c_int32),
    ("error_bound_mode", ctypes.c_int32),
    ("error_bound", ctypes.c_double),
    ("compress_gbs", ctypes.c_double),
    ("decompress_gbs", ctypes.c_double),
    ("ratio", ctypes.c_double),
    ("worst_ratio", ctypes.c_double),
    ("both_gbs", ctypes.c_double),
    ("idle_processors", ctypes.c_double),
    ("sequences", ctypes.c_int32),
    ("reserved0", ctypes.c_int32),
    ("reserved", ctypes.c_uint64 * 1),
]

gpuzip_quality_info_t._fields_ = [
    ("struct_size", ctypes.c_uint64),
    ("asked", ctypes.c_double),
    ("error_bound", ctypes.c_double),
    ("chosen_error", ctypes.c_double),
    ("last_error", ctypes.c_double),
    ("field", ctypes.c_uint32),
    ("runs", ctypes.c_uint32),
    ("shots", ctypes.c_uint32),
    ("reserved0", ctypes.c_uint32),
    ("reserved", ctypes.c_uint64 * 4),
]

gpuzip_persist_options_t._fields_ = [
    ("struct_size", ctypes.c_uint64),
    ("rank", ctypes.c_int32),
    ("ranks", ctypes.c_int32),
    ("agree_min", gpuzip_least_t),
    ("user", ctypes.c_void_p),
    ("reserved", ctypes.c_uint64 * 4),
]

gpuzip_generation_t._fields_ = [
    ("struct_size", ctypes.c_uint64),
    ("generation", ctypes.c_int64),
    ("shot", ctypes.c_int64),
    ("it", ctypes.c_int64),
    ("bytes", ctypes.c_uint64),
    ("reserved", ctypes.c_uint64 * 4),
]

gpuzip_array_t._fields_ = [
    ("name", ctypes.c_char_p),
    ("field", gpuzip_field_t),
    ("scope", ctypes.c_int32),
    ("reserved0", ctypes.c_int32),
    ("reserved", ctypes.c_uint64 * 2),
]

gpuzip_codec_info_t._fields_ = [
    ("struct_size", ctypes.c_uint64),
    ("arrays", ctypes.c_uint32),
    ("compressor", ctypes.c_int32),
    ("content", ctypes.c_int32),
    ("type", ctypes.c_int32),
    ("field", ctypes.c_int32),
    ("reference", ctypes.c_int32),
    ("n1", ctypes.c_uint64),
    ("n2", ctypes.c_uint64),
    ("n3", ctypes.c_uint64),
    ("bound", ctypes.c_double),
    ("raw_bytes", ctypes.c_uint64),
    ("stored_bytes", ctypes.c_uint64),
    ("reserved", ctypes.c_uint64 * 4),
]

gpuzip_codec_job_t._fields_ = [
    ("bound", ctypes.c_double),
    ("bytes", ctypes.c_uint64),
    ("go", ctypes.c_int32),
    ("status", ctypes.c_int32),
    ("reserved", ctypes.c_uint64),
]

gpuzip_codec_plugin_t._fields_ = [
    ("struct_size", ctypes.c_uint64),
    ("name", ctypes.c_char_p),
    ("user", ctypes.c_void_p),
    ("max_bytes", gpuzip_codec_max_bytes_t),
    ("compress", gpuzip_codec_compress_t),
    ("decompress", gpuzip_codec_decompress_t),
    ("device_compress", gpuzip_codec_device_compress_t),
    ("device_decompress", gpuzip_codec_device_decompress_t),
    ("device_work", gpuzip_codec_device_work_t),
    ("reserved", ctypes.c_uint64),
]

gpuzip_codec_result_t._fields_ = [
    ("bytes", ctypes.c_uint64),
    ("status", ctypes.c_int32),
    ("field", ctypes.c_int32),
    ("count", ctypes.c_uint64),
    ("reserved", ctypes.c_uint64),
]

# Name: type of the result, and types of the arguments.
FUNCTIONS = {
    "gpuzip_last_error": (ctypes.c_char_p, ()),
    "gpuzip_status_string": (ctypes.c_char_p, (ctypes.c_int32,)),
    "gpuzip_version": (ctypes.c_char_p, ()),
    "gpuzip_abi_version": (ctypes.c_uint32, ()),
    "gpuzip_algorithm_name": (ctypes.c_char_p, (ctypes.c_int32,)),
    "gpuzip_set_log_level": (ctypes.c_int32, (ctypes.c_int32,)),
    "gpuzip_set_log_callback": (ctypes.c_int32, (gpuzip_log_callback_t, ctypes.c_void_p,)),
    "gpuzip_config_init": (ctypes.c_int32, (ctypes.POINTER(gpuzip_config_t),)),
    "gpuzip_config_load": (ctypes.c_int32, (ctypes.c_char_p, ctypes.POINTER(gpuzip_config_t),)),
    "gpuzip_config_free": (ctypes.c_int32, (ctypes.POINTER(gpuzip_config_t),)),
    "gpuzip_schedule_create": (ctypes.c_int32, (ctypes.POINTER(gpuzip_config_t), ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p),)),
    "gpuzip_schedule_get_action": (ctypes.c_int32, (ctypes.c_void_p, ctypes.POINTER(gpuzip_action_t),)),
    "gpuzip_schedule_peek_action": (ctypes.c_int32, (ctypes.c_void_p, ctypes.POINTER(gpuzip_action_t),)),
    "gpuzip_schedule_rewind": (ctypes.c_int32, (ctypes.c_void_p,)),
    "gpuzip_schedule_summary": (ctypes.c_int32, (ctypes.c_void_p, ctypes.POINTER(gpuzip_summary_t),)),
    "gpuzip_schedule_release": (ctypes.c_int32, (ctypes.c_void_p,)),
    "gpuzip_init": (ctypes.c_int32, (ctypes.POINTER(gpuzip_config_t), ctypes.c_int32, ctypes.POINTER(gpuzip_field_t), ctypes.c_uint32, ctypes.POINTER(ctypes.c_void_p),)),
    "gpuzip_attach": (ctypes.c_int32, (ctypes.c_void_p, ctypes.POINTER(gpuzip_config_t), ctypes.POINTER(gpuzip_field_t), ctypes.c_uint32, ctypes.POINTER(ctypes.c_void_p),)),
    "gpuzip_name_fields": (ctypes.c_int32, (ctypes.c_void_p, ctypes.POINTER(ctypes.c_char_p), ctypes.c_uint32,)),
    "gpuzip_get_schedule": (ctypes.c_int32, (ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p),)),
    "gpuzip_setup": (ctypes.c_int32, (ctypes.c_void_p,)),
    "gpuzip_setup_steps": (ctypes.c_int32, (ctypes.c_void_p, ctypes.c_int32,)),
    "gpuzip_rewind": (ctypes.c_int32, (ctypes.c_void_p,)),
    "gpuzip_get_action": (ctypes.c_int32, (ctypes.c_void_p, ctypes.POINTER(gpuzip_action_t),)),
    "gpuzip_peek_action": (ctypes.c_int32, (ctypes.c_void_p, ctypes.POINTER(gpuzip_action_t),)),
    "gpuzip_end_forward": (ctypes.c_int32, (ctypes.c_void_p,)),
    "gpuzip_dispatch": (ctypes.c_int32, (ctypes.c_void_p, ctypes.c_int64,)),
    "gpuzip_save": (ctypes.c_int32, (ctypes.c_void_p, ctypes.c_int32, ctypes.POINTER(gpuzip_field_t), ctypes.c_uint32, ctypes.c_void_p,)),
    "gpuzip_retrieve": (ctypes.c_int32, (ctypes.c_void_p, ctypes.c_int32, ctypes.POINTER(gpuzip_field_t), ctypes.c_uint32, ctypes.c_void_p,)),
    "gpuzip_export": (ctypes.c_int32, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int32, ctypes.POINTER(gpuzip_field_t), ctypes.c_uint32, ctypes.c_void_p,)),
    "gpuzip_save_begin": (ctypes.c_int32, (ctypes.c_void_p, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p), ctypes.c_uint32, ctypes.c_void_p,)),
    "gpuzip_save_commit": (ctypes.c_int32, (ctypes.c_void_p, ctypes.c_int32, ctypes.c_void_p,)),
    "gpuzip_retrieve_acquire": (ctypes.c_int32, (ctypes.c_void_p, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p), ctypes.c_uint32, ctypes.c_void_p,)),
    "gpuzip_retrieve_release": (ctypes.c_int32, (ctypes.c_void_p, ctypes.c_int32, ctypes.c_void_p,)),
    "gpuzip_synchronize": (ctypes.c_int32, (ctypes.c_void_p,)),
    "gpuzip_stats": (ctypes.c_int32, (ctypes.c_void_p, ctypes.POINTER(gpuzip_stats_t),)),
    "gpuzip_summary": (ctypes.c_int32, (ctypes.c_void_p, ctypes.POINTER(gpuzip_summary_t),)),
    "gpuzip_memory_required": (ctypes.c_int32, (ctypes.POINTER(gpuzip_config_t), ctypes.c_int32, ctypes.POINTER(gpuzip_field_t), ctypes.c_uint32, ctypes.POINTER(gpuzip_summary_t),)),
    "gpuzip_finalize": (ctypes.c_int32, (ctypes.c_void_p,)),
    "gpuzip_run_forward": (ctypes.c_int32, (ctypes.c_void_p, ctypes.POINTER(gpuzip_callbacks_t), ctypes.POINTER(gpuzip_field_t), ctypes.c_uint32, ctypes.c_void_p,)),
    "gpuzip_run_reverse": (ctypes.c_int32, (ctypes.c_void_p, ctypes.POINTER(gpuzip_callbacks_t), ctypes.POINTER(gpuzip_field_t), ctypes.c_uint32, ctypes.c_void_p,)),
    "gpuzip_fingerprint": (ctypes.c_int32, (ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint64),)),
    "gpuzip_schedule_fingerprint": (ctypes.c_int32, (ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint64),)),
    "gpuzip_agree": (ctypes.c_int32, (ctypes.c_void_p, gpuzip_least_t, ctypes.c_void_p,)),
    "gpuzip_autotune": (ctypes.c_int32, (ctypes.c_void_p,)),
    "gpuzip_profile_export": (ctypes.c_int32, (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64, ctypes.POINTER(ctypes.c_uint64),)),
    "gpuzip_profile_import": (ctypes.c_int32, (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64,)),
    "gpuzip_profile_steps": (ctypes.c_int32, (ctypes.c_void_p, ctypes.c_uint32, ctypes.POINTER(ctypes.c_double), ctypes.POINTER(ctypes.c_double),)),
    "gpuzip_profile_info": (ctypes.c_int32, (ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint32, ctypes.POINTER(gpuzip_profile_info_t),)),
    "gpuzip_quality_open": (ctypes.c_int32, (ctypes.POINTER(gpuzip_config_t), ctypes.POINTER(ctypes.c_void_p),)),
    "gpuzip_quality_next": (ctypes.c_int32, (ctypes.c_void_p, ctypes.POINTER(gpuzip_config_t), ctypes.POINTER(ctypes.c_int32),)),
    "gpuzip_quality_result": (ctypes.c_int32, (ctypes.c_void_p, ctypes.POINTER(gpuzip_field_t), ctypes.c_uint32,)),
    "gpuzip_quality_compare": (ctypes.c_int32, (ctypes.c_void_p, ctypes.POINTER(gpuzip_field_t), ctypes.c_uint32, ctypes.POINTER(ctypes.c_double), ctypes.POINTER(ctypes.c_double),)),
    "gpuzip_quality_judge": (ctypes.c_int32, (ctypes.c_void_p, ctypes.POINTER(ctypes.c_double), ctypes.POINTER(ctypes.c_double), ctypes.c_uint32,)),
    "gpuzip_quality_check": (ctypes.c_int32, (ctypes.c_void_p,)),
    "gpuzip_quality_info": (ctypes.c_int32, (ctypes.c_void_p, ctypes.POINTER(gpuzip_quality_info_t),)),
    "gpuzip_quality_close": (ctypes.c_int32, (ctypes.c_void_p,)),
    "gpuzip_persist_open": (ctypes.c_int32, (ctypes.c_void_p, ctypes.POINTER(gpuzip_persist_options_t),)),
    "gpuzip_persist_stage_register": (ctypes.c_int32, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int32, gpuzip_persist_stage_t, ctypes.c_void_p,)),
    "gpuzip_persist_due": (ctypes.c_int32, (ctypes.c_void_p, ctypes.POINTER(ctypes.c_int32),)),
    "gpuzip_persist_write": (ctypes.c_int32, (ctypes.c_void_p, ctypes.c_int64, ctypes.POINTER(gpuzip_array_t), ctypes.c_uint32, ctypes.c_void_p,)),
    "gpuzip_persist_wait": (ctypes.c_int32, (ctypes.c_void_p,)),
    "gpuzip_persist_clone": (ctypes.c_int32, (ctypes.c_void_p, ctypes.c_char_p,)),
    "gpuzip_persist_find": (ctypes.c_int32, (ctypes.c_void_p, ctypes.POINTER(gpuzip_generation_t),)),
    "gpuzip_persist_read": (ctypes.c_int32, (ctypes.c_void_p, ctypes.POINTER(gpuzip_array_t), ctypes.c_uint32, ctypes.c_void_p,)),
    "gpuzip_persist_check": (ctypes.c_int32, (ctypes.c_char_p,)),
    "gpuzip_persist_whole": (ctypes.c_int32, (ctypes.c_char_p,)),
    "gpuzip_persist_parity": (ctypes.c_int32, (ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_int32), ctypes.c_uint32, ctypes.c_uint32, ctypes.c_uint64,)),
    "gpuzip_persist_checksum": (ctypes.c_uint32, (ctypes.c_uint32, ctypes.c_void_p, ctypes.c_uint64,)),
    "gpuzip_request_stop": (None, ()),
    "gpuzip_stop_requested": (ctypes.c_int32, (ctypes.POINTER(ctypes.c_double),)),
    "gpuzip_catch_signals": (ctypes.c_int32, (ctypes.POINTER(ctypes.c_int32), ctypes.c_uint32,)),
    "gpuzip_codec_bound": (ctypes.c_int32, (ctypes.POINTER(gpuzip_config_t), ctypes.POINTER(gpuzip_field_t), ctypes.c_uint32, ctypes.POINTER(ctypes.c_uint64),)),
    "gpuzip_codec_compress": (ctypes.c_int32, (ctypes.POINTER(gpuzip_config_t), ctypes.POINTER(gpuzip_field_t), ctypes.c_uint32, ctypes.c_void_p, ctypes.c_uint64, ctypes.POINTER(ctypes.c_uint64),)),
    "gpuzip_codec_decompress": (ctypes.c_int32, (ctypes.c_void_p, ctypes.c_uint64, ctypes.POINTER(gpuzip_field_t), ctypes.c_uint32,)),
    "gpuzip_codec_info": (ctypes.c_int32, (ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint32, ctypes.POINTER(gpuzip_codec_info_t),)),
    "gpuzip_codec_register": (ctypes.c_int32, (ctypes.POINTER(gpuzip_codec_plugin_t), ctypes.POINTER(ctypes.c_int32),)),
    "gpuzip_codec_work": (ctypes.c_int32, (ctypes.POINTER(gpuzip_config_t), ctypes.POINTER(gpuzip_field_t), ctypes.c_uint32, ctypes.POINTER(ctypes.c_uint64),)),
    "gpuzip_codec_encode": (ctypes.c_int32, (ctypes.POINTER(gpuzip_config_t), ctypes.POINTER(gpuzip_field_t), ctypes.c_uint32, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_uint64, ctypes.POINTER(gpuzip_codec_result_t), ctypes.c_void_p,)),
    "gpuzip_codec_decode": (ctypes.c_int32, (ctypes.POINTER(gpuzip_config_t), ctypes.c_void_p, ctypes.c_uint64, ctypes.POINTER(gpuzip_field_t), ctypes.c_uint32, ctypes.c_void_p, ctypes.c_uint64, ctypes.POINTER(gpuzip_codec_result_t), ctypes.c_void_p,)),
}

# Key: unit, values that the key accepts as a text, names of its values, and its meaning.
KEYS = {
    "checkpointing_algorithm": (
        "",
        "trace (0), revolve (1), uniform (2), zcut (3), auto (4), two-level (5), store-all (6), hrevolve (8), online (9)",
        {"trace": 0, "revolve": 1, "uniform": 2, "zcut": 3, "auto": 4, "two-level": 5, "store-all": 6, "hrevolve": 8, "online": 9},
        "the schedule; auto: the schedule with the shortest predicted time within the budgets",
    ),
    "checkpointing_snaps": (
        "snapshots",
        "a whole number from 0 to 2147483647",
        {},
        "snapshots that may be stored at a time, an error if the budgets hold fewer; 0: what fits the budgets, or what the algorithm needs",
    ),
    "cache_capacity": (
        "snapshots",
        "a whole number from 0 to 2147483647",
        {},
        "snapshots for which the device cache has room; 0: no cache, from 2 on with prefetch; with device_budget: the most snapshots",
    ),
    "compressor": (
        "",
        "none (0), zfp (1), bitcomp (2), cuszp (3), lorenzo (4), dct (5), fp16 (6), bfp (7), lossless (8), auto (15), or 64 to 255 for a codec that the application registers",
        {"none": 0, "zfp": 1, "cuzfp": 1, "bitcomp": 2, "cuszp": 3, "lorenzo": 4, "dct": 5, "fp16": 6, "bfp": 7, "lossless": 8, "auto": 15},
        "the codec of snapshots; auto: the codec with the shortest predicted time that keeps error_bound, or none",
    ),
    "log_level": (
        "",
        "debug (0), info (1), warn (2), error (3)",
        {"debug": 0, "info": 1, "warn": 2, "error": 3},
        "the least important level that is logged, for the whole process",
    ),
    "enable_performance_log": (
        "",
        "false (0), true (1)",
        {"false": 0, "true": 1, "no": 0, "yes": 1, "off": 0, "on": 1},
        "append one CSV row per shot to gpuzip_performance.csv, or to the file that GPUZIP_PERFORMANCE_LOG names",
    ),
    "enable_compression_rate_log": (
        "",
        "false (0), true (1)",
        {"false": 0, "true": 1, "no": 0, "yes": 1, "off": 0, "on": 1},
        "log the compression ratio of every snapshot, at level info",
    ),
    "compression_factor": (
        "ratio",
        "a number from 0 on",
        {},
        "the compression ratio that budgets are planned with; 0 or 1: snapshots are planned with their raw size",
    ),
    "trace_file_path": (
        "",
        "a path",
        {},
        "the file with the recorded schedule of algorithm trace",
    ),
    "revolve_log_level": (
        "",
        "a whole number from -2147483648 to 2147483647",
        {},
        "without effect, accepted because GPUZIP 2.x has this key; log_level decides",
    ),
    "zfp_bit_rate": (
        "bits per value",
        "a whole number from 0 to 64",
        {},
        "the rate of zfp: 1 to 32 (FP64: to 64); 0: 8",
    ),
    "cuszp_err_bound": (
        "of the range",
        "a number from 0 on",
        {},
        "the bound of cuszp if error_bound is not set, as in GPUZIP 2.x",
    ),
    "float_kind": (
        "",
        "float or double",
        {"float": 0, "double": 1},
        "the type of fields in calls that give only extents (the GPUZIP 2.x headers); not set: float",
    ),
    "bitcomp_delta_config": (
        "",
        "maximum (0), statistics (1), delta (2)",
        {"maximum": 0, "statistics": 1, "delta": 2},
        "what sets the quantisation step (delta) of bitcomp if error_bound is not set",
    ),
    "bitcomp_range_fraction": (
        "of the maximum",
        "a number from 0 on",
        {},
        "bitcomp with bitcomp_delta_config maximum or statistics: the delta, as a part of the maximum or of the range",
    ),
    "bitcomp_num_sigma": (
        "standard deviations",
        "a number from 0 on",
        {},
        "bitcomp with bitcomp_delta_config statistics: the range from which the delta follows",
    ),
    "bitcomp_delta": (
        "",
        "a number from 0 on",
        {},
        "bitcomp with bitcomp_delta_config delta: the delta, in the unit of the field",
    ),
    "bitcomp_algorithm": (
        "",
        "default (0), sparse (1)",
        {"default": 0, "sparse": 1},
        "the algorithm of bitcomp; sparse is for arrays with many zeros",
    ),
    "backend": (
        "",
        "fields (0), host (1), cuda (2)",
        {"fields": 0, "host": 1, "cuda": 2},
        "where snapshots are kept; fields: where the memory of the fields is",
    ),
    "device": (
        "",
        "a whole number from 0 to 2147483647",
        {},
        "the CUDA device; 0: the device of the fields, or else the current device; k+1: CUDA device k",
    ),
    "device_budget": (
        "bytes",
        "a byte count below 2^64: K, M, G, T or KiB to TiB are powers of 1024, kB to TB of 1000",
        {},
        "most device memory that a session takes; 0: cache_capacity decides",
    ),
    "host_budget": (
        "bytes",
        "a byte count below 2^64: K, M, G, T or KiB to TiB are powers of 1024, kB to TB of 1000",
        {},
        "most host memory for snapshots; 0: what the plan needs; for auto without any budget at most half of the free memory",
    ),
    "disk_budget": (
        "bytes",
        "a byte count below 2^64: K, M, G, T or KiB to TiB are powers of 1024, kB to TB of 1000",
        {},
        "most disk space for snapshots that host_budget has no room for; 0: none go to disk",
    ),
    "policy": (
        "",
        "clairvoyant (0), lru (1)",
        {"clairvoyant": 0, "lru": 1},
        "which snapshot leaves the device cache; clairvoyant: the one that is needed last; lru: as in GPUZIP 2.x",
    ),
    "error_bound_mode": (
        "",
        "max (0), absolute (1), range (2), psnr (3)",
        {"max": 0, "absolute": 1, "range": 2, "psnr": 3},
        "what error_bound is relative to; psnr: error_bound is a target in dB",
    ),
    "error_bound": (
        "by its mode",
        "a number from 0 on",
        {},
        "the bound of codecs that keep one; 0: 1e-3 of the maximum or of the range",
    ),
    "nonfinite": (
        "",
        "store (0), error (1)",
        {"store": 0, "error": 1},
        "what a codec does with NaN and infinities: store them exactly, or refuse the save",
    ),
    "max_in_flight": (
        "actions",
        "a whole number from 0 to 2147483647",
        {},
        "most actions that the host runs ahead of a GPU; 0: 64",
    ),
    "range_actions": (
        "",
        "false (0), true (1)",
        {"false": 0, "true": 1, "no": 0, "yes": 1, "off": 0, "on": 1},
        "consecutive FORWARDs are one action, from ts to ts_end",
    ),
    "snapshot_rule": (
        "",
        "budgets (0), adjust (1)",
        {"budgets": 0, "adjust": 1},
        "what decides the number of snapshots: checkpointing_snaps or the budgets, or GPUZIP 2.x's rule",
    ),
    "schedule_chunk": (
        "states",
        "a whole number from 0 to 2147483647",
        {},
        "states per chunk of zcut or per interval of two-level and hrevolve; 0: gpuzip chooses",
    ),
    "uniform_reading": (
        "",
        "inside (0), published (1)",
        {"inside": 0, "published": 1},
        "uniform: inside: free slots reverse each interval; published: as in GPUZIP 2.x, quadratic in the interval",
    ),
    "zero_copy": (
        "",
        "false (0), true (1)",
        {"false": 0, "true": 1, "no": 0, "yes": 1, "off": 0, "on": 1},
        "the application computes in memory of the session, such as the slots of the device cache; its fields are not copied",
    ),
    "link_bandwidth": (
        "bytes/s",
        "bytes per second: K, M, G, T or KiB to TiB are powers of 1024, kB to TB of 1000",
        {},
        "host backend: bandwidth of a simulated link, each way; 0: no simulated link",
    ),
    "profile_path": (
        "",
        "a path",
        {},
        "the file with measured costs: auto reads the file if it exists, gpuzip_autotune writes it",
    ),
    "trace_out": (
        "",
        "a path",
        {},
        "the file for a timeline of the run, for ui.perfetto.dev and gpuzip report; %r: rank, %p: process",
    ),
    "persist_dir": (
        "",
        "a path",
        {},
        "the folder of restart files, which the application asks for (gpuzip_persist_open)",
    ),
    "persist_overhead": (
        "of the run time",
        "a number from 0 on",
        {},
        "most of the run time that restart files take: the application's wait, and the processor time of the thread that writes; 0: 0.035",
    ),
    "stop_budget_s": (
        "s",
        "a number from 0 on",
        {},
        "most time that a requested stop may take; 0: 1.5",
    ),
    "shared_levels": (
        "",
        "false (0), true (1)",
        {"false": 0, "true": 1, "no": 0, "yes": 1, "off": 0, "on": 1},
        "two consecutive snapshots store the time level that they share once",
    ),
    "mixed_storage": (
        "",
        "planned (0), always (1), never (2)",
        {"planned": 0, "always": 1, "never": 2},
        "snapshots that stay on the device are raw, those that go to the host compressed; planned: with compressor auto and without zero_copy, where it is faster",
    ),
    "adjoint_every": (
        "time steps",
        "a whole number from 0 to 2147483647",
        {},
        "the adjoint needs every k-th state only, and BACKWARDs are ranges of k steps; 0 and 1: every state",
    ),
    "difference_bound": (
        "",
        "auto (0), always (1)",
        {"auto": 0, "always": 1},
        "states in which the difference of a field and its previous level keeps a bound of its own; auto: those that steps start from; always: all",
    ),
    "strict": (
        "",
        "false (0), true (1)",
        {"false": 0, "true": 1, "no": 0, "yes": 1, "off": 0, "on": 1},
        "restart files that another user could have made or changed; false: a warning, true: an error",
    ),
    "disk_path": (
        "",
        "a path",
        {},
        "the folders of snapshots on disk, separated by colons, one on each disk; not set: TMPDIR, or else /var/tmp",
    ),
    "device_reserve": (
        "bytes",
        "a byte count below 2^64: K, M, G, T or KiB to TiB are powers of 1024, kB to TB of 1000",
        {},
        "device memory that is left to the application; 0: the larger of 512 MiB and 2 % of the device's memory, at most an eighth of it",
    ),
    "codec_threads": (
        "threads",
        "a whole number from -1 to 64",
        {},
        "host backend: most threads that code snapshots while the application computes, where that is faster; 0: as many as the profile has idle processors; -1: the calling thread codes",
    ),
    "sequences": (
        "",
        "false (0), true (1)",
        {"false": 0, "true": 1, "no": 0, "yes": 1, "off": 0, "on": 1},
        "host backend, dct, store-all or auto: where all states are kept, a snapshot holds the difference to what the next two states predict",
    ),
    "quality": (
        "",
        "gradient:ERROR or image:PSNR in dB",
        {},
        "the error of the result, such as gradient:1e-3 or image:60dB, from which an application that measures its result chooses error_bound",
    ),
    "fill_value": (
        "",
        "nan or a number",
        {},
        "host backend, codecs with an error bound: the value where fields have none, such as land; it is kept exactly and does not count for the bound",
    ),
    "sweeps": (
        "",
        "a whole number from 0 to 2147483647",
        {},
        "reverse sweeps over the states of one forward sweep, each after gpuzip_rewind; 0 and 1: one",
    ),
    "check": (
        "times",
        "a whole number from 0 to 9",
        {},
        "every state is computed so many times again and compared with the first time, which finds incomplete states; 3 or more: and steps that are not deterministic",
    ),
    "persist_shared_dir": (
        "",
        "a path",
        {},
        "a second folder for restart files, which outlives the node: generations of persist_dir are copied there in the background",
    ),
    "persist_whole_every": (
        "generations",
        "a whole number from 0 to 100",
        {},
        "every k-th generation of restart files holds everything; the others refer to older ones for what has not changed; 0 and 1: all hold everything",
    ),
    "persist_stages": (
        "",
        "names with commas or spaces between",
        {},
        "the stages that generations of restart files pass: compress, which packs the copies in persist_shared_dir without loss, and those that the application registers; not set: all that it registers",
    ),
}
