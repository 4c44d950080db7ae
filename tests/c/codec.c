/* Tests codecs through the C ABI: every codec on a pair of time levels, the header of its stream,
 * damaged streams, and a codec that the program registers, alone and in a session. The program
 * exits with 1 at the first failed check. */
#include "test.h"

#include <math.h>

enum { N1 = 40, N2 = 30, N3 = 20, N = N1 * N2 * N3 };

static float curr[N], prev[N], out[2][N];

static void wave(float *u, double t)
{
  int i;
  for (i = 0; i < N; i++) u[i] = (float)(sin(0.3 * (i % N1) + t) * cos(0.2 * (i / N1 % N2)) * sin(0.25 * (i / (N1 * N2)) - t));
}

static gpuzip_field_t field(float *data, int role)
{
  gpuzip_field_t f = field_of(data, N1, GPUZIP_TYPE_F32);
  f.n2 = N2, f.n3 = N3, f.role = role;
  return f;
}

static double greatest(const float *a, const float *b)
{
  double most = 0.0;
  int i;
  for (i = 0; i < N; i++) most = fmax(most, fabs((double)a[i] - (double)(b ? b[i] : 0.0f)));
  return most;
}

static void round_trip(int compressor)
{
  gpuzip_config_t config;
  gpuzip_codec_info_t info;
  gpuzip_field_t from[2], to[2];
  uint64_t capacity = 0, bytes = 0;
  unsigned char *stream;
  double difference = 0.0, most = 0.0;
  int i, bounded = compressor >= GPUZIP_COMPRESSOR_CUSZP && compressor <= GPUZIP_COMPRESSOR_DCT;

  from[0] = field(curr, 0), from[1] = field(prev, 1), to[0] = field(out[0], 0), to[1] = field(out[1], 1);
  CHECK(gpuzip_config_init(&config) == GPUZIP_OK);
  config.compressor = compressor;
  config.zfp_bit_rate = 16;
  CHECK(gpuzip_codec_bound(&config, from, 2, &capacity) == GPUZIP_OK);
  CHECK(capacity >= 2 * sizeof curr);
  stream = malloc(capacity);
  CHECK(stream != NULL);
  CHECK(gpuzip_codec_compress(&config, from, 2, stream, capacity - 1, &bytes) == GPUZIP_ERR_ARGUMENT);
  CHECK(gpuzip_codec_compress(&config, from, 2, stream, capacity, &bytes) == GPUZIP_OK);
  CHECK(bytes <= capacity);
  CHECK(compressor == 0 || bytes < sizeof curr + sizeof prev);

  memset(out, 0xEE, sizeof out);
  CHECK(gpuzip_codec_decompress(stream, bytes, to, 2) == GPUZIP_OK);
  info.struct_size = sizeof info;
  CHECK(gpuzip_codec_info(stream, bytes, 1, &info) == GPUZIP_OK);
  CHECK(info.arrays == 2 && info.compressor == compressor && info.field == 1 && info.n1 == N1 && info.n3 == N3);
  CHECK(info.raw_bytes == sizeof curr && info.type == GPUZIP_TYPE_F32);
  CHECK(gpuzip_codec_info(stream, bytes, 2, &info) == GPUZIP_ERR_ARGUMENT);
  for (i = 0; i < N; i++) {
    most = fmax(most, fabs((double)curr[i] - prev[i]));
    difference = fmax(difference, fabs(((double)out[0][i] - out[1][i]) - ((double)curr[i] - prev[i])));
  }
  if (compressor == GPUZIP_COMPRESSOR_NONE || compressor == GPUZIP_COMPRESSOR_LOSSLESS)
    CHECK(memcmp(curr, out[0], sizeof curr) == 0 && memcmp(prev, out[1], sizeof prev) == 0);
  if (bounded) {
    CHECK(greatest(curr, out[0]) <= 1e-3 * greatest(curr, NULL));
    CHECK(difference <= 1e-3 * most * (1.0 + 1e-6));
    CHECK(info.reference == 0 && info.bound > 0.0);
  }

  stream[bytes / 2] ^= 0x10;
  CHECK(gpuzip_codec_decompress(stream, bytes, to, 2) == GPUZIP_ERR_STREAM);
  stream[bytes / 2] ^= 0x10;
  CHECK(gpuzip_codec_decompress(stream, bytes - 1, to, 2) != GPUZIP_OK);
  CHECK(gpuzip_codec_decompress(stream, 10, to, 2) == GPUZIP_ERR_STREAM);
  to[0].n1 = N1 / 2;
  to[1].n1 = N1 / 2;
  CHECK(gpuzip_codec_decompress(stream, bytes, to, 2) == GPUZIP_ERR_STREAM);
  free(stream);
}

/* The codec that the program registers: each value becomes a 16-bit multiple of twice the bound,
 * after the bound itself in the first 8 bytes. `calls` counts the compressed fields. */
static int calls;

static uint64_t most_bytes(void *user, const gpuzip_field_t *f)
{
  CHECK(user == &calls);
  return 8 + 2 * f->n1 * f->n2 * f->n3;
}

static int32_t squeeze(void *user, const gpuzip_field_t *f, int32_t rms, double bound, void *to, uint64_t capacity, uint64_t *bytes)
{
  uint64_t i, n = f->n1 * f->n2 * f->n3;
  const float *x = f->data;
  CHECK(user == &calls && rms == 0 && capacity == 8 + 2 * n);
  if (f->type != GPUZIP_TYPE_F32) return 1;
  bound *= 0.999; /* room for rounding */
  memcpy(to, &bound, 8);
  for (i = 0; i < n; i++) {
    double q = floor(x[i] / (2.0 * bound) + 0.5);
    int16_t q16 = (int16_t)q;
    if (fabs(q) > 32767.0) return 1;
    memcpy((char *)to + 8 + 2 * i, &q16, 2);
  }
  *bytes = 8 + 2 * n;
  calls++;
  return 0;
}

static int32_t stretch(void *user, const void *from, uint64_t bytes, const gpuzip_field_t *f)
{
  uint64_t i, n = f->n1 * f->n2 * f->n3;
  double bound;
  CHECK(user == &calls);
  if (bytes != 8 + 2 * n) return -7;
  memcpy(&bound, from, 8);
  for (i = 0; i < n; i++) {
    int16_t q16;
    memcpy(&q16, (const char *)from + 8 + 2 * i, 2);
    ((float *)f->data)[i] = (float)(2.0 * bound * q16);
  }
  return 0;
}

static void own_codec(void)
{
  gpuzip_codec_plugin_t plugin;
  gpuzip_config_t config;
  gpuzip_field_t fields[2];
  gpuzip_action_t action;
  gpuzip_stats_t stats;
  gpuzip_t *h = NULL;
  int32_t number = 0, again = 0;

  memset(&plugin, 0, sizeof plugin);
  CHECK(gpuzip_codec_register(&plugin, &number) == GPUZIP_ERR_ARGUMENT);
  plugin.struct_size = sizeof plugin;
  plugin.name = "ours";
  plugin.user = &calls;
  plugin.max_bytes = most_bytes;
  plugin.compress = squeeze;
  CHECK(gpuzip_codec_register(&plugin, &number) == GPUZIP_ERR_ARGUMENT);
  plugin.decompress = stretch;
  CHECK(gpuzip_codec_register(&plugin, &number) == GPUZIP_OK);
  CHECK(number == 64);
  CHECK(gpuzip_codec_register(&plugin, &again) == GPUZIP_ERR_ARGUMENT);
  round_trip(number);

  fields[0] = field(curr, 0), fields[1] = field(prev, 1);
  config = revolve(4, 2);
  config.compressor = number;
  CHECK(gpuzip_init(&config, 20, fields, 2, &h) == GPUZIP_OK);
  CHECK(gpuzip_setup(h) == GPUZIP_OK);
  do {
    WORKS(gpuzip_get_action(h, &action));
    if (action.type == GPUZIP_ACTION_SAVE) wave(curr, 0.1 * action.ts), wave(prev, 0.1 * (action.ts - 1));
    serve(h, &action, fields, 2);
    if (action.type != GPUZIP_ACTION_RESTORE) continue;
    wave(out[0], 0.1 * action.ts);
    CHECK(greatest(curr, out[0]) <= 1e-3 * greatest(out[0], NULL));
  } while (action.type != GPUZIP_ACTION_TERMINATE);
  stats.struct_size = sizeof stats;
  CHECK(gpuzip_stats(h, &stats) == GPUZIP_OK);
  CHECK(stats.stored_bytes > 0 && stats.stored_bytes < stats.raw_bytes * 6 / 10 && calls > 0);
  CHECK(gpuzip_finalize(h) == GPUZIP_OK);
}

int main(void)
{
  static const int codecs[] = { GPUZIP_COMPRESSOR_NONE, GPUZIP_COMPRESSOR_ZFP, GPUZIP_COMPRESSOR_CUSZP, GPUZIP_COMPRESSOR_LORENZO,
                                GPUZIP_COMPRESSOR_DCT, GPUZIP_COMPRESSOR_FP16, GPUZIP_COMPRESSOR_BFP, GPUZIP_COMPRESSOR_LOSSLESS };
  size_t k;
  wave(curr, 0.5), wave(prev, 0.4);
  for (k = 0; k < sizeof codecs / sizeof codecs[0]; k++) round_trip(codecs[k]);
  own_codec();
  puts("ok");
  return 0;
}
