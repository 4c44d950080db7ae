"""The types of the configuration's keys follow the library's table, and the exported names are written down.
`python test_typing.py --write` writes the types anew, after the table has changed."""

import ast
import ctypes
import os
import pathlib
import sys
import types
import unittest

import gpuzip
from gpuzip import _abi, _keys

HEAD = '''"""The types of the configuration's keys, for type checkers.

Written by python/tests/test_typing.py from the table in _abi.py.
"""

import os
from typing import Literal, TypedDict, Union

Path = Union[str, "os.PathLike[str]"]


class ConfigKeys(TypedDict, total=False):
    """The keys of a configuration, as `Session`, `Config` and others take them: a function of yours that hands them on
    has `**keys: Unpack[gpuzip.ConfigKeys]`."""
'''


def type_of(key):
    """The type of a key's values as text."""
    unit, choices, names, _ = _abi.KEYS[key]
    kind = dict(_abi.gpuzip_config_t._fields_)[key]
    if "true" in names:
        return "bool"
    if names:
        texts = ", ".join(f'"{name}"' for name in names)
        return f"Literal[{texts}]" if kind is ctypes.c_char_p else f"Union[Literal[{texts}], int]"
    if kind is ctypes.c_char_p:
        return {"a path": "Path", "nan or a number": "Union[str, float]"}.get(choices, "str")
    if unit.startswith("bytes"):
        return "Union[float, str]"
    return "float" if kind in (ctypes.c_float, ctypes.c_double) else "int"


def text():
    lines = [HEAD]
    for key, (unit, _, _, meaning) in _abi.KEYS.items():
        unit = f" [{unit}]" if unit else ""
        lines.append(f'    {key}: {type_of(key)}\n    """{meaning[0].upper()}{meaning[1:]}{unit}."""\n')
    return "\n".join(lines)


class Types(unittest.TestCase):
    def test_the_types_of_keys_follow_the_table(self):
        with open(_keys.__file__) as file:
            self.assertEqual(file.read(), text(), "python test_typing.py --write writes _keys.py anew")
        self.assertEqual(list(_keys.ConfigKeys.__annotations__), list(gpuzip.keys()))

    def test_values_of_these_types_are_accepted(self):
        examples = {"bool": [True, False], "int": [1], "float": [1, 0.5], "Union[float, str]": [4096.0, "1.5K"]}
        examples.update({"Path": ["file", pathlib.Path("file")], "Union[str, float]": ["nan", 1e20], "str": ["image:60dB"]})
        for key, (_, _, names, _) in _abi.KEYS.items():
            kind = type_of(key)
            numbers = list(names.values()) if "int]" in kind else []
            for value in examples.get(kind) or [*names, *numbers]:
                with self.subTest(key=key, value=value):
                    gpuzip.Config(**{key: value})  # or a ConfigError

    def test_the_exported_names_are_those_of_the_package(self):
        with open(gpuzip.__file__) as file:
            tree = ast.parse(file.read())
        (exported,) = (
            node.value for node in tree.body if isinstance(node, ast.Assign) and node.targets[0].id == "__all__"
        )
        self.assertEqual(ast.literal_eval(exported), gpuzip.__all__)
        self.assertEqual(sorted(set(gpuzip.__all__)), sorted(gpuzip.__all__))
        imported = [a.asname or a.name for n in tree.body if isinstance(n, ast.ImportFrom) for a in n.names]
        public = [name for name in imported if not name.startswith("_")]
        self.assertEqual(sorted(gpuzip.__all__), sorted([*public, "__version__"]))
        for name in gpuzip.__all__:
            self.assertNotIsInstance(getattr(gpuzip, name), types.ModuleType, name)


if __name__ == "__main__":
    if "--write" in sys.argv:
        with open(os.path.join(os.path.dirname(gpuzip.__file__), "_keys.py"), "w") as out:
            out.write(text())
    else:
        unittest.main()
