//! Runs a warp for a while: groups of lanes that are at the same instruction.

use super::access::Site;
use super::alu::Registers;
use super::block::{Core, Shape, Warp};
use super::clock::Given;
use super::counts::Counter;
use super::inst::*;
use super::memory::Memory;
use super::module::{Function, Module};
use super::races::Cells;
use super::report::{Fault, Report};
use crate::rng::Rng;
use std::collections::HashMap;
use std::sync::Arc;

/// The launch ends here: its reports say why.
#[derive(Debug)]
pub struct Stop;

/// What a launch has beside its blocks.
pub struct Context {
    /// The module.
    pub module: Arc<Module>,
    /// Number of the kernel in the module.
    pub function: usize,
    /// The arguments, as the kernel's parameters lie in memory.
    pub parameters: Vec<u8>,
    /// The shape of the launch.
    pub shape: Shape,
    /// The device on which the kernel runs.
    pub device: usize,
    /// The launch's own random numbers.
    pub rng: Rng,
    /// How groups of lanes are chosen.
    pub choice: Choice,
    /// Whether plain stores wait.
    pub delays: bool,
    /// The last accesses of global memory.
    pub cells: Cells,
    /// What words of global memory give to their readers.
    pub given: HashMap<u64, Given>,
    /// For each instruction, the allocation that it accessed last.
    pub recent: Vec<usize>,
    /// The errors, each pair of instructions once.
    pub reports: Vec<Report>,
    /// Number of instructions of threads that have run.
    pub executed: u64,
    /// Counts what the launch does, if asked for.
    pub counter: Option<Box<Counter>>,
    /// The value of `executed` at the last event that brings the launch forward: a store, an atomic
    /// that changes memory, a barrier, the end of a thread.
    pub progress: u64,
}

/// How a group of lanes is chosen among those that can go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Mostly those that are furthest behind, which brings lanes together again.
    Behind,
    /// Mostly those that are furthest ahead.
    Ahead,
    /// As `Behind`, more often any lane, and sometimes only some lanes of a group.
    Random,
    /// Always those that are furthest behind.
    Steady,
}

impl Context {
    /// Returns the kernel.
    pub fn function(&self) -> &Function {
        &self.module.functions[self.function]
    }

    /// Adds a report about a lane at an instruction. Fails if the launch must end.
    pub fn report(
        &mut self,
        fault: Fault,
        core: &Core,
        warp: &Warp,
        lane: usize,
        inst: &Inst,
        what: impl FnOnce() -> String,
    ) -> Result<(), Stop> {
        let known = self.reports.iter().any(|old| old.fault == fault && old.line == inst.line);
        if !known && self.reports.len() < 100 {
            let source = self.source(inst);
            self.reports.push(Report {
                fault,
                kernel: self.function().name.clone(),
                block: core.at,
                thread: warp.first + lane as u32,
                line: inst.line,
                source,
                what: what(),
            });
        }
        if fault.can_go_on() {
            Ok(())
        } else {
            Err(Stop)
        }
    }

    /// Returns file and line of the source of an instruction.
    pub fn source(&self, inst: &Inst) -> Option<(String, u32)> {
        let (file, line) = inst.source;
        self.module.files.get(&file).map(|name| (name.clone(), line))
    }

    /// Chooses the lanes that run next: their instruction, their mask, and the instruction at which
    /// other lanes wait to be taken along.
    fn group(&mut self, warp: &Warp) -> (u32, u32, u32) {
        let running = warp.running();
        let lanes = || (0..LANES).filter(|lane| running >> lane & 1 == 1);
        let behind = lanes().map(|lane| warp.pc[lane]).min().unwrap_or(0);
        let ahead = lanes().map(|lane| warp.pc[lane]).max().unwrap_or(0);
        if behind == ahead {
            let mut mask = running;
            if self.choice == Choice::Random && self.rng.below(32) == 0 {
                mask = running & self.rng.next() as u32;
                if mask == 0 {
                    mask = running;
                }
            }
            return (behind, mask, if mask == running { u32::MAX } else { behind });
        }
        let draw = self.rng.below(16);
        let any = || {
            let nth = draw as u32 * 7 % running.count_ones();
            lanes().nth(nth as usize).map_or(behind, |lane| warp.pc[lane])
        };
        let pc = match self.choice {
            Choice::Behind if draw > 0 => behind,
            Choice::Steady => behind,
            Choice::Ahead if draw > 1 => ahead,
            Choice::Random if draw > 3 => behind,
            _ => any(),
        };
        let mask =
            lanes().filter(|&lane| warp.pc[lane] == pc).fold(0, |mask, lane| mask | 1 << lane);
        let limit = lanes().map(|lane| warp.pc[lane]).filter(|&at| at > pc).min();
        (pc, mask, limit.unwrap_or(u32::MAX))
    }

    /// Runs up to `turns` instructions of a warp that can go on.
    pub fn run(
        &mut self,
        core: &mut Core,
        warp: &mut Warp,
        memory: &mut Memory,
        turns: u32,
    ) -> Result<(), Stop> {
        let module = Arc::clone(&self.module);
        let function = &module.functions[self.function];
        let (mut pc, mut mask, mut limit) = self.group(warp);
        let mut begun = true;
        for _ in 0..turns {
            if pc >= limit && !begun {
                keep(warp, mask, pc);
                (pc, mask, limit) = self.group(warp);
            }
            begun = false;
            let inst = &function.code[pc as usize];
            self.executed += u64::from(mask.count_ones());
            if let Some(counter) = &mut self.counter {
                counter.execute(pc, mask);
            }
            let mut active = mask;
            let mut registers = Registers { rows: &mut warp.rows, constants: &function.constants };
            if inst.guard != NONE {
                active = registers.lanes_where(inst.guard, mask);
                if inst.negated {
                    active = mask & !active;
                }
            }
            match inst.op {
                Op::Bra if active == mask => pc = inst.target,
                Op::Bra if active == 0 => pc += 1,
                Op::Bra => {
                    keep(warp, active, inst.target);
                    keep(warp, mask & !active, pc + 1);
                    (pc, mask, limit) = self.group(warp);
                    begun = true;
                }
                _ if active == 0 => pc += 1,
                Op::Ld | Op::St | Op::Atom(_) => {
                    self.access(&mut Site { core, warp, memory, pc, inst }, active)?;
                    pc += 1;
                }
                Op::Activemask => {
                    for lane in lanes_of(active) {
                        registers.set(inst.d[0], lane, active.into());
                    }
                    pc += 1;
                }
                Op::Fence | Op::FenceBlock => {
                    self.fence(core, warp, active, inst.op == Op::Fence);
                    pc += 1;
                }
                Op::Nanosleep => {
                    keep(warp, mask, pc + 1);
                    return Ok(());
                }
                Op::Trap => {
                    let lane = active.trailing_zeros() as usize;
                    let text = || "the kernel gives up".to_owned();
                    return self.report(Fault::Trap, core, warp, lane, inst, text);
                }
                Op::Ret
                | Op::BarSync
                | Op::BarRed(_)
                | Op::BarWarp
                | Op::Shfl(_)
                | Op::Vote(_)
                | Op::Redux(_) => {
                    keep(warp, mask & !active, pc + 1);
                    keep(warp, active, pc);
                    match inst.op {
                        Op::Ret => self.end(core, warp, active)?,
                        Op::BarSync | Op::BarRed(_) => self.arrive(core, warp, active, pc)?,
                        _ => self.collect(core, warp, function, active, pc)?,
                    }
                    if warp.running() == 0 {
                        return Ok(());
                    }
                    (pc, mask, limit) = self.group(warp);
                    begun = true;
                }
                _ => {
                    if !registers.execute(inst, active) {
                        let lane = active.trailing_zeros() as usize;
                        let text = || format!("{:?} of {:?} is not supported", inst.op, inst.ty);
                        return self.report(Fault::Unknown, core, warp, lane, inst, text);
                    }
                    pc += 1;
                }
            }
        }
        keep(warp, mask, pc);
        Ok(())
    }

    /// Ends the threads of lanes.
    fn end(&mut self, core: &mut Core, warp: &mut Warp, mask: u32) -> Result<(), Stop> {
        drain(core, warp, mask);
        warp.live &= !mask;
        core.live -= mask.count_ones();
        self.progress = self.executed;
        self.check_warp(core, warp)
    }
}

/// Returns the lanes in a mask.
pub fn lanes_of(mask: u32) -> impl Iterator<Item = usize> {
    (0..LANES).filter(move |lane| mask >> lane & 1 == 1)
}

fn keep(warp: &mut Warp, mask: u32, pc: u32) {
    for lane in lanes_of(mask) {
        warp.pc[lane] = pc;
    }
}

/// Makes the stores of lanes visible.
pub fn drain(core: &mut Core, warp: &mut Warp, mask: u32) {
    let Core { shared, .. } = core;
    warp.stores.drain(mask, |store| {
        super::access::write(shared, store.shared, store.address, store.bytes.into(), store.value)
    });
}
