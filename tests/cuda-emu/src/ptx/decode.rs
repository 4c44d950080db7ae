//! Decodes instructions. Every opcode that is not in this file is refused: an interpreter that
//! guesses would prove nothing.

use super::inst::*;
use super::module::{number, Function, Read, Special, Symbol, Unknown};
use std::collections::HashMap;

type Decoded<T> = Result<T, String>;

/// Distance of the generic addresses of shared memory from its offsets.
pub const SHARED_WINDOW: u64 = 0x7F00_0000_0000_0000;

/// Reads the body of a function.
pub struct Decoder {
    /// The function so far.
    pub function: Function,
    /// What names stand for.
    pub symbols: HashMap<String, Symbol>,
    /// File and line of the source of the next instruction.
    pub source: (u32, u32),
    /// Address of the module's data.
    base: u64,
    /// The registers of each open scope.
    scopes: Vec<HashMap<String, u32>>,
    widths: Vec<Ty>,
    constants: HashMap<u64, u32>,
    labels: HashMap<String, u32>,
    /// Branches: instruction, label, line.
    branches: Vec<(usize, String, u32)>,
}

/// The number of the first row of constants while the number of registers is not known.
const CONSTANTS: u32 = 1 << 30;

impl Decoder {
    /// Makes a decoder of a function of a module whose data is at `base`.
    pub fn new(symbols: HashMap<String, Symbol>, base: u64) -> Self {
        Self {
            function: Function::default(),
            symbols,
            source: (0, 0),
            base,
            scopes: Vec::new(),
            widths: Vec::new(),
            constants: HashMap::new(),
            labels: HashMap::new(),
            branches: Vec::new(),
        }
    }

    /// Begins a scope of registers.
    pub fn open(&mut self) {
        self.scopes.push(HashMap::new());
    }

    /// Ends the innermost scope.
    pub fn close(&mut self) {
        self.scopes.pop();
    }

    /// Notes that a label stands before the next instruction.
    pub fn label(&mut self, name: &str) {
        self.labels.insert(name.to_owned(), self.function.code.len() as u32);
    }

    /// Returns the function, complete.
    pub fn finish(mut self) -> Read<Function> {
        for (at, label, line) in &self.branches {
            let what = format!("{label}: no such label");
            self.function.code[*at].target =
                *self.labels.get(label).ok_or(Unknown { line: *line, what })?;
        }
        let rows = self.widths.len() as u32;
        let real = |row: &mut u32| {
            if *row != NONE && *row >= CONSTANTS {
                *row = *row - CONSTANTS + rows;
            }
        };
        for inst in &mut self.function.code {
            inst.d.iter_mut().chain(&mut inst.s).for_each(real);
        }
        if !matches!(
            self.function.code.last().map(|last| last.op),
            Some(Op::Ret | Op::Trap | Op::Bra)
        ) {
            return Err(Unknown { line: 0, what: "a function without ret at its end".into() });
        }
        self.function.rows = rows;
        Ok(self.function)
    }

    /// Reads a declaration of registers or an instruction.
    pub fn statement(&mut self, text: &str, line: u32) -> Decoded<()> {
        if let Some(declared) = text.strip_prefix(".reg") {
            return self.registers(declared.trim());
        }
        if text.starts_with('.') {
            return Err(format!("{text}: not supported"));
        }
        let inst = self.instruction(text, line).map_err(|what| format!("{text}: {what}"))?;
        self.function.code.push(inst);
        Ok(())
    }

    fn registers(&mut self, text: &str) -> Decoded<()> {
        let (ty, names) = text.split_once(char::is_whitespace).ok_or("registers without names")?;
        let ty = Ty::from_name(&ty[1..]).ok_or_else(|| format!("{ty}: not supported"))?;
        for name in names.split(',').map(str::trim) {
            let all: Vec<String> = match name.split_once('<') {
                Some((base, count)) => {
                    let count: u32 = count
                        .trim_end_matches('>')
                        .parse()
                        .map_err(|_| "a bad number of registers")?;
                    (0..count).map(|i| format!("{base}{i}")).collect()
                }
                None => vec![name.to_owned()],
            };
            for name in all {
                let row = self.widths.len() as u32;
                self.widths.push(ty);
                self.scopes.last_mut().ok_or("registers outside a function")?.insert(name, row);
            }
        }
        Ok(())
    }

    fn register(&mut self, name: &str) -> Decoded<u32> {
        if let Some(row) = self.scopes.iter().rev().find_map(|scope| scope.get(name)) {
            return Ok(*row);
        }
        let special = Special::from_name(name).ok_or_else(|| format!("{name}: not known"))?;
        if let Some((_, row)) = self.function.special.iter().find(|known| known.0 == special) {
            return Ok(*row);
        }
        let row = self.widths.len() as u32;
        self.widths.push(Ty::U32);
        self.function.special.push((special, row));
        Ok(row)
    }

    fn constant(&mut self, value: u64) -> u32 {
        let function = &mut self.function;
        *self.constants.entry(value).or_insert_with(|| {
            function.constants.push([value; LANES]);
            CONSTANTS + function.constants.len() as u32 - 1
        })
    }

    /// Returns the row of an operand of type `ty`.
    fn operand(&mut self, text: &str, ty: Ty) -> Decoded<u32> {
        if text.starts_with('%') {
            return self.register(text);
        }
        let value = match number(text) {
            Some(value) => value,
            None => self.address(text)?,
        };
        Ok(self.constant(ty.cut(value)))
    }

    /// Returns the address that the name of a variable stands for.
    fn address(&self, name: &str) -> Decoded<u64> {
        Ok(match self.symbols.get(name).ok_or_else(|| format!("{name}: not known"))? {
            Symbol::Shared(u32::MAX) => u64::from(self.function.shared.next_multiple_of(16)),
            Symbol::Shared(at) | Symbol::Parameter(at) => u64::from(*at),
            Symbol::Data(at) => self.base + u64::from(*at),
        })
    }

    /// Returns the row and the offset of the address in an operand such as `[%rd1+-8]`.
    fn place(&mut self, text: &str) -> Decoded<(u32, u64)> {
        let inner = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')).ok_or("no address")?;
        let (base, offset) = match inner.split_once('+') {
            Some((base, offset)) => {
                (base.trim(), number(offset.trim()).ok_or("an offset that is no number")?)
            }
            None => (inner.trim(), 0),
        };
        Ok((self.operand(base, Ty::U64)?, offset))
    }

    /// Returns the rows of the registers or values in `{...}`, or of one.
    fn group(&mut self, text: &str, ty: Ty) -> Decoded<Vec<u32>> {
        let inner = text.trim_start_matches('{').trim_end_matches('}');
        inner
            .split(',')
            .map(str::trim)
            .map(|name| if name == "_" { Ok(NONE) } else { self.operand(name, ty) })
            .collect()
    }

    fn instruction(&mut self, text: &str, line: u32) -> Decoded<Inst> {
        let mut inst = Inst {
            op: Op::Mov,
            ty: Ty::B32,
            guard: NONE,
            negated: false,
            d: [NONE; 4],
            s: [NONE; 5],
            offset: 0,
            target: 0,
            vector: 1,
            space: Space::Generic,
            volatile: false,
            line,
            source: self.source,
        };
        let mut text = text.trim();
        if let Some(rest) = text.strip_prefix('@') {
            let (guard, rest) = rest.split_once(char::is_whitespace).ok_or("a guard alone")?;
            inst.negated = guard.starts_with('!');
            inst.guard = self.register(guard.trim_start_matches('!'))?;
            text = rest.trim();
        }
        let (opcode, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let operands = split(rest);
        let words: Vec<&str> = opcode.split('.').collect();
        let types: Vec<Ty> = words[1..].iter().filter_map(|word| Ty::from_name(word)).collect();
        inst.ty = types.first().copied().unwrap_or(Ty::B32);
        let modifiers: Vec<&str> =
            words[1..].iter().copied().filter(|word| Ty::from_name(word).is_none()).collect();
        let known = match words[0] {
            "ld" | "st" | "atom" | "red" => {
                self.memory(&mut inst, words[0], &modifiers, &operands)?
            }
            "bra" => {
                let label = operands.first().ok_or("no label")?;
                self.branches.push((self.function.code.len(), label.to_string(), line));
                inst.op = Op::Bra;
                modifiers.iter().all(|&word| word == "uni")
            }
            "bar" | "barrier" | "membar" | "fence" | "nanosleep" | "shfl" | "vote" | "redux"
            | "activemask" | "ret" | "exit" | "trap" => {
                self.control(&mut inst, words[0], &modifiers, &operands)?
            }
            "setp" => {
                let name = modifiers.first().copied().unwrap_or("");
                let compare = Compare::from_name(name.trim_end_matches('u'));
                inst.op = Op::Setp(compare.ok_or("an unknown comparison")?, name.ends_with('u'));
                let ty = inst.ty;
                self.plain(&mut inst, &operands, 1, 2, ty)?;
                modifiers.len() == 1
            }
            "cvt" => {
                let [to, from] = types[..] else { return Err("not two types".into()) };
                let round = modifiers.first().and_then(|word| Round::from_name(word));
                inst.op = Op::Cvt(from, round.unwrap_or(Round::Exact));
                inst.ty = to;
                self.plain(&mut inst, &operands, 1, 1, from)?;
                modifiers.len() == usize::from(round.is_some())
            }
            "cvta" => {
                let sign = if modifiers.contains(&"to") { u64::MAX } else { 1 };
                let window = if modifiers.contains(&"shared") { SHARED_WINDOW } else { 0 };
                inst.op = Op::Cvta(window.wrapping_mul(sign));
                self.plain(&mut inst, &operands, 1, 1, Ty::U64)?;
                modifiers.iter().all(|word| ["to", "shared", "global", "const"].contains(word))
            }
            "mov" if rest.contains('{') => {
                let (to, from) = (operands[0], *operands.get(1).ok_or("one operand")?);
                let is_pack = from.starts_with('{');
                inst.op = if is_pack { Op::Pack } else { Op::Unpack };
                let half = if inst.ty.bytes() == 8 { Ty::B32 } else { Ty::B16 };
                let rows = self.group(if is_pack { from } else { to }, half)?;
                let [low, high] = rows[..] else { return Err("not two halves".into()) };
                if is_pack {
                    (inst.d[0], inst.s[0], inst.s[1]) = (self.operand(to, inst.ty)?, low, high);
                } else {
                    (inst.s[0], inst.d[0], inst.d[1]) = (self.operand(from, inst.ty)?, low, high);
                }
                inst.ty.bytes() >= 4
            }
            word => self.arithmetic(&mut inst, word, &modifiers, &operands)?,
        };
        known.then_some(inst).ok_or_else(|| "not supported".into())
    }

    /// Sets results and operands of an instruction that has these numbers of them.
    fn plain(
        &mut self,
        inst: &mut Inst,
        texts: &[&str],
        d: usize,
        s: usize,
        ty: Ty,
    ) -> Decoded<()> {
        if texts.len() != d + s {
            return Err(format!("{} operands instead of {}", texts.len(), d + s));
        }
        for (to, text) in inst.d.iter_mut().zip(&texts[..d]) {
            *to = self.operand(text, ty)?;
        }
        for (from, text) in inst.s.iter_mut().zip(&texts[d..]) {
            *from = self.operand(text, ty)?;
        }
        Ok(())
    }

    fn arithmetic(
        &mut self,
        inst: &mut Inst,
        word: &str,
        modifiers: &[&str],
        operands: &[&str],
    ) -> Decoded<bool> {
        let float = inst.ty.is_float();
        let has = |word: &str| modifiers.contains(&word);
        let (op, count) = match word {
            "mov" => (Op::Mov, 1),
            "add" => (Op::Add, 2),
            "sub" => (Op::Sub, 2),
            "mul" if has("wide") => (Op::MulWide, 2),
            "mul" if has("hi") => (Op::MulHi, 2),
            "mul" => (Op::MulLo, 2),
            "mad" if has("wide") => (Op::MadWide, 3),
            "mad" if has("lo") => (Op::MadLo, 3),
            "fma" => (Op::Fma, 3),
            "div" => (Op::Div, 2),
            "rem" => (Op::Rem, 2),
            "neg" => (Op::Neg, 1),
            "abs" => (Op::Abs, 1),
            "min" => (Op::Min, 2),
            "max" => (Op::Max, 2),
            "and" => (Op::And, 2),
            "or" => (Op::Or, 2),
            "xor" => (Op::Xor, 2),
            "not" => (Op::Not, 1),
            "shl" => (Op::Shl, 2),
            "shr" => (Op::Shr, 2),
            "shf" => (Op::Shf(has("l"), has("clamp")), 3),
            "prmt" => (Op::Prmt, 3),
            "bfi" => (Op::Bfi, 4),
            "bfind" => (Op::Bfind(has("shiftamt")), 1),
            "popc" => (Op::Popc, 1),
            "clz" => (Op::Clz, 1),
            "brev" => (Op::Brev, 1),
            "rcp" => (Op::Rcp, 1),
            "sqrt" => (Op::Sqrt, 1),
            "selp" => (Op::Selp, 3),
            _ => return Ok(false),
        };
        inst.op = op;
        // A shift counts in 32 bits, whatever it shifts.
        self.plain(inst, operands, 1, count, inst.ty)?;
        let allowed: &[&str] = match op {
            Op::Add | Op::Sub | Op::MulLo | Op::Fma | Op::Div | Op::Rcp | Op::Sqrt if float => {
                &["rn"]
            }
            Op::MulLo | Op::MadLo => &["lo"],
            Op::MulHi => &["hi"],
            Op::MulWide | Op::MadWide => &["wide"],
            Op::Shf(..) => &["l", "r", "wrap", "clamp"],
            Op::Bfind(_) => &["shiftamt"],
            _ => &[],
        };
        let rounded = !matches!(op, Op::Fma | Op::Div | Op::Rcp | Op::Sqrt) || !float || has("rn");
        Ok(rounded && modifiers.iter().all(|word| allowed.contains(word)))
    }

    fn memory(
        &mut self,
        inst: &mut Inst,
        word: &str,
        modifiers: &[&str],
        operands: &[&str],
    ) -> Decoded<bool> {
        let mut known = true;
        for modifier in modifiers {
            match *modifier {
                "global" => inst.space = Space::Global,
                "shared" => inst.space = Space::Shared,
                "const" => inst.space = Space::Const,
                "param" => inst.space = Space::Param,
                "volatile" | "relaxed" => inst.volatile = true,
                "v2" => inst.vector = 2,
                "v4" => inst.vector = 4,
                // The cache through which a load goes has no meaning here; data that is read
                // through the read-only cache must not change, as the check of races proves.
                "nc" if word == "ld" => {}
                "gpu" | "sys" => {}
                name if word == "atom" || word == "red" => {
                    inst.op = Op::Atom(Atom::from_name(name).ok_or("an unknown operation")?)
                }
                _ => known = false,
            }
        }
        if operands.len() != if word == "atom" { 3 } else { 2 } {
            return Err("a wrong number of operands".into());
        }
        let at = (word != "st" && word != "red") as usize;
        (inst.s[0], inst.offset) = self.place(operands[at])?;
        match word {
            "ld" => {
                inst.op = Op::Ld;
                let rows = self.group(operands[0], inst.ty)?;
                inst.d[..rows.len()].copy_from_slice(&rows);
                let is_wide = |row: &u32, bytes: u32| {
                    self.widths.get(*row as usize).is_some_and(|ty| ty.bytes() > bytes)
                };
                known &= rows.len() as u32 == inst.vector;
                // The load extends a signed value to the 64 bits of its register. No register of 16
                // or 32 bits is loaded with a narrower signed value.
                let narrower = inst.ty.is_signed() && !rows.iter().all(|row| is_wide(row, 4));
                if narrower {
                    known &= !rows.iter().any(|row| is_wide(row, inst.ty.bytes()));
                    inst.ty = match inst.ty.bytes() {
                        1 => Ty::U8,
                        2 => Ty::U16,
                        4 => Ty::U32,
                        _ => Ty::U64,
                    };
                }
            }
            "st" => {
                inst.op = Op::St;
                let rows = self.group(operands[1], inst.ty)?;
                inst.s[1..=rows.len()].copy_from_slice(&rows);
                known &= rows.len() as u32 == inst.vector
                    && !matches!(inst.space, Space::Const | Space::Param);
            }
            _ => {
                if word == "atom" {
                    inst.d[0] = self.operand(operands[0], inst.ty)?;
                }
                inst.s[1] = self.operand(operands[at + 1], inst.ty)?;
                inst.volatile = true;
                known &= matches!(inst.op, Op::Atom(_))
                    && matches!(inst.space, Space::Generic | Space::Global | Space::Shared)
                    && inst.ty.bytes() >= 4;
            }
        }
        Ok(known)
    }

    fn control(
        &mut self,
        inst: &mut Inst,
        word: &str,
        modifiers: &[&str],
        operands: &[&str],
    ) -> Decoded<bool> {
        let first = modifiers.first().copied().unwrap_or("");
        let second = modifiers.get(1).copied().unwrap_or("");
        match (word, first) {
            ("ret" | "exit", "") => inst.op = Op::Ret,
            ("trap", "") => inst.op = Op::Trap,
            ("membar", "cta") => inst.op = Op::FenceBlock,
            ("membar", "gl" | "sys") => inst.op = Op::Fence,
            ("fence", _) => {
                inst.op = if modifiers.contains(&"cta") { Op::FenceBlock } else { Op::Fence }
            }
            ("nanosleep", "") => inst.op = Op::Nanosleep,
            ("activemask", "") => {
                inst.op = Op::Activemask;
                self.plain(inst, operands, 1, 0, Ty::B32)?;
            }
            ("bar", "warp") => {
                inst.op = Op::BarWarp;
                self.plain(inst, operands, 0, 1, Ty::U32)?;
            }
            ("bar" | "barrier", "sync") if operands == ["0"] => inst.op = Op::BarSync,
            ("bar" | "barrier", "red") if operands.get(1) == Some(&"0") => {
                inst.op = Op::BarRed(Fold::from_name(second).ok_or("an unknown reduction")?);
                self.plain(inst, operands, 1, 2, Ty::Pred)?;
            }
            ("shfl", "sync") => {
                let (d, p) = match operands.first().and_then(|text| text.split_once('|')) {
                    Some((d, p)) => (d, Some(p)),
                    None => (*operands.first().ok_or("no operands")?, None),
                };
                inst.op = Op::Shfl(Shuffle::from_name(second).ok_or("an unknown shuffle")?);
                // The mask comes first among the operands, as in all operations of a warp.
                let [_, a, b, c, mask] = operands[..] else { return Err("not 5 operands".into()) };
                self.plain(inst, &[d, mask, a, b, c], 1, 4, Ty::B32)?;
                if let Some(p) = p {
                    inst.d[1] = self.register(p)?;
                }
            }
            ("vote", "sync") => {
                inst.op = Op::Vote(Fold::from_name(second).ok_or("an unknown vote")?);
                let [d, a, mask] = operands[..] else { return Err("not 3 operands".into()) };
                inst.negated |= a.starts_with('!');
                if inst.guard != NONE {
                    return Ok(false);
                }
                self.plain(inst, &[d, mask, a.trim_start_matches('!')], 1, 2, Ty::B32)?;
            }
            ("redux", "sync") => {
                inst.op = Op::Redux(Fold::from_name(second).ok_or("an unknown reduction")?);
                let [d, a, mask] = operands[..] else { return Err("not 3 operands".into()) };
                self.plain(inst, &[d, mask, a], 1, 2, inst.ty)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// Splits operands at the commas that are not in braces.
fn split(text: &str) -> Vec<&str> {
    let (mut parts, mut begin, mut depth) = (Vec::new(), 0, 0);
    for (at, letter) in text.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(text[begin..at].trim());
                begin = at + 1;
            }
            _ => {}
        }
    }
    if !text[begin..].trim().is_empty() {
        parts.push(text[begin..].trim());
    }
    parts
}
