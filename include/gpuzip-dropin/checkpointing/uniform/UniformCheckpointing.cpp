// The file in which GPUZIP 2.x has UniformCheckpointing.
#ifndef GPUZIP_DROPIN_CHECKPOINTING_UNIFORMCHECKPOINTING_CPP
#define GPUZIP_DROPIN_CHECKPOINTING_UNIFORMCHECKPOINTING_CPP

#include "../Checkpointing.hpp"

#endif
