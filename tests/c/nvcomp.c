/*
 * A stand-in for libnvcomp: the native functions of Bitcomp that gpuzip calls. Some functions run
 * on the host. The others enqueue their work on a CUDA stream as host functions (cuLaunchHostFunc)
 * of the driver that is loaded, so the work reads memory when the stream reaches it. Values are
 * rounded to multiples of delta and packed in blocks, with the same number of bytes for each value
 * of a block; a block whose values do not fit is stored unchanged. Work on a stream writes the
 * blocks in the opposite order of the host's, so the two streams differ. Decoding a damaged stream
 * aborts the process, as the real library might.
 */
#include <dlfcn.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Functions on a CUDA stream round values to multiples of COARSE * delta: with COARSE > 1 they
 * break the error bound. */
#ifndef COARSE
#define COARSE 1
#endif

#define MAGIC 0x7069636d70636f6dull
#define BLOCK 64
#define FP32 9
#define AS_IT_IS 255

typedef struct {
    size_t bytes;
    int type, mode, algorithm;
    void *stream;
} Plan;

typedef struct {
    uint64_t magic, stored, bytes, sum;
    double delta;
    int type, mode, algorithm, spare;
} Head;

int bitcompCreatePlan(Plan **plan, size_t bytes, int type, int mode, int algorithm)
{
    *plan = calloc(1, sizeof **plan);
    (*plan)->bytes = bytes;
    (*plan)->type = type;
    (*plan)->mode = mode;
    (*plan)->algorithm = algorithm;
    return 0;
}

int bitcompDestroyPlan(Plan *plan)
{
    free(plan);
    return 0;
}

int bitcompSetStream(Plan *plan, void *stream)
{
    plan->stream = stream;
    return 0;
}

size_t bitcompMaxBuflen(size_t bytes) { return sizeof(Head) + bytes + bytes / 4 / BLOCK * 8 + 16; }

static size_t width(const Plan *plan) { return plan->type == FP32 ? 4 : 8; }
static size_t blocks(const Plan *plan) { return (plan->bytes / width(plan) + BLOCK - 1) / BLOCK; }

static uint64_t sum_of(const unsigned char *bytes, size_t count)
{
    uint64_t sum = 14695981039346656037ull;
    while (count-- > 0)
        sum = (sum ^ *bytes++) * 1099511628211ull;
    return sum;
}

static double value(const void *x, size_t i, size_t width)
{
    return width == 4 ? ((const float *)x)[i] : ((const double *)x)[i];
}

/* Returns the number of bytes for each rounded value of a block, AS_IT_IS if the block is stored
 * unchanged. */
static int bytes_of(const char *x, size_t count, size_t width, double delta)
{
    int most = 0;
    for (size_t i = 0; i < count; i++) {
        const double q = value(x, i, width) / delta;
        if (!(fabs(q) < (width == 4 ? 1073741824.0 : 4503599627370496.0)))
            return AS_IT_IS;
        for (; rint(fabs(q)) >= ldexp(1, 8 * most - 1 + !most); most++)
            ;
    }
    return most < (int)width ? most : AS_IT_IS;
}

static void encode(const Plan *plan, const char *x, unsigned char *to, double delta, int backwards)
{
    const size_t w = width(plan), n = plan->bytes / w;
    unsigned char *at = to + sizeof(Head);
    for (size_t b = 0; b < blocks(plan); b++) {
        const uint32_t block = (uint32_t)(backwards ? blocks(plan) - 1 - b : b);
        const size_t first = (size_t)block * BLOCK, count = n - first < BLOCK ? n - first : BLOCK;
        const int bytes = bytes_of(x + first * w, count, w, delta);
        memcpy(at, &block, 4);
        at[4] = (unsigned char)bytes;
        at += 5;
        if (bytes == AS_IT_IS) {
            memcpy(at, x + first * w, count * w);
            at += count * w;
            continue;
        }
        for (size_t i = 0; i < count; i++, at += bytes) {
            const int64_t q = (int64_t)rint(value(x, first + i, w) / delta);
            memcpy(at, &q, (size_t)bytes);
        }
    }
    memset(at, 0, 8);
    const size_t stored = ((size_t)(at - to) + 7) / 8 * 8;
    const Head head = {MAGIC, stored, plan->bytes, sum_of(to + sizeof head, stored - sizeof head), delta, plan->type, plan->mode, plan->algorithm, 0};
    memcpy(to, &head, sizeof head);
}

static void decode(const Plan *plan, const unsigned char *from, char *x)
{
    Head head;
    memcpy(&head, from, sizeof head);
    if (head.magic != MAGIC || head.bytes != plan->bytes || head.type != plan->type || head.algorithm != plan->algorithm ||
        head.stored > bitcompMaxBuflen(plan->bytes) || head.sum != sum_of(from + sizeof head, head.stored - sizeof head)) {
        fprintf(stderr, "libnvcomp (stand-in): these bytes are no stream\n");
        abort();
    }
    const size_t w = width(plan), n = plan->bytes / w;
    const unsigned char *at = from + sizeof head;
    for (size_t b = 0; b < blocks(plan); b++) {
        uint32_t block;
        memcpy(&block, at, 4);
        const size_t first = (size_t)block * BLOCK, count = n - first < BLOCK ? n - first : BLOCK;
        const int bytes = at[4];
        at += 5;
        if (bytes == AS_IT_IS) {
            memcpy(x + first * w, at, count * w);
            at += count * w;
            continue;
        }
        for (size_t i = 0; i < count; i++, at += bytes) {
            int64_t q = bytes > 0 && at[bytes - 1] & 0x80 ? -1 : 0;
            memcpy(&q, at, (size_t)bytes);
            const double d = (double)q * head.delta;
            const float f = (float)d;
            memcpy(x + (first + i) * w, w == 4 ? (const void *)&f : (const void *)&d, w);
        }
    }
}

/* ---- On the host ---- */

int bitcompHostCompressLossy_fp32(const Plan *plan, const float *x, void *to, float delta)
{
    encode(plan, (const char *)x, to, delta, 0);
    return 0;
}

int bitcompHostCompressLossy_fp64(const Plan *plan, const double *x, void *to, double delta)
{
    encode(plan, (const char *)x, to, delta, 0);
    return 0;
}

int bitcompHostUncompress(const Plan *plan, const void *from, void *x)
{
    decode(plan, from, x);
    return 0;
}

int bitcompGetCompressedSize(const Head *head, size_t *size)
{
    *size = head->stored;
    return 0;
}

int bitcompGetCompressedInfo(const Head *head, size_t *stored, size_t *bytes, int *type, int *mode, int *algorithm)
{
    if (*stored < sizeof *head || head->magic != MAGIC)
        return 1;
    *stored = head->stored;
    *bytes = head->bytes;
    *type = head->type;
    *mode = head->mode;
    *algorithm = head->algorithm;
    return 0;
}

/* ---- On a stream ---- */

typedef struct {
    Plan plan;
    const void *from;
    void *to;
    double delta;
} Task;

static int enqueue(void (*function)(void *), const Plan *plan, const void *from, void *to, double delta, void *stream)
{
    typedef int (*Launch)(void *, void (*)(void *), void *);
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    const Launch launch = driver ? (Launch)dlsym(driver, "cuLaunchHostFunc") : NULL;
    Task *task = malloc(sizeof *task);
    *task = (Task){plan ? *plan : (Plan){0}, from, to, delta};
    return launch ? launch(stream, function, task) : 1;
}

static void compress(void *data)
{
    Task *task = data;
    encode(&task->plan, task->from, task->to, task->delta * COARSE, 1);
    free(task);
}

static void uncompress(void *data)
{
    Task *task = data;
    decode(&task->plan, task->from, task->to);
    free(task);
}

int bitcompCompressLossy_fp32(const Plan *plan, const float *x, void *to, float delta)
{
    return enqueue(compress, plan, x, to, delta, plan->stream);
}

int bitcompCompressLossy_fp64(const Plan *plan, const double *x, void *to, double delta)
{
    return enqueue(compress, plan, x, to, delta, plan->stream);
}

int bitcompUncompress(const Plan *plan, const void *from, void *x) { return enqueue(uncompress, plan, from, x, 0, plan->stream); }

#ifndef LACKING
static void tell_size(void *data)
{
    Task *task = data;
    memcpy(task->to, &((const Head *)task->from)->stored, 8);
    free(task);
}

int bitcompGetCompressedSizeAsync(const void *from, size_t *size, void *stream) { return enqueue(tell_size, NULL, from, size, 0, stream); }
#endif
