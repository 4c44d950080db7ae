//! Planted bugs: changes of the kernels that the checks must find.

/// What finds a bug.
pub enum Run {
    /// A snapshot of a codec: its name, the extents, whether values are FP64.
    Codec(&'static str, [u64; 3], bool),
    /// Calls without a session, on a field with gaps between its rows.
    Rows,
    /// Calls without a session, of a registered codec.
    Registered,
    /// The checksums of fields.
    Levels,
    /// The kernels of `rtm3d_cuda`.
    Rtm3d,
}

/// A planted bug.
pub struct Plant {
    /// The file in kernels/.
    pub file: &'static str,
    /// The text that is replaced.
    pub old: &'static str,
    /// The text that replaces it.
    pub new: &'static str,
    /// The names of the checks; one of them must report.
    pub faults: &'static [&'static str],
    /// What is run.
    pub run: Run,
}

const fn plant(
    file: &'static str,
    old: &'static str,
    new: &'static str,
    faults: &'static [&'static str],
    run: Run,
) -> Plant {
    Plant { file, old, new, faults, run }
}

const RACE: &[&str] = &["Race"];
/// A read before the write, or beside it.
const EARLY: &[&str] = &["Race", "Uninitialised"];
const CUBE: [u64; 3] = [33, 10, 9];
const PLANE: [u64; 3] = [33, 31, 1];
const LINE: [u64; 3] = [300, 1, 1];
const LONG_LINE: [u64; 3] = [20_000, 1, 1];

/// All planted bugs.
pub const PLANTS: &[Plant] = &[
    plant(
        "bfp.cu",
        "if (i + k < n)\n            x[i + k] = f.v[k];",
        "x[i + k] = f.v[k];",
        &["Bounds"],
        Run::Codec("bfp", LINE, false),
    ),
    plant(
        "bfp.cu",
        "__shfl_xor_sync(~0u, peak, by)",
        "__shfl_xor_sync(1u, peak, by)",
        &["Mask"],
        Run::Codec("bfp", CUBE, true),
    ),
    // Too few arguments, too many arguments, an argument of 8 bytes for a parameter of 16
    // bytes, more shared memory than a block may have.
    plant(
        "bfp.cu",
        "bfp_decode(real *x, const real *later, u64 n, Job *job)",
        "bfp_decode(real *x, const real *later, u64 n, Job *job, u64 more)",
        &["Launch"],
        Run::Codec("bfp", LINE, false),
    ),
    plant(
        "bfp.cu",
        "bfp_encode(const real *x, const real *later, u64 n, Job *job)\n{",
        "bfp_encode(const real *x, const real *later, u64 n)\n{\n    Job *job = (Job *)n;",
        &["Launch"],
        Run::Codec("bfp", PLANE, true),
    ),
    plant(
        "half.cu",
        "half_encode(const real *x, const real *later, u64 n, Job *job)\n{",
        "half_encode(ulonglong2 two, const real *later, u64 n, Job *job)\n{\n    const real *x = (const real *)two.x;",
        &["Launch"],
        Run::Codec("fp16", CUBE, false),
    ),
    plant(
        "zfp.cu",
        "__shared__ u16 doubled[256];",
        "__shared__ u16 doubled[25600];",
        &["Launch"],
        Run::Codec("zfp", LINE, false),
    ),
    plant(
        "bitcomp.cu",
        "sums[blockIdx.x] = sum;",
        "sums[blockIdx.x + 100000] = sum;",
        &["Bounds"],
        Run::Codec("bitcomp", PLANE, false),
    ),
    plant(
        "bitcomp.cu",
        "    if (threadIdx.x == 0)\n        sums[blockIdx.x] = sum;",
        "    sums[blockIdx.x] = sum + threadIdx.x;",
        RACE,
        Run::Codec("bitcomp", LINE, true),
    ),
    plant(
        "common.cuh",
        "        room[warp] = of_warp;\n    __syncthreads();",
        "        room[warp] = of_warp;",
        EARLY,
        Run::Codec("dct", CUBE, false),
    ),
    plant(
        "common.cuh",
        "    __syncwarp();\n    return before;",
        "    return before;",
        RACE,
        Run::Codec("dct", LONG_LINE, false),
    ),
    plant(
        "common.cuh",
        "            room[32] = sum;\n    }\n    __syncthreads();",
        "            room[32] = sum;\n    }",
        EARLY,
        Run::Codec("dct", PLANE, false),
    ),
    plant(
        "common.cuh",
        "sum_before(volatile u64 *status,",
        "sum_before(u64 *status,",
        &["Race", "Deadlock"],
        Run::Codec("cuszp", LONG_LINE, false),
    ),
    plant(
        "cuszp.cu",
        "ticket = (u32)atomicAdd(&job->work[3], 1);",
        "ticket = blockIdx.x;",
        &["Deadlock"],
        Run::Codec("cuszp", LONG_LINE, false),
    ),
    plant(
        "cuszp.cu",
        "    __syncwarp();\n    const u32 signs",
        "    const u32 signs",
        EARLY,
        Run::Codec("cuszp", PLANE, false),
    ),
    plant(
        "cuszp.cu",
        "    get_piece(address, bytes, room);\n    __syncthreads();",
        "    get_piece(address, bytes, room);",
        EARLY,
        Run::Codec("cuszp", CUBE, true),
    ),
    plant(
        "dct.cuh",
        "            room[warp_id()] = (u64)total;\n        __syncthreads();",
        "            room[warp_id()] = (u64)total;",
        EARLY,
        Run::Codec("dct", CUBE, false),
    ),
    plant(
        "dct.cuh",
        "        __syncthreads();\n    else\n        __syncwarp();\n}",
        "        __syncthreads();\n}",
        EARLY,
        Run::Codec("dct", LINE, false),
    ),
    plant(
        "dct_decode.cu",
        "    /* The next call overwrites the word. */\n    sync<S>();",
        "",
        RACE,
        Run::Codec("dct", CUBE, true),
    ),
    plant(
        "dct_decode.cu",
        "    if (threadIdx.x == 0 && s->damaged)",
        "    if (threadIdx.x == 0 && s->bytes[1 << 20])",
        &["Bounds"],
        Run::Codec("dct", LINE, true),
    ),
    plant(
        "dct_encode.cu",
        "    __syncthreads();\n    if (threadIdx.x < Tile<S>::count) {\n        const u32 number",
        "    if (threadIdx.x < Tile<S>::count) {\n        __syncthreads();\n        const u32 number",
        &["Barrier"],
        Run::Codec("dct", PLANE, false),
    ),
    plant(
        "dct_encode.cu",
        "    __threadfence();\n    __syncthreads();\n    if (threadIdx.x == 0) {\n        s->flag",
        "    __syncthreads();\n    if (threadIdx.x == 0) {\n        s->flag",
        RACE,
        Run::Codec("dct psnr", LONG_LINE, false),
    ),
    plant(
        "dct_encode.cu",
        "        s->energies[threadIdx.x] = 0;",
        "",
        &["Uninitialised"],
        Run::Codec("dct psnr", LINE, true),
    ),
    plant(
        "dct_finish.cu",
        "loaded[chunk - back] == 0)",
        "loaded[chunk - back] == 2)",
        RACE,
        Run::Codec("dct", LONG_LINE, false),
    ),
    plant(
        "dct_finish.cu",
        "            ticket = atomicAdd(&control->moved, 1u);\n        __syncthreads();",
        "            ticket = atomicAdd(&control->moved, 1u);",
        EARLY,
        Run::Codec("dct", CUBE, false),
    ),
    plant(
        "dct_finish.cu",
        "__launch_bounds__(MOVERS)",
        "__launch_bounds__(MOVERS / 2)",
        &["Launch"],
        Run::Codec("dct", LINE, false),
    ),
    plant(
        "dct_rows.cuh",
        "        s->modes[threadIdx.x] = (u8)out;\n        __syncthreads();",
        "        s->modes[threadIdx.x] = (u8)out;",
        EARLY,
        Run::Codec("dct", CUBE, false),
    ),
    plant(
        "dct_rows.cuh",
        "atomicOr(pen->words, pen->word);",
        "*pen->words |= pen->word;",
        RACE,
        Run::Codec("dct", PLANE, true),
    ),
    plant(
        "dct_values.cuh",
        "            sync<S>();\n        else\n            __syncwarp();\n        backward_axis<S>(s->room, axis - 1 - a);",
        "            __syncwarp();\n        backward_axis<S>(s->room, axis - 1 - a);",
        RACE,
        Run::Codec("dct", CUBE, false),
    ),
    plant(
        "half.cu",
        "to[HEAD / 8 + w] = word;",
        "*(u64 *)((u8 *)to + HEAD + 8 * w + 4) = word;",
        &["Alignment"],
        Run::Codec("fp16", LINE, false),
    ),
    plant(
        "levels.cu",
        "    __threadfence();\n    sum = atomicExch",
        "    sum = atomicExch",
        RACE,
        Run::Levels,
    ),
    plant(
        "levels.cu",
        "    __threadfence();\n    __syncthreads();",
        "    __threadfence_block();\n    __syncthreads();",
        RACE,
        Run::Levels,
    ),
    plant(
        "lorenzo.cu",
        "place_of(grid, (u32)atomicAdd(&job->work[3], 1))",
        "place_of(grid, blockIdx.x)",
        &["Deadlock"],
        Run::Codec("lorenzo", LONG_LINE, false),
    ),
    plant(
        "lorenzo.cu",
        "atomicMin(&shared->least, least);",
        "shared->least = min(shared->least, least);",
        RACE,
        Run::Codec("lorenzo", CUBE, false),
    ),
    plant(
        "lorenzo.cu",
        "    if (threadIdx.x < TILE / 32 + 1)\n        shared.signs[threadIdx.x] = 0;",
        "",
        &["Uninitialised"],
        Run::Codec("lorenzo", PLANE, true),
    ),
    plant(
        "lorenzo.cu",
        "__ballot_sync(~0u, width >> bit & 1)",
        "__ballot_sync(lane < 31 ? ~0u : ~1u, width >> bit & 1)",
        &["Mask"],
        Run::Codec("lorenzo", CUBE, true),
    ),
    plant(
        "quantize.cuh",
        "const u32 *from = (const u32 *)(address & ~3ull);\n    const u32 count",
        "const u32 *from = (const u32 *)address;\n    const u32 count",
        &["Alignment"],
        Run::Codec("lorenzo", CUBE, false),
    ),
    plant(
        "quantize.cuh",
        "j < count + 2;",
        "j < count;",
        &["Uninitialised"],
        Run::Codec("lorenzo", CUBE, false),
    ),
    plant(
        "../c-examples/rtm3d_cuda/kernels.cu",
        "        __syncthreads();\n\n        if (i3 + 1 < last)",
        "        if (i3 + 1 < last)",
        EARLY,
        Run::Rtm3d,
    ),
    plant(
        "../c-examples/rtm3d_cuda/kernels.cu",
        "const int x = inside(i1, m.e1)",
        "const int x = inside(i1, m.e1 + TILE1)",
        &["Bounds", "Uninitialised", "Race"],
        Run::Rtm3d,
    ),
    plant(
        "snapshot.cu",
        "atomicMin(&s->min, min);",
        "s->min = min < s->min ? min : s->min;",
        RACE,
        Run::Codec("fp16", LONG_LINE, false),
    ),
    plant(
        "snapshot.cu",
        "        to[w] = word;\n        if (8 * w < bytes)",
        "        to[w - words] = word;\n        if (8 * w < bytes)",
        &["Race", "Uninitialised", "Bounds"],
        Run::Codec("fp16", LINE, true),
    ),
    plant(
        "zfp.cu",
        "        doubled[i] = DOUBLED.of[i];\n    __syncthreads();",
        "        doubled[i] = DOUBLED.of[i];",
        EARLY,
        Run::Codec("zfp", PLANE, false),
    ),
    plant(
        "zfp.cu",
        "        tests[i] = TESTS.of[i];\n    __syncthreads();",
        "        tests[i] = TESTS.of[i];\n    if (threadIdx.x < 40)\n        __syncthreads();",
        &["Barrier", "Race", "Uninitialised"],
        Run::Codec("zfp", CUBE, true),
    ),
    plant("zfp.cu", "job->bytes = coded ? bytes : NONE;", "__trap();", &["Trap"], Run::Codec("zfp", CUBE, false)),
    // The payload, and the difference of a pair, beyond their memory.
    plant("registered.cu", "w < bytes / 8;", "w < bytes;", &["Bounds", "Uninitialised"], Run::Registered),
    plant("registered.cu", "array[i] = load(x, later, i);", "array[i + n] = load(x, later, i);", &["Bounds", "Race"], Run::Registered),
    plant("rows.cu", "i < rows.row;", "i < rows.pitch;", &["Bounds", "Race"], Run::Rows),
    plant("rows.cu", "to[apart] = from[together];", "to[apart + 8] = from[together];", &["Bounds"], Run::Rows),
];
