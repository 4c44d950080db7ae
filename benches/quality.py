#!/usr/bin/env python3
"""Held-out cases of the key `quality`: rtm3d chooses a bound on its first shot and checks it on the one in
the middle; the errors of all other shots are compared with what was asked.

    python3 benches/quality.py build/rtm3d MODELS [--shots 12] [--out FILE]

MODELS is a folder with overthrust2d_201x81_25m_vp.f32 and marmousi2_1700x350_10m_vp.f32 (raw FP32, depth
fastest), of which every fourth cell is taken; the third model is the built-in salt dome. Each line is a
configuration; the last one sums up all cases.
"""

import argparse
import array
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile

CODECS = ["dct", "lorenzo", "cuszp"]
TARGETS = ["gradient:1e-1", "gradient:1e-2", "gradient:1e-3", "gradient:1e-4", "image:40dB", "image:60dB", "image:80dB"]


def models(folder, scratch):
    """Yields a name and options of rtm3d for each model."""
    yield "salt dome", ["--n1", "64", "--n2", "160", "--n3", "1"]
    path = os.path.join(folder, "overthrust2d_201x81_25m_vp.f32")
    yield "overthrust", ["--model", path, "--n1", "81", "--n2", "201", "--dx", "25"]
    whole = array.array("f")
    with open(os.path.join(folder, "marmousi2_1700x350_10m_vp.f32"), "rb") as file:
        whole.frombytes(file.read())
    few = array.array("f")
    for i2 in range(0, 1700, 8):
        few.extend(whole[350 * i2 : 350 * (i2 + 1) : 4])
    path = os.path.join(scratch, "marmousi2.f32")
    with open(path, "wb") as file:
        few.tofile(file)
    yield "marmousi2", ["--model", path, "--n1", "88", "--n2", "213", "--dx", "40"]


def ratio(target, result):
    """Returns the errors of all shots in parts of what is asked, and whether they are of the gradient."""
    kind, asked = target.split(":")
    if kind == "gradient":
        return [error / float(asked) for error in result["relative_l2"]]
    return [10 ** ((float(asked[:-2]) - (db if db is not None else 999)) / 20) for db in result["psnr"]]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rtm3d")
    parser.add_argument("models")
    parser.add_argument("--shots", type=int, default=12)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--every", type=int, default=1, help="take every k-th configuration only")
    parser.add_argument("--out")
    arguments = parser.parse_args()
    cases, lines = [], []
    with tempfile.TemporaryDirectory() as scratch:
        all_of = list(itertools.product(models(arguments.models, scratch), TARGETS, CODECS))
        for (name, options), target, codec in all_of[:: arguments.every]:
            mode = ["--gradient"] if target.startswith("gradient") else []
            variables = {"GPUZIP_QUALITY": target, "GPUZIP_COMPRESSOR": codec, "GPUZIP_BACKEND": "host"}
            variables["GPUZIP_CHECKPOINTING_ALGORITHM"] = "store-all"
            command = [arguments.rtm3d, *options, *mode, "--shots", str(arguments.shots), "--steps", str(arguments.steps)]
            command += ["--verify", "--json", "--out", os.path.join(scratch, "out")]
            done = subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True)
            if not done.stdout.startswith("{"):
                lines.append(f"{name:11} {target:14} {codec:8} failed: {done.stderr.strip()}")
                print(lines[-1], flush=True)
                continue
            result = json.loads(done.stdout)["quality"]
            errors = ratio(target, result)
            held = [e for i, e in enumerate(errors) if i not in (0, arguments.shots // 2)]
            cases += held
            first = f"{errors[0]:.2f} {errors[arguments.shots // 2]:.2f}"
            lines.append(
                f"{name:11} {target:14} {codec:8} bound {result['error_bound']:.2e}, {result['runs']} runs, measured {first}, "
                f"others {min(held):.2f} {statistics.median(held):.2f} {max(held):.2f}"
            )
            print(lines[-1], flush=True)
    kept = sum(e <= 1 for e in cases)
    lines.append(f"{kept} of {len(cases)} cases keep the error; median {statistics.median(cases):.2f} of it, largest {max(cases):.2f}")
    print(lines[-1])
    if arguments.out:
        with open(arguments.out, "w") as file:
            file.write("\n".join(lines) + "\n")
    return 0 if kept >= 0.99 * len(cases) else 1


if __name__ == "__main__":
    sys.exit(main())
