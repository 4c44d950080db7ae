/* The modes of oom.c: each is a small session, or several at a time. */
#ifndef OOM_MODES_H
#define OOM_MODES_H

#include "oom_state.h"

#define BASE "log_level = 3\n"
#define SMALL {5, 1, 1}, GPUZIP_TYPE_F32
#define BLOCK {24, 18, 7}, GPUZIP_TYPE_F32
#define SHAPES {3, 1, 1}, GPUZIP_TYPE_F32
#define SPREAD 0, 19
#define LONG 9000 /* steps whose lists do not fit into the library's reserve of memory */
#define LARGE 32768
#define BOUND "error_bound_mode = absolute\nerror_bound = 0.01\n"
#define TIMELINE \
  "checkpointing_algorithm = store-all\ncache_capacity = 40\ntrace_out = oom-timeline-%p.json\nenable_performance_log = 1\n"
static const struct mode MODES[] = {
    {"store-all", PULL, 90, 1, SMALL, 0, "checkpointing_algorithm = store-all\n"},
    {"store-all-large", PULL, LONG, 1, SMALL, 0, "checkpointing_algorithm = store-all\n", LARGE},
    {"store-all-cache", PULL, 90, 2, SMALL, 0, "checkpointing_algorithm = store-all\ncache_capacity = 40\n"},
    {"store-all-cache-large", PULL, LONG, 2, SMALL, 0, "checkpointing_algorithm = store-all\ncache_capacity = 40\n", LARGE},
    {"revolve", PULL, 300, 2, SMALL, 0, "checkpointing_algorithm = revolve\ncheckpointing_snaps = 12\ncache_capacity = 3\n"},
    {"revolve-long", PULL, 90, 1, SMALL, 0, "checkpointing_algorithm = revolve\ncheckpointing_snaps = 30\ncache_capacity = 30\n"},
    {"revolve-long-large", PULL, LONG, 1, SMALL, 0, "checkpointing_algorithm = revolve\ncheckpointing_snaps = 900\ncache_capacity = 30\n", LARGE},
    {"lru", PULL, 120, 1, SMALL, 0, "checkpointing_algorithm = revolve\ncheckpointing_snaps = 9\ncache_capacity = 3\npolicy = lru\n"},
    {"uniform", PULL, 200, 1, SMALL, 0, "checkpointing_algorithm = uniform\ncheckpointing_snaps = 12\n"},
    {"uniform-published", PULL, 90, 1, SMALL, 0,
     "checkpointing_algorithm = uniform\ncheckpointing_snaps = 12\nuniform_reading = 1\n"},
    {"zcut", PULL, 200, 1, SMALL, 0, "checkpointing_algorithm = zcut\n"},
    {"two-level", PULL, 200, 1, SMALL, 0, "checkpointing_algorithm = two-level\ncheckpointing_snaps = 30\nrange_actions = 1\n"},
    {"auto", PULL, 200, 2, SMALL, 0, "device_budget = 2000\nhost_budget = 4000\n"},
    {"disk", PULL, 200, 2, SMALL, 0, "checkpointing_algorithm = revolve\ndevice_budget = 2000\nhost_budget = 4000\ndisk_budget = 80K\n"},
    {"auto-codec", PULL, 60, 1, BLOCK, 0.02, "compressor = auto\ndevice_budget = 40K\nhost_budget = 100K\n" BOUND},
    {"trace", PULL, 300, 1, SMALL, 0, "checkpointing_algorithm = trace\ntrace_file_path = oom-schedule.txt\n"},
    {"zero-copy", ZERO_COPY, 200, 2, SMALL, 0, "checkpointing_algorithm = revolve\ncheckpointing_snaps = 9\ncache_capacity = 3\nzero_copy = 1\n"},
    {"zero-copy-dct", ZERO_COPY, 40, 2, BLOCK, 0.02,
     "checkpointing_algorithm = revolve\ncheckpointing_snaps = 9\nzero_copy = 1\ncompressor = dct\ndevice_budget = 80K\n" BOUND},
    {"shared-levels", PULL, 90, 2, SMALL, 0, "checkpointing_algorithm = store-all\ncache_capacity = 40\nshared_levels = 1\n"},
    {"shared-levels-large", PULL, LONG, 2, SMALL, 0, "checkpointing_algorithm = store-all\ncache_capacity = 40\nshared_levels = 1\n", LARGE},
    {"run", RUN, 200, 2, SMALL, 0, "checkpointing_algorithm = revolve\ncheckpointing_snaps = 9\ncache_capacity = 3\nrange_actions = 1\n"},
    {"attach", ATTACH, 100, 2, SMALL, 0, "checkpointing_algorithm = revolve\ncheckpointing_snaps = 9\ncache_capacity = 3\n"},
    {"fields", PULL, 6, 1000, {3, 1, 1}, GPUZIP_TYPE_F64, 0, "checkpointing_algorithm = store-all\ncache_capacity = 2\n"},
    {"fields-shared", PULL, 6, 1000, {3, 1, 1}, GPUZIP_TYPE_F64, 0, "checkpointing_algorithm = store-all\nshared_levels = 1\n"},
    {"fields-dct", PULL, 6, 300, {3, 2, 1}, GPUZIP_TYPE_F64, 0.02, "checkpointing_algorithm = store-all\ncompressor = dct\n" BOUND},
    {"shapes", PULL, 6, 1000, SHAPES, 0, "checkpointing_algorithm = store-all\ncache_capacity = 2\n", SPREAD},
    {"shapes-shared", PULL, 6, 1000, SHAPES, 0, "checkpointing_algorithm = store-all\nshared_levels = 1\n", SPREAD},
    {"shapes-dct", PULL, 5, 600, SHAPES, 0.02, "checkpointing_algorithm = store-all\ncompressor = dct\n" BOUND, SPREAD},
    {"shapes-lorenzo", PULL, 5, 1000, SHAPES, 0.02, "checkpointing_algorithm = store-all\ncompressor = lorenzo\n" BOUND, SPREAD},
    {"shapes-cuszp", PULL, 5, 600, SHAPES, 0.02, "checkpointing_algorithm = store-all\ncompressor = cuszp\n" BOUND, SPREAD},
    {"shapes-zfp", PULL, 5, 600, SHAPES, 0.2, "checkpointing_algorithm = store-all\ncompressor = zfp\nzfp_bit_rate = 16\n", SPREAD},
    {"shapes-fp16", PULL, 5, 600, SHAPES, 0.02, "checkpointing_algorithm = store-all\ncompressor = fp16\n", SPREAD},
    {"shapes-bfp", PULL, 5, 600, SHAPES, 0.05, "checkpointing_algorithm = store-all\ncompressor = bfp\n", SPREAD},
    {"shapes-auto", PULL, 5, 300, SHAPES, 0.05, "compressor = auto\ndevice_budget = 40K\nhost_budget = 100K\n" BOUND, SPREAD},
    {"shapes-zero-copy", ZERO_COPY, 40, 2, BLOCK, 0, "checkpointing_algorithm = revolve\ncheckpointing_snaps = 9\nzero_copy = 1\n", SPREAD},
    {"zfp", PULL, 40, 2, BLOCK, 0.2, "checkpointing_algorithm = revolve\ncheckpointing_snaps = 6\ncompressor = zfp\nzfp_bit_rate = 16\n"},
    {"cuszp", PULL, 40, 2, BLOCK, 0.02, "checkpointing_algorithm = revolve\ncheckpointing_snaps = 6\ncompressor = cuszp\n" BOUND},
    {"lorenzo", PULL, 40, 2, BLOCK, 0.02, "checkpointing_algorithm = revolve\ncheckpointing_snaps = 6\ncompressor = lorenzo\n" BOUND},
    {"dct", PULL, 40, 2, BLOCK, 0.02, "checkpointing_algorithm = revolve\ncheckpointing_snaps = 6\ncompressor = dct\n" BOUND},
    {"dct-budget", PULL, 40, 2, {40, 36, 11}, GPUZIP_TYPE_F64, 0.02,
     "checkpointing_algorithm = store-all\ncompressor = dct\ncompression_factor = 4\ndevice_budget = 500K\nhost_budget = 4M\n" BOUND},
    {"mixed", PULL, 40, 2, BLOCK, 0.02,
     "checkpointing_algorithm = hrevolve\ncompressor = fp16\ncompression_factor = 2\nmixed_storage = always\ndevice_budget = 200K\n" BOUND},
    {"mixed-zero-copy", ZERO_COPY, 40, 2, BLOCK, 0.02,
     "checkpointing_algorithm = hrevolve\ncompressor = fp16\ncompression_factor = 2\nmixed_storage = always\nzero_copy = 1\ndevice_budget = 200K\n" BOUND},
    {"online", PULL, 200, 2, SMALL, 0, "checkpointing_algorithm = online\ncheckpointing_snaps = 12\ncache_capacity = 3\n"},
    {"online-large", PULL, LONG, 1, SMALL, 0, "checkpointing_algorithm = online\ncheckpointing_snaps = 900\ncache_capacity = 30\n", LARGE},
    {"fp16", PULL, 40, 2, BLOCK, 0.02, "checkpointing_algorithm = revolve\ncheckpointing_snaps = 6\ncompressor = fp16\n"},
    {"bfp", PULL, 40, 2, BLOCK, 0.05, "checkpointing_algorithm = revolve\ncheckpointing_snaps = 6\ncompressor = bfp\n"},
    {"trace-out", PULL, 90, 1, SMALL, 0, TIMELINE},
    {"trace-out-large", PULL, LONG, 1, SMALL, 0, TIMELINE, LARGE},
    {"autotune", AUTOTUNE, 60, 2, BLOCK, 0.05,
     "checkpointing_algorithm = revolve\ncheckpointing_snaps = 6\ncompressor = auto\nprofile_path = oom-profile.gz\n" BOUND},
    {"schedule", SCHEDULE, 90, 1, SMALL, 0, "checkpointing_algorithm = auto\n"},
    {"schedule-large", SCHEDULE, LONG, 1, SMALL, 0, "checkpointing_algorithm = auto\n", LARGE},
    {"schedule-trace", SCHEDULE, 300, 1, SMALL, 0, "checkpointing_algorithm = trace\ntrace_file_path = oom-schedule.txt\n"},
    {"codec-zfp", CODEC, 0, 2, BLOCK, 0.2, "compressor = zfp\nzfp_bit_rate = 16\n"},
    {"codec-cuszp", CODEC, 0, 2, BLOCK, 0.02, "compressor = cuszp\n" BOUND},
    {"codec-lorenzo", CODEC, 0, 2, BLOCK, 0.02, "compressor = lorenzo\n" BOUND},
    {"codec-dct", CODEC, 0, 2, {70, 66, 20}, GPUZIP_TYPE_F32, 0.02, "compressor = dct\n" BOUND},
    {"codec-dct-64", CODEC, 0, 1, {70, 66, 20}, GPUZIP_TYPE_F64, 0.02, "compressor = dct\n" BOUND},
    {"codec-fp16", CODEC, 0, 2, BLOCK, 0.02, "compressor = fp16\n"},
    {"codec-bfp", CODEC, 0, 2, BLOCK, 0.05, "compressor = bfp\n"},
    {"codec-fields", CODEC, 0, 1000, {4, 3, 2}, GPUZIP_TYPE_F64, 0.02, "compressor = lorenzo\n" BOUND},
    {"codec-shapes-dct", CODEC, 0, 300, SHAPES, 0.02, "compressor = dct\n" BOUND, SPREAD},
    {"codec-shapes-lorenzo", CODEC, 0, 1000, SHAPES, 0.02, "compressor = lorenzo\n" BOUND, SPREAD},
    {"codec-shapes-cuszp", CODEC, 0, 1000, SHAPES, 0.02, "compressor = cuszp\n" BOUND, SPREAD},
    {"codec-shapes-zfp", CODEC, 0, 300, SHAPES, 0.2, "compressor = zfp\nzfp_bit_rate = 16\n", SPREAD},
    {"codec-shapes-fp16", CODEC, 0, 1000, SHAPES, 0.02, "compressor = fp16\n", SPREAD},
    {"codec-shapes-bfp", CODEC, 0, 1000, SHAPES, 0.05, "compressor = bfp\n", SPREAD},
    {"files", FILES, 300, 2, SMALL, 0,
     "checkpointing_algorithm = trace\ntrace_file_path = oom-schedule.txt\ncache_capacity = 3\ntrace_out = oom-timeline-%p.json\n"},
    {"threads", THREADS, .config = "store-all-cache store-all-cache store-all-cache store-all-cache store-all-cache store-all-cache "
                                   "store-all-cache store-all-cache store-all-cache store-all-cache store-all-cache store-all-cache"},
    {"threads-mixed", THREADS, .config = "revolve attach run zero-copy shared-levels trace trace-out auto"},
    {"threads-codecs", THREADS, .config = "lorenzo cuszp fp16 bfp"},
    {"threads-shapes", THREADS, .config = "shapes-dct shapes-lorenzo shapes-cuszp shapes-zfp shapes-fp16 shapes-bfp shapes shapes-shared"},
    {"threads-calls", THREADS, .config = "codec-fields codec-shapes-lorenzo codec-shapes-cuszp codec-shapes-zfp codec-zfp codec-dct "
                                         "schedule schedule-trace load files"},
    {"threads-large", THREADS, .config = "store-all-large shared-levels-large schedule-large", .least = LARGE},
    {"repeat-store-all", REPEAT, .config = "store-all-cache"},
    {"repeat-revolve", REPEAT, .config = "revolve"},
    {"repeat-auto", REPEAT, .config = "auto"},
    {"repeat-trace", REPEAT, .config = "trace"},
    {"repeat-files", REPEAT, .config = "files"},
    {"repeat-profile", REPEAT, .config = "autotune"},
    {"repeat-zero-copy-dct", REPEAT, .config = "zero-copy-dct"},
    {"repeat-shapes", REPEAT, .config = "shapes"},
    {"repeat-shapes-dct", REPEAT, .config = "shapes-dct"},
    {"repeat-large", REPEAT, .config = "store-all-cache-large", .least = LARGE},
    {"load", LOAD, 0, 1, SMALL, 0, "checkpointing_algorithm = revolve\ncheckpointing_snaps = 6\ntrace_out = some-file.json\n"},
};
enum { KINDS = sizeof MODES / sizeof MODES[0] };

#endif
