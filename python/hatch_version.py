"""The version of the package: that of the library, in the Cargo.toml of the repository, or of the folder
`library` in an sdist."""

import re
from pathlib import Path

_HERE = Path(__file__).resolve().parent
_CARGO = next(path for path in (_HERE / "library/Cargo.toml", _HERE.parent / "Cargo.toml") if path.exists())
__version__ = re.search(r'^version = "([^"]+)"', _CARGO.read_text(), re.MULTILINE)[1]
