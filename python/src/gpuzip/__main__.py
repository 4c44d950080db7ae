"""`python -m gpuzip` is the command gpuzip."""

import os
import sys

from .errors import Error
from .process import executable

try:
    path = executable()
except Error as reason:
    sys.exit(f"python -m gpuzip: {reason}")
os.execv(path, [path, *sys.argv[1:]])
