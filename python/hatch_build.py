"""Puts the library and the command gpuzip into the wheel.

They come from the folder of the library that GPUZIP_LIBRARY names, or else from cargo's folder
target/release, after `cargo build --release` has brought it up to date.
"""

import os
import subprocess
import sysconfig
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FILES = {"libgpuzip.so": "libgpuzip.so.0", "gpuzip": "gpuzip"}


class Hook(BuildHookInterface):
    def initialize(self, version, build_data):
        folder = self.binaries()
        for name, packaged in FILES.items():
            source = folder / name
            if not source.exists() and name != packaged:
                source = folder / packaged
            if not source.exists():
                raise FileNotFoundError(f"{source} is missing: `make build` makes it")
            build_data["force_include"][str(source)] = f"gpuzip/{packaged}"
        build_data["pure_python"] = False
        # The files need no version of Python, but this operating system and processor.
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"py3-none-{platform}"

    def binaries(self):
        """The folder with the library and the command."""
        named = os.environ.get("GPUZIP_LIBRARY")
        if named:
            path = Path(named).resolve()
            return path if path.is_dir() else path.parent
        repository = Path(self.root).parent
        target = Path(os.environ.get("CARGO_TARGET_DIR", repository / "target"))
        try:
            # Cargo builds nothing where target/release is up to date.
            subprocess.run(
                [os.environ.get("CARGO", "cargo"), "build", "--release", "--workspace"],
                cwd=repository,
                check=True,
            )
        except FileNotFoundError:
            if not (target / "release" / "libgpuzip.so").exists():
                raise RuntimeError(
                    "gpuzip's library is not built, and cargo is not installed to build it: see "
                    "https://rustup.rs"
                ) from None
        return (repository / target / "release").resolve()
