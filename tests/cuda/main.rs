//! Sessions and kernels on the software CUDA driver, which runs operations in every order that CUDA
//! allows.

#[path = "../common/mod.rs"]
mod common;

mod ahead;
mod autotune;
mod budgets;
mod capture;
mod codecs;
mod compressed;
mod device_codecs;
mod disk;
mod export;
mod faults;
mod images;
mod levels;
mod links;
mod machine;
mod own_kernels;
mod pointers;
mod registered_codecs;
mod sessions;
mod streams;
mod timeline;
