// The file in which GPUZIP's documents place Checkpointing.
#ifndef GPUZIP_DROPIN_PREFETCH_CHECKPOINTING_HPP
#define GPUZIP_DROPIN_PREFETCH_CHECKPOINTING_HPP

#include "../checkpointing/Checkpointing.hpp"

#endif
