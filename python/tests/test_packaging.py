"""What pip builds from: the files of an sdist, and the version and licence of the package."""

import os
import runpy
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

import gpuzip

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))


def text(*path):
    with open(os.path.join(*path)) as file:
        return file.read()


class Packaging(unittest.TestCase):
    def test_version_and_licence_are_those_of_the_library(self):
        self.assertEqual(runpy.run_path(os.path.join(ROOT, "python/hatch_version.py"))["__version__"], gpuzip.__version__)
        self.assertEqual(text(ROOT, "python/LICENSE"), text(ROOT, "LICENSE"))

    def test_an_sdist_has_what_cargo_reads(self):
        with tempfile.TemporaryDirectory() as folder:
            words = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", folder]
            done = subprocess.run(words, cwd=os.path.join(ROOT, "python"), capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            name = f"gpuzip-{gpuzip.__version__}"
            with tarfile.open(os.path.join(folder, f"{name}.tar.gz")) as archive:
                self.assertEqual([m.name for m in archive if not (m.isfile() or m.isdir())], [])
                names = [m.name for m in archive]
                archive.extractall(folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
            self.assertEqual(len(names), len(set(names)))
            self.assertEqual([n for n in names if n.endswith((".so", ".so.0", ".pyc")) or "/target/" in n], [])
            sdist = os.path.join(folder, name)
            found = runpy.run_path(os.path.join(sdist, "hatch_version.py"))["__version__"]
            self.assertEqual(found, gpuzip.__version__)
            for file in ("src/gpuzip/__init__.py", "src/gpuzip/py.typed", "LICENSE", "hatch_build.py", "library/Cargo.lock"):
                self.assertTrue(os.path.exists(os.path.join(sdist, file)), file)
            for part in ("src", "kernels", "cli/src"):
                theirs = subprocess.run(["diff", "-r", os.path.join(ROOT, part), os.path.join(sdist, "library", part)])
                self.assertEqual(theirs.returncode, 0, part)
            cargo = shutil.which(os.environ.get("CARGO", "cargo"))
            if cargo:
                words = [cargo, "metadata", "--no-deps", "--locked", "--offline", "--format-version", "1"]
                done = subprocess.run(words, cwd=os.path.join(sdist, "library"), capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
