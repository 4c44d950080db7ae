//! Counts what a launch executes and moves: instructions of threads and warps, issue slots, sectors
//! of global memory, wavefronts of shared memory. The counts have no noise, so that they are the
//! performance test of kernels where no GPU is.

use super::inst::*;
use std::collections::HashMap;

/// Bytes of a sector, the unit in which caches and DRAM move global memory.
const SECTOR: u64 = 32;
/// Number of banks of shared memory; a bank serves one word of 4 bytes per wavefront.
const BANKS: usize = 32;

/// The totals of one launch, or of all launches of a kernel.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of launches.
    pub launches: u64,
    /// Number of blocks.
    pub blocks: u64,
    /// Instructions of PTX, once per thread that runs them.
    pub threads: u64,
    /// Instructions of PTX, once per group of lanes of a warp that runs them together.
    pub warps: u64,
    /// As `warps`, each instruction with the weight of [`slots`], in tenths.
    pub slots: u64,
    /// Sectors that a launch reads before it has written them, each once: what DRAM gives if all
    /// later reads hit the L2 cache.
    pub read: u64,
    /// Sectors that a launch writes, each once.
    pub written: u64,
    /// Sectors that the accesses of warps ask for, each once per access: the traffic of the L2 cache
    /// if the L1 cache never hits.
    pub requested: u64,
    /// Wavefronts of shared memory: passes of its banks, so that a conflict of banks adds one.
    pub wavefronts: u64,
    /// The slots of the kernel's text, each instruction once, in tenths; not a sum over launches.
    pub text: u64,
}

impl Counts {
    /// Adds the totals of a launch.
    pub fn add(&mut self, launch: &Self) {
        self.launches += launch.launches;
        self.blocks += launch.blocks;
        self.threads += launch.threads;
        self.warps += launch.warps;
        self.slots += launch.slots;
        self.read += launch.read;
        self.written += launch.written;
        self.requested += launch.requested;
        self.wavefronts += launch.wavefronts;
        self.text = launch.text;
    }
}

/// The counter of a launch.
#[derive(Debug, Default)]
pub struct Counter {
    /// The totals so far.
    pub counts: Counts,
    /// The slots of each instruction of the kernel.
    slots: Vec<u16>,
    /// The sectors that the launch has read or written, by their 4096-byte pages: a bit per sector,
    /// of those read and of those written.
    pages: HashMap<u64, [u128; 2]>,
}

impl Counter {
    /// Makes a counter for a launch of a kernel.
    pub fn new(code: &[Inst], blocks: u64) -> Self {
        let slots: Vec<u16> = code.iter().map(slots).collect();
        let text = slots.iter().map(|&slots| u64::from(slots)).sum();
        let counts = Counts { launches: 1, blocks, text, ..Counts::default() };
        Self { counts, slots, pages: HashMap::new() }
    }

    /// Counts an instruction that the lanes of `mask` run.
    #[inline]
    pub fn execute(&mut self, pc: u32, mask: u32) {
        self.counts.threads += u64::from(mask.count_ones());
        self.counts.warps += 1;
        self.counts.slots += u64::from(self.slots[pc as usize]);
    }

    /// Counts an access to global memory at these addresses.
    pub fn global(&mut self, inst: &Inst, addresses: &[u64]) {
        let mut sectors = [0; LANES];
        let mut count = 0;
        for &address in addresses {
            let sector = address / SECTOR;
            if !sectors[..count].contains(&sector) {
                sectors[count] = sector;
                count += 1;
            }
        }
        self.counts.requested += count as u64;
        for &sector in &sectors[..count] {
            let [read, written] = self.pages.entry(sector / 128).or_default();
            let bit = 1 << (sector % 128);
            if inst.op != Op::St && (*read | *written) & bit == 0 {
                *read |= bit;
                self.counts.read += 1;
            }
            if inst.op != Op::Ld && *written & bit == 0 {
                *written |= bit;
                self.counts.written += 1;
            }
        }
    }

    /// Counts an access to shared memory; `lanes` are the lanes with their offsets. Accesses of 8 and
    /// 16 bytes are served for a half and a quarter of the warp at a time.
    pub fn shared(&mut self, inst: &Inst, lanes: &[(usize, u64)]) {
        let bytes = u64::from(inst.ty.bytes() * inst.vector);
        let group = (LANES * 4 / bytes.max(4) as usize).max(1);
        for first in (0..LANES).step_by(group) {
            let mut words = [[0; LANES]; BANKS];
            let mut count = [0; BANKS];
            for &(_, offset) in lanes.iter().filter(|(lane, _)| lane / group * group == first) {
                for word in offset / 4..(offset + bytes).div_ceil(4) {
                    let bank = (word % BANKS as u64) as usize;
                    let seen = &words[bank][..count[bank]];
                    // Lanes that read or write one word share a pass; atomics do not.
                    if matches!(inst.op, Op::Atom(_)) || !seen.contains(&word) {
                        words[bank][count[bank]] = word;
                        count[bank] += 1;
                    }
                }
            }
            self.counts.wavefronts += count.into_iter().max().unwrap_or(0) as u64;
        }
    }
}

/// Returns the issue slots that an instruction takes as machine code (SASS), in tenths of one
/// instruction of 32 bits. A slot is one instruction of a scheduler; instructions that run at half
/// the rate of FP32 additions take two. The weights are the lengths of the sequences that NVIDIA's
/// compilers make for sm_80 and sm_90; moves, address spaces and parameters mostly vanish.
pub fn slots(inst: &Inst) -> u16 {
    let wide = inst.ty.bytes() == 8;
    let double = inst.ty == Ty::F64;
    match inst.op {
        Op::Mov | Op::Pack | Op::Unpack | Op::Cvta(_) | Op::Activemask => 0,
        Op::Ld if matches!(inst.space, Space::Param | Space::Const) => 0,
        Op::And | Op::Or | Op::Xor | Op::Not if inst.ty == Ty::Pred => 5,
        Op::Neg | Op::Abs if inst.ty.is_float() => 0,
        Op::Cvt(from, _) if from == Ty::F64 || double => 40,
        Op::Cvt(from, _) if from.is_float() || inst.ty.is_float() => 10,
        Op::Cvt(from, _) if from.bytes() >= 4 && inst.ty.bytes() >= 4 => 0,
        Op::Div | Op::Rem if double => 300,
        Op::Div | Op::Rem if inst.ty == Ty::F32 => 100,
        Op::Div | Op::Rem if wide => 800,
        Op::Div | Op::Rem => 180,
        Op::Rcp | Op::Sqrt if double => 240,
        Op::Rcp | Op::Sqrt => 80,
        Op::Setp(..) | Op::Selp | Op::Add | Op::Sub | Op::Min | Op::Max if wide => 20,
        Op::MulLo | Op::MadLo if wide && !double => 40,
        Op::MulHi if wide => 80,
        Op::MulLo | Op::Fma if double => 20,
        Op::And | Op::Or | Op::Xor | Op::Not | Op::Neg | Op::Abs if wide => 20,
        Op::Shl | Op::Shr if wide => 30,
        Op::Popc | Op::Clz | Op::Bfind(_) | Op::Brev if wide => 40,
        Op::Clz | Op::Redux(_) => 20,
        Op::Bfi => 30,
        Op::Fence | Op::FenceBlock => 40,
        _ => 10,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inst(op: Op, ty: Ty, vector: u32) -> Inst {
        Inst {
            op,
            ty,
            guard: NONE,
            negated: false,
            d: [NONE; 4],
            s: [NONE; 5],
            offset: 0,
            target: 0,
            vector,
            space: Space::Shared,
            volatile: false,
            line: 1,
            source: (0, 0),
        }
    }

    #[test]
    fn a_sector_is_counted_once_per_access_and_once_per_launch() {
        let (load, store) = (inst(Op::Ld, Ty::F32, 1), inst(Op::St, Ty::F32, 1));
        let mut counter = Counter::default();
        let near: Vec<u64> = (0..32).map(|lane| 4096 + 4 * lane).collect();
        let far: Vec<u64> = (0..32).map(|lane| 4096 + 64 * lane).collect();
        counter.global(&load, &near);
        counter.global(&load, &far);
        let counts = counter.counts;
        // 4 sectors, then 32, of which the first access had two.
        assert_eq!((counts.requested, counts.read, counts.written), (36, 34, 0));
        counter.global(&store, &[8192, 8196]);
        counter.global(&load, &[8192]);
        let counts = counter.counts;
        assert_eq!((counts.requested, counts.read, counts.written), (38, 34, 1));
    }

    #[test]
    fn a_conflict_of_banks_adds_a_wavefront() {
        let passes = |op, ty, vector, stride| {
            let mut counter = Counter::default();
            let lanes: Vec<(usize, u64)> =
                (0..32).map(|lane| (lane, lane as u64 * stride)).collect();
            counter.shared(&inst(op, ty, vector), &lanes);
            counter.counts.wavefronts
        };
        assert_eq!(passes(Op::Ld, Ty::F32, 1, 4), 1);
        assert_eq!(passes(Op::Ld, Ty::F32, 1, 8), 2);
        assert_eq!(passes(Op::St, Ty::F32, 1, 128), 32);
        assert_eq!(passes(Op::Ld, Ty::F32, 1, 0), 1);
        assert_eq!(passes(Op::Atom(Atom::Add), Ty::U32, 1, 0), 32);
        assert_eq!(passes(Op::Ld, Ty::F64, 1, 8), 2);
        assert_eq!(passes(Op::Ld, Ty::F32, 4, 16), 4);
    }
}
