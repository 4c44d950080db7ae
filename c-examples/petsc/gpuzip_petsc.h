/* The trajectory type "gpuzip" of PETSc: TSAdjointSolve with checkpoints of gpuzip. See docs/petsc.md. */
#ifndef GPUZIP_PETSC_H
#define GPUZIP_PETSC_H

#include <gpuzip.h>
#include <petscts.h>

#define TSTRAJECTORYGPUZIP "gpuzip"

/* Makes the type known to PETSc: after PetscInitialize and before TSSetFromOptions. A program that is run with
 * -dll_append libgpuzip_petsc.so need not call it. */
PETSC_EXTERN PetscErrorCode TSTrajectoryRegisterGpuzip(void);

#endif
