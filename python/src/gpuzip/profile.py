"""Profiles: measured speeds, by which `auto` plans and predicts."""

import os
from typing import List, Union

from . import _abi
from ._files import new_file
from ._library import library
from ._records import filled
from .records import ProfileInfo


class Profile:
    """Measured times of steps, links and codecs, as bytes that mean the same on every machine:
    broadcast them, or write them to a file.

    `Session.autotune` measures a profile, `Session.profile` returns it, and assigning to
    `Session.profile` plans with it. Damaged bytes are a `ParseError` or `StreamError` of the first
    call that reads them.
    """

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = bytes(data)

    @classmethod
    def load(cls, path: Union[str, "os.PathLike[str]"]) -> "Profile":
        """Reads the file of a profile."""
        with open(path, "rb") as file:
            return cls(file.read())

    def save(self, path: Union[str, "os.PathLike[str]"]) -> None:
        """Writes the profile to a file, for the key `profile_path`; never through a link of others."""
        with new_file(path) as file:
            file.write(self.data)

    def info(self, index: int = 0) -> ProfileInfo:
        """Returns the speeds of steps in milliseconds, of copies and of codec `index` in GB/s."""
        return filled(
            ProfileInfo,
            _abi.gpuzip_profile_info_t,
            lambda raw: library.gpuzip_profile_info(self.data, len(self.data), index, raw),
        )

    def codecs(self) -> List[ProfileInfo]:
        """Returns one record for each codec of the profile."""
        return [self.info(index) for index in range(self.info().codecs)]

    def __bytes__(self) -> bytes:
        return self.data

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Profile) and self.data == other.data

    def __hash__(self) -> int:
        return hash(self.data)
