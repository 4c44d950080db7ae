// The file in which GPUZIP 2.x has TraceCheckpointing.
#ifndef GPUZIP_DROPIN_CHECKPOINTING_TRACECHECKPOINTING_CPP
#define GPUZIP_DROPIN_CHECKPOINTING_TRACECHECKPOINTING_CPP

#include "../Checkpointing.hpp"

#endif
