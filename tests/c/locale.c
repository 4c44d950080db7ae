/* Runs a session in a locale whose numbers have a decimal comma. The configuration gpuzip.cfg is
 * read, and the timeline, the performance log and error texts are written, with decimal points. The
 * argument is the name of the locale; the test that starts this program looks at the files. */
#include "test.h"

#include <locale.h>

int main(int argc, char **argv)
{
  gpuzip_config_t config;
  gpuzip_t *handle;
  double state[4] = {1.5, 2.25, 3.125, 0.0625};
  const gpuzip_field_t field = field_of(state, 4, GPUZIP_TYPE_F64);
  CHECK(argc == 2 && setlocale(LC_ALL, argv[1]) != NULL && strcmp(localeconv()->decimal_point, ",") == 0);

  CHECK(gpuzip_config_load("gpuzip.cfg", &config) == GPUZIP_OK);
  CHECK(config.error_bound == 0.0125 && config.compression_factor == 2.5f && config.device_budget == (uint64_t)3 << 29);
  CHECK(gpuzip_init(&config, 12, &field, 1, &handle) == GPUZIP_OK);
  while (next_action(handle, &field, 1).type != GPUZIP_ACTION_TERMINATE) continue;
  CHECK(gpuzip_finalize(handle) == GPUZIP_OK && gpuzip_config_free(&config) == GPUZIP_OK);

  /* An error text has a decimal point, too. */
  CHECK(gpuzip_config_init(&config) == GPUZIP_OK);
  config.error_bound = -0.5, config.compressor = GPUZIP_COMPRESSOR_DCT;
  CHECK(gpuzip_init(&config, 12, &field, 1, &handle) == GPUZIP_ERR_CONFIG && strstr(gpuzip_last_error(), "-0.5") != NULL);
  puts("ok");
  return 0;
}
