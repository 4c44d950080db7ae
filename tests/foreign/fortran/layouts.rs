//! Generates a C and a Fortran program that print constants, sizes of structs, and the offset, size
//! and kind of every member, as each compiler lays them out.

use crate::header::{Header, Struct};
use std::fmt::Write;

/// Returns `name`, or the first element of `name` if `name` is an array.
fn one(name: &str, elements: Option<usize>, index: &str) -> String {
    if elements.is_some() {
        return format!("{name}{index}");
    }
    name.into()
}

pub fn c_program(header: &Header) -> String {
    let mut text = String::from("#include <gpuzip.h>\n#include <stddef.h>\n#include <stdio.h>\n#define KIND(value) _Generic((value), ");
    text += "int32_t: \"i4\", uint32_t: \"i4\", int64_t: \"i8\", uint64_t: \"i8\", float: \"f4\", double: \"f8\", ";
    text += "default: \"address\")\nint main(void)\n{\n";
    for constant in &header.constants {
        writeln!(text, "  printf(\"%s %d\\n\", \"{0}\", {0});", constant.name).unwrap();
    }
    for Struct { name, members, .. } in &header.structs {
        writeln!(text, "  {{ static {name} x; printf(\"%s %zu\\n\", \"{name}\", sizeof x);")
            .unwrap();
        for member in members {
            let first = one(&member.name, member.elements, "[0]");
            let m = &member.name;
            writeln!(text, "    printf(\"%s %zu %zu %s\\n\", \"{name}.{m}\", offsetof({name}, {m}), sizeof x.{m}, KIND(x.{first}));")
                .unwrap();
        }
        text += "  }\n";
    }
    text + "  return 0;\n}\n"
}

pub fn fortran_program(header: &Header) -> String {
    let mut text = KINDS.to_string();
    for (i, of) in header.structs.iter().enumerate() {
        writeln!(text, "  type({}), target :: x{i}", of.name).unwrap();
    }
    for constant in &header.constants {
        writeln!(
            text,
            "  print '(a, 1x, i0)', '{}', {}",
            constant.name,
            constant.name.to_lowercase()
        )
        .unwrap();
    }
    for (i, Struct { name, members, .. }) in header.structs.iter().enumerate() {
        writeln!(text, "  print '(a, 1x, i0)', '{name}', c_sizeof(x{i})").unwrap();
        for member in members {
            let (m, first) = (&member.name, one(&member.name, member.elements, "(1)"));
            writeln!(text, "  call show('{name}.{m}', c_loc(x{i}), c_loc(x{i}%{first}), &\n    c_sizeof(x{i}%{m}), kind_of(x{i}%{first}))")
                .unwrap();
        }
        if members.iter().any(|member| member.name == "struct_size") {
            writeln!(
                text,
                "  if (x{i}%struct_size /= c_sizeof(x{i})) error stop 'struct_size of {name}'"
            )
            .unwrap();
        }
    }
    text + "end program\n"
}

const KINDS: &str = "module kinds
  use, intrinsic :: iso_c_binding
  use gpuzip, only: gpuzip_field_t
  implicit none
  interface kind_of
    module procedure i4, i8, f4, f8, address, field
  end interface
contains
  subroutine show(name, base, member, bytes, kind)
    character(*), intent(in) :: name, kind
    type(c_ptr), intent(in) :: base, member
    integer(c_size_t), intent(in) :: bytes
    print '(a, 2(1x, i0), 1x, a)', name, transfer(member, 0_c_intptr_t) - transfer(base, 0_c_intptr_t), bytes, trim(kind)
  end subroutine
  character(8) function i4(x)
    integer(c_int32_t), intent(in) :: x
    i4 = merge('i4', '  ', x == x)
  end function
  character(8) function i8(x)
    integer(c_int64_t), intent(in) :: x
    i8 = merge('i8', '  ', x == x)
  end function
  character(8) function f4(x)
    real(c_float), intent(in) :: x
    f4 = merge('f4', '  ', x < huge(x))
  end function
  character(8) function f8(x)
    real(c_double), intent(in) :: x
    f8 = merge('f8', '  ', x < huge(x))
  end function
  character(8) function address(x)
    type(c_ptr), intent(in) :: x
    address = merge('address', '       ', .not. c_associated(x))
  end function
  character(8) function field(x)
    type(gpuzip_field_t), intent(in) :: x
    field = merge('address', '       ', .not. c_associated(x%data))  ! what C calls all but numbers
  end function
end module

program layouts
  use gpuzip
  use kinds
  implicit none
";
