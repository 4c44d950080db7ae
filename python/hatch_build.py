"""Puts the library and the command gpuzip into the wheel.

They come from the folder of the library that GPUZIP_LIBRARY names, the command also from the folder bin
of an installation, or else from cargo's folder target/release, after `cargo build --release` has brought
it up to date. An editable installation has links to these files in src/gpuzip. The sources of the library
are the repository, or in an sdist the folder `library`.
"""

import os
import re
import subprocess
import sysconfig
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# Of each file its name in the package, its names elsewhere, and the folders in which it may be, relative to the one
# that GPUZIP_LIBRARY names: the library's, or PREFIX of `make install`, where lib/gpuzip is a folder of modules.
FILES = {
    "libgpuzip.so.0": (("libgpuzip.so", "libgpuzip.so.0"), ("", "lib")),
    "gpuzip": (("gpuzip",), ("", "bin", "../bin")),
}

# Processors by the number e_machine in the header of an ELF file.
PROCESSORS = {62: "x86_64", 183: "aarch64"}


def platform_tag(files):
    """The platform that the ELF files need, as PEP 600 names it.

    The version of glibc is the newest one that the files name; symbols carry such versions. Names
    that are in a file for another reason can only make the version newer. From 2.17 on, pip calls
    the platform manylinux2014 as well.
    """
    contents = [path.read_bytes() for path in files]
    versions = [int(v) for bytes in contents for v in re.findall(rb"\0GLIBC_2\.(\d+)", bytes)]
    processors = {PROCESSORS.get(int.from_bytes(bytes[18:20], "little")) for bytes in contents}
    if not versions or len(processors) != 1 or None in processors:
        # Another C library or processor: the files run on machines such as this one.
        return sysconfig.get_platform().replace("-", "_").replace(".", "_")
    (processor,) = processors
    if max(versions) <= 17:
        return f"manylinux2014_{processor}.manylinux_2_17_{processor}"
    return f"manylinux_2_{max(versions)}_{processor}"


class Hook(BuildHookInterface):
    def initialize(self, version, build_data):
        folder = self.binaries()
        sources = []
        for packaged, (names, places) in FILES.items():
            found = [folder / place / name for place in places for name in names]
            source = next((path for path in found if path.is_file()), None)
            if source is None:
                raise FileNotFoundError(f"{found[0]} is missing: `make build` makes it")
            if version == "editable":
                link = Path(self.root, "src/gpuzip", packaged)
                link.unlink(missing_ok=True)
                link.symlink_to(source)
            else:
                build_data["force_include"][str(source)] = f"gpuzip/{packaged}"
            sources.append(source)
        build_data["pure_python"] = False
        # The files need no version of Python.
        build_data["tag"] = f"py3-none-{platform_tag(sources)}"

    def binaries(self):
        """The folder with the library and the command."""
        named = os.environ.get("GPUZIP_LIBRARY")
        if named:
            path = Path(named).resolve()
            return path if path.is_dir() else path.parent
        repository = Path(self.root, "library")
        if not repository.exists():
            repository = Path(self.root).parent
        target = Path(os.environ.get("CARGO_TARGET_DIR", repository / "target"))
        try:
            # Cargo builds nothing where target/release is up to date.
            cargo = os.environ.get("CARGO", "cargo")
            packages = ["-p", "gpuzip", "-p", "gpuzip-cli"]
            subprocess.run([cargo, "build", "--release", *packages], cwd=repository, check=True)
        except FileNotFoundError:
            if not (target / "release" / "libgpuzip.so").exists():
                raise RuntimeError(
                    "gpuzip's library is not built, and cargo is not installed to build it: see "
                    "https://rustup.rs"
                ) from None
        return (repository / target / "release").resolve()
