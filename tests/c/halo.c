/* Tests a field with a halo of 4 cells (pitches) together with an integer field, which codecs store
 * unchanged: in codecs alone and in wrong calls; everything.c has such fields in sessions. The program
 * exits with 1 at the first failed check; tests/sanitizers.sh runs it under sanitizers and
 * valgrind. */
#include "test.h"

#include <stdint.h>

enum { HALO = 4, N1 = 9, N2 = 6, N3 = 5, STEPS = 23, COUNTERS = 5 };
enum { P1 = N1 + 2 * HALO, P2 = N2 + 2 * HALO, P3 = N3 + 2 * HALO, ALL = P1 * P2 * P3 };

/* The value of the halo, which no call may change. */
static const float OUTSIDE = -77.0f;

/* The state: a pressure with its halo, and counters that must come back exactly. */
typedef struct {
  float *p;
  int16_t counter[COUNTERS];
} app_t;

static size_t at(int i1, int i2, int i3) { return (size_t)(i1 + HALO) + (size_t)P1 * (size_t)(i2 + HALO) + (size_t)P1 * P2 * (size_t)(i3 + HALO); }

static float value(int ts, int i1, int i2, int i3) { return (float)(ts + 1) * 0.125f + (float)i1 - 0.5f * (float)i2 * (float)i3; }

static void compute(app_t *a, int ts)
{
  for (int i3 = 0; i3 < N3; i3++)
    for (int i2 = 0; i2 < N2; i2++)
      for (int i1 = 0; i1 < N1; i1++) a->p[at(i1, i2, i3)] = value(ts, i1, i2, i3);
  for (int i = 0; i < COUNTERS; i++) a->counter[i] = (int16_t)(ts - i);
}

/* Returns whether the live state is u(ts) and every halo cell holds OUTSIDE. A lossy codec may
 * change a pressure by up to 0.1. */
static int is_state(const app_t *a, int ts)
{
  for (int i3 = -HALO; i3 < N3 + HALO; i3++)
    for (int i2 = -HALO; i2 < N2 + HALO; i2++)
      for (int i1 = -HALO; i1 < N1 + HALO; i1++) {
        const int inside = i1 >= 0 && i1 < N1 && i2 >= 0 && i2 < N2 && i3 >= 0 && i3 < N3;
        const float x = a->p[at(i1, i2, i3)], expected = inside ? value(ts, i1, i2, i3) : OUTSIDE;
        const float off = x > expected ? x - expected : expected - x;
        if (off > (inside ? 0.1f : 0.0f)) return 0;
      }
  for (int i = 0; i < COUNTERS; i++)
    if (a->counter[i] != (int16_t)(ts - i)) return 0;
  return 1;
}

static void spoil(app_t *a)
{
  for (int i = 0; i < ALL; i++) a->p[i] = OUTSIDE;
  memset(a->counter, 0x5a, sizeof a->counter);
}

static void fields_of(const app_t *a, gpuzip_field_t f[2])
{
  memset(f, 0, 2 * sizeof f[0]);
  f[0].data = a->p + at(0, 0, 0);
  f[0].n1 = N1, f[0].n2 = N2, f[0].n3 = N3;
  f[0].pitch2 = P1, f[0].pitch3 = (uint64_t)P1 * P2;
  f[1] = field_of((void *)a->counter, COUNTERS, GPUZIP_TYPE_I16);
}

static gpuzip_config_t config_with(int compressor)
{
  gpuzip_config_t c = revolve(4, 0);
  c.compressor = compressor;
  c.zfp_bit_rate = 20;
  c.error_bound = 1e-3;
  return c;
}

/* Tests codecs without a session: the stream of a field with a halo equals, byte for byte, the
 * stream of the same values in contiguous memory. */
static void streams(app_t *a)
{
  const gpuzip_config_t c = config_with(GPUZIP_COMPRESSOR_DCT);
  static float packed[N1 * N2 * N3];
  gpuzip_field_t f[2], g[2];
  gpuzip_codec_info_t info;
  uint64_t room = 0, bytes = 0, other = 0;
  for (int i = 0; i < N1 * N2 * N3; i++) packed[i] = value(3, i % N1, i / N1 % N2, i / N1 / N2);
  spoil(a);
  compute(a, 3);
  fields_of(a, f);
  memcpy(g, f, sizeof g);
  g[0].data = packed;
  g[0].pitch2 = g[0].pitch3 = 0;
  CHECK(gpuzip_codec_bound(&c, f, 2, &room) == GPUZIP_OK);
  unsigned char *one = malloc(room), *two = malloc(room);
  CHECK(one != NULL && two != NULL);
  CHECK(gpuzip_codec_compress(&c, f, 2, one, room, &bytes) == GPUZIP_OK);
  CHECK(gpuzip_codec_compress(&c, g, 2, two, room, &other) == GPUZIP_OK);
  CHECK(bytes == other && memcmp(one, two, bytes) == 0);
  info.struct_size = sizeof info;
  CHECK(gpuzip_codec_info(one, bytes, 1, &info) == GPUZIP_OK);
  CHECK(info.type == GPUZIP_TYPE_I16 && info.content == 0 && info.raw_bytes == sizeof a->counter);
  spoil(a);
  CHECK(gpuzip_codec_decompress(one, bytes, f, 2) == GPUZIP_OK);
  CHECK(is_state(a, 3));
  free(one);
  free(two);
}

static void misuse(app_t *a)
{
  gpuzip_config_t c = config_with(GPUZIP_COMPRESSOR_NONE);
  gpuzip_field_t f[2], good[2];
  gpuzip_t *h = NULL;
  gpuzip_action_t action;
  gpuzip_summary_t summary;
  fields_of(a, good);
  summary.struct_size = sizeof summary;
  /* 1080 bytes of pressure and 10 bytes of counters, each rounded up to a multiple of 256. */
  WORKS(gpuzip_memory_required(&c, STEPS, good, 2, &summary));
  CHECK(summary.slot_bytes == 1280 + 256);
  for (int type = GPUZIP_TYPE_F32; type <= GPUZIP_TYPE_BYTE; type++) {
    memcpy(f, good, sizeof f);
    f[1].type = type;
    f[1].data = NULL;
    CHECK(gpuzip_init(&c, STEPS, f, 2, &h) == GPUZIP_OK);
    CHECK(gpuzip_get_action(h, &action) == GPUZIP_OK && action.type == GPUZIP_ACTION_SAVE);
    /* A save with a wrong type or wrong pitches fails and changes nothing. A save with valid
     * pitches that differ from those of gpuzip_init succeeds. */
    f[1].type = type == GPUZIP_TYPE_I8 ? GPUZIP_TYPE_BYTE : GPUZIP_TYPE_I8;
    f[1].data = a->counter;
    CHECK(gpuzip_save(h, action.ts, f, 2, NULL) == GPUZIP_ERR_SHAPE);
    f[1].type = type;
    f[0].pitch2 = 1;
    CHECK(gpuzip_save(h, action.ts, f, 2, NULL) == GPUZIP_ERR_ARGUMENT);
    f[0].pitch2 = f[0].pitch3 = 0;
    static double values[2 * COUNTERS];
    f[1].data = values;
    CHECK(gpuzip_save(h, action.ts, f, 2, NULL) == GPUZIP_OK);
    CHECK(gpuzip_finalize(h) == GPUZIP_OK);
    h = NULL;
  }
  c.backend = 2;
  c.compressor = GPUZIP_COMPRESSOR_DCT;
  memcpy(f, good, sizeof f);
  f[0].data = f[1].data = NULL;
  CHECK(gpuzip_init(&c, STEPS, f, 2, &h) < 0 && h == NULL);
}

int main(void)
{
  app_t a;
  memset(&a, 0, sizeof a);
  a.p = malloc(ALL * sizeof a.p[0]);
  CHECK(a.p != NULL);
  streams(&a);
  misuse(&a);
  free(a.p);
  puts("ok");
  return 0;
}
