"""Source packages of PyPI, for tests that run what lies in them."""

import atexit
import glob
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile


def unpacked(package, version):
    """Downloads the source package of this version, unpacks it in a temporary folder that is removed
    when the process ends, and returns the folder of its files."""
    holder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, holder)
    options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-binary", package]
    subprocess.run(
        [sys.executable, "-m", "pip", "download", *options, f"{package}=={version}"],
        cwd=holder, check=True,
    )  # fmt: skip
    (archive,) = glob.glob(os.path.join(holder, "*.tar.gz"))
    with tarfile.open(archive) as tar:
        tar.extractall(holder)
    return archive[: -len(".tar.gz")]
