#include "setting.h"

#include <gpuzip.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "message.h"

enum parameter { NOTHING, BOUND, RATE };

#define AUTO 15  /* the library chooses; not in every version of the library */

/* The codecs by name, and the parameters that may follow the name. */
static const struct codec {
    const char *name;
    int32_t number;
    enum parameter parameter;
} CODECS[] = {
    {"none", GPUZIP_COMPRESSOR_NONE, NOTHING},    {"zfp", GPUZIP_COMPRESSOR_ZFP, RATE},
    {"cuzfp", GPUZIP_COMPRESSOR_ZFP, RATE},       {"bitcomp", GPUZIP_COMPRESSOR_BITCOMP, BOUND},
    {"cuszp", GPUZIP_COMPRESSOR_CUSZP, BOUND},    {"lorenzo", GPUZIP_COMPRESSOR_LORENZO, BOUND},
    {"dct", GPUZIP_COMPRESSOR_DCT, BOUND},        {"fp16", GPUZIP_COMPRESSOR_FP16, NOTHING},
    {"bfp", GPUZIP_COMPRESSOR_BFP, NOTHING},      {"lossless", GPUZIP_COMPRESSOR_LOSSLESS, NOTHING},
    {"auto", AUTO, BOUND},
};

/* Names of the values of `error_bound_mode`. */
static const char *const MODES[] = {"rel", "abs", "range", "psnr"};
#define UNPAIRED ":unpaired"
#define MODE_COUNT (sizeof MODES / sizeof *MODES)

const char *setting_codec(int32_t compressor)
{
    for (size_t i = 0; i < sizeof CODECS / sizeof *CODECS; i++)
        if (CODECS[i].number == compressor)
            return CODECS[i].name;
    return "registered";
}

const char *setting_mode(int32_t mode)
{
    return MODES[mode];
}

static const struct codec *find_codec(const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof CODECS / sizeof *CODECS; i++)
        if (strlen(CODECS[i].name) == length && strncmp(CODECS[i].name, name, length) == 0)
            return &CODECS[i];
    return NULL;
}

/* Parses `text`, the part after the first colon. */
static int parse_bound(setting_t *s, const char *text)
{
    char *end;

    for (size_t mode = 0; mode < MODE_COUNT; mode++) {
        const size_t length = strlen(MODES[mode]);
        if (strncmp(text, MODES[mode], length) == 0 && text[length] == ':') {
            s->error_bound_mode = (int32_t)mode;
            text += length + 1;
            break;
        }
    }
    s->has_bound = 1;
    s->error_bound = strtod(text, &end);
    return end != text && *end == '\0' && s->error_bound > 0.0 && isfinite(s->error_bound) ? 0 : -1;
}

static int parse_rate(setting_t *s, const char *text)
{
    char *end;
    const long rate = strtol(text, &end, 10);

    s->has_rate = 1;
    s->zfp_bit_rate = (int32_t)rate;
    return end != text && *end == '\0' && rate >= 1 && rate <= 64 ? 0 : -1;
}

static int parse(setting_t *s, const char *text, size_t length)
{
    char rest[sizeof s->text];
    const struct codec *codec;
    const char *colon;

    memset(s, 0, sizeof *s);
    if (length == 0 || length >= sizeof s->text)
        return complain("--codecs: '%.*s' is no codec setting; write for example none,dct:1e-3,zfp:8", (int)length,
                        text);
    memcpy(s->text, text, length);
    memcpy(rest, s->text, sizeof rest);
    if (length > strlen(UNPAIRED) && strcmp(rest + length - strlen(UNPAIRED), UNPAIRED) == 0) {
        s->unpaired = 1;
        rest[length - strlen(UNPAIRED)] = '\0';
    }
    colon = strchr(rest, ':');
    codec = find_codec(rest, strcspn(rest, ":"));
    if (codec == NULL)
        return complain("--codecs: %s: no such codec; there are none, dct, lorenzo, cuszp, zfp, bitcomp, fp16, bfp, lossless "
                        "and auto", s->text);
    s->compressor = codec->number;
    if (colon == NULL)
        return 0;
    if (codec->parameter == NOTHING)
        return complain("--codecs: %s: %s takes no parameter", s->text, codec->name);
    if (codec->parameter == RATE && parse_rate(s, colon + 1) != 0)
        return complain("--codecs: %s: wants bits per value, as in zfp:8", s->text);
    if (codec->parameter == BOUND && parse_bound(s, colon + 1) != 0)
        return complain("--codecs: %s: wants a bound above 0, as in %s:1e-3 (of the maximum), %s:abs:1e-8, "
                        "%s:range:1e-3 or %s:psnr:80", s->text, codec->name, codec->name, codec->name, codec->name);
    return 0;
}

setting_t *setting_list(const char *list, size_t *count)
{
    setting_t *settings;

    *count = 1;
    for (const char *c = list; *c != '\0'; c++)
        *count += *c == ',';
    settings = malloc(*count * sizeof *settings);
    if (settings == NULL) {
        complain("--codecs: no memory");
        return NULL;
    }
    for (size_t i = 0; i < *count; i++) {
        const size_t length = strcspn(list, ",");
        if (parse(&settings[i], list, length) != 0) {
            free(settings);
            return NULL;
        }
        list += length + 1;
    }
    return settings;
}
