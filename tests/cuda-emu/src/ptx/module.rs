//! Modules: the functions and variables of a PTX text.

use super::decode::Decoder;
use super::inst::{Inst, Row, Ty};
use super::text::{statements, Kind, Statement};
use std::collections::HashMap;

/// A text that is no PTX, or PTX that the interpreter does not know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown {
    /// Line of the PTX text.
    pub line: u32,
    /// What is wrong.
    pub what: String,
}

impl std::fmt::Display for Unknown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PTX line {}: {}", self.line, self.what)
    }
}

/// The result of reading PTX.
pub type Read<T> = Result<T, Unknown>;

/// Bytes of a line of a module's variables.
const LINE: usize = 256;

/// Variables of a module. They begin at a multiple of 256 bytes, as on a GPU: the sectors that a kernel
/// touches, which are counted, do not depend on the host's allocator.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(256))]
pub struct Line([u8; LINE]);

/// A loaded module.
#[derive(Debug)]
pub struct Module {
    /// The kernels.
    pub functions: Vec<Function>,
    /// The names of source files by their numbers.
    pub files: HashMap<u32, String>,
    /// The values of the module's variables, which kernels only read.
    pub data: Vec<Line>,
    /// Number of bytes of `data` that are used.
    pub bytes: usize,
}

/// A kernel, decoded.
#[derive(Debug, Default)]
pub struct Function {
    /// The name.
    pub name: String,
    /// Offset, size and alignment in bytes of each parameter.
    pub parameters: Vec<(u32, u32, u32)>,
    /// The instructions.
    pub code: Vec<Inst>,
    /// Number of rows of registers, with those of the special registers.
    pub rows: u32,
    /// The constants, which are rows behind those of the registers.
    pub constants: Vec<Row>,
    /// The rows that hold special registers.
    pub special: Vec<(Special, u32)>,
    /// Bytes of shared memory that the kernel declares.
    pub shared: u32,
    /// The most threads that a block may have, by `.maxntid`; 0: not limited.
    pub most_threads: u32,
}

/// A special register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    /// Index of the thread in its block, along an axis.
    Tid(usize),
    /// Extent of a block.
    Ntid(usize),
    /// Index of the block.
    Ctaid(usize),
    /// Extent of the grid.
    Nctaid(usize),
    /// The lane.
    Lane,
    /// The warp in its block.
    Warp,
}

impl Special {
    /// Returns the special register with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        let (base, axis) = name.split_once('.').unwrap_or((name, "x"));
        let axis = ["x", "y", "z"].iter().position(|&known| known == axis)?;
        Some(match base {
            "%tid" => Self::Tid(axis),
            "%ntid" => Self::Ntid(axis),
            "%ctaid" => Self::Ctaid(axis),
            "%nctaid" => Self::Nctaid(axis),
            "%laneid" => Self::Lane,
            "%warpid" => Self::Warp,
            _ => return None,
        })
    }
}

/// A variable or a parameter: what its name stands for in an operand.
#[derive(Clone, Copy, Debug)]
pub enum Symbol {
    /// An offset in the parameters.
    Parameter(u32),
    /// An offset in the shared memory of a block.
    Shared(u32),
    /// An offset in the module's data.
    Data(u32),
}

/// A declaration of a variable.
struct Variable<'a> {
    name: &'a str,
    ty: Ty,
    align: u32,
    /// Number of elements; `None` for an array without a size.
    count: Option<u32>,
    values: Option<&'a str>,
}

impl Variable<'_> {
    fn bytes(&self) -> u32 {
        self.count.unwrap_or(0) * self.ty.bytes()
    }
}

impl Module {
    /// Reads the text of a module.
    pub fn parse(text: &str) -> Read<Self> {
        let all = statements(text);
        let mut symbols = HashMap::new();
        let mut bytes = Vec::new();
        let (mut functions, mut files) = (Vec::new(), HashMap::new());
        let mut at = 0;
        // The data must have its addresses before the functions are read.
        let mut depth = 0;
        for Statement { line, kind } in &all {
            match kind {
                Kind::Open => depth += 1,
                Kind::Close => depth -= 1,
                Kind::Text(text) if depth == 0 && !is_head(text) => {
                    variable_of_module(text, &mut symbols, &mut bytes)
                        .map_err(|what| Unknown { line: *line, what })?
                }
                Kind::File(number, name) => {
                    files.insert(*number, name.clone());
                }
                _ => {}
            }
        }
        let mut data = vec![Line([0; LINE]); bytes.len().div_ceil(LINE).max(1)];
        for (line, bytes) in data.iter_mut().zip(bytes.chunks(LINE)) {
            line.0[..bytes.len()].copy_from_slice(bytes);
        }
        let base = data.as_ptr() as u64;
        while at < all.len() {
            if let Kind::Text(text) = &all[at].kind {
                if is_head(text) {
                    let end = at + length_of_body(&all[at + 1..]) + 1;
                    let function = function(text, &all[at + 1..end], &symbols, base)
                        .map_err(|e| Unknown { line: e.line.max(all[at].line), ..e })?;
                    functions.push(function);
                    at = end;
                    continue;
                }
            }
            at += 1;
        }
        Ok(Self { functions, files, data, bytes: bytes.len() })
    }

    /// Returns the number of the kernel called `name`.
    pub fn function(&self, name: &str) -> Option<usize> {
        self.functions.iter().position(|function| function.name == name)
    }
}

fn is_head(text: &str) -> bool {
    text.split_whitespace().any(|word| word == ".entry" || word == ".func")
}

/// Returns the number of statements from the first `{` to the `}` that belongs to it.
fn length_of_body(rest: &[Statement]) -> usize {
    let mut depth = 0;
    for (i, statement) in rest.iter().enumerate() {
        match statement.kind {
            Kind::Open => depth += 1,
            Kind::Close => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return i + 1;
        }
    }
    rest.len()
}

fn variable_of_module(
    text: &str,
    symbols: &mut HashMap<String, Symbol>,
    bytes: &mut Vec<u8>,
) -> Result<(), String> {
    let variable = variable(text)?;
    let space = text.split_whitespace().find(|w| [".const", ".global", ".shared"].contains(w));
    let symbol = match space {
        Some(".shared") if variable.count.is_none() => Symbol::Shared(u32::MAX),
        Some(".const" | ".global") => {
            bytes.resize(bytes.len().next_multiple_of(variable.align as usize), 0);
            let symbol = Symbol::Data(bytes.len() as u32);
            let end = bytes.len() + variable.bytes() as usize;
            for value in variable.values.unwrap_or("").split(',').filter(|v| !v.trim().is_empty()) {
                let value = number(value.trim().trim_matches(['{', '}', ' ']))
                    .ok_or_else(|| format!("{value}: no number"))?;
                bytes.extend(&value.to_le_bytes()[..variable.ty.bytes() as usize]);
            }
            bytes.resize(end, 0);
            symbol
        }
        _ => return Err(format!("{text}: not supported")),
    };
    symbols.insert(variable.name.to_owned(), symbol);
    Ok(())
}

fn variable(text: &str) -> Result<Variable<'_>, String> {
    let (declared, values) = match text.split_once('=') {
        Some((declared, values)) => (declared, Some(values.trim())),
        None => (text, None),
    };
    let bad = || format!("{text}: not understood");
    let mut ty = None;
    let mut align = None;
    let mut words = declared.split_whitespace();
    let mut name = "";
    while let Some(word) = words.next() {
        if word == ".align" {
            align = words.next().and_then(|word| word.parse().ok());
        } else if let Some(word) = word.strip_prefix('.') {
            ty = ty.or(Ty::from_name(word));
        } else {
            name = word;
        }
    }
    let ty = ty.ok_or_else(bad)?;
    let (name, count) = match name.split_once('[') {
        Some((name, "]")) => (name, None),
        Some((name, count)) => {
            (name, Some(count.trim_end_matches(']').parse().map_err(|_| bad())?))
        }
        None => (name, Some(1)),
    };
    Ok(Variable { name, ty, align: align.unwrap_or(ty.bytes()).max(1), count, values })
}

/// Reads a kernel: its head, and its body with both braces.
fn function(
    head: &str,
    body: &[Statement],
    symbols: &HashMap<String, Symbol>,
    base: u64,
) -> Read<Function> {
    let at_head = |what: String| Unknown { line: 0, what };
    let bad = || at_head(format!("{head}: not understood"));
    if head.contains(".func") {
        return Err(at_head(format!("{head}: functions are not supported, only kernels")));
    }
    let (before, rest) = head.split_once('(').ok_or_else(bad)?;
    let (parameters, limits) = rest.rsplit_once(')').ok_or_else(bad)?;
    let name = before.split_whitespace().last().ok_or_else(bad)?;
    let mut decoder = Decoder::new(symbols.clone(), base);
    let function = &mut decoder.function;
    name.clone_into(&mut function.name);
    let mut end = 0u32;
    for parameter in parameters.split(',').filter(|text| !text.trim().is_empty()) {
        let parameter = variable(parameter).map_err(at_head)?;
        end = end.next_multiple_of(parameter.align);
        function.parameters.push((end, parameter.bytes(), parameter.align));
        decoder.symbols.insert(parameter.name.to_owned(), Symbol::Parameter(end));
        end += parameter.bytes();
    }
    if let Some(at) = limits.find(".maxntid") {
        let extents = limits[at + 8..].split('.').next().unwrap_or("");
        function.most_threads =
            extents.split(',').filter_map(|extent| extent.trim().parse::<u32>().ok()).product();
    }
    for statement in body {
        let located = |what| Unknown { line: statement.line, what };
        match &statement.kind {
            Kind::Open => decoder.open(),
            Kind::Close => decoder.close(),
            Kind::Label(name) => decoder.label(name),
            Kind::Location(file, line) => decoder.source = (*file, *line),
            Kind::File(..) => {}
            Kind::Text(text) if text.starts_with(".shared") => {
                let variable = variable(text).map_err(located)?;
                let at = decoder.function.shared.next_multiple_of(variable.align);
                decoder.function.shared = at + variable.bytes();
                decoder.symbols.insert(variable.name.to_owned(), Symbol::Shared(at));
            }
            Kind::Text(text) => decoder.statement(text, statement.line).map_err(located)?,
        }
    }
    decoder.finish()
}

/// Reads an integer or the bits of a floating-point number.
pub fn number(text: &str) -> Option<u64> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let lower = digits.to_ascii_lowercase();
    let value = if let Some(hex) = lower.strip_prefix("0x") {
        u64::from_str_radix(hex.trim_end_matches('u'), 16).ok()?
    } else if let Some(bits) = lower.strip_prefix("0f").or_else(|| lower.strip_prefix("0d")) {
        u64::from_str_radix(bits, 16).ok()?
    } else {
        lower.trim_end_matches('u').parse().ok()?
    };
    Some(if negative { value.wrapping_neg() } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_has_kernels_data_and_shared_memory() {
        let text = ".const .align 8 .b8 table[12] = {1, 2, 255};\n.global .align 4 .u32 five = 5;\n\
            .visible .entry f(\n.param .u32 f_param_0,\n.param .align 8 .b8 f_param_1[24]\n)\n.maxntid 128, 2, 1\n.minnctapersm 8\n{\n\
            .reg .b32 %r<4>;\n.shared .align 2 .b8 a[6];\n.shared .align 8 .b8 b[8];\n.loc 1 3 0\nmov.u32 %r1, b;\nmov.u32 %r2, -1;\nret;\n}\n";
        let module = Module::parse(text).unwrap();
        assert_eq!((module.bytes, module.data.as_ptr() as usize % LINE), (16, 0));
        let expected = [1, 2, 255, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0];
        assert_eq!(module.data[0].0[..16], expected);
        let f = &module.functions[module.function("f").unwrap()];
        assert_eq!(f.parameters, [(0, 4, 4), (8, 24, 8)]);
        assert_eq!((f.shared, f.most_threads, f.code.len()), (16, 256, 3));
        assert_eq!(f.code[0].source, (1, 3));
        assert_eq!(f.constants.iter().map(|row| row[0]).collect::<Vec<_>>(), [8, 0xFFFF_FFFF]);
    }

    #[test]
    fn what_is_not_known_is_refused_with_its_line() {
        let text = ".visible .entry f()\n{\n.reg .f32 %f<3>;\nsin.approx.f32 %f1, %f2;\nret;\n}";
        let unknown = Module::parse(text).unwrap_err();
        assert_eq!(unknown.line, 4);
        assert!(unknown.what.contains("sin.approx.f32"), "{unknown}");
    }

    #[test]
    fn numbers_are_decimal_hexadecimal_or_bits() {
        let all = ["-2", "0x1F", "0f3F800000", "0dBFF0000000000000", "7U", "x"].map(number);
        let one = -1f64;
        let expected = [
            Some(u64::MAX - 1),
            Some(31),
            Some(u64::from(1f32.to_bits())),
            Some(one.to_bits()),
            Some(7),
            None,
        ];
        assert_eq!(all, expected);
    }
}
