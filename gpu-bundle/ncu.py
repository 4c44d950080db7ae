#!/usr/bin/env python3
"""ncu.py FILE: one JSON object per kernel in FILE, the output of `ncu --page raw --csv
--print-units base`: a line of columns, a line of units, then a line per kernel, among lines of ncu's
own. Exits with 1 where there is no kernel."""
import csv
import json
import sys

# Member of the object, ncu's metric, and how many of ncu's base units are one of the member's.
# Percent are of the most that the hardware can do.
METRICS = (
    ("seconds", "gpu__time_duration.sum", 1e9),
    ("dram_bytes", "dram__bytes.sum", 1),
    ("issue_percent", "sm__inst_issued.avg.pct_of_peak_sustained_active", 1),
    ("alu_percent", "sm__inst_executed_pipe_alu.avg.pct_of_peak_sustained_active", 1),
    ("dram_percent", "dram__throughput.avg.pct_of_peak_sustained_elapsed", 1),
    ("warps_percent", "sm__warps_active.avg.pct_of_peak_sustained_active", 1),
)


def number(text, unit):
    """A value of ncu, whose digits may be in groups of three (1,234.5); None where ncu has none."""
    try:
        return float(text.replace(",", "")) / unit
    except ValueError:
        return None


def kernels(lines):
    """The rows with a kernel's name behind the line of columns, as dictionaries."""
    columns = None
    for row in csv.reader(line for line in lines if line.startswith('"')):
        if "Kernel Name" in row:
            columns = row
        elif columns and len(row) == len(columns):
            named = dict(zip(columns, row))
            if named["Kernel Name"]:
                yield named


def main(path):
    count = 0
    with open(path) as lines:
        for kernel in kernels(lines):
            values = {member: number(kernel.get(metric, ""), unit)
                      for member, metric, unit in METRICS}
            name = kernel["Kernel Name"].split("(")[0]
            print(json.dumps({"probe": "encoder", "kernel": name, **values}))
            count += 1
    return 0 if count else f"ncu.py: no kernel in {path}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
