//! A resident block: its warps, its shared memory, its barrier.

use super::clock::{Given, Order};
use super::inst::{Row, LANES};
use super::module::{Function, Special};
use super::races::{Cell, WarpClocks};
use super::stores::Stores;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// A warp.
pub struct Warp {
    /// The registers.
    pub rows: Vec<Row>,
    /// The next instruction of each lane.
    pub pc: [u32; LANES],
    /// The lanes whose threads have not ended.
    pub live: u32,
    /// The lanes that wait for others of the warp.
    pub waiting: u32,
    /// The lanes that wait at the block's barrier.
    pub blocked: u32,
    /// Number of the first lane's thread in the block.
    pub first: u32,
    /// The clocks of the lanes.
    pub clocks: WarpClocks,
    /// What the lanes know of threads outside the warp; `None`: nothing.
    pub orders: Option<Box<[Order; LANES]>>,
    /// The stores that no other lane sees.
    pub stores: Stores,
}

impl Warp {
    /// Returns the lanes that can go on.
    pub fn running(&self) -> u32 {
        self.live & !self.waiting & !self.blocked
    }

    /// Returns what a lane knows of threads outside its warp, to be changed.
    pub fn order(&mut self, lane: usize) -> &mut Order {
        &mut self.orders.get_or_insert_with(Default::default)[lane]
    }
}

/// What the warps of a block share.
pub struct Core {
    /// Number of the block in its grid.
    pub number: u32,
    /// Index of the block along each axis.
    pub at: [u32; 3],
    /// The shared memory.
    pub shared: Vec<u8>,
    /// For each byte of it, whether it has been written.
    pub written: Vec<bool>,
    /// The last accesses of its words.
    pub cells: Vec<Cell>,
    /// What its words give to their readers.
    pub given: HashMap<u64, Given>,
    /// Number of barriers that the block has passed, plus 1.
    pub barriers: u32,
    /// The instruction at which threads wait for the block, and how many wait.
    pub barrier: Option<(u32, u32)>,
    /// Number of threads that have not ended.
    pub live: u32,
}

/// A resident block.
pub struct Block {
    /// What the warps share.
    pub core: Core,
    /// The warps.
    pub warps: Vec<Warp>,
}

/// Blocks of launches that have ended, whose memory new launches use again.
static POOL: Mutex<Vec<Block>> = Mutex::new(Vec::new());

impl Block {
    /// Keeps the memory of a block of a launch that has ended.
    pub fn keep(self) {
        let mut pool = POOL.lock().unwrap_or_else(PoisonError::into_inner);
        if pool.len() < 16 {
            pool.push(self);
        }
    }

    /// Returns a block whose memory a new launch may use.
    pub fn kept() -> Option<Self> {
        let mut block = POOL.lock().unwrap_or_else(PoisonError::into_inner).pop()?;
        block.core.cells.clear();
        // The stores of a launch that was given up.
        block.warps.iter_mut().for_each(|warp| warp.stores.drain(u32::MAX, |_| {}));
        Some(block)
    }
}

/// The shape of a launch.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Blocks along each axis.
    pub grid: [u32; 3],
    /// Threads of a block along each axis.
    pub block: [u32; 3],
    /// Bytes of shared memory of a block.
    pub shared: u32,
}

impl Shape {
    /// Returns the number of threads of a block.
    pub fn threads(&self) -> u32 {
        self.block.iter().product()
    }

    /// Returns the number of blocks.
    pub fn blocks(&self) -> u64 {
        self.grid.iter().map(|&blocks| u64::from(blocks)).product()
    }

    /// Returns the number of threads of a block, in whole warps.
    pub fn span(&self) -> u32 {
        self.threads().next_multiple_of(LANES as u32)
    }
}

impl Block {
    /// Makes block `number` of a launch. `spare` is a block that has ended, whose memory is used
    /// again.
    pub fn new(function: &Function, shape: &Shape, number: u32, spare: Option<Self>) -> Self {
        let [columns, rows, _] = shape.grid;
        let at = [number % columns, number / columns % rows, number / columns / rows];
        let threads = shape.threads();
        let (mut shared, mut written, mut cells, mut old) = match spare {
            Some(block) => (block.core.shared, block.core.written, block.core.cells, block.warps),
            None => Default::default(),
        };
        shared.clear();
        shared.resize(shape.shared as usize, crate::memory::POISON);
        written.clear();
        written.resize(shape.shared as usize, false);
        // Accesses of other blocks of the launch in the cells are ignored.
        cells.resize(shape.shared.div_ceil(4) as usize, Cell::default());
        let warps = (0..threads.div_ceil(LANES as u32))
            .map(|warp| {
                let first = warp * LANES as u32;
                let (mut registers, mut clocks, stores) = match old.pop() {
                    Some(warp) => (warp.rows, warp.clocks, warp.stores),
                    None => Default::default(),
                };
                registers.resize(function.rows as usize, [0; LANES]);
                clocks.begin(1);
                for (special, row) in &function.special {
                    registers[*row as usize] =
                        std::array::from_fn(|lane| value(*special, shape, at, first + lane as u32));
                }
                let count = (threads - first).min(LANES as u32);
                Warp {
                    rows: registers,
                    pc: [0; LANES],
                    live: u32::MAX >> (LANES as u32 - count),
                    waiting: 0,
                    blocked: 0,
                    first,
                    clocks,
                    orders: None,
                    stores,
                }
            })
            .collect();
        let core = Core {
            number,
            at,
            shared,
            written,
            cells,
            given: HashMap::new(),
            barriers: 1,
            barrier: None,
            live: threads,
        };
        Self { core, warps }
    }
}

fn value(special: Special, shape: &Shape, at: [u32; 3], thread: u32) -> u64 {
    let [x, y, _] = shape.block;
    let value = match special {
        Special::Tid(0) => thread % x,
        Special::Tid(1) => thread / x % y,
        Special::Tid(_) => thread / x / y,
        Special::Ntid(axis) => shape.block[axis],
        Special::Ctaid(axis) => at[axis],
        Special::Nctaid(axis) => shape.grid[axis],
        Special::Lane => thread % LANES as u32,
        Special::Warp => thread / LANES as u32,
    };
    value.into()
}
