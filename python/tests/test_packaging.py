"""What pip builds from: the files of an sdist, the library that GPUZIP_LIBRARY names, and the version and licence of the
package."""

import os
import runpy
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile

import gpuzip
from gpuzip._library import library
from gpuzip.process import executable

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))


def text(*path):
    with open(os.path.join(*path)) as file:
        return file.read()


class Packaging(unittest.TestCase):
    def test_version_and_licence_are_those_of_the_library(self):
        self.assertEqual(runpy.run_path(os.path.join(ROOT, "python/hatch_version.py"))["__version__"], gpuzip.__version__)
        self.assertEqual(text(ROOT, "python/LICENSE"), text(ROOT, "LICENSE"))

    def test_a_wheel_has_the_files_of_an_installation(self):
        with tempfile.TemporaryDirectory() as folder:
            prefix = os.path.join(folder, "prefix")
            # As `make install` makes it: lib/gpuzip is the folder of the Fortran modules.
            for part in ("bin", "lib/gpuzip"):
                os.makedirs(os.path.join(prefix, part))
            shutil.copy(executable(), os.path.join(prefix, "bin/gpuzip"))
            shutil.copy(os.path.realpath(library._name), os.path.join(prefix, "lib/libgpuzip.so.0.1.0"))
            os.symlink("libgpuzip.so.0.1.0", os.path.join(prefix, "lib/libgpuzip.so.0"))
            os.symlink("libgpuzip.so.0", os.path.join(prefix, "lib/libgpuzip.so"))
            files = {"gpuzip/gpuzip": "bin/gpuzip", "gpuzip/libgpuzip.so.0": "lib/libgpuzip.so.0.1.0"}
            for named in ("", "lib", "lib/libgpuzip.so"):
                with self.subTest(named=named):
                    environment = {**os.environ, "GPUZIP_LIBRARY": os.path.join(prefix, named)}
                    words = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder]
                    done = subprocess.run(words, cwd=os.path.join(ROOT, "python"), env=environment, capture_output=True, text=True)
                    self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                    (wheel,) = (name for name in os.listdir(folder) if name.endswith(".whl"))
                    with zipfile.ZipFile(os.path.join(folder, wheel)) as archive:
                        for packed, installed in files.items():
                            with open(os.path.join(prefix, installed), "rb") as file:
                                self.assertEqual(archive.read(packed), file.read(), packed)
                    os.remove(os.path.join(folder, wheel))
                    # An installed package opens the same library.
                    code = "from gpuzip._library import library; print(library._name)"
                    found = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
                    self.assertTrue(os.path.samefile(found.stdout.strip(), os.path.join(prefix, "lib/libgpuzip.so")), found)

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
