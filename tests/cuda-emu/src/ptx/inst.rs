//! The decoded form of an instruction. Operands are *rows*: the values of all lanes of a warp.

use crate::named::named;

/// Number of lanes of a warp.
pub const LANES: usize = 32;
/// The mask of all lanes.
pub const ALL: u32 = !0;
/// The values of one register in all lanes of a warp. A value has the width of its register and is
/// extended with zeros; a predicate is 0 or 1.
pub type Row = [u64; LANES];
/// The number of a row that does not exist.
pub const NONE: u32 = u32::MAX;

named! {
    /// A type of PTX.
    Ty {
        B8 = "b8", U8 = "u8", S8 = "s8",
        B16 = "b16", U16 = "u16", S16 = "s16",
        B32 = "b32", U32 = "u32", S32 = "s32", F32 = "f32",
        B64 = "b64", U64 = "u64", S64 = "s64", F64 = "f64",
        Pred = "pred",
    }
}

impl Ty {
    /// Returns the number of bytes of a value.
    pub fn bytes(self) -> u32 {
        match self {
            Self::B8 | Self::U8 | Self::S8 | Self::Pred => 1,
            Self::B16 | Self::U16 | Self::S16 => 2,
            Self::B32 | Self::U32 | Self::S32 | Self::F32 => 4,
            Self::B64 | Self::U64 | Self::S64 | Self::F64 => 8,
        }
    }

    /// Returns whether the type is a signed integer.
    pub fn is_signed(self) -> bool {
        matches!(self, Self::S8 | Self::S16 | Self::S32 | Self::S64)
    }

    /// Returns whether the type is a floating-point number.
    pub fn is_float(self) -> bool {
        matches!(self, Self::F32 | Self::F64)
    }

    /// Keeps the bits of a value of this type.
    pub fn cut(self, value: u64) -> u64 {
        match self.bytes() {
            _ if self == Self::Pred => value & 1,
            1 => value & 0xFF,
            2 => value & 0xFFFF,
            4 => value & 0xFFFF_FFFF,
            _ => value,
        }
    }

    /// Extends a value of this type with its sign, or with zeros.
    pub fn extend(self, value: u64) -> u64 {
        match self {
            Self::S8 => value as i8 as i64 as u64,
            Self::S16 => value as i16 as i64 as u64,
            Self::S32 => value as i32 as i64 as u64,
            _ => self.cut(value),
        }
    }
}

/// A state space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are PTX's")]
pub enum Space {
    Generic,
    Global,
    Shared,
    Const,
    Param,
}

named! {
    /// A comparison; for integers by the type's sign.
    Compare {
        Eq = "eq",
        /// Not equal; false if a number is NaN.
        Ne = "ne",
        Lt = "lt" | "lo",
        Le = "le" | "ls",
        Gt = "gt" | "hi",
        Ge = "ge" | "hs",
        /// Both operands are numbers.
        Num = "n" | "num",
        /// At least one operand is NaN.
        Nan = "nan",
    }
}

named! {
    /// A rounding of a conversion.
    Round {
        /// The conversion needs none.
        Exact = "",
        /// To the nearest number, ties to even.
        Nearest = "rn" | "rni",
        /// Towards zero.
        Zero = "rz" | "rzi",
        Down = "rm" | "rmi",
        Up = "rp" | "rpi",
    }
}

named! {
    /// An atomic operation.
    Atom {
        Add = "add", And = "and", Or = "or", Xor = "xor", Min = "min", Max = "max", Exch = "exch",
    }
}

named! {
    /// A shuffle.
    Shuffle { Up = "up", Down = "down", Bfly = "bfly", Idx = "idx", }
}

named! {
    /// What a vote, or a reduction over lanes or over a block, computes.
    Fold {
        All = "all", Any = "any", Uni = "uni", Ballot = "ballot", Popc = "popc",
        Add = "add", Min = "min", Max = "max", And = "and", Or = "or", Xor = "xor",
    }
}

/// The operation of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are PTX's")]
pub enum Op {
    Mov,
    Pack,
    Unpack,
    Add,
    Sub,
    MulLo,
    MulHi,
    MulWide,
    MadLo,
    MadWide,
    Fma,
    Div,
    Rem,
    Neg,
    Abs,
    Min,
    Max,
    And,
    Or,
    Xor,
    Not,
    Shl,
    Shr,
    /// Funnel shift: to the left or not, clamped or not.
    Shf(bool, bool),
    Prmt,
    Bfi,
    /// Whether the amount of the shift is asked for.
    Bfind(bool),
    Popc,
    Clz,
    Brev,
    Rcp,
    Sqrt,
    /// A comparison; the flag: true if one number is NaN.
    Setp(Compare, bool),
    Selp,
    /// A conversion from this type.
    Cvt(Ty, Round),
    /// An address: what is added to it.
    Cvta(u64),
    Ld,
    St,
    Atom(Atom),
    /// A fence, for the block or for all.
    FenceBlock,
    Fence,
    Bra,
    Ret,
    Trap,
    Nanosleep,
    Activemask,
    BarSync,
    BarRed(Fold),
    BarWarp,
    Shfl(Shuffle),
    Vote(Fold),
    Redux(Fold),
}

/// An instruction.
#[derive(Clone, Copy, Debug)]
pub struct Inst {
    /// The operation.
    pub op: Op,
    /// The type of the operation.
    pub ty: Ty,
    /// Row of the guard predicate, or [`NONE`].
    pub guard: u32,
    /// Whether the instruction runs where the guard is false.
    pub negated: bool,
    /// Rows of results; [`NONE`] where there is none.
    pub d: [u32; 4],
    /// Rows of operands. For memory: the address, then the values to store.
    pub s: [u32; 5],
    /// What is added to the address.
    pub offset: u64,
    /// The instruction that a branch goes to.
    pub target: u32,
    /// Number of values of a load or a store.
    pub vector: u32,
    /// The space of an access to memory.
    pub space: Space,
    /// Whether an access to memory is volatile.
    pub volatile: bool,
    /// Line of the PTX.
    pub line: u32,
    /// File and line of the source; 0 where it is unknown.
    pub source: (u32, u32),
}
