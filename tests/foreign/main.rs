//! `make test-all`: programs in other languages, the installation, packages and the recorded ABI.

#[path = "../common/mod.rs"]
mod common;

mod blocks;
mod c_programs;
mod cxx_header;
mod deps;
mod dropin;
mod fortran;
mod header;
mod install;
mod mpi_copies;
mod packaging;
mod python;
mod recorded_abi;
mod site;
