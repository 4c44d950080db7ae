// The file in which GPUZIP 2.x has RevolveCheckpointing.
#ifndef GPUZIP_DROPIN_CHECKPOINTING_REVOLVECHECKPOINTING_CPP
#define GPUZIP_DROPIN_CHECKPOINTING_REVOLVECHECKPOINTING_CPP

#include "../Checkpointing.hpp"

#endif
