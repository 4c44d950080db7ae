# Spack: `spack repo create DIR`, this file as packages/gpuzip/package.py in that folder,
# `spack repo add DIR`, `spack install gpuzip`. The tarball has the sources of all crates.
# For Spack 1.0 or newer. Not run: see docs/install.md.

from spack_repo.builtin.build_systems.makefile import MakefilePackage

from spack.package import *


class Gpuzip(MakefilePackage):
    """@DESCRIPTION@."""

    homepage = "@URL@"
    url = "@URL@/gpuzip-@VERSION@.tar.gz"

    license("@LICENSE@", checked_by="gpuzip")

    version("@VERSION@", sha256="@SHA256@")

    variant("fortran", default=True, description="Compile the Fortran module")

    depends_on("c", type="build")
    depends_on("fortran", type="build", when="+fortran")
    depends_on("gmake", type="build")
    depends_on("rust@@RUST@:", type="build")

    # CUDA and NVRTC are opened when the program runs, where they are there.

    def build(self, spec, prefix):
        make("build")

    def check(self):
        cargo = which("cargo", required=True)
        cargo("test", "--offline", "--test", "sessions")

    def install(self, spec, prefix):
        fc = env["FC"] if spec.satisfies("+fortran") else ""
        make("install", f"PREFIX={prefix}", f"FC={fc}")
