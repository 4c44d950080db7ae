/* The C sources that this program shares with rtm3d, the program for CPUs, compiled unchanged. */
#ifndef RTM_CUDA_RTM3D_H
#define RTM_CUDA_RTM3D_H

#include <gpuzip_gradient.h>

extern "C" {
#include "checkpoint.h"
#include "clock.h"
#include "handed.h"
#include "image.h"
#include "quality.h"
#include "job.h"
#include "message.h"
#include "options.h"
#include "output.h"
#include "progress.h"
#include "reference.h"
#include "report.h"
#include "shot.h"
#include "snapshots.h"
#include "sweep.h"
#include "tune.h"
}

#endif
