//! Tests that `cuda_emu.h` is valid C and C++, and that its structs have the library's layouts.

use cuda_emu::api::control::KernelCounts;
use cuda_emu::ptx::Counts;
use cuda_emu::{Entry, Totals};
use std::io::Write;
use std::mem::{offset_of, size_of};
use std::process::{Command, Stdio};

macro_rules! offsets {
    ($($field:ident)*) => {
        offsets!(Totals: $($field)*)
    };
    ($of:ident: $($field:ident)*) => {
        [$((stringify!($field), offset_of!($of, $field))),*]
    };
}

#[test]
fn the_header_describes_the_library() {
    let offsets = offsets! {
        h2d_bytes d2h_bytes d2d_bytes h2h_bytes h2d_copies d2h_copies d2d_copies pageable_copies calls host_syncs executed dropped streams
        events allocations host_allocations contexts retained pending abandoned device_bytes peak_device_bytes host_bytes peak_host_bytes host_wait_s
    };
    let entry = offsets!(Entry: kind stream operation after event to from bytes);
    let mut program = String::from("#include \"cuda_emu.h\"\n#include <stddef.h>\n");
    let mut number = 0;
    let mut check = |what: &str, value: usize| {
        number += 1;
        program += &format!("typedef char t_{number}[({what} == {value}) ? 1 : -1];\n");
    };
    check("sizeof(emu_counters_t)", size_of::<Totals>());
    for (field, offset) in offsets {
        check(&format!("offsetof(emu_counters_t, {field})"), offset);
    }
    check("sizeof(emu_entry_t)", size_of::<Entry>());
    for (field, offset) in entry {
        check(&format!("offsetof(emu_entry_t, {field})"), offset);
    }
    check("sizeof(emu_kernel_t)", size_of::<KernelCounts>());
    let at = offset_of!(KernelCounts, counts);
    for (field, offset) in
        offsets!(Counts: launches blocks threads warps slots read written requested wavefronts text)
    {
        check(&format!("offsetof(emu_kernel_t, {field})"), at + offset);
    }
    for (compiler, language, standard) in [("gcc", "c", "c99"), ("g++", "c++", "c++11")] {
        let mut command = Command::new(compiler);
        command.args([
            "-x",
            language,
            &format!("-std={standard}"),
            "-pedantic-errors",
            "-Wall",
            "-Werror",
            "-fsyntax-only",
            "-I",
        ]);
        let mut child =
            command.arg(env!("CARGO_MANIFEST_DIR")).arg("-").stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(program.as_bytes()).unwrap();
        assert!(child.wait().unwrap().success(), "{compiler}");
    }
}
