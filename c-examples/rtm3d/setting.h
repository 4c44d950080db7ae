/* Codec settings on the command line: none, dct:1e-3, dct:psnr:80, zfp:8, dct:1e-3:unpaired. */
#ifndef RTM_SETTING_H
#define RTM_SETTING_H

#include <stddef.h>
#include <stdint.h>

/* A codec that replaces that of a configuration; the members are keys of gpuzip_config_t. */
typedef struct setting_t {
    char text[64];              /* as on the command line */
    int32_t compressor;
    int32_t has_bound, has_rate;
    int32_t unpaired;           /* 1: prev is not declared as the previous level of curr */
    int32_t error_bound_mode;   /* valid if has_bound */
    double error_bound;
    int32_t zfp_bit_rate;       /* valid if has_rate */
} setting_t;

/* The settings that rtm3d --sweep compares by default. */
#define SETTING_DEFAULTS                                                                           \
    "none,dct:1e-2,dct:1e-3,dct:1e-4,lorenzo:1e-2,lorenzo:1e-3,lorenzo:1e-4,"                      \
    "cuszp:1e-2,cuszp:1e-3,cuszp:1e-4,zfp:4,zfp:8,zfp:16,fp16,bfp"

/* Parses a list of settings. Returns memory to free(); NULL with the reason on stderr. */
setting_t *setting_list(const char *list, size_t *count);
/* Name of a codec, GPUZIP_COMPRESSOR_*. */
const char *setting_codec(int32_t compressor);
/* Name of a bound mode, as in `dct:psnr:80`. */
const char *setting_mode(int32_t mode);

#endif
