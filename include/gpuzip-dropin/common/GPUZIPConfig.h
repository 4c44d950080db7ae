// gpuzip_config_t: the struct of the C interface. Its first block has GPUZIP 2.x's fields; in C++ it starts all zero, as it did there.
#ifndef GPUZIP_DROPIN_COMMON_GPUZIPCONFIG_H
#define GPUZIP_DROPIN_COMMON_GPUZIPCONFIG_H

#include "../../gpuzip.h"

#endif
