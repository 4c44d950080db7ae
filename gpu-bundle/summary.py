#!/usr/bin/env python3
"""summary.py OUT: the results that run.sh left in OUT, as Markdown. A part that is missing or broken is left out."""
import json
import pathlib
import sys


def rows(path):
    """The objects of a .jsonl file; lines that were cut off are skipped."""
    result = []
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            result.append(json.loads(line))
        except ValueError:
            pass
    return result


def table(head, body):
    print("| " + " | ".join(head) + " |")
    print("|" + " --- |" * len(head))
    for row in body:
        print("| " + " | ".join(str(cell) for cell in row) + " |")
    print()


def stall_rows(runs):
    """One row per configuration; the speed-up is over the same plan's run without cache."""
    base = next((run["seconds"] for run in runs if run["cache"] == 0), None)
    for run in runs:
        seconds = run["seconds"]
        yield (
            run["algorithm"],
            run["snapshots"],
            run["cache"],
            run.get("configuration", run["policy"]) if run["cache"] else "synchronous",
            f"{seconds:.2f}",
            f"{run['stall']:.2f} ({100 * run['stall'] / seconds:.0f} %)",
            f"{run['h2d_bytes'] / 1e9:.0f}",
            f"{run['d2h_bytes'] / 1e9:.0f}",
            f"{base / seconds:.2f}" if base else "?",
            f"{seconds / run['ideal_of_plan']:.2f}",
            f"{seconds / run['ideal_of_problem']:.2f}",
            f"{run.get('ratio', 1):.1f}",
            f"{run['filtered_psnr']:.1f}" if "filtered_psnr" in run else "",
            f"{run.get('peak_device_bytes', 0) / 1e9:.1f}",
        )


def main(folder):
    print("# gpuzip on a GPU\n")
    device = folder / "device.log"
    if device.exists():
        print("```\n" + device.read_text().strip() + "\n```\n")
    verdicts = [row for path in sorted(folder.glob("*.json")) for row in rows(path) if "exit_code" in row]
    table(("part", "result", "seconds"),
          ((v["part"], {0: "ok", 77: "skipped", 124: "out of time"}.get(v["exit_code"], f"FAILED ({v['exit_code']})"), v["seconds"]) for v in verdicts))
    bench = rows(folder / "bench.jsonl")
    if bench:
        print("## Propagator and copies\n")
        table(("extent", "Gpoint/s", "GB/s", "copy on the device", "of it", "up", "down", "both ways"),
              ((f"{b['e1']}x{b['e2']}x{b['e3']}", b["gpoints_per_second"], b["gb_per_second"], b["copy_gb_per_second"],
                f"{100 * b['of_copy']:.0f} %", b["h2d_gb_per_second"], b["d2h_gb_per_second"], b["both_ways_gb_per_second"])
               for b in bench))
    kernels = rows(folder / "kernels.jsonl")
    if kernels:
        print("## Codecs, a pair of time levels\n")
        table(("codec", "bound", "extent", "fill", "ratio", "compress GB/s", "decompress GB/s", "copy GB/s", "of the copy", "of the copy"),
              ((k["codec"], k["bound"], k["extent"], k["fill"], k["ratio"], k["compress_gbs"], k["decompress_gbs"], k["copy_gbs"],
                f"{100 * k['compress_of_copy']:.0f} %", f"{100 * k['decompress_of_copy']:.0f} %") for k in kernels))
    rtm = rows(folder / "rtm.jsonl")
    if rtm:
        print("## Images against keeping every state\n")
        table(("cells", "algorithm", "cache", "identical", "hash", "seconds", "stall"),
              ((f"{r['n1']}x{r['n2']}x{r['n3']}", r["algorithm"], r["cache"], r["identical"], r["image_hash"],
                f"{r['migration_seconds']:.3f}", f"{r['stall']:.3f}") for r in rtm))
    for path in sorted(folder.glob("stall-*.jsonl")):
        runs = rows(path)
        if not runs:
            continue
        first = runs[0]
        same = len({run["image_hash"] for run in runs if run.get("ratio", 1) == 1}) == 1
        print(f"## Stall: {first['algorithm']}, {first['extent']}^3 points, {first['steps']} steps\n")
        print(f"A snapshot is {first['slot_bytes'] / 1e6:.0f} MB, a forward step {1e3 * first['forward_step_seconds']:.3f} ms, a "
              f"backward step {1e3 * first['backward_step_seconds']:.3f} ms. Images: {'identical' if same else 'DIFFERENT'}.\n")
        table(("algorithm", "snapshots", "cache", "policy", "seconds", "stall", "GB up", "GB down", "speed-up", "over ideal of plan",
               "over ideal of problem", "ratio", "image dB", "GB of device"), stall_rows(runs))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
