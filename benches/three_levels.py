#!/usr/bin/env python3
"""Compares `gpuzip plan` with an independent plan over device, host memory and disk.

Usage: three_levels.py GPUZIP [PROBLEMS [SEED]], where GPUZIP is the command.

The independent plan is simple and feasible: equal intervals whose first states lie on disk, sub-intervals
whose first states lie in host memory, and Revolve (Griewank and Walther, ACM TOMS 26, 2000) inside a
sub-interval on the device. Every transfer blocks the application. The numbers of intervals and
sub-intervals are the best of all that fit. For each random problem the command must be as fast, with a
disk as fast as without it, and its bound no higher than its plan.
"""

import json
import math
import random
import subprocess
import sys


def revolve(n, s):
    """The fewest forward steps and the snapshot writes that reverse n states with s snapshots."""
    if n <= 1:
        return 0, 0
    s = max(1, min(s, n - 1))
    if s == 1:
        return n * (n - 1) // 2, 1
    beta = lambda s, r: math.comb(s + r, s) if s >= 0 and r >= 0 else 0
    r = 1
    while beta(s, r) < n:
        r += 1
    return r * n - beta(s + 1, r - 1), max(beta(s - 1, r - 1), n - beta(s, r - 1))


def on_device(n, slots, step, copy):
    """Seconds beyond the n backward steps that reverse n states with device slots alone."""
    forward, writes = revolve(n, slots)
    return forward * step + (writes + n - 1) * copy


def in_memory(n, p):
    """As on_device, with sub-intervals whose first states lie in host memory."""
    best = on_device(n, p["device"], p["step"], p["copy"])
    for count in range(2, min(n, p["host"] + 1) + 1):
        length = math.ceil(n / count)
        count = math.ceil(n / length)
        last = n - (count - 1) * length
        inside = (count - 1) * on_device(length, p["device"], p["step"], p["copy"])
        inside += on_device(last, p["device"], p["step"], p["copy"])
        moved = (count - 1) * 2 * (p["link"] + p["copy"])
        best = min(best, (n - last) * p["step"] + inside + moved)
    return best


def independent(p):
    """Seconds of the best plan of all three levels."""
    n = p["n"]
    best = in_memory(n, p)
    count = 2
    while count <= min(n, p["disk_slots"] + 1):
        length = math.ceil(n / count)
        real = math.ceil(n / length)
        last = n - (real - 1) * length
        moved = (real - 1) * 2 * (p["disk"] + p["link"] + p["copy"])
        inside = (real - 1) * in_memory(length, p) + in_memory(last, p)
        best = min(best, (n - last) * p["step"] + inside + moved)
        count = count + max(1, count // 16)
    return best + n * p["step"]


def planned(command, options):
    found = subprocess.run([command, "plan", *options, "--json"], capture_output=True, text=True)
    return json.loads(found.stdout) if found.returncode == 0 else None


def main():
    command, count = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 60
    random.seed(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    ratios, without_disk, worst = [], [], (0, "")
    for _ in range(count):
        n = int(500 * 40 ** random.random())
        state, step = random.choice([0.5, 3.4, 8.0]), random.choice([5, 18, 60]) / 1000
        link_gbs = random.choice([10, 25, 50])
        disk = step * 0.3 * 133 ** random.random()  # seconds of a state, one way
        device, host = random.randint(3, 12), random.randint(8, 80)
        disk_slots = int(n * random.uniform(0.05, 1))
        gb = lambda states: f"{states * state:.3f}GB"
        options = ["--steps", str(n), "--state-bytes", gb(1), "--forward-ms", str(step * 1000)]
        options += ["--device-budget", gb(device), "--host-budget", gb(host)]
        options += ["--link-gbs", str(link_gbs), "--d2d-gbs", "500"]
        with_disk = ["--disk-budget", f"{disk_slots * (state + 0.001):.3f}GB", "--disk-gbs", f"{state / disk:.6f}"]
        ours, without = planned(command, options + with_disk), planned(command, options)
        copy = 2 * state / 500  # a copy within the device reads and writes each byte
        problem = {"n": n, "step": step, "copy": copy, "link": state / link_gbs, "disk": disk}
        # Four states of host memory are the staging buffers of the disk.
        problem |= {"device": device, "host": host - 4, "disk_slots": disk_slots}
        ratio = ours["predicted_s"] / independent(problem)
        ratios.append(ratio)
        without_disk.append(ours["predicted_s"] / without["predicted_s"])
        worst = max(worst, (ratio, " ".join(options + with_disk)))
        assert ours["bound_s"] <= ours["predicted_s"] * (1 + 1e-9), options
    mean = sum(ratios) / count
    print(f"{count} problems: time over that of the independent plan: mean {mean:.3f}, worst {worst[0]:.3f}")
    print(f"slower than the independent plan: {sum(r > 1 + 1e-9 for r in ratios)}")
    print(f"slower than without the disk: {sum(r > 1 + 1e-9 for r in without_disk)}, mean {sum(without_disk) / count:.3f}")
    print(f"worst: gpuzip plan {worst[1]}")


main()
