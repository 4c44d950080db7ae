//! Fences, barriers and the operations of a warp.

use super::alu::Registers;
use super::block::{Block, Core, Warp};
use super::clock::{Known, Order, INNER};
use super::exec::{drain, lanes_of, Context, Stop};
use super::inst::*;
use super::module::Function;
use super::report::Fault;
use std::sync::Arc;

/// What a lane reads from a lane that takes no part in a shuffle.
const NOBODY: u64 = 0xA5A5_A5A5;

impl Context {
    /// Passes a fence in the lanes of `mask`.
    pub fn fence(&mut self, core: &mut Core, warp: &mut Warp, mask: u32, for_all: bool) {
        drain(core, warp, mask);
        let span = self.shape.span();
        let floor = core.barriers << INNER;
        let begin = core.number * span + warp.first;
        for lane in lanes_of(mask) {
            let exact = (0..LANES)
                .map(|other| (begin + other as u32, warp.clocks.rows[lane][other]))
                .filter(|(_, clock)| *clock >= floor)
                .collect();
            let own = Some(Arc::new(Known::of_thread(core.number, floor, exact)));
            let order = warp.order(lane);
            order.fence(for_all, span);
            let mut released = order.known.clone();
            super::clock::add(&mut released, &own, span);
            if for_all {
                order.released = released.clone();
            }
            order.released_in_block = released;
            warp.clocks.tick(lane);
        }
    }

    /// Lets the lanes of `mask` wait for their block.
    pub fn arrive(
        &mut self,
        core: &mut Core,
        warp: &mut Warp,
        mask: u32,
        pc: u32,
    ) -> Result<(), Stop> {
        drain(core, warp, mask);
        warp.blocked |= mask;
        let (at, count) = core.barrier.unwrap_or((pc, 0));
        core.barrier = Some((at, count + mask.count_ones()));
        if at == pc {
            return self.check_warp(core, warp);
        }
        let inst = self.function().code[pc as usize];
        let other = self.function().code[at as usize].line;
        let lane = mask.trailing_zeros() as usize;
        let text = || format!("other threads of the block wait at the barrier at PTX line {other}");
        self.report(Fault::Barrier, core, warp, lane, &inst, text)
    }

    /// Opens the block's barrier if all its threads have arrived.
    pub fn open_barrier(&mut self, block: &mut Block) {
        let Some((pc, count)) = block.core.barrier else { return };
        if count < block.core.live {
            return;
        }
        let module = Arc::clone(&self.module);
        let function = &module.functions[self.function];
        let inst = &function.code[pc as usize];
        block.core.barrier = None;
        block.core.barriers += 1;
        self.progress = self.executed;
        if let Op::BarRed(fold) = inst.op {
            let (mut all, mut any, mut sum) = (true, false, 0);
            for warp in &mut block.warps {
                let registers = Registers { rows: &mut warp.rows, constants: &function.constants };
                for lane in lanes_of(warp.blocked) {
                    let yes = registers.lane(inst.s[1], lane) != 0;
                    all &= yes;
                    any |= yes;
                    sum += u64::from(yes);
                }
            }
            let result = match fold {
                Fold::And | Fold::All => all.into(),
                Fold::Popc => sum,
                _ => any.into(),
            };
            for warp in &mut block.warps {
                for lane in lanes_of(warp.blocked) {
                    warp.rows[inst.d[0] as usize][lane] = result;
                }
            }
        }
        self.meet_in_block(block);
        for warp in &mut block.warps {
            for lane in lanes_of(warp.blocked) {
                warp.pc[lane] = pc + 1;
            }
            warp.blocked = 0;
            warp.clocks.begin(block.core.barriers);
        }
    }

    /// Makes what the threads of a block know and release common to them.
    fn meet_in_block(&self, block: &mut Block) {
        let span = self.shape.span();
        let mut common = Order::default();
        for warp in &block.warps {
            for order in warp.orders.iter().flat_map(|orders| orders.iter()) {
                common.meet(order, span);
            }
        }
        if common.known.is_none() && common.released_in_block.is_none() {
            return;
        }
        for warp in &mut block.warps {
            for lane in 0..LANES {
                let order = warp.order(lane);
                order.known.clone_from(&common.known);
                order.released.clone_from(&common.released);
                order.released_in_block.clone_from(&common.released_in_block);
            }
        }
    }

    /// Lets the lanes of `mask` wait at an operation of a warp, and runs it for the lanes that are
    /// complete.
    pub fn collect(
        &mut self,
        core: &mut Core,
        warp: &mut Warp,
        function: &Function,
        mask: u32,
        pc: u32,
    ) -> Result<(), Stop> {
        let inst = &function.code[pc as usize];
        warp.waiting |= mask;
        let members = |warp: &mut Warp, lane: usize, inst: &Inst| {
            let registers = Registers { rows: &mut warp.rows, constants: &function.constants };
            registers.lane(inst.s[0], lane) as u32
        };
        let mut left = mask;
        while left != 0 {
            let lane = left.trailing_zeros() as usize;
            let named = members(warp, lane, inst);
            if named >> lane & 1 == 0 {
                let text = || format!("the mask {named:#010x} is without the lane itself, {lane}");
                return self.report(Fault::Mask, core, warp, lane, inst, text);
            }
            if named & !warp.live != 0 {
                let gone = (named & !warp.live).trailing_zeros();
                let text =
                    || format!("the mask {named:#010x} names lane {gone}, which is not there");
                return self.report(Fault::Mask, core, warp, lane, inst, text);
            }
            left &= !(1 << lane);
            if named & !warp.waiting != 0 {
                continue;
            }
            // A barrier of a warp may be reached at several instructions, other operations not.
            let fits = |warp: &mut Warp, other: usize| {
                let at = &function.code[warp.pc[other] as usize];
                let is_same =
                    warp.pc[other] == pc || inst.op == Op::BarWarp && at.op == Op::BarWarp;
                is_same && members(warp, other, at) == named
            };
            if !lanes_of(named).all(|other| fits(warp, other)) {
                continue;
            }
            left &= !named;
            self.perform(core, warp, function, inst, named);
            for lane in lanes_of(named) {
                warp.pc[lane] += 1;
            }
            warp.waiting &= !named;
        }
        self.check_warp(core, warp)
    }

    fn perform(
        &mut self,
        core: &mut Core,
        warp: &mut Warp,
        function: &Function,
        inst: &Inst,
        mask: u32,
    ) {
        if inst.op == Op::BarWarp {
            drain(core, warp, mask);
            warp.clocks.meet(mask);
            self.meet_in_warp(warp, mask);
            return;
        }
        let mut registers = Registers { rows: &mut warp.rows, constants: &function.constants };
        match inst.op {
            Op::Shfl(shuffle) => shuffle_lanes(&mut registers, inst, shuffle, mask),
            Op::Vote(fold) => {
                let row = registers.get(inst.s[1]);
                let yes = |lane: usize| (row[lane] != 0) != inst.negated;
                let ballot =
                    lanes_of(mask).filter(|&lane| yes(lane)).fold(0, |all, l| all | 1u32 << l);
                let result = match fold {
                    Fold::All => u64::from(ballot == mask),
                    Fold::Any => u64::from(ballot != 0),
                    Fold::Uni => u64::from(ballot == mask || ballot == 0),
                    _ => ballot.into(),
                };
                lanes_of(mask).for_each(|lane| registers.set(inst.d[0], lane, result));
            }
            Op::Redux(fold) => {
                let row = registers.get(inst.s[1]);
                let values = lanes_of(mask).map(|lane| row[lane] as u32);
                let signed = inst.ty.is_signed();
                let result = values.reduce(|a, b| match fold {
                    Fold::Min if signed => (a as i32).min(b as i32) as u32,
                    Fold::Max if signed => (a as i32).max(b as i32) as u32,
                    Fold::Min => a.min(b),
                    Fold::Max => a.max(b),
                    Fold::And => a & b,
                    Fold::Or => a | b,
                    Fold::Xor => a ^ b,
                    _ => a.wrapping_add(b),
                });
                let result = u64::from(result.unwrap_or(0));
                lanes_of(mask).for_each(|lane| registers.set(inst.d[0], lane, result));
            }
            _ => unreachable!("no operation of a warp"),
        }
    }

    fn meet_in_warp(&self, warp: &mut Warp, mask: u32) {
        let Some(orders) = &mut warp.orders else { return };
        let span = self.shape.span();
        let mut common = Order::default();
        for lane in lanes_of(mask) {
            common.meet(&orders[lane], span);
        }
        for lane in lanes_of(mask) {
            orders[lane].known.clone_from(&common.known);
            orders[lane].released.clone_from(&common.released);
            orders[lane].released_in_block.clone_from(&common.released_in_block);
        }
    }

    /// Says why the lanes of a warp wait for each other for ever, if they do: each waits, and some
    /// wait for lanes that wait elsewhere.
    pub fn check_warp(&mut self, core: &Core, warp: &Warp) -> Result<(), Stop> {
        let waiting = warp.waiting & warp.live;
        if warp.running() != 0 || waiting == 0 {
            return Ok(());
        }
        let module = Arc::clone(&self.module);
        let code = &module.functions[self.function].code;
        let lane = waiting.trailing_zeros() as usize;
        let inst = &code[warp.pc[lane] as usize];
        let other = lanes_of(warp.live).find(|&other| warp.pc[other] != warp.pc[lane]);
        let text = || match other {
            Some(other) => format!(
                "the lane waits for lanes of its mask, but lane {other} waits at PTX line {}",
                code[warp.pc[other] as usize].line
            ),
            None => "the lanes wait with different masks, or for lanes that have ended".to_owned(),
        };
        let fault = if warp.blocked != 0 { Fault::Barrier } else { Fault::Mask };
        self.report(fault, core, warp, lane, inst, text)
    }

    /// Says why a block, none of whose threads can go on, waits for ever.
    pub fn stuck(&mut self, block: &Block) -> Result<(), Stop> {
        let Some(warp) = block.warps.iter().find(|warp| warp.blocked != 0) else { return Ok(()) };
        let lane = warp.blocked.trailing_zeros() as usize;
        let inst = self.function().code[warp.pc[lane] as usize];
        let text = || "the block's other threads never come to this barrier".to_owned();
        self.report(Fault::Barrier, &block.core, warp, lane, &inst, text)
    }
}

fn shuffle_lanes(registers: &mut Registers, inst: &Inst, shuffle: Shuffle, mask: u32) {
    let [a, b, c] = [1, 2, 3].map(|i| registers.get(inst.s[i]));
    for lane in lanes_of(mask) {
        let (by, clamp, segment) =
            (b[lane] as usize & 31, c[lane] as usize & 31, c[lane] as usize >> 8 & 31);
        let first = lane & segment;
        let last = first | clamp & !segment;
        let (from, inside) = match shuffle {
            Shuffle::Up => (lane.wrapping_sub(by), lane as isize - by as isize >= last as isize),
            Shuffle::Down => (lane + by, lane + by <= last),
            Shuffle::Bfly => (lane ^ by, lane ^ by <= last),
            Shuffle::Idx => (first | by & !segment, first | by & !segment <= last),
        };
        let from = if inside { from } else { lane };
        let value = if mask >> from & 1 == 1 { a[from] } else { NOBODY };
        registers.set(inst.d[0], lane, value);
        registers.set(inst.d[1], lane, inside.into());
    }
}
