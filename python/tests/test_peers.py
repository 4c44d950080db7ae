"""The program that compares gpuzip's codecs with other compressors: what it says of codecs that are not there, fail, or miss the bound."""

import math
import os
import stat
import subprocess
import sys
import tempfile
import unittest
from array import array

import gpuzip.codec
from support import needs_numpy

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../benches/peers.py")
OURS = "gpuzip lorenzo;gpuzip dct;gpuzip cuszp;gpuzip lossless"


@needs_numpy
class Peers(unittest.TestCase):
    def rows_of(self, only, decoder=None):
        """The output, and the rows of its table as (codec, what was asked, ratio, violations)."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "wave_16x16x16.f32")
            with open(path, "wb") as file:
                array("f", [math.sin(0.01 * k) * math.cos(0.3 * (k % 16)) for k in range(4096)]).tofile(file)
            for name, script in (("compress", 'head -c 99 "$1" > "$2"'), ("decompress", decoder)):
                if decoder:
                    program = os.path.join(folder, f"abs_{name}_ser")
                    with open(program, "w") as file:
                        file.write(f"#!/bin/sh\n{script}\necho 'lc ecltime, 0.001'\n")
                    os.chmod(program, stat.S_IRWXU)
            named = {"GPUZIP_LIBRARY": gpuzip.codec.library._name, "SPERR": os.path.join(folder, "none"), "PFPL": folder}
            words = [sys.executable, PROGRAM, "--repeat", "1", "--only", only, path]
            done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, **named})
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        cells = [line.strip("| ").split(" | ") for line in done.stdout.splitlines() if line.startswith("| ")]
        return done.stdout, [(row[0], row[1], row[2], row[6]) for row in cells[1:]]

    def test_our_codecs_keep_bounds_and_absent_peers_are_named(self):
        text, rows = self.rows_of(OURS + ";SPERR;PFPL")
        self.assertEqual(sorted({row[0] for row in rows}), sorted(OURS.split(";")))
        self.assertEqual(len(rows), 3 * 6 + 1)
        for codec, asked, ratio, violations in rows:
            self.assertGreater(float(ratio), 1, (codec, asked))
            self.assertEqual(violations, "–" if "dB" in asked or "L2" in asked else "0", (codec, asked))
        self.assertIn("not found: SPERR: build libSPERR.so", text)
        self.assertIn("not found: PFPL: make serial", text)
        self.assertIn("published, not measured here: an autoencoder", text)

    def test_missed_bounds_are_counted(self):
        rows = self.rows_of("PFPL", 'head -c 16384 /dev/zero > "$2"')[1]
        self.assertEqual([row[1] for row in rows], ["0.01", "0.001", "0.0001", "60 dB", "80 dB", "5% L2"])
        for _, asked, ratio, violations in rows[:3]:
            self.assertGreater(int(violations), 3000, asked)
        for _, asked, ratio, violations in rows[3:]:
            self.assertRegex(ratio, "^failed: .* dB were not reached$")

    def test_failures_have_no_ratio(self):
        for decoder in ("exit 3", "true", 'head -c 99 /dev/zero > "$2"', "head -c 16384 /dev/zero | tr '\\0' '\\377' > \"$2\""):
            for _, asked, ratio, violations in self.rows_of("PFPL", decoder)[1]:
                self.assertRegex(ratio, "^failed: ", (decoder, asked))


if __name__ == "__main__":
    unittest.main()
