//! A launch: which blocks are resident, and which warp runs when.

use super::block::{Block, Shape};
use super::counts::{Counter, Counts};
use super::exec::{drain, Choice, Context, Stop};
use super::inst::ALL;
use super::memory::Memory;
use super::module::Module;
use super::report::{Fault, Report};
use crate::named::named;
use crate::rng::Rng;
use std::sync::Arc;

named! {
    /// How blocks and warps are interleaved.
    Interleaving {
        /// Any warp at any time; lanes of a warp may part without a reason.
        Random = "random",
        /// A warp runs as long as it can.
        Greedy = "greedy",
        /// One warp of each block hardly ever runs.
        Starved = "starved",
        /// The last blocks, warps and lanes first.
        Reverse = "reverse",
        /// One block at a time, in order, and a warp runs as long as it can; the seed decides nothing.
        Steady = "steady",
        /// One of the others except `Steady`, by the seed.
        Any = "any",
    }
}

/// Number of instructions of threads without progress after which a launch is given up.
const PATIENCE: u64 = 1 << 24;
/// The largest number of resident blocks, in threads.
const RESIDENT: u32 = 2048;

/// A launch that runs.
pub struct Grid {
    context: Context,
    interleaving: Interleaving,
    /// The resident blocks.
    blocks: Vec<Block>,
    /// A block that has ended.
    spare: Option<Block>,
    /// The most blocks that are resident.
    most: usize,
    /// The k-th block that begins is number `first + k * stride`.
    first: u64,
    stride: u64,
    begun: u64,
    ended: u64,
    /// The block and the warp that ran last.
    current: (usize, usize),
    /// For how many turns it has run.
    turns: u32,
    /// The warp of each block that is starved.
    victim: usize,
    /// The progress at which all stores were drained last.
    drained: u64,
    stopped: bool,
}

impl Grid {
    /// Makes a launch. `parameters` are the arguments as the kernel's parameters lie in memory.
    pub fn new(
        module: Arc<Module>,
        function: usize,
        parameters: Vec<u8>,
        shape: Shape,
        device: usize,
        interleaving: Interleaving,
        seed: u64,
    ) -> Self {
        let mut rng = Rng::new(seed);
        let interleaving = match interleaving {
            Interleaving::Any => [
                Interleaving::Random,
                Interleaving::Greedy,
                Interleaving::Starved,
                Interleaving::Reverse,
            ][rng.below(4)],
            chosen => chosen,
        };
        let choice = match interleaving {
            Interleaving::Random => Choice::Random,
            Interleaving::Reverse => Choice::Ahead,
            Interleaving::Steady => Choice::Steady,
            _ => Choice::Behind,
        };
        let (total, code) = (shape.blocks(), module.functions[function].code.len());
        let (first, stride) = match interleaving {
            Interleaving::Reverse => (total - 1, total - 1),
            Interleaving::Random => {
                let order = [1, 1, total - 1, 1 + rng.next() % total][rng.below(4)];
                (if order == total - 1 { total - 1 } else { 0 }, coprime(order, total))
            }
            _ => (0, 1),
        };
        let fits = (RESIDENT / shape.span().max(1)).clamp(1, 8) as usize;
        let steady = interleaving == Interleaving::Steady;
        let most = if steady { 1 } else { 1 + rng.below(fits) };
        let delays = rng.below(4) != 0 && !steady;
        let victim = rng.below(shape.span() as usize / 32);
        let context = Context {
            module,
            function,
            parameters,
            shape,
            device,
            rng,
            choice,
            delays,
            cells: Default::default(),
            given: Default::default(),
            recent: vec![usize::MAX; code],
            reports: Vec::new(),
            executed: 0,
            counter: None,
            progress: 0,
        };
        Self {
            context,
            interleaving,
            blocks: Vec::new(),
            spare: None,
            most,
            first,
            stride,
            begun: 0,
            ended: 0,
            current: (0, 0),
            turns: 0,
            victim,
            drained: 0,
            stopped: false,
        }
    }

    /// Returns what the checks have found so far.
    pub fn reports(&self) -> &[Report] {
        &self.context.reports
    }

    /// Returns the name of the kernel.
    pub fn name(&self) -> &str {
        &self.context.function().name
    }

    /// Returns the number of instructions of threads that have run.
    pub fn executed(&self) -> u64 {
        self.context.executed
    }

    /// Counts what the launch does from now on.
    pub fn count(&mut self) {
        let blocks = self.context.shape.blocks();
        let counter = Counter::new(&self.context.function().code, blocks);
        self.context.counter = Some(Box::new(counter));
    }

    /// Returns the counts since `count`, if it was called.
    pub fn counts(&self) -> Option<Counts> {
        self.context.counter.as_ref().map(|counter| counter.counts)
    }

    /// Runs at least `count` instructions of threads, or all that are left. Returns whether the
    /// launch has ended.
    pub fn run(&mut self, memory: &mut Memory, count: u64) -> bool {
        let end = self.context.executed.saturating_add(count);
        while !self.stopped && self.context.executed < end {
            match self.turn(memory) {
                Ok(true) => {}
                Ok(false) => return true,
                Err(Stop) => self.stopped = true,
            }
        }
        self.stopped
    }

    /// Runs one warp for a while. Returns false if all blocks have ended.
    fn turn(&mut self, memory: &mut Memory) -> Result<bool, Stop> {
        let total = self.context.shape.blocks();
        while self.blocks.len() < self.most && self.begun < total {
            let number =
                (self.first as u128 + self.begun as u128 * self.stride as u128) % total as u128;
            let context = &mut self.context;
            let function = &context.module.functions[context.function];
            let spare = self.spare.take().or_else(Block::kept);
            self.blocks.push(Block::new(function, &context.shape, number as u32, spare));
            self.begun += 1;
            context.progress = context.executed;
        }
        if self.blocks.is_empty() {
            return Ok(false);
        }
        let Some((b, w)) = self.choose() else {
            self.context.stuck(&self.blocks[0])?;
            // A block whose threads have all ended is removed when its last thread ends.
            return self.dead("no thread can go on");
        };
        if (b, w) != self.current {
            self.current = (b, w);
            self.turns = 0;
        }
        self.turns += 1;
        let context = &mut self.context;
        let turns = match self.interleaving {
            Interleaving::Greedy | Interleaving::Steady => 4096,
            Interleaving::Starved => 96,
            Interleaving::Reverse => 512,
            _ => 1 + context.rng.below(256) as u32,
        };
        let block = &mut self.blocks[b];
        context.run(&mut block.core, &mut block.warps[w], memory, turns)?;
        let is_greedy = matches!(self.interleaving, Interleaving::Greedy | Interleaving::Steady);
        if !is_greedy && context.rng.below(8) == 0 {
            let mask = context.rng.next() as u32;
            drain(&mut block.core, &mut block.warps[w], mask);
        }
        context.open_barrier(block);
        if block.core.live == 0 {
            let block = self.blocks.swap_remove(b);
            self.spare = Some(block);
            self.ended += 1;
        }
        if self.context.executed - self.context.progress > PATIENCE / 16
            && self.drained != self.context.progress
        {
            // A store does not wait for ever on a device, either.
            self.drained = self.context.progress;
            for block in &mut self.blocks {
                block.warps.iter_mut().for_each(|warp| drain(&mut block.core, warp, ALL));
            }
        }
        if self.context.executed - self.context.progress > PATIENCE {
            return self.dead("the threads of all resident blocks run without getting anywhere");
        }
        Ok(true)
    }

    /// Reports a deadlock at the warp that ran last.
    fn dead(&mut self, what: &str) -> Result<bool, Stop> {
        let block = &self.blocks[self.current.0.min(self.blocks.len() - 1)];
        let warp = block.warps.iter().find(|warp| warp.live != 0).unwrap_or(&block.warps[0]);
        let lane = warp.live.trailing_zeros().min(31) as usize;
        let module = Arc::clone(&self.context.module);
        let inst = &module.functions[self.context.function].code[warp.pc[lane] as usize];
        let (resident, left) = (self.blocks.len(), self.context.shape.blocks() - self.begun);
        let text = || format!("{what}; {resident} blocks are resident, {left} wait for room");
        self.context.report(Fault::Deadlock, &block.core, warp, lane, inst, text)?;
        Ok(false)
    }

    /// Chooses the block and the warp that run next; `None`: none can.
    fn choose(&mut self) -> Option<(usize, usize)> {
        let rng = &mut self.context.rng;
        let (blocks, warps) = (self.blocks.len(), self.blocks[0].warps.len());
        let total = blocks * warps;
        let can = |at: usize| self.blocks[at / warps].warps[at % warps].running() != 0;
        let last = self.current.0 * warps + self.current.1;
        let from = match self.interleaving {
            Interleaving::Greedy | Interleaving::Steady
                if last < total && can(last) && self.turns < 4 =>
            {
                last
            }
            Interleaving::Greedy | Interleaving::Steady => last + 1,
            Interleaving::Reverse if rng.below(8) != 0 => {
                let at = (0..total).rev().find(|&at| can(at))?;
                return Some((at / warps, at % warps));
            }
            _ => rng.below(total),
        };
        let spared = self.interleaving == Interleaving::Starved && rng.below(256) != 0;
        let order = || (0..total).map(|i| (from + i) % total);
        let at = order()
            .find(|&at| can(at) && !(spared && at % warps == self.victim))
            .or_else(|| order().find(|&at| can(at)))?;
        Some((at / warps, at % warps))
    }
}

impl Drop for Grid {
    fn drop(&mut self) {
        self.blocks.drain(..).chain(self.spare.take()).for_each(Block::keep);
    }
}

/// Returns the first number from `value` on that has no divisor in common with `total`.
fn coprime(value: u64, total: u64) -> u64 {
    let divisor = |mut a: u64, mut b: u64| {
        while b != 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    (value.max(1)..).find(|&value| divisor(value, total) == 1).unwrap_or(1)
}
