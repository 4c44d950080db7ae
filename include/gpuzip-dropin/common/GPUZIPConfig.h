// gpuzip_config_t: the struct of the C interface. Its block 1 has GPUZIP 2.x's fields; in C++ a new
// one is all zero but struct_size, as in GPUZIP 2.x.
#ifndef GPUZIP_DROPIN_COMMON_GPUZIPCONFIG_H
#define GPUZIP_DROPIN_COMMON_GPUZIPCONFIG_H

#include "../../gpuzip.h"

#endif
