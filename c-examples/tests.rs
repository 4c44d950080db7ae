//! `make test-all`: the tests of the examples, which lie beside the examples.

#[path = "../tests/common/mod.rs"]
mod common;

#[path = "rtm3d/tests/claim.rs"]
mod claim;
#[path = "cpml3d/tests/gradient.rs"]
mod cpml;
#[path = "../python/examples/tests.rs"]
mod dask;
#[path = "rtm3d_cuda/tests/end_to_end.rs"]
mod end_to_end;
#[path = "heat3d/tests.rs"]
mod heat;
#[path = "rtm3d/tests/mpi.rs"]
mod mpi;
#[path = "rtm3d/tests/mpi_restart.rs"]
mod mpi_restart;
#[path = "rtm3d/tests/mpi_rig.rs"]
mod mpi_rig;
#[path = "rtm3d_cuda/tests/nvcc.rs"]
mod nvcc;
#[path = "../fortran/examples/shallow_water/tests.rs"]
mod ocean;
#[path = "petsc/tests.rs"]
mod petsc;
#[path = "rtm3d/tests/restart.rs"]
mod restart;
#[path = "rtm3d/tests/images.rs"]
mod rtm;
#[path = "rtm3d_cuda/tests/shots.rs"]
mod rtm3d_cuda;
#[path = "rtm3d/tests/output.rs"]
mod rtm_output;
#[path = "tutorial/tests/gradients.rs"]
mod tutorial;
