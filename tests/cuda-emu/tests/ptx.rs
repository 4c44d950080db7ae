//! The interpreter of PTX: what each check finds, and what it does not report.

use cuda_emu::ptx::{Fault, Grid, Interleaving, Memory, Module, Report, Shape};
use std::sync::Arc;

const HEAD: &str = ".version 8.8\n.target sm_80\n.address_size 64\n.visible .entry f(\n.param .u64 f_0\n)\n{\n\
    .reg .pred %p<9>;\n.reg .b16 %h<9>;\n.reg .b32 %r<40>;\n.reg .f32 %f<9>;\n.reg .b64 %rd<20>;\n.reg .f64 %fd<9>;\n\
    .shared .align 16 .b8 s[1024];\nld.param.u64 %rd1, [f_0];\nmov.u32 %r1, %tid.x;\nmov.u32 %r2, %ctaid.x;\n\
    mul.wide.u32 %rd2, %r1, 4;\nadd.s64 %rd2, %rd1, %rd2;\nmov.u32 %r3, s;\nmad.lo.s32 %r4, %r1, 4, %r3;\n\
    setp.eq.s32 %p1, %r1, 0;\nsetp.eq.s32 %p2, %r2, 0;\n";

/// A launch of a body behind `HEAD`, whose registers hold: rd1 the address of the words, rd2 that of
/// the thread's own word, r1 the thread, r2 the block, r3 and r4 the offsets of shared memory and of
/// the thread's word in it, p1 and p2 whether thread and block are the first.
struct Run {
    body: String,
    blocks: u32,
    threads: u32,
    /// The words, or how many that are never written.
    words: Result<Vec<u32>, usize>,
}

impl Run {
    fn new(body: impl Into<String>, blocks: u32, threads: u32) -> Self {
        let body = body.into();
        Self { body, blocks, threads, words: Ok(vec![0; 256]) }
    }

    fn with(self, words: Result<Vec<u32>, usize>) -> Self {
        Self { words, ..self }
    }

    /// Runs the launch; returns the reports and the words.
    fn go(&self, order: Interleaving, seed: u64) -> (Vec<Report>, Vec<u32>) {
        let text = format!("{HEAD}{}\nret;\n}}\n", self.body);
        let module = Arc::new(Module::parse(&text).unwrap());
        let mut words = self.words.clone().unwrap_or_else(|count| vec![7; count]);
        let (base, size) = (words.as_mut_ptr() as u64, 4 * words.len() as u64);
        let mut memory = Memory::default();
        memory.add(base, size, Some(0));
        if self.words.is_ok() {
            memory.write(base, size);
        }
        let shape = Shape { grid: [self.blocks, 1, 1], block: [self.threads, 1, 1], shared: 1024 };
        let parameters = base.to_le_bytes().to_vec();
        let mut grid = Grid::new(module, 0, parameters, shape, 0, order, seed);
        while !grid.run(&mut memory, 1000) {}
        (grid.reports().to_vec(), words)
    }

    /// Runs the launch under many seeds; no check may report anything. Returns the words of each
    /// run.
    fn clean(&self) -> Vec<Vec<u32>> {
        (0..60)
            .map(|seed| {
                let (reports, words) = self.go(Interleaving::Any, seed);
                assert!(reports.is_empty(), "seed {seed}: {}", reports[0]);
                words
            })
            .collect()
    }

    /// Runs the launch under many seeds, of which some must report this fault and none another.
    fn faulty(&self, fault: Fault) -> Report {
        let mut found = None;
        for seed in 0..60 {
            for report in self.go(Interleaving::Any, seed).0 {
                assert_eq!(report.fault, fault, "seed {seed}: {report}");
                found = Some(report);
            }
        }
        found.unwrap_or_else(|| panic!("no seed finds {fault:?}"))
    }
}

#[test]
fn arithmetic_has_the_results_of_ptx() {
    // Each line computes %r9; the expected value stands behind the line.
    let lines = [
        ("mov.u32 %r5, 0x80000001;\nshl.b32 %r9, %r5, 32;", 0),
        ("mov.u32 %r5, 0x80000001;\nshr.s32 %r9, %r5, 99;", u32::MAX),
        ("mov.u32 %r5, 0x80000001;\nshf.r.wrap.b32 %r9, %r5, 3, 33;", 0xC000_0000),
        ("mov.u32 %r5, 0x80000001;\nshf.l.wrap.b32 %r9, %r5, 3, 1;", 7),
        ("mov.u32 %r5, 0x84218421;\nprmt.b32 %r9, %r5, 17, 0xB410;", 0xFF11_8421),
        ("bfi.b32 %r9, 0xF, 0x100, 4, 2;", 0x130),
        ("bfind.shiftamt.u32 %r9, 0x10;", 27),
        ("bfind.u32 %r9, 0;", u32::MAX),
        ("brev.b32 %r9, 1;", 1 << 31),
        ("clz.b32 %r9, 0;", 32),
        ("popc.b32 %r9, 0xF0F;", 8),
        ("mul.hi.u32 %r9, 0x80000000, 6;", 3),
        ("mul.hi.s32 %r9, -1, 5;", u32::MAX),
        ("div.u32 %r9, 17, 5;", 3),
        ("rem.s32 %r9, -17, 5;", -2i32 as u32),
        ("mov.f32 %f1, 0f7FC00000;\ncvt.rzi.s32.f32 %r9, %f1;", 0),
        ("mov.f64 %fd1, 0d7FF8000000000000;\ncvt.rzi.s32.f64 %r9, %fd1;", 1 << 31),
        ("mov.f32 %f1, 0fCF800000;\ncvt.rzi.s32.f32 %r9, %f1;", 1 << 31),
        ("mov.f32 %f1, 0f40200000;\ncvt.rni.s32.f32 %r9, %f1;", 2),
        ("mov.f32 %f1, 0fBF000000;\ncvt.rmi.s32.f32 %r9, %f1;", u32::MAX),
        ("cvt.rn.f32.s32 %f1, 16777217;\nmov.b32 %r9, %f1;", 0x4B80_0000),
        ("mov.f32 %f1, 0f80000000;\nmax.f32 %f2, %f1, 0f00000000;\nmov.b32 %r9, %f2;", 0),
        ("mov.f32 %f1, 0f7FC12345;\nadd.rn.f32 %f2, %f1, %f1;\nmov.b32 %r9, %f2;", 0x7FFF_FFFF),
        ("mov.f32 %f1, 0f7FC12345;\nmin.f32 %f2, %f1, 0f3F800000;\nmov.b32 %r9, %f2;", 0x3F80_0000),
        ("mov.f32 %f1, 0f7FC12345;\nsetp.ltu.f32 %p3, %f1, %f1;\nselp.u32 %r9, 5, 6, %p3;", 5),
        ("mov.f32 %f1, 0f7FC12345;\nsetp.neu.f32 %p3, %f1, %f1;\nselp.u32 %r9, 5, 6, %p3;", 5),
        ("mov.f32 %f1, 0f7FC12345;\nsetp.ne.f32 %p3, %f1, %f1;\nselp.u32 %r9, 5, 6, %p3;", 6),
        ("mov.u32 %r5, 200;\ncvt.s32.s8 %r9, %r5;", -56i32 as u32),
        ("mov.b64 %rd5, {%r1, 7};\nmov.b64 {%r6, %r9}, %rd5;", 7),
        ("fma.rn.f32 %f1, 0f3F800001, 0f3F800001, 0fBF800002;\nmov.b32 %r9, %f1;", 0x2880_0000),
        ("setp.lt.s32 %p3, -1, 1;\nselp.u32 %r9, 5, 6, %p3;", 5),
        ("setp.lt.u32 %p3, -1, 1;\nselp.u32 %r9, 5, 6, %p3;", 6),
        ("mov.u32 %r5, 77;\n@!%p1 mov.u32 %r5, 78;\nmov.u32 %r9, %r5;", 77),
        ("st.global.u32 [%rd2], 0x80000001;\nld.global.s32 %rd5, [%rd2];\nshr.u64 %rd5, %rd5, 4;\ncvt.u32.u64 %r9, %rd5;", 0xF800_0000),
        ("st.global.u32 [%rd2], 0x80000001;\nld.global.u32 %rd5, [%rd2];\nshr.u64 %rd5, %rd5, 4;\ncvt.u32.u64 %r9, %rd5;", 0x0800_0000),
        ("redux.sync.add.u32 %r9, 2, 0x1;", 2),
        ("shfl.sync.idx.b32 %r9|%p3, %r1, 5, 31, 0x1;", 0xA5A5_A5A5),
    ];
    for (code, expected) in lines {
        let body = format!("@!%p1 bra $end;\n{code}\nst.global.u32 [%rd2], %r9;\n$end:");
        for words in Run::new(body, 1, 32).clean() {
            assert_eq!(words[0], expected, "{code}: {:#x}", words[0]);
        }
    }
}

#[test]
fn lanes_exchange_values() {
    let body = "shfl.sync.up.b32 %r5|%p3, %r1, 1, 0, -1;\nshfl.sync.bfly.b32 %r6, %r1, 16, 31, -1;\n\
        shfl.sync.down.b32 %r7|%p4, %r1, 2, 0x181F, -1;\nselp.u32 %r8, 1, 0, %p4;\n\
        setp.gt.u32 %p5, %r1, 29;\nvote.sync.ballot.b32 %r9, %p5, -1;\n\
        mad.lo.s32 %r5, %r6, 100, %r5;\nmad.lo.s32 %r5, %r7, 10000, %r5;\nmad.lo.s32 %r5, %r8, 1000000, %r5;\n\
        shr.u32 %r9, %r9, 30;\nmad.lo.s32 %r5, %r9, 2000000, %r5;\nst.global.u32 [%rd2], %r5;";
    for words in Run::new(body, 1, 32).clean() {
        for lane in 0..32u32 {
            let (up, across) = (lane.saturating_sub(1), lane ^ 16);
            let inside = lane % 8 + 2 < 8;
            let down = if inside { lane + 2 } else { lane };
            let expected =
                up + 100 * across + 10_000 * down + 1_000_000 * inside as u32 + 6_000_000;
            assert_eq!(words[lane as usize], expected, "lane {lane}");
        }
    }
}

#[test]
fn bounds_and_alignment() {
    let report = Run::new("st.global.u32 [%rd2+1024], %r1;", 1, 1).faulty(Fault::Bounds);
    assert_eq!(
        (report.line, report.thread, report.kernel.as_str()),
        (HEAD.lines().count() as u32 + 1, 0, "f")
    );
    Run::new("ld.global.u32 %r5, [%rd2+-4];", 1, 1).faulty(Fault::Bounds);
    Run::new("st.shared.u32 [%r3+1024], %r1;", 1, 1).faulty(Fault::Bounds);
    Run::new("ld.global.u32 %r5, [%rd2+2];", 1, 1).faulty(Fault::Alignment);
    Run::new("ld.global.v4.u32 {%r5, %r6, %r7, %r8}, [%rd1+8];", 1, 1).faulty(Fault::Alignment);
    // A generic address may be one of shared memory.
    let body = "cvt.u64.u32 %rd5, %r4;\ncvta.shared.u64 %rd5, %rd5;\nst.u32 [%rd5], %r1;\nld.u32 %r5, [%rd5];\nst.u32 [%rd2], %r5;";
    assert!(Run::new(body, 1, 32).clean().iter().all(|words| words[9] == 9));
}

#[test]
fn memory_must_be_written_before_it_is_read() {
    Run::new("ld.shared.u32 %r5, [%r4];", 1, 1).faulty(Fault::Uninitialised);
    Run::new("ld.global.u32 %r5, [%rd2];", 1, 1).with(Err(4)).faulty(Fault::Uninitialised);
    let body = "st.global.u32 [%rd2], 3;\nld.global.u8 %r5, [%rd2+3];\nst.shared.u16 [%r4], 3;\nld.shared.u16 %r5, [%r4];";
    Run::new(body, 1, 1).with(Err(4)).clean();
}

#[test]
fn races_in_a_block() {
    let exchange = "st.shared.u32 [%r4], %r1;\nSYNC\nxor.b32 %r5, %r1, 33;\nmad.lo.s32 %r5, %r5, 4, %r3;\nld.shared.u32 %r6, [%r5];\nst.global.u32 [%rd2], %r6;";
    let with = |sync: &str| exchange.replace("SYNC", sync);
    for words in Run::new(with("bar.sync 0;"), 1, 64).clean() {
        assert_eq!(words[40], 40 ^ 33);
    }
    // Uninitialised or racing: a read may come before or behind the write.
    let faults = |body: String| {
        (0..60)
            .flat_map(|seed| Run::new(body.as_str(), 1, 64).go(Interleaving::Any, seed).0)
            .collect::<Vec<_>>()
    };
    assert!(faults(with("bar.warp.sync -1;")).iter().any(|report| report.fault == Fault::Race));
    // Within a warp, a barrier of the warp suffices; a shuffle does not.
    let near = "st.shared.u32 [%r4], %r1;\nSYNC\nxor.b32 %r5, %r1, 1;\nmad.lo.s32 %r5, %r5, 4, %r3;\nld.shared.u32 %r6, [%r5];\nst.global.u32 [%rd2], %r6;";
    let with = |sync: &str| near.replace("SYNC", sync);
    assert!(Run::new(with("bar.warp.sync -1;"), 1, 32).clean().iter().all(|words| words[5] == 4));
    let shuffle = faults(with("shfl.sync.idx.b32 %r9, %r1, 0, 31, -1;"));
    assert!(shuffle.iter().any(|report| report.fault == Fault::Race));
    // Other bytes of a word, the same value, and atomics are no races.
    Run::new("add.s32 %r5, %r3, %r1;\nst.shared.u8 [%r5], %r1;\nst.global.u32 [%rd1], 5;\natom.global.add.u32 %r6, [%rd1+8], 1;", 1, 64).clean();
    Run::new("st.global.u32 [%rd1], %r1;", 1, 64).faulty(Fault::Race);
    Run::new("atom.global.add.u32 %r6, [%rd1], 1;\nld.global.u32 %r5, [%rd1];", 1, 64)
        .faulty(Fault::Race);
}

/// A block hands a word to another block, by a flag.
const MESSAGE: &str = "@!%p2 bra $reader;\nst.global.u32 [%rd1], 5;\nRELEASE\nst.volatile.global.u32 [%rd1+4], 1;\nbra $end;\n\
    $reader: ld.volatile.global.u32 %r5, [%rd1+4];\nsetp.eq.s32 %p3, %r5, 0;\n@%p3 bra $end;\nACQUIRE\nld.global.u32 %r6, [%rd1];\nst.global.u32 [%rd1+8], %r6;\n$end:";

fn message(release: &str, acquire: &str) -> Run {
    let body = MESSAGE.replace("RELEASE", release).replace("ACQUIRE", acquire);
    Run::new(body, 2, 1)
}

#[test]
fn fences_order_blocks() {
    let all = message("membar.gl;", "membar.gl;").clean();
    assert!(all.iter().all(|words| words[2] == 5 || words[2] == 0));
    assert!(all.iter().any(|words| words[2] == 5), "no seed hands the word over");
    message("", "membar.gl;").faulty(Fault::Race);
    message("membar.gl;", "").faulty(Fault::Race);
    message("membar.cta;", "membar.gl;").faulty(Fault::Race);
    message("membar.gl;", "membar.cta;").faulty(Fault::Race);
    // A store behind the fence is not handed over.
    message("membar.gl;\nst.global.u32 [%rd1], 6;", "membar.gl;").faulty(Fault::Race);
    // Without the fence the other block may see the flag and not the word.
    let stale = (0..200).any(|seed| {
        let (_, words) = message("", "membar.gl;").go(Interleaving::Any, seed);
        words[1] == 1 && words[2] == 0 && words[0] == 5
    });
    assert!(stale);
}

#[test]
fn the_last_block_knows_the_others() {
    // Each thread writes its word; the last block by an atomic count sums up all.
    let body = "mad.lo.s32 %r5, %r2, 32, %r1;\nmul.wide.u32 %rd5, %r5, 4;\nadd.s64 %rd5, %rd1, %rd5;\nst.global.u32 [%rd5+64], %r5;\nRELEASE\nbar.sync 0;\n\
        @!%p1 bra $end;\natom.global.add.u32 %r6, [%rd1], 1;\nsetp.ne.s32 %p3, %r6, 2;\n@%p3 bra $end;\nACQUIRE\nst.global.u32 [%rd1], 0;\n\
        ld.global.u32 %r7, [%rd1+64];\nld.global.u32 %r8, [%rd1+444];\nadd.s32 %r7, %r7, %r8;\nst.global.u32 [%rd1+4], %r7;\n$end:";
    let with = |release: &str, acquire: &str| {
        let body = body.replace("RELEASE", release).replace("ACQUIRE", acquire);
        Run::new(body, 3, 32)
    };
    assert!(with("membar.gl;", "membar.gl;").clean().iter().all(|words| words[..2] == [0, 95]));
    with("", "membar.gl;").faulty(Fault::Race);
    with("membar.gl;", "").faulty(Fault::Race);
}

#[test]
fn barriers_and_masks() {
    Run::new("@%p1 bra $a;\nbar.sync 0;\nbra $end;\n$a: bar.sync 0;\n$end:", 1, 32)
        .faulty(Fault::Barrier);
    Run::new("@%p1 bra $end;\nshfl.sync.idx.b32 %r5, %r1, 0, 31, -1;\n$end: bar.sync 0;", 1, 32)
        .faulty(Fault::Barrier);
    Run::new("bar.warp.sync 1;", 1, 32).faulty(Fault::Mask);
    Run::new("@%p1 bra $end;\nbar.warp.sync -1;\n$end:", 1, 32).faulty(Fault::Mask);
    Run::new(
        "@%p1 bra $a;\nbar.warp.sync -1;\nbra $end;\n$a: vote.sync.any.pred %p4, %p1, -1;\n$end:",
        1,
        32,
    )
    .faulty(Fault::Mask);
    Run::new("@%p1 bra $a;\nbar.warp.sync -1;\nbra $end;\n$a: bar.warp.sync -1;\n$end:", 1, 32)
        .clean();
    let body = "setp.eq.s32 %p3, %r1, 50;\nbar.red.or.pred %p4, 0, %p3;\nselp.u32 %r5, 1, 0, %p4;\nst.global.u32 [%rd2], %r5;";
    assert!(Run::new(body, 1, 64).clean().iter().all(|words| words[..64].iter().all(|&w| w == 1)));
}

#[test]
fn a_wait_for_a_block_that_is_not_there_is_found() {
    // Block 0 waits for block 9, which may have to wait for room.
    let body = "@!%p2 bra $tell;\n$wait: ld.volatile.global.u32 %r5, [%rd1];\nsetp.eq.s32 %p3, %r5, 0;\n@%p3 bra $wait;\nbra $end;\n\
        $tell: setp.ne.s32 %p3, %r2, 9;\n@%p3 bra $end;\nst.volatile.global.u32 [%rd1], 1;\n$end:";
    let mut found = 0;
    for seed in 0..12 {
        let (reports, _) = Run::new(body, 10, 256).go(Interleaving::Any, seed);
        found += reports.iter().filter(|report| report.fault == Fault::Deadlock).count();
    }
    assert!((1..12).contains(&found), "{found}");
    // Two resident warps may wait for each other.
    let body = "setp.lt.u32 %p3, %r1, 32;\n@%p3 bra $wait;\nst.volatile.global.u32 [%rd1], 1;\nbra $end;\n\
        $wait: ld.volatile.global.u32 %r5, [%rd1];\nsetp.eq.s32 %p3, %r5, 0;\n@%p3 bra $wait;\n$end:";
    Run::new(body, 3, 64).clean();
    Run::new("trap;", 1, 32).faulty(Fault::Trap);
}

#[test]
fn a_seed_gives_one_run() {
    let body = "atom.global.add.u32 %r5, [%rd1], 1;\nst.global.u32 [%rd2+256], %r5;";
    let run = Run::new(body, 1, 64);
    let mut all: Vec<_> = (0..20).map(|seed| run.go(Interleaving::Random, seed).1).collect();
    assert_eq!(all[7], run.go(Interleaving::Random, 7).1);
    all.sort();
    all.dedup();
    assert!(all.len() > 10, "seeds give {} orders of 64 threads", all.len());
}
