//! Generates the parts of `fortran/gpuzip.f90` that follow from `include/gpuzip.h`, and the
//! procedures that differ only by kind and rank.

use crate::header::{Constant, Declaration, Function, Header, Struct};
use std::fmt::Write;

/// The most columns of a generated line; Fortran 2008 allows 132.
const WIDTH: usize = 120;

/// Returns `source` with the text between the marks `! generated: <name> {` and
/// `! } generated: <name>` replaced.
pub fn update(source: &str, header: &Header) -> String {
    let parts =
        [("c", from_c(header)), ("kinds and ranks", generics()), ("procedures", procedures())];
    parts.iter().fold(source.to_string(), |text, (name, part)| {
        let (begin, end) =
            (format!("! generated: {name} {{\n"), format!("! }} generated: {name}\n"));
        let (before, rest) = text.split_once(&begin).unwrap_or_else(|| panic!("{begin}"));
        let (_, after) = rest.split_once(&end).unwrap_or_else(|| panic!("{end}"));
        let indent = &before[before.rfind('\n').unwrap() + 1..];
        format!("{before}{begin}{part}{indent}{end}{after}")
    })
}

/// Size and alignment, in bytes, of a member of a C struct.
fn size(header: &Header, member: &Declaration) -> (usize, usize) {
    let one = match member.base.as_str() {
        _ if member.stars > 0 => 8,
        "int32_t" | "uint32_t" | "float" => 4,
        _ => 8,
    };
    assert!(
        header.structs.iter().all(|s| s.name != member.base || member.stars > 0),
        "a struct in a struct: {}",
        member.name
    );
    (one * member.elements.unwrap_or(1), one)
}

fn size_of(header: &Header, of: &Struct) -> usize {
    let end = of
        .members
        .iter()
        .map(|member| size(header, member))
        .fold(0usize, |at, (size, align)| at.next_multiple_of(align) + size);
    end.next_multiple_of(8)
}

/// Fortran comment lines with the text `doc`, wrapped at `WIDTH` columns.
fn comment(doc: &str, indent: &str) -> String {
    let mut text = String::new();
    for paragraph in doc.split("\n\n").map(str::trim).filter(|p| !p.is_empty()) {
        let mut line = format!("{indent}!");
        for word in paragraph.split_whitespace() {
            if line.len() + word.len() + 1 > WIDTH {
                writeln!(text, "{line}").unwrap();
                line = format!("{indent}!");
            }
            write!(line, " {word}").unwrap();
        }
        writeln!(text, "{line}").unwrap();
    }
    text
}

/// Constants, types, and the interfaces of callbacks and of the C functions.
fn from_c(header: &Header) -> String {
    let mut text = String::new();
    for Constant { doc, name, value } in &header.constants {
        text += &comment(doc, "  ");
        writeln!(
            text,
            "  integer(c_int32_t), parameter, public :: {} = {value}",
            name.to_lowercase()
        )
        .unwrap();
    }
    for name in &header.opaque {
        let what = "A handle, opaque; a `NAME *` of C. Copies of it are the same thing."
            .replace("NAME", name);
        write!(text, "\n{}", comment(&what, "  ")).unwrap();
        writeln!(text, "  type, bind(c), public :: {name}\n    private\n    type(c_ptr) :: handle = c_null_ptr\n  end type").unwrap();
    }
    for of in &header.structs {
        text += "\n";
        text += &comment(&of.doc, "  ");
        writeln!(text, "  type, bind(c), public :: {}", of.name).unwrap();
        of.members.iter().for_each(|member| text += &component(header, of, member));
        text += "  end type\n";
    }
    text += "\n  abstract interface\n";
    let callbacks = header
        .callbacks
        .iter()
        .map(|f| comment(&f.doc, "    ") + &interface(header, f, &f.result.name, "bind(c)"));
    // C functions have no comment here: the module documents the procedures that wrap them.
    let functions = header
        .functions
        .iter()
        .map(|f| interface(header, f, &c_name(f), &format!("bind(c, name='{}')", f.result.name)));
    text += &callbacks.collect::<Vec<_>>().join("\n");
    text += "  end interface\n";
    header.callbacks.iter().for_each(|f| writeln!(text, "  public :: {}", f.result.name).unwrap());
    text += "\n  interface\n";
    text += &functions.collect::<Vec<_>>().join("\n");
    text + "  end interface\n"
}

/// The name in the module of the interface to a C function.
fn c_name(function: &Function) -> String {
    format!("c_{}", function.result.name)
}

fn component(header: &Header, of: &Struct, member: &Declaration) -> String {
    let (kind, zero) = kind(header, member);
    let zero = if member.name == "struct_size" {
        size_of(header, of).to_string()
    } else {
        zero.to_string()
    };
    let name = member.elements.map_or(member.name.clone(), |n| format!("{}({n})", member.name));
    format!("{}    {kind} :: {name} = {zero}\n", comment(&member.doc, "    "))
}

/// The Fortran type of a value or pointer, and the zero of this type.
fn kind(header: &Header, of: &Declaration) -> (&'static str, &'static str) {
    if of.stars > 0 {
        return ("type(c_ptr)", "c_null_ptr");
    }
    scalar(header, of)
}

fn scalar(header: &Header, of: &Declaration) -> (&'static str, &'static str) {
    match of.base.as_str() {
        "int32_t" | "uint32_t" | "gpuzip_status_t" => ("integer(c_int32_t)", "0"),
        "int64_t" | "uint64_t" => ("integer(c_int64_t)", "0"),
        "float" => ("real(c_float)", "0"),
        "double" => ("real(c_double)", "0"),
        "gpuzip_field_t" => ("type(gpuzip_field_t)", "gpuzip_field_t()"),
        name if header.callbacks.iter().any(|f| f.result.name == name) => {
            ("type(c_funptr)", "c_null_funptr")
        }
        name => {
            panic!(
                "no Fortran type for {name} {}: name one in tests/foreign/fortran/bindings.rs",
                of.name
            )
        }
    }
}

/// The Fortran declaration of argument number `at`; an argument in front of its number is an array.
fn argument(header: &Header, function: &Function, at: usize) -> String {
    let of = &function.arguments[at];
    let many = function
        .arguments
        .get(at + 1)
        .is_some_and(|next| ["nfields", "narrays", "nsignals"].contains(&next.name.as_str()));
    let name = if many { format!("{}(*)", of.name) } else { of.name.clone() };
    let intent = if of.constant { "in" } else { "inout" };
    let opaque = header.opaque.contains(&of.base) || of.base == "void" || of.base == "char";
    match (of.stars, opaque) {
        (0, _) | (1, true) => format!("{}, value :: {name}", kind(header, of).0),
        (1, false) if header.structs.iter().any(|s| s.name == of.base) => {
            format!("type({}), intent({intent}) :: {name}", of.base)
        }
        (1, false) => format!("{}, intent({intent}) :: {name}", scalar(header, of).0),
        (2, true) => format!("type(c_ptr), intent({intent}) :: {name}"),
        _ => panic!(
            "no Fortran argument for {} of {}: name one in tests/foreign/fortran/bindings.rs",
            of.name, function.result.name
        ),
    }
}

fn interface(header: &Header, function: &Function, name: &str, bind: &str) -> String {
    let subroutine = function.result.base == "void" && function.result.stars == 0;
    let (what, result) = if subroutine {
        ("subroutine", "")
    } else {
        ("function", kind(header, &function.result).0)
    };
    let names: Vec<&str> =
        function.arguments.iter().map(|argument| argument.name.as_str()).collect();
    let head =
        format!("{result}{}{what} {name}({})", if subroutine { "" } else { " " }, names.join(", "));
    let head = if head.len() + bind.len() + 5 > WIDTH {
        format!("{head} &\n        {bind}")
    } else {
        format!("{head} {bind}")
    };
    let arguments: String =
        (0..names.len()).map(|at| format!("      {}\n", argument(header, function, at))).collect();
    format!("    {head}\n      import\n{arguments}    end {what}\n")
}

/// The types that codecs compress: Fortran type, and its name in procedures and constants. All
/// generic calls have procedures for these types.
const KINDS: [(&str, &str); 2] = [("real(c_float)", "f32"), ("real(c_double)", "f64")];
/// The types that are stored without compression; only gpuzip_field has procedures for these types.
const RAW_KINDS: [(&str, &str); 6] = [
    ("integer(c_int8_t)", "i8"),
    ("integer(c_int16_t)", "i16"),
    ("integer(c_int32_t)", "i32"),
    ("integer(c_int64_t)", "i64"),
    ("complex(c_float_complex)", "complex_f32"),
    ("complex(c_double_complex)", "complex_f64"),
];
const RANKS: std::ops::RangeInclusive<usize> = 0..=4;

fn each() -> impl Iterator<Item = (&'static str, &'static str, usize)> {
    KINDS.into_iter().flat_map(|(kind, name)| RANKS.map(move |rank| (kind, name, rank)))
}

/// The specific procedures of each generic name.
fn generics() -> String {
    let mut text = String::new();
    for generic in ["field", "save", "retrieve", "view"] {
        let names: Vec<String> =
            each().map(|(_, name, rank)| format!("{generic}_{name}_{rank}")).collect();
        let (f32s, f64s) = names.split_at(names.len() / 2);
        let lines = [f32s.join(", "), f64s.join(", ")]
            .map(|names| format!("    module procedure {names}\n"));
        let raw: String = match generic {
            "field" => RAW_KINDS
                .map(|(_, name)| format!("    module procedure {}\n", of_ranks(name, "field_")))
                .concat(),
            _ => String::new(),
        };
        writeln!(text, "  interface gpuzip_{generic}\n{}{raw}  end interface", lines.concat())
            .unwrap();
    }
    text
}

/// The names of the procedures for one type, one per rank, as a list for Fortran.
fn of_ranks(name: &str, prefix: &str) -> String {
    RANKS.map(|rank| format!("{prefix}{name}_{rank}")).collect::<Vec<_>>().join(", ")
}

fn procedures() -> String {
    let raw = RAW_KINDS
        .into_iter()
        .flat_map(|(kind, name)| RANKS.map(move |rank| field(kind, name, rank)));
    let coded = each().map(|(kind, name, rank)| {
        [
            field(kind, name, rank),
            transfer("save", "in", kind, name, rank),
            transfer("retrieve", "inout", kind, name, rank),
            view(kind, name, rank),
        ]
        .concat()
    });
    coded.chain(raw).collect()
}

/// `(:, :)`, or nothing for a scalar.
fn dimensions(rank: usize) -> String {
    if rank == 0 {
        String::new()
    } else {
        format!("({})", vec![":"; rank].join(", "))
    }
}

/// For each dimension, the Fortran expression for the address of the second element in this
/// dimension; of the first element where the extent is 1. Generated code computes pitches from
/// these addresses.
fn seconds(rank: usize) -> String {
    let one = |at: usize| {
        (0..rank)
            .map(|k| if k == at { format!("k({})", at + 1) } else { "1".into() })
            .collect::<Vec<_>>()
            .join(", ")
    };
    let all: Vec<String> = (0..rank).map(|at| format!("c_loc(array({}))", one(at))).collect();
    all.chunks(3)
        .map(|some| some.join(", "))
        .collect::<Vec<_>>()
        .join(", &\n                      ")
}

fn field(kind: &str, name: &str, rank: usize) -> String {
    let (local, apart) = match rank {
        0 => (String::new(), String::new()),
        _ => (
            format!("    integer :: k({rank})\n"),
            format!(
                "    if (is_contiguous(array) .or. size(array, kind=c_int64_t) == 0) return
    k = min(2, shape(array))
    call set_pitches(field, shape(array, c_int64_t), storage_size(array), &
                     [{}])
",
                seconds(rank)
            ),
        ),
    };
    format!(
        "
  function field_{name}_{rank}(array, role) result(field)
    {kind}, target, intent(in) :: array{}
    integer, intent(in), optional :: role
    type(gpuzip_field_t) :: field
{local}    field = described(c_loc(array), gpuzip_type_{name}, shape(array, c_int64_t), role)
{apart}  end function
",
        dimensions(rank)
    )
}

fn transfer(what: &str, intent: &str, kind: &str, name: &str, rank: usize) -> String {
    let colons = dimensions(rank);
    format!(
        "
  subroutine {what}_{name}_{rank}(handle, ts, curr, prev, stream, stat, errmsg)
    type(gpuzip_t), intent(in) :: handle
    integer(c_int32_t), intent(in) :: ts
    {kind}, target, intent({intent}) :: curr{colons}
    {kind}, target, intent({intent}), optional :: prev{colons}
    type(c_ptr), intent(in), optional :: stream
    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
    if (present(prev)) then
      call {what}_fields(handle, ts, [gpuzip_field(curr), gpuzip_field(prev, role=1)], stream, stat, errmsg)
    else
      call {what}_fields(handle, ts, [gpuzip_field(curr)], stream, stat, errmsg)
    end if
  end subroutine
"
    )
}

fn view(kind: &str, name: &str, rank: usize) -> String {
    let extents = match rank {
        0 => "[integer(c_int64_t) ::]".to_string(),
        4 => "[field%n1, field%n2, field%n3, 1_c_int64_t]".to_string(),
        _ => format!("[{}]", ["field%n1", "field%n2", "field%n3"][..rank].join(", ")),
    };
    let (argument, declaration) = match rank {
        0 => ("", String::new()),
        _ => (", extents", format!("    integer, intent(in), optional :: extents({rank})\n")),
    };
    let shape = match rank {
        0 => format!("    if (matches(field, gpuzip_type_{name}, {extents}, stat, errmsg)) call c_f_pointer(field%data, array)\n"),
        _ => format!(
            "    integer(c_int64_t) :: n({rank})
    n = {extents}
    if (present(extents)) n = extents
    nullify (array)
    if (matches(field, gpuzip_type_{name}, n, stat, errmsg)) call c_f_pointer(field%data, array, n)
"
        ),
    };
    let scalar = if rank == 0 { "    nullify (array)\n" } else { "" };
    format!(
        "
  subroutine view_{name}_{rank}(field, array{argument}, stat, errmsg)
    type(gpuzip_field_t), intent(in) :: field
    {kind}, pointer, intent(out) :: array{}
{declaration}    integer, intent(out), optional :: stat
    character(*), intent(inout), optional :: errmsg
{scalar}{shape}  end subroutine
",
        dimensions(rank)
    )
}
