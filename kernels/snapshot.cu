/*
 * Snapshots: does what src/codec/snapshot_codec.rs does, in the same order and with the same arithmetic.
 * For every stream that may be needed the host enqueues the coder's kernels between `fill` and
 * `seal`; the kernels here decide which of them do something.
 */

/*
 * Statistics of an array. Minimum and maximum are stored as keys (`key_of`), which compare as
 * integers.
 */
struct Survey {
    u64 min, max;
    u64 nonfinite;
    u64 first; /* the first value, as bits of FP64 */
    /*
     * mean and standard deviation of the finite values, if the bound depends on them; the mean is
     * relative to max |x|
     */
    double mean, sigma;
};

/* A field of the layout. */
struct Field {
    u64 values;
    u64 n[3];
    u16 scalar;   /* 0: FP32, 1: FP64 */
    u16 part;     /* the part of a state, which is a record, that the field is of: 0 or 1 */
    /* 1 + index in this array of the field whose previous time level this field is, or 0 */
    u32 later;
    u32 group;
    /* number of the field in the layout; the array of fields is in the order of their streams */
    u32 index;
};

struct Group {
    u16 first, count;
    u32 failed;   /* 1: the differences do not keep the bounds */
    u64 begin[2]; /* where the streams of the group begin in the record of each part */
};

struct Settings {
    u32 codec, parameter;
    u32 bounded;  /* 1: the codec keeps a bound */
    u32 reject;   /* 1: values that are not finite are an error */
    /*
     * of the bound: 0 relative to the maximum, 1 absolute, 2 relative to the range, 3 root mean
     * square relative to the range; half of Bitcomp's delta: 4 relative to the maximum, 5 relative
     * to the width of +-`sigmas` standard deviations
     */
    u32 mode;
    u32 fields, groups;
    u32 spare;
    double value;
    double sigmas;
};

/* The result of making or reading a snapshot, for the host. */
struct State {
    u64 end[2];   /* length of the record of each part in bytes */
    u64 base[2];  /* address of each of these records */
    u32 error;    /* 0, ERROR_VALUES or ERROR_STREAM */
    u32 field;    /* number in the layout of the field with the error */
    u64 count;    /* number of values with the error */
};
/*
 * Stores the result where the host reads it: page-locked memory, which the device can address. A copy
 * to the host would wait behind the snapshots that the device's copy engine writes back.
 */
static __device__ void tell(State *report, const State *state)
{
    *report = *state;
    __threadfence_system();
}
#define ERROR_VALUES 1
#define ERROR_STREAM 2 /* of a stream that is read, or of the codec that makes it */

/* Words of a launch of `snapshot_write`: at most 4 KiB of arguments. */
#define WORDS 448
struct Words {
    u64 word[WORDS];
};

/* Writes the first `count` of the words, which came as an argument, to `to`. */
extern "C" __global__ void snapshot_write(u64 *to, u32 count, Words words)
{
    for (u32 i = threadIdx.x; i < count; i += blockDim.x)
        to[i] = words.word[i];
}

/* ---- Surveys: statistics of arrays ---- */

/* Returns a key of a finite number; keys compare as integers in the order of the numbers. */
static __device__ u64 key_of(double x)
{
    const u64 b = bits_of_double(x);
    return b >> 63 ? ~b : b | 1ull << 63;
}

static __device__ double of_key(u64 key)
{
    return double_of(key >> 63 ? key & ~(1ull << 63) : ~key);
}

static __device__ double least(const Survey *s, u64 values) { return s->nonfinite == values ? 0 : of_key(s->min); }
static __device__ double greatest(const Survey *s, u64 values) { return s->nonfinite == values ? 0 : of_key(s->max); }
static __device__ double max_abs(const Survey *s, u64 values)
{
    const double min = -least(s, values), max = greatest(s, values);
    return fabs(max > min ? max : min);
}

extern "C" __global__ void snapshot_prepare(Survey *surveys, u32 count, State *state, u64 first, u64 second)
{
    for (u32 i = threadIdx.x; i < count; i += blockDim.x)
        surveys[i] = Survey{~0ull, 0, 0, 0, 0, 0};
    if (threadIdx.x == 0)
        *state = State{{0, 0}, {first, second}, 0, 0, 0};
}

struct Extremes {
    real min, max;
    u32 any, nonfinite;
};

static __device__ __forceinline__ void look(Extremes *e, real x)
{
    const real zero = x - x;
    if (zero != 0) {
        e->nonfinite++;
        return;
    }
    e->min = !e->any || x < e->min ? x : e->min;
    e->max = !e->any || x > e->max ? x : e->max;
    e->any = 1;
}

static __device__ void report(Survey *s, const Extremes *e)
{
    u64 min = e->any ? key_of(e->min) : ~0ull, max = e->any ? key_of(e->max) : 0;
    for (int by = 16; by > 0; by /= 2) {
        const u64 a = __shfl_xor_sync(~0u, min, by), b = __shfl_xor_sync(~0u, max, by);
        min = a < min ? a : min;
        max = b > max ? b : max;
    }
    if (lane_id() == 0) {
        atomicMin(&s->min, min);
        atomicMax(&s->max, max);
    }
    add_to(&s->nonfinite, e->nonfinite);
}

/*
 * Surveys the array x; if `later` is not null, also the difference later - x, and `later` itself if
 * `of_later` is not null.
 */
extern "C" __global__ void snapshot_survey(const real *x, const real *later, u64 n, Survey *of_x, Survey *of_later, Survey *of_difference)
{
    Extremes a = {0, 0, 0, 0}, b = a, d = a;
    const u64 stride = (u64)gridDim.x * blockDim.x, thread = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    for (u64 i = thread; i < n; i += stride) {
        const real v = x[i];
        look(&a, v);
        if (later) {
            const real w = later[i];
            look(&b, w);
            look(&d, w - v);
        }
    }
    report(of_x, &a);
    if (later && of_later)
        report(of_later, &b);
    if (later)
        report(of_difference, &d);
    if (thread == 0) {
        of_x->first = bits_of_double(x[0]);
        if (later && of_later)
            of_later->first = bits_of_double(later[0]);
        if (later)
            of_difference->first = bits_of_double(later[0] - x[0]);
    }
}

/*
 * Sums up, per block, what the standard deviation needs: in round 0 x / max |x|, in round 1 the
 * squares of the deviations of x / max |x| from its mean.
 */
extern "C" __global__ void snapshot_moments(const real *x, const real *later, u64 n, const Survey *s, double *sums, u32 round)
{
    __shared__ double room[32];
    const double max = max_abs(s, n), mean = s->mean;
    double sum = 0;
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (u64)gridDim.x * blockDim.x) {
        const real v = load(x, later, i);
        if (v - v != 0)
            continue;
        const double part = v / max - mean;
        sum += round == 0 ? part : part * part;
    }
    sum = block_sum(sum, room);
    if (threadIdx.x == 0)
        sums[blockIdx.x] = sum;
}

/*
 * Computes mean (round 0) and standard deviation (round 1) from the sums of `blocks` blocks, as
 * Statistics::of of src/codec/bitcomp/delta.rs does.
 */
extern "C" __global__ void snapshot_sigma(Survey *s, u64 n, const double *sums, u32 blocks, u32 round)
{
    __shared__ double room[32];
    const double max = max_abs(s, n), mean = sum_of(sums, blocks, room) / (double)(n - s->nonfinite);
    if (threadIdx.x != 0 || max == 0)
        return;
    if (round == 0)
        s->mean = mean;
    else
        s->sigma = max * sqrt(mean);
}

/* ---- Decisions ---- */

static __device__ double smaller(double a, double b) { return a < b ? a : b; }

/* Computes Bitcomp's delta as Delta::of of src/codec/bitcomp/delta.rs does. */
static __device__ double delta_of(double delta, double max)
{
    const double least = 2.2250738585072014e-308;
    return max == 0 ? 1 : delta > least ? delta : least;
}

/* Computes the bound as ErrorBound::of does; NaN does not occur. */
static __device__ double bound_of(const Settings *settings, const Survey *s, u64 values)
{
    const double most = 1.7976931348623157e308;
    const double range = smaller(greatest(s, values) - least(s, values), most), max = max_abs(s, values);
    switch (settings->mode) {
    case 0: return settings->value * max;
    case 1: return settings->value;
    case 4: return 0.5 * delta_of(settings->value * max, max);
    case 5: return 0.5 * delta_of((s->sigma > 0 ? smaller(2 * settings->sigmas * s->sigma, most) : max) * settings->value, max);
    case 3: return range * settings->value * sqrt((double)(values - s->nonfinite) / (double)values);
    default: return range * settings->value;
    }
}

static __device__ double power(int n) { return double_of((u64)(1023 + n) << 52); }

/* Returns the largest error that coding can cause, as error_of of the host does. */
static __device__ double error_of(const Settings *settings, double bound, const Survey *s, u64 values)
{
    const double max = max_abs(s, values);
    return settings->mode == 3 ? max : smaller(bound, max);
}

/* Fills in a job as SnapshotCodec::code does, except for what the coder decides. */
static __device__ void decide_one(const Settings *settings, Job *job, const Field *field, const Survey *s, double bound, double rounding, u32 reference)
{
    const double max = max_abs(s, field->values), rest = smaller(bound, bound - rounding);
    const int finite = s->nonfinite == 0, constant = finite && least(s, field->values) == greatest(s, field->values);
    const int zero = finite && settings->bounded && max <= rest;
    const double low = power(field->scalar ? -900 : -100), high = power(field->scalar ? 1000 : 120);
    *job = Job{};
    job->active = 1;
    job->reference = reference;
    job->promised = settings->bounded ? bound : 0;
    job->bound = settings->bounded ? rest : 0;
    job->rms = settings->bounded && settings->mode == 3;
    job->bytes = NONE;
    job->max = max;
    job->nonfinite = s->nonfinite;
    if (constant || zero) {
        job->content = 2;
        job->value = constant ? double_of(s->first) : 0;
        return;
    }
    job->content = 1;
    job->go = job->wanted = max <= high && (!settings->bounded || (max >= low && rest >= max / (double)(1 << 28)));
}

/*
 * Returns the number of field k's later level as in `later`, where the first `parts` parts of a
 * state are coded; 0 if the later level is not among them.
 */
static __device__ u32 later_of(const Field *fields, u32 k, u32 parts)
{
    const u32 later = fields[k].later;
    return later && fields[later - 1].part < parts ? later : 0;
}

/* Whether the stream of a field may hold a difference: the later level is not decoded after it. */
static __device__ int may_lean(const Field *fields, const Field *field)
{
    return field->later && fields[field->later - 1].part <= field->part;
}

/*
 * Decides how each field of the first `parts` parts is coded, as SnapshotCodec::compress_group and compress_apart do.
 * `surveys`: one per field, then one per difference. `jobs`: 2 k for field k (in the order of the
 * streams) coded in its group, as a difference if it has a later field; 2 k + 1 for the field coded
 * apart.
 */
extern "C" __global__ void snapshot_decide(const Settings *settings, u32 parts, const Field *fields, Group *groups, const Survey *surveys, Job *jobs, double *errors, State *state)
{
    if (threadIdx.x != 0)
        return;
    const Survey *differences = surveys + settings->fields;
    for (u32 k = 0; k < settings->fields; k++)
        if (fields[k].part < parts && settings->reject && surveys[k].nonfinite > 0 && state->error == 0)
            state->error = ERROR_VALUES, state->field = fields[k].index, state->count = surveys[k].nonfinite;
    for (u32 g = 0; g < settings->groups; g++) {
        Group *group = &groups[g];
        const u32 end = (u32)group->first + group->count;
        group->failed = 0;
        for (u32 k = group->first; k < end; k++) {
            const Field *field = &fields[k];
            const u32 later = later_of(fields, k, parts);
            Job *job = &jobs[2 * k];
            const Survey *own = &surveys[k], *s = own;
            double rounding = 0;
            if (field->part >= parts)
                continue;
            if (later) {
                s = &differences[k];
                if (!may_lean(fields, field) || s->nonfinite > 0 || max_abs(own, field->values) > power(field->scalar ? 1000 : 120))
                    group->failed = 1;
            }
            const double bound = bound_of(settings, s, field->values);
            errors[k] = error_of(settings, bound, s, field->values);
            if (later) {
                const double of_difference = max_abs(s, field->values), ulp = power(field->scalar ? -53 : -24);
                errors[k] = errors[later - 1] + errors[k];
                rounding = ulp * (of_difference + max_abs(own, field->values) + errors[k]);
                if (settings->bounded && of_difference > 0 && rounding > 0.5 * bound)
                    group->failed = 1;
            }
            decide_one(settings, job, field, s, bound, rounding, later ? 1 + fields[later - 1].index : 0);
        }
        /* Each field apart, within half the bound of each difference that the field is part of. */
        for (u32 k = group->first; k < end; k++)
            errors[k] = bound_of(settings, &surveys[k], fields[k].values);
        for (u32 k = group->first; k < end; k++) {
            const u32 later = later_of(fields, k, parts);
            if (!later || fields[k].part >= parts)
                continue;
            const double half = 0.5 * bound_of(settings, &differences[k], fields[k].values);
            errors[k] = smaller(errors[k], half);
            errors[later - 1] = smaller(errors[later - 1], half);
        }
        for (u32 k = group->first; k < end; k++) {
            if (fields[k].part >= parts)
                continue;
            decide_one(settings, &jobs[2 * k + 1], &fields[k], &surveys[k], errors[k], 0, 0);
            Job *out = &jobs[2 * k + (group->failed ? 0 : 1)];
            out->active = out->go = 0;
        }
    }
    for (u32 i = 0; i < 2 * settings->fields && state->error != 0; i++)
        jobs[i].active = jobs[i].go = 0;
    jobs[0].payload = state->base[0] + HEADER;
}

/* ---- Streams ---- */

/* Makes it an error of field `field` if the codec has failed to make its stream. */
extern "C" __global__ void snapshot_refuse(const Job *job, u32 field, State *state)
{
    if (threadIdx.x == 0 && job->go && job->damaged && state->error == 0)
        state->error = ERROR_STREAM, state->field = field;
}

static __device__ u64 padded(u64 payload) { return (HEADER + payload + 63) / 64 * 64; }

/* Returns the `count` bytes at `from`; the bytes after them may be unwritten. */
static __device__ u64 last_word(const u8 *from, u32 count)
{
    u64 word = 0;
    for (u32 k = 0; k < count; k++)
        word |= (u64)from[k] << 8 * k;
    return word;
}

/*
 * Writes the payload if no coder has made it, and zeros behind the payload, and sums up the
 * checksum of the payload. A block has CHECKSUM_RUN threads or a multiple.
 */
extern "C" __global__ void snapshot_fill(const real *x, u64 n, Job *job)
{
    if (!job->active)
        return;
    const u64 raw = n * sizeof(real);
    const int coded = job->content == 1 && job->go && job->bytes < raw;
    if (job->content == 1 && !coded && job->reference)
        return; /* snapshot_seal codes the group apart */
    const u64 bytes = job->content == 2 ? 8 : coded ? job->bytes : raw, words = (padded(bytes) - HEADER) / 8;
    u64 *to = (u64 *)job->payload, sum = 0;
    const u64 begin = (u64)blockIdx.x * blockDim.x + threadIdx.x, stride = (u64)gridDim.x * blockDim.x, key = checksum_key(8 + begin);
    for (u64 w = begin; w < words; w += stride) {
        u64 word = 0;
        if (8 * w >= bytes)
            word = 0;
        else if (job->content == 2)
            word = bits_of_double(job->value);
        else if (coded)
            word = bytes - 8 * w >= 8 ? to[w] : last_word((const u8 *)&to[w], (u32)(bytes - 8 * w));
        else
#if FP64
            word = bits_of(x[w]);
#else
            word = bits_of(x[2 * w]) | (2 * w + 1 < n ? (u64)bits_of(x[2 * w + 1]) << 32 : 0);
#endif
        if (8 * w < bytes && bytes - 8 * w < 8)
            word &= (1ull << 8 * (bytes - 8 * w)) - 1;
        to[w] = word;
        if (8 * w < bytes)
            sum += checksum_term(word, 8 + w, key);
    }
    add_to(&job->sum, sum);
}

/*
 * Writes the header of field k (in the order of the streams), whose job has number `at`, as
 * Header::seal does. Job `next`, if there is one, begins behind this stream; otherwise the result
 * goes to `report`.
 */
extern "C" __global__ void snapshot_seal(const Settings *settings, const Field *fields, Group *groups, u32 k, Job *jobs, u32 at, u32 next, State *state, State *report)
{
    if (threadIdx.x != 0)
        return;
    Job *job = &jobs[at];
    const Field *field = &fields[k];
    Group *group = &groups[field->group];
    const u64 raw = field->values * (field->scalar ? 8 : 4);
    if (k == group->first && at % 2 == 0)
        group->begin[0] = state->end[0], group->begin[1] = state->end[1];
    if (job->active) {
        const int coded = job->content == 1 && job->go && job->bytes < raw;
        if (job->content == 1 && !coded && job->reference) {
            /* A difference that cannot be coded: all fields of the group are coded apart. */
            group->failed = 1;
            state->end[0] = group->begin[0], state->end[1] = group->begin[1];
            for (u32 i = group->first; i < (u32)group->first + group->count; i++) {
                jobs[2 * i].active = jobs[2 * i].go = 0;
                jobs[2 * i + 1].active = 1;
                jobs[2 * i + 1].go = jobs[2 * i + 1].wanted;
            }
        } else {
            u64 *to = (u64 *)(job->payload - HEADER), sum = job->sum;
            const u32 content = job->content == 2 ? 2 : coded;
            job->bytes = content == 2 ? 8 : coded ? job->bytes : raw;
            to[0] = 0x327a7067ull | (u64)settings->codec << 32 | (u64)content << 40 | (u64)field->scalar << 48;
            to[1] = field->index | (u64)job->reference << 16 | (u64)settings->parameter << 32;
            for (int a = 0; a < 3; a++)
                to[2 + a] = field->n[a];
            to[5] = bits_of_double(job->promised);
            to[6] = job->bytes;
            for (u32 w = 0; w < 7; w++)
                sum += checksum_term(to[w], w, checksum_key(w));
            to[7] = sum;
            state->end[field->part] += padded(job->bytes);
        }
    }
    if (next < 2 * settings->fields) {
        const u32 part = fields[next / 2].part;
        jobs[next].payload = state->base[part] + state->end[part] + HEADER;
    } else {
        tell(report, state);
    }
}

/* ---- Reading ---- */

/*
 * Reads and checks all headers of the record of part `part` as Header::open and check_header do.
 * `jobs`: one per field, in the order of the streams. If `whole` is 0, the record may end before the
 * `bytes` bytes do.
 */
extern "C" __global__ void snapshot_open(const Settings *settings, u32 part, const Field *fields, Job *jobs, State *state, u64 base, u64 bytes, u32 whole)
{
    if (threadIdx.x != 0)
        return;
    u64 at = 0;
    u32 bad = 0;
    *state = State{{0, 0}, {base, 0}, 0, 0, 0};
    for (u32 k = 0; k < settings->fields; k++) {
        const Field *field = &fields[k];
        Job *job = &jobs[k];
        *job = Job{};
        if (bad || field->part != part)
            continue;
        const u64 raw = field->values * (field->scalar ? 8 : 4);
        bad = bytes - at < HEADER || at > bytes;
        if (!bad) {
            const u64 *from = (const u64 *)(base + at);
            const u32 content = (u32)(from[0] >> 40) & 0xFF, reference = (u32)(from[1] >> 16) & 0xFFFF;
            const u64 payload = from[6], expected = content == 0 ? raw : content == 2 ? 8 : payload;
            bad = (u32)from[0] != 0x327a7067u || ((from[0] >> 32) & 0xFF) != settings->codec || content > 2 || from[0] >> 48 != field->scalar;
            bad |= (from[1] & 0xFFFF) != field->index || (u32)(from[1] >> 32) != settings->parameter;
            bad |= reference != 0 && (!may_lean(fields, field) || reference != 1 + fields[field->later - 1].index);
            bad |= from[2] != field->n[0] || from[3] != field->n[1] || from[4] != field->n[2];
            bad |= payload != expected || payload > bytes - at - HEADER || padded(payload) > bytes - at;
            if (!bad) {
                job->active = 1;
                job->content = content;
                job->reference = reference;
                job->payload = base + at + HEADER;
                job->bytes = payload;
                job->promised = double_of(from[5]);
                job->value = content == 2 ? double_of(from[8]) : 0;
                for (u32 w = 0; w < 7; w++)
                    job->sum += checksum_term(from[w], w, checksum_key(w));
                at += padded(payload);
            }
        }
        if (bad)
            state->error = ERROR_STREAM, state->field = field->index;
    }
    if (!bad && whole && at != bytes)
        state->error = ERROR_STREAM;
    state->end[0] = whole ? 0 : at;
}

/* Sums up the checksum of one payload. A block has CHECKSUM_RUN threads or a multiple. */
extern "C" __global__ void snapshot_verify(Job *job)
{
    if (!job->active)
        return;
    const u64 begin = (u64)blockIdx.x * blockDim.x + threadIdx.x, stride = (u64)gridDim.x * blockDim.x, key = checksum_key(8 + begin);
    const u64 words = (job->bytes + 7) / 8;
    const u64 *from = (const u64 *)job->payload;
    u64 sum = 0;
    for (u64 w = begin; w < words; w += stride) {
        u64 word = from[w];
        if (job->bytes - 8 * w < 8)
            word &= (1ull << 8 * (job->bytes - 8 * w)) - 1;
        sum += checksum_term(word, 8 + w, key);
    }
    add_to(&job->sum, sum);
}

/* Compares the checksums. If one of them is wrong, nothing of the record is decoded. */
extern "C" __global__ void snapshot_judge(const Settings *settings, u32 part, const Field *fields, Job *jobs, State *state)
{
    if (threadIdx.x != 0)
        return;
    for (u32 k = 0; k < settings->fields && state->error == 0; k++)
        if (fields[k].part == part && (!jobs[k].active || jobs[k].sum != *(const u64 *)(jobs[k].payload - 8)))
            state->error = ERROR_STREAM, state->field = fields[k].index;
    for (u32 k = 0; k < settings->fields; k++) {
        jobs[k].active = state->error == 0 && fields[k].part == part;
        jobs[k].go = jobs[k].active && jobs[k].content == 1;
    }
}

/* Writes the values of a stream that is not coded into the field. */
extern "C" __global__ void snapshot_spread(real *x, const real *later, u64 n, const Job *job)
{
    if (!job->active || job->content == 1)
        return;
    const real *from = (const real *)job->payload, *whole = job->reference ? later : 0;
    const u64 stride = (u64)gridDim.x * blockDim.x;
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride)
        store(x, whole, i, job->content == 2 ? (real)job->value : from[i]);
}

/* Reports the first stream that its coder found damaged; the result goes to `report`. */
extern "C" __global__ void snapshot_conclude(const Settings *settings, const Field *fields, const Job *jobs, State *state, State *report)
{
    if (threadIdx.x != 0)
        return;
    for (u32 k = 0; k < settings->fields; k++)
        if (jobs[k].go && jobs[k].damaged && state->error == 0)
            state->error = ERROR_STREAM, state->field = fields[k].index;
    tell(report, state);
}

/* ---- Calls without a session ---- */

/* The result of such a call: gpuzip_codec_result_t of src/capi/types.rs. */
struct Result {
    u64 bytes;
    int status, field;
    u64 count;
    u64 reserved;
};

/* Stores the result where the application reads it. `values`, `stream`: the status of each error. */
extern "C" __global__ void snapshot_result(const State *state, int values, int stream, Result *result)
{
    if (threadIdx.x != 0)
        return;
    const u32 error = state->error;
    Result told = {0, 0, 0, 0, 0};
    if (error == 0)
        told.bytes = state->end[0];
    else
        told.status = error == ERROR_VALUES ? values : stream, told.field = (int)state->field, told.count = state->count;
    *result = told;
    __threadfence_system();
}
