#!/usr/bin/env python3
"""summary.py RESULTS LOGS: the rows of the file RESULTS (results.jsonl of `run`) as Markdown, with
the log of the part `machine` and the ends of the logs of parts that failed, from the folder LOGS."""
import json
import pathlib
import sys

# Members that say where a row is from, and stand in the heading.
ABOUT = ("part", "probe", "device", "software")
# Lines that the summary keeps of the log of a part that failed.
LOG_LINES = 60


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


def text(value):
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value)


def plain(found):
    """A table of rows of one kind, with their members as columns."""
    keys = [key for key in dict.fromkeys(key for row in found for key in row) if key not in ABOUT]
    table([key.replace("_", " ") for key in keys], ([text(row.get(key)) for key in keys] for row in found))


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


def stall(runs):
    first = runs[0]
    same = len({run["image_hash"] for run in runs if run.get("ratio", 1) == 1}) == 1
    print(f"{first['algorithm']}, {first['extent']}^3 points, {first['steps']} steps. A snapshot is {first['slot_bytes'] / 1e6:.0f} MB, a "
          f"forward step {1e3 * first['forward_step_seconds']:.3f} ms, a backward step {1e3 * first['backward_step_seconds']:.3f} ms. "
          f"Images: {'identical' if same else 'DIFFERENT'}.\n")
    table(("algorithm", "snapshots", "cache", "policy", "seconds", "stall", "GB up", "GB down", "speed-up", "over ideal of plan",
           "over ideal of problem", "ratio", "image dB", "GB of device"), stall_rows(runs))


def images(found):
    """The kernels that the driver loaded; those that it refused are named."""
    refused = [row["source"] for row in found if not row["loads"]]
    print(f"{len(found)} kernel images: {'all load' if not refused else 'REFUSED: ' + ', '.join(refused)}.\n")


def result(verdict):
    """The word for how a part ended: 124 and 137 are the exit codes of `timeout`."""
    code = verdict["exit_code"]
    if code in (124, 137):
        if not verdict.get("cut"):
            return "out of time"
        return "cut at the deadline" if verdict["limit"] else "not begun before the deadline"
    return {0: "ok", 77: "skipped"}.get(code, f"FAILED ({code})")


def overview(verdicts):
    table(("part", "result", "seconds", "limit"),
          ((v["part"], result(v), v["seconds"], v["limit"]) for v in verdicts))
    cut = [v for v in verdicts if v.get("cut") and v["exit_code"] in (124, 137)]
    if cut:
        print(f"The deadline of {cut[0]['deadline']} s cut: {', '.join(v['part'] for v in cut)}. "
              "`run PART` runs a part by itself.\n")


def log(folder, part, lines=None):
    """The last lines of a part's log; all of them if `lines` is None."""
    path = folder / f"{part}.log"
    if path.exists():
        kept = path.read_text(errors="replace").strip().splitlines()
        kept = kept[-lines:] if lines else kept
        print(f"## The log of `{part}`\n\n```text\n" + "\n".join(kept) + "\n```\n")


def main(results, logs):
    all_rows = rows(results)
    verdicts = [row for row in all_rows if "exit_code" in row and "limit" in row]
    found = [row for row in all_rows if row not in verdicts]
    machine = next((row for row in found if row.get("probe") == "machine"), None)
    device = next((row["device"] for row in found if "device" in row), "unknown device")
    software = any(row.get("software") for row in found)
    print(f"# gpuzip on {device}\n")
    if software:
        print("The device is the software CUDA driver of `tests/cuda-emu`: nothing here is a figure "
              "of a GPU.\n")
    commits = sorted({row["commit"] for row in verdicts})
    gpus = sorted({row["gpu"] for row in verdicts if row.get("gpu")})
    version = f", CUDA driver {machine['driver_version']}" if machine else ""
    print(f"Commit {', '.join(commits) or 'unknown'}. GPU and driver: {'; '.join(gpus) or device}"
          f"{version}. Each part: `run PART`.\n")
    overview(verdicts)
    for part in dict.fromkeys(row["part"] for row in found):
        of = [row for row in found if row["part"] == part]
        print(f"## {part}\n")
        for probe in dict.fromkeys(row.get("probe") for row in of):
            kind = [row for row in of if row.get("probe") == probe]
            if probe == "image":
                images(kind)
            elif part.startswith("stall") and not software:
                stall(kind)
            else:
                plain(kind)
    log(logs, "machine")
    for verdict in verdicts:
        if verdict["exit_code"] not in (0, 77) and verdict["part"] != "machine":
            log(logs, verdict["part"], LOG_LINES)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
