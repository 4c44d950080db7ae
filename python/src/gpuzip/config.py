"""The configuration of schedules and sessions."""

import contextlib
import ctypes
import difflib
import os
import re
import warnings
from typing import TYPE_CHECKING, Any, Dict, Iterator, Mapping, Optional, Union

from . import _abi
from ._library import library
from .errors import BudgetError, ConfigError, UnsupportedError, check

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._keys import ConfigKeys

_TYPES = {field[0]: field[1] for field in _abi.gpuzip_config_t._fields_}
_RETIRED = {"huge_pages"}  # keys of earlier versions: accepted, with a warning
_UNITS = {"": 1, "b": 1}
for _power, _letter in enumerate("kmgt", 1):
    _UNITS[_letter] = _UNITS[_letter + "ib"] = 1024**_power
    _UNITS[_letter + "b"] = 1000**_power


def _fold(name: str) -> str:
    return name.lower().replace("-", "_")


def _number(text: str, unit: str) -> Optional[float]:
    """Returns the number that `text` stands for, in bytes if the key counts bytes."""
    text = text.strip()
    factor = 1
    if unit.startswith("bytes"):
        text = text[:-2] if unit == "bytes/s" and text.endswith("/s") else text
        match = re.fullmatch(r"(.*[0-9.])\s*([a-zA-Z]*)", text)
        if not match or match[2].lower() not in _UNITS:
            return None
        text, factor = match[1], _UNITS[match[2].lower()]
    try:
        return int(text) * factor
    except ValueError:
        pass
    try:
        return float(text) * factor
    except ValueError:
        return None


def _checked(key: str, value: Any) -> Any:
    """Returns `value` as the field `key` of the C struct takes it."""
    unit, choices, names, _ = _abi.KEYS[key]
    kind = _TYPES[key]
    wrong = ConfigError(f"{key} = {value!r}: use {choices}")
    if kind is ctypes.c_char_p:
        if "number" in choices and not isinstance(value, (str, bytes)):
            try:
                value = repr(float(value))
            except (TypeError, ValueError):
                raise wrong from None
        if names and _fold(str(value)) not in names:
            raise wrong
        try:
            path = os.fsencode(value)
        except TypeError:
            raise wrong from None
        if b"\0" in path:
            raise wrong
        return path
    if isinstance(value, str):
        named = [number for name, number in names.items() if _fold(name) == _fold(value)]
        value = named[0] if named else _number(value, unit)
    try:
        if kind in (ctypes.c_double, ctypes.c_float):
            return float(value)
        whole = int(value)
    except (TypeError, ValueError, OverflowError):
        raise wrong from None
    # Without a suffix a count must be whole; a fraction of a byte is dropped.
    if whole != value and unit != "bytes":
        raise wrong
    if names and whole not in names.values() and not (key == "compressor" and 64 <= whole <= 255):
        raise wrong
    least = 0 if kind is ctypes.c_uint64 or choices.startswith("a whole number from 0") else -(2**31)
    most = 2**64 - 1 if kind is ctypes.c_uint64 else 2**31 - 1
    if not least <= whole <= most:
        raise wrong
    return whole


class Config:
    """The configuration of a schedule or session: its attributes are the keys of configuration files.

    `Config(checkpointing_algorithm="revolve", host_budget="4G")` sets two keys; the others have
    their defaults. A value that has a name can be given by name or by number, a yes or no also as
    a bool, a byte count also as a text with a suffix (K, M, G, T and KiB to TiB are powers of 1024,
    kB to TB of 1000), a path also as a `pathlib.Path`. An unknown key or a value that the key does
    not accept is a `ConfigError`. `gpuzip.keys()` describes all keys.

    The environment variables GPUZIP_<KEY> have an effect on `Config.load` only, but for GPUZIP_CHECK, which every
    session follows.
    """

    __slots__ = ("_struct",)

    def __init__(self, **keys: "Unpack[ConfigKeys]") -> None:
        object.__setattr__(self, "_struct", _abi.gpuzip_config_t())
        check(library.gpuzip_config_init(self._struct))
        self.update(keys)

    @classmethod
    def load(cls, path: Union[str, "os.PathLike[str]", None] = None, **keys: "Unpack[ConfigKeys]") -> "Config":
        """Returns the defaults, changed by the file at `path` (None: no file), then by the
        environment variables GPUZIP_<KEY>, and then by `keys`."""
        config = cls()
        named = None if path is None else os.fsencode(path)
        check(library.gpuzip_config_load(named, config._struct))
        config.update(keys)
        return config

    def update(self, keys: Mapping[str, Any]) -> None:
        """Sets all `keys`."""
        for key, value in keys.items():
            setattr(self, key, value)

    def copy(self, **keys: "Unpack[ConfigKeys]") -> "Config":
        """Returns a configuration with the same values, changed by `keys`."""
        return Config(**{**self.changed(), **keys})

    def __reduce__(self) -> Any:
        return _made, (self.changed(),)

    def changed(self) -> Dict[str, Any]:
        """Returns the keys whose values are not the defaults, with their values."""
        return {key: value for key, value in self if value != _DEFAULTS[key]}

    def __iter__(self) -> Iterator[Any]:
        return ((key, getattr(self, key)) for key in _abi.KEYS)

    def __setattr__(self, key: str, value: Any) -> None:
        if key in _RETIRED:
            warnings.warn(f"{key} has no effect any more and can be removed", stacklevel=3)
            return
        if key not in _abi.KEYS:
            raise ConfigError(f"there is no configuration key {key!r}{_hint(key)}")
        setattr(self._struct, key, _checked(key, value))

    def __getattr__(self, key: str) -> Any:
        if key not in _abi.KEYS:
            raise AttributeError(f"there is no configuration key {key!r}{_hint(key)}")
        value = getattr(self._struct, key)
        if isinstance(value, bytes):
            return os.fsdecode(value)
        if "true" in _abi.KEYS[key][2] and value in (0, 1):
            return bool(value)
        return name_of(key, value)

    def __dir__(self) -> "list[str]":
        return [*super().__dir__(), *_abi.KEYS]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Config):
            return NotImplemented
        return list(self) == list(other)

    def __repr__(self) -> str:
        return f"Config({', '.join(f'{key}={value!r}' for key, value in self.changed().items())})"


def _made(keys: Dict[str, Any]) -> Config:
    """The configuration of a pickle."""
    return Config(**keys)


def name_of(key: str, value: Any) -> Any:
    """Returns the name of a value of this key, or the value if it has none."""
    return next((name for name, number in _abi.KEYS[key][2].items() if number == value), value)


# Keywords of some functions, which are no keys.
_KEYWORDS = {
    "memory": "memory is a keyword of gpuzip.adjoint and of scan; here give host_budget, on a GPU device_budget",
    "progress": "progress is a keyword of gpuzip.adjoint; gpuzip.progress shows the bar in your own loop",
    "keep": "keep is a keyword of gpuzip.adjoint",
}


def _hint(key: str) -> str:
    if key in _KEYWORDS:
        return f": {_KEYWORDS[key]}"
    near = difflib.get_close_matches(key, _abi.KEYS, 1)
    return f": did you mean {near[0]}?" if near else "; gpuzip.keys() lists all keys"


def of(config: Optional[Config], keys: Mapping[str, Any]) -> Config:
    """Returns `config`, or the defaults, changed by `keys`."""
    if config is None:
        return Config(**keys)
    return config.copy(**keys) if keys else config


def budget(memory: Any) -> int:
    """Returns the number of bytes that the keyword `memory` says."""
    try:
        found = int(Config(host_budget=memory).host_budget)
    except ConfigError as reason:
        raise ConfigError(str(reason).replace("host_budget", "memory", 1)) from None
    if found == 0:
        raise ConfigError(f"memory = {memory!r}: give a number of bytes above 0")
    return found


@contextlib.contextmanager
def given_as_memory(key: Optional[str]) -> Iterator[None]:
    """A block whose errors of budgets say that the caller has given the key `key` as `memory`; None: it has not."""
    try:
        yield
    except BudgetError as reason:
        if key is not None:
            reason.args = (f"{reason}; memory is {key} here",)
        raise


def without_restart(function: str, config: Config) -> None:
    """Raises an error if the configuration asks for restart files, which `function` does not write."""
    if config.persist_dir:
        raise UnsupportedError(
            f"persist_dir: {function} writes no restart files; gpuzip.adjoint does, and a loop of your own over a "
            "gpuzip.Session can"
        )


def keys() -> Dict[str, Dict[str, Any]]:
    """Returns every key of a configuration with its default, its unit, the values that it accepts
    and its meaning."""
    return {
        key: {"default": _DEFAULTS[key], "unit": unit, "values": choices, "meaning": meaning}
        for key, (unit, choices, _, meaning) in _abi.KEYS.items()
    }


_DEFAULTS: Dict[str, Any] = dict(Config())
