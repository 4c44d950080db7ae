#!/usr/bin/env python3
"""roofline.py: predicted speeds of the kernels from the counts in benches/results/kernel-counts.txt,
as benches/results/roofline.md. `make roofline` writes the file. Nothing here was measured."""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Multiprocessors, clock under load in GHz, peak of DRAM in GB/s. Clocks: A100 its boost clock; the others
# do not hold their 1.98 GHz under load, so 1.70 is assumed.
MACHINES = {
    "A100-80": (108, 1.41, 2039),
    "H100": (132, 1.70, 3352),
    "H200": (132, 1.70, 4800),
    "GH200": (132, 1.70, 4000),
}
DRAM = 0.90  # of the peak, which large copies reach
ISSUE = 0.60  # of the issue slots: 4 per multiprocessor and clock, each for 32 lanes
SHARED = 0.60  # of the wavefronts of shared memory: 1 per multiprocessor and clock
LAUNCH = 2e-6  # seconds between two kernels of a stream
SECTOR = 32  # bytes
# dct tries both sizes of tiles on a sample: of 1/32 of a large field, of 1/4 of the field that was counted.
SAMPLE = (1 + 2 / 32) / (1 + 2 / 4)
CORRELATE = 24  # bytes per cell of the kernel `correlate`: reads two fields, reads and writes two images


def table():
    """The rows of the table: a tuple of words and a dictionary of figures."""
    rows = []
    for line in (ROOT / "benches/results/kernel-counts.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            key, figures = line.split(":")
            rows.append((tuple(key.split()), {k: float(v) for k, v in (f.split("=") for f in figures.split())}))
    return rows


def limits(figures, machine):
    """Seconds per value of the three limits of a kernel."""
    multiprocessors, clock, dram = MACHINES[machine]
    rate = multiprocessors * clock * 1e9
    return {
        "DRAM": SECTOR * (figures["read"] + figures["written"]) / (DRAM * dram * 1e9),
        "issue": figures["slots"] / (ISSUE * 4 * 32 * rate),
        "shared": figures["wavefronts"] / (SHARED * 32 * rate),
    }


def kernels(codec, work, kind, rank, bound):
    """The figures of the kernels of a codec, per value of a large field."""
    key = ("kernel", codec, work, kind, str(rank), bound)
    parts = {words[6]: figures for words, figures in table() if words[:6] == key}
    if codec == "dct" and rank > 1 and "dct_encode" in parts:
        parts["dct_encode"] = {name: value if name == "launches" else SAMPLE * value for name, value in parts["dct_encode"].items()}
    return parts


def seconds(codec, work, kind, rank, bound, machine, values):
    """Predicted seconds to code a field of `values` values."""
    parts = kernels(codec, work, kind, rank, bound).values()
    return sum(max(limits(part, machine).values()) * values + part["launches"] * LAUNCH for part in parts)


def speed(codec, work, kind, rank, bound, machine, values=512**3):
    """Predicted GB/s of uncompressed values."""
    size = {"f32": 4, "f64": 8}[kind]
    return size * values / seconds(codec, work, kind, rank, bound, machine, values) / 1e9


def ratio(codec, kind, rank, bound):
    size = {"f32": 4, "f64": 8}[kind]
    return next(size / figures["bytes"] for words, figures in table()
                if words == ("stream", codec, "bytes", kind, str(rank), bound))


def quality():
    """PSNR in dB of the fields that were counted, by codec, type, dimensions and bound."""
    found = {}
    for line in (ROOT / "benches/results/quality.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            key, figures = line.split(":")
            found[tuple(key.split())] = float(figures.split()[0])
    return found


def cases():
    """Codecs and bounds in the order of the table. With a PSNR, dct makes more passes over a large field
    than over the one that was counted."""
    all_cases = dict.fromkeys((words[1], words[5]) for words, _ in table() if words[0] == "stream")
    return [case for case in all_cases if not case[1].endswith("dB")]


def step(machine, cells):
    """Predicted seconds of a forward and of a backward step of rtm3d_cuda on `cells` cells."""
    [part] = kernels("rtm3d", "step", "f32", 3, "-").values()
    forward = max(limits(part, machine).values()) * cells
    return forward, forward + CORRELATE * cells / (DRAM * MACHINES[machine][2] * 1e9)


def row(*cells):
    return "| " + " | ".join(str(cell) for cell in cells) + " |\n"


def three(number):
    return f"{float(f'{number:.2g}'):,.0f}"


def page():
    out = HEAD
    out += row("", *MACHINES) + row(*["---"] * (1 + len(MACHINES)))
    out += row("multiprocessors", *(m[0] for m in MACHINES.values()))
    out += row("clock, GHz", *(f"{m[1]:.2f}" for m in MACHINES.values()))
    out += row("DRAM peak, GB/s", *(f"{m[2]:,}" for m in MACHINES.values()))
    out += FORMULA
    psnr = quality()
    for kind, rank in (("f32", 3), ("f64", 3), ("f32", 2), ("f32", 1)):
        out += f"\n{'FP32' if kind == 'f32' else 'FP64'} fields of 512^3 values in {rank} dimension{'s' if rank > 1 else ''}, GB/s, *predicted*:\n\n"
        out += row("codec", "bound", "ratio", "PSNR, dB", *MACHINES) + row(*["---"] * (4 + len(MACHINES)))
        for codec, bound in cases():
            speeds = (f"{three(speed(codec, 'compress', kind, rank, bound, m))} / {three(speed(codec, 'decompress', kind, rank, bound, m))}" for m in MACHINES)
            out += row(codec, bound, f"{ratio(codec, kind, rank, bound):.1f}", f"{psnr[codec, kind, str(rank), bound]:.0f}", *speeds)
    out += KERNELS
    out += row("codec", "work", "kernel", "thread instructions", "slots", "bytes of DRAM", "wavefronts x 32", "limit", "share of the time") + row(*["---"] * 9)
    for codec, bound in cases():
        if bound not in ("1e-3", "-"):
            continue
        for work in ("compress", "decompress"):
            parts = kernels(codec, work, "f32", 3, bound)
            times = {name: max(limits(part, "H100").values()) for name, part in parts.items()}
            for name, part in parts.items():
                share = times[name] / sum(times.values())
                if share > 0.02:
                    limit = max(limits(part, "H100").items(), key=lambda item: item[1])[0]
                    out += row(codec, work, f"`{name}`", f"{part['thread']:.0f}", f"{part['slots']:.0f}",
                               f"{SECTOR * (part['read'] + part['written']):.1f}", f"{part['wavefronts']:.0f}", limit, f"{share:.0%}")
    out += STEPS
    out += row("", *MACHINES) + row(*["---"] * (1 + len(MACHINES)))
    cells = 512**3
    out += row("forward step", *(f"{cells / step(m, cells)[0] / 1e9:.0f}" for m in MACHINES))
    out += row("backward step", *(f"{cells / step(m, cells)[1] / 1e9:.0f}" for m in MACHINES))
    return out + PUBLISHED


HEAD = """# Speeds of the kernels, predicted from counts

No GPU has run these kernels. Every speed on this page is *predicted* from [exact counts](kernel-counts.txt) of what the
kernels execute and move. `make roofline` writes the page.

## The formula, the same for all kernels and GPUs

"""

FORMULA = f"""
The time of a kernel per value is the longest of three:

- DRAM: the bytes of the sectors that the launch reads and writes, each sector once, over {DRAM:.0%} of the peak;
- issue: the issue slots over {ISSUE:.0%} of the slots of the GPU, 4 per multiprocessor and clock, each for 32 lanes;
- shared memory: its wavefronts over {SHARED:.0%} of one per multiprocessor and clock.

The time of a codec is the sum over its kernels, and {LAUNCH * 1e6:.0f} us for each launch. Speeds are bytes of uncompressed values per
second. The weights of slots: an instruction of 32 bits 1; 64-bit additions, comparisons and logic 2, shifts 3, products 4; FP64
arithmetic 2 (it runs at half the rate), its conversions 4; divisions and roots 8 to 80; moves, address spaces, parameters and
widening 0 (`tests/cuda-emu/src/ptx/counts.rs` has all). The machine code for sm_90 has 0.98 instructions per slot (the geometric
mean over all kernels; 0.65 to 1.8).

Not in the formula: latency (the survey of the values keeps one load of 4 bytes per thread in flight, `dct` and `zfp` have few
warps), the limits of L1 and L2, the split between integer and floating-point units, waits of blocks for each other. It knows
neither what the efficiencies are on a real GPU nor how they differ between kernels: +-30 % at best.
`dct` first tries two sizes of tiles on a sample, a fourth of the counted field and 1/32 of a large one: its encoder's counts are
scaled to that. With a PSNR `dct` makes other passes over a large field than over the counted one, and is left out.

## Codecs

Compress / decompress. The fields that were counted: plane waves with 12 to 20 points per wavelength, a third at rest. The PSNR is
[measured](quality.txt) on these fields with the library's own codecs: 20 log10 of the range over the root mean square error. zfp has 8
bits per value. Codecs take the values from DRAM and leave the stream there; no link is involved.
"""

KERNELS = """
## Kernels

FP32 in 3-D, bound 1e-3, per value; limits and shares for an H100, *predicted*; kernels with 2 % of the time or less are left out.

"""

STEPS = """
## Steps of rtm3d_cuda

`step3` of `c-examples/rtm3d_cuda`, and for a backward step, which steps the adjoint field, also `correlate`, of which only the
bytes of DRAM are taken, 24 per point. Gpoint/s, *predicted*:

"""

PUBLISHED = """
## Published figures of other codecs

*Published* by others, measured on their data; no figure here is ours.

| codec | GPU | data | bound | ratio | compress | decompress | source |
| --- | --- | --- | --- | --- | --- | --- | --- |
| cuSZp2 | A100 | 9 data sets, means | several | | 332 GB/s | 513 GB/s | Huang, Di, Li and Cappello, SC24, [abstract](https://hgpu.org/?p=29746) |
| cuSZp3, plain, 3-D | A100 | FP32, `pressure_2000` of SDRBench's RTM, 1008 x 1008 x 352 | 1e-3 of the range | 28.2 | 418 | 879 | [README](https://github.com/szcompressor/cuSZp/blob/0035d3976d4346dda6baac30b196f2b2deeaade0/README.md) of its authors |
| cuSZp3, plain, 1-D | A100 | the same | 1e-3 of the range | 22.3 | 410 | 628 | the same |
| cuSZp3, outlier, 1-D | A100 | FP32, `xx` of HACC | 1e-4 of the range | 6.3 | 341 | 413 | the same |
| cuSZp3, outlier, 1-D | A100 | FP64, `acd-tst` | 1e-4 of the range | 13.7 | 553 | 550 | the same |
| cuZFP | A100 | FP32, `Pf48` of Hurricane ISABEL, 500 x 500 x 100 | not given | | about 180 GB/s | about 130 GB/s | a user's comment of 2023-09-20 in [LLNL/zfp#144](https://github.com/LLNL/zfp/issues/144) |
| cuZFP | V100 | the same | rate 1 | 32 | 200 GB/s | | the answer of zfp's author, the same |
| Bitcomp of nvCOMP 2.1 | A100, 40 GB | FP32, six columns of Fannie Mae's loan data of 2009 Q2 | lossless | 1.2 to 28 | 410 to 560 GB/s | 190 to 500 GB/s | charts of nvCOMP's repository: [ratio](https://github.com/NVIDIA/nvcomp/blob/0993107a7970e4df818dc57191a5f35209c9a685/doc/CompressionRatios.svg), [compression](https://github.com/NVIDIA/nvcomp/blob/0993107a7970e4df818dc57191a5f35209c9a685/doc/CompressionThroughput.svg), [decompression](https://github.com/NVIDIA/nvcomp/blob/f8ad353a2555bc7c3647f90f40a128bc878890f5/doc/DecompressionThroughput.svg) |

The README's numbers are called GB/s; the repository's [test programs](https://github.com/szcompressor/cuSZp/blob/04799de1f9aaf46f619ff70864faa2f42bac23a0/examples/cuSZp_test_f32_3D.cpp)
compute them as MiB per ms, 1.05 GB/s each. Data, bounds and ratios are not those of this page. cuSZp is one kernel and is given its
bound as a number, while `cuszp` of this page surveys the values first (its bound is relative to the largest value), moves the
compressed bytes together and sums them up for a checksum. No published PSNR belongs to these rows. Bitcomp's figures are read off charts,
and its data are tables of loans, not wavefields. gpuzip's `bitcomp` calls NVIDIA's library, whose kernels are closed and cannot be
counted: this page predicts no speed of `bitcomp`.
"""

if __name__ == "__main__":
    text = page()
    if "--print" in sys.argv:
        print(text, end="")
    else:
        (ROOT / "benches/results/roofline.md").write_text(text)
